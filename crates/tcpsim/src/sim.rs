//! A simulation: a fabric, and connections between its hosts.

mod hosts;
mod watch;
mod world;

use std::{any::Any, collections::BTreeMap};

use netsim::fabric::{
    Fabric, HostId, Hosts, Options, PortId, RunError, Topology, TopologyError, workload::FlowSpec,
};
use thiserror::Error;
use units::{Duration, Instant};

use self::world::{Target, World};
use crate::{
    Profile, SchemeKind,
    capture::{self, CaptureError, Captured},
    connection::Connection,
    record::{FlowId, FlowRecord, Totals},
    segment::Segment,
    transport::{Lifetime, Token, Transport},
};

/// Most writes that may be planned or unfinished.
pub const MAX_FLOWS: usize = 1 << 28;
/// The timer's token of a protocol beside TCP ([`Sim::run_beside`]): no connection's.
pub const FOREIGN_TIMER: u32 = Token::Foreign.pack();

/// Which [`Profile`] a connection has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProfileId(u32);

/// A long-lived connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(u32);

/// Why something cannot be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SimError {
    /// The fabric has no such host, or both ends are the same.
    #[error("no flow from host {from} to host {to}: there are {hosts} hosts, and the ends must differ")]
    Hosts {
        /// Sender.
        from: u32,
        /// Receiver.
        to: u32,
        /// How many hosts there are.
        hosts: u32,
    },
    /// [`MAX_CONNECTIONS`](crate::MAX_CONNECTIONS) or [`MAX_FLOWS`] is reached.
    #[error("too many flows")]
    TooMany,
    /// The profile or connection is not this simulation's.
    #[error("unknown profile or connection")]
    Unknown,
    /// More than a connection's 2^31 segments.
    #[error("{bytes} bytes are too many for one connection")]
    TooLarge {
        /// What was asked for.
        bytes: u64,
    },
}

/// A fabric with TCP on its hosts.
///
/// ```
/// use netsim::fabric::{Options, topology::Dumbbell};
/// use mendpath_tcpsim::{Profile, Sim, Tcp};
/// use units::{BitRate, Duration, Instant};
///
/// let topology = Dumbbell::new(1, BitRate::from_mbps(100), Duration::from_millis(10), 100).build();
/// let mut sim = Sim::new(&topology, &Options::default()).unwrap();
/// let tcp = sim.add_profile(Profile::tcp(Tcp::default()));
/// let flow = sim.add_flow(tcp, 0, 1, 10_000, Instant::ORIGIN).unwrap();
/// sim.run_until_done(Instant::ORIGIN + Duration::from_secs(1)).unwrap();
/// let time = sim.flow(flow).unwrap().completion_time().unwrap();
/// assert!(time < Duration::from_millis(7)); // half a round trip and the serialisation of 7 packets
/// ```
pub struct Sim {
    fabric: Fabric<Segment>,
    world: World,
    /// By a profile, the same without its handshake.
    opened: BTreeMap<u32, ProfileId>,
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sim")
            .field("fabric", &self.fabric)
            .field("totals", &self.world.books.totals)
            .finish_non_exhaustive()
    }
}

impl Sim {
    /// A simulation without connections.
    ///
    /// # Errors
    /// Those of [`Fabric::new`].
    pub fn new(topology: &Topology, options: &Options) -> Result<Self, TopologyError> {
        let world = World::default();
        Ok(Self { fabric: Fabric::new(topology, options)?, world, opened: BTreeMap::new() })
    }

    /// Makes a kind of connection known.
    pub fn add_profile(&mut self, mut profile: Profile) -> ProfileId {
        if let SchemeKind::Transport(protocol) = &mut profile.scheme
            && let Some(own) = protocol.for_simulation()
        {
            *protocol = own;
        }
        ProfileId(self.world.add_profile(profile))
    }

    /// The profile whose connections are open from the start and which is otherwise the same: for
    /// the other direction of a connection.
    ///
    /// # Errors
    /// If there is no such profile.
    pub fn without_handshake(&mut self, profile: ProfileId) -> Result<ProfileId, SimError> {
        if let Some(known) = self.opened.get(&profile.0) {
            return Ok(*known);
        }
        let known = self.world.profiles.get(profile.0 as usize).ok_or(SimError::Unknown)?;
        let mut opened = known.profile.clone();
        opened.tcp.handshake = false;
        let opened = ProfileId(self.world.add_profile(opened));
        self.opened.insert(profile.0, opened);
        Ok(opened)
    }

    fn check(&self, profile: ProfileId, from: u32, to: u32) -> Result<(), SimError> {
        let hosts = self.fabric.hosts();
        if from >= hosts || to >= hosts || from == to {
            return Err(SimError::Hosts { from, to, hosts });
        }
        if profile.0 as usize >= self.world.profiles.len() {
            return Err(SimError::Unknown);
        }
        Ok(())
    }

    /// A flow with a connection of its own, which ends with it.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn add_flow(
        &mut self,
        profile: ProfileId,
        from: u32,
        to: u32,
        bytes: u64,
        at: Instant,
    ) -> Result<FlowId, SimError> {
        self.check(profile, from, to)?;
        let record = self.plan_record(HostId(from), HostId(to), bytes, at, profile)?;
        for role in self.world.roles(profile.0) {
            self.plan(at, record, Target::Fresh { profile: profile.0, role });
        }
        Ok(record)
    }

    /// The flows of a workload.
    ///
    /// # Errors
    /// At the first that cannot be.
    pub fn add_flows(&mut self, profile: ProfileId, flows: &[FlowSpec]) -> Result<Vec<FlowId>, SimError> {
        flows.iter().map(|flow| self.add_flow(profile, flow.from.0, flow.to.0, flow.bytes, flow.at)).collect()
    }

    /// A long-lived connection, or two if the profile sends every flow twice.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn connect(&mut self, profile: ProfileId, from: u32, to: u32) -> Result<ConnectionId, SimError> {
        self.check(profile, from, to)?;
        let ends = (HostId(from), HostId(to));
        let mut first = None;
        for role in self.world.roles(profile.0) {
            let id = self.world.connect(profile.0, ends, Lifetime::LongLived, role);
            first = first.or(Some(id.ok_or(SimError::TooMany)?));
        }
        first.map(ConnectionId).ok_or(SimError::Unknown)
    }

    /// Has a long-lived connection carry `bytes` more, from `at` on.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn write(&mut self, connection: ConnectionId, bytes: u64, at: Instant) -> Result<FlowId, SimError> {
        let record = self.write_record(connection, bytes, at)?;
        self.plan(at, record, Target::Existing(connection.0));
        Ok(record)
    }

    /// Has a long-lived connection carry `bytes` more as soon as all of `request` has arrived: a
    /// response. A request has one response; a second one takes its place.
    ///
    /// # Errors
    /// If it cannot be; also if the request has arrived already.
    pub fn write_after(
        &mut self,
        request: FlowId,
        connection: ConnectionId,
        bytes: u64,
    ) -> Result<FlowId, SimError> {
        let asked = self.flow(request).ok_or(SimError::Unknown)?;
        if asked.finished != Instant::MAX {
            return Err(SimError::Unknown);
        }
        let record = self.write_record(connection, bytes, Instant::MAX)?;
        self.world.followers.insert(request, (record, connection.0));
        Ok(record)
    }

    fn write_record(
        &mut self,
        connection: ConnectionId,
        bytes: u64,
        at: Instant,
    ) -> Result<FlowId, SimError> {
        let ends = self.world.transport(connection.0).ok_or(SimError::Unknown)?.endpoints();
        let (from, to, mss) = (ends.from, ends.to, ends.tcp.mss);
        self.push_record(FlowRecord::new(from, to, bytes, at), mss)
    }

    fn plan_record(
        &mut self,
        from: HostId,
        to: HostId,
        bytes: u64,
        at: Instant,
        profile: ProfileId,
    ) -> Result<FlowId, SimError> {
        let mss = self.world.profiles[profile.0 as usize].profile.tcp.mss;
        self.push_record(FlowRecord::new(from, to, bytes, at), mss)
    }

    fn push_record(&mut self, record: FlowRecord, mss: u16) -> Result<FlowId, SimError> {
        if record.bytes / u64::from(mss.max(1)) >= 1 << 31 {
            return Err(SimError::TooLarge { bytes: record.bytes });
        }
        let records = &mut self.world.books.records;
        if records.len() >= MAX_FLOWS {
            return Err(SimError::TooMany);
        }
        records.push(record);
        Ok(FlowId(records.len() as u32 - 1))
    }

    fn plan(&mut self, at: Instant, record: FlowId, target: Target) {
        self.world.plan(&mut self.fabric, at, record, target);
    }

    /// Runs up to and including `until`.
    ///
    /// # Errors
    /// Those of [`Fabric::run`].
    pub fn run(&mut self, until: Instant) -> Result<(), RunError> {
        self.fabric.run(&mut self.world, until)
    }

    /// Like [`run`](Self::run), with another protocol on the same hosts and links: packets of
    /// [`Kind::Foreign`](crate::segment::Kind::Foreign) and the timer [`FOREIGN_TIMER`] go to
    /// `other`, which sends and sets its timer by the fabric that it is handed.
    ///
    /// # Errors
    /// Those of [`Fabric::run`].
    pub fn run_beside(&mut self, other: &mut impl Hosts<Segment>, until: Instant) -> Result<(), RunError> {
        self.fabric.run(&mut hosts::Beside { world: &mut self.world, other }, until)
    }

    /// Runs until every flow is finished, but not beyond `until`. Looks at most every millisecond
    /// of simulated time.
    ///
    /// # Errors
    /// Those of [`Fabric::run`].
    pub fn run_until_done(&mut self, until: Instant) -> Result<(), RunError> {
        self.run_until(until, |_| false)
    }

    /// Like [`run_until_done`](Self::run_until_done), but ends as well when `enough` says so, which
    /// is asked at every look.
    ///
    /// # Errors
    /// Those of [`Fabric::run`].
    pub fn run_until(
        &mut self,
        until: Instant,
        mut enough: impl FnMut(&Self) -> bool,
    ) -> Result<(), RunError> {
        let step = Duration::from_millis(1);
        while !self.is_done()
            && !enough(self)
            && let Some(next) = self.fabric.next_event()
            && next <= until
        {
            self.run((self.fabric.now() + step).max(next).min(until))?;
        }
        Ok(())
    }

    /// Like [`run`](Self::run), and calls `look` every `every` of simulated time: for queue
    /// lengths, windows, anything over time. Looking changes nothing, so the trace is the same.
    ///
    /// # Errors
    /// Those of [`Fabric::run`].
    pub fn run_watching(
        &mut self,
        until: Instant,
        every: Duration,
        mut look: impl FnMut(&mut Self),
    ) -> Result<(), RunError> {
        while self.now() < until {
            self.run((self.now() + every.max(Duration::from_nanos(1))).min(until))?;
            look(self);
        }
        Ok(())
    }

    /// Whether every flow is finished.
    pub fn is_done(&self) -> bool {
        self.world.books.totals.finished == self.world.books.records.len() as u64
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.fabric.now()
    }

    /// The network.
    pub fn fabric(&mut self) -> &mut Fabric<Segment> {
        &mut self.fabric
    }

    /// Writes what `port` accepts from now on to `writer` as pcapng; `mss` turns segment numbers
    /// into bytes.
    ///
    /// # Errors
    /// If the head of the file cannot be written.
    pub fn capture(
        &mut self,
        port: PortId,
        writer: impl std::io::Write + Send + 'static,
        mss: u16,
    ) -> Result<Captured, CaptureError> {
        let (tap, captured) = capture::tap(writer, mss)?;
        self.fabric.add_tap(port, tap);
        Ok(captured)
    }

    /// A flow's history.
    pub fn flow(&self, flow: FlowId) -> Option<&FlowRecord> {
        self.world.books.records.get(flow.0 as usize)
    }

    /// All flows' histories, in the order in which they were added.
    pub fn flows(&self) -> &[FlowRecord] {
        &self.world.books.records
    }

    /// Sums over all connections.
    pub fn totals(&self) -> Totals {
        self.world.books.totals
    }

    /// A long-lived connection of TCP, also if a layer is below it; `None` for another transport's.
    pub fn connection(&self, connection: ConnectionId) -> Option<&Connection> {
        self.transport(connection)
    }

    /// A long-lived connection whose transport is `T`, also if a layer is below it.
    pub fn transport<T: Transport>(&self, connection: ConnectionId) -> Option<&T> {
        let mut transport = self.world.transport(connection.0)?;
        while let Some(above) = transport.above() {
            transport = above;
        }
        let transport: &dyn Any = transport;
        transport.downcast_ref()
    }

    /// Segments that the receiver of a long-lived connection has without a hole; CTCP's padded ones
    /// included.
    pub fn delivered(&self, connection: ConnectionId) -> Option<u32> {
        self.world.transport(connection.0).map(Transport::delivered)
    }

    /// Payload of a full segment of a long-lived connection, in bytes.
    pub fn mss(&self, connection: ConnectionId) -> Option<u16> {
        self.world.transport(connection.0).map(|transport| transport.endpoints().tcp.mss)
    }

    /// A long-lived connection's congestion window in segments (of its first sub-flow), or CTCP's
    /// tokens.
    pub fn window(&self, connection: ConnectionId) -> Option<u32> {
        self.world.transport(connection.0).map(Transport::window)
    }

    /// Memory of the connections that exist, in bytes: their number and the sum.
    pub fn connection_memory(&self) -> (usize, usize) {
        let live = self.world.transports();
        live.fold((0, 0), |(count, sum), conn| (count + 1, sum + conn.memory()))
    }

    /// How many flows have each completion time, for tables: class boundaries in bytes to sorted
    /// times.
    pub fn completion_times(&self, classes: &[u64]) -> BTreeMap<u64, Vec<Duration>> {
        let mut times: BTreeMap<u64, Vec<Duration>> = BTreeMap::new();
        for record in &self.world.books.records {
            let class =
                classes.iter().copied().filter(|limit| record.bytes <= *limit).min().unwrap_or(u64::MAX);
            times.entry(class).or_default().extend(record.completion_time());
        }
        times.values_mut().for_each(|times| times.sort_unstable());
        times
    }
}
