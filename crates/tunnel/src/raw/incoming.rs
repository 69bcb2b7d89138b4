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
    /// Bytes that wait for their order, of all flows. Default 4 MiB.
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
}

impl Flow {
    /// Whether a packet that is missing before the one that comes may have been part of a unit, as
    /// its neighbours are: else nothing will bring it back.
    fn may_be_mended(&self, is_source: bool) -> bool {
        let follows_source = self.last_source.is_some_and(|last| last + 1 >= self.order.next());
        self.rebuild.is_coded() && (is_source || follows_source)
    }
}

/// A packet of a flow.
#[derive(Clone, Copy)]
struct Numbered<'a> {
    flow: u64,
    sequence: u64,
    is_source: bool,
    packet: &'a [u8],
}

/// Packets of a flow that may wait; of more, all go on.
const MOST_HELD_OF_FLOW: usize = 1_024;
/// After so long without a packet a flow is forgotten.
const SILENT: Duration = Duration::from_secs(120);

/// The receiving end of one tunnel.
#[derive(Debug, Default)]
pub struct Incoming {
    config: IncomingConfig,
    flows: BTreeMap<u64, Flow>,
    /// Flows of which packets wait, and since when the first of them has: who waits longest comes first.
    waiting: BTreeSet<(Instant, u64)>,
    held_bytes: usize,
    kept_bytes: usize,
    rtt: Duration,
    spread: Spread,
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
                let numbered = Numbered { flow, sequence, is_source, packet };
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
        let Numbered { flow, sequence, is_source, packet } = *numbered;
        if !self.flows.contains_key(&flow) {
            self.make_room(sink);
        }
        let state = self.flows.entry(flow).or_insert_with(|| Flow {
            order: Order::starting(sequence),
            rebuild: Rebuild::default(),
            last_source: None,
            last: now,
        });
        state.last = now;
        let (before, (_, held_before)) = (state.order.waiting_since(), state.order.held());
        let waits = self.config.delivery == Delivery::InOrder
            && (!self.spread.hold().is_zero() || state.may_be_mended(is_source));
        if is_source {
            state.last_source = state.last_source.max(Some(sequence));
        }
        let arrival = state.order.arrive(now, sequence, packet, waits, &mut |packet| sink.take(packet));
        let (packets, bytes) = state.order.held();
        let full = packets > MOST_HELD_OF_FLOW
            || bytes > held_before && self.held_bytes - held_before + bytes > self.config.most_held;
        if full {
            state.order.flush(&mut |packet| sink.take(packet));
        }
        self.counters.given_up += state.order.take_holes();
        self.moved(flow, before, held_before);
        match arrival {
            Arrival::Next(waited) => waited.into_iter().for_each(|late| self.spread.learn(late, now)),
            Arrival::Held => self.counters.held += 1,
            Arrival::Ahead => {}
            Arrival::Late(late) => {
                self.counters.late += 1;
                late.into_iter().for_each(|late| self.spread.learn(late, now));
            }
            Arrival::Double => self.counters.doubles += 1,
        }
        arrival != Arrival::Double
    }

    /// The order of a flow has changed: so do the books of what waits.
    fn moved(&mut self, flow: u64, before: Option<Instant>, held_before: usize) {
        let Some(state) = self.flows.get(&flow) else { return };
        let (after, (_, held)) = (state.order.waiting_since(), state.order.held());
        self.held_bytes = self.held_bytes + held - held_before;
        if before != after {
            before.map(|since| self.waiting.remove(&(since, flow)));
            after.map(|since| self.waiting.insert((since, flow)));
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
        if self.kept_bytes > self.config.most_kept {
            self.forget_stale(now);
        }
        if self.kept_bytes > self.config.most_kept
            && let Some(state) = self.flows.get_mut(&flow)
        {
            self.kept_bytes -= state.rebuild.kept();
            state.rebuild.clear();
            self.counters.unkept += 1;
        }
        for (sequence, packet) in rebuilt.drain(..) {
            let numbered = Numbered { flow, sequence, is_source: true, packet: &packet };
            let is_new = self.arrive(now, &numbered, sink);
            self.counters.rebuilt += u64::from(is_new);
        }
        self.rebuilt = rebuilt;
    }

    /// When [`on_timer`](Self::on_timer) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.waiting.first().map(|(since, _)| *since + self.hold())
    }

    /// How long a hole is waited for: as long as packets were late, and where combinations may come
    /// as long as these take.
    fn hold(&self) -> Duration {
        let hold = self.spread.hold();
        if self.kept_bytes == 0 { hold } else { hold.max(self.rtt * 3 / 4 + GRANULARITY).min(LONGEST) }
    }

    /// Gives up the holes before packets that have waited long enough.
    pub fn on_timer(&mut self, now: Instant, sink: &mut dyn FnMut(&[u8])) {
        self.spread.roll(now);
        let mut sink = Sink { to: sink, packets: 0, bytes: 0 };
        while let Some((since, flow)) = self.waiting.first().copied()
            && since + self.hold() <= now
        {
            let Some(state) = self.flows.get_mut(&flow) else {
                self.waiting.remove(&(since, flow));
                continue;
            };
            let (_, held_before) = state.order.held();
            state.order.skip(&mut |packet| sink.take(packet));
            self.counters.given_up += state.order.take_holes();
            self.moved(flow, Some(since), held_before);
        }
        self.count(&sink);
    }

    /// Forgets flows that have been silent for long; call it about once a second.
    pub fn expire(&mut self, now: Instant) {
        self.spread.roll(now);
        self.forget_stale(now);
        self.flows
            .retain(|_, flow| flow.order.held().0 > 0 || now.saturating_duration_since(flow.last) < SILENT);
    }

    /// Forgets packets whose combinations will not come any more.
    fn forget_stale(&mut self, now: Instant) {
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
            flow.order.waiting_since().map(|since| self.waiting.remove(&(since, id)));
            self.held_bytes -= flow.order.held().1;
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn body(flow: u64, sequence: u64, packet: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Body::Sequenced { flow, sequence, is_source: false, packet }.encode(&mut out);
        out
    }

    fn handle(incoming: &mut Incoming, ms: u64, flow: u64, sequence: u64) -> Vec<u8> {
        let mut out = Vec::new();
        incoming.handle(&body(flow, sequence, &[sequence as u8]), at(ms), &mut |packet| out.extend(packet));
        out
    }

    #[test]
    fn what_was_late_once_is_waited_for_the_next_time() {
        let mut incoming = Incoming::default();
        assert_eq!(handle(&mut incoming, 0, 7, 1), [1], "nothing was ever late");
        assert_eq!(handle(&mut incoming, 8, 7, 0), [0]);
        assert!(handle(&mut incoming, 9, 7, 3).is_empty(), "now it is waited for");
        assert_eq!(incoming.deadline(), Some(at(20)));
        assert_eq!(handle(&mut incoming, 10, 7, 2), [2, 3]);
        assert!(handle(&mut incoming, 11, 7, 5).is_empty());
        let mut out = Vec::new();
        incoming.on_timer(at(21), &mut |packet| out.extend(packet));
        assert!(out.is_empty(), "not yet");
        incoming.on_timer(at(22), &mut |packet| out.extend(packet));
        assert_eq!((out, incoming.deadline()), (vec![5], None));
        let counters = incoming.counters();
        assert_eq!((counters.held, counters.late, counters.held_bytes, counters.packets), (2, 1, 0, 5));
        assert_eq!(counters.given_up, 2);
    }

    /// Each packet's own time counts, also where holes before it were filled meanwhile.
    #[test]
    fn a_packet_behind_several_holes_waits_no_longer_than_one_behind_one() {
        let mut incoming = Incoming::default();
        incoming.set_path_spread(Duration::from_millis(20));
        for (ms, sequence) in [(0, 0), (1, 7), (20, 4), (24, 2)] {
            handle(&mut incoming, ms, 9, sequence);
        }
        assert_eq!(handle(&mut incoming, 25, 9, 1), [1, 2]);
        assert_eq!(incoming.deadline(), Some(at(1 + 31)), "7 has waited since 1; 1 was late by 24");
        assert!(handle(&mut incoming, 26, 9, 9).is_empty());
        let mut out = Vec::new();
        incoming.on_timer(at(32), &mut |packet| out.extend(packet));
        assert_eq!((out, incoming.counters().given_up), (vec![4, 7], 2));
        assert_eq!(incoming.deadline(), Some(at(26 + 31)), "nobody has waited for 8 for as long");
        assert_eq!(handle(&mut incoming, 40, 9, 8), [8, 9]);
    }

    #[test]
    fn only_what_may_have_been_part_of_a_unit_is_waited_for() {
        let mut incoming = Incoming::default();
        incoming.set_rtt(Duration::from_millis(40));
        let mut come = |sequence: u64, is_source| {
            let (mut datagram, mut out) = (Vec::new(), Vec::new());
            let packet = [sequence as u8];
            Body::Sequenced { flow: 1, sequence, is_source, packet: &packet }.encode(&mut datagram);
            incoming.handle(&datagram, at(sequence), &mut |packet| out.push(packet[0]));
            out
        };
        assert_eq!(come(0, true), [0]);
        assert!(come(2, false).is_empty(), "1 may have been the last of the unit");
        assert_eq!(come(1, false), [1, 2]);
        assert_eq!(come(4, false), [4], "between packets of no unit nothing comes back");
        assert!(come(6, true).is_empty(), "5 may have been the first");
    }

    #[test]
    fn doubles_never_go_on() {
        let mut incoming = Incoming::default();
        for _ in 0..3 {
            handle(&mut incoming, 0, 1, 0);
        }
        assert_eq!((incoming.counters().packets, incoming.counters().doubles), (1, 2));
        let as_it_comes = IncomingConfig { delivery: Delivery::AsItComes, ..IncomingConfig::default() };
        let mut incoming = Incoming::new(as_it_comes);
        incoming.set_path_spread(Duration::from_millis(20));
        assert_eq!(handle(&mut incoming, 0, 1, 1), [1]);
        assert_eq!(handle(&mut incoming, 1, 1, 0), [0]);
        assert!(handle(&mut incoming, 2, 1, 1).is_empty());
    }

    #[test]
    fn flows_and_what_waits_are_bounded() {
        let config = IncomingConfig { most_flows: 16, most_held: 100, ..IncomingConfig::default() };
        let mut incoming = Incoming::new(config);
        incoming.set_path_spread(Duration::from_millis(20));
        for n in 0..2_000 {
            handle(&mut incoming, n, n, 1);
            let counters = incoming.counters();
            assert!(counters.flows <= 16 && counters.held_bytes <= 100);
            assert_eq!(incoming.waiting.len(), incoming.flows.len());
        }
        assert!(incoming.counters().forgotten > 1_900);
        for n in 0..200 {
            let packet = body(5_000, 1 + n, &[1; 10]);
            incoming.handle(&packet, at(2_000), &mut |_| {});
            assert!(incoming.counters().held_bytes <= 100);
        }
        incoming.on_timer(at(3_000), &mut |_| {});
        incoming.expire(at(200_000));
        assert_eq!((incoming.counters().flows, incoming.counters().held_bytes), (0, 0));
    }

    #[test]
    fn one_flow_holds_no_more_than_it_may() {
        let mut incoming = Incoming::default();
        incoming.set_path_spread(Duration::from_millis(20));
        for n in 1..=(MOST_HELD_OF_FLOW as u64 + 1) {
            handle(&mut incoming, 0, 1, n);
            assert!(incoming.counters().held_bytes <= MOST_HELD_OF_FLOW);
        }
        assert_eq!(incoming.counters().packets, MOST_HELD_OF_FLOW as u64 + 1);
    }

    proptest! {
        #[test]
        fn any_datagrams(
            datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..60),
            spread in 0u64..80,
        ) {
            let mut incoming = Incoming::new(IncomingConfig { most_flows: 4, most_held: 64, ..IncomingConfig::default() });
            incoming.set_path_spread(Duration::from_millis(spread));
            for (n, datagram) in (0..).zip(&datagrams) {
                incoming.handle(datagram, at(n), &mut |_| {});
                incoming.on_timer(at(n), &mut |_| {});
                let counters = incoming.counters();
                prop_assert!(counters.flows <= 4 && counters.held_bytes <= 64 + 40);
            }
        }
    }
}
