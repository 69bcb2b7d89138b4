//! [`SendBuffer`]: the bytes of a send half from the first unacknowledged one on.

use std::collections::VecDeque;
use std::ops::Range;

/// A ring of bytes addressed by stream offset. The acknowledged prefix is freed.
#[derive(Default, Debug)]
pub(super) struct SendBuffer {
    bytes: VecDeque<u8>,
    /// Stream offset of the first byte.
    base: u64,
}

/// A ring keeps at most this much memory, or four times what it holds if that is more.
pub(super) const KEPT_CAPACITY: usize = 4_096;

impl SendBuffer {
    /// Offset of the first byte held.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Offset after the last byte held.
    pub(super) fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Bytes held.
    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn push(&mut self, data: &[u8]) {
        self.bytes.extend(data);
    }

    /// Frees everything before `offset`, which is at most `end()`.
    pub(super) fn advance(&mut self, offset: u64) {
        let n = offset.saturating_sub(self.base) as usize;
        self.bytes.drain(..n);
        self.base += n as u64;
        give_back_memory(&mut self.bytes);
    }

    /// Appends the bytes of `range`, all of which are held, to `out`.
    pub(super) fn copy_to(&self, range: Range<u64>, out: &mut Vec<u8>) {
        debug_assert!(self.base <= range.start && range.end <= self.end());
        let (start, end) = ((range.start - self.base) as usize, (range.end - self.base) as usize);
        let (front, back) = self.bytes.as_slices();
        if start < front.len() {
            out.extend_from_slice(&front[start..end.min(front.len())]);
        }
        if end > front.len() {
            out.extend_from_slice(&back[start.saturating_sub(front.len())..end - front.len()]);
        }
    }
}

/// Shrinks a ring that holds much less than it could, so that memory follows what is buffered now and not what once
/// was. Amortised O(1): shrinking to double the length needs that much to be removed before the next time.
pub(super) fn give_back_memory(ring: &mut VecDeque<u8>) {
    if ring.capacity() > KEPT_CAPACITY && ring.len() < ring.capacity() / 4 {
        ring.shrink_to(ring.len() * 2);
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

    #[test]
    fn memory_follows_what_is_held() {
        let mut buffer = SendBuffer::default();
        buffer.push(&vec![7; 1 << 20]);
        buffer.advance((1 << 20) - 10);
        assert!(buffer.bytes.capacity() <= KEPT_CAPACITY, "{}", buffer.bytes.capacity());
    }
}
