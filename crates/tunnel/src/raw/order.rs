//! The order of one flow's packets: what came twice goes, and what took a longer way is waited for.

use std::{collections::BTreeMap, ops::Range};

use units::{Duration, Instant};

/// Numbers below the highest one of which it is known whether they came.
const WINDOW: u64 = 1_024;
const WORDS: usize = WINDOW as usize / 64;

/// What a packet turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It was the next one; how long it was waited for, if it was.
    Next(Option<Duration>),
    /// It waits for one before it.
    Held,
    /// One before it is missing, and is not waited for.
    Ahead,
    /// It came after others had been given up waiting for it; how late, as far as known.
    Late(Option<Duration>),
    /// It was here before, or so long ago that nobody knows.
    Double,
}

/// The numbers that came, among the last.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// One more than the highest.
    end: u64,
    words: [u64; WORDS],
}

impl Seen {
    /// Whether `sequence` is new; notes it.
    fn note(&mut self, sequence: u64) -> bool {
        let place = |sequence: u64| ((sequence / 64) as usize % WORDS, 1 << (sequence % 64));
        if sequence >= self.end {
            let cleared = self.end..sequence + 1;
            if sequence - self.end >= WINDOW {
                self.words = [0; WORDS];
            } else {
                for passed in cleared {
                    let (word, bit) = place(passed);
                    self.words[word] &= !bit;
                }
            }
            self.end = sequence + 1;
        } else if self.end - sequence > WINDOW {
            return false;
        }
        let (word, bit) = place(sequence);
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }
}

#[derive(Debug)]
struct Held {
    packet: Vec<u8>,
    since: Instant,
}

/// One flow.
#[derive(Debug, Default)]
pub(super) struct Order {
    next: u64,
    seen: Seen,
    held: BTreeMap<u64, Held>,
    held_bytes: usize,
    /// Since when the first hole has held something up.
    hole_since: Option<Instant>,
    /// Numbers that were given up last, and since when they had been missing.
    given_up: Option<(Range<u64>, Instant)>,
}

impl Order {
    /// A flow whose first packet seen is `sequence`; those shortly before it may still come.
    pub(super) fn starting(sequence: u64) -> Self {
        Self { next: if sequence < WINDOW / 16 { 0 } else { sequence }, ..Self::default() }
    }

    /// Takes a packet. What may go on now goes to `sink`; `hold` is whether holes are waited for.
    pub(super) fn arrive(
        &mut self,
        now: Instant,
        sequence: u64,
        packet: &[u8],
        hold: bool,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Arrival {
        if !self.seen.note(sequence) {
            return Arrival::Double;
        }
        if sequence < self.next {
            sink(packet);
            let given_up = self.given_up.as_ref().filter(|(range, _)| range.contains(&sequence));
            return Arrival::Late(given_up.map(|(_, since)| now.saturating_duration_since(*since)));
        }
        if sequence == self.next {
            let waited = self.hole_since.map(|since| now.saturating_duration_since(since));
            sink(packet);
            self.next += 1;
            self.release(sink);
            return Arrival::Next(waited);
        }
        if !hold && self.held.is_empty() || sequence - self.next > WINDOW {
            self.flush(sink);
            self.given_up = Some((self.next..sequence, now));
            self.next = sequence + 1;
            sink(packet);
            return Arrival::Ahead;
        }
        self.held_bytes += packet.len();
        self.held.insert(sequence, Held { packet: packet.to_vec(), since: now });
        self.hole_since.get_or_insert(now);
        Arrival::Held
    }

    /// What follows without a hole goes on.
    fn release(&mut self, sink: &mut dyn FnMut(&[u8])) {
        while let Some(first) = self.held.first_entry()
            && *first.key() == self.next
        {
            let held = first.remove();
            self.held_bytes -= held.packet.len();
            sink(&held.packet);
            self.next += 1;
        }
        self.hole_since = self.held.first_key_value().map(|(_, held)| held.since);
    }

    /// The number that goes on next.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Since when the first hole has been waited for.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.hole_since
    }

    /// Gives the first hole up.
    pub(super) fn skip(&mut self, sink: &mut dyn FnMut(&[u8])) {
        let (Some(since), Some((&first, _))) = (self.hole_since, self.held.first_key_value()) else { return };
        self.given_up = Some((self.next..first, since));
        self.next = first;
        self.release(sink);
    }

    /// Gives every hole up.
    pub(super) fn flush(&mut self, sink: &mut dyn FnMut(&[u8])) {
        while !self.held.is_empty() {
            self.skip(sink);
        }
    }

    /// Packets and bytes that wait.
    pub(super) fn held(&self) -> (usize, usize) {
        (self.held.len(), self.held_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn arrive(order: &mut Order, ms: u64, sequence: u64, hold: bool) -> (Arrival, Vec<u8>) {
        let mut out = Vec::new();
        let arrival =
            order.arrive(at(ms), sequence, &[sequence as u8], hold, &mut |packet| out.extend(packet));
        (arrival, out)
    }

    #[test]
    fn holes_are_waited_for_and_given_up_one_by_one() {
        let mut order = Order::starting(0);
        assert_eq!(arrive(&mut order, 0, 0, true), (Arrival::Next(None), vec![0]));
        assert_eq!(arrive(&mut order, 1, 2, true), (Arrival::Held, vec![]));
        assert_eq!(arrive(&mut order, 2, 4, true), (Arrival::Held, vec![]));
        assert_eq!(order.held(), (2, 2));
        assert_eq!(
            arrive(&mut order, 6, 1, true),
            (Arrival::Next(Some(Duration::from_millis(5))), vec![1, 2])
        );
        assert_eq!(order.waiting_since(), Some(at(2)), "3 has been missing since 4 came");
        let mut out = Vec::new();
        order.skip(&mut |packet| out.extend(packet));
        assert_eq!((out, order.held()), (vec![4], (0, 0)));
        let late = Arrival::Late(Some(Duration::from_millis(10)));
        assert_eq!(arrive(&mut order, 12, 3, true), (late, vec![3]));
        for double in [0, 2, 3] {
            assert_eq!(arrive(&mut order, 13, double, true), (Arrival::Double, vec![]));
        }
    }

    #[test]
    fn without_waiting_packets_go_on_as_they_come_and_once() {
        let mut order = Order::starting(0);
        assert_eq!(arrive(&mut order, 0, 1, false), (Arrival::Ahead, vec![1]));
        let late = Arrival::Late(Some(Duration::from_millis(3)));
        assert_eq!(arrive(&mut order, 3, 0, false), (late, vec![0]));
        assert_eq!(arrive(&mut order, 4, 1, false).0, Arrival::Double);
        assert_eq!(arrive(&mut order, 4, 2, false), (Arrival::Next(None), vec![2]));
    }

    #[test]
    fn far_ahead_is_a_new_beginning() {
        let mut order = Order::starting(0);
        arrive(&mut order, 0, 5, true);
        assert_eq!(arrive(&mut order, 1, 1 << 40, true), (Arrival::Ahead, vec![5, 0]));
        assert_eq!(arrive(&mut order, 2, 7, true).0, Arrival::Double, "too long ago to know");
        assert_eq!(Order::starting(9_999).next, 9_999);
    }

    proptest! {
        /// Whatever comes, everything new goes on exactly once, and in order where nothing is given
        /// up.
        #[test]
        fn everything_goes_on_once(sequences in proptest::collection::vec(0u64..300, 1..400)) {
            let mut order = Order::starting(0);
            let mut out: Vec<u64> = Vec::new();
            for sequence in &sequences {
                order.arrive(at(0), *sequence, &sequence.to_be_bytes(), true, &mut |packet| {
                    out.push(u64::from_be_bytes(packet.try_into().unwrap()));
                });
            }
            prop_assert!(out.is_sorted());
            order.flush(&mut |packet| out.push(u64::from_be_bytes(packet.try_into().unwrap())));
            prop_assert!(out.is_sorted());
            let wanted: std::collections::BTreeSet<u64> = sequences.into_iter().collect();
            prop_assert_eq!(out, wanted.into_iter().collect::<Vec<_>>());
        }
    }
}
