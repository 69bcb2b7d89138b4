//! Spraying that remembers which ways were free: each packet has an entropy of its own, by which
//! switches hash, and an entropy that an acknowledgement brings back without a mark is used again.
//!
//! REPS (Bonato and others, "REPS: Recycling Entropies for Packet Spraying to Adaptively Explore
//! Paths and Mitigate Failures", 2024), one of the ways in which Ultra Ethernet's senders may choose
//! entropies. Switches do ECMP and mark; all else is at the hosts.
//!
//! | paper                        | here                                                     |
//! |------------------------------|----------------------------------------------------------|
//! | entropy value                | the label of a packet, which switches hash               |
//! | echo of the entropy          | the label of the acknowledgement                         |
//! | echo of the mark             | the ECN field of the acknowledgement, which is not marked otherwise |
//! | circular buffer of 8 entropies | `Cache`                                              |
//! | exploration of the first packets | the buffer is empty: a new entropy each               |
//! | freezing mode                | `FREEZE` after a retransmission out of silence         |
//!
//! TCP above sees packets in another order and must not take that for loss: give it RACK instead of
//! three duplicate acknowledgements ([`tcp`]).
//!
//! # Departures
//! - A timeout is noticed as a retransmission after a `SILENCE` without acknowledgements, as a
//!   layer sees no timers.
//! - Where one acknowledgement answers two segments, the entropy of the last comes back.

use netsim::{
    Rng, Seed,
    fabric::{Ecn, Packet},
};
use units::{Duration, Instant};

use crate::{
    Tcp,
    record::FlowId,
    segment::{Kind, Segment},
    shim::Shim,
    transport::Io,
};

/// Entropies that are remembered.
const CACHED: usize = 8;
/// How long no new ways are tried after a failure.
const FREEZE: Duration = Duration::from_millis(5);
/// A retransmission after so long without acknowledgements is a timeout's.
const SILENCE: Duration = Duration::from_millis(1);

/// `tcp` for packets that arrive in any order: RACK decides what is lost, and nothing else does.
pub fn tcp(tcp: Tcp) -> Tcp {
    Tcp { rack: true, dup_thresh: 1_000, early_retransmit: false, fack: false, ..tcp }
}

/// Entropies that came back without a mark, oldest first; each is valid once.
#[derive(Default, Debug)]
struct Cache {
    slots: [u16; CACHED],
    /// Where the next goes, how many were ever put in, and how many of the last ones are unused.
    head: usize,
    filled: usize,
    valid: usize,
}

impl Cache {
    fn put(&mut self, entropy: u16) {
        self.slots[self.head] = entropy;
        self.head = (self.head + 1) % CACHED;
        self.filled = (self.filled + 1).min(CACHED);
        self.valid = (self.valid + 1).min(CACHED);
    }

    /// The oldest that was not used since it came.
    fn take(&mut self) -> Option<u16> {
        let oldest = (self.head + CACHED - self.valid) % CACHED;
        self.valid = self.valid.checked_sub(1)?;
        Some(self.slots[oldest])
    }

    /// While frozen: any, used before or not, in turn.
    fn take_again(&mut self, turn: usize) -> Option<u16> {
        let first = (self.head + CACHED - self.filled) % CACHED;
        (self.filled > 0).then(|| self.slots[(first + turn % self.filled) % CACHED])
    }
}

/// Both ends of the layer below one connection.
#[derive(Debug)]
pub(crate) struct Reps {
    rng: Option<Rng>,
    cache: Cache,
    /// Nothing below was never sent.
    next: u32,
    acknowledged_at: Instant,
    frozen_until: Instant,
    turn: usize,
    /// Receiver: entropy and mark of what it answers next.
    answered: (u32, bool),
}

impl Reps {
    pub(super) fn new() -> Self {
        Self {
            rng: None,
            cache: Cache::default(),
            next: 0,
            acknowledged_at: Instant::ORIGIN,
            frozen_until: Instant::ORIGIN,
            turn: 0,
            answered: (0, false),
        }
    }

    fn entropy(&mut self, now: Instant, conn: u32) -> u16 {
        if now < self.frozen_until {
            self.turn += 1;
            if let Some(entropy) = self.cache.take_again(self.turn) {
                return entropy;
            }
        }
        let rng = self.rng.get_or_insert_with(|| Rng::new(Seed(conn.into()).child("entropies", 0)));
        self.cache.take().unwrap_or_else(|| rng.next_u64() as u16)
    }

    /// Whether a segment is sent again because of a timeout.
    fn watch(&mut self, now: Instant, segment: &Segment) {
        let again = segment.kind == Kind::Data && segment.seq < self.next;
        if again && now.saturating_duration_since(self.acknowledged_at) > SILENCE {
            self.frozen_until = now + FREEZE;
        }
        if segment.kind == Kind::Data {
            self.next = self.next.max(segment.seq + 1);
        }
    }
}

impl Shim for Reps {
    fn on_write(&mut self, _bytes: u64, _flow: FlowId) {}

    fn on_send(&mut self, io: &mut Io<'_>, packet: Packet<Segment>, window: u32) {
        let conn = packet.body.conn;
        let packet = match packet.body.kind {
            Kind::Ack | Kind::SynAck => {
                let (label, marked) = self.answered;
                Packet { label, ecn: if marked { Ecn::Marked } else { packet.ecn }, ..packet }
            }
            _ => {
                self.watch(io.now(), &packet.body);
                let entropy = self.entropy(io.now(), conn);
                Packet { label: conn << 16 | u32::from(entropy), ..packet }
            }
        };
        io.send(packet, window);
    }

    fn on_arrival(&mut self, io: &mut Io<'_>, packet: Packet<Segment>, up: &mut Vec<Packet<Segment>>) {
        if matches!(packet.body.kind, Kind::Ack | Kind::SynAck) {
            self.acknowledged_at = io.now();
            if packet.ecn != Ecn::Marked {
                self.cache.put(packet.label as u16);
            }
        }
        up.push(packet);
    }

    fn on_deliver(&mut self, packet: &Packet<Segment>) {
        if !matches!(packet.body.kind, Kind::Ack | Kind::SynAck) {
            self.answered = (packet.label, packet.ecn == Ecn::Marked);
        }
    }

    fn on_timer(&mut self, _io: &mut Io<'_>, _up: &mut Vec<Packet<Segment>>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropies_are_used_once_oldest_first() {
        let mut cache = Cache::default();
        assert_eq!(cache.take(), None);
        (1..=3).for_each(|entropy| cache.put(entropy));
        assert_eq!([cache.take(), cache.take()], [Some(1), Some(2)]);
        cache.put(4);
        assert_eq!([cache.take(), cache.take(), cache.take()], [Some(3), Some(4), None]);
    }

    #[test]
    fn the_oldest_of_nine_gives_way() {
        let mut cache = Cache::default();
        (1..=9).for_each(|entropy| cache.put(entropy));
        assert_eq!(cache.take(), Some(2));
        let rest: Vec<_> = std::iter::from_fn(|| cache.take()).collect();
        assert_eq!(rest, [3, 4, 5, 6, 7, 8, 9]);
    }

    /// A failed way brings no acknowledgements back, so its entropy is not among those that are
    /// used in turn while nothing new is tried.
    #[test]
    fn while_frozen_what_worked_is_used_again() {
        let mut reps = Reps::new();
        [10, 20, 30].into_iter().for_each(|entropy| reps.cache.put(entropy));
        let at = |us| Instant::ORIGIN + Duration::from_micros(us);
        let segment = |seq| Segment { seq, ..Segment::default() };
        (0..3).for_each(|seq| reps.watch(at(100), &segment(seq)));
        reps.acknowledged_at = at(100);
        let used: Vec<u16> = (0..3).map(|_| reps.entropy(at(200), 1)).collect();
        assert_eq!(used, [10, 20, 30]);
        reps.watch(at(600), &segment(1)); // soon after an acknowledgement: no timeout
        assert_eq!(reps.frozen_until, Instant::ORIGIN);
        reps.watch(at(5_100), &segment(1));
        let used: Vec<u16> = (0..4).map(|_| reps.entropy(at(5_200), 1)).collect();
        assert_eq!(used, [20, 30, 10, 20]);
        let (new, thawed) = (reps.entropy(at(10_100), 1), reps.entropy(at(10_100), 1));
        assert!(new != thawed, "two new ones of 65,536: {new} {thawed}");
    }
}
