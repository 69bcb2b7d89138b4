//! Packets that answer a packet: resets and ICMP errors.

use std::net::{IpAddr, SocketAddr};

use crate::{
    Refusal,
    datagram::{self, Ip},
    packet::{self, ACK, FIN, ICMP, ICMPV6, Packet, RST, SYN, TCP, Tcp},
};

/// As much of a packet as an ICMP error quotes: headers, with some options. RFC 1812 section
/// 4.3.2.3 and RFC 4443 section 2.4 allow more, but no kernel needs it.
const QUOTED: usize = 128;
const DESTINATION_UNREACHABLE: u8 = 3;
const DESTINATION_UNREACHABLE_V6: u8 = 1;

/// A reset as the destination would send it (RFC 9293 section 3.5.2).
pub(crate) fn reset(packet: &Packet, tcp: &Tcp) -> Vec<u8> {
    let payload = packet.end - packet.transport - tcp.header;
    let counted = payload + usize::from(tcp.flags & SYN != 0) + usize::from(tcp.flags & FIN != 0);
    let (sequence, acknowledgement, flags) = if tcp.flags & ACK == 0 {
        (0, tcp.sequence.wrapping_add(counted as u32), RST | ACK)
    } else {
        (tcp.acknowledgement, 0, RST)
    };
    let mut segment = [0; 20];
    segment[..2].copy_from_slice(&tcp.destination.to_be_bytes());
    segment[2..4].copy_from_slice(&tcp.source.to_be_bytes());
    segment[4..8].copy_from_slice(&sequence.to_be_bytes());
    segment[8..12].copy_from_slice(&acknowledgement.to_be_bytes());
    segment[12] = 5 << 4;
    segment[13] = flags;
    let ip = Ip { from: packet.destination, to: packet.source, protocol: TCP };
    datagram::with_checksum(&ip, &mut segment, 16);
    datagram::packet(&ip, &[&segment])
}

/// An ICMP error about `bytes`, the packet `packet`, from `router` (RFC 792, RFC 4443 section 3.1).
pub(crate) fn unreachable(bytes: &[u8], packet: &Packet, refusal: Refusal, router: IpAddr) -> Vec<u8> {
    let v4 = packet.source.is_ipv4();
    let (protocol, kind, code) = if v4 {
        let code = match refusal {
            Refusal::Network => 0,
            Refusal::Host => 1,
            Refusal::Refused => 3,
            Refusal::Prohibited => 13,
        };
        (ICMP, DESTINATION_UNREACHABLE, code)
    } else {
        let code = match refusal {
            Refusal::Network => 0,
            Refusal::Prohibited => 1,
            Refusal::Host => 3,
            Refusal::Refused => 4,
        };
        (ICMPV6, DESTINATION_UNREACHABLE_V6, code)
    };
    let quoted = &bytes[..packet.end.min(QUOTED)];
    let mut message = vec![kind, code, 0, 0, 0, 0, 0, 0];
    message.extend(quoted);
    let ip = Ip { from: router, to: packet.source, protocol };
    datagram::icmp(&ip, message)
}

/// The answer to a SYN that was held: `syn` is its bytes.
pub(crate) fn refusal(syn: &[u8], refusal: Refusal, router: IpAddr) -> Option<Vec<u8>> {
    let packet = packet::Packet::read(syn).ok()?;
    Some(match refusal {
        Refusal::Refused => reset(&packet, &packet.tcp(syn).ok()?),
        _ => unreachable(syn, &packet, refusal, router),
    })
}

/// The packet's two ends.
pub(crate) fn ends(packet: &Packet, tcp: &Tcp) -> (SocketAddr, SocketAddr) {
    (SocketAddr::new(packet.source, tcp.source), SocketAddr::new(packet.destination, tcp.destination))
}

#[cfg(test)]
mod tests {
    use etherparse::{Icmpv4Slice, Icmpv6Slice, IpSlice, PacketBuilder, TcpSlice};

    use super::*;
    use crate::checksum;

    fn reset_of(packet: &[u8]) -> (SocketAddr, SocketAddr, u32, u32, u8) {
        let read = Packet::read(packet).unwrap();
        let answer = reset(&read, &read.tcp(packet).unwrap());
        let ip = IpSlice::from_slice(&answer).unwrap();
        let tcp = TcpSlice::from_slice(ip.payload().payload).unwrap();
        let (from, to) = (ip.source_addr(), ip.destination_addr());
        let right = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => tcp.calc_checksum_ipv4(from.octets(), to.octets()).unwrap(),
            (IpAddr::V6(from), IpAddr::V6(to)) => tcp.calc_checksum_ipv6(from.octets(), to.octets()).unwrap(),
            _ => unreachable!(),
        };
        assert_eq!(tcp.checksum(), right);
        let (from, to) =
            (SocketAddr::new(from, tcp.source_port()), SocketAddr::new(to, tcp.destination_port()));
        (from, to, tcp.sequence_number(), tcp.acknowledgment_number(), answer[ip_header(&answer) + 13])
    }

    fn ip_header(packet: &[u8]) -> usize {
        if packet[0] >> 4 == 4 { 20 } else { 40 }
    }

    #[test]
    fn a_syn_is_refused_with_the_number_that_it_expects() {
        let mut syn = Vec::new();
        let builder = PacketBuilder::ipv4([192, 0, 2, 1], [198, 51, 100, 7], 64);
        builder.tcp(1_000, 80, u32::MAX, 100).syn().write(&mut syn, &[]).unwrap();
        let (from, to) = ("198.51.100.7:80".parse().unwrap(), "192.0.2.1:1000".parse().unwrap());
        assert_eq!(reset_of(&syn), (from, to, 0, 0, RST | ACK));
    }

    #[test]
    fn what_belongs_to_nothing_is_reset_at_the_number_that_it_acknowledges() {
        let mut data = Vec::new();
        let builder = PacketBuilder::ipv6([1; 16], [2; 16], 64);
        builder.tcp(1_000, 80, 5, 100).ack(77).write(&mut data, b"data").unwrap();
        let (_, _, sequence, _, flags) = reset_of(&data);
        assert_eq!((sequence, flags), (77, RST));
    }

    #[test]
    fn errors_quote_the_packet() {
        for (refusal, v4_code, v6_code) in [
            (Refusal::Network, 0, 0),
            (Refusal::Host, 1, 3),
            (Refusal::Refused, 3, 4),
            (Refusal::Prohibited, 13, 1),
        ] {
            let mut v4 = Vec::new();
            PacketBuilder::ipv4([192, 0, 2, 1], [198, 51, 100, 7], 64)
                .udp(1, 2)
                .write(&mut v4, &[7; 300])
                .unwrap();
            let read = Packet::read(&v4).unwrap();
            let error = unreachable(&v4, &read, refusal, "198.18.0.2".parse().unwrap());
            let ip = IpSlice::from_slice(&error).unwrap();
            let icmp = Icmpv4Slice::from_slice(ip.payload().payload).unwrap();
            assert_eq!((icmp.type_u8(), icmp.code_u8(), checksum::checksum(icmp.slice())), (3, v4_code, 0));
            assert_eq!(icmp.payload(), &v4[..QUOTED]);

            let mut v6 = Vec::new();
            PacketBuilder::ipv6([1; 16], [2; 16], 64).udp(1, 2).write(&mut v6, &[7; 9]).unwrap();
            let read = Packet::read(&v6).unwrap();
            let error = unreachable(&v6, &read, refusal, "fd00::2".parse().unwrap());
            let ip = IpSlice::from_slice(&error).unwrap();
            let icmp = Icmpv6Slice::from_slice(ip.payload().payload).unwrap();
            assert_eq!((icmp.type_u8(), icmp.code_u8()), (1, v6_code));
            let (IpAddr::V6(from), IpAddr::V6(to)) = (ip.source_addr(), ip.destination_addr()) else {
                unreachable!()
            };
            assert!(icmp.is_checksum_valid(from.octets(), to.octets()));
            assert_eq!(icmp.payload(), v6);
        }
    }
}
