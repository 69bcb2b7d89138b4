//! A simulation: a fabric, and connections between its hosts.

mod hosts;
mod watch;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
};

use netsim::fabric::{
    Fabric, HostId, Hosts, Options, Packet, PortId, RunError, Topology, TopologyError, workload::FlowSpec,
};
use thiserror::Error;
use units::{Duration, Instant};

use crate::{
    Profile,
    capture::{self, CaptureError, Captured},
    connection::{Connection, scheme::Io},
    ctcp,
    record::{FlowId, FlowRecord, Totals},
    schemes::SchemeKind,
    segment::Segment,
    shim::{HostStates, Shim, Wire},
    timeline::Timelines,
};

/// Most connections: their numbers and a slot share a timer's token.
pub const MAX_CONNECTIONS: u32 = (1 << 28) - 1;
/// Most writes that may be planned or unfinished.
pub const MAX_FLOWS: usize = 1 << 28;
/// The timer of the next write.
const NEXT_WRITE: u32 = u32::MAX;
/// The timer's token of a protocol beside TCP ([`Sim::run_beside`]): no connection's.
pub const FOREIGN_TIMER: u32 = MAX_CONNECTIONS << 4;

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
    /// [`MAX_CONNECTIONS`] or [`MAX_FLOWS`] is reached.
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

/// Where a write goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Target {
    /// A connection of its own, made when its time comes; `copy` if another one carries the same.
    Fresh {
        profile: u32,
        copy: bool,
    },
    Existing(u32),
}

/// Planned writes: time, record, target, in this order.
type Writes = BinaryHeap<Reverse<(Instant, u32, Target)>>;

/// All connections; the protocol of the fabric's hosts.
struct World {
    profiles: Vec<Arc<Profile>>,
    connections: Vec<Option<Box<Connection>>>,
    /// Those that are CTCP's; their places in `connections` are empty.
    coded: BTreeMap<u32, Box<ctcp::Connection>>,
    /// The layers below TCP, by connection. As long as the last connection that has one.
    shims: Vec<Option<Box<dyn Shim>>>,
    /// What they know together, by host.
    states: HostStates,
    /// What a layer hands up.
    up: Vec<Packet<Segment>>,
    records: Vec<FlowRecord>,
    writes: Writes,
    /// The first time that a timer for the next write is set to; `Instant::MAX` if none is.
    next_wake: Instant,
    /// Writes that wait for a flow to arrive: by its record, the record and connection of the write.
    followers: BTreeMap<u32, (u32, u32)>,
    /// Records of flows that have arrived and may be waited for.
    arrived: Vec<u32>,
    /// The second connection of a long-lived connection that sends everything twice (RepFlow).
    twins: BTreeMap<u32, u32>,
    totals: Totals,
    /// Of the flows that somebody watches.
    timelines: Option<Timelines>,
}

/// A fabric with TCP on its hosts.
///
/// ```
/// use netsim::fabric::{Options, topology::Dumbbell};
/// use tcpsim::{Profile, Sim, Tcp};
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
            .field("totals", &self.world.totals)
            .finish_non_exhaustive()
    }
}

impl Sim {
    /// A simulation without connections.
    ///
    /// # Errors
    /// Those of [`Fabric::new`].
    pub fn new(topology: &Topology, options: &Options) -> Result<Self, TopologyError> {
        let world = World {
            profiles: Vec::new(),
            connections: Vec::new(),
            coded: BTreeMap::new(),
            shims: Vec::new(),
            states: HostStates::new(),
            up: Vec::new(),
            records: Vec::new(),
            writes: BinaryHeap::new(),
            next_wake: Instant::MAX,
            followers: BTreeMap::new(),
            arrived: Vec::new(),
            twins: BTreeMap::new(),
            totals: Totals::default(),
            timelines: None,
        };
        Ok(Self { fabric: Fabric::new(topology, options)?, world, opened: BTreeMap::new() })
    }

    /// Makes a kind of connection known.
    pub fn add_profile(&mut self, profile: Profile) -> ProfileId {
        self.world.profiles.push(Arc::new(profile));
        ProfileId(self.world.profiles.len() as u32 - 1)
    }

    /// The profile whose connections are open from the start and which is otherwise the same: for the other direction of a connection.
    ///
    /// # Errors
    /// If there is no such profile.
    pub fn without_handshake(&mut self, profile: ProfileId) -> Result<ProfileId, SimError> {
        if let Some(known) = self.opened.get(&profile.0) {
            return Ok(*known);
        }
        let known = self.world.profiles.get(profile.0 as usize).ok_or(SimError::Unknown)?;
        let mut opened = Profile::clone(known);
        opened.tcp.handshake = false;
        let opened = self.add_profile(opened);
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
        for n in 0..self.world.profiles[profile.0 as usize].scheme.copies() {
            self.plan(at, record, Target::Fresh { profile: profile.0, copy: n > 0 });
        }
        Ok(FlowId(record))
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
        let id = self.world.add_connection(profile.0, HostId(from), HostId(to)).ok_or(SimError::TooMany)?;
        if self.world.profiles[profile.0 as usize].scheme.copies() > 1 {
            let twin = self.world.add_connection(profile.0, HostId(from), HostId(to));
            let twin = twin.ok_or(SimError::TooMany)?;
            if let Some(conn) = &mut self.world.connections[twin as usize] {
                conn.redundant = true;
            }
            self.world.twins.insert(id, twin);
        }
        Ok(ConnectionId(id))
    }

    /// Has a long-lived connection carry `bytes` more, from `at` on.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn write(&mut self, connection: ConnectionId, bytes: u64, at: Instant) -> Result<FlowId, SimError> {
        let record = self.write_record(connection, bytes, at)?;
        self.plan(at, record, Target::Existing(connection.0));
        Ok(FlowId(record))
    }

    /// Has a long-lived connection carry `bytes` more as soon as all of `request` has arrived: a response. A request has
    /// one response; a second one takes its place.
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
        self.world.followers.insert(request.0, (record, connection.0));
        Ok(FlowId(record))
    }

    fn write_record(&mut self, connection: ConnectionId, bytes: u64, at: Instant) -> Result<u32, SimError> {
        let (from, to, mss) = self.world.ends(connection.0).ok_or(SimError::Unknown)?;
        self.push_record(FlowRecord::new(from, to, bytes, at), mss)
    }

    fn plan_record(
        &mut self,
        from: HostId,
        to: HostId,
        bytes: u64,
        at: Instant,
        profile: ProfileId,
    ) -> Result<u32, SimError> {
        let mss = self.world.profiles[profile.0 as usize].tcp.mss;
        self.push_record(FlowRecord::new(from, to, bytes, at), mss)
    }

    fn push_record(&mut self, record: FlowRecord, mss: u16) -> Result<u32, SimError> {
        if record.bytes / u64::from(mss.max(1)) >= 1 << 31 {
            return Err(SimError::TooLarge { bytes: record.bytes });
        }
        if self.world.records.len() >= MAX_FLOWS {
            return Err(SimError::TooMany);
        }
        self.world.records.push(record);
        Ok(self.world.records.len() as u32 - 1)
    }

    fn plan(&mut self, at: Instant, record: u32, target: Target) {
        self.world.plan(&mut self.fabric, at, record, target);
    }

    /// Runs up to and including `until`.
    ///
    /// # Errors
    /// Those of [`Fabric::run`].
    pub fn run(&mut self, until: Instant) -> Result<(), RunError> {
        self.fabric.run(&mut self.world, until)
    }

    /// Like [`run`](Self::run), with another protocol on the same hosts and links: packets of [`Kind::Foreign`](crate::segment::Kind::Foreign) and the timer
    /// [`FOREIGN_TIMER`] go to `other`, which sends and sets its timer by the fabric that it is handed.
    ///
    /// # Errors
    /// Those of [`Fabric::run`].
    pub fn run_beside(&mut self, other: &mut impl Hosts<Segment>, until: Instant) -> Result<(), RunError> {
        self.fabric.run(&mut hosts::Beside { world: &mut self.world, other }, until)
    }

    /// Runs until every flow is finished, but not beyond `until`. Looks at most every millisecond of simulated time.
    ///
    /// # Errors
    /// Those of [`Fabric::run`].
    pub fn run_until_done(&mut self, until: Instant) -> Result<(), RunError> {
        self.run_until(until, |_| false)
    }

    /// Like [`run_until_done`](Self::run_until_done), but ends as well when `enough` says so, which is asked at every look.
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

    /// Like [`run`](Self::run), and calls `look` every `every` of simulated time: for queue lengths, windows, anything
    /// over time. Looking changes nothing, so the trace is the same.
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
        self.world.totals.finished == self.world.records.len() as u64
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.fabric.now()
    }

    /// The network.
    pub fn fabric(&mut self) -> &mut Fabric<Segment> {
        &mut self.fabric
    }

    /// Writes what `port` accepts from now on to `writer` as pcapng; `mss` turns segment numbers into bytes.
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
        self.world.records.get(flow.0 as usize)
    }

    /// All flows' histories, in the order in which they were added.
    pub fn flows(&self) -> &[FlowRecord] {
        &self.world.records
    }

    /// Sums over all connections.
    pub fn totals(&self) -> Totals {
        self.world.totals
    }

    /// A long-lived connection; `None` also for CTCP's.
    pub fn connection(&self, connection: ConnectionId) -> Option<&Connection> {
        self.world.connections.get(connection.0 as usize)?.as_deref()
    }

    /// Segments that the receiver of a long-lived connection has without a hole; CTCP's padded ones included.
    pub fn delivered(&self, connection: ConnectionId) -> Option<u32> {
        let coded = || self.world.coded.get(&connection.0).map(|conn| conn.delivered());
        self.connection(connection).map(Connection::delivered).or_else(coded)
    }

    /// A long-lived connection's congestion window in segments (of its first sub-flow), or CTCP's tokens.
    pub fn window(&self, connection: ConnectionId) -> Option<u32> {
        let coded = || self.world.coded.get(&connection.0).map(|conn| conn.window());
        self.connection(connection).map(|conn| conn.window(0)).or_else(coded)
    }

    /// Memory of the connections that exist, in bytes: their number and the sum.
    pub fn connection_memory(&self) -> (usize, usize) {
        let live = self.world.connections.iter().flatten();
        live.fold((0, 0), |(count, sum), conn| (count + 1, sum + conn.memory()))
    }

    /// How many flows have each completion time, for tables: class boundaries in bytes to sorted times.
    pub fn completion_times(&self, classes: &[u64]) -> BTreeMap<u64, Vec<Duration>> {
        let mut times: BTreeMap<u64, Vec<Duration>> = BTreeMap::new();
        for record in &self.world.records {
            let class =
                classes.iter().copied().filter(|limit| record.bytes <= *limit).min().unwrap_or(u64::MAX);
            times.entry(class).or_default().extend(record.completion_time());
        }
        times.values_mut().for_each(|times| times.sort_unstable());
        times
    }
}

impl World {
    /// Labels differ between connections, and between the sub-flows of one.
    fn add_connection(&mut self, profile: u32, from: HostId, to: HostId) -> Option<u32> {
        let id = u32::try_from(self.connections.len()).ok().filter(|id| *id < MAX_CONNECTIONS)?;
        let profile = &self.profiles[profile as usize];
        if let SchemeKind::Ctcp(parameters) = profile.scheme {
            let conn = ctcp::Connection::new(from, to, profile, parameters, id << 4);
            self.coded.insert(id, Box::new(conn));
            self.connections.push(None);
            return Some(id);
        }
        if let SchemeKind::Shim(shim) = profile.scheme {
            self.shims.resize_with(id as usize, || None);
            self.shims.push(Some(shim.build()));
        }
        self.connections.push(Some(Box::new(Connection::new(from, to, profile, id << 4))));
        Some(id)
    }

    /// The hosts of a connection, and its MSS.
    fn ends(&self, id: u32) -> Option<(HostId, HostId, u16)> {
        let tcp = self.connections.get(id as usize)?.as_ref();
        let tcp = tcp.map(|conn| (conn.from, conn.to, conn.profile.tcp.mss));
        tcp.or_else(|| self.coded.get(&id).map(|conn| (conn.from, conn.to, conn.profile.tcp.mss)))
    }

    fn plan(&mut self, fabric: &mut Fabric<Segment>, at: Instant, record: u32, target: Target) {
        let at = at.max(fabric.now());
        self.writes.push(Reverse((at, record, target)));
        self.wake(fabric, at);
    }

    /// Has the writes looked at by `at`. A timer that is set cannot be taken back: one that an earlier one has overtaken finds nothing to do, and must
    /// not set another, or they would multiply.
    fn wake(&mut self, fabric: &mut Fabric<Segment>, at: Instant) {
        if at < self.next_wake {
            self.next_wake = at;
            fabric.set_timer(at, NEXT_WRITE);
        }
    }

    /// The application writes a flow's bytes.
    fn write(&mut self, fabric: &mut Fabric<Segment>, id: u32, record: u32, fresh: Option<bool>) {
        let bytes = self.records[record as usize].bytes;
        if let Some(timelines) = &self.timelines {
            let conn = self.connections.get(id as usize).and_then(Option::as_deref);
            let next = conn.map_or(Vec::new(), |conn| conn.subs.iter().map(|sub| sub.board.nxt).collect());
            timelines.log().write(fabric.now(), id, record, bytes, &next);
        }
        if let Some(Some(shim)) = self.shims.get_mut(id as usize) {
            shim.on_write(bytes, record);
        }
        if !self.coded.is_empty() {
            self.with_coded(fabric, id, |conn, io| {
                conn.one_shot |= fresh.is_some();
                conn.write(io, bytes, record);
            });
        }
        self.with(fabric, id, |conn, io| {
            if let Some(copy) = fresh {
                (conn.one_shot, conn.redundant) = (true, copy);
            }
            conn.write(io, bytes, record);
        });
    }

    /// Runs `act` on a connection, and forgets the connection if it is finished.
    #[inline]
    fn with(
        &mut self,
        fabric: &mut Fabric<Segment>,
        id: u32,
        act: impl FnOnce(&mut Connection, &mut Io<'_>),
    ) {
        let Some(slot) = self.connections.get_mut(id as usize) else { return };
        let Some(conn) = slot else { return };
        let shim = self.shims.get_mut(id as usize).and_then(Option::as_mut);
        let (totals, records, arrived) = (&mut self.totals, &mut self.records, &mut self.arrived);
        let mut io = Io { fabric, totals, records, arrived, shim, states: &mut self.states, conn: id };
        act(conn, &mut io);
        if conn.finished {
            *slot = None;
            if let Some(shim) = self.shims.get_mut(id as usize) {
                *shim = None;
            }
        }
        while let Some(arrived) = self.arrived.pop() {
            self.follow(fabric, arrived);
        }
    }

    /// Plans the write that waited for this flow, for this very moment.
    fn follow(&mut self, fabric: &mut Fabric<Segment>, arrived: u32) {
        if let Some(timelines) = &self.timelines {
            timelines.log().finish(fabric.now(), arrived);
        }
        let Some((record, connection)) = self.followers.remove(&arrived) else { return };
        let now = fabric.now();
        let flow = &mut self.records[record as usize];
        (flow.asked, flow.started) = (now, now);
        self.plan(fabric, now, record, Target::Existing(connection));
    }

    /// The same for a connection of CTCP.
    fn with_coded(
        &mut self,
        fabric: &mut Fabric<Segment>,
        id: u32,
        act: impl FnOnce(&mut ctcp::Connection, &mut Io<'_>),
    ) {
        let Some(conn) = self.coded.get_mut(&id) else { return };
        let (totals, records, arrived) = (&mut self.totals, &mut self.records, &mut self.arrived);
        let states = &mut self.states;
        act(conn, &mut Io { fabric, totals, records, arrived, shim: None, states, conn: id });
        if conn.finished {
            self.coded.remove(&id);
        }
        while let Some(arrived) = self.arrived.pop() {
            self.follow(fabric, arrived);
        }
    }

    /// Has a layer below TCP act, and hands up what it gives.
    fn with_shim(
        &mut self,
        fabric: &mut Fabric<Segment>,
        id: u32,
        act: impl FnOnce(&mut dyn Shim, &mut Wire<'_>, &mut Vec<Packet<Segment>>),
    ) {
        let Some(Some(shim)) = self.shims.get_mut(id as usize) else { return };
        let mut up = std::mem::take(&mut self.up);
        let (totals, records, states) = (&mut self.totals, &mut self.records, &mut self.states);
        act(shim.as_mut(), &mut Wire { fabric, totals, records, states, conn: id }, &mut up);
        for packet in up.drain(..) {
            if let Some(Some(shim)) = self.shims.get_mut(id as usize) {
                shim.on_deliver(&packet);
            }
            self.with(fabric, id, |conn, io| conn.receive(io, &packet));
        }
        self.up = up;
    }

    /// Carries out the writes whose time has come.
    fn write_due(&mut self, fabric: &mut Fabric<Segment>) {
        let now = fabric.now();
        if now >= self.next_wake {
            self.next_wake = Instant::MAX;
        }
        while let Some(&Reverse((at, record, target))) = self.writes.peek() {
            if at > now {
                return self.wake(fabric, at);
            }
            self.writes.pop();
            let FlowRecord { from, to, .. } = self.records[record as usize];
            match target {
                Target::Existing(id) => {
                    self.write(fabric, id, record, None);
                    if let Some(&twin) = self.twins.get(&id) {
                        self.write(fabric, twin, record, None);
                    }
                }
                Target::Fresh { profile, copy } => {
                    if let Some(id) = self.add_connection(profile, from, to) {
                        self.write(fabric, id, record, Some(copy));
                    }
                }
            }
        }
    }
}
