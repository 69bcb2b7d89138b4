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
    Offered, Port,
};

/// What such a port remembers besides.
#[derive(Debug)]
pub(in super::super) struct Managed {
    codel: State,
    /// The last packet whose transmission has begun and that has not arrived, or [`NONE`].
    last_begun: u32,
    /// What was dropped and is to be taken out of the pool.
    pub(in super::super) dropped: Vec<u32>,
}

impl Managed {
    pub(super) fn new(codel: State) -> Self {
        Self { codel, last_begun: NONE, dropped: Vec::new() }
    }
}

impl Port {
    /// Begins every transmission that is due by `now`.
    pub(super) fn begin_due<B: Default>(&mut self, now: Instant, pool: &mut Pool<B>) {
        let Some(mut managed) = self.managed.take() else { return };
        while self.waiting != NONE && self.waiting_starts <= now.as_nanos() {
            self.begin_or_drop(&mut managed, pool);
        }
        self.managed = Some(managed);
    }

    /// The first of those that wait is sent, or dropped.
    fn begin_or_drop<B: Default>(&mut self, managed: &mut Managed, pool: &mut Pool<B>) {
        let (slot, starts) = (self.waiting, self.waiting_starts);
        let flight = *pool.flight(slot);
        let size = flight.head.size;
        self.waiting = flight.next;
        self.waiting_packets -= 1;
        self.waiting_bytes -= u64::from(size);
        // While a packet waits, `leaves` is when it came.
        let waited = Duration::from_nanos(starts.saturating_sub(flight.leaves));
        let markable = flight.head.ecn == Ecn::Capable;
        let begins = Instant::from_nanos(starts);
        match managed.codel.on_start(begins, waited, self.waiting_bytes, markable) {
            Verdict::Drop => {
                // The one before it is on its way, or nothing would wait.
                pool.flight(managed.last_begun).next = flight.next;
                self.stats.dropped += 1;
                managed.dropped.push(slot);
                return;
            }
            Verdict::Mark => {
                pool.flight(slot).head.ecn = Ecn::Marked;
                self.stats.marked += 1;
            }
            Verdict::Send => {}
        }
        self.begin(managed, slot, starts, size, pool);
        self.waiting_starts = self.free_at;
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
        self.free_at = self.leaves(starts, size);
        self.stats.sent += 1;
        self.stats.sent_bytes += u64::from(size);
        pool.flight(slot).leaves = self.free_at;
        managed.last_begun = slot;
    }

    /// A packet that has room joins the queue, or begins at once if nothing is before it.
    pub(super) fn accept_managed<B: Default>(
        &mut self,
        now: Instant,
        slot: u32,
        size: u32,
        pool: &mut Pool<B>,
    ) -> Offered {
        let Some(mut managed) = self.managed.take() else { return Offered::Gone };
        self.stats.met_bytes += self.waiting_bytes;
        if self.free_at > now.as_nanos() {
            pool.flight(slot).leaves = now.as_nanos();
            self.wait(slot, self.free_at, size);
        } else {
            managed.codel.on_start(now, Duration::ZERO, 0, false);
            self.begin(&mut managed, slot, now.as_nanos(), size, pool);
        }
        self.managed = Some(managed);
        self.append(slot, pool)
    }

    /// The first packet under way has arrived, and nothing else is there.
    pub(super) fn on_nothing_under_way(&mut self) {
        if let Some(managed) = &mut self.managed {
            managed.last_begun = NONE;
        }
    }

    /// What was dropped since the last call.
    pub(in super::super) fn take_dropped(&mut self) -> Vec<u32> {
        self.managed.as_mut().map(|managed| std::mem::take(&mut managed.dropped)).unwrap_or_default()
    }

    /// Whether anything was dropped since [`take_dropped`](Self::take_dropped).
    #[inline]
    pub(in super::super) fn has_dropped(&self) -> bool {
        self.managed.as_ref().is_some_and(|managed| !managed.dropped.is_empty())
    }
}
