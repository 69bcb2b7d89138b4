//! In which order the receiving end hands packets up to TCP (HTPC-A10).

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

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
    /// for one average RTT at most. Then the holes before it are given up, and no others; what fills
    /// one of them later goes up at once. Units make no difference: a packet of the next one waits
    /// for a hole of this one, else TCP would see it.
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
    /// The next number in order: holes before it are filled or given up.
    next: u32,
    held: BTreeMap<u32, Held>,
    /// The numbers of the same packets, those that have waited longest first.
    by_age: BTreeSet<(Instant, u32)>,
}

/// A packet to hand up, and how long it has waited.
pub(super) type Released = (Packet<Segment>, Duration);

impl Order {
    pub(super) fn new(delivery: Delivery) -> Self {
        Self { delivery, ..Self::default() }
    }

    /// A packet is here, from the network or rebuilt. What may go up now is added to `out`. False if
    /// another copy of it waits: then it is dropped, and TCP sees one.
    pub(super) fn arrive(&mut self, now: Instant, packet: Packet<Segment>, out: &mut Vec<Released>) -> bool {
        let seq = packet.body.seq;
        if self.delivery == Delivery::AsItComes || seq < self.next {
            out.push((packet, Duration::ZERO));
        } else if seq > self.next {
            let Entry::Vacant(place) = self.held.entry(seq) else { return false };
            place.insert(Held { packet, since: now });
            self.by_age.insert((now, seq));
            if self.held.len() > MAX_HELD {
                self.pass(u32::MAX, now, out);
            }
        } else {
            out.push((packet, Duration::ZERO));
            self.next += 1;
            self.pass(seq, now, out);
        }
        true
    }

    /// What waits goes up in order: the numbers up to `last`, and what follows them without a hole.
    fn pass(&mut self, last: u32, now: Instant, out: &mut Vec<Released>) {
        while let Some(first) = self.held.first_entry()
            && (*first.key() <= last || *first.key() == self.next)
        {
            let (seq, Held { packet, since }) = first.remove_entry();
            self.by_age.remove(&(since, seq));
            out.push((packet, now - since));
            self.next = seq + 1;
        }
    }

    /// When the first hole is given up, if a packet waits for `timeout` at most.
    pub(super) fn deadline(&self, timeout: Duration) -> Option<Instant> {
        self.by_age.first().map(|(since, _)| *since + timeout)
    }

    /// Gives up the holes before packets that have waited for `timeout`. Packets behind later holes,
    /// which have not, stay.
    pub(super) fn give_up(&mut self, now: Instant, timeout: Duration, out: &mut Vec<Released>) {
        while let Some(&(since, seq)) = self.by_age.first()
            && since + timeout <= now
        {
            self.pass(seq, now, out);
        }
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

    /// What goes up at that moment if a packet waits for 100 us at most, and how long each waited.
    fn give_up(order: &mut Order, us: u64) -> Vec<(u32, u64)> {
        let mut out = Vec::new();
        order.give_up(at(us), Duration::from_micros(100), &mut out);
        out.iter().map(|(packet, waited)| (packet.body.seq, waited.as_micros())).collect()
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
        assert!(give_up(&mut order, 119).is_empty());
        assert_eq!(give_up(&mut order, 120), [(4, 100)]);
        assert_eq!((arrive(&mut order, 130, 3), arrive(&mut order, 131, 5)), (vec![3], vec![5]));
    }

    #[test]
    fn a_hole_that_is_younger_is_waited_for_when_an_older_one_is_given_up() {
        let mut order = Order::new(Delivery::InOrder);
        arrive(&mut order, 0, 0);
        for (us, seq) in [(10, 2), (50, 5), (60, 3), (70, 6)] {
            assert!(arrive(&mut order, us, seq).is_empty());
        }
        // 1 is given up, 4 is not: nobody has waited for it for as long.
        assert_eq!(give_up(&mut order, 110), [(2, 100), (3, 50)]);
        assert_eq!(order.deadline(Duration::from_micros(100)), Some(at(150)));
        assert_eq!(arrive(&mut order, 120, 1), [1]);
        assert_eq!(arrive(&mut order, 130, 4), [4, 5, 6]);
        assert_eq!(order.deadline(Duration::from_micros(100)), None);
    }

    #[test]
    fn a_packet_waits_no_longer_because_holes_before_it_were_filled() {
        let mut order = Order::new(Delivery::InOrder);
        arrive(&mut order, 0, 0);
        assert!(arrive(&mut order, 10, 5).is_empty() && arrive(&mut order, 20, 3).is_empty());
        assert_eq!(arrive(&mut order, 30, 1), [1]);
        // Behind 2 is not only 3, but 5 since 10.
        assert_eq!(order.deadline(Duration::from_micros(100)), Some(at(110)));
        assert_eq!(give_up(&mut order, 110), [(3, 90), (5, 100)]);
    }

    #[test]
    fn a_full_buffer_is_handed_up() {
        let mut order = Order::new(Delivery::InOrder);
        let handed: Vec<u32> = (1..=MAX_HELD as u32 + 1).flat_map(|seq| arrive(&mut order, 1, seq)).collect();
        assert_eq!(handed.len(), MAX_HELD + 1);
        assert_eq!(arrive(&mut order, 2, MAX_HELD as u32 + 2).len(), 1);
    }
}
