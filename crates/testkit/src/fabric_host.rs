//! The transport as a host stack on [`netsim::fabric`], beside the TCP family of `tcpsim`: the same
//! switches, queues, losses and clock, so that the schemes of both can be compared, and even
//! compete. [`Mendpath`] is the same as a protocol of `tcpsim`, for whatever runs that.
//!
//! [`Mixed`] owns the simulation. A connection joins two hosts by several paths, which differ in
//! their UDP ports as sub-flows of MPTCP do, so that ECMP spreads them. Times of flows count as
//! `tcpsim`'s with a handshake: the connection is opened first, and a flow starts when it is
//! written or when the connection is ready, whichever is later. Bytes are real, and so is the
//! cryptography.
//!
//! # Model
//! - A datagram is 28 bytes larger on the wire than its payload (IPv4 and UDP).
//! - Faults that spare control packets (`data_only`) spare everything that the flow's receiver
//!   sends.
//! - A connection is ready when every path is validated, or three seconds after it was begun and
//!   its handshake is complete.
//! - When its flow is complete, the connection of [`Mixed::add_flow`] vanishes on both sides, as if
//!   both programs ended.
//!
//! # Determinism
//! As in all of this crate: TLS makes other bytes in every run, of the same sizes, so the fabric's
//! trace hash is the same.
//!
//! # Bounds
//! [`Limits`]: one connection or flow more is refused with an error. Of datagrams under way, the oldest gives way, as if lost, and
//! [`Mixed::displaced`] counts it.

mod datagrams;
mod pair;
mod transport;

use std::collections::BTreeSet;

use netsim::{
    Seed,
    fabric::{
        Class, Ecn as FabricEcn, Fabric, HostId, Hosts, Options, Packet, RunError, Topology, TopologyError,
    },
};
use proto::{ConnectionStats, TransportConfig};
use tcpsim::{
    FOREIGN_TIMER, Sim,
    segment::{Kind, Segment},
};
use thiserror::Error;
use units::{Duration, Instant};

use crate::world::IP_UDP_HEADERS;
use datagrams::Datagrams;
use pair::{End, Outgoing, Pair};

pub use transport::{COUNT_EVERY, Carried, DATAGRAMS, Mendpath};

/// How much there may be at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections over a whole simulation.
    pub connections: usize,
    /// Flows over a whole simulation.
    pub flows: usize,
    /// Datagrams under way, lost ones included until they are the oldest.
    pub datagrams: usize,
}

impl Default for Limits {
    /// 65,536 connections, a million flows, 32,768 datagrams.
    fn default() -> Self {
        Self { connections: 1 << 16, flows: 1 << 20, datagrams: 1 << 15 }
    }
}

/// Most paths of a connection.
pub const MAX_PATHS: usize = 16;

/// Why something cannot be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FabricHostError {
    /// The fabric has no such host, or both ends are the same.
    #[error("no connection from host {from} to host {to}: there are {hosts} hosts, and the ends must differ")]
    Hosts {
        /// Sender.
        from: u32,
        /// Receiver.
        to: u32,
        /// How many hosts there are.
        hosts: u32,
    },
    /// Not between 1 and [`MAX_PATHS`].
    #[error("{paths} paths; there must be 1 to {MAX_PATHS}")]
    Paths {
        /// What was asked for.
        paths: usize,
    },
    /// One of [`Limits`] is reached.
    #[error("too many connections or flows")]
    TooMany,
    /// Not a connection of this simulation.
    #[error("unknown connection")]
    Unknown,
}

/// A connection of the transport.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QuicId(u32);

/// What one flow over the transport went through.
#[derive(Clone, Debug)]
pub struct QuicFlow {
    /// Who sends.
    pub from: HostId,
    /// Who receives.
    pub to: HostId,
    /// How much.
    pub bytes: u64,
    /// When it was written, or its connection was ready, whichever was later.
    pub started: Instant,
    /// When the receiver's application had read all of it; [`Instant::MAX`] until then.
    pub finished: Instant,
    /// The sender's statistics when the receiver had read all of it, set-up included.
    pub stats: ConnectionStats,
}

impl QuicFlow {
    /// Flow completion time; `None` while it lasts.
    pub fn completion_time(&self) -> Option<Duration> {
        (self.finished != Instant::MAX).then(|| self.finished - self.started)
    }
}

/// Something that is planned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Plan {
    Begin { pair: u32 },
    GiveUpWaiting { pair: u32 },
    Write { pair: u32, flow: u32 },
    Timer { pair: u32, end: End },
}

/// TCP and the transport on the hosts of one fabric.
///
/// ```
/// use netsim::fabric::{Options, topology::ParallelPaths};
/// use proto::TransportConfig;
/// use mendpath_testkit::fabric_host::Mixed;
/// use units::{Duration, Instant};
///
/// let mut network = Mixed::new(&ParallelPaths::fuso().build(), &Options::default()).unwrap();
/// let flow = network.add_flow(&TransportConfig::default(), 4, (3, 0), 20_000, Instant::ORIGIN).unwrap();
/// network.run_until_done(Instant::ORIGIN + Duration::from_secs(1)).unwrap();
/// // The base round-trip time is 280 us, and the packets take 12 us each on every link.
/// assert!(network.flow(flow).unwrap().completion_time().unwrap() < Duration::from_millis(2));
/// ```
pub struct Mixed {
    sim: Sim,
    quic: Stack,
}

impl Mixed {
    /// A network without connections.
    ///
    /// # Errors
    /// Those of [`Fabric::new`].
    pub fn new(topology: &Topology, options: &Options) -> Result<Self, TopologyError> {
        Self::with_limits(topology, options, Limits::default())
    }

    /// The same with other limits.
    ///
    /// # Errors
    /// Those of [`Fabric::new`].
    pub fn with_limits(
        topology: &Topology,
        options: &Options,
        limits: Limits,
    ) -> Result<Self, TopologyError> {
        let quic = Stack {
            seed: options.seed.child("transport", 0),
            limits,
            pairs: Vec::new(),
            flows: Vec::new(),
            finished: 0,
            plans: BTreeSet::new(),
            armed: Vec::new(),
            datagrams: Datagrams::new(limits.datagrams),
        };
        Ok(Self { sim: Sim::new(topology, options)?, quic })
    }

    /// TCP on the same hosts: add connections and flows, look at the fabric. It is not to be run by
    /// itself.
    pub fn tcp(&mut self) -> &mut Sim {
        &mut self.sim
    }

    /// A connection of the transport over `paths` paths, begun at `at`; the first of `ends` is the
    /// client, and will send.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn connect(
        &mut self,
        config: &TransportConfig,
        paths: usize,
        ends: (u32, u32),
        at: Instant,
    ) -> Result<QuicId, FabricHostError> {
        let ((from, to), hosts) = (ends, self.sim.fabric().hosts());
        if from >= hosts || to >= hosts || from == to {
            return Err(FabricHostError::Hosts { from, to, hosts });
        }
        if !(1..=MAX_PATHS).contains(&paths) {
            return Err(FabricHostError::Paths { paths });
        }
        if self.quic.pairs.len() >= self.quic.limits.connections {
            return Err(FabricHostError::TooMany);
        }
        let pair = self.quic.pairs.len() as u32;
        let seed = self.quic.seed.child("connection", pair.into());
        self.quic.pairs.push(Some(Box::new(Pair::new(HostId(from), HostId(to), config, paths, seed))));
        self.plan(at, Plan::Begin { pair });
        Ok(QuicId(pair))
    }

    /// Has a connection carry `bytes` bytes on a stream of its own, from `at` on. Returns the
    /// flow's index.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn write(&mut self, connection: QuicId, bytes: u64, at: Instant) -> Result<usize, FabricHostError> {
        let pair = self.quic.pairs.get(connection.0 as usize).and_then(Option::as_ref);
        let (from, to) = pair.map(|pair| (pair.from, pair.to)).ok_or(FabricHostError::Unknown)?;
        if self.quic.flows.len() >= self.quic.limits.flows {
            return Err(FabricHostError::TooMany);
        }
        let stats = ConnectionStats::default();
        self.quic.flows.push(QuicFlow { from, to, bytes, started: at, finished: Instant::MAX, stats });
        let flow = self.quic.flows.len() as u32 - 1;
        self.plan(at, Plan::Write { pair: connection.0, flow });
        Ok(flow as usize)
    }

    /// A flow with a connection of its own, which ends with it.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn add_flow(
        &mut self,
        config: &TransportConfig,
        paths: usize,
        ends: (u32, u32),
        bytes: u64,
        at: Instant,
    ) -> Result<usize, FabricHostError> {
        let connection = self.connect(config, paths, ends, at)?;
        if let Some(Some(pair)) = self.quic.pairs.get_mut(connection.0 as usize) {
            pair.one_shot = true;
        }
        self.write(connection, bytes, at)
    }

    fn plan(&mut self, at: Instant, plan: Plan) {
        let at = at.max(self.sim.now());
        self.quic.plans.insert((at, plan));
        self.quic.arm(self.sim.fabric());
    }

    /// Runs both up to and including `until`.
    ///
    /// # Errors
    /// Those of [`Fabric::run`].
    pub fn run(&mut self, until: Instant) -> Result<(), RunError> {
        self.sim.run_beside(&mut self.quic, until)
    }

    /// Runs until every flow of both is finished, but not beyond `until`. Looks at most every
    /// millisecond of simulated time.
    ///
    /// # Errors
    /// Those of [`Fabric::run`].
    pub fn run_until_done(&mut self, until: Instant) -> Result<(), RunError> {
        let step = Duration::from_millis(1);
        while !(self.sim.is_done() && self.quic.finished == self.quic.flows.len())
            && let Some(next) = self.sim.fabric().next_event()
            && next <= until
        {
            self.run((self.sim.now() + step).max(next).min(until))?;
        }
        Ok(())
    }

    /// A flow over the transport.
    pub fn flow(&self, flow: usize) -> Option<&QuicFlow> {
        self.quic.flows.get(flow)
    }

    /// All flows over the transport, in the order in which they were added.
    pub fn flows(&self) -> &[QuicFlow] {
        &self.quic.flows
    }

    /// Datagrams that were taken for lost because [`Limits::datagrams`] was reached.
    pub fn displaced(&self) -> u64 {
        self.quic.datagrams.displaced()
    }
}

/// The transport's connections; a protocol of the fabric's hosts.
struct Stack {
    seed: Seed,
    limits: Limits,
    pairs: Vec<Option<Box<Pair>>>,
    flows: Vec<QuicFlow>,
    finished: usize,
    plans: BTreeSet<(Instant, Plan)>,
    /// When the fabric's timer will run out: it can be set earlier, not later, so the last is the
    /// first to come.
    armed: Vec<Instant>,
    datagrams: Datagrams,
}

impl Stack {
    /// Sets the fabric's timer for the first plan, unless an earlier one is set: that one will look
    /// again.
    fn arm(&mut self, fabric: &mut Fabric<Segment>) {
        let Some((at, _)) = self.plans.first() else { return };
        let at = (*at).max(fabric.now());
        if self.armed.last().is_none_or(|next| at < *next) {
            self.armed.push(at);
            fabric.set_timer(at, FOREIGN_TIMER);
        }
    }

    fn carry_out(&mut self, fabric: &mut Fabric<Segment>, plan: Plan) {
        let now = fabric.now();
        let (index, end) = match plan {
            Plan::Begin { pair } | Plan::GiveUpWaiting { pair } | Plan::Write { pair, .. } => {
                (pair, End::Client)
            }
            Plan::Timer { pair, end } => (pair, end),
        };
        let Some(Some(pair)) = self.pairs.get_mut(index as usize) else { return };
        match plan {
            Plan::Begin { .. } => {
                let patience = pair.begin(now);
                self.plans.insert((patience, Plan::GiveUpWaiting { pair: index }));
            }
            Plan::GiveUpWaiting { .. } => pair.stop_waiting(),
            Plan::Write { flow, .. } => pair.write(flow, self.flows[flow as usize].bytes),
            Plan::Timer { end, .. } => pair.time_out(end, now),
        }
        self.attend(fabric, index, end);
    }

    /// After anything happened at one end: applications act, datagrams leave, the timer is set
    /// anew.
    fn attend(&mut self, fabric: &mut Fabric<Segment>, index: u32, end: End) {
        let now = fabric.now();
        let Some(slot) = self.pairs.get_mut(index as usize) else { return };
        let Some(pair) = slot else { return };
        let before = pair.deadline(end);
        pair.attend(end, now, &mut |datagram: Outgoing<'_>| {
            let (ends, class) = match end {
                End::Client => ((datagram.from, datagram.to), Class::Data),
                End::Server => ((datagram.to, datagram.from), Class::Control),
            };
            let number = self.datagrams.push(datagram.bytes);
            let body = Segment {
                conn: index,
                sub: datagram.path,
                kind: Kind::Foreign,
                seq: number as u32,
                dsn: (number >> 32) as u32,
                ..Segment::default()
            };
            let size = datagram.bytes.len() as u32 + IP_UDP_HEADERS as u32;
            let ecn = if datagram.ecn { FabricEcn::Capable } else { FabricEcn::NotCapable };
            // Away from TCP's labels, which count from 0.
            let label = !(index << 4 | u32::from(datagram.path));
            fabric.send(Packet { src: ends.0, dst: ends.1, label, size, ecn, class, body });
        });
        for flow in pair.take_started() {
            self.flows[flow as usize].started = now;
        }
        for flow in pair.take_finished() {
            let record = &mut self.flows[flow as usize];
            (record.finished, record.stats) = (now, pair.sender_stats());
            self.finished += 1;
        }
        let after = pair.deadline(end);
        if before != after {
            self.plans.remove(&(before, Plan::Timer { pair: index, end }));
        }
        if pair.is_done() {
            let other = (pair.deadline(end.other()), Plan::Timer { pair: index, end: end.other() });
            self.plans.remove(&other);
            self.plans.remove(&(after, Plan::Timer { pair: index, end }));
            *slot = None;
        } else if after != Instant::MAX {
            self.plans.insert((after, Plan::Timer { pair: index, end }));
        }
    }
}

impl Hosts<Segment> for Stack {
    fn receive(&mut self, fabric: &mut Fabric<Segment>, host: HostId, packet: Packet<Segment>) {
        let (index, now) = (packet.body.conn, fabric.now());
        let Some(mut bytes) =
            self.datagrams.take(u64::from(packet.body.dsn) << 32 | u64::from(packet.body.seq))
        else {
            return;
        };
        let Some(Some(pair)) = self.pairs.get_mut(index as usize) else { return };
        let end = if host == pair.to { End::Server } else { End::Client };
        pair.receive(end, now, packet.body.sub, packet.ecn, &mut bytes);
        self.attend(fabric, index, end);
        self.arm(fabric);
    }

    fn timer(&mut self, fabric: &mut Fabric<Segment>, _token: u32) {
        self.armed.pop();
        while let Some((at, plan)) = self.plans.first().copied()
            && at <= fabric.now()
        {
            self.plans.pop_first();
            self.carry_out(fabric, plan);
        }
        self.arm(fabric);
    }
}

#[cfg(test)]
mod tests {
    use netsim::fabric::topology::Dumbbell;
    use units::BitRate;

    use super::*;

    fn network(limits: Limits) -> Mixed {
        let topology = Dumbbell::new(1, BitRate::from_mbps(10), Duration::from_millis(20), 100).build();
        Mixed::with_limits(&topology, &Options::default(), limits).unwrap()
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let config = TransportConfig::default();
        let mut network = network(Limits { connections: 1, flows: 1, ..Limits::default() });
        let mut connect = |paths, ends| network.connect(&config, paths, ends, Instant::ORIGIN);
        assert_eq!(connect(1, (0, 0)), Err(FabricHostError::Hosts { from: 0, to: 0, hosts: 2 }));
        assert_eq!(connect(1, (0, 2)), Err(FabricHostError::Hosts { from: 0, to: 2, hosts: 2 }));
        assert_eq!(connect(0, (0, 1)), Err(FabricHostError::Paths { paths: 0 }));
        assert_eq!(connect(17, (0, 1)), Err(FabricHostError::Paths { paths: 17 }));
        let connection = connect(1, (0, 1)).unwrap();
        assert_eq!(connect(1, (0, 1)), Err(FabricHostError::TooMany));
        assert_eq!(network.write(QuicId(9), 1, Instant::ORIGIN), Err(FabricHostError::Unknown));
        network.write(connection, 1, Instant::ORIGIN).unwrap();
        assert_eq!(network.write(connection, 1, Instant::ORIGIN), Err(FabricHostError::TooMany));
    }

    #[test]
    fn datagrams_beyond_the_limit_are_lost_and_repaired() {
        let run = |datagrams| {
            let mut network = network(Limits { datagrams, ..Limits::default() });
            let flow =
                network.add_flow(&TransportConfig::default(), 1, (0, 1), 100_000, Instant::ORIGIN).unwrap();
            network.run_until_done(Instant::ORIGIN + Duration::from_secs(100)).unwrap();
            (network.flow(flow).unwrap().completion_time().unwrap(), network.displaced())
        };
        let (roomy, none) = run(1_000);
        let (tight, some) = run(8);
        assert_eq!(none, 0);
        assert!(some > 0 && tight > roomy, "{some} displaced, {tight} and {roomy}");
    }
}
