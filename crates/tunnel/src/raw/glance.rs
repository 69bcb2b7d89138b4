//! Of which flow a packet is, and where it leads: nothing is checked that only its receiver need
//! check.

use std::net::{IpAddr, SocketAddr};

use recovery::slp_arbiter::Marks;

use crate::{
    Dropped, Refusal,
    packet::{self, FIN, ICMP, ICMPV6, PSH, Packet, SYN, TCP, UDP},
    replies,
};

/// The two ends of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Who has sent it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// Where it ends, in bytes; the buffer may be longer.
    pub end: usize,
}

/// Reads the addresses of an IP packet, which may be a fragment.
///
/// # Errors
/// [`Dropped::Malformed`] for what is none.
pub fn addresses(bytes: &[u8]) -> Result<Addresses, Dropped> {
    let field = |at: usize, length: usize| bytes.get(at..at + length).ok_or(Dropped::Malformed);
    let (source, destination, end) = match bytes.first().map(|byte| byte >> 4) {
        Some(4) => {
            let address = |at| field(at, 4).map(|octets| <[u8; 4]>::try_from(octets).expect("4").into());
            let (source, destination): (IpAddr, IpAddr) = (address(12)?, address(16)?);
            let header = usize::from(bytes[0] & 0xf) * 4;
            let end = usize::from(packet::be16(bytes, 2));
            if header < 20 || end < header {
                return Err(Dropped::Malformed);
            }
            (source, destination, end)
        }
        Some(6) => {
            let address = |at| field(at, 16).map(|octets| <[u8; 16]>::try_from(octets).expect("16").into());
            (address(8)?, address(24)?, 40 + usize::from(packet::be16(bytes, 4)))
        }
        _ => return Err(Dropped::Malformed),
    };
    if end > bytes.len() {
        return Err(Dropped::Malformed);
    }
    Ok(Addresses { source, destination, end })
}

/// Where a packet leads; the port is 0 where there are none.
pub fn remote(bytes: &[u8]) -> Option<SocketAddr> {
    let without_port = || addresses(bytes).ok().map(|ends| SocketAddr::new(ends.destination, 0));
    flow(bytes).map(|flow| SocketAddr::new(flow.destination, flow.ports.1)).or_else(without_port)
}

/// Whether a packet says by which hosts it wants to go: whoever forwards it would send it to
/// another one than its destination (RFC 7126 section 4.3, RFC 5095). All options of IPv4 count, and
/// chains of IPv6's extension headers that are too long, or not all there.
pub fn wants_a_route(bytes: &[u8]) -> bool {
    match bytes.first() {
        Some(byte) if byte >> 4 == 4 => byte & 0xf > 5,
        Some(byte) if byte >> 4 == 6 => packet::may_have_routing_header(bytes),
        _ => false,
    }
}

/// An ICMP error to the sender of a packet that may not go where it wants; `None` for packets that
/// are not answered so: fragments, ICMP other than a request for an echo, and what is for many hosts
/// (RFC 1122 section 3.2.2, RFC 4443 section 2.4).
pub fn prohibited(bytes: &[u8], router: IpAddr) -> Option<Vec<u8>> {
    let packet = Packet::read(bytes).ok()?;
    let is_error = match packet.protocol {
        ICMP => bytes.get(packet.transport) != Some(&8),
        ICMPV6 => bytes.get(packet.transport) != Some(&128),
        _ => false,
    };
    let is_for_many = match packet.destination {
        IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_multicast(),
    };
    let fits = packet.source.is_ipv4() == router.is_ipv4();
    (fits && !is_error && !is_for_many)
        .then(|| replies::unreachable(bytes, &packet, Refusal::Prohibited, router))
}

/// One direction of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlowKey {
    protocol: u8,
    source: IpAddr,
    destination: IpAddr,
    ports: (u16, u16),
}

/// The flow of a packet. What cannot be told apart, fragments and other protocols, is of none.
pub(super) fn flow(bytes: &[u8]) -> Option<FlowKey> {
    let packet = Packet::read(bytes).ok()?;
    let segment = packet.segment(bytes);
    let has_ports = match packet.protocol {
        TCP => packet.tcp(bytes).is_ok(),
        UDP => segment.len() >= 8,
        _ => false,
    };
    has_ports.then(|| FlowKey {
        protocol: packet.protocol,
        source: packet.source,
        destination: packet.destination,
        ports: (packet::be16(segment, 0), packet::be16(segment, 2)),
    })
}

/// What a packet of a flow is to the coding layer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Glance {
    /// A segment.
    Tcp {
        /// Its first sequence number.
        sequence: u32,
        /// Sequence numbers that it takes, SYN and FIN included.
        length: u32,
        marks: Marks,
        /// Bytes of data.
        payload: usize,
    },
    /// A datagram.
    Udp {
        /// Bytes of data.
        payload: usize,
    },
}

/// Looks at a packet that has a [`flow`].
pub(super) fn glance(bytes: &[u8]) -> Option<Glance> {
    let packet = Packet::read(bytes).ok()?;
    let segment = packet.segment(bytes);
    if packet.protocol == UDP {
        return Some(Glance::Udp { payload: segment.len().saturating_sub(8) });
    }
    let tcp = packet.tcp(bytes).ok()?;
    let has = |flag| tcp.flags & flag != 0;
    let payload = segment.len() - tcp.header;
    let marks = Marks { handshake: has(SYN), push: has(PSH) && payload > 0, fin: has(FIN) };
    let length = payload as u32 + u32::from(has(SYN)) + u32::from(has(FIN));
    Some(Glance::Tcp { sequence: tcp.sequence, length, marks, payload })
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fragments_have_addresses_and_no_flow() {
        let mut bytes = Vec::new();
        PacketBuilder::ipv4([192, 0, 2, 1], [198, 51, 100, 7], 64).udp(1, 2).write(&mut bytes, b"x").unwrap();
        assert!(flow(&bytes).is_some());
        bytes[6] |= 0x20;
        assert!(flow(&bytes).is_none());
        let ends = addresses(&bytes).unwrap();
        assert_eq!(ends.destination, "198.51.100.7".parse::<IpAddr>().unwrap());
        assert_eq!(ends.end, bytes.len());
        for cut in 0..bytes.len() {
            assert_eq!(addresses(&bytes[..cut]), Err(Dropped::Malformed));
        }
    }

    #[test]
    fn where_packets_lead_and_who_is_told_that_they_may_not() {
        let mut bytes = Vec::new();
        PacketBuilder::ipv4([192, 0, 2, 1], [198, 51, 100, 7], 64)
            .udp(1, 53)
            .write(&mut bytes, b"x")
            .unwrap();
        assert_eq!(remote(&bytes), Some("198.51.100.7:53".parse().unwrap()));
        assert!(!wants_a_route(&bytes));
        let router = "198.19.0.1".parse().unwrap();
        let told = prohibited(&bytes, router).unwrap();
        assert_eq!(addresses(&told).unwrap().destination, "192.0.2.1".parse::<IpAddr>().unwrap());
        assert_eq!(prohibited(&told, router), None, "no errors about errors");
        assert_eq!(prohibited(&bytes, "fd00::1".parse().unwrap()), None);
        for many in [[224, 0, 0, 251], [255; 4]] {
            let mut to_many = bytes.clone();
            to_many[16..20].copy_from_slice(&many);
            assert_eq!(prohibited(&to_many, router), None, "{many:?}");
        }
        let mut to_many = Vec::new();
        PacketBuilder::ipv6([1; 16], [0xff; 16], 64).udp(1, 5_353).write(&mut to_many, b"x").unwrap();
        assert_eq!(prohibited(&to_many, "fd00::1".parse().unwrap()), None);

        let with_options = [&[0x46][..], &bytes[1..20], &[131, 3, 4, 0], &bytes[20..]].concat();
        assert!(wants_a_route(&with_options));
        let mut routed = vec![0x60, 0, 0, 0, 0, 8, 43, 64];
        routed.extend([1; 32]);
        routed.extend([59, 0, 0, 0, 0, 0, 0, 0]);
        assert!(wants_a_route(&routed));
        assert_eq!(remote(&routed).map(|remote| remote.port()), Some(0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_looked_at(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = (flow(&bytes), remote(&bytes), wants_a_route(&bytes));
            let _ = prohibited(&bytes, [192, 0, 2, 1].into());
            if let Ok(ends) = addresses(&bytes) {
                prop_assert!(ends.end <= bytes.len());
            }
        }
    }
}
