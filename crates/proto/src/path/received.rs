//! The packet numbers that arrived in one space, and which ACK is owed for them (RFC 9000
//! section 13.2).

use core::ops::RangeInclusive;

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::late::LateArrivals;
use crate::{Ecn, range_set::RangeSet, wire::EcnCounts};

/// Ranges remembered to be acknowledged; the floor passes older ones.
const MAX_RANGES: usize = 256;
/// Ranges of packets below the floor that are remembered to have never arrived; the oldest are
/// forgotten first, and their packets then count as duplicates. So many are gaps between packets
/// that have overtaken each other by 80 ms at 1 Gbit/s, in some 100 kB at most.
const MAX_GAPS: usize = 4_096;
/// Ranges of an ACK frame, the newest: each is repeated in so many ACKs that losing some of them
/// loses nothing. What came out of order is named beside them.
const RANGES_SENT: usize = 16;
/// The same of an ACK once per round trip, in case that all ACKs for a while were lost.
const RANGES_REVIEWED: usize = 64;
/// Packets with nothing but an ACK after which the next one asks for an ACK itself (RFC 9000
/// section 13.2.4). A peer that answers in the same way has its sixteenth part of that to ask for,
/// so that two receivers fall silent.
const ACKS_UNASKED: u32 = 16;
/// Ack-eliciting packets after which an ACK leaves without waiting for the delay (RFC 9000
/// section 13.2.2).
const ACK_EVERY: u32 = 2;

/// Received packet numbers of one space.
#[derive(Debug, Default)]
pub(crate) struct ReceivedPackets {
    arrived: RangeSet,
    /// Rebuilt by the decoder but not arrived: not acknowledged
    /// (docs/decisions/0001-transport-core.md).
    rebuilt: RangeSet,
    /// Every number below counts as seen but those in `gaps`, and is named no more in ACKs but for
    /// what has arrived late.
    floor: u64,
    /// Below the floor, but never arrived.
    gaps: RangeSet,
    gaps_forgotten: u64,
    late: LateArrivals,
    largest: Option<u64>,
    largest_at: Instant,
    /// Numbers that arrived, each counted once.
    count: u64,
    /// Ack-eliciting packets since the last ACK was sent.
    unacknowledged: u32,
    ack_deadline: Option<Instant>,
    /// Packets with nothing but an ACK since the last ACK that asked for one.
    acks_unasked: u32,
    /// When that one left.
    asked_at: Option<Instant>,
    ecn: EcnCounts,
    saw_ecn: bool,
}

/// The ranges of an ACK.
pub(crate) type AckRanges = SmallVec<[RangeInclusive<u64>; RANGES_SENT]>;

/// What an ACK has told, as far as its sender has to remember it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// The largest number that it named.
    pub(crate) largest: u64,
    /// Packets that had arrived by then.
    pub(crate) count: u64,
}

impl Told {
    /// The same of an ACK that had no room for what came late.
    pub(crate) fn without_late(self) -> Self {
        Self { count: 0, ..self }
    }
}

/// What the space knew about a packet number when it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    New,
    /// Its frames were processed when the decoder rebuilt it; the number is new to the path all the
    /// same.
    AlreadyRebuilt,
    Duplicate,
}

impl ReceivedPackets {
    /// Nothing has come for long.
    pub(super) fn rest(&mut self) {
        [&mut self.arrived, &mut self.rebuilt, &mut self.gaps].into_iter().for_each(RangeSet::give_back);
        self.late.rest();
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        (number < self.floor && !self.gaps.contains(number)) || self.arrived.contains(number)
    }

    /// Whether the packet's frames have been dealt with, because it arrived or was rebuilt.
    pub(crate) fn is_settled(&self, number: u64) -> bool {
        // Whatever is still to come: often asked, quickly answered.
        if self.largest.is_none_or(|largest| number > largest) {
            return self.rebuilt.contains(number);
        }
        self.contains(number) || self.rebuilt.contains(number)
    }

    /// Whether the packet was rebuilt and has not arrived.
    pub(crate) fn is_rebuilt(&self, number: u64) -> bool {
        self.rebuilt.contains(number)
    }

    /// Whether the packet was already known; does not record it, since the packet may still fail to
    /// decrypt.
    pub(crate) fn classify(&self, number: u64) -> Arrival {
        if self.contains(number) {
            Arrival::Duplicate
        } else if self.rebuilt.contains(number) {
            Arrival::AlreadyRebuilt
        } else {
            Arrival::New
        }
    }

    /// Records an authenticated packet and decides when its ACK must leave.
    pub(crate) fn on_packet(
        &mut self,
        now: Instant,
        number: u64,
        ack_eliciting: bool,
        ecn: Option<Ecn>,
        max_ack_delay: Duration,
    ) {
        let in_order = self.largest.is_none_or(|largest| number == largest + 1);
        self.count += 1;
        self.arrived.insert(number..number + 1);
        self.rebuilt.remove(number..number + 1);
        self.bound_rebuilt();
        if self.largest.is_none_or(|largest| number > largest) {
            self.largest = Some(number);
            self.largest_at = now;
        } else {
            self.on_late(number);
        }
        self.count_ecn(ecn);
        self.forget_oldest();
        if !ack_eliciting {
            return;
        }
        self.unacknowledged += 1;
        // A gap or a congestion mark is news that the sender should get at once.
        let at_once = !in_order || ecn == Some(Ecn::Ce) || self.unacknowledged >= ACK_EVERY;
        let deadline = if at_once { now } else { now + max_ack_delay };
        self.ack_deadline = Some(self.ack_deadline.map_or(deadline, |d| d.min(deadline)));
    }

    /// A packet was overtaken by a larger number.
    fn on_late(&mut self, number: u64) {
        self.gaps.remove(number..number + 1);
        // In the middle of a gap it has made two of one.
        self.bound_gaps();
        if let Some(told) = self.late.push(number, self.count) {
            self.forget_late(told);
        }
    }

    /// The peer knows that a packet has come late.
    fn forget_late(&mut self, number: u64) {
        if number < self.floor {
            self.arrived.remove(number..number + 1);
        }
    }

    /// How many numbers below the largest have not arrived.
    pub(crate) fn missing(&self) -> u64 {
        self.largest.map_or(0, |largest| (largest + 1).saturating_sub(self.count))
    }

    pub(crate) fn on_rebuilt(&mut self, number: u64) {
        self.rebuilt.insert(number..number + 1);
        self.bound_rebuilt();
    }

    fn bound_rebuilt(&mut self) {
        while self.rebuilt.len() > MAX_RANGES {
            self.rebuilt.pop_first();
        }
    }

    fn count_ecn(&mut self, ecn: Option<Ecn>) {
        match ecn {
            Some(Ecn::Ect0) => self.ecn.ect0 += 1,
            Some(Ecn::Ect1) => self.ecn.ect1 += 1,
            Some(Ecn::Ce) => self.ecn.ce += 1,
            None => return,
        }
        self.saw_ecn = true;
    }

    fn forget_oldest(&mut self) {
        while self.arrived.len() > MAX_RANGES {
            match self.arrived.first() {
                Some(first) if first.end > self.floor => self.raise_floor(first.end),
                Some(late) => _ = self.arrived.remove(late),
                None => {}
            }
        }
    }

    /// What has arrived below `end` need not be named any more, unless it came late; which of it
    /// never arrived is remembered.
    fn raise_floor(&mut self, end: u64) {
        if end <= self.floor {
            return;
        }
        for gap in self.arrived.missing_within(self.floor..end) {
            self.gaps.insert(gap);
        }
        self.bound_gaps();
        self.arrived.remove(0..end);
        self.floor = end;
        for number in self.late.below(end) {
            self.arrived.insert_one(number);
        }
    }

    fn bound_gaps(&mut self) {
        while self.gaps.len() > MAX_GAPS {
            self.gaps.pop_first();
            self.gaps_forgotten += 1;
        }
    }

    /// How many gaps were forgotten because there were more than [`MAX_GAPS`].
    pub(crate) fn gaps_forgotten(&self) -> u64 {
        self.gaps_forgotten
    }

    /// When an ACK must leave at the latest, if one is owed.
    pub(crate) fn ack_deadline(&self) -> Option<Instant> {
        self.ack_deadline
    }

    /// Whether an ACK is worth adding to a packet that leaves anyway.
    pub(crate) fn owes_ack(&self) -> bool {
        self.ack_deadline.is_some()
    }

    /// Ranges to acknowledge, newest first, as inclusive bounds: the newest, and those that late
    /// packets belong to. More of them if the last ACK that asked for one is a round trip ago.
    pub(crate) fn ranges(&self, now: Instant, rtt: Duration) -> AckRanges {
        let most = if self.is_review_due(now, rtt) { RANGES_REVIEWED } else { RANGES_SENT };
        let mut ranges: AckRanges =
            self.arrived.iter().rev().take(most).map(|r| r.start..=r.end - 1).collect();
        let named = ranges.last().map_or(0, |oldest| *oldest.start());
        let mut late: SmallVec<[u64; LateArrivals::LIMIT]> = self.late.below(named).collect();
        late.sort_unstable();
        for number in late.into_iter().rev() {
            let range = self.arrived.range_around(number);
            if let Some(range) = range.filter(|r| ranges.last().is_some_and(|last| r.end <= *last.start())) {
                ranges.push(range.start..=range.end - 1);
            }
        }
        ranges
    }

    fn is_review_due(&self, now: Instant, rtt: Duration) -> bool {
        self.asked_at.is_none_or(|at| now - at >= rtt)
    }

    pub(crate) fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// How long ago the largest packet arrived: the ACK Delay field.
    pub(crate) fn ack_delay(&self, now: Instant) -> Duration {
        now - self.largest_at
    }

    pub(crate) fn ecn_counts(&self) -> Option<EcnCounts> {
        self.saw_ecn.then_some(self.ecn)
    }

    /// An ACK leaves; returns what it tells.
    pub(crate) fn on_ack_sent(&mut self) -> Option<Told> {
        self.unacknowledged = 0;
        self.ack_deadline = None;
        Some(Told { largest: self.largest?, count: self.count })
    }

    /// An ACK is owed once more although nothing new came: the last ones may be lost.
    pub(crate) fn owe_again(&mut self, now: Instant) {
        if self.largest.is_some() {
            self.ack_deadline = Some(self.ack_deadline.map_or(now, |d| d.min(now)));
        }
    }

    /// An ACK has left, in a packet that the peer acknowledges if it is `ack_eliciting`.
    pub(crate) fn on_packet_with_ack(&mut self, now: Instant, ack_eliciting: bool) {
        if ack_eliciting {
            (self.acks_unasked, self.asked_at) = (0, Some(now));
        } else {
            self.acks_unasked = self.acks_unasked.saturating_add(1);
        }
    }

    /// Whether the next ACK had better ask for one: else we never learn which of them arrived, and
    /// go on repeating old ranges (RFC 9000 section 13.2.4). Once per round trip is enough.
    pub(crate) fn is_ack_wanted(&self, now: Instant, rtt: Duration) -> bool {
        self.acks_unasked >= ACKS_UNASKED && self.is_review_due(now, rtt)
    }

    /// The peer has seen our ACK: what it told need not be acknowledged again.
    pub(crate) fn on_ack_acknowledged(&mut self, told: Told) {
        while let Some(number) = self.late.pop_known(told.count) {
            self.forget_late(number);
        }
        // The newest number stays, so that an ACK always has something to say.
        let Some(keep) = self.largest else { return };
        self.raise_floor((told.largest + 1).min(keep));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(25);

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn ranges(received: &ReceivedPackets) -> Vec<RangeInclusive<u64>> {
        received.ranges(at(0), DELAY).to_vec()
    }

    fn receive(received: &mut ReceivedPackets, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            assert_ne!(received.classify(number), Arrival::Duplicate, "{number}");
            received.on_packet(at(0), number, true, None, DELAY);
        }
    }

    #[test]
    fn second_packet_or_gap_is_acknowledged_at_once() {
        let mut received = ReceivedPackets::default();
        received.on_packet(at(0), 0, true, None, DELAY);
        assert_eq!(received.ack_deadline(), Some(at(25)));
        received.on_packet(at(1), 1, true, None, DELAY);
        assert_eq!(received.ack_deadline(), Some(at(1)));
        received.on_ack_sent();
        received.on_packet(at(2), 2, false, None, DELAY);
        assert_eq!(received.ack_deadline(), None, "ACK-only packets are not acknowledged by themselves");
        received.on_packet(at(3), 5, true, None, DELAY);
        assert_eq!(received.ack_deadline(), Some(at(3)));
        assert_eq!(ranges(&received), [5..=5, 0..=2]);
    }

    #[test]
    fn the_oldest_ranges_are_no_longer_named_but_what_they_lack_may_come() {
        let mut received = ReceivedPackets::default();
        receive(&mut received, (0..2 * MAX_RANGES as u64).map(|n| 2 * n));
        assert_eq!(received.arrived.len(), MAX_RANGES);
        let newest = 4 * MAX_RANGES as u64 - 2;
        assert_eq!(ranges(&received).len(), RANGES_REVIEWED);
        assert_eq!(ranges(&received)[0], newest..=newest);
        received.on_packet_with_ack(at(0), true);
        assert_eq!(ranges(&received).len(), RANGES_SENT, "a frame names the newest");
        assert_eq!(received.classify(0), Arrival::Duplicate);
        receive(&mut received, [1]);
        assert_eq!(received.classify(1), Arrival::Duplicate);
        assert_eq!(received.classify(4 * MAX_RANGES as u64), Arrival::New);
    }

    #[test]
    fn what_has_not_arrived_is_missing_until_it_comes() {
        let mut received = ReceivedPackets::default();
        assert_eq!(received.missing(), 0);
        for n in [0, 1, 4] {
            received.on_packet(at(0), n, true, None, DELAY);
        }
        received.on_rebuilt(2);
        assert_eq!(received.missing(), 2, "the network lost what was rebuilt");
        received.on_packet(at(0), 3, true, None, DELAY);
        assert_eq!(received.missing(), 1);
    }

    #[test]
    fn rebuilt_is_not_arrived() {
        let mut received = ReceivedPackets::default();
        received.on_packet(at(0), 0, true, None, DELAY);
        received.on_rebuilt(1);
        assert_eq!(received.classify(1), Arrival::AlreadyRebuilt);
        assert_eq!(ranges(&received), [0..=0]);
        received.on_packet(at(0), 1, true, None, DELAY);
        assert_eq!(received.classify(1), Arrival::Duplicate);
    }

    #[test]
    fn acknowledged_acks_shrink_the_next_one_but_never_empty_it() {
        let mut received = ReceivedPackets::default();
        receive(&mut received, [0, 2, 4]);
        received.on_ack_acknowledged(Told { largest: 2, count: 2 });
        assert_eq!(ranges(&received), [4..=4]);
        received.on_ack_acknowledged(Told { largest: 4, count: 3 });
        assert_eq!(ranges(&received), [4..=4]);
        assert_eq!((received.classify(2), received.classify(3)), (Arrival::Duplicate, Arrival::New));
        assert!(!received.is_settled(3));
        received.on_rebuilt(3);
        assert!(received.is_settled(3) && received.is_settled(2) && !received.is_settled(1));
    }

    #[test]
    fn what_comes_below_the_floor_is_told_until_the_peer_knows() {
        let mut received = ReceivedPackets::default();
        receive(&mut received, [0, 2, 4, 6, 9]);
        let told = received.on_ack_sent().unwrap();
        receive(&mut received, [3]);
        let told_later = received.on_ack_sent().unwrap();
        receive(&mut received, [5]);
        received.on_ack_acknowledged(told);
        assert_eq!(ranges(&received), [9..=9, 5..=5, 3..=3], "it heard of neither");
        assert_eq!(received.classify(3), Arrival::Duplicate);
        received.on_ack_acknowledged(told_later.without_late());
        assert_eq!(ranges(&received), [9..=9, 5..=5, 3..=3], "there was no room for them");
        received.on_ack_acknowledged(told_later);
        assert_eq!(ranges(&received), [9..=9, 5..=5]);
        assert!(received.is_settled(3) && !received.is_settled(7));
        assert_eq!(received.missing(), 3, "1, 7 and 8");
    }

    #[test]
    fn an_ack_names_what_came_late_however_far_below() {
        let mut received = ReceivedPackets::default();
        receive(&mut received, (0..200).map(|n| 2 * n));
        received.on_packet_with_ack(at(0), true);
        receive(&mut received, [101, 11, 51]);
        let named = ranges(&received);
        assert_eq!(named[0], 398..=398);
        assert_eq!(named[RANGES_SENT..], [100..=102, 50..=52, 10..=12]);
        receive(&mut received, (60..60 + LateArrivals::LIMIT as u64).map(|n| 2 * n + 1));
        assert_eq!(ranges(&received)[RANGES_SENT..], [120..=152], "the latest alone");
    }

    #[test]
    fn every_seventeenth_ack_asks_for_one_but_once_per_round_trip() {
        let (mut received, rtt) = (ReceivedPackets::default(), Duration::from_millis(40));
        let mut asked = Vec::new();
        for ms in 0..100 {
            let asks = received.is_ack_wanted(at(ms), rtt);
            received.on_packet_with_ack(at(ms), asks);
            asked.extend(asks.then_some(ms));
        }
        assert_eq!(asked, [16, 56, 96]);
    }

    #[test]
    fn gaps_below_the_floor_are_forgotten_from_the_oldest() {
        let mut received = ReceivedPackets::default();
        for n in 0..=2 * MAX_GAPS as u64 {
            receive(&mut received, [2 * n]);
            let told = received.on_ack_sent().unwrap();
            received.on_ack_acknowledged(told);
        }
        assert_eq!(received.gaps.len(), MAX_GAPS);
        assert!(received.is_settled(1) && !received.is_settled(4 * MAX_GAPS as u64 - 1));
        assert_eq!(received.classify(1), Arrival::Duplicate, "whether it came is forgotten");
    }

    /// One gap of millions of numbers, of which every second one comes late: each splits it.
    #[test]
    fn late_packets_do_not_split_a_gap_without_end() {
        let far = 1 << 24;
        let mut received = ReceivedPackets::default();
        receive(&mut received, [0, far, far + 2]);
        let told = received.on_ack_sent().unwrap();
        received.on_ack_acknowledged(told);
        let split = MAX_GAPS as u64 + 100;
        receive(&mut received, (1..=split).map(|n| 2 * n));
        assert_eq!((received.gaps.len(), received.gaps_forgotten()), (MAX_GAPS, 102));
        assert_eq!(received.classify(1), Arrival::Duplicate, "the oldest is forgotten");
        assert_eq!(received.classify(2 * split + 1), Arrival::New);
    }

    #[test]
    fn arrivals_do_not_split_what_was_rebuilt_without_end() {
        let mut received = ReceivedPackets::default();
        let many = 2 * MAX_RANGES as u64 + 100;
        (0..2 * many).for_each(|n| received.on_rebuilt(n));
        receive(&mut received, (0..many).map(|n| 2 * n));
        assert_eq!(received.rebuilt.len(), MAX_RANGES);
    }
}
