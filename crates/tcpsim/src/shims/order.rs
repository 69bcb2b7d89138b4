//! In which order the receiving end hands packets up to TCP (HTPC-A10).

use std::collections::BTreeMap;

use netsim::fabric::Packet;
use units::{Duration, Instant};

use crate::segment::Segment;

/// Most packets that are held; one more, and all are handed up.
const MAX_HELD: usize = 4_096;

/// When arriving source packets are handed up.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// At once, as the paper says: spraying makes TCP see duplicate acknowledgements.
    #[default]
    AsItComes,
    /// In order: what is behind a hole waits until it is filled (by its packet, or by decoding),
    /// for one average RTT at most.
    InOrder,
}

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
struct Held {
    packet: Packet<Segment>,
    since: Instant,
}

/// The packets that wait for their order.
#[derive(Debug, Default)]
pub(super) struct Order {
    delivery: Delivery,
    /// The next number in order.
    next: u32,
    held: BTreeMap<u32, Held>,
    /// Since when the present hole has held something up.
    hole_since: Option<Instant>,
}

/// A packet to hand up, and how long it has waited.
pub(super) type Released = (Packet<Segment>, Duration);

impl Order {
    pub(super) fn new(delivery: Delivery) -> Self {
        Self { delivery, ..Self::default() }
    }

    /// A packet is here, from the network or rebuilt. What may go up now is added to `out`.
    pub(super) fn arrive(&mut self, now: Instant, packet: Packet<Segment>, out: &mut Vec<Released>) {
        let seq = packet.body.seq;
        if self.delivery == Delivery::AsItComes || seq < self.next {
            out.push((packet, Duration::ZERO));
        } else if seq > self.next {
            self.held.entry(seq).or_insert(Held { packet, since: now });
            self.hole_since.get_or_insert(now);
            if self.held.len() > MAX_HELD {
                self.flush(now, out);
            }
        } else {
            out.push((packet, Duration::ZERO));
            self.next += 1;
            self.release(now, out);
        }
    }

    /// The hole is filled: what follows in order goes up.
    fn release(&mut self, now: Instant, out: &mut Vec<Released>) {
        while let Some(first) = self.held.first_entry()
            && *first.key() == self.next
        {
            let held = first.remove();
            out.push((held.packet, now - held.since));
            self.next += 1;
        }
        // Another hole has been there since the first packet behind it came.
        self.hole_since = self.held.first_key_value().map(|(_, held)| held.since);
    }

    /// When the present hole is given up, if it is waited for so long.
    pub(super) fn deadline(&self, timeout: Duration) -> Option<Instant> {
        self.hole_since.map(|since| since + timeout)
    }

    /// Gives the hole up: everything goes up as it is.
    pub(super) fn flush(&mut self, now: Instant, out: &mut Vec<Released>) {
        for (seq, held) in std::mem::take(&mut self.held) {
            out.push((held.packet, now - held.since));
            self.next = seq + 1;
        }
        self.hole_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ORIGIN + Duration::from_micros(us)
    }

    fn arrive(order: &mut Order, us: u64, seq: u32) -> Vec<u32> {
        let mut out = Vec::new();
        let body = Segment { seq, ..Segment::default() };
        order.arrive(at(us), Packet { body, ..Packet::default() }, &mut out);
        out.iter().map(|(packet, _)| packet.body.seq).collect()
    }

    #[test]
    fn as_it_comes_holds_nothing() {
        let mut order = Order::new(Delivery::AsItComes);
        assert_eq!(arrive(&mut order, 0, 5), [5]);
        assert_eq!((arrive(&mut order, 1, 0), order.deadline(Duration::ZERO)), (vec![0], None));
    }

    #[test]
    fn in_order_waits_for_the_hole_or_the_timer() {
        let mut order = Order::new(Delivery::InOrder);
        assert_eq!(arrive(&mut order, 0, 0), [0]);
        assert!(arrive(&mut order, 10, 2).is_empty() && arrive(&mut order, 20, 4).is_empty());
        assert_eq!(order.deadline(Duration::from_micros(100)), Some(at(110)));
        assert_eq!(arrive(&mut order, 30, 1), [1, 2]);
        assert_eq!(order.deadline(Duration::from_micros(100)), Some(at(120))); // 3 is missing since 4 came
        let mut out = Vec::new();
        order.flush(at(120), &mut out);
        assert_eq!(
            out.iter().map(|(p, wait)| (p.body.seq, wait.as_micros())).collect::<Vec<_>>(),
            [(4, 100)]
        );
        assert_eq!((arrive(&mut order, 130, 3), arrive(&mut order, 131, 5)), (vec![3], vec![5]));
    }

    #[test]
    fn a_full_buffer_is_handed_up() {
        let mut order = Order::new(Delivery::InOrder);
        let handed: Vec<u32> = (1..=MAX_HELD as u32 + 1).flat_map(|seq| arrive(&mut order, 1, seq)).collect();
        assert_eq!(handed.len(), MAX_HELD + 1);
        assert_eq!(arrive(&mut order, 2, MAX_HELD as u32 + 2).len(), 1);
    }
}
