//! Segments that fit a datagram: the maximum segment size that a SYN announces is lowered, so that
//! the other end sends none that would have to take the slower way over a stream.

use crate::{
    checksum,
    packet::{Packet, SYN, TCP},
};

/// Below, TCP hardly works.
const LEAST: u16 = 536;
const KIND: u8 = 2;

/// Lowers the maximum segment size of a SYN so that its packets have at most `most` bytes. Leaves
/// everything else alone. Returns whether it changed anything.
pub fn clamp_segments(bytes: &mut [u8], most: usize) -> bool {
    let Ok(packet) = Packet::read(bytes) else { return false };
    if packet.protocol != TCP {
        return false;
    }
    let Ok(tcp) = packet.tcp(bytes) else { return false };
    if tcp.flags & SYN == 0 {
        return false;
    }
    let headers = if packet.source.is_ipv4() { 40 } else { 60 };
    let limit = u16::try_from(most.saturating_sub(headers)).unwrap_or(u16::MAX).max(LEAST);
    let Some(at) = option(&bytes[packet.transport + 20..packet.transport + tcp.header]) else { return false };
    let at = packet.transport + 20 + at;
    if u16::from_be_bytes([bytes[at], bytes[at + 1]]) <= limit {
        return false;
    }
    // The checksum is over words of the segment: a value at an odd place counts with its bytes
    // exchanged.
    let (old, new) = ([bytes[at], bytes[at + 1]], limit.to_be_bytes());
    let is_odd = (at - packet.transport) % 2 == 1;
    let word = |bytes: [u8; 2]| if is_odd { [bytes[1], bytes[0]] } else { bytes };
    let change = checksum::change(&word(old), &word(new));
    bytes[at..at + 2].copy_from_slice(&new);
    let field = packet.transport + 16;
    checksum::adjust(&mut bytes[field..field + 2], change);
    true
}

/// Where the value of the option is, in `options`.
fn option(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match options.get(at..)? {
            [1, ..] => at += 1,
            [KIND, 4, _, _, ..] => return Some(at + 2),
            [kind, length, ..] if *kind != 0 && *length >= 2 => at += usize::from(*length),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{IpSlice, PacketBuilder, TcpOptionElement, TcpSlice};
    use proptest::prelude::*;

    use super::*;

    fn syn(before: &[TcpOptionElement], size: u16) -> Vec<u8> {
        let mut out = Vec::new();
        let options = [before, &[TcpOptionElement::MaximumSegmentSize(size)]].concat();
        let builder = PacketBuilder::ipv4([192, 0, 2, 1], [198, 51, 100, 7], 64).tcp(1, 80, 7, 100).syn();
        builder.options(&options).unwrap().write(&mut out, &[]).unwrap();
        out
    }

    fn is_right(bytes: &[u8]) -> bool {
        let ip = IpSlice::from_slice(bytes).unwrap();
        let tcp = TcpSlice::from_slice(ip.payload().payload).unwrap();
        tcp.checksum() == tcp.calc_checksum_ipv4([192, 0, 2, 1], [198, 51, 100, 7]).unwrap()
    }

    fn size(bytes: &[u8]) -> u16 {
        let at = 40 + option(&bytes[40..]).unwrap();
        u16::from_be_bytes([bytes[at], bytes[at + 1]])
    }

    #[test]
    fn large_segments_are_lowered_and_the_checksum_stays_right() {
        for before in [&[][..], &[TcpOptionElement::Noop], &[TcpOptionElement::WindowScale(7)]] {
            let mut bytes = syn(before, 1_460);
            assert!(clamp_segments(&mut bytes, 1_300) && is_right(&bytes));
            assert_eq!(size(&bytes), 1_260);
            assert!(!clamp_segments(&mut bytes, 1_300), "once is enough");
            assert!(clamp_segments(&mut bytes, 0) && is_right(&bytes));
            assert_eq!(size(&bytes), LEAST);
        }
    }

    #[test]
    fn everything_else_is_left_alone() {
        let mut data = Vec::new();
        let builder = PacketBuilder::ipv4([192, 0, 2, 1], [198, 51, 100, 7], 64).tcp(1, 80, 7, 100).ack(1);
        let options = [TcpOptionElement::MaximumSegmentSize(1_460)];
        builder.options(&options).unwrap().write(&mut data, b"x").unwrap();
        assert!(!clamp_segments(&mut data, 1_000));
        let mut without = Vec::new();
        PacketBuilder::ipv4([1; 4], [2; 4], 64).tcp(1, 80, 7, 100).syn().write(&mut without, &[]).unwrap();
        assert!(!clamp_segments(&mut without, 1_000));
    }

    proptest! {
        #[test]
        fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), syn: bool) {
            if syn && bytes.len() > 40 {
                bytes[0] = 0x45;
                let length = (bytes.len() as u16).to_be_bytes();
                bytes[2..4].copy_from_slice(&length);
                (bytes[6], bytes[7], bytes[9], bytes[33]) = (0, 0, TCP, SYN);
            }
            let _ = clamp_segments(&mut bytes, 1_200);
        }
    }
}
