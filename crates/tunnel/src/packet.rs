//! Reads the headers of an IP packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Dropped;

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
/// Extension headers of IPv6 that are read over; real packets have at most a few.
const MOST_EXTENSIONS: usize = 8;

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const PSH: u8 = 0x08;
pub(crate) const ACK: u8 = 0x10;

/// Where things are in a packet whose lengths were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// What follows the IP headers.
    pub(crate) protocol: u8,
    /// Where that begins.
    pub(crate) transport: usize,
    /// Where the packet ends; the buffer may be longer.
    pub(crate) end: usize,
}

/// The fixed part of a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tcp {
    pub(crate) source: u16,
    pub(crate) destination: u16,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    pub(crate) flags: u8,
    /// With options.
    pub(crate) header: usize,
}

impl Packet {
    /// Reads the IP headers.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Dropped> {
        match bytes.first().map(|byte| byte >> 4) {
            Some(4) => read_v4(bytes),
            Some(6) => read_v6(bytes),
            _ => Err(Dropped::Malformed),
        }
    }

    /// The transport's header and payload.
    pub(crate) fn segment<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.transport..self.end]
    }

    /// The TCP header, if this is TCP of a sensible length.
    pub(crate) fn tcp(&self, bytes: &[u8]) -> Result<Tcp, Dropped> {
        let segment = self.segment(bytes);
        let fixed: &[u8; 20] = segment.first_chunk().ok_or(Dropped::Malformed)?;
        let header = usize::from(fixed[12] >> 4) * 4;
        if header < 20 || header > segment.len() {
            return Err(Dropped::Malformed);
        }
        Ok(Tcp {
            source: be16(fixed, 0),
            destination: be16(fixed, 2),
            sequence: be32(fixed, 4),
            acknowledgement: be32(fixed, 8),
            flags: fixed[13],
            header,
        })
    }
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// RFC 791 section 3.1.
fn read_v4(bytes: &[u8]) -> Result<Packet, Dropped> {
    let fixed: &[u8; 20] = bytes.first_chunk().ok_or(Dropped::Malformed)?;
    let header = usize::from(fixed[0] & 0xf) * 4;
    let end = usize::from(be16(fixed, 2));
    if header < 20 || end < header || end > bytes.len() {
        return Err(Dropped::Malformed);
    }
    // More fragments, or an offset.
    if be16(fixed, 6) & 0x3fff != 0 {
        return Err(Dropped::Fragment);
    }
    Ok(Packet {
        source: Ipv4Addr::from_bits(be32(fixed, 12)).into(),
        destination: Ipv4Addr::from_bits(be32(fixed, 16)).into(),
        protocol: fixed[9],
        transport: header,
        end,
    })
}

/// RFC 8200 sections 3 and 4.
fn read_v6(bytes: &[u8]) -> Result<Packet, Dropped> {
    let fixed: &[u8; 40] = bytes.first_chunk().ok_or(Dropped::Malformed)?;
    let end = 40 + usize::from(be16(fixed, 4));
    if end > bytes.len() {
        return Err(Dropped::Malformed);
    }
    let address = |at: usize| {
        let octets: [u8; 16] = fixed[at..at + 16].try_into().expect("16 bytes of 40");
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let (protocol, transport) = skip_extensions(&bytes[..end], fixed[6])?;
    Ok(Packet { source: address(8), destination: address(24), protocol, transport, end })
}

/// The protocol behind the extension headers, and where it begins.
fn skip_extensions(bytes: &[u8], first: u8) -> Result<(u8, usize), Dropped> {
    let (mut next, mut at) = (first, 40);
    for _ in 0..MOST_EXTENSIONS {
        match next {
            HOP_BY_HOP | DESTINATION => {
                let &[following, length] =
                    bytes.get(at..at + 2).and_then(|head| head.first_chunk()).ok_or(Dropped::Malformed)?;
                next = following;
                at += (usize::from(length) + 1) * 8;
                if at > bytes.len() {
                    return Err(Dropped::Malformed);
                }
            }
            FRAGMENT => return Err(Dropped::Fragment),
            // The checksum counts another destination, and hosts do not forward (RFC 5095).
            ROUTING => return Err(Dropped::Protocol),
            _ => return Ok((next, at)),
        }
    }
    Err(Dropped::Malformed)
}

/// Whether a packet of IPv6 names hosts to go by: whether a Routing header is among its headers, or may be
/// since they are more than anybody needs or do not end within the packet. Unlike [`Packet::read`] this
/// looks behind the header of a first fragment, which has to hold them all (RFC 7112 section 5), and behind
/// an Authentication header (RFC 4302 section 2).
pub(crate) fn may_have_routing_header(bytes: &[u8]) -> bool {
    let Some(fixed) = bytes.first_chunk::<40>() else { return true };
    let end = bytes.len().min(40 + usize::from(be16(fixed, 4)));
    let (mut next, mut at) = (fixed[6], 40);
    for _ in 0..MOST_EXTENSIONS {
        match next {
            ROUTING => return true,
            HOP_BY_HOP | DESTINATION | FRAGMENT | AUTHENTICATION => {}
            _ => return false,
        }
        let rest = bytes[..end].get(at..).unwrap_or_default();
        let Some(&[following, length, high, low]) = rest.first_chunk::<4>() else { return true };
        at += match next {
            // A later fragment begins with what is no header.
            FRAGMENT if u16::from_be_bytes([high, low]) >> 3 != 0 => return false,
            FRAGMENT => 8,
            AUTHENTICATION => (usize::from(length) + 2) * 4,
            _ => (usize::from(length) + 1) * 8,
        };
        next = following;
    }
    true
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    use super::*;

    fn v4() -> Vec<u8> {
        let builder = PacketBuilder::ipv4([192, 0, 2, 1], [198, 51, 100, 7], 64);
        let mut out = Vec::new();
        builder.tcp(1_000, 80, 7, 100).syn().write(&mut out, b"hello").unwrap();
        out
    }

    #[test]
    fn fields() {
        let bytes = v4();
        let packet = Packet::read(&bytes).unwrap();
        assert_eq!(packet.source, "192.0.2.1".parse::<IpAddr>().unwrap());
        assert_eq!(packet.destination, "198.51.100.7".parse::<IpAddr>().unwrap());
        assert_eq!((packet.protocol, packet.transport, packet.end), (TCP, 20, 45));
        let tcp = packet.tcp(&bytes).unwrap();
        assert_eq!(
            (tcp.source, tcp.destination, tcp.sequence, tcp.flags, tcp.header),
            (1_000, 80, 7, SYN, 20)
        );
    }

    #[test]
    fn every_cut_is_malformed() {
        let bytes = v4();
        for length in 0..bytes.len() {
            assert_eq!(Packet::read(&bytes[..length]), Err(Dropped::Malformed), "{length}");
        }
        let mut v6 = Vec::new();
        let builder = PacketBuilder::ipv6([1; 16], [2; 16], 64).udp(1, 2);
        builder.write(&mut v6, b"hello").unwrap();
        for length in 0..v6.len() {
            assert_eq!(Packet::read(&v6[..length]), Err(Dropped::Malformed), "{length}");
        }
    }

    #[test]
    fn fragments_and_odd_headers_are_told_apart() {
        let with = |at: usize, value: u8| {
            let mut bytes = v4();
            bytes[at] = value;
            Packet::read(&bytes).map(|packet| packet.tcp(&bytes))
        };
        assert_eq!(with(6, 0x20), Err(Dropped::Fragment), "more fragments");
        assert_eq!(with(7, 1), Err(Dropped::Fragment), "an offset");
        assert!(with(6, 0x40).is_ok(), "do not fragment");
        assert_eq!(with(0, 0x44), Err(Dropped::Malformed), "a header too short");
        assert_eq!(with(0, 0x75), Err(Dropped::Malformed), "another version");
        assert_eq!(with(3, 19), Err(Dropped::Malformed), "shorter than its header");
        assert_eq!(with(32, 0x40), Ok(Err(Dropped::Malformed)), "TCP's header too short");
        assert_eq!(with(32, 0xf0), Ok(Err(Dropped::Malformed)), "TCP's header too long");
    }

    /// A packet of IPv6 whose payload begins with `extensions`.
    fn v6(first: u8, extensions: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0, 0, extensions.len() as u8, first, 64];
        bytes.extend([1; 32]);
        bytes.extend(extensions);
        bytes
    }

    #[test]
    fn extension_headers_are_read_over() {
        let read = |first, extensions: &[u8]| {
            Packet::read(&v6(first, extensions)).map(|packet| (packet.protocol, packet.transport))
        };
        assert_eq!(read(HOP_BY_HOP, &[UDP, 0, 1, 2, 3, 4, 5, 6]), Ok((UDP, 48)));
        assert_eq!(read(DESTINATION, &[UDP, 1, 1, 2, 3, 4, 5, 6]), Err(Dropped::Malformed), "cut");
        assert_eq!(read(HOP_BY_HOP, &[]), Err(Dropped::Malformed), "missing");
        assert_eq!(read(FRAGMENT, &[UDP; 8]), Err(Dropped::Fragment));
        assert_eq!(read(ROUTING, &[UDP; 8]), Err(Dropped::Protocol));
        let endless: Vec<u8> = [HOP_BY_HOP, 0, 0, 0, 0, 0, 0, 0].repeat(9);
        assert_eq!(read(HOP_BY_HOP, &endless), Err(Dropped::Malformed), "an endless chain");
        assert_eq!(read(59, &[]), Ok((59, 40)));
    }

    /// An extension header of 8 bytes that `next` follows; where it is that of a fragment, of the first one.
    fn short(next: u8) -> [u8; 8] {
        [next, 0, 0, 1, 0, 0, 0, 0]
    }

    #[test]
    fn a_routing_header_is_found_behind_the_header_of_a_first_fragment() {
        assert!(may_have_routing_header(&v6(ROUTING, &short(UDP))));
        let with = |fragment: [u8; 8]| {
            may_have_routing_header(&v6(FRAGMENT, &[fragment, short(UDP), [0; 8]].concat()))
        };
        assert!(with(short(ROUTING)));
        assert!(!with(short(UDP)));
        assert!(!with([ROUTING, 0, 0, 9, 0, 0, 0, 0]), "a later fragment has no headers");
        let behind_options = [short(FRAGMENT), short(DESTINATION), short(ROUTING), short(UDP)].concat();
        assert!(may_have_routing_header(&v6(HOP_BY_HOP, &behind_options)));
        let not_all = [short(DESTINATION), short(DESTINATION)].concat();
        assert!(may_have_routing_header(&v6(FRAGMENT, &not_all)), "the second fragment may have it");
    }

    #[test]
    fn a_routing_header_is_found_behind_an_authentication_header() {
        let with = |next: u8| {
            // Of 24 bytes, 12 of which are the check value.
            let authentication = [&[next, 4][..], &[0; 22]].concat();
            may_have_routing_header(&v6(AUTHENTICATION, &[&authentication[..], &short(UDP)].concat()))
        };
        assert!(with(ROUTING));
        assert!(!with(UDP));
    }

    #[test]
    fn a_chain_of_headers_that_is_too_long_may_hide_a_routing_header() {
        let with = |headers: usize| {
            let chain = [[DESTINATION, 0, 1, 4, 0, 0, 0, 0]].repeat(headers - 1).concat();
            may_have_routing_header(&v6(DESTINATION, &[&chain[..], &short(UDP), &[0; 8]].concat()))
        };
        assert!(!with(MOST_EXTENSIONS - 1));
        assert!(with(MOST_EXTENSIONS));
        assert!(with(2 * MOST_EXTENSIONS));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = may_have_routing_header(&bytes);
            if let Ok(packet) = Packet::read(&bytes) {
                prop_assert!(packet.transport <= packet.end && packet.end <= bytes.len());
                let _ = packet.tcp(&bytes);
            }
        }
    }
}
