//! The event loop.

use std::{collections::BTreeMap, fmt};

use thiserror::Error;
use units::{BitRate, Instant};

use super::{
    Balancing, Events, Fault, HostId, Node, Packet, PortId, PortStats, SwitchId, Topology, TopologyError,
    balance::{Choice, Chooser, flow_hash},
    packet::Head,
    pool::Pool,
    port::Offered,
    ports::Ports,
    routes::{Next, Routes},
};
use crate::{Seed, TraceHash};

/// Events with this bit are timers, with their token in the low half. The others are arrivals: the
/// port in the high half, then the packet's slot, then [`DELIVERY`]. A port has one at a time, so
/// they are in the order of the ports.
const TIMER: u64 = 1 << 63;
/// Arrivals at hosts have this bit.
const DELIVERY: u64 = 1;
/// Destinations of ports: switches have this bit.
const SWITCH: u32 = 1 << 31;

/// With more packets than this, some 100 bytes each, what an event needs is no longer in the
/// second-level cache: only then looking ahead is worth its instructions.
/// The tests here have few packets, and look ahead all the same.
const MANY_PACKETS: usize = if cfg!(test) { 1 } else { 16_384 };

/// The port of an arrival, and the slot of the packet that arrives.
#[inline]
fn port_and_slot(event: u64) -> (u32, u32) {
    ((event >> 32) as u32, event as u32 >> 1)
}

/// How much a fabric may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Packets under way at once, at most 2^31 - 1. One more is dropped, and counted as
    /// [`FabricStats::no_room`].
    pub packets: u32,
    /// Timers waiting at once. One more ends the run with [`RunError::TooManyTimers`].
    pub timers: usize,
}

impl Default for Limits {
    /// 16 million packets, 64 million timers.
    fn default() -> Self {
        Self { packets: 1 << 24, timers: 1 << 26 }
    }
}

/// What a fabric needs to know besides its topology.
#[derive(Clone, Default, Debug)]
pub struct Options {
    /// All randomness derives from it.
    pub seed: Seed,
    /// How switches choose among equal ways.
    pub balancing: Balancing,
    /// What is broken.
    pub faults: Vec<Fault>,
    /// How much it may hold.
    pub limits: Limits,
}

/// Why a run ended before its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RunError {
    /// The protocol set more timers than [`Limits::timers`].
    #[error("more than {limit} timers at {at}")]
    TooManyTimers {
        /// The limit.
        limit: usize,
        /// When it was reached.
        at: Instant,
    },
}

/// The protocol on all hosts together.
pub trait Hosts<B> {
    /// A packet reached the host that it was for.
    fn receive(&mut self, fabric: &mut Fabric<B>, host: HostId, packet: Packet<B>);

    /// A packet with this body will probably be received soon: a protocol may read what it will
    /// need then, so that memory has answered by the time. Called any number of times.
    fn expect(&self, _body: &B) {}

    /// A timer that [`Fabric::set_timer`] set. There is no way to take one back: who moved a
    /// deadline ignores it.
    fn timer(&mut self, fabric: &mut Fabric<B>, token: u32);
}

/// Sees every packet that a port accepts, before it is sent.
pub type Tap<B> = Box<dyn FnMut(Instant, &Packet<B>) + Send>;

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketEvent {
    /// A host hands it to its port, which may still drop or lose it.
    Sent,
    /// A port's queue had no room for it.
    Dropped(PortId),
    /// A failure takes it behind this port, now or as soon as the port has sent it.
    Lost(PortId),
}

/// Sees what hosts send and what does not arrive, on all ports: for timelines of single flows.
pub type Watcher<B> = Box<dyn FnMut(Instant, PacketEvent, &Packet<B>) + Send>;

/// Totals over the whole fabric.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct FabricStats {
    /// Packets that reached the other end of a link: packet-hops.
    pub hops: u64,
    /// Packets that hosts sent.
    pub sent: u64,
    /// Packets that reached their host.
    pub delivered: u64,
    /// Packets dropped by full queues and by CoDel.
    pub dropped: u64,
    /// Packets lost to failures.
    pub lost: u64,
    /// Packets refused because [`Limits::packets`] was reached.
    pub no_room: u64,
    /// Packets for which a switch knew no way.
    pub no_route: u64,
    /// Timers that ran out.
    pub timers: u64,
    /// Most events that waited at once.
    pub most_events: usize,
}

/// The network, with its clock.
pub struct Fabric<B> {
    now: Instant,
    events: Events,
    timers: usize,
    limits: Limits,
    error: Option<RunError>,
    ports: Ports,
    /// Each host's port.
    uplinks: Vec<u32>,
    routes: Routes,
    choosers: Vec<Chooser>,
    waiting: Vec<u64>,
    pool: Pool<B>,
    /// By port.
    taps: BTreeMap<u32, Vec<Tap<B>>>,
    watcher: Option<Watcher<B>>,
    stats: FabricStats,
    trace: TraceHash,
}

impl<B> fmt::Debug for Fabric<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fabric").field("now", &self.now).field("stats", &self.stats).finish_non_exhaustive()
    }
}

impl<B: Default> Fabric<B> {
    /// Builds the network.
    ///
    /// # Errors
    /// If the topology is not sound ([`Topology::check`]), or a failure names a link that it lacks.
    pub fn new(topology: &Topology, options: &Options) -> Result<Self, TopologyError> {
        topology.check()?;
        let end = |node| match node {
            Node::Host(host) => host.0,
            Node::Switch(switch) => switch.0 | SWITCH,
        };
        let mut ports = Ports::new(topology.ports().map(|(line, node)| (line, end(node))), options.seed);
        let links = topology.links() as u32;
        for fault in &options.faults {
            if fault.link.0 >= links {
                return Err(TopologyError::UnknownLink { link: fault.link.0, links });
            }
            for port in fault.ports() {
                let seed = options.seed.child("port", u64::from(port.0));
                ports.get(port.0).faults().add(&fault.failure, seed);
            }
        }
        let mut uplinks = vec![0; topology.hosts() as usize];
        for (link, ends) in topology.ends() {
            match ends {
                (Node::Host(host), _) => uplinks[host.0 as usize] = link.forward().0,
                (_, Node::Host(host)) => uplinks[host.0 as usize] = link.backward().0,
                _ => {}
            }
        }
        let chooser = |switch| Chooser::new(options.balancing, SwitchId(switch), options.seed);
        Ok(Self {
            now: Instant::ORIGIN,
            events: Events::default(),
            timers: 0,
            limits: options.limits,
            error: None,
            ports,
            uplinks,
            routes: Routes::new(topology),
            choosers: (0..topology.switches()).map(chooser).collect(),
            waiting: Vec::new(),
            pool: Pool::new(options.limits.packets),
            taps: BTreeMap::new(),
            watcher: None,
            stats: FabricStats::default(),
            trace: TraceHash::new(),
        })
    }

    /// Moves packets and runs timers up to and including `until`, and leaves the clock there.
    ///
    /// # Errors
    /// If a limit ends the run; the clock stays where it was reached.
    pub fn run<H: Hosts<B>>(&mut self, hosts: &mut H, until: Instant) -> Result<(), RunError> {
        while let Some((at, event)) = self.events.pop_until(until) {
            self.now = at;
            if self.pool.most() > MANY_PACKETS && self.events.begins_turn() {
                self.look_ahead(hosts);
            }
            if event & TIMER != 0 {
                let token = event as u32;
                self.trace.record(at.as_nanos() ^ (u64::from(token) << 44));
                self.timers -= 1;
                self.stats.timers += 1;
                hosts.timer(self, token);
            } else {
                let (port, slot) = port_and_slot(event);
                self.trace.record(at.as_nanos() ^ (u64::from(port) << 44));
                self.arrive(hosts, port, slot);
            }
            if let Some(error) = self.error {
                return Err(error);
            }
        }
        self.now = self.now.max(until);
        Ok(())
    }

    /// Reads what the next events will need, and does nothing with it: memory answers to many at a
    /// time, and while other events are handled. Those that have the next turn are asked about their
    /// packets; those whose turn it is, whose packets are here since, about their hosts' needs.
    #[inline(never)] // the loop of small fabrics stays small
    fn look_ahead<H: Hosts<B>>(&mut self, hosts: &H) {
        for event in self.events.following().filter(|event| event & TIMER == 0) {
            let (port, slot) = port_and_slot(event);
            self.ports.read_ahead(port);
            self.pool.read_ahead(slot);
            if event & DELIVERY != 0 {
                self.pool.ask_ahead(slot);
            }
        }
        for event in self.events.near().filter(|event| event & (TIMER | DELIVERY) == DELIVERY) {
            let (_, slot) = port_and_slot(event);
            hosts.expect(self.pool.body(slot));
        }
    }

    /// Plans the arrival of the first packet under way of a port.
    #[inline]
    fn plan(&mut self, at: Instant, port: u32, slot: u32) {
        let delivery = if self.ports.get(port).end & SWITCH == 0 { DELIVERY } else { 0 };
        self.events.push(at, u64::from(port) << 32 | u64::from(slot) << 1 | delivery);
    }

    /// The first packet under way of a port, which is `slot`, reaches the other end.
    #[inline]
    fn arrive<H: Hosts<B>>(&mut self, hosts: &mut H, port: u32, slot: u32) {
        let next = self.ports.at(port).arrive(self.now, slot, &mut self.pool);
        self.clear_dropped(port);
        if let Some((next, at)) = next {
            self.plan(at, port, next);
        }
        let head = self.pool.flight(slot).head;
        if head.lost {
            self.pool.remove(slot);
            return;
        }
        self.stats.hops += 1;
        let end = self.ports.get(port).end;
        if end & SWITCH != 0 {
            self.forward(end & !SWITCH, slot, &head);
        } else {
            self.stats.delivered += 1;
            let packet = head.with(self.pool.remove(slot));
            hosts.receive(self, HostId(end), packet);
        }
    }

    /// A switch sends a packet on.
    #[inline]
    fn forward(&mut self, switch: u32, slot: u32, head: &Head) {
        match self.routes.next(switch, head.dst.0) {
            Next::Port(port) => _ = self.offer(port, slot),
            Next::Group(group) => {
                let port = self.choose(switch, group, head);
                self.offer(port, slot);
            }
            Next::Nowhere => {
                self.stats.no_route += 1;
                self.pool.remove(slot);
            }
        }
    }

    #[inline]
    fn choose(&mut self, switch: u32, group: u32, head: &Head) -> u32 {
        let ports = self.routes.group(group);
        let index = match &mut self.choosers[switch as usize] {
            Chooser::FlowHash(key) => flow_hash(*key, head.src, head.dst, head.label, ports.len()),
            Chooser::Spray(rng) => rng.below(ports.len() as u64) as usize,
            Chooser::Custom(balancer) => {
                self.waiting.clear();
                for port in ports {
                    let (_, bytes) = self.ports.at(port.0).waiting(self.now, &mut self.pool);
                    self.waiting.push(bytes);
                }
                let Head { src, dst, label, size, class, .. } = *head;
                let (now, waiting) = (self.now, self.waiting.as_slice());
                balancer.choose(&Choice { now, src, dst, label, size, class, waiting }) % ports.len()
            }
        };
        ports[index].0
    }

    /// A packet joins a port's queue, if there is room.
    #[inline]
    fn offer(&mut self, port: u32, slot: u32) -> bool {
        let (offered, lost) = self.ports.at(port).offer(self.now, slot, &mut self.pool);
        self.clear_dropped(port);
        if !self.taps.is_empty() && offered != Offered::Gone {
            self.tap(port, slot);
        }
        if let Offered::First(at) = offered {
            self.plan(at, port, slot);
            self.stats.most_events = self.stats.most_events.max(self.events.len());
        }
        if lost {
            self.stats.lost += 1;
            self.see(PacketEvent::Lost(PortId(port)), slot);
        } else if offered == Offered::Gone {
            self.stats.dropped += 1;
            self.see(PacketEvent::Dropped(PortId(port)), slot);
        }
        if offered == Offered::Gone {
            self.pool.remove(slot);
        } else if lost {
            // It occupies its port and its slot until it would have arrived.
            self.pool.flight(slot).head.lost = true;
        }
        offered != Offered::Gone && !lost
    }

    /// Takes out what a managed queue has dropped, now that it is known.
    #[inline]
    fn clear_dropped(&mut self, port: u32) {
        if !self.ports.get(port).has_dropped() {
            return;
        }
        for slot in self.ports.get(port).take_dropped() {
            self.stats.dropped += 1;
            self.see(PacketEvent::Dropped(PortId(port)), slot);
            self.pool.remove(slot);
        }
    }

    /// Tells the watcher, if there is one, what became of a packet.
    fn see(&mut self, sight: PacketEvent, slot: u32) {
        if let Some(watcher) = &mut self.watcher {
            let packet = self.pool.flight(slot).head.with(self.pool.take(slot));
            watcher(self.now, sight, &packet);
        }
    }

    #[cold]
    fn tap(&mut self, port: u32, slot: u32) {
        let packet = self.pool.flight(slot).head.with(self.pool.take(slot));
        for tap in self.taps.get_mut(&port).into_iter().flatten() {
            tap(self.now, &packet);
        }
        self.pool.put_back(slot, packet.body);
    }

    /// Sends a packet from `packet.src`. False if the host's queue or the pool was full, or a
    /// failure took it.
    #[inline]
    pub fn send(&mut self, packet: Packet<B>) -> bool {
        let Some(&port) = self.uplinks.get(packet.src.0 as usize) else {
            self.stats.no_route += 1;
            return false;
        };
        if let Some(watcher) = &mut self.watcher {
            watcher(self.now, PacketEvent::Sent, &packet);
        }
        let (head, body) = packet.split();
        let Some(slot) = self.pool.insert(head, body) else {
            self.stats.no_room += 1;
            return false;
        };
        self.stats.sent += 1;
        self.offer(port, slot)
    }

    /// Has [`Hosts::timer`] called with `token` at `at`, or now if that is past. A time of
    /// [`Instant::MAX`] is never.
    #[inline]
    pub fn set_timer(&mut self, at: Instant, token: u32) {
        if at == Instant::MAX {
            return;
        }
        if self.timers >= self.limits.timers {
            self.error = Some(RunError::TooManyTimers { limit: self.limits.timers, at: self.now });
            return;
        }
        self.timers += 1;
        self.events.push(at.max(self.now), TIMER | u64::from(token));
        self.stats.most_events = self.stats.most_events.max(self.events.len());
    }

    /// Has `tap` called for every packet that `port` accepts from now on: a capture.
    pub fn add_tap(&mut self, port: PortId, tap: Tap<B>) {
        self.taps.entry(port.0).or_default().push(tap);
    }

    /// Has `watcher` called for every packet that a host sends, and for every one that a port drops
    /// or loses, from now on. It takes the place of an earlier one. Watching changes nothing, so
    /// the trace is the same.
    pub fn watch(&mut self, watcher: Watcher<B>) {
        self.watcher = Some(watcher);
    }

    /// The time.
    #[inline]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> u32 {
        self.uplinks.len() as u32
    }

    /// The port that a host sends on.
    pub fn uplink(&self, host: HostId) -> Option<PortId> {
        self.uplinks.get(host.0 as usize).map(|port| PortId(*port))
    }

    /// The rate at which a host sends: its line's.
    pub fn line_rate(&mut self, host: HostId) -> Option<BitRate> {
        let port = *self.uplinks.get(host.0 as usize)?;
        Some(self.ports.at(port).terms.rate())
    }

    /// What a port has done so far.
    pub fn port_stats(&self, port: PortId) -> Option<PortStats> {
        self.ports.stats(port.0)
    }

    /// Packets and bytes that wait at a port now, without the packet that is being sent.
    pub fn waiting(&mut self, port: PortId) -> Option<(u32, u64)> {
        let now = self.now;
        let pool = &mut self.pool;
        (port.0 < self.ports.len()).then(|| self.ports.at(port.0).waiting(now, pool))
    }

    /// Totals so far.
    pub fn stats(&self) -> FabricStats {
        self.stats
    }

    /// Packets under way, those included that are lost on a wire.
    pub fn packets(&self) -> usize {
        self.pool.len()
    }

    /// When the next event is due; `None` if nothing will happen any more by itself.
    pub fn next_event(&mut self) -> Option<Instant> {
        self.events.next_time()
    }

    /// The hash over every event so far: equal runs have equal hashes.
    pub fn trace_hash(&self) -> u64 {
        self.trace.get()
    }

    /// Adds a word to the trace: for what a protocol does between events.
    pub fn record(&mut self, word: u64) {
        self.trace.record(word);
    }
}
