//! The blocks of pcapng that the analysis needs. Of every other one, empty or huge, known or not,
//! there remains a stub that says how long it was; so it need not fit into memory, and nothing in
//! it can be wrong. The obsolete packet block becomes an enhanced one. What is no pcapng passes as
//! it is.

use std::io::{self, BufRead as _, BufReader, Read};

/// Types of blocks: section header, interface description, the obsolete packet block, a packet
/// without a time, and an enhanced packet.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// A type for local use, which stubs have.
const STUB: u32 = 0x8000_0000;
/// A stub: type, length, eight bytes, length.
pub(crate) const STUB_BYTES: u64 = 20;
/// As the byte order mark of a section header reads in its own order.
const ORDER: u32 = 0x1a2b_3c4d;
const BUFFER: usize = 1 << 18;

/// An input of which only needed blocks are read.
pub(crate) struct Needed<R> {
    input: BufReader<R>,
    /// Unless it is pcapng; not known before the first bytes.
    plain: Option<bool>,
    big_endian: bool,
    /// What is to be given before more is read, and how much of it was.
    ready: Vec<u8>,
    given: usize,
    /// Bytes of the current block that pass as they are.
    pass: u64,
}

/// How long the block was of which `stub` is the content.
pub(crate) fn stub_of(stub: &[u8]) -> Option<u64> {
    stub.try_into().ok().map(u64::from_le_bytes)
}

impl<R: Read> Needed<R> {
    pub(crate) fn new(input: R) -> Self {
        let input = BufReader::with_capacity(BUFFER, input);
        Self { input, plain: None, big_endian: false, ready: Vec::new(), given: 0, pass: 0 }
    }

    fn is_plain(&mut self) -> io::Result<bool> {
        if let Some(plain) = self.plain {
            return Ok(plain);
        }
        let mut start = Vec::new();
        (&mut self.input).take(4).read_to_end(&mut start)?;
        let plain = start != SECTION.to_le_bytes();
        (self.ready, self.plain) = (start, Some(plain));
        if !plain {
            self.header()?;
        }
        Ok(plain)
    }

    fn number(&self, at: usize) -> u32 {
        let bytes: [u8; 4] = self.ready[at..at + 4].try_into().expect("four bytes");
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn of_number(&self, number: u32) -> [u8; 4] {
        if self.big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    /// Reads on until there are `length` bytes ready; whether there are.
    fn more(&mut self, length: usize) -> io::Result<bool> {
        let wanted = length.saturating_sub(self.ready.len()) as u64;
        (&mut self.input).take(wanted).read_to_end(&mut self.ready)?;
        Ok(self.ready.len() == length)
    }

    /// The next block's beginning, with what was read of it already; nothing at the end.
    fn header(&mut self) -> io::Result<()> {
        if !self.more(8)? {
            return Ok(());
        }
        if self.ready[..4] == SECTION.to_le_bytes() {
            if !self.more(12)? {
                return Ok(());
            }
            self.big_endian = self.ready[8..12] == ORDER.to_be_bytes();
        }
        let (kind, length) = (self.number(0), u64::from(self.number(4)));
        match kind {
            // What contradicts itself is for the parser to refuse.
            _ if length < 12 || length % 4 != 0 => self.pass = u64::MAX,
            SECTION => self.pass = length.saturating_sub(12),
            INTERFACE | SIMPLE_PACKET | ENHANCED_PACKET => self.pass = length - 8,
            OBSOLETE_PACKET => {
                if length >= 32 && self.more(12)? {
                    self.modernise();
                }
                self.pass = length - self.ready.len() as u64;
            }
            _ => self.leave_out(length)?,
        }
        Ok(())
    }

    /// Instead of two bytes each for the interface and for how many packets were dropped, four for
    /// the interface.
    fn modernise(&mut self) {
        let interface: [u8; 2] = self.ready[8..10].try_into().expect("two bytes");
        let interface =
            if self.big_endian { u16::from_be_bytes(interface) } else { u16::from_le_bytes(interface) };
        let [kind, interface] = [ENHANCED_PACKET, u32::from(interface)].map(|number| self.of_number(number));
        self.ready[..4].copy_from_slice(&kind);
        self.ready[8..12].copy_from_slice(&interface);
    }

    /// Skips the block and makes a stub ready. If it is not all there, or its second length is
    /// another, its header remains, and the parser will say so.
    fn leave_out(&mut self, length: u64) -> io::Result<()> {
        let mut left = length - 12;
        while left > 0 {
            let there = self.input.fill_buf()?.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if there == 0 {
                return Ok(());
            }
            self.input.consume(there);
            left -= there as u64;
        }
        if !self.more(12)? {
            self.ready.truncate(8);
            return Ok(());
        }
        if self.number(8) != self.number(4) {
            self.ready[4..8].fill(0);
            return Ok(());
        }
        let long = self.of_number(STUB_BYTES as u32);
        self.ready = [&self.of_number(STUB)[..], &long, &length.to_le_bytes(), &long].concat();
        Ok(())
    }
}

impl<R: Read> Read for Needed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let plain = self.is_plain()?;
        loop {
            if self.given < self.ready.len() {
                let given = (&self.ready[self.given..]).read(out)?;
                self.given += given;
                return Ok(given);
            }
            if plain || self.pass > 0 || out.is_empty() {
                let most = if plain { u64::MAX } else { self.pass };
                let room = out.len().min(usize::try_from(most).unwrap_or(usize::MAX));
                let read = self.input.read(&mut out[..room])?;
                self.pass -= if plain { 0 } else { read as u64 };
                return Ok(read);
            }
            self.ready.clear();
            self.given = 0;
            self.header()?;
            if self.ready.is_empty() {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: u32, content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &length, content, &length].concat()
    }

    fn section() -> Vec<u8> {
        block(SECTION, &[&ORDER.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat())
    }

    /// What comes out, read in pieces of `piece` bytes.
    fn read(input: &[u8], piece: usize) -> Vec<u8> {
        let (mut needed, mut out, mut buffer) = (Needed::new(input), Vec::new(), vec![0; piece]);
        loop {
            match needed.read(&mut buffer).unwrap() {
                0 => return out,
                n => out.extend(&buffer[..n]),
            }
        }
    }

    #[test]
    fn what_is_not_needed_leaves_a_stub() {
        let (start, packet) = (section(), block(ENHANCED_PACKET, &[7; 20]));
        let huge = block(0x0bad, &vec![1; 100_000]);
        let input = [&start[..], &huge, &block(4, &[]), &packet].concat();
        let stub = |length: u64| block(STUB, &length.to_le_bytes());
        let expected = [&start[..], &stub(100_012), &stub(12), &packet].concat();
        for piece in [1, 7, 4_096] {
            assert_eq!(read(&input, piece), expected, "{piece}");
        }
        assert_eq!(stub_of(&100_012u64.to_le_bytes()), Some(100_012));
    }

    #[test]
    fn obsolete_packets_are_enhanced_ones() {
        let old = block(OBSOLETE_PACKET, &[&[3, 0, 9, 0][..], &[5; 16]].concat());
        let new = block(ENHANCED_PACKET, &[&[3, 0, 0, 0][..], &[5; 16]].concat());
        assert_eq!(read(&[section(), old].concat(), 64), [section(), new].concat());
    }

    #[test]
    fn what_is_wrong_or_no_pcapng_is_left_to_the_parser() {
        let cut = [section(), block(0x0bad, &[0; 64])[..40].to_vec()].concat();
        assert_eq!(read(&cut, 64), cut[..section().len() + 8], "its header is left");
        let mut wrong = block(0x0bad, &[0; 64]);
        *wrong.last_mut().unwrap() ^= 1;
        let out = read(&[section(), wrong].concat(), 64);
        assert_eq!(out[section().len() + 4..section().len() + 8], [0; 4], "a length that nobody believes");
        let tiny = [section(), vec![9, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3]].concat();
        assert_eq!(read(&tiny, 64), tiny);
        for other in [&[0xd4, 0xc3, 0xb2, 0xa1, 1, 2, 3][..], &[1], &[]] {
            assert_eq!(read(other, 64), other);
        }
    }
}
