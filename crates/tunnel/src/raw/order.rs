//! The order of one flow's packets: what came twice goes, and what took a longer way is waited for.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

use units::{Duration, Instant};

use super::spread::LONGEST;

/// Numbers below the highest one of which it is known whether they came.
const WINDOW: u64 = 1_024;
const WORDS: usize = WINDOW as usize / 64;
/// Holes that were given up of which it is remembered since when. Of more within [`LONGEST`] those that
/// came first say how late packets are.
const REMEMBERED: usize = 16;

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

/// One flow.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The next number in order: holes before it are filled or given up.
    next: u64,
    seen: Seen,
    held: BTreeMap<u64, Vec<u8>>,
    held_bytes: usize,
    /// Since when packets wait, and their numbers; both rise. One that came later than another of a
    /// higher number is not among them: it goes on no later than that.
    by_age: VecDeque<(Instant, u64)>,
    /// Numbers that were given up, and since when one behind them had been here.
    given_up: VecDeque<(Range<u64>, Instant)>,
    /// Holes that were given up since somebody asked.
    holes: u64,
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
            let given_up = self.given_up.iter().find(|(range, _)| range.contains(&sequence));
            return Arrival::Late(given_up.map(|(_, since)| now.saturating_duration_since(*since)));
        }
        if sequence == self.next {
            let waited = self.waiting_since().map(|since| now.saturating_duration_since(since));
            sink(packet);
            self.next += 1;
            self.pass(sequence, sink);
            return Arrival::Next(waited);
        }
        if !hold && self.held.is_empty() || sequence - self.next > WINDOW {
            self.flush(sink);
            self.remember(self.next..sequence, now);
            self.holes += u64::from(sequence > self.next);
            self.next = sequence + 1;
            sink(packet);
            return Arrival::Ahead;
        }
        self.held_bytes += packet.len();
        self.held.insert(sequence, packet.to_vec());
        if self.by_age.back().is_none_or(|(_, highest)| *highest < sequence) {
            self.by_age.push_back((now, sequence));
        }
        Arrival::Held
    }

    /// What waits goes on in order: the numbers up to `last`, and what follows them without a hole.
    fn pass(&mut self, last: u64, sink: &mut dyn FnMut(&[u8])) {
        while let Some(first) = self.held.first_entry()
            && (*first.key() <= last || *first.key() == self.next)
        {
            let (sequence, packet) = first.remove_entry();
            self.held_bytes -= packet.len();
            sink(&packet);
            self.holes += u64::from(sequence > self.next);
            self.next = sequence + 1;
        }
        while self.by_age.front().is_some_and(|(_, sequence)| *sequence < self.next) {
            self.by_age.pop_front();
        }
        if self.by_age.is_empty() {
            // Flows that wait for nothing take no room for it.
            self.by_age = VecDeque::new();
        }
    }

    /// Numbers that are not waited for any more, of which one behind them has been here `since`.
    fn remember(&mut self, numbers: Range<u64>, since: Instant) {
        while self.given_up.front().is_some_and(|(_, before)| *before + LONGEST < since) {
            self.given_up.pop_front();
        }
        if self.given_up.len() < REMEMBERED && !numbers.is_empty() {
            self.given_up.push_back((numbers, since));
        }
    }

    /// The number that goes on next.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Since when the packet has waited that has waited longest.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.by_age.front().map(|(since, _)| *since)
    }

    /// Gives up the holes before the packet that has waited longest, and no others: behind later ones,
    /// nobody has waited for as long.
    pub(super) fn skip(&mut self, sink: &mut dyn FnMut(&[u8])) {
        let Some(&(since, oldest)) = self.by_age.front() else { return };
        self.remember(self.next..oldest, since);
        self.pass(oldest, sink);
    }

    /// Gives every hole up.
    pub(super) fn flush(&mut self, sink: &mut dyn FnMut(&[u8])) {
        while !self.held.is_empty() {
            self.skip(sink);
        }
    }

    /// Holes that were given up since this was asked last.
    pub(super) fn take_holes(&mut self) -> u64 {
        std::mem::take(&mut self.holes)
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

    fn skip(order: &mut Order) -> Vec<u8> {
        let mut out = Vec::new();
        order.skip(&mut |packet| out.extend(packet));
        out
    }

    #[test]
    fn a_packet_waits_no_longer_because_holes_before_it_were_filled() {
        let mut order = Order::starting(0);
        for (ms, sequence) in [(0, 0), (10, 6), (20, 3), (25, 4)] {
            arrive(&mut order, ms, sequence, true);
        }
        let waited = Arrival::Next(Some(Duration::from_millis(20)));
        assert_eq!(arrive(&mut order, 30, 1, true), (waited, vec![1]), "6 had overtaken it by that");
        assert_eq!(order.waiting_since(), Some(at(10)), "behind 2 is not only 3, but 6");
        assert_eq!((skip(&mut order), order.take_holes()), (vec![3, 4, 6], 2));
        assert_eq!((order.waiting_since(), order.held()), (None, (0, 0)));
        let late = Arrival::Late(Some(Duration::from_millis(30)));
        assert_eq!(arrive(&mut order, 40, 5, true), (late, vec![5]));
    }

    #[test]
    fn a_hole_that_is_younger_is_waited_for_when_older_ones_are_given_up() {
        let mut order = Order::starting(0);
        for (ms, sequence) in [(0, 0), (10, 4), (12, 2), (50, 7), (60, 5), (70, 8)] {
            arrive(&mut order, ms, sequence, true);
        }
        assert_eq!(skip(&mut order), [2, 4, 5], "1 and 3 are given up, 6 is not");
        assert_eq!((order.take_holes(), order.waiting_since()), (2, Some(at(50))));
        assert_eq!(arrive(&mut order, 80, 6, true).1, [6, 7, 8]);
    }

    /// Where each other packet takes a slower path, holes are given up faster than what fills them comes.
    #[test]
    fn packets_that_are_late_by_many_holes_tell_how_late_they_are() {
        let mut order = Order::starting(0);
        (0..15).for_each(|n| _ = arrive(&mut order, 2 * n, 2 * n + 1, false));
        let late = Arrival::Late(Some(Duration::from_millis(30)));
        assert_eq!(arrive(&mut order, 30, 0, false), (late, vec![0]));
        assert_eq!(arrive(&mut order, 32, 2, false), (late, vec![2]));
        (0..500).for_each(|n| _ = arrive(&mut order, 100 + n, 102 + 2 * n, false));
        assert!(order.given_up.len() <= REMEMBERED);
        (500..800).for_each(|n| _ = arrive(&mut order, 100 + n, 102 + 2 * n, true));
        (0..300).for_each(|_| _ = skip(&mut order));
        assert!(order.given_up.len() <= REMEMBERED && order.held.is_empty());
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
        assert_eq!(order.take_holes(), 2);
        assert_eq!(arrive(&mut order, 2, 7, true).0, Arrival::Double, "too long ago to know");
        assert_eq!(Order::starting(9_999).next, 9_999);
    }

    proptest! {
        /// No packet waits longer than holes are waited for, and none is given up for one that still may.
        #[test]
        fn nobody_waits_longer_than_a_hole_is_waited_for(
            arrivals in proptest::collection::vec((0u64..3, 0u64..60), 1..200),
            hold in 0u64..20,
        ) {
            let (mut order, mut now) = (Order::starting(0), 0);
            let mut came = BTreeMap::<u64, u64>::new();
            let hold = Duration::from_millis(hold);
            for (ms, sequence) in arrivals {
                // Each moment by itself, as a timer would.
                for _ in 0..ms {
                    now += 1;
                    while order.waiting_since().is_some_and(|since| since + hold <= at(now)) {
                        let (since, before) = (order.waiting_since(), order.next);
                        order.skip(&mut |_| ());
                        prop_assert!(order.next > before);
                        let overdue = came.range(before..order.next).map(|(_, came)| at(*came)).min();
                        prop_assert_eq!(overdue, since);
                    }
                }
                came.entry(sequence).or_insert(now);
                order.arrive(at(now), sequence, &[0], true, &mut |_| ());
                let waiting = order.held.keys().map(|sequence| at(came[sequence])).min();
                prop_assert_eq!(order.waiting_since(), waiting);
                prop_assert!(waiting.is_none_or(|since| since + hold >= at(now)));
                prop_assert!(order.by_age.len() <= order.held.len());
            }
        }

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
