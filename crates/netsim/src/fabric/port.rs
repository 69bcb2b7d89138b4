//! A port: a drop-tail queue with an ECN threshold, or one with another discipline, a rate, and the
//! wire behind it.

mod managed;
mod trimming;

use units::{BitRate, Duration, Instant};

use self::{managed::Managed, trimming::Trimming};
use super::{
    Ecn,
    codel::{self, Codel},
    failure::Faults,
    packet::Head,
    pool::{Flight, NONE, Pool},
    trim::{self, Trim},
};
use crate::{Rng, Seed};

/// How much may wait at a port; the packet that is being sent does not wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueLimit {
    /// Packets.
    Packets(u32),
    /// Bytes. A packet fits if it keeps the sum at or below this.
    Bytes(u64),
}

/// From which queue length on a packet is marked, if its transport understands marks: when it
/// arrives and at least this much is waiting before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Packets.
    Packets(u32),
    /// Bytes.
    Bytes(u64),
}

/// What a port does beyond dropping what finds its queue full.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Discipline {
    /// Nothing.
    #[default]
    DropTail,
    /// Drops, or marks, what has waited too long, before the queue is full.
    Codel(Codel),
    /// Sends headers first, and takes the payload of what finds too much before it.
    Trim(Trim),
}

/// What one direction of a link is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// Rate of the port. Zero never sends.
    pub rate: BitRate,
    /// Propagation delay of the wire.
    pub delay: Duration,
    /// Size of the queue.
    pub queue: QueueLimit,
    /// ECN threshold; without one nothing is marked.
    pub mark: Option<Mark>,
    /// What else it does with what waits.
    pub discipline: Discipline,
}

impl Line {
    /// A line with a queue of `packets` packets and no marks.
    pub const fn new(rate: BitRate, delay: Duration, packets: u32) -> Self {
        let queue = QueueLimit::Packets(packets);
        Self { rate, delay, queue, mark: None, discipline: Discipline::DropTail }
    }

    /// The same with a queue limit.
    pub const fn with_queue(self, queue: QueueLimit) -> Self {
        Self { queue, ..self }
    }

    /// The same with an ECN threshold.
    pub const fn with_mark(self, mark: Mark) -> Self {
        Self { mark: Some(mark), ..self }
    }

    /// The same with CoDel.
    pub const fn with_codel(self, codel: Codel) -> Self {
        Self { discipline: Discipline::Codel(codel), ..self }
    }

    /// The same, and it trims.
    pub const fn with_trim(self, trim: Trim) -> Self {
        Self { discipline: Discipline::Trim(trim), ..self }
    }
}

/// What a port has done so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PortStats {
    /// Packets accepted for sending, those lost on the wire included; with another discipline than
    /// drop-tail, those whose transmission has begun.
    pub sent: u64,
    /// Their size in bytes.
    pub sent_bytes: u64,
    /// Packets dropped because the queue was full, or by CoDel.
    pub dropped: u64,
    /// Packets that lost their payload.
    pub trimmed: u64,
    /// Packets lost to a failure.
    pub lost: u64,
    /// Packets marked.
    pub marked: u64,
    /// Most packets that were waiting at once; where headers have a queue, without it.
    pub deepest_packets: u32,
    /// Most bytes that were waiting at once, likewise.
    pub deepest_bytes: u64,
    /// Most bytes that were waiting in the queue of headers, if there is one.
    pub deepest_header_bytes: u64,
    /// Sum over the accepted packets of the bytes that waited before them: divided by `sent`, the
    /// mean queue that a packet met.
    pub met_bytes: u64,
}

/// What became of a packet that was offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Offered {
    /// It is on its way, behind others.
    Queued,
    /// It is on its way and the only one: the port needs an event at this time.
    First(Instant),
    /// Dropped, or lost before it was sent: it is not at the port.
    Gone,
}

/// What is the same for many ports: where a port's [`Line`] comes down to numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Terms {
    rate: BitRate,
    delay: Duration,
    limit_packets: u32,
    limit_bytes: u64,
    mark_packets: u32,
    mark_bytes: u64,
}

impl Terms {
    pub(super) fn rate(&self) -> BitRate {
        self.rate
    }

    /// Whether a packet of `size` may join so many packets and bytes.
    #[inline]
    fn has_room(&self, packets: u32, bytes: u64, size: u32) -> bool {
        packets < self.limit_packets && bytes + u64::from(size) <= self.limit_bytes
    }
}

impl From<&Line> for Terms {
    fn from(line: &Line) -> Self {
        let (limit_packets, limit_bytes) = match line.queue {
            QueueLimit::Packets(n) => (n, u64::MAX),
            QueueLimit::Bytes(n) => (u32::MAX, n),
        };
        let (mark_packets, mark_bytes) = match line.mark {
            None => (u32::MAX, u64::MAX),
            Some(Mark::Packets(n)) => (n, u64::MAX),
            Some(Mark::Bytes(n)) => (u32::MAX, n),
        };
        Self { rate: line.rate, delay: line.delay, limit_packets, limit_bytes, mark_packets, mark_bytes }
    }
}

/// How long sizes take at a rate: packets come in few sizes, and a division is slow.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct SendTimes {
    /// By some bits of the size: the last such size, and its time in ns.
    known: [(u32, u64); 4],
}

impl SendTimes {
    #[inline]
    fn of(&mut self, rate: BitRate, size: u32) -> u64 {
        let known = &mut self.known[(size / 32 % 4) as usize];
        if known.0 != size {
            *known = (size, rate.time_to_send(u64::from(size)).as_nanos());
        }
        known.1
    }
}

/// What changes with every packet, in one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Port {
    /// The last of the packets that are queued and under way, or [`NONE`]. The first one is named by
    /// the event of its arrival.
    last: u32,
    /// First of those that had not started at the last look, or [`NONE`].
    waiting: u32,
    waiting_packets: u32,
    /// Which of the fabric's [`Terms`] it has.
    pub(super) terms: u32,
    waiting_bytes: u64,
    /// When `waiting` starts, which is when the one before it has left, and when it will have left.
    waiting_starts: u64,
    waiting_leaves: u64,
    /// When the last accepted packet's last bit leaves.
    free_at: u64,
    apart: Option<Box<Apart>>,
    /// Where it leads, in the engine's words.
    pub(super) end: u32,
}

const _: () = assert!(size_of::<Port>() == 64);

/// What few ports have.
#[derive(Debug, Default)]
pub(super) struct Apart {
    pub(super) faults: Option<Faults>,
    managed: Option<Box<Managed>>,
    trimming: Option<Box<Trimming>>,
    /// What was dropped out of its queues and is to be taken out of the pool.
    dropped: Vec<u32>,
}

impl Apart {
    /// What a discipline needs; `seed` is for its own use.
    fn of(discipline: Discipline, seed: Seed) -> Option<Self> {
        let (mut managed, mut trimming) = (None, None);
        match discipline {
            Discipline::DropTail => return None,
            Discipline::Codel(codel) => managed = Some(Box::new(Managed::new(codel::State::new(codel)))),
            Discipline::Trim(trim) => {
                trimming = Some(Box::new(Trimming::new(trim::State::new(trim, Rng::new(seed)))));
            }
        }
        Some(Self { managed, trimming, ..Self::default() })
    }
}

impl Port {
    pub(super) fn new(line: &Line, terms: u32, end: u32, seed: Seed) -> Self {
        Self {
            last: NONE,
            waiting: NONE,
            waiting_packets: 0,
            terms,
            waiting_bytes: 0,
            waiting_starts: 0,
            waiting_leaves: 0,
            free_at: 0,
            apart: Apart::of(line.discipline, seed).map(Box::new),
            end,
        }
    }

    /// Its failures, for more of them.
    pub(super) fn faults(&mut self) -> &mut Faults {
        self.apart.get_or_insert_default().faults.get_or_insert_with(Faults::new)
    }

    #[inline]
    fn is_managed(&self) -> bool {
        self.apart.as_ref().is_some_and(|apart| apart.managed.is_some())
    }

    #[inline]
    fn trimming(&self) -> Option<&Trimming> {
        self.apart.as_ref()?.trimming.as_deref()
    }

    /// What was dropped out of its queues since the last call.
    pub(super) fn take_dropped(&mut self) -> Vec<u32> {
        self.apart.as_mut().map(|apart| std::mem::take(&mut apart.dropped)).unwrap_or_default()
    }

    /// Whether anything was dropped since [`take_dropped`](Self::take_dropped).
    #[inline]
    pub(super) fn has_dropped(&self) -> bool {
        self.apart.as_ref().is_some_and(|apart| !apart.dropped.is_empty())
    }

    /// The first of those that wait does so no more.
    #[inline]
    fn start<B: Default>(&mut self, pool: &mut Pool<B>) {
        let flight = *pool.flight(self.waiting);
        self.waiting_packets -= 1;
        self.waiting_bytes -= u64::from(flight.head.size);
        self.waiting_starts = self.waiting_leaves;
        self.waiting_leaves = flight.next_leaves;
        self.waiting = flight.next;
    }
}

/// A port, with what is kept elsewhere of it.
pub(super) struct PortMut<'a> {
    pub(super) port: &'a mut Port,
    pub(super) terms: &'a Terms,
    pub(super) times: &'a mut SendTimes,
    pub(super) stats: &'a mut PortStats,
}

impl PortMut<'_> {
    /// Packets and bytes that wait at `now`.
    #[inline]
    pub(super) fn waiting<B: Default>(&mut self, now: Instant, pool: &mut Pool<B>) -> (u32, u64) {
        if self.port.is_managed() {
            self.begin_due(now, pool);
        }
        if self.port.trimming().is_some() {
            self.send_due(now, pool);
            let (headers, bytes) = self.port.trimming().map_or((0, 0), Trimming::headers);
            return (self.port.waiting_packets + headers, self.port.waiting_bytes + bytes);
        }
        while self.port.waiting != NONE && self.port.waiting_starts <= now.as_nanos() {
            self.port.start(pool);
        }
        (self.port.waiting_packets, self.port.waiting_bytes)
    }

    /// A packet arrives at the queue, which may mark it.
    #[inline]
    pub(super) fn offer<B: Default>(
        &mut self,
        now: Instant,
        slot: u32,
        pool: &mut Pool<B>,
    ) -> (Offered, bool) {
        let head = pool.flight(slot).head;
        let fate = self.fate(now, &head);
        if fate == Fate::NeverSent {
            self.stats.lost += 1;
            return (Offered::Gone, true);
        }
        if self.port.trimming().is_some() {
            return self.offer_trimming(now, slot, fate, pool);
        }
        let (packets, bytes) = self.waiting(now, pool);
        let (busy, terms) = (self.port.free_at > now.as_nanos(), self.terms);
        if terms.rate == BitRate(0) || (busy && !terms.has_room(packets, bytes, head.size)) {
            self.stats.dropped += 1;
            return (Offered::Gone, false);
        }
        self.mark(slot, packets, bytes, pool);
        let lost = fate == Fate::LostOnTheWire;
        self.stats.lost += u64::from(lost);
        if self.port.is_managed() {
            return (self.accept_managed(now, slot, head.size, pool), lost);
        }
        (self.accept(now, slot, head.size, pool), lost)
    }

    /// Marks a packet that finds too many packets or bytes waiting.
    #[inline]
    fn mark<B: Default>(&mut self, slot: u32, packets: u32, bytes: u64, pool: &mut Pool<B>) {
        let head = &mut pool.flight(slot).head;
        let is_long = packets >= self.terms.mark_packets || bytes >= self.terms.mark_bytes;
        if head.ecn == Ecn::Capable && is_long {
            head.ecn = Ecn::Marked;
            self.stats.marked += 1;
        }
    }

    /// A packet that waited is dropped. It is in the pool until
    /// [`take_dropped`](Port::take_dropped).
    fn drop_waiting(&mut self, slot: u32) {
        self.stats.dropped += 1;
        self.port.apart.get_or_insert_default().dropped.push(slot);
    }

    /// What the port's failures do to a packet that is offered.
    #[inline]
    fn fate(&mut self, now: Instant, head: &Head) -> Fate {
        let starts = Instant::from_nanos(self.port.free_at).max(now);
        let faults = self.port.apart.as_mut().and_then(|apart| apart.faults.as_mut());
        faults.map_or(Fate::Passes, |faults| faults.fate(now, starts, u64::from(head.size), head.class))
    }

    /// When a packet whose transmission begins at `starts` has left.
    #[inline]
    fn leaves(&mut self, starts: u64, size: u32) -> u64 {
        let faults = self.port.apart.as_mut().and_then(|apart| apart.faults.as_mut());
        let by_trace = faults.and_then(|faults| faults.leaves(starts, u64::from(size)));
        by_trace.unwrap_or_else(|| starts.saturating_add(self.times.of(self.terms.rate, size)))
    }

    /// The transmission of a packet of `size` bytes begins at `starts`.
    #[inline]
    fn transmit(&mut self, starts: u64, size: u32) {
        self.port.free_at = self.leaves(starts, size);
        self.stats.sent += 1;
        self.stats.sent_bytes += u64::from(size);
    }

    #[inline]
    fn accept<B: Default>(&mut self, now: Instant, slot: u32, size: u32, pool: &mut Pool<B>) -> Offered {
        let starts = self.port.free_at.max(now.as_nanos());
        self.transmit(starts, size);
        self.stats.met_bytes += self.port.waiting_bytes;
        if starts > now.as_nanos() {
            self.wait(slot, starts, size);
        }
        if self.port.last != NONE {
            pool.flight(self.port.last).next_leaves = self.port.free_at;
        }
        self.append(slot, pool)
    }

    /// A packet goes behind all others; the port needs an event if there are none.
    #[inline]
    fn append<B: Default>(&mut self, slot: u32, pool: &mut Pool<B>) -> Offered {
        pool.flight(slot).next = NONE;
        let before = std::mem::replace(&mut self.port.last, slot);
        if before == NONE {
            return Offered::First(self.arrival(self.port.free_at));
        }
        pool.flight(before).next = slot;
        Offered::Queued
    }

    /// A packet that will start at `starts` waits, behind all others.
    #[inline]
    fn wait(&mut self, slot: u32, starts: u64, size: u32) {
        let Port { waiting, waiting_starts, waiting_leaves, free_at, .. } = self.port;
        if *waiting == NONE {
            (*waiting, *waiting_starts, *waiting_leaves) = (slot, starts, *free_at);
        }
        self.count_waiting(size);
    }

    /// One more packet waits.
    #[inline]
    fn count_waiting(&mut self, size: u32) {
        self.port.waiting_packets += 1;
        self.port.waiting_bytes += u64::from(size);
        self.stats.deepest_packets = self.stats.deepest_packets.max(self.port.waiting_packets);
        self.stats.deepest_bytes = self.stats.deepest_bytes.max(self.port.waiting_bytes);
    }

    /// When a packet whose last bit leaves at `leaves` arrives at the other end.
    #[inline]
    fn arrival(&self, leaves: u64) -> Instant {
        Instant::from_nanos(leaves.saturating_add(self.terms.delay.as_nanos()))
    }

    /// The first packet under way, which is `slot`, arrives: the one behind it, and when that one
    /// does.
    #[inline]
    pub(super) fn arrive<B: Default>(
        &mut self,
        now: Instant,
        slot: u32,
        pool: &mut Pool<B>,
    ) -> Option<(u32, Instant)> {
        if self.port.is_managed() {
            self.begin_due(now, pool);
        } else if self.port.trimming().is_some() {
            self.send_due(now, pool);
        } else if self.port.waiting == slot {
            self.port.start(pool);
        }
        let &mut Flight { next, next_leaves, .. } = pool.flight(slot);
        if next == NONE {
            self.port.last = NONE;
            self.on_nothing_under_way();
            return None;
        }
        Some((next, self.arrival(next_leaves)))
    }
}

/// What a port's failures do to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Passes,
    /// Lost before the queue: costs no capacity.
    NeverSent,
    /// Lost behind the rate limit: it was sent and does not arrive.
    LostOnTheWire,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_share_a_place_have_times_of_their_own() {
        let (rate, mut times) = (BitRate::from_mbps(8), SendTimes::default());
        for size in [1_500, 1_500 + 128, 40, 1_500, 40, 0] {
            assert_eq!(times.of(rate, size), u64::from(size) * 1_000);
        }
    }
}
