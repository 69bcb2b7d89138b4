//! Contents of the datagrams under way: the fabric carries only their numbers.

use std::collections::VecDeque;

/// A window over all datagrams ever sent. Whether one was lost on its way is not known here, so
/// lost ones stay until they are the oldest of as many as fit.
#[derive(Debug)]
pub(super) struct Datagrams {
    limit: usize,
    /// Number of the first in `kept`.
    first: u64,
    kept: VecDeque<Option<Box<[u8]>>>,
    displaced: u64,
}

impl Datagrams {
    /// Keeps at most `limit`.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), first: 0, kept: VecDeque::new(), displaced: 0 }
    }

    /// Keeps `bytes`; its number. The oldest one gives way if there is no room.
    pub(super) fn push(&mut self, bytes: &[u8]) -> u64 {
        if self.kept.len() >= self.limit {
            self.displaced += u64::from(self.kept.pop_front().flatten().is_some());
            self.first += 1;
        }
        self.kept.push_back(Some(bytes.into()));
        self.first + self.kept.len() as u64 - 1
    }

    /// Takes a datagram out, unless it had to give way.
    pub(super) fn take(&mut self, number: u64) -> Option<Box<[u8]>> {
        let bytes = self.kept.get_mut(number.checked_sub(self.first)? as usize)?.take();
        while let Some(None) = self.kept.front() {
            self.kept.pop_front();
            self.first += 1;
        }
        bytes
    }

    /// How many had to give way, lost or not.
    pub(super) fn displaced(&self) -> u64 {
        self.displaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_gives_way() {
        let mut datagrams = Datagrams::new(2);
        let numbers: Vec<u64> = (0..3).map(|n| datagrams.push(&[n])).collect();
        assert_eq!(numbers, [0, 1, 2]);
        assert_eq!((datagrams.take(0), datagrams.displaced()), (None, 1));
        assert_eq!(datagrams.take(2).as_deref(), Some(&[2][..]));
        assert_eq!(datagrams.take(2), None);
        assert_eq!(datagrams.take(1).as_deref(), Some(&[1][..]));
        assert_eq!((datagrams.push(&[3]), datagrams.displaced()), (3, 1));
    }
}
