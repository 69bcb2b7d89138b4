//! Datagrams that may leave once no packet waits.

use std::collections::BTreeMap;

use units::{Duration, Instant};

/// A copy or a combination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extra {
    /// Whole, as it leaves.
    pub datagram: Vec<u8>,
    /// Whether it repeats a packet that has left just before.
    pub is_copy: bool,
}

/// Bytes that wait at most.
const MOST: usize = 256 << 10;
/// What one costs besides its bytes.
const OVERHEAD: usize = 64;

/// Copies and combinations that wait.
#[derive(Debug, Default)]
pub(in crate::raw) struct Extras {
    /// By when they may leave, then in order.
    waiting: BTreeMap<(Instant, u64), Extra>,
    next: u64,
    bytes: usize,
    /// Those that never left: too many, or too old.
    pub(in crate::raw) dropped: u64,
}

impl Extras {
    /// Adds one that may leave from `due` on.
    pub(in crate::raw) fn push(&mut self, due: Instant, extra: Extra) {
        if self.bytes + extra.datagram.len() + OVERHEAD > MOST {
            self.dropped += 1;
            return;
        }
        self.bytes += extra.datagram.len() + OVERHEAD;
        self.waiting.insert((due, self.next), extra);
        self.next += 1;
    }

    /// Drops those that could have left `age` ago: they are of no use any more.
    pub(in crate::raw) fn expire(&mut self, now: Instant, age: Duration) {
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 + age <= now
        {
            self.bytes -= first.remove().datagram.len() + OVERHEAD;
            self.dropped += 1;
        }
    }

    /// One that may leave now, and could not have left `age` ago.
    pub(in crate::raw) fn pop(&mut self, now: Instant, age: Duration) -> Option<Extra> {
        self.expire(now, age);
        let first = self.waiting.first_entry().filter(|first| first.key().0 <= now)?;
        let extra = first.remove();
        self.bytes -= extra.datagram.len() + OVERHEAD;
        Some(extra)
    }

    /// When the first may leave.
    pub(in crate::raw) fn deadline(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn extra(n: u8, length: usize) -> Extra {
        Extra { datagram: vec![n; length], is_copy: false }
    }

    #[test]
    fn they_leave_when_due_and_not_when_late() {
        let mut extras = Extras::default();
        for (n, due) in [(1, 5), (2, 3), (3, 5)] {
            extras.push(at(due), extra(n, 10));
        }
        let age = Duration::from_millis(20);
        assert_eq!((extras.deadline(), extras.pop(at(2), age)), (Some(at(3)), None));
        let left: Vec<u8> = std::iter::from_fn(|| extras.pop(at(24), age)).map(|it| it.datagram[0]).collect();
        assert_eq!((left, extras.dropped, extras.bytes), (vec![1, 3], 1, 0));
    }

    /// Else who looks again and again whether there is room for them would do so for ever, where there is none.
    #[test]
    fn those_that_are_late_go_also_if_nobody_asks_for_them() {
        let mut extras = Extras::default();
        for (n, due) in [(1, 0), (2, 5)] {
            extras.push(at(due), extra(n, 10));
        }
        let age = Duration::from_millis(20);
        for (ms, deadline, dropped) in [(19, Some(at(0)), 0), (20, Some(at(5)), 1), (25, None, 2)] {
            extras.expire(at(ms), age);
            assert_eq!((extras.deadline(), extras.dropped), (deadline, dropped), "{ms}");
        }
        assert_eq!(extras.bytes, 0);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut extras = Extras::default();
        (0..1_000).for_each(|_| extras.push(at(0), extra(0, 1_000)));
        assert!(extras.bytes <= MOST && extras.dropped > 500);
        let most_empty = MOST / OVERHEAD;
        (0..2 * most_empty).for_each(|_| extras.push(at(0), extra(0, 0)));
        assert!(extras.waiting.len() <= most_empty);
    }
}
