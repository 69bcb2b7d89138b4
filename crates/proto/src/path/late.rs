//! Packets that arrived after larger numbers: an ACK names them wherever they lie.
//!
//! The newest ranges of an ACK say little on a path where packets are overtaken by hundreds of
//! others: what came just now may lie below all of them. So the latest [`LateArrivals::LIMIT`]
//! packets that came out of order are named in each ACK, until the peer has seen one that did.

use std::collections::VecDeque;

/// Numbers that arrived out of order and that the peer may not know of, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct LateArrivals(VecDeque<LateArrival>);

#[derive(Clone, Copy, Debug)]
struct LateArrival {
    number: u64,
    /// How many packets had arrived with it.
    nth: u64,
}

impl LateArrivals {
    /// Each is named in so many ACKs, at least, that losing some of them loses nothing.
    pub(super) const LIMIT: usize = 16;

    /// Nothing has come for long.
    pub(super) fn rest(&mut self) {
        self.0.shrink_to_fit();
    }

    /// Number `number` was the `nth` packet to arrive. Returns one that has been named often enough.
    pub(super) fn push(&mut self, number: u64, nth: u64) -> Option<u64> {
        let oldest = (self.0.len() == Self::LIMIT).then(|| self.0.pop_front()).flatten();
        self.0.push_back(LateArrival { number, nth });
        oldest.map(|late| late.number)
    }

    /// Takes out one of which the peer has heard: it knows of the first `known` packets that
    /// arrived.
    pub(super) fn pop_known(&mut self, known: u64) -> Option<u64> {
        self.0.front().filter(|late| late.nth <= known)?;
        self.0.pop_front().map(|late| late.number)
    }

    /// The numbers below `end`.
    pub(super) fn below(&self, end: u64) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().map(|late| late.number).filter(move |number| *number < end)
    }
}
