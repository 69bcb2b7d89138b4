//! What waits for the connection: each flow in a queue of its own, which stays short, so that a
//! program that fills the tunnel makes nobody else wait (FQ-CoDel, RFC 8290).
//!
//! | RFC 8290              | here                                                      |
//! |-----------------------|-----------------------------------------------------------|
//! | queues, by a hash     | one for each flow that has packets waiting; one for all packets of no flow |
//! | new and old queues    | `new`, `old`: a flow that sends little is always new       |
//! | quantum               | [`QUANTUM`]                                               |
//! | limit                 | bytes; beyond, the longest queue loses half (section 4.1) |

mod codel;

use std::collections::{BTreeMap, VecDeque};

use units::Instant;

use self::codel::{CoDel, OVERHEAD};
use super::glance::{FlowKey, flow};

/// Bytes that a flow may send before it is the next one's turn (section 5.2.4).
const QUANTUM: i64 = 1_514;
/// Packets that the longest queue loses at most when there is no room (section 4.1).
const MOST_AT_ONCE: usize = 64;

/// Packets that wait for the connection.
#[derive(Debug)]
pub struct Queue {
    flows: BTreeMap<Key, Waiting>,
    /// Flows that have just begun to wait, and all others; each is in one of them.
    new: VecDeque<Key>,
    old: VecDeque<Key>,
    bytes: usize,
    most_bytes: usize,
    counters: QueueCounters,
}

/// `None` for packets of no flow.
type Key = Option<FlowKey>;

/// One flow.
#[derive(Debug)]
struct Waiting {
    queue: CoDel,
    /// What is left of its quantum.
    credit: i64,
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
            flows: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            bytes: 0,
            most_bytes,
            counters: QueueCounters::default(),
        }
    }

    /// What was dropped.
    pub fn counters(&self) -> QueueCounters {
        self.counters
    }

    /// How many flows wait, or did a moment ago.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Takes a packet. If there is no room, the flow with most that waits loses.
    pub fn push(&mut self, packet: Vec<u8>, now: Instant) {
        self.bytes += packet.len() + OVERHEAD;
        let key = flow(&packet);
        let new = &mut self.new;
        let waiting = self.flows.entry(key).or_insert_with(|| {
            new.push_back(key);
            Waiting { queue: CoDel::default(), credit: QUANTUM }
        });
        waiting.queue.push(packet, now);
        while self.bytes > self.most_bytes {
            self.make_room();
        }
        // Twice as many as can wait with a packet each: half of them at least have lost all.
        if self.flows.len() > self.most_bytes / OVERHEAD * 2 {
            self.forget_empty();
        }
    }

    /// Flows that have lost all lose their turn, too: as long as the connection takes nothing, nobody else
    /// takes it from them.
    fn forget_empty(&mut self) {
        let Self { flows, new, old, .. } = self;
        flows.retain(|_, waiting| waiting.queue.packets() > 0);
        new.retain(|key| flows.contains_key(key));
        old.retain(|key| flows.contains_key(key));
    }

    /// Drops half of what waits of the flow that has most, from the front. Where none has much, there are many
    /// to look through: so that this is not done for each packet, those whose turn is next lose one, too.
    fn make_room(&mut self) {
        let Self { flows, new, old, bytes, counters, .. } = self;
        let mut drop_first = |queue: &mut CoDel| {
            let before = (queue.bytes(), queue.packets());
            queue.drop_first();
            *bytes -= before.0 - queue.bytes();
            counters.overflowed += (before.1 - queue.packets()) as u64;
        };
        let longest = flows.values_mut().max_by_key(|waiting| waiting.queue.bytes());
        let Some(Waiting { queue, .. }) = longest else { return };
        let most = (queue.packets() / 2).clamp(1, MOST_AT_ONCE);
        (0..most).for_each(|_| drop_first(queue));
        if most > 1 {
            return;
        }
        let mut more = MOST_AT_ONCE;
        for key in old.iter().chain(&*new) {
            let Some(Waiting { queue, .. }) = flows.get_mut(key) else { continue };
            // One that has lost all keeps its turn, and counts no more.
            if queue.packets() > 0 {
                drop_first(queue);
                more -= 1;
            }
            if more == 0 {
                return;
            }
        }
    }

    /// The next packet to send; others before it may be dropped (section 4.2).
    pub fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        loop {
            let is_new = !self.new.is_empty();
            let turn = if is_new { &mut self.new } else { &mut self.old };
            let key = *turn.front()?;
            let Some(waiting) = self.flows.get_mut(&key) else {
                turn.pop_front();
                continue;
            };
            if waiting.credit <= 0 {
                waiting.credit += QUANTUM;
                turn.pop_front();
                self.old.push_back(key);
                continue;
            }
            let (before, dropped) = (waiting.queue.bytes(), waiting.queue.overdue);
            let packet = waiting.queue.pop(now);
            self.bytes -= before - waiting.queue.bytes();
            self.counters.overdue += waiting.queue.overdue - dropped;
            if let Some(packet) = packet {
                waiting.credit -= packet.len() as i64;
                return Some(packet);
            }
            turn.pop_front();
            // One that has just begun has its turn among the others before it may begin again.
            if is_new {
                self.old.push_back(key);
            } else {
                self.flows.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use proptest::prelude::*;
    use units::Duration;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn packet(port: u16, number: u32, payload: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(port, 9);
        let mut data = number.to_be_bytes().to_vec();
        data.resize(payload.max(4), 0);
        builder.write(&mut bytes, &data).unwrap();
        bytes
    }

    /// Port and number of a packet.
    fn name(packet: &[u8]) -> (u16, u32) {
        let word = |at: usize| [packet[at], packet[at + 1]];
        let number = [word(28), word(30)].concat();
        (u16::from_be_bytes(word(20)), u32::from_be_bytes(number.try_into().unwrap()))
    }

    #[test]
    fn who_sends_little_waits_for_nobody() {
        let mut queue = Queue::new(1 << 20);
        (0..200).for_each(|n| queue.push(packet(1, n, 1_400), at(0)));
        (0..3).for_each(|_| assert_eq!(queue.pop(at(0)).map(|it| name(&it).0), Some(1)));
        queue.push(packet(2, 0, 100), at(0));
        let next: Vec<u16> = (0..3).filter_map(|_| queue.pop(at(0))).map(|it| name(&it).0).collect();
        assert!(next[..2].contains(&2), "{next:?}");
    }

    #[test]
    fn those_that_send_much_share_by_bytes() {
        let mut queue = Queue::new(4 << 20);
        (0..1_000).for_each(|n| queue.push(packet(1, n, 1_372), at(0)));
        (0..3_000).for_each(|n| queue.push(packet(2, n, 322), at(0)));
        let mut bytes = [0; 2];
        for _ in 0..800 {
            let packet = queue.pop(at(0)).unwrap();
            bytes[usize::from(name(&packet).0 - 1)] += packet.len();
        }
        assert!(bytes[0].abs_diff(bytes[1]) < 2 * 1_514, "{bytes:?}");
    }

    #[test]
    fn room_is_bounded_and_the_longest_queue_loses() {
        let mut queue = Queue::new(100 * (1_028 + OVERHEAD));
        (0..50).for_each(|n| queue.push(packet(1, n, 1_000), at(0)));
        (0..500).for_each(|n| queue.push(packet(2, n, 1_000), at(0)));
        assert!(queue.bytes <= queue.most_bytes);
        let left: Vec<(u16, u32)> = std::iter::from_fn(|| queue.pop(at(0))).map(|it| name(&it)).collect();
        let of = |port| left.iter().filter(|it| it.0 == port).count() as u64;
        assert!(of(1) >= 25, "{}", of(1));
        assert_eq!(queue.counters().overflowed, 550 - of(1) - of(2));
        assert!(left.contains(&(2, 499)), "the newest is there");
        (0..10_000).for_each(|_| queue.push(Vec::new(), at(0)));
        assert!(queue.bytes <= queue.most_bytes && queue.flows.len() == 1);
    }

    /// Else who has thousands of flows opened, and sends a packet on each, has all of them looked at for
    /// every packet.
    #[test]
    fn many_short_queues_lose_many_packets_at_a_time() {
        let flows = 5_000;
        let mut queue = Queue::new(usize::from(flows) * (32 + OVERHEAD));
        (0..flows).for_each(|port| queue.push(packet(port, 0, 4), at(0)));
        assert_eq!(queue.counters().overflowed, 0);
        queue.push(packet(flows, 0, 4), at(0));
        let lost = 1 + MOST_AT_ONCE as u64;
        assert_eq!(queue.counters().overflowed, lost);
        (1..lost as u16).for_each(|more| queue.push(packet(flows + more, 0, 4), at(0)));
        assert_eq!(queue.counters().overflowed, lost, "there is room for as many");
        queue.push(packet(0, 1, 4), at(0));
        assert_eq!(queue.counters().overflowed, 2 * lost, "those that have lost all count no more");
        (1..lost as u16).for_each(|more| queue.push(packet(2 * flows + more, 0, 4), at(0)));
        assert_eq!(queue.counters().overflowed, 2 * lost);
        let left = std::iter::from_fn(|| queue.pop(at(0))).count();
        assert_eq!(left, usize::from(flows));
    }

    /// A program that opens one flow after the other while all paths are silent.
    #[test]
    fn flows_that_have_lost_all_are_forgotten_while_nothing_leaves() {
        let most = 100 * (32 + OVERHEAD);
        let mut queue = Queue::new(most);
        for port in 0..20_000 {
            queue.push(packet(port, 0, 4), at(0));
            assert!(queue.flows() <= most / OVERHEAD * 2);
            assert_eq!(queue.flows(), queue.new.len() + queue.old.len());
        }
        let left: Vec<u16> = std::iter::from_fn(|| queue.pop(at(0))).map(|it| name(&it).0).collect();
        assert!(left.is_sorted() && left.len() > 20 && left.last() == Some(&19_999), "{left:?}");
        assert_eq!(queue.counters().overflowed, 20_000 - left.len() as u64);
    }

    proptest! {
        /// Each packet leaves, waits, or was counted; those of a flow leave in order.
        #[test]
        fn every_packet_is_accounted_for(steps in proptest::collection::vec((0u64..30, 0u16..9), 1..600)) {
            let (mut queue, mut now, mut pushed, mut left) = (Queue::new(20_000), 0, 0u32, Vec::new());
            for (ms, pushes) in steps {
                now += ms;
                for n in 0..pushes / 2 {
                    queue.push(packet(n * pushes % 3, pushed, 600), at(now));
                    pushed += 1;
                }
                left.extend(queue.pop(at(now)).map(|packet| name(&packet)));
                prop_assert_eq!(queue.flows.len(), queue.new.len() + queue.old.len());
            }
            for port in 0..3 {
                prop_assert!(left.iter().filter(|it| it.0 == port).is_sorted());
            }
            let waiting: usize = queue.flows.values().map(|waiting| waiting.queue.packets()).sum();
            let QueueCounters { overdue, overflowed } = queue.counters();
            prop_assert_eq!(left.len() as u64 + overdue + overflowed + waiting as u64, u64::from(pushed));
            while queue.pop(at(now)).is_some() {}
            prop_assert!(queue.is_empty() && queue.flows.is_empty());
        }
    }
}
