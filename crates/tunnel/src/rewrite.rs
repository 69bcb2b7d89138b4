//! Changes a TCP packet's addresses and ports in place, as a NAT does, and keeps its checksums as
//! right or wrong as they were.

use std::net::{IpAddr, SocketAddr};

use crate::{checksum, packet::Packet};

/// Where TCP has its checksum.
const TCP_CHECKSUM: usize = 16;

/// Makes `bytes`, a TCP packet that was read as `packet`, one from `from` to `to`. All addresses
/// are of one family.
pub(crate) fn tcp(bytes: &mut [u8], packet: &Packet, from: SocketAddr, to: SocketAddr) {
    let at = packet.transport;
    let mut ports = [0; 4];
    ports[..2].copy_from_slice(&from.port().to_be_bytes());
    ports[2..].copy_from_slice(&to.port().to_be_bytes());
    let mut change = checksum::change(&bytes[at..at + 4], &ports);
    bytes[at..at + 4].copy_from_slice(&ports);
    change += match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut new = [0; 8];
            new[..4].copy_from_slice(&from.octets());
            new[4..].copy_from_slice(&to.octets());
            let change = checksum::change(&bytes[12..20], &new);
            bytes[12..20].copy_from_slice(&new);
            checksum::adjust(&mut bytes[10..12], change);
            change
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut new = [0; 32];
            new[..16].copy_from_slice(&from.octets());
            new[16..].copy_from_slice(&to.octets());
            let change = checksum::change(&bytes[8..40], &new);
            bytes[8..40].copy_from_slice(&new);
            change
        }
        _ => 0,
    };
    checksum::adjust(&mut bytes[at + TCP_CHECKSUM..at + TCP_CHECKSUM + 2], change);
}

#[cfg(test)]
mod tests {
    use etherparse::{IpSlice, PacketBuilder, TcpSlice};
    use proptest::prelude::*;

    use super::*;

    fn packet(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let builder = match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 64),
            (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 64),
            _ => unreachable!(),
        };
        builder.tcp(from.port(), to.port(), 1, 2).ack(3).write(&mut out, payload).unwrap();
        out
    }

    /// What another implementation makes of the same packet with the new addresses.
    fn check(from: SocketAddr, to: SocketAddr, new_from: SocketAddr, new_to: SocketAddr, payload: &[u8]) {
        let mut bytes = packet(from, to, payload);
        let read = Packet::read(&bytes).unwrap();
        tcp(&mut bytes, &read, new_from, new_to);
        assert_eq!(bytes, packet(new_from, new_to, payload));
        let ip = IpSlice::from_slice(&bytes).unwrap();
        assert_eq!((ip.source_addr(), ip.destination_addr()), (new_from.ip(), new_to.ip()));
        let tcp = TcpSlice::from_slice(ip.payload().payload).unwrap();
        assert_eq!((tcp.source_port(), tcp.destination_port()), (new_from.port(), new_to.port()));
    }

    proptest! {
        #[test]
        fn rewritten_packets_are_as_if_they_were_made_so(
            (a, b, c, d) in any::<([u8; 6], [u8; 6], [u8; 6], [u8; 6])>(),
            payload in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let v4 = |x: [u8; 6]| SocketAddr::from(([x[0], x[1], x[2], x[3]], u16::from_be_bytes([x[4], x[5]])));
            check(v4(a), v4(b), v4(c), v4(d), &payload);
        }

        #[test]
        fn so_are_those_of_ipv6(
            (a, b, c, d) in any::<([u16; 9], [u16; 9], [u16; 9], [u16; 9])>(),
            payload in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let v6 = |x: [u16; 9]| SocketAddr::from(([x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]], x[8]));
            check(v6(a), v6(b), v6(c), v6(d), &payload);
        }
    }
}
