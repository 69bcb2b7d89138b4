//! [`SendBuffer`]: the bytes of a send half from the first unacknowledged one on.

use std::ops::Range;

use super::pieces::Pieces;

/// Bytes addressed by stream offset. The acknowledged prefix is freed.
#[derive(Default, Debug)]
pub(super) struct SendBuffer {
    bytes: Pieces,
    /// Stream offset after the last byte.
    end: u64,
}

impl SendBuffer {
    /// Offset of the first byte held.
    pub(super) fn base(&self) -> u64 {
        self.bytes.start()
    }

    /// Offset after the last byte held.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes held.
    pub(super) fn len(&self) -> u64 {
        self.end - self.base()
    }

    pub(super) fn push(&mut self, data: &[u8]) {
        self.bytes.write(self.end, data);
        self.end += data.len() as u64;
    }

    /// Frees everything before `offset`, which is at most `end()`.
    pub(super) fn advance(&mut self, offset: u64) {
        debug_assert!(offset <= self.end);
        if offset == self.end {
            self.bytes.release_all(offset);
        } else {
            self.bytes.release(offset);
        }
    }

    /// Frees everything from `end` on; `base()` and what follows it stay what they are.
    pub(super) fn truncate(&mut self, end: u64) {
        debug_assert!(self.base() <= end && end <= self.end);
        self.end = end;
        self.bytes.truncate(end);
    }

    /// Appends the bytes of `range`, all of which are held, to `out`.
    pub(super) fn copy_to(&self, range: Range<u64>, out: &mut Vec<u8>) {
        debug_assert!(self.base() <= range.start && range.end <= self.end());
        self.bytes.slices(range).for_each(|slice| out.extend_from_slice(slice));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_survives_wrapping_around() {
        let mut buffer = SendBuffer::default();
        let byte = |offset: u64| (offset % 251) as u8;
        for step in 0..500u64 {
            let end = buffer.end();
            let data: Vec<u8> = (end..end + step % 13).map(byte).collect();
            buffer.push(&data);
            let middle = buffer.base() + buffer.len() / 2;
            for range in [buffer.base()..buffer.end(), middle..buffer.end(), buffer.base()..middle] {
                let mut out = Vec::new();
                buffer.copy_to(range.clone(), &mut out);
                assert_eq!(out, range.map(byte).collect::<Vec<_>>());
            }
            buffer.advance(buffer.end().saturating_sub(step % 31).max(buffer.base()));
        }
    }
}
