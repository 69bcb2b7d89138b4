//! A queue that stays short: CoDel (RFC 8289), so that a program that fills the tunnel does not
//! make all others wait. Whose packet goes is told so as a router would tell it: by losing it.
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
const OVERHEAD: usize = 64;
/// With no more than this there is no queue (section 5.2).
const ONE_PACKET: usize = 1_500 + OVERHEAD;

/// Packets that wait for the connection.
#[derive(Debug)]
pub struct Queue {
    packets: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    most_bytes: usize,
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    is_dropping: bool,
    counters: QueueCounters,
}

/// Packets that were dropped since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Since packets had waited too long for a while.
    pub overdue: u64,
    /// For want of room.
    pub overflowed: u64,
}

impl std::ops::AddAssign for QueueCounters {
    fn add_assign(&mut self, other: Self) {
        self.overdue += other.overdue;
        self.overflowed += other.overflowed;
    }
}

impl Queue {
    /// An empty one for at most so many bytes.
    pub fn new(most_bytes: usize) -> Self {
        Self {
            packets: VecDeque::new(),
            bytes: 0,
            most_bytes,
            first_above: None,
            drop_next: Instant::ORIGIN,
            count: 0,
            last_count: 0,
            is_dropping: false,
            counters: QueueCounters::default(),
        }
    }

    /// What was dropped.
    pub fn counters(&self) -> QueueCounters {
        self.counters
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Takes a packet, or drops it if there is no room.
    pub fn push(&mut self, packet: Vec<u8>, now: Instant) {
        let cost = packet.len() + OVERHEAD;
        if self.bytes + cost > self.most_bytes {
            self.counters.overflowed += 1;
            return;
        }
        self.bytes += cost;
        self.packets.push_back((now, packet));
    }

    /// The next packet to send; those before it may be dropped (section 5.3).
    pub fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        let (mut packet, mut is_overdue) = self.take(now);
        if self.is_dropping {
            self.is_dropping = is_overdue;
            while self.is_dropping && now >= self.drop_next {
                self.counters.overdue += 1;
                self.count += 1;
                (packet, is_overdue) = self.take(now);
                self.is_dropping = is_overdue;
                if is_overdue {
                    self.drop_next += self.pause();
                }
            }
        } else if is_overdue {
            self.counters.overdue += 1;
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
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    #[test]
    fn a_burst_that_drains_loses_nothing_and_keeps_its_order() {
        let mut queue = Queue::new(1 << 20);
        for n in 0..90 {
            queue.push(vec![n; 1_000], at(0));
        }
        for n in 0..90 {
            assert_eq!(queue.pop(at(u64::from(n))), Some(vec![n; 1_000]), "an interval is not over");
        }
        assert!(queue.is_empty() && queue.pop(at(100)).is_none());
        assert_eq!(queue.counters(), QueueCounters::default());
    }

    /// Twice as much comes as leaves: more and more is dropped, until as much leaves as stays.
    #[test]
    fn a_queue_that_stands_is_dropped_from_ever_faster() {
        let mut queue = Queue::new(64 << 20);
        let mut dropped = Vec::new();
        for second in 0..4 {
            let before = queue.counters().overdue;
            for ms in 0..1_000 {
                let now = at(second * 1_000 + ms);
                (0..2).for_each(|_| queue.push(vec![0; 1_000], now));
                assert!(queue.pop(now).is_some());
            }
            dropped.push(queue.counters().overdue - before);
        }
        assert!(dropped.is_sorted() && dropped[0] >= 5 && dropped[3] > 2 * dropped[0], "{dropped:?}");
        assert_eq!(queue.counters().overflowed, 0);
    }

    #[test]
    fn a_queue_that_has_become_short_is_left_alone() {
        let mut queue = Queue::new(1 << 20);
        (0..400).for_each(|_| queue.push(vec![0; 1_000], at(0)));
        (0..300).for_each(|ms| _ = queue.pop(at(ms)));
        let before = queue.counters();
        assert!(before.overdue > 0);
        while queue.pop(at(300)).is_some() && queue.bytes > ONE_PACKET {}
        for ms in 301..600 {
            queue.push(vec![0; 1_000], at(ms));
            assert!(queue.pop(at(ms + 1)).is_some());
        }
        assert!(queue.counters().overdue <= before.overdue + 2);
    }

    #[test]
    fn room_is_bounded_also_for_small_packets() {
        let mut queue = Queue::new(10 * (100 + OVERHEAD));
        (0..15).for_each(|_| queue.push(vec![0; 100], at(0)));
        assert_eq!((queue.packets.len(), queue.counters().overflowed), (10, 5));
        (0..100).for_each(|_| queue.push(Vec::new(), at(0)));
        assert!(queue.bytes <= queue.most_bytes && queue.packets.len() < 30);
    }

    proptest! {
        /// Each packet leaves, waits, or was counted; those that leave are in order.
        #[test]
        fn every_packet_is_accounted_for(steps in proptest::collection::vec((0u64..30, 0u8..4), 1..600)) {
            let (mut queue, mut now, mut pushed, mut left) = (Queue::new(20_000), 0, 0u32, Vec::new());
            for (ms, pushes) in steps {
                now += ms;
                for _ in 0..pushes {
                    let mut packet = pushed.to_be_bytes().to_vec();
                    packet.resize(600, 0);
                    queue.push(packet, at(now));
                    pushed += 1;
                }
                left.extend(queue.pop(at(now)).map(|packet| u32::from_be_bytes(*packet.first_chunk().unwrap())));
            }
            prop_assert!(left.is_sorted());
            let QueueCounters { overdue, overflowed } = queue.counters();
            prop_assert_eq!(left.len() as u64 + overdue + overflowed + queue.packets.len() as u64, u64::from(pushed));
        }
    }
}
