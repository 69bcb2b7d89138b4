//! A queue that stays short: CoDel (RFC 8289). Whose packet goes is told so as a router would tell
//! it: by losing it.
//!
//! | RFC 8289        | here                    |
//! |-----------------|-------------------------|
//! | TARGET          | [`TARGET`]              |
//! | INTERVAL        | [`INTERVAL`]            |
//! | `first_above_time_`, `drop_next_`, `count_`, `lastcount_`, `dropping_` | fields of the same names |

use std::collections::VecDeque;

use units::{Duration, Instant};

/// Waiting that nobody minds (section 4.4).
const TARGET: Duration = Duration::from_millis(5);
/// A round trip of most who are asked to slow down (section 4.3).
const INTERVAL: Duration = Duration::from_millis(100);
/// What a packet costs besides its bytes.
pub(super) const OVERHEAD: usize = 64;
/// With no more than this there is no queue (section 5.2).
const ONE_PACKET: usize = 1_500 + OVERHEAD;

/// Packets of one flow that wait.
#[derive(Debug)]
pub(super) struct CoDel {
    packets: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    is_dropping: bool,
    /// Packets that were dropped since they had waited too long for a while.
    pub(super) overdue: u64,
}

impl Default for CoDel {
    fn default() -> Self {
        Self {
            packets: VecDeque::new(),
            bytes: 0,
            first_above: None,
            drop_next: Instant::ORIGIN,
            count: 0,
            last_count: 0,
            is_dropping: false,
            overdue: 0,
        }
    }
}

impl CoDel {
    /// What its packets cost, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many wait.
    pub(super) fn packets(&self) -> usize {
        self.packets.len()
    }

    /// Takes a packet.
    pub(super) fn push(&mut self, packet: Vec<u8>, now: Instant) {
        self.bytes += packet.len() + OVERHEAD;
        self.packets.push_back((now, packet));
    }

    /// Drops the packet that has waited longest.
    pub(super) fn drop_first(&mut self) {
        if let Some((_, packet)) = self.packets.pop_front() {
            self.bytes -= packet.len() + OVERHEAD;
        }
    }

    /// The next packet to send; those before it may be dropped (section 5.3).
    pub(super) fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        let (mut packet, mut is_overdue) = self.take(now);
        if self.is_dropping {
            self.is_dropping = is_overdue;
            while self.is_dropping && now >= self.drop_next {
                self.overdue += 1;
                self.count += 1;
                (packet, is_overdue) = self.take(now);
                self.is_dropping = is_overdue;
                if is_overdue {
                    self.drop_next += self.pause();
                }
            }
        } else if is_overdue {
            self.overdue += 1;
            (packet, _) = self.take(now);
            self.is_dropping = true;
            // Who has dropped lately goes on about where he was.
            let delta = self.count.saturating_sub(self.last_count);
            let lately = now.saturating_duration_since(self.drop_next) < INTERVAL * 16;
            self.count = if delta > 1 && lately { delta } else { 1 };
            self.last_count = self.count;
            self.drop_next = now + self.pause();
        }
        packet
    }

    /// Until the next drop: the more there were, the sooner.
    fn pause(&self) -> Duration {
        INTERVAL.mul_f64(1.0 / f64::from(self.count.max(1)).sqrt())
    }

    /// The first packet, and whether packets have waited too long for an interval.
    fn take(&mut self, now: Instant) -> (Option<Vec<u8>>, bool) {
        let Some((since, packet)) = self.packets.pop_front() else {
            self.first_above = None;
            return (None, false);
        };
        self.bytes -= packet.len() + OVERHEAD;
        if now.saturating_duration_since(since) < TARGET || self.bytes <= ONE_PACKET {
            self.first_above = None;
            return (Some(packet), false);
        }
        let first_above = *self.first_above.get_or_insert(now + INTERVAL);
        (Some(packet), now >= first_above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    #[test]
    fn a_burst_that_drains_loses_nothing_and_keeps_its_order() {
        let mut queue = CoDel::default();
        for n in 0..90 {
            queue.push(vec![n; 1_000], at(0));
        }
        for n in 0..90 {
            assert_eq!(queue.pop(at(u64::from(n))), Some(vec![n; 1_000]), "an interval is not over");
        }
        assert!(queue.pop(at(100)).is_none());
        assert_eq!((queue.overdue, queue.bytes(), queue.packets()), (0, 0, 0));
    }

    /// Twice as much comes as leaves: more and more is dropped, until as much leaves as stays.
    #[test]
    fn a_queue_that_stands_is_dropped_from_ever_faster() {
        let mut queue = CoDel::default();
        let mut dropped = Vec::new();
        for second in 0..4 {
            let before = queue.overdue;
            for ms in 0..1_000 {
                let now = at(second * 1_000 + ms);
                (0..2).for_each(|_| queue.push(vec![0; 1_000], now));
                assert!(queue.pop(now).is_some());
            }
            dropped.push(queue.overdue - before);
        }
        assert!(dropped.is_sorted() && dropped[0] >= 5 && dropped[3] > 2 * dropped[0], "{dropped:?}");
    }

    #[test]
    fn a_queue_that_has_become_short_is_left_alone() {
        let mut queue = CoDel::default();
        (0..400).for_each(|_| queue.push(vec![0; 1_000], at(0)));
        (0..300).for_each(|ms| _ = queue.pop(at(ms)));
        let before = queue.overdue;
        assert!(before > 0);
        while queue.pop(at(300)).is_some() && queue.bytes() > ONE_PACKET {}
        for ms in 301..600 {
            queue.push(vec![0; 1_000], at(ms));
            assert!(queue.pop(at(ms + 1)).is_some());
        }
        assert!(queue.overdue <= before + 2);
    }
}
