//! Reordering on one path: what was declared lost and may still be acknowledged, and how much of it
//! loss detection bears (RFC 9002 section 6.1).
//!
//! | RFC 9002         | here                                                |
//! |------------------|-----------------------------------------------------|
//! | kPacketThreshold | [`ReorderingThresholds::packets`], at least 3       |
//! | kTimeThreshold   | [`ReorderingThresholds::eighths`] / 8, at least 9/8 |
//!
//! The thresholds grow to what a late ACK shows to be needed, within bounds: the time to two round
//! trips, as in RACK (RFC 8985 section 6.2). [`PERSISTENCE`] loss events without a spurious loss
//! bring them back to where they began.

use std::collections::VecDeque;

use units::{Duration, Instant};

use crate::{GRANULARITY, path::rtt::RttEstimator};

/// kPacketThreshold.
const MIN_PACKETS: u64 = 3;
/// Beyond this a gap says nothing and time decides.
const MAX_PACKETS: u64 = 128;
/// kTimeThreshold in eighths of a round trip.
const MIN_EIGHTHS: u64 = 9;
const MAX_EIGHTHS: u64 = 16;
/// Loss events for which the thresholds outlast the reordering that raised them (RFC 8985 section
/// 6.2).
const PERSISTENCE: u8 = 16;

/// The reordering thresholds of one path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReorderingThresholds {
    packets: u64,
    eighths: u64,
    loss_events_left: u8,
}

impl Default for ReorderingThresholds {
    fn default() -> Self {
        Self { packets: MIN_PACKETS, eighths: MIN_EIGHTHS, loss_events_left: 0 }
    }
}

impl ReorderingThresholds {
    /// Later packet numbers that must be acknowledged before a packet counts as lost.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Age at which a packet counts as lost once a later one was acknowledged.
    pub(crate) fn age(&self, rtt: &RttEstimator) -> Duration {
        (rtt.longest() * self.eighths / 8).max(GRANULARITY)
    }

    /// A packet declared lost was acknowledged at the age `age`, after packets up to `overtaken_by`
    /// numbers later.
    pub(crate) fn on_spurious(&mut self, overtaken_by: u64, age: Duration, rtt: &RttEstimator) {
        self.packets = self.packets.max((overtaken_by + 1).min(MAX_PACKETS));
        let eighths = (age * 8).as_nanos().div_ceil(rtt.longest().as_nanos().max(1));
        self.eighths = self.eighths.max(eighths.min(MAX_EIGHTHS));
        self.loss_events_left = PERSISTENCE;
    }

    /// The window was reduced for a loss.
    pub(crate) fn on_loss_event(&mut self) {
        self.loss_events_left = self.loss_events_left.saturating_sub(1);
        if self.loss_events_left == 0 {
            *self = Self::default();
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
}

/// Packets declared lost lately, in number order: the oldest are forgotten, and then stay losses.
#[derive(Debug, Default)]
pub(crate) struct LostPackets(VecDeque<LostPacket>);

impl LostPackets {
    const LIMIT: usize = 1_024;

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

    #[test]
    fn thresholds_grow_to_what_was_needed_within_bounds_and_return() {
        let mut rtt = RttEstimator::new(Duration::from_millis(333));
        rtt.update(at(0), Duration::from_millis(80), Duration::ZERO);
        let rtt = &rtt;
        let mut thresholds = ReorderingThresholds::default();
        assert_eq!((thresholds.packets(), thresholds.age(rtt)), (3, Duration::from_millis(90)));
        thresholds.on_spurious(5, Duration::from_millis(101), rtt);
        assert_eq!((thresholds.packets(), thresholds.age(rtt)), (6, Duration::from_millis(110)));
        thresholds.on_spurious(2, Duration::from_millis(60), rtt);
        assert_eq!((thresholds.packets(), thresholds.age(rtt)), (6, Duration::from_millis(110)));
        thresholds.on_spurious(u64::MAX - 1, Duration::from_secs(60), rtt);
        assert_eq!((thresholds.packets(), thresholds.age(rtt)), (128, Duration::from_millis(160)));
        (0..15).for_each(|_| thresholds.on_loss_event());
        assert_eq!(thresholds.packets(), 128);
        thresholds.on_loss_event();
        assert_eq!((thresholds.packets(), thresholds.age(rtt)), (3, Duration::from_millis(90)));
    }

    #[test]
    fn lost_packets_are_found_by_range_and_bounded() {
        let mut lost = LostPackets::default();
        for number in 0..2_000 {
            lost.push(LostPacket { number: 2 * number, sent_at: at(number), event: 0 });
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
