//! The receiving end: doubles go, order comes back.

use std::collections::{BTreeMap, BTreeSet};

use units::{Duration, Instant};

use super::{
    coding::{Combination, Rebuild},
    order::{Arrival, Order},
    spread::{GRANULARITY, LONGEST, Spread},
    wire::Body,
};

/// When packets that come out of order go on (HTPC-A10).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// At once, as HTPC's text says: TCP sees the reordering of several paths.
    AsItComes,
    /// In order: what is behind a hole waits for as long as packets have been late lately, at most
    /// 50 ms.
    #[default]
    InOrder,
}

/// What a receiving end may use up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IncomingConfig {
    /// When packets go on.
    pub delivery: Delivery,
    /// Flows that are remembered; of more, those that were silent longest are forgotten. Default
    /// 4,096.
    pub most_flows: usize,
    /// Bytes that wait for their order, of all flows, with 64 more for each packet. Default 4 MiB.
    pub most_held: usize,
    /// Bytes that are kept for combinations, of all flows. Default 4 MiB.
    pub most_kept: usize,
}

impl Default for IncomingConfig {
    fn default() -> Self {
        Self { delivery: Delivery::default(), most_flows: 4_096, most_held: 4 << 20, most_kept: 4 << 20 }
    }
}

/// Counts since the beginning, but for the last two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IncomingCounters {
    /// Packets that went on.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Datagrams that made no sense.
    pub malformed: u64,
    /// Combinations that came.
    pub combinations: u64,
    /// Packets that combinations brought back before they came themselves.
    pub rebuilt: u64,
    /// Flows whose packets were not kept any more for combinations, for want of room.
    pub unkept: u64,
    /// Packets that were here before: copies that were not needed.
    pub doubles: u64,
    /// Packets that waited for one before them.
    pub held: u64,
    /// Packets that came after they had been given up.
    pub late: u64,
    /// Holes that were given up.
    pub given_up: u64,
    /// Flows that were forgotten because there were too many.
    pub forgotten: u64,
    /// Flows at the moment.
    pub flows: usize,
    /// Bytes that wait at the moment.
    pub held_bytes: usize,
    /// Bytes that are kept for combinations at the moment.
    pub kept_bytes: usize,
}

impl std::ops::AddAssign for IncomingCounters {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.malformed += other.malformed;
        self.combinations += other.combinations;
        self.rebuilt += other.rebuilt;
        self.unkept += other.unkept;
        self.doubles += other.doubles;
        self.held += other.held;
        self.late += other.late;
        self.given_up += other.given_up;
        self.forgotten += other.forgotten;
        self.flows += other.flows;
        self.held_bytes += other.held_bytes;
        self.kept_bytes += other.kept_bytes;
    }
}

#[derive(Debug)]
struct Flow {
    order: Order,
    rebuild: Rebuild,
    /// The highest number of a packet that was part of a unit.
    last_source: Option<u64>,
    last: Instant,
    booked: Booked,
}

/// What waits of a flow, as it stands in the books of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Booked {
    packets: usize,
    bytes: usize,
    /// Since when, and whether combinations may bring back what is missing.
    waiting: Option<(bool, Instant)>,
}

impl Flow {
    /// Whether a packet that is missing before the one that comes may have been part of a unit, as
    /// its neighbours are: else nothing will bring it back.
    fn may_be_mended(&self, is_source: bool) -> bool {
        let follows_source = self.last_source.is_some_and(|last| last + 1 >= self.order.next());
        is_source || self.rebuild.is_coded() && follows_source
    }

    /// What the books should say.
    fn waits(&self) -> Booked {
        let (packets, bytes) = self.order.held();
        let waiting = self.order.waiting_since().map(|since| (self.rebuild.is_coded(), since));
        Booked { packets, bytes, waiting }
    }
}

/// A packet of a flow.
#[derive(Clone, Copy)]
struct Numbered<'a> {
    flow: u64,
    sequence: u64,
    is_source: bool,
    /// It came as combinations.
    is_rebuilt: bool,
    packet: &'a [u8],
}

/// Packets of a flow that may wait; of more, all go on.
const MOST_HELD_OF_FLOW: usize = 1_024;
/// What one costs besides its bytes.
const OVERHEAD: usize = 64;
/// After so long without a packet a flow is forgotten.
const SILENT: Duration = Duration::from_secs(120);
/// Between two looks at all flows for packets whose combinations will not come any more, a tenth of the time for
/// which they may: where there is room for no more, each datagram would cost such a look.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The receiving end of one tunnel.
#[derive(Debug, Default)]
pub struct Incoming {
    config: IncomingConfig,
    flows: BTreeMap<u64, Flow>,
    /// Flows of which packets wait, and since when the first of them has: who waits longest comes first.
    /// Those of which combinations may bring something back are the second ones.
    waiting: [BTreeSet<(Instant, u64)>; 2],
    held_packets: usize,
    held_bytes: usize,
    kept_bytes: usize,
    /// When it was last looked for packets whose combinations will not come any more.
    looked: Option<Instant>,
    rtt: Duration,
    spread: Spread,
    /// How late packets are that combinations bring back.
    mended: Spread,
    /// Packets that were rebuilt, on their way into their order.
    rebuilt: Vec<(u64, Vec<u8>)>,
    counters: IncomingCounters,
}

/// Counts what goes on.
struct Sink<'a> {
    to: &'a mut dyn FnMut(&[u8]),
    packets: u64,
    bytes: u64,
}

impl Incoming {
    /// Nothing has come yet.
    pub fn new(config: IncomingConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Counts of everything so far.
    pub fn counters(&self) -> IncomingCounters {
        IncomingCounters {
            flows: self.flows.len(),
            held_bytes: self.held_bytes,
            kept_bytes: self.kept_bytes,
            ..self.counters
        }
    }

    /// What the paths' round-trip times say about how far their one-way delays lie apart.
    pub fn set_path_spread(&mut self, spread: Duration) {
        self.spread.set_paths(spread);
    }

    /// The round trip: combinations come a part of it after what they may bring back.
    pub fn set_rtt(&mut self, rtt: Duration) {
        self.rtt = rtt;
    }

    /// Takes a datagram; the packets that may go on are given to `sink`.
    pub fn handle(&mut self, datagram: &[u8], now: Instant, sink: &mut dyn FnMut(&[u8])) {
        let mut sink = Sink { to: sink, packets: 0, bytes: 0 };
        match Body::decode(datagram) {
            Ok(Body::Packet(packet)) => sink.take(packet),
            Ok(Body::Sequenced { flow, sequence, is_source, packet }) => {
                let numbered = Numbered { flow, sequence, is_source, is_rebuilt: false, packet };
                self.arrive(now, &numbered, &mut sink);
                if is_source {
                    self.keep(now, flow, sequence, packet, &mut sink);
                }
            }
            Ok(Body::Coded { flow, first, count, index, symbol }) => {
                self.combine(now, flow, &Combination { first, count, index, symbol }, &mut sink);
            }
            Err(_) => self.counters.malformed += 1,
        }
        self.count(&sink);
    }

    fn count(&mut self, sink: &Sink<'_>) {
        self.counters.packets += sink.packets;
        self.counters.bytes += sink.bytes;
    }

    /// Whether the packet was not here before.
    fn arrive(&mut self, now: Instant, numbered: &Numbered<'_>, sink: &mut Sink<'_>) -> bool {
        let Numbered { flow, sequence, is_source, is_rebuilt, packet } = *numbered;
        if !self.flows.contains_key(&flow) {
            self.make_room(sink);
        }
        let state = self.flows.entry(flow).or_insert_with(|| Flow {
            order: Order::starting(sequence),
            rebuild: Rebuild::default(),
            last_source: None,
            last: now,
            booked: Booked::default(),
        });
        state.last = now;
        let waits = self.config.delivery == Delivery::InOrder
            && (!self.spread.hold().is_zero() || state.may_be_mended(is_source));
        if is_source {
            state.last_source = state.last_source.max(Some(sequence));
        }
        let arrival = state.order.arrive(now, sequence, packet, waits, &mut |packet| sink.take(packet));
        self.book(flow);
        self.bound(flow, arrival, sink);
        let spread = if is_rebuilt { &mut self.mended } else { &mut self.spread };
        match arrival {
            Arrival::Next(waited) => waited.into_iter().for_each(|late| spread.learn(late, now)),
            Arrival::Held => self.counters.held += 1,
            Arrival::Ahead => {}
            Arrival::Late(late) => {
                self.counters.late += 1;
                late.into_iter().for_each(|late| spread.learn(late, now));
            }
            Arrival::Double => self.counters.doubles += 1,
        }
        arrival != Arrival::Double
    }

    /// Lets all that waits of a flow go on if there is no room for one more packet of it.
    fn bound(&mut self, flow: u64, arrival: Arrival, sink: &mut Sink<'_>) {
        if arrival != Arrival::Held {
            return;
        }
        let is_full = self.held_bytes + self.held_packets * OVERHEAD > self.config.most_held;
        if let Some(state) = self.flows.get_mut(&flow)
            && (is_full || state.booked.packets > MOST_HELD_OF_FLOW)
        {
            state.order.flush(&mut |packet| sink.take(packet));
            self.book(flow);
        }
    }

    /// What waits of a flow may have changed: so do the books of all.
    fn book(&mut self, flow: u64) {
        let Some(state) = self.flows.get_mut(&flow) else { return };
        self.counters.given_up += state.order.take_holes();
        let after = state.waits();
        let before = std::mem::replace(&mut state.booked, after);
        if before != after {
            self.rebook(flow, before, after);
        }
    }

    fn rebook(&mut self, flow: u64, before: Booked, after: Booked) {
        self.held_packets = self.held_packets + after.packets - before.packets;
        self.held_bytes = self.held_bytes + after.bytes - before.bytes;
        if before.waiting != after.waiting {
            let waiting = &mut self.waiting;
            before.waiting.map(|(coded, since)| waiting[usize::from(coded)].remove(&(since, flow)));
            after.waiting.map(|(coded, since)| waiting[usize::from(coded)].insert((since, flow)));
        }
    }

    /// A packet that combinations may follow, or that completes one.
    fn keep(&mut self, now: Instant, flow: u64, sequence: u64, packet: &[u8], sink: &mut Sink<'_>) {
        self.with_rebuild(now, flow, sink, |rebuild, out| {
            rebuild.on_source(now, sequence, packet, out);
            true
        });
    }

    fn combine(&mut self, now: Instant, flow: u64, combination: &Combination<'_>, sink: &mut Sink<'_>) {
        self.counters.combinations += 1;
        self.with_rebuild(now, flow, sink, |rebuild, out| rebuild.on_combination(now, combination, out));
    }

    /// Lets `take` work on what is kept of a flow that is known; what it brings back goes on in its
    /// order.
    fn with_rebuild(
        &mut self,
        now: Instant,
        flow: u64,
        sink: &mut Sink<'_>,
        take: impl FnOnce(&mut Rebuild, &mut dyn FnMut(u64, &[u8])) -> bool,
    ) {
        let Some(state) = self.flows.get_mut(&flow) else { return };
        let (before, mut rebuilt) = (state.rebuild.kept(), std::mem::take(&mut self.rebuilt));
        let made_sense =
            take(&mut state.rebuild, &mut |sequence, packet| rebuilt.push((sequence, packet.to_vec())));
        self.counters.malformed += u64::from(!made_sense);
        self.kept_bytes = self.kept_bytes + state.rebuild.kept() - before;
        let looks = self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK_AGAIN);
        if self.kept_bytes > self.config.most_kept && looks {
            self.forget_stale(now);
        }
        if self.kept_bytes > self.config.most_kept
            && let Some(state) = self.flows.get_mut(&flow)
        {
            self.kept_bytes -= state.rebuild.kept();
            state.rebuild.clear();
            self.counters.unkept += 1;
        }
        // From now on, or no more, something may be brought back.
        self.book(flow);
        for (sequence, packet) in rebuilt.drain(..) {
            let numbered = Numbered { flow, sequence, is_source: true, is_rebuilt: true, packet: &packet };
            let is_new = self.arrive(now, &numbered, sink);
            self.counters.rebuilt += u64::from(is_new);
        }
        self.rebuilt = rebuilt;
    }

    /// When [`on_timer`](Self::on_timer) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        let first = |coded: bool| Some(self.waiting[usize::from(coded)].first()?.0 + self.hold(coded));
        [first(false), first(true)].into_iter().flatten().min()
    }

    /// How long the holes of a flow are waited for: as long as packets were late, and where combinations
    /// may come as long as these take.
    fn hold(&self, coded: bool) -> Duration {
        let hold = self.spread.hold();
        if !coded {
            return hold;
        }
        hold.max(self.mended.hold()).max(self.rtt * 3 / 4 + GRANULARITY).min(LONGEST)
    }

    /// Gives up the holes before packets that have waited long enough.
    pub fn on_timer(&mut self, now: Instant, sink: &mut dyn FnMut(&[u8])) {
        self.roll(now);
        let mut sink = Sink { to: sink, packets: 0, bytes: 0 };
        // Flows of which nothing is kept any more go over from the second ones to the first as they are booked.
        for coded in [true, false] {
            let hold = self.hold(coded);
            while let Some((since, flow)) = self.waiting[usize::from(coded)].first().copied()
                && since + hold <= now
            {
                let Some(state) = self.flows.get_mut(&flow) else {
                    self.waiting[usize::from(coded)].remove(&(since, flow));
                    continue;
                };
                state.order.skip(&mut |packet| sink.take(packet));
                self.book(flow);
            }
        }
        self.count(&sink);
    }

    fn roll(&mut self, now: Instant) {
        self.spread.roll(now);
        self.mended.roll(now);
    }

    /// Forgets flows that have been silent for long; call it about once a second.
    pub fn expire(&mut self, now: Instant) {
        self.roll(now);
        self.forget_stale(now);
        self.flows
            .retain(|_, flow| flow.order.held().0 > 0 || now.saturating_duration_since(flow.last) < SILENT);
    }

    /// Forgets packets whose combinations will not come any more.
    fn forget_stale(&mut self, now: Instant) {
        self.looked = Some(now);
        for flow in self.flows.values_mut().filter(|flow| flow.rebuild.is_stale(now)) {
            self.kept_bytes -= flow.rebuild.kept();
            flow.rebuild.clear();
        }
    }

    /// Forgets an eighth of the flows if there are as many as there may be.
    fn make_room(&mut self, sink: &mut Sink<'_>) {
        if self.flows.len() < self.config.most_flows.max(1) {
            return;
        }
        let mut by_age: Vec<(Instant, u64)> = self.flows.iter().map(|(id, flow)| (flow.last, *id)).collect();
        by_age.sort_unstable();
        for (_, id) in by_age.into_iter().take(self.config.most_flows / 8 + 1) {
            let Some(mut flow) = self.flows.remove(&id) else { continue };
            self.rebook(id, flow.booked, Booked::default());
            self.kept_bytes -= flow.rebuild.kept();
            flow.order.flush(&mut |packet| sink.take(packet));
            self.counters.given_up += flow.order.take_holes();
            self.counters.forgotten += 1;
        }
    }
}

impl Sink<'_> {
    fn take(&mut self, packet: &[u8]) {
        self.packets += 1;
        self.bytes += packet.len() as u64;
        (self.to)(packet);
    }
}

#[cfg(test)]
mod tests;
