//! A port whose queue is managed by CoDel: what becomes of a packet is decided when its
//! transmission would begin, and only then is it known when those behind it leave.
//!
//! The decisions are made late, at the next event of the port, in the order of their times: nothing
//! arrived at the queue in between. A packet's transmission begins when the last bit of the one
//! before it leaves, which is before that one arrives, so whoever is next on the wire has begun.

use units::{Duration, Instant};

use super::{
    super::{
        codel::{State, Verdict},
        packet::Ecn,
        pool::{NONE, Pool},
    },
    Offered, PortMut,
};

/// What such a port remembers besides.
#[derive(Debug)]
pub(super) struct Managed {
    codel: State,
    /// The last packet whose transmission has begun and that has not arrived, or [`NONE`].
    last_begun: u32,
}

impl Managed {
    pub(super) fn new(codel: State) -> Self {
        Self { codel, last_begun: NONE }
    }
}

impl PortMut<'_> {
    /// Begins every transmission that is due by `now`.
    pub(super) fn begin_due<B: Default>(&mut self, now: Instant, pool: &mut Pool<B>) {
        let Some(mut managed) = self.take_managed() else { return };
        while self.port.waiting != NONE && self.port.waiting_starts <= now.as_nanos() {
            self.begin_or_drop(&mut managed, pool);
        }
        self.put_back(managed);
    }

    fn take_managed(&mut self) -> Option<Box<Managed>> {
        self.port.apart.as_mut()?.managed.take()
    }

    fn put_back(&mut self, managed: Box<Managed>) {
        self.port.apart.get_or_insert_default().managed = Some(managed);
    }

    /// The first of those that wait is sent, or dropped.
    fn begin_or_drop<B: Default>(&mut self, managed: &mut Managed, pool: &mut Pool<B>) {
        let (slot, starts) = (self.port.waiting, self.port.waiting_starts);
        let flight = *pool.flight(slot);
        let size = flight.head.size;
        self.port.waiting = flight.next;
        self.port.waiting_packets -= 1;
        self.port.waiting_bytes -= u64::from(size);
        // While a packet waits, nothing behind it has begun: the field has when it came.
        let waited = Duration::from_nanos(starts.saturating_sub(flight.next_leaves));
        let markable = flight.head.ecn == Ecn::Capable;
        let begins = Instant::from_nanos(starts);
        match managed.codel.on_start(begins, waited, self.port.waiting_bytes, markable) {
            Verdict::Drop => {
                // The one before it is on its way, or nothing would wait.
                pool.flight(managed.last_begun).next = flight.next;
                self.drop_waiting(slot);
                return;
            }
            Verdict::Mark => {
                pool.flight(slot).head.ecn = Ecn::Marked;
                self.stats.marked += 1;
            }
            Verdict::Send => {}
        }
        self.begin(managed, slot, starts, size, pool);
        self.port.waiting_starts = self.port.free_at;
    }

    /// A packet's transmission begins at `starts`.
    fn begin<B: Default>(
        &mut self,
        managed: &mut Managed,
        slot: u32,
        starts: u64,
        size: u32,
        pool: &mut Pool<B>,
    ) {
        self.transmit(starts, size);
        let before = std::mem::replace(&mut managed.last_begun, slot);
        if before != NONE {
            pool.flight(before).next_leaves = self.port.free_at;
        }
    }

    /// A packet that has room joins the queue, or begins at once if nothing is before it.
    pub(super) fn accept_managed<B: Default>(
        &mut self,
        now: Instant,
        slot: u32,
        size: u32,
        pool: &mut Pool<B>,
    ) -> Offered {
        let Some(mut managed) = self.take_managed() else { return Offered::Gone };
        self.stats.met_bytes += self.port.waiting_bytes;
        if self.port.free_at > now.as_nanos() {
            pool.flight(slot).next_leaves = now.as_nanos();
            self.wait(slot, self.port.free_at, size);
        } else {
            managed.codel.on_start(now, Duration::ZERO, 0, false);
            self.begin(&mut managed, slot, now.as_nanos(), size, pool);
        }
        self.put_back(managed);
        self.append(slot, pool)
    }

    /// The first packet under way has arrived, and nothing else is there.
    #[inline]
    pub(super) fn on_nothing_under_way(&mut self) {
        if let Some(managed) = self.port.apart.as_mut().and_then(|apart| apart.managed.as_mut()) {
            managed.last_begun = NONE;
        }
    }
}
