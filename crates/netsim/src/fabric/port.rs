//! A port: a drop-tail queue with an ECN threshold, a rate, and the wire behind it.

use std::collections::VecDeque;

use units::{BitRate, Duration, Instant};

use super::{Class, Ecn, failure::Faults};

/// How much may wait at a port; the packet that is being sent does not wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueLimit {
    /// Packets.
    Packets(u32),
    /// Bytes. A packet fits if it keeps the sum at or below this.
    Bytes(u64),
}

/// From which queue length on a packet is marked, if its transport understands marks: when it arrives and at least this
/// much is waiting before it.
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
}

impl Line {
    /// A line with a queue of `packets` packets and no marks.
    pub const fn new(rate: BitRate, delay: Duration, packets: u32) -> Self {
        Self { rate, delay, queue: QueueLimit::Packets(packets), mark: None }
    }

    /// The same with a queue limit.
    pub const fn with_queue(self, queue: QueueLimit) -> Self {
        Self { queue, ..self }
    }

    /// The same with an ECN threshold.
    pub const fn with_mark(self, mark: Mark) -> Self {
        Self { mark: Some(mark), ..self }
    }
}

/// What a port has done so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PortStats {
    /// Packets accepted for sending, those lost on the wire included.
    pub sent: u64,
    /// Their size in bytes.
    pub sent_bytes: u64,
    /// Packets dropped because the queue was full.
    pub dropped: u64,
    /// Packets lost to a failure.
    pub lost: u64,
    /// Packets marked.
    pub marked: u64,
    /// Most packets that were waiting at once.
    pub deepest_packets: u32,
    /// Most bytes that were waiting at once.
    pub deepest_bytes: u64,
    /// Sum over the accepted packets of the bytes that waited before them: divided by `sent`, the mean queue that a
    /// packet met.
    pub met_bytes: u64,
}

/// A packet number that stands for one lost on the wire: it occupies the port and arrives nowhere.
pub(super) const LOST: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Flight {
    /// When its first bit leaves.
    starts: u64,
    /// When its last bit arrives at the other end.
    arrives: u64,
    packet: u32,
    size: u32,
}

/// What became of a packet that was offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Offered {
    /// It is on its way, behind others.
    Queued,
    /// It is on its way and the only one: the port needs an event at this time.
    First(Instant),
    /// Dropped or lost: its slot is free again.
    Gone,
}

#[derive(Debug)]
pub(super) struct Port {
    rate: u64,
    delay: u64,
    limit_packets: u32,
    limit_bytes: u64,
    mark_packets: u32,
    mark_bytes: u64,
    /// When the last accepted packet's last bit leaves.
    free_at: u64,
    /// Queued and under way, in order.
    flights: VecDeque<Flight>,
    /// Index in `flights` of the first that had not started at the last look.
    waiting_from: usize,
    waiting_bytes: u64,
    /// The time that the last size took: packets come in few sizes, and a division is slow.
    last_size: u32,
    last_time: u64,
    pub(super) faults: Option<Box<Faults>>,
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
            rate: line.rate.bits_per_second(),
            delay: line.delay.as_nanos(),
            limit_packets,
            limit_bytes,
            mark_packets,
            mark_bytes,
            free_at: 0,
            flights: VecDeque::new(),
            waiting_from: 0,
            waiting_bytes: 0,
            last_size: 0,
            last_time: 0,
            faults: None,
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
    pub(super) fn waiting(&mut self, now: Instant) -> (u32, u64) {
        while let Some(flight) = self.flights.get(self.waiting_from)
            && flight.starts <= now.as_nanos()
        {
            self.waiting_bytes -= u64::from(flight.size);
            self.waiting_from += 1;
        }
        ((self.flights.len() - self.waiting_from) as u32, self.waiting_bytes)
    }

    /// A packet arrives at the queue.
    #[inline]
    pub(super) fn offer(
        &mut self,
        now: Instant,
        packet: u32,
        size: u32,
        ecn: &mut Ecn,
        class: Class,
    ) -> Offered {
        let fate = match &mut self.faults {
            None => Fate::Passes,
            Some(faults) => {
                let starts = Instant::from_nanos(self.free_at).max(now);
                faults.fate(now, starts, u64::from(size), class)
            }
        };
        if fate == Fate::NeverSent {
            self.stats.lost += 1;
            return Offered::Gone;
        }
        let (packets, bytes) = self.waiting(now);
        let busy = self.free_at > now.as_nanos();
        if self.rate == 0
            || (busy && (packets >= self.limit_packets || bytes + u64::from(size) > self.limit_bytes))
        {
            self.stats.dropped += 1;
            return Offered::Gone;
        }
        if *ecn == Ecn::Capable && (packets >= self.mark_packets || bytes >= self.mark_bytes) {
            *ecn = Ecn::Marked;
            self.stats.marked += 1;
        }
        self.accept(now, if fate == Fate::LostOnTheWire { LOST } else { packet }, size)
    }

    fn accept(&mut self, now: Instant, packet: u32, size: u32) -> Offered {
        let starts = self.free_at.max(now.as_nanos());
        self.free_at = starts.saturating_add(self.time_to_send(size));
        let arrives = self.free_at.saturating_add(self.delay);
        self.stats.sent += 1;
        self.stats.sent_bytes += u64::from(size);
        self.stats.met_bytes += self.waiting_bytes;
        self.stats.lost += u64::from(packet == LOST);
        self.waiting_bytes += u64::from(size);
        let first = self.flights.is_empty();
        self.flights.push_back(Flight { starts, arrives, packet, size });
        if starts > now.as_nanos() {
            let depth = (self.flights.len() - self.waiting_from) as u32;
            self.stats.deepest_packets = self.stats.deepest_packets.max(depth);
            self.stats.deepest_bytes = self.stats.deepest_bytes.max(self.waiting_bytes);
        }
        if first { Offered::First(Instant::from_nanos(arrives)) } else { Offered::Queued }
    }

    /// The first packet under way arrives: its number, and when the next one does.
    #[inline]
    pub(super) fn arrive(&mut self) -> Option<(u32, Option<Instant>)> {
        let flight = self.flights.pop_front()?;
        match self.waiting_from.checked_sub(1) {
            Some(less) => self.waiting_from = less,
            None => self.waiting_bytes -= u64::from(flight.size),
        }
        Some((flight.packet, self.flights.front().map(|next| Instant::from_nanos(next.arrives))))
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
