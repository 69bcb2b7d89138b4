//! A port: a drop-tail queue with an ECN threshold, or one that is managed, a rate, and the wire
//! behind it.

mod managed;

use units::{BitRate, Duration, Instant};

use self::managed::Managed;
use super::{
    Ecn,
    codel::{Codel, State},
    failure::Faults,
    pool::{NONE, Pool},
};

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
    /// Drops, or marks, what has waited too long, before the queue is full.
    pub codel: Option<Codel>,
}

impl Line {
    /// A line with a queue of `packets` packets and no marks.
    pub const fn new(rate: BitRate, delay: Duration, packets: u32) -> Self {
        Self { rate, delay, queue: QueueLimit::Packets(packets), mark: None, codel: None }
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
        Self { codel: Some(codel), ..self }
    }
}

/// What a port has done so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PortStats {
    /// Packets accepted for sending, those lost on the wire included; with CoDel, those whose
    /// transmission has begun.
    pub sent: u64,
    /// Their size in bytes.
    pub sent_bytes: u64,
    /// Packets dropped because the queue was full, or by CoDel.
    pub dropped: u64,
    /// Packets lost to a failure.
    pub lost: u64,
    /// Packets marked.
    pub marked: u64,
    /// Most packets that were waiting at once.
    pub deepest_packets: u32,
    /// Most bytes that were waiting at once.
    pub deepest_bytes: u64,
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

/// In three cache lines: what an arrival needs, what else an offer needs, and the counters.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Port {
    /// First and last of the packets that are queued and under way, or [`NONE`].
    first: u32,
    last: u32,
    /// First of those that had not started at the last look, or [`NONE`].
    waiting: u32,
    waiting_packets: u32,
    waiting_bytes: u64,
    /// When `waiting` starts, which is when the one before it has left.
    waiting_starts: u64,
    /// When the last accepted packet's last bit leaves.
    free_at: u64,
    delay: u64,
    rate: u64,
    /// The time that the last size took: packets come in few sizes, and a division is slow.
    last_time: u64,
    last_size: u32,
    limit_packets: u32,
    limit_bytes: u64,
    mark_bytes: u64,
    mark_packets: u32,
    pub(super) faults: Option<Box<Faults>>,
    managed: Option<Box<Managed>>,
    pub(super) stats: PortStats,
}

impl Port {
    pub(super) fn new(line: &Line) -> Self {
        let (limit_packets, limit_bytes) = match line.queue {
            QueueLimit::Packets(n) => (n, u64::MAX),
            QueueLimit::Bytes(n) => (u32::MAX, n),
        };
        let (mark_packets, mark_bytes) = match line.mark {
            None => (u32::MAX, u64::MAX),
            Some(Mark::Packets(n)) => (n, u64::MAX),
            Some(Mark::Bytes(n)) => (u32::MAX, n),
        };
        Self {
            first: NONE,
            last: NONE,
            waiting: NONE,
            waiting_packets: 0,
            waiting_bytes: 0,
            waiting_starts: 0,
            free_at: 0,
            delay: line.delay.as_nanos(),
            rate: line.rate.bits_per_second(),
            last_time: 0,
            last_size: 0,
            limit_packets,
            limit_bytes,
            mark_bytes,
            mark_packets,
            faults: None,
            managed: line.codel.map(|codel| Box::new(Managed::new(State::new(codel)))),
            stats: PortStats::default(),
        }
    }

    /// Time to send `size` bytes, rounded up to ns.
    #[inline]
    fn time_to_send(&mut self, size: u32) -> u64 {
        if size != self.last_size {
            self.last_size = size;
            self.last_time = BitRate(self.rate).time_to_send(u64::from(size)).as_nanos();
        }
        self.last_time
    }

    /// Packets and bytes that wait at `now`.
    #[inline]
    pub(super) fn waiting<B: Default>(&mut self, now: Instant, pool: &mut Pool<B>) -> (u32, u64) {
        if self.managed.is_some() {
            self.begin_due(now, pool);
        }
        while self.waiting != NONE && self.waiting_starts <= now.as_nanos() {
            self.start(pool);
        }
        (self.waiting_packets, self.waiting_bytes)
    }

    /// The first of those that wait does so no more.
    #[inline]
    fn start<B: Default>(&mut self, pool: &mut Pool<B>) {
        let flight = *pool.flight(self.waiting);
        self.waiting_packets -= 1;
        self.waiting_bytes -= u64::from(flight.head.size);
        self.waiting_starts = flight.leaves;
        self.waiting = flight.next;
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
        let fate = match &mut self.faults {
            None => Fate::Passes,
            Some(faults) => {
                let starts = Instant::from_nanos(self.free_at).max(now);
                faults.fate(now, starts, u64::from(head.size), head.class)
            }
        };
        if fate == Fate::NeverSent {
            self.stats.lost += 1;
            return (Offered::Gone, true);
        }
        let (packets, bytes) = self.waiting(now, pool);
        let busy = self.free_at > now.as_nanos();
        if self.rate == 0
            || (busy && (packets >= self.limit_packets || bytes + u64::from(head.size) > self.limit_bytes))
        {
            self.stats.dropped += 1;
            return (Offered::Gone, false);
        }
        if head.ecn == Ecn::Capable && (packets >= self.mark_packets || bytes >= self.mark_bytes) {
            pool.flight(slot).head.ecn = Ecn::Marked;
            self.stats.marked += 1;
        }
        let lost = fate == Fate::LostOnTheWire;
        self.stats.lost += u64::from(lost);
        if self.managed.is_some() {
            return (self.accept_managed(now, slot, head.size, pool), lost);
        }
        (self.accept(now, slot, head.size, pool), lost)
    }

    /// When a packet whose transmission begins at `starts` has left.
    #[inline]
    fn leaves(&mut self, starts: u64, size: u32) -> u64 {
        let by_trace = self.faults.as_mut().and_then(|faults| faults.leaves(starts, u64::from(size)));
        by_trace.unwrap_or_else(|| starts.saturating_add(self.time_to_send(size)))
    }

    fn accept<B: Default>(&mut self, now: Instant, slot: u32, size: u32, pool: &mut Pool<B>) -> Offered {
        let starts = self.free_at.max(now.as_nanos());
        self.free_at = self.leaves(starts, size);
        self.stats.sent += 1;
        self.stats.sent_bytes += u64::from(size);
        self.stats.met_bytes += self.waiting_bytes;
        pool.flight(slot).leaves = self.free_at;
        if starts > now.as_nanos() {
            self.wait(slot, starts, size);
        }
        self.append(slot, pool)
    }

    /// A packet goes behind all others; the port needs an event if there are none.
    fn append<B: Default>(&mut self, slot: u32, pool: &mut Pool<B>) -> Offered {
        pool.flight(slot).next = NONE;
        let before = std::mem::replace(&mut self.last, slot);
        if before == NONE {
            self.first = slot;
            return Offered::First(self.arrival(self.free_at));
        }
        pool.flight(before).next = slot;
        Offered::Queued
    }

    /// A packet that will start at `starts` waits, behind all others.
    fn wait(&mut self, slot: u32, starts: u64, size: u32) {
        if self.waiting == NONE {
            (self.waiting, self.waiting_starts) = (slot, starts);
        }
        self.waiting_packets += 1;
        self.waiting_bytes += u64::from(size);
        self.stats.deepest_packets = self.stats.deepest_packets.max(self.waiting_packets);
        self.stats.deepest_bytes = self.stats.deepest_bytes.max(self.waiting_bytes);
    }

    /// When a packet whose last bit leaves at `leaves` arrives at the other end.
    #[inline]
    fn arrival(&self, leaves: u64) -> Instant {
        Instant::from_nanos(leaves.saturating_add(self.delay))
    }

    /// The first packet under way arrives: its slot, and when the next one does.
    #[inline]
    pub(super) fn arrive<B: Default>(
        &mut self,
        now: Instant,
        pool: &mut Pool<B>,
    ) -> Option<(u32, Option<Instant>)> {
        let slot = self.first;
        if slot == NONE {
            return None;
        }
        if self.managed.is_some() {
            self.begin_due(now, pool);
        } else if self.waiting == slot {
            self.start(pool);
        }
        self.first = pool.flight(slot).next;
        if self.first == NONE {
            self.last = NONE;
            self.on_nothing_under_way();
            return Some((slot, None));
        }
        let next = pool.flight(self.first).leaves;
        Some((slot, Some(self.arrival(next))))
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
