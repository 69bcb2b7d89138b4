//! Bytes of streams, each counted once.

use std::collections::BTreeMap;

/// Streams whose bytes are told apart, and pieces of all of them. What lies beyond counts whenever
/// it is seen.
const MOST_STREAMS: usize = 65_536;
const MOST_PIECES: usize = 262_144;

/// Which bytes of the streams in one direction have been seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Start and end of what was seen, for each stream.
    streams: BTreeMap<u64, BTreeMap<u64, u64>>,
    pieces: usize,
}

impl Seen {
    /// How many of these bytes are new.
    pub(super) fn add(&mut self, stream: u64, offset: u64, length: u64) -> u64 {
        let length = offset.saturating_add(length) - offset;
        let full = self.pieces >= MOST_PIECES
            || (self.streams.len() >= MOST_STREAMS && !self.streams.contains_key(&stream));
        if full || length == 0 {
            return length;
        }
        let ranges = self.streams.entry(stream).or_default();
        let (mut start, mut end) = (offset, offset + length);
        let mut known = 0;
        self.pieces += 1;
        // Those that overlap or touch: the last one that begins before, and all that begin within.
        while let Some((&from, &to)) = ranges.range(..=end).next_back()
            && to >= start
        {
            let (low, high) = (from.max(offset), to.min(offset + length));
            known += high.saturating_sub(low);
            (start, end) = (start.min(from), end.max(to));
            ranges.remove(&from);
            self.pieces -= 1;
        }
        ranges.insert(start, end);
        length - known.min(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_once() {
        let mut seen = Seen::default();
        assert_eq!(seen.add(0, 0, 100), 100);
        assert_eq!(seen.add(0, 50, 100), 50);
        assert_eq!(seen.add(0, 300, 100), 100);
        assert_eq!(seen.add(4, 300, 100), 100, "another stream");
        assert_eq!(seen.add(0, 0, 500), 250);
        assert_eq!(seen.add(0, 100, 100), 0);
        assert_eq!(seen.add(0, u64::MAX, u64::MAX), 0, "no such offset");
        assert_eq!(seen.pieces, 2);
    }

    #[test]
    fn pieces_are_limited() {
        let mut seen = Seen::default();
        for n in 0..2 * MOST_PIECES as u64 {
            seen.add(0, 2 * n, 1);
        }
        assert_eq!(seen.pieces, MOST_PIECES);
    }
}
