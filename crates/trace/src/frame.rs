//! From a captured frame to a TCP segment: link layer, VLAN tags, PPPoE, MPLS, IP with its extensions,
//! TCP. The headers are etherparse's business; what is here copes with frames that the capture cut off.

use std::net::IpAddr;

use etherparse::{
    EtherType, LaxNetSlice, LaxSlicedPacket, TcpHeaderSlice, TcpOptionElement, TcpOptionsIterator, ip_number,
};

use crate::segment::{Endpoint, Pair, Scaling, Segment, Stamps, TcpFlags};

/// How the frames of a capture begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkLayer {
    /// Ethernet II, with VLAN tags or not.
    Ethernet,
    /// Linux cooked capture, version 1 (the device `any` of older tools).
    LinuxCooked,
    /// Linux cooked capture, version 2.
    LinuxCooked2,
    /// IP without anything before it.
    Raw,
    /// Four bytes of address family, as on BSD's loopback.
    Loopback,
    /// Something this program cannot take apart, with its number in the capture.
    Other(i32),
}

impl LinkLayer {
    /// From the number in a capture (the registry of link-layer header types of tcpdump.org).
    pub fn from_number(number: i32) -> Self {
        match number {
            1 => Self::Ethernet,
            113 => Self::LinuxCooked,
            276 => Self::LinuxCooked2,
            12 | 14 | 101 | 228 | 229 => Self::Raw,
            0 | 108 => Self::Loopback,
            other => Self::Other(other),
        }
    }
}

/// Why a frame is not part of the analysis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Skipped {
    /// It does not carry TCP over IP.
    NotTcp,
    /// A fragment of an IP packet.
    Fragment,
    /// Too little of it was captured, or its headers contradict themselves.
    Unreadable,
}

/// The TCP segment in `frame`, which had `wire_bytes` on the wire.
pub(crate) fn dissect(link: LinkLayer, frame: &[u8], wire_bytes: u32) -> Result<Segment, Skipped> {
    let mut sliced = slice(link, frame)?;
    if let Some(packet) = carried(&sliced) {
        sliced = LaxSlicedPacket::from_ip(packet).map_err(|_| Skipped::NotTcp)?;
    }
    let (ends, ip_start, ip_bytes, ident) = match sliced.net.as_ref() {
        Some(LaxNetSlice::Ipv4(ip)) => {
            let header = ip.header();
            let (from, to) = (IpAddr::V4(header.source_addr()), IpAddr::V4(header.destination_addr()));
            (
                [from, to],
                offset(frame, header.slice()),
                u32::from(header.total_len()),
                header.identification() as u8,
            )
        }
        Some(LaxNetSlice::Ipv6(ip)) => {
            let header = ip.header();
            let (from, to) = (IpAddr::V6(header.source_addr()), IpAddr::V6(header.destination_addr()));
            let length = u32::from(header.payload_length());
            ([from, to], offset(frame, header.slice()), if length == 0 { 0 } else { length + 40 }, 0)
        }
        _ if sliced.stop_err.is_some() => return Err(Skipped::Unreadable),
        _ => return Err(Skipped::NotTcp),
    };
    let payload = sliced.ip_payload().ok_or(Skipped::Unreadable)?;
    if payload.ip_number != ip_number::TCP {
        return Err(Skipped::NotTcp);
    }
    if payload.fragmented {
        return Err(Skipped::Fragment);
    }
    let tcp_start = offset(frame, payload.payload);
    // Segmentation offload leaves the length field empty; then the frame's own length must do.
    let ip_bytes = if ip_bytes == 0 { wire_bytes.saturating_sub(ip_start) } else { ip_bytes };
    let tcp_bytes = ip_bytes.checked_sub(tcp_start - ip_start).ok_or(Skipped::Unreadable)?;
    let header = Header::parse(payload.payload).ok_or(Skipped::Unreadable)?;
    let payload = tcp_bytes.checked_sub(header.bytes).ok_or(Skipped::Unreadable)?;
    Ok(Segment { ident, ..header.segment(ends, payload, ip_bytes) })
}

fn slice(link: LinkLayer, frame: &[u8]) -> Result<LaxSlicedPacket<'_>, Skipped> {
    let after = |type_at: usize, header: usize| {
        let ether_type = frame.get(type_at..type_at + 2).ok_or(Skipped::Unreadable)?;
        let rest = frame.get(header..).ok_or(Skipped::Unreadable)?;
        let ether_type = EtherType(u16::from_be_bytes([ether_type[0], ether_type[1]]));
        Ok(LaxSlicedPacket::from_ether_type(ether_type, rest))
    };
    match link {
        LinkLayer::Ethernet => after(12, 14),
        LinkLayer::LinuxCooked => after(14, 16),
        LinkLayer::LinuxCooked2 => after(0, 20),
        LinkLayer::Raw => LaxSlicedPacket::from_ip(frame).map_err(|_| Skipped::Unreadable),
        LinkLayer::Loopback => {
            let rest = frame.get(4..).ok_or(Skipped::Unreadable)?;
            LaxSlicedPacket::from_ip(rest).map_err(|_| Skipped::NotTcp)
        }
        LinkLayer::Other(_) => Err(Skipped::NotTcp),
    }
}

/// What a session of PPPoE (RFC 2516 section 4) or MPLS (RFC 3032 section 2.1) carries, if that may be IP.
fn carried<'a>(outer: &LaxSlicedPacket<'a>) -> Option<&'a [u8]> {
    let outer = outer.ether_payload()?;
    match outer.ether_type.0 {
        0x8864 => {
            let (header, rest) = outer.payload.split_at_checked(8)?;
            // PPP's protocol numbers of IPv4 and IPv6.
            matches!(header, [0x11, 0, .., 0, 0x21 | 0x57]).then_some(rest)
        }
        0x8847 => {
            let labels = outer.payload.chunks_exact(4).position(|label| label[2] & 1 == 1)? + 1;
            Some(&outer.payload[4 * labels..])
        }
        _ => None,
    }
}

/// MPTCP's option (RFC 8684 section 3).
const MULTIPATH: u8 = 30;

/// The options of a header one by one, padding left out, up to what cannot be read: etherparse, which
/// reads what is in them, stops at the first that it does not know.
fn single_options(mut options: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        while let [1, rest @ ..] = options {
            options = rest;
        }
        let length = options.get(1).filter(|length| options[0] != 0 && **length >= 2)?;
        let (option, rest) = options.split_at_checked((*length).into())?;
        options = rest;
        Some(option)
    })
}

/// Where `part`, a part of `frame`, begins.
fn offset(frame: &[u8], part: &[u8]) -> u32 {
    (part.as_ptr() as usize).wrapping_sub(frame.as_ptr() as usize) as u32
}

/// The fields of a TCP header.
struct Header {
    ports: [u16; 2],
    seq: u32,
    ack: u32,
    bytes: u32,
    flags: TcpFlags,
    window: u16,
    scaling: Scaling,
    duplicate_sack: Option<(u32, u32)>,
    sack: Option<(u32, u32)>,
    misses: bool,
    multipath: bool,
    stamps: Option<Stamps>,
}

impl Header {
    /// Needs the first 16 bytes; options only if all of them were captured.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let start: &[u8; 16] = bytes.first_chunk()?;
        let number = |at: usize| u32::from_be_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]]);
        let mut header = Self {
            ports: [u16::from_be_bytes([start[0], start[1]]), u16::from_be_bytes([start[2], start[3]])],
            seq: number(4),
            ack: number(8),
            bytes: u32::from(start[12] >> 4) * 4,
            flags: TcpFlags(start[13]),
            window: u16::from_be_bytes([start[14], start[15]]),
            scaling: Scaling::Unknown,
            duplicate_sack: None,
            sack: None,
            misses: false,
            multipath: false,
            stamps: None,
        };
        if header.bytes < 20 {
            return None;
        }
        if header.bytes > 20 {
            header.read_options(bytes);
        } else {
            header.scaling = Scaling::Off;
        }
        Some(header)
    }

    fn read_options(&mut self, bytes: &[u8]) {
        // Nothing but a timestamp, in the order everybody writes it: the common case.
        if let (32, Some([1, 1, 8, 10, stamps @ ..])) = (self.bytes, bytes.get(20..32)) {
            let number =
                |at: usize| u32::from_be_bytes([stamps[at], stamps[at + 1], stamps[at + 2], stamps[at + 3]]);
            (self.stamps, self.scaling) = (Some(Stamps { value: number(0), echo: number(4) }), Scaling::Off);
            return;
        }
        let Ok(header) = TcpHeaderSlice::from_slice(bytes) else { return };
        self.scaling = Scaling::Off;
        for option in single_options(header.options()) {
            if option[0] == MULTIPATH {
                self.multipath = true;
                continue;
            }
            let Some(Ok(option)) = TcpOptionsIterator::from_slice(option).next() else { continue };
            match option {
                TcpOptionElement::WindowScale(shift) => self.scaling = Scaling::By(shift.min(14)),
                TcpOptionElement::SelectiveAcknowledgement(first, others) => {
                    let is_below = |block: (u32, u32)| (block.0.wrapping_sub(self.ack) as i32) < 0;
                    self.misses =
                        !is_below(first) || others.into_iter().flatten().any(|block| !is_below(block));
                    let is_within = |block: (u32, u32)| {
                        first.0.wrapping_sub(block.0) as i32 >= 0 && block.1.wrapping_sub(first.1) as i32 >= 0
                    };
                    let is_duplicate = is_below(first) || others[0].is_some_and(is_within);
                    (self.duplicate_sack, self.sack) =
                        if is_duplicate { (Some(first), None) } else { (None, Some(first)) };
                }
                TcpOptionElement::Timestamp(value, echo) => self.stamps = Some(Stamps { value, echo }),
                _ => {}
            }
        }
    }

    fn segment(&self, [from, to]: [IpAddr; 2], payload: u32, bytes: u32) -> Segment {
        let from = Endpoint { address: from, port: self.ports[0] };
        let to = Endpoint { address: to, port: self.ports[1] };
        let (ends, sender) = if from <= to { ([from, to], 0) } else { ([to, from], 1) };
        Segment {
            pair: Pair { ends },
            from: sender,
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            scaling: self.scaling,
            duplicate_sack: self.duplicate_sack,
            sack: self.sack,
            misses: self.misses,
            multipath: self.multipath,
            stamps: self.stamps,
            payload,
            bytes,
            ident: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of sequence number 0 that acknowledges 1,000.
    fn with_options(options: &[u8]) -> Header {
        let mut bytes = vec![0; 20];
        bytes[8..12].copy_from_slice(&1_000_u32.to_be_bytes());
        bytes[12] = (5 + options.len().div_ceil(4) as u8) << 4;
        bytes.extend_from_slice(options);
        bytes.resize(20 + options.len().next_multiple_of(4), 0);
        Header::parse(&bytes).unwrap()
    }

    const TIMESTAMPS: [u8; 10] = [8, 10, 0, 0, 0, 7, 0, 0, 0, 9];
    const SACK: [u8; 10] = [5, 10, 0, 0, 7, 208, 0, 0, 11, 184];

    /// TCP-MD5's digest (RFC 2385), AccECN, an experiment, MPTCP: whatever goes before.
    #[test]
    fn options_behind_one_that_is_not_known_are_read() {
        let digest = [&[19, 18][..], &[0; 16]].concat();
        for unknown in [&digest[..], &[172, 5, 1, 2, 3], &[254, 4, 0xf9, 0x89], &[30, 4, 0x20, 1]] {
            let header = with_options(&[unknown, &TIMESTAMPS, &[1], &SACK].concat());
            assert_eq!(header.stamps, Some(Stamps { value: 7, echo: 9 }), "{unknown:?}");
            assert_eq!((header.sack, header.misses), (Some((2_000, 3_000)), true), "{unknown:?}");
            assert_eq!(header.multipath, unknown[0] == MULTIPATH);
        }
    }

    #[test]
    fn a_block_within_the_next_one_is_of_a_duplicate() {
        let blocks = |edges: [u32; 4]| {
            let option: Vec<u8> =
                [5, 18].into_iter().chain(edges.into_iter().flat_map(u32::to_be_bytes)).collect();
            let header = with_options(&option);
            (header.duplicate_sack, header.sack, header.misses)
        };
        let (duplicate, apart) = ([2_500, 3_000, 2_000, 4_000], [2_000, 3_000, 5_000, 6_000]);
        assert_eq!(blocks(duplicate), (Some((2_500, 3_000)), None, true));
        assert_eq!(blocks(apart), (None, Some((2_000, 3_000)), true));
        // Below the acknowledgement, and something is missing all the same.
        assert_eq!(blocks([500, 900, 2_000, 3_000]), (Some((500, 900)), None, true));
    }

    #[test]
    fn options_without_a_length_that_can_be_end_the_list() {
        for broken in [&[172, 0][..], &[172, 1], &[172, 60], &[0], &[172]] {
            let header = with_options(&[&SACK[..], broken].concat());
            assert_eq!(header.sack, Some((2_000, 3_000)), "{broken:?}");
            assert_eq!(with_options(&[broken, &SACK].concat()).sack, None, "{broken:?}");
        }
        // The length of a known one is wrong: only that is left out.
        assert_eq!(with_options(&[&[8, 4, 0, 0][..], &SACK].concat()).sack, Some((2_000, 3_000)));
    }
}
