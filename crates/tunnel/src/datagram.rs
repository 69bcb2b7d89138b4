//! Packets that the engine makes: UDP and echo replies for programs.

use std::net::{IpAddr, SocketAddr};

use crate::{
    checksum,
    packet::{ICMP, ICMPV6, UDP},
};

/// Of packets that we make.
const HOP_LIMIT: u8 = 64;
const UDP_HEADER: usize = 8;
/// Packets that every link carries whole, near enough.
const SMALL: usize = 1_280;

/// What an IP header says.
pub(crate) struct Ip {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) protocol: u8,
}

/// A UDP packet with `payload`; `None` if it is too large for one, or the ends are of different
/// families.
pub fn udp(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
    let length = UDP_HEADER + payload.len();
    let ip = Ip { from: from.ip(), to: to.ip(), protocol: UDP };
    if !ip.fits(length) {
        return None;
    }
    let mut header = [0; UDP_HEADER];
    header[..2].copy_from_slice(&from.port().to_be_bytes());
    header[2..4].copy_from_slice(&to.port().to_be_bytes());
    header[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    let sum = checksum::sum(&header) + checksum::sum(payload) + ip.pseudo_header(length);
    let checksum = match !checksum::fold(sum) {
        // Zero stands for none (RFC 768).
        0 => 0xffff,
        checksum => checksum,
    };
    header[6..].copy_from_slice(&checksum.to_be_bytes());
    Some(packet(&ip, &[&header, payload]))
}

/// The answer to an echo request (RFC 792, RFC 4443 section 4.2); `None` as with [`udp`].
pub fn echo_reply(
    from: IpAddr,
    to: IpAddr,
    identifier: u16,
    sequence: u16,
    payload: &[u8],
) -> Option<Vec<u8>> {
    let (protocol, kind) = if from.is_ipv4() { (ICMP, 0) } else { (ICMPV6, 129) };
    let ip = Ip { from, to, protocol };
    if !ip.fits(8 + payload.len()) {
        return None;
    }
    let mut message = vec![kind, 0, 0, 0];
    message.extend(identifier.to_be_bytes());
    message.extend(sequence.to_be_bytes());
    message.extend(payload);
    Some(icmp(&ip, message))
}

impl Ip {
    /// Whether a packet with so many bytes behind the header may exist.
    fn fits(&self, length: usize) -> bool {
        let most = if self.from.is_ipv4() { 65_535 - 20 } else { 65_535 };
        self.from.is_ipv4() == self.to.is_ipv4() && length <= most
    }

    fn pseudo_header(&self, length: usize) -> u64 {
        checksum::pseudo_header(self.from, self.to, self.protocol, length)
    }
}

/// Writes the checksum over `segment` and the pseudo-header into the field `at`, which is zero.
pub(crate) fn with_checksum(ip: &Ip, segment: &mut [u8], at: usize) {
    let checksum = !checksum::fold(checksum::sum(segment) + ip.pseudo_header(segment.len()));
    segment[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// A packet around an ICMP message whose checksum is zero as yet.
pub(crate) fn icmp(ip: &Ip, mut message: Vec<u8>) -> Vec<u8> {
    if ip.from.is_ipv4() {
        let checksum = checksum::checksum(&message);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
    } else {
        with_checksum(ip, &mut message, 2);
    }
    packet(ip, &[&message])
}

/// An IP packet around `parts`, which fit.
pub(crate) fn packet(ip: &Ip, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(40 + length);
    match (ip.from, ip.to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out.extend([0x45, 0]);
            out.extend(((20 + length) as u16).to_be_bytes());
            if 20 + length <= SMALL {
                // Never fragmented, so that it needs no identification (RFC 6864).
                out.extend([0, 0, 0x40, 0]);
            } else {
                // A gateway may have to cut it for the host that it forwards it to. Ports, length and
                // checksum tell the pieces of different packets apart.
                out.extend(identification(parts).to_be_bytes());
                out.extend([0, 0]);
            }
            out.extend([HOP_LIMIT, ip.protocol, 0, 0]);
            out.extend(from.octets());
            out.extend(to.octets());
            let checksum = checksum::checksum(&out);
            out[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            out.extend([0x60, 0, 0, 0]);
            out.extend((length as u16).to_be_bytes());
            out.extend([ip.protocol, HOP_LIMIT]);
            out.extend(from.octets());
            out.extend(to.octets());
        }
        _ => unreachable!("callers pass addresses of one family"),
    }
    parts.iter().for_each(|part| out.extend(*part));
    out
}

/// Differs, mostly, where the first eight bytes do.
fn identification(parts: &[&[u8]]) -> u16 {
    let head = parts.iter().copied().flatten().take(UDP_HEADER);
    head.fold(0, |id: u16, byte| id.wrapping_mul(31).wrapping_add((*byte).into()))
}

#[cfg(test)]
mod tests {
    use etherparse::{IpSlice, PacketBuilder, UdpSlice};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packets_are_those_of_another_implementation(
            from: [u8; 4], to: [u8; 4], ports: (u16, u16),
            payload in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let ours = udp((from, ports.0).into(), (to, ports.1).into(), &payload).unwrap();
            let mut theirs = Vec::new();
            PacketBuilder::ipv4(from, to, 64).udp(ports.0, ports.1).write(&mut theirs, &payload).unwrap();
            prop_assert_eq!(ours, theirs);
        }

        #[test]
        fn those_of_ipv6_too(
            from: [u8; 16], to: [u8; 16], ports: (u16, u16),
            payload in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let ours = udp((from, ports.0).into(), (to, ports.1).into(), &payload).unwrap();
            let mut theirs = Vec::new();
            PacketBuilder::ipv6(from, to, 64).udp(ports.0, ports.1).write(&mut theirs, &payload).unwrap();
            prop_assert_eq!(ours, theirs);
        }

        #[test]
        fn echo_replies_too(from: [u8; 4], to: [u8; 4], id: u16, seq: u16, payload in proptest::collection::vec(any::<u8>(), 0..50)) {
            let ours = echo_reply(from.into(), to.into(), id, seq, &payload).unwrap();
            let mut theirs = Vec::new();
            PacketBuilder::ipv4(from, to, 64).icmpv4_echo_reply(id, seq).write(&mut theirs, &payload).unwrap();
            prop_assert_eq!(ours, theirs);
        }
    }

    /// Flags and identification of a packet.
    fn cutting(packet: &[u8]) -> (u8, [u8; 2]) {
        assert_eq!(checksum::checksum(&packet[..20]), 0);
        (packet[6], [packet[4], packet[5]])
    }

    #[test]
    fn large_packets_may_be_cut_by_who_forwards_them() {
        let ends: std::net::SocketAddr = "192.0.2.1:1".parse().unwrap();
        assert_eq!(cutting(&udp(ends, ends, &[1; 1_252]).unwrap()), (0x40, [0, 0]));
        let [one, other] = [1, 2].map(|byte| cutting(&udp(ends, ends, &[byte; 1_253]).unwrap()));
        assert_eq!((one.0, other.0), (0, 0));
        assert_ne!(one.1, other.1);
        let pings = [1, 2].map(|n| cutting(&echo_reply(ends.ip(), ends.ip(), 7, n, &[0; 2_000]).unwrap()));
        assert!(pings[0] != pings[1] && pings[0].0 == 0);
    }

    #[test]
    fn the_largest_fit_and_larger_ones_do_not() {
        let (v4, v6) = ("192.0.2.1:1".parse().unwrap(), "[2001:db8::1]:1".parse().unwrap());
        let largest = udp(v4, v4, &vec![0; 65_507]).unwrap();
        assert_eq!(largest.len(), 65_535);
        assert_eq!(
            UdpSlice::from_slice(IpSlice::from_slice(&largest).unwrap().payload().payload)
                .unwrap()
                .payload()
                .len(),
            65_507
        );
        assert_eq!(udp(v4, v4, &vec![0; 65_508]), None);
        assert!(udp(v6, v6, &vec![0; 65_527]).is_some());
        assert_eq!(udp(v6, v6, &vec![0; 65_528]), None);
        assert_eq!(udp(v4, v6, &[]), None);
    }
}
