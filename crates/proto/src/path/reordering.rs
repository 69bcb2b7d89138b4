//! Reordering on one path: what was declared lost and may still be acknowledged, and how much of it
//! loss detection bears (RFC 9002 section 6.1).
//!
//! | RFC 9002         | here                                          |
//! |------------------|-----------------------------------------------|
//! | kPacketThreshold | [`ReorderingThresholds::packets`], at least 3 |
//! | kTimeThreshold   | [`ReorderingThresholds::age`], at least 9/8   |
//!
//! The thresholds grow to what packets that were overtaken have needed: the first of them by having
//! been declared lost too early, the others by having been waited for. How far they may grow grows
//! as RACK's reordering window does (RFC 8985 section 6.2), by a round trip with each ACK that finds
//! packets declared lost too early: one of them may only have made up for others that were lost.
//! They return to where they began once none has needed more than that for one to two periods of
//! [`PERIOD`] loss events.

use std::collections::VecDeque;

use units::{Duration, Instant};

use crate::{GRANULARITY, path::rtt::RttEstimator};

/// kPacketThreshold.
const MIN_PACKETS: u64 = 3;
/// Beyond this a gap says nothing and time decides alone, as in RACK.
const MAX_PACKETS: u64 = 128;
/// kTimeThreshold in eighths of a round trip; what late packets have needed is exceeded by as much.
const MIN_EIGHTHS: u64 = 9;
/// Round trips, as the average packet takes them, that are waited for at most beyond one.
const MAX_ROUNDS: u64 = 8;
/// ACKs that have found packets declared lost too early on a path that is known to reorder.
const KNOWN: u64 = 2;
/// Loss events, one per round trip at most, after which what late packets needed before the period
/// is forgotten. Two of them are the 16 of RFC 8985 section 6.2.
const PERIOD: u8 = 8;

/// The reordering thresholds of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReorderingThresholds {
    /// What late packets have needed in this period.
    needed: Need,
    /// The same of the period before.
    needed_before: Need,
    /// ACKs that have found packets declared lost too early, since the thresholds were raised: so
    /// many round trips are waited for beyond one.
    rounds: u64,
    loss_events: u8,
    /// When the last loss event was.
    event_at: Option<Instant>,
}

/// What packets that came late would have needed of loss detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Need {
    packets: u64,
    /// Beyond the average round trip.
    wait: Duration,
}

impl Default for Need {
    fn default() -> Self {
        Self { packets: MIN_PACKETS, wait: Duration::ZERO }
    }
}

impl Need {
    fn max(self, other: Self) -> Self {
        Self { packets: self.packets.max(other.packets), wait: self.wait.max(other.wait) }
    }
}

impl ReorderingThresholds {
    fn need(&self) -> Need {
        self.needed.max(self.needed_before)
    }

    /// Whether packets have come later than a path that keeps their order allows.
    fn are_raised(&self) -> bool {
        self.need() != Need::default()
    }

    /// Whether that has happened again and again.
    pub(crate) fn is_reordering_known(&self) -> bool {
        self.rounds >= KNOWN
    }

    /// Later packet numbers that must be acknowledged before a packet counts as lost.
    pub(crate) fn packets(&self) -> u64 {
        match self.need().packets {
            packets if packets <= MAX_PACKETS => packets,
            _ if self.is_reordering_known() => u64::MAX,
            _ => MAX_PACKETS,
        }
    }

    /// Age at which a packet counts as lost once a later one was acknowledged.
    pub(crate) fn age(&self, rtt: &RttEstimator) -> Duration {
        let wait = self.need().wait.min(rtt.smoothed() * self.rounds.min(MAX_ROUNDS));
        let least = rtt.longest() * MIN_EIGHTHS / 8;
        least.max(if wait.is_zero() { wait } else { rtt.smoothed() + wait }).max(GRANULARITY)
    }

    /// An ACK has found packets that had been declared lost.
    pub(crate) fn on_spurious_ack(&mut self) {
        self.rounds = if self.are_raised() { self.rounds.saturating_add(1) } else { 1 };
    }

    /// One of them was acknowledged at the age `age`, after packets up to `overtaken_by` numbers
    /// later.
    pub(crate) fn on_spurious(&mut self, overtaken_by: u64, age: Duration, rtt: &RttEstimator) {
        let packets = overtaken_by.saturating_add(1);
        let needed = age * MIN_EIGHTHS / 8;
        // What the round-trip time allows for anyway is no need.
        let late = needed > rtt.longest() * MIN_EIGHTHS / 8;
        let wait = if late { needed.saturating_sub(rtt.smoothed()) } else { Duration::ZERO };
        self.needed = self.needed.max(Need { packets, wait });
    }

    /// The same of a packet that had not been: it shows that the path still needs what it needed.
    pub(crate) fn on_late(&mut self, overtaken_by: u64, age: Duration, rtt: &RttEstimator) {
        if self.are_raised() {
            self.on_spurious(overtaken_by, age, rtt);
        }
    }

    /// Packets that left up to `newest` were declared lost.
    pub(crate) fn on_lost(&mut self, now: Instant, newest: Instant) {
        if self.event_at.is_some_and(|at| newest < at) {
            return;
        }
        self.event_at = Some(now);
        self.loss_events += 1;
        if self.loss_events == PERIOD {
            self.loss_events = 0;
            self.needed_before = core::mem::take(&mut self.needed);
            self.rounds = if self.are_raised() { self.rounds } else { 0 };
        }
    }
}

/// A packet that was declared lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LostPacket {
    pub(crate) number: u64,
    pub(crate) sent_at: Instant,
    /// Which reduction of the window its loss belongs to.
    pub(crate) event: u32,
    /// It left into a long silence, and was not counted among what the path loses by chance.
    pub(crate) silent: bool,
}

/// Packets declared lost lately, in number order: the oldest are forgotten, and then stay losses.
#[derive(Debug, Default)]
pub(crate) struct LostPackets(VecDeque<LostPacket>);

impl LostPackets {
    const LIMIT: usize = 1_024;

    /// Nothing has happened for long.
    pub(super) fn rest(&mut self) {
        self.0.shrink_to_fit();
    }

    /// Remembers a packet; its number is above all that are remembered, since loss detection goes
    /// upwards.
    pub(crate) fn push(&mut self, packet: LostPacket) {
        debug_assert!(self.0.back().is_none_or(|last| last.number < packet.number));
        if self.0.len() == Self::LIMIT {
            self.0.pop_front();
        }
        self.0.push_back(packet);
    }

    /// Forgets what was sent before `horizon`.
    pub(crate) fn forget_before(&mut self, horizon: Instant) {
        while self.0.front().is_some_and(|p| p.sent_at < horizon) {
            self.0.pop_front();
        }
    }

    /// Says which event the last `count` packets belong to.
    pub(crate) fn assign_last(&mut self, count: usize, event: u32) {
        self.0.iter_mut().rev().take(count).for_each(|packet| packet.event = event);
    }

    /// Moves what lies within `range` to `into`.
    pub(crate) fn take(&mut self, range: &core::ops::RangeInclusive<u64>, into: &mut Vec<LostPacket>) {
        let first = self.0.partition_point(|p| p.number < *range.start());
        while let Some(packet) = self.0.get(first).copied().filter(|p| p.number <= *range.end()) {
            into.push(packet);
            self.0.remove(first);
        }
    }
}

/// The latest reduction of a path's window for loss, and how many of its losses are still taken for
/// real.
#[derive(Debug, Default)]
pub(crate) struct LossEvent {
    id: u32,
    real: u64,
}

impl LossEvent {
    /// Losses were told to the controller, which `reduced` its window for them or had done so
    /// before; returns the event's id.
    pub(crate) fn on_lost(&mut self, packets: u64, reduced: bool) -> u32 {
        if reduced {
            self.id = self.id.wrapping_add(1);
            self.real = 0;
        }
        self.real += packets;
        self.id
    }

    /// A loss of event `id` was spurious; true if that was the last one, so that the event never
    /// was.
    pub(crate) fn on_spurious(&mut self, id: u32) -> bool {
        if id != self.id || self.real == 0 {
            return false;
        }
        self.real -= 1;
        self.real == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn rtt_of(ms: u64) -> RttEstimator {
        let mut rtt = RttEstimator::new(Duration::from_millis(333));
        rtt.update(at(0), Duration::from_millis(ms), Duration::ZERO);
        rtt
    }

    /// `events` loss events after `from`, a second apart.
    fn lose(thresholds: &mut ReorderingThresholds, from: u64, events: u64) {
        for n in from..from + events {
            thresholds.on_lost(at(1_000 * n + 80), at(1_000 * n));
            thresholds.on_lost(at(1_000 * n + 90), at(1_000 * n + 79)); // of the same round trip
        }
    }

    #[test]
    fn thresholds_grow_to_what_was_needed_within_bounds_and_return() {
        let ms = Duration::from_millis;
        let rtt = &rtt_of(80);
        let mut thresholds = ReorderingThresholds::default();
        assert_eq!((thresholds.packets(), thresholds.age(rtt)), (3, ms(90)));
        thresholds.on_late(5, ms(104), rtt);
        assert!(!thresholds.are_raised(), "nobody was declared lost too early");
        thresholds.on_spurious_ack();
        thresholds.on_spurious(5, ms(60), rtt);
        assert_eq!((thresholds.packets(), thresholds.age(rtt)), (6, ms(90)));
        thresholds.on_late(2, ms(104), rtt);
        assert_eq!((thresholds.packets(), thresholds.age(rtt)), (6, ms(117)));
        thresholds.on_spurious(u64::MAX, ms(60_000), rtt);
        assert_eq!((thresholds.packets(), thresholds.age(rtt)), (128, ms(160)), "one ACK says little");
        assert!(!thresholds.is_reordering_known());
        for rounds in 2..20 {
            thresholds.on_spurious_ack();
            let bound = ms(80 * (1 + rounds.min(8)));
            assert_eq!((thresholds.packets(), thresholds.age(rtt)), (u64::MAX, bound));
        }
        lose(&mut thresholds, 0, 15);
        assert_eq!(thresholds.packets(), u64::MAX);
        lose(&mut thresholds, 15, 1);
        assert_eq!((thresholds.packets(), thresholds.age(rtt)), (3, ms(90)));
        assert!(!thresholds.is_reordering_known());
    }

    #[test]
    fn thresholds_stay_as_long_as_packets_need_them() {
        let mut thresholds = ReorderingThresholds::default();
        thresholds.on_spurious_ack();
        thresholds.on_spurious(70, Duration::from_millis(160), &rtt_of(80));
        for n in 0..100 {
            lose(&mut thresholds, n, 1);
            thresholds.on_late(if n == 50 { 70 } else { 20 }, Duration::from_millis(100), &rtt_of(80));
            let packets = if n < 15 || (50..63).contains(&n) { 71 } else { 21 };
            assert_eq!(thresholds.packets(), packets, "{n}");
        }
    }

    #[test]
    fn lost_packets_are_found_by_range_and_bounded() {
        let mut lost = LostPackets::default();
        for number in 0..2_000 {
            lost.push(LostPacket { number: 2 * number, sent_at: at(number), event: 0, silent: false });
        }
        assert_eq!(lost.0.front().map(|p| p.number), Some(2 * (2_000 - 1_024)));
        let mut found = Vec::new();
        lost.take(&(3_001..=3_004), &mut found);
        lost.take(&(3_001..=3_004), &mut found);
        assert_eq!(found.iter().map(|p| p.number).collect::<Vec<_>>(), [3_002, 3_004]);
        lost.forget_before(at(1_999));
        assert_eq!(lost.0.front().map(|p| p.number), Some(3_998));
    }

    #[test]
    fn an_event_is_undone_with_its_last_loss_only() {
        let mut event = LossEvent::default();
        let first = event.on_lost(2, true);
        assert!(!event.on_spurious(first));
        event.on_lost(1, false);
        assert!(!event.on_spurious(first));
        assert!(event.on_spurious(first));
        assert!(!event.on_spurious(first));
        let second = event.on_lost(1, true);
        assert!(!event.on_spurious(first), "an older event has been built upon");
        assert!(event.on_spurious(second));
    }
}
