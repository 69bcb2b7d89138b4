//! Packets on the wire, ordered by arrival.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, VecDeque},
};

use units::Instant;

/// A packet that travels.
pub(super) struct InFlight<T> {
    pub(super) at: Instant,
    /// Order of sending, which breaks ties.
    sequence: u64,
    pub(super) packet: T,
    pub(super) size: u64,
    pub(super) ce: bool,
}

/// A ring while packets cannot overtake each other, a heap when they can: neither allocates once it
/// has grown.
pub(super) struct Flight<T> {
    order: Order<T>,
    sent: u64,
    bytes: u64,
}

enum Order<T> {
    Sent(VecDeque<InFlight<T>>),
    Arrival(BinaryHeap<Reverse<InFlight<T>>>),
}

impl<T> Flight<T> {
    pub(super) fn new(reorder: bool) -> Self {
        let order = if reorder { Order::Arrival(BinaryHeap::new()) } else { Order::Sent(VecDeque::new()) };
        Self { order, sent: 0, bytes: 0 }
    }

    /// Adds a packet that arrives at `at`, or with its predecessor if that is later and there is no
    /// reordering.
    pub(super) fn push(&mut self, at: Instant, packet: T, size: u64, ce: bool) {
        let sequence = self.sent;
        self.sent += 1;
        self.bytes = self.bytes.saturating_add(size);
        let mut packet = InFlight { at, sequence, packet, size, ce };
        match &mut self.order {
            Order::Sent(ring) => {
                packet.at = ring.back().map_or(at, |last| last.at.max(at));
                ring.push_back(packet);
            }
            Order::Arrival(heap) => heap.push(Reverse(packet)),
        }
    }

    /// The first packet, if it has arrived by `now`.
    pub(super) fn pop(&mut self, now: Instant) -> Option<InFlight<T>> {
        if self.next_arrival()? > now {
            return None;
        }
        let first = match &mut self.order {
            Order::Sent(ring) => ring.pop_front(),
            Order::Arrival(heap) => heap.pop().map(|Reverse(first)| first),
        }?;
        self.bytes = self.bytes.saturating_sub(first.size);
        Some(first)
    }

    pub(super) fn next_arrival(&self) -> Option<Instant> {
        match &self.order {
            Order::Sent(ring) => ring.front().map(|first| first.at),
            Order::Arrival(heap) => heap.peek().map(|Reverse(first)| first.at),
        }
    }

    pub(super) fn reorders(&self) -> bool {
        matches!(self.order, Order::Arrival(_))
    }

    pub(super) fn len(&self) -> usize {
        match &self.order {
            Order::Sent(ring) => ring.len(),
            Order::Arrival(heap) => heap.len(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<T> InFlight<T> {
    fn key(&self) -> (Instant, u64) {
        (self.at, self.sequence)
    }
}

impl<T> PartialEq for InFlight<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for InFlight<T> {}

impl<T> PartialOrd for InFlight<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for InFlight<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}
