//! Endpoints on a simulated network: hosts, connections and one virtual clock.

mod transit;

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::Arc,
};

use netsim::{
    EventQueue, LinkConfig, Network, Rng, Seed,
    network::{Arrival, Direction, PathId as LinkId},
};
use proto::{
    ClientConfig, Connection, ConnectionHandle, Datagram, Ecn, Endpoint, EndpointOutput, Event, NetworkPath,
    PathStats, ServerConfig, TransportConfig,
};
use units::Instant;

use crate::{
    checks::{Checks, Overheard, Violation},
    faults::Faults,
    scenario::EcnTreatment,
    tls,
};

pub use crate::names::{ConnectionId, HostId};

/// Bytes of IPv4 and UDP headers, which a link carries beside the datagram.
pub const IP_UDP_HEADERS: u64 = 28;
/// Server connections that may exist at once.
const MAX_CONNECTIONS: usize = 1_024;
/// Most datagrams asked for with one call; how many is drawn anew each time.
const MAX_BATCH: u64 = 10;

/// An endpoint and its connections.
struct Host {
    endpoint: Endpoint,
    connections: BTreeMap<ConnectionHandle, Side>,
    /// How it accepts connections.
    server: Option<TransportConfig>,
    /// Decides how many datagrams are asked for at once.
    rng: Rng,
    /// It stands still until then.
    asleep_until: Instant,
    /// Datagrams that reached it.
    arrived: u64,
}

/// A packet that takes another time than its link gives it.
enum Late {
    /// It enters its link.
    Send { from: SocketAddr, to: SocketAddr, packet: Packet },
    /// It arrives.
    Deliver(Arrival<SocketAddr, Packet>),
}

/// One side of a connection, with what the application has not seen yet.
struct Side {
    connection: Box<Connection>,
    events: VecDeque<Event>,
    checks: Option<Box<Checks>>,
    /// Its next deadline, as of the last time that anything happened to it.
    timer: Option<Instant>,
}

/// A datagram on its way.
#[derive(Clone, Debug)]
pub struct Packet {
    /// UDP payload.
    pub bytes: Vec<u8>,
    /// The IP header's codepoint; `None` is Not-ECT.
    pub ecn: Option<Ecn>,
}

/// What a [`World::step`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A datagram arrived or a timer ran out.
    Advanced,
    /// Nothing happened before the limit, where the clock stands now.
    Limit,
}

/// Hosts, their connections, the network between them, and the time. One seed decides everything.
pub struct World {
    net: Network<SocketAddr, Packet>,
    seed: Seed,
    hosts: Vec<Host>,
    addresses: BTreeMap<SocketAddr, HostId>,
    /// Largest datagram between two addresses, where there is a limit; larger ones vanish.
    mtus: BTreeMap<(SocketAddr, SocketAddr), usize>,
    /// What hosts know of their own links towards others: the largest datagram that they carry.
    local_mtus: BTreeMap<(SocketAddr, SocketAddr), u16>,
    ecn: BTreeMap<(SocketAddr, SocketAddr), EcnTreatment>,
    checked: bool,
    /// What the checkers hear of packets.
    overheard: Overheard,
    violation: Option<Violation>,
    /// Connections that the application has not been told of.
    accepted: VecDeque<ConnectionId>,
    out: Vec<u8>,
    faults: Faults,
    late: EventQueue<Late>,
    /// Where a translator makes an address's packets come from, as their receivers see it; and
    /// back.
    outside: BTreeMap<SocketAddr, SocketAddr>,
    inside: BTreeMap<SocketAddr, SocketAddr>,
}

impl World {
    /// An empty world at [`Instant::ORIGIN`]. `checked` puts the invariant checkers beside every
    /// connection made from now on.
    pub fn new(seed: Seed, checked: bool) -> Self {
        Self {
            net: Network::new(seed.child("network", 0)),
            seed,
            hosts: Vec::new(),
            addresses: BTreeMap::new(),
            mtus: BTreeMap::new(),
            local_mtus: BTreeMap::new(),
            ecn: BTreeMap::new(),
            checked,
            overheard: Overheard::default(),
            violation: None,
            accepted: VecDeque::new(),
            out: Vec::new(),
            faults: Faults::new(Rng::new(seed.child("faults", 0))),
            late: EventQueue::new(),
            outside: BTreeMap::new(),
            inside: BTreeMap::new(),
        }
    }

    /// Adds a host with these addresses; it accepts connections if `server` says how.
    pub fn add_host(&mut self, addresses: &[SocketAddr], server: Option<&TransportConfig>) -> HostId {
        let id = HostId(self.hosts.len());
        let config = server.map(|transport| {
            let (tls, transport) = (tls::server(), self.listened_to(transport));
            // What is lost of a handshake takes its time: here nobody is in anybody's way.
            let handshake_timeout = transport.max_idle_timeout;
            let config = ServerConfig::new(tls, transport);
            Arc::new(ServerConfig { max_connections: MAX_CONNECTIONS, handshake_timeout, ..config })
        });
        let mut rng = Rng::new(self.seed.child("host", id.0 as u64));
        let mut seed = [0; 32];
        seed.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next_u64().to_le_bytes()));
        let endpoint = Endpoint::new(config, seed);
        self.hosts.push(Host {
            endpoint,
            connections: BTreeMap::new(),
            server: server.cloned(),
            rng,
            asleep_until: Instant::ORIGIN,
            arrived: 0,
        });
        self.addresses.extend(addresses.iter().map(|address| (*address, id)));
        id
    }

    /// Joins two addresses by a pair of links.
    pub fn join(
        &mut self,
        a: SocketAddr,
        b: SocketAddr,
        forward: &LinkConfig,
        backward: &LinkConfig,
    ) -> LinkId {
        self.net.connect(a, b, forward, backward)
    }

    /// Begins a connection from a host.
    ///
    /// # Panics
    /// If the host does not exist or TLS refuses its fixed configuration.
    pub fn connect(&mut self, host: HostId, transport: &TransportConfig, path: NetworkPath) -> ConnectionId {
        let config = ClientConfig::new(tls::client(), self.listened_to(transport));
        let now = self.net.now();
        let begun = self.hosts[host.0].endpoint.connect(now, &config, path, tls::SERVER_NAME);
        let (handle, connection) = begun.expect("the fixed TLS configuration is valid");
        let id = ConnectionId { host, handle };
        self.insert(id, connection, transport);
        self.drive(id);
        id
    }

    /// The same, for connections that the checkers listen to, if there are any.
    fn listened_to(&self, transport: &TransportConfig) -> TransportConfig {
        let mut transport = transport.clone();
        if self.checked {
            transport.observe = Some(Arc::new(self.overheard.beside(transport.observe.take())));
        }
        transport
    }

    fn insert(&mut self, id: ConnectionId, connection: Box<Connection>, transport: &TransportConfig) {
        let checks = self.checked.then(|| Box::new(Checks::new(id, transport, &self.overheard)));
        let side = Side { connection, events: VecDeque::new(), checks, timer: None };
        self.hosts[id.host.0].connections.insert(id.handle, side);
    }

    // ---- looking

    /// The present.
    pub fn now(&self) -> Instant {
        self.net.now()
    }

    /// The connection, to look at; to act on it use [`with`](Self::with).
    ///
    /// # Panics
    /// If there is no such connection.
    pub fn connection(&self, id: ConnectionId) -> &Connection {
        &self.hosts[id.host.0].connections[&id.handle].connection
    }

    /// The newest connection of a host.
    pub fn hosts_connection(&self, host: HostId) -> Option<ConnectionId> {
        let handle = *self.hosts[host.0].connections.keys().next_back()?;
        Some(ConnectionId { host, handle })
    }

    /// The next connection that a server has accepted, once each.
    pub fn accept(&mut self) -> Option<ConnectionId> {
        self.accepted.pop_front()
    }

    /// How many connections the host's endpoint still knows.
    pub fn open_connections(&self, host: HostId) -> usize {
        self.hosts[host.0].endpoint.open_connections()
    }

    /// Hash over all that happened so far: times, sizes, directions, fates, and what
    /// [`trace`](Self::trace) was given.
    pub fn trace_hash(&self) -> u64 {
        self.net.trace_hash()
    }

    /// Adds a word to the trace.
    pub fn trace(&mut self, word: u64) {
        self.net.trace(word);
    }

    /// The network, to look at links.
    pub fn network(&self) -> &Network<SocketAddr, Packet> {
        &self.net
    }

    /// The network, to change links.
    pub fn network_mut(&mut self) -> &mut Network<SocketAddr, Packet> {
        &mut self.net
    }

    /// The first invariant that broke, if any.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Looks at every connection's books once more.
    ///
    /// # Errors
    /// The first broken invariant.
    pub fn check_at_end(&self) -> Result<(), Violation> {
        for side in self.hosts.iter().flat_map(|host| host.connections.values()) {
            if let Some(checks) = &side.checks {
                checks.at_end(self.now(), &side.connection)?;
            }
        }
        Ok(())
    }

    /// Counters of one direction of a link pair.
    pub fn link_stats(&self, link: LinkId, direction: Direction) -> netsim::LinkStats {
        self.net.link(link, direction).stats()
    }

    // ---- acting

    /// Lets the application act on a connection, then sends what follows from it.
    ///
    /// # Panics
    /// If there is no such connection.
    pub fn with<R>(&mut self, id: ConnectionId, act: impl FnOnce(&mut Connection, Instant) -> R) -> R {
        let now = self.net.now();
        let side = self.hosts[id.host.0].connections.get_mut(&id.handle).expect("the connection exists");
        let result = act(&mut side.connection, now);
        self.drive(id);
        result
    }

    /// Stops a host: its timers and packets wait until `until`. The caller keeps its application
    /// still.
    pub fn sleep(&mut self, host: HostId, until: Instant) {
        let asleep = &mut self.hosts[host.0].asleep_until;
        *asleep = until.max(*asleep);
        let checks = self.hosts[host.0].connections.values_mut().filter_map(|side| side.checks.as_mut());
        checks.for_each(|checks| checks.on_sleep(until));
    }

    /// How many datagrams have reached each host.
    pub fn arrived(&self) -> Vec<u64> {
        self.hosts.iter().map(|host| host.arrived).collect()
    }

    /// When the host wakes up, which may be in the past.
    pub fn asleep_until(&self, host: HostId) -> Instant {
        self.hosts[host.0].asleep_until
    }

    /// The next event of a connection.
    pub fn poll_event(&mut self, id: ConnectionId) -> Option<Event> {
        self.hosts[id.host.0].connections.get_mut(&id.handle)?.events.pop_front()
    }

    /// Advances to the next arrival or timer, or to `limit` if that is earlier.
    pub fn step(&mut self, limit: Instant) -> Step {
        let timer = self.next_timer();
        let deadline = timer.map_or(limit, |(at, _)| at.min(limit));
        let deadline = self.late.next_time().map_or(deadline, |at| at.min(deadline)).max(self.now());
        if let Some(arrival) = self.net.poll(deadline) {
            self.arrive(arrival);
            return Step::Advanced;
        }
        if self.late.next_time().is_some_and(|at| at <= self.now()) {
            match self.late.pop() {
                Some((_, Late::Send { from, to, packet })) => self.enter_link(from, to, packet),
                Some((_, Late::Deliver(arrival))) => self.arrive(arrival),
                None => {}
            }
            return Step::Advanced;
        }
        match timer {
            Some((at, id)) if at <= self.now() => {
                self.time_out(id);
                Step::Advanced
            }
            _ => Step::Limit,
        }
    }

    /// Steps until `limit`; events pile up meanwhile.
    pub fn run_until(&mut self, limit: Instant) {
        while self.violation.is_none() && self.step(limit) == Step::Advanced {}
    }

    fn next_timer(&self) -> Option<(Instant, ConnectionId)> {
        let hosts = self.hosts.iter().enumerate();
        let sides =
            hosts.flat_map(|(i, host)| host.connections.iter().map(move |(h, side)| (HostId(i), *h, side)));
        let timers = sides.filter_map(|(host, handle, side)| {
            let at = side.timer?.max(self.hosts[host.0].asleep_until);
            Some((at, ConnectionId { host, handle }))
        });
        timers.min()
    }

    fn time_out(&mut self, id: ConnectionId) {
        let now = self.now();
        let Some(side) = self.hosts[id.host.0].connections.get_mut(&id.handle) else { return };
        let before = side.checks.is_some().then(|| side.connection.paths());
        side.connection.handle_timeout(now);
        if let (Some(checks), Some(before)) = (&mut side.checks, before) {
            checks.on_timeout(&before, &side.connection.paths());
        }
        let sent = self.drive(id);
        let Some(side) = self.hosts[id.host.0].connections.get_mut(&id.handle) else { return };
        if let Some(checks) = &mut side.checks {
            let result = checks.after_timeout(now, side.timer, sent);
            self.note(result);
        }
    }

    fn deliver(&mut self, host: HostId, arrival: Arrival<SocketAddr, Packet>) {
        let now = self.now();
        let path = NetworkPath { local: arrival.to, remote: self.seen_as(arrival.from) };
        let Packet { bytes: mut data, ecn } = arrival.packet;
        let ecn = ecn.map(|mark| if arrival.ce { Ecn::Ce } else { mark });
        let mut reply = Vec::new();
        self.hosts[host.0].arrived += 1;
        let datagram = Datagram { path, ecn, data: &mut data };
        let output = self.hosts[host.0].endpoint.handle_datagram(now, datagram, &mut reply);
        match output {
            Some(EndpointOutput::ToConnection(handle)) => {
                let id = ConnectionId { host, handle };
                let Some(side) = self.hosts[host.0].connections.get_mut(&handle) else { return };
                side.connection.handle_datagram(now, Datagram { path, ecn, data: &mut data });
                self.on_arrival(id, path, arrival.size);
                self.drive(id);
            }
            Some(EndpointOutput::Incoming(incoming)) => {
                let accepted = self.hosts[host.0].endpoint.accept(now, *incoming);
                let (handle, connection) = accepted.expect("TLS takes its configuration");
                let id = ConnectionId { host, handle };
                let Some(transport) = self.hosts[host.0].server.clone() else { return };
                self.insert(id, connection, &transport);
                self.on_arrival(id, path, arrival.size);
                self.accepted.push_back(id);
                self.drive(id);
            }
            Some(EndpointOutput::Reply(transmit)) => self.send(&transmit, &reply),
            Some(EndpointOutput::Misdirected(_)) | None => {}
        }
    }

    fn on_arrival(&mut self, id: ConnectionId, path: NetworkPath, size: u64) {
        let side = self.hosts[id.host.0].connections.get_mut(&id.handle);
        if let Some(checks) = side.and_then(|side| side.checks.as_mut()) {
            checks.on_arrival(path, size - IP_UDP_HEADERS);
        }
    }

    /// Does what a connection asks for, in the order that [`Connection`] prescribes; returns how
    /// many datagrams left.
    fn drive(&mut self, id: ConnectionId) -> u64 {
        self.tell_link_size(id);
        let now = self.now();
        let mut sent = 0;
        let mut out = core::mem::take(&mut self.out);
        // Statistics of paths cost more than what they are compared with: what one packet leaves is
        // what the next one finds.
        let mut paths: Option<Vec<PathStats>> = None;
        loop {
            let Host { endpoint, connections, rng, .. } = &mut self.hosts[id.host.0];
            let Some(side) = connections.get_mut(&id.handle) else { break };
            while let Some(event) = side.connection.poll_endpoint_event() {
                endpoint.handle_event(id.handle, event);
            }
            out.clear();
            let batch = 1 + rng.below(MAX_BATCH) as usize;
            let before =
                side.checks.is_some().then(|| paths.take().unwrap_or_else(|| side.connection.paths()));
            let Some(transmit) = side.connection.poll_transmit(now, batch, &mut out) else {
                side.timer = side.connection.poll_timeout();
                if let (Some(checks), Some(before)) = (&mut side.checks, before) {
                    let result = checks.when_idle(now, side.timer, &before, &side.connection);
                    self.note(result);
                }
                break;
            };
            let mut result = Ok(());
            if let (Some(checks), Some(before)) = (&mut side.checks, before) {
                let after = side.connection.paths();
                result =
                    checks.on_transmit(now, &transmit, out.len(), batch, [&before, &after], &side.connection);
                paths = Some(after);
            }
            sent += transmit.size.div_ceil(transmit.segment_size.unwrap_or(transmit.size).max(1)) as u64;
            self.send(&transmit, &out);
            if !self.note(result) {
                break;
            }
        }
        self.out = out;
        self.collect_events(id);
        sent
    }

    /// Answers what a connection asks of its host's own links.
    fn tell_link_size(&mut self, id: ConnectionId) {
        let Some(side) = self.hosts[id.host.0].connections.get_mut(&id.handle) else { return };
        let Some((path, NetworkPath { local, remote })) = side.connection.poll_link_question() else {
            return;
        };
        let remote = self.inside.get(&remote).copied().unwrap_or(remote);
        if let Some(&size) = self.local_mtus.get(&(local, remote)) {
            side.connection.on_link_size(path, size);
            if let Some(checks) = &mut side.checks {
                checks.on_link_size(size);
            }
        }
    }

    fn collect_events(&mut self, id: ConnectionId) {
        let Some(side) = self.hosts[id.host.0].connections.get_mut(&id.handle) else { return };
        while let Some(event) = side.connection.poll_event() {
            side.events.push_back(event);
        }
    }

    /// Keeps the first violation; false if there is one.
    fn note(&mut self, result: Result<(), Violation>) -> bool {
        if let Err(violation) = result {
            self.violation.get_or_insert(violation);
        }
        self.violation.is_none()
    }
}
