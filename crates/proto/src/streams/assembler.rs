//! [`Assembler`]: puts arriving stream data in order.

use bytes::Bytes;

use super::pieces::Pieces;
use crate::range_set::RangeSet;

/// The bytes from the reader's position to the highest offset that arrived.
///
/// Memory is at most what flow control granted, rounded up to pieces, however sparse the data. Gaps
/// cost one map entry each; the owner limits them.
#[derive(Default, Debug)]
pub(super) struct Assembler {
    /// From the next byte to read on.
    bytes: Pieces,
    /// Offset after the highest byte that arrived.
    highest: u64,
    /// Everything below has arrived.
    contiguous: u64,
    /// What has arrived above `contiguous`.
    ahead: RangeSet,
}

impl Assembler {
    /// Offset of the next byte to read.
    pub(super) fn read_offset(&self) -> u64 {
        self.bytes.start()
    }

    /// Everything below this offset has arrived.
    pub(super) fn contiguous(&self) -> u64 {
        self.contiguous
    }

    /// Bytes between the reader and the highest offset, holes included.
    pub(super) fn buffered(&self) -> u64 {
        self.highest - self.bytes.start()
    }

    /// How many holes are below the highest offset.
    pub(super) fn gaps(&self) -> usize {
        self.ahead.len()
    }

    /// Takes in `data` at `offset`; returns whether there is more to read than before. O(log gaps +
    /// data).
    pub(super) fn insert(&mut self, offset: u64, data: &[u8]) -> bool {
        let end = offset + data.len() as u64;
        let start = offset.max(self.contiguous);
        if start >= end {
            return false;
        }
        self.bytes.write(start, &data[(start - offset) as usize..]);
        self.highest = self.highest.max(end);
        if start > self.contiguous {
            self.ahead.insert(start..end);
            return false;
        }
        self.contiguous = end;
        while self.ahead.min().is_some_and(|next| next <= self.contiguous) {
            let next = self.ahead.pop_first().expect("it has a minimum");
            self.contiguous = self.contiguous.max(next.end);
        }
        true
    }

    /// Moves the next bytes in order to `out`; returns how many.
    pub(super) fn read(&mut self, out: &mut [u8]) -> usize {
        let start = self.bytes.start();
        let n = out.len().min((self.contiguous - start) as usize);
        let end = start + n as u64;
        let mut at = 0;
        for slice in self.bytes.slices(start..end) {
            out[at..at + slice.len()].copy_from_slice(slice);
            at += slice.len();
        }
        if end == self.highest {
            self.bytes.release_all(end);
        } else {
            self.bytes.release(end);
        }
        n
    }

    /// Takes the next bytes in order, at most `max`: what is left of a piece as it is, less than
    /// that as a copy.
    pub(super) fn take(&mut self, max: usize) -> Bytes {
        let start = self.bytes.start();
        let n = max.min((self.contiguous - start) as usize);
        if n > 0
            && let Some(bytes) = self.bytes.take_first(start + n as u64)
        {
            return bytes;
        }
        let mut copy = vec![0; n];
        self.read(&mut copy);
        copy.into()
    }

    /// Forgets everything that arrived and was not read.
    pub(super) fn discard(&mut self) {
        let read = self.bytes.start();
        *self = Self { highest: read, contiguous: read, ..Self::default() };
        self.bytes.release(read);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn byte(offset: u64) -> u8 {
        (offset * 31 % 251) as u8
    }

    fn bytes(from: u64, to: u64) -> Vec<u8> {
        (from..to).map(byte).collect()
    }

    proptest! {
        #[test]
        fn any_order_of_overlapping_pieces_reads_back(
            pieces in prop::collection::vec((0..300u64, 0..40u64, 0..50usize), 1..80),
        ) {
            let mut assembler = Assembler::default();
            let mut arrived = RangeSet::new();
            let mut read = 0;
            for (offset, len, want) in pieces {
                let before = assembler.contiguous();
                let news = assembler.insert(offset, &bytes(offset, offset + len));
                arrived.insert(offset..offset + len);
                let contiguous = arrived.first().filter(|first| first.start == 0).map_or(0, |first| first.end);
                prop_assert_eq!(assembler.contiguous(), contiguous);
                prop_assert_eq!(news, contiguous > before);
                let highest = arrived.last().map_or(0, |last| last.end);
                prop_assert_eq!(assembler.buffered(), highest - read);
                let out = if want % 3 == 0 {
                    assembler.take(want).to_vec()
                } else {
                    let mut out = vec![0; want];
                    let n = assembler.read(&mut out);
                    out.truncate(n);
                    out
                };
                let n = out.len() as u64;
                prop_assert_eq!(n, (contiguous - read).min(want as u64));
                prop_assert_eq!(&out[..n as usize], &bytes(read, read + n)[..]);
                read += n;
            }
        }
    }

    #[test]
    fn many_gaps_close_one_by_one() {
        let mut assembler = Assembler::default();
        for i in 0..20_000 {
            assembler.insert(2 * i + 1, &[byte(2 * i + 1)]);
        }
        assert_eq!((assembler.gaps(), assembler.buffered()), (20_000, 40_000));
        for i in 0..20_000 {
            assert!(assembler.insert(2 * i, &[byte(2 * i)]));
            assert_eq!(assembler.gaps() as u64, 20_000 - 1 - i);
        }
        let mut out = vec![0; 50_000];
        assert_eq!(assembler.read(&mut out), 40_000);
        assert_eq!(out[..40_000], bytes(0, 40_000));
        assert_eq!(assembler.buffered(), 0);
    }
}
