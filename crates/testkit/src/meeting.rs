//! Connections whose paths meet in bottlenecks, each with as much to send as it may: what share
//! each takes, and what it finds out about its paths.
//!
//! client -> loss, delay and jitter of the path -> bottleneck, which several paths may share ->
//! server; ACKs come back over the path's delay alone.

use std::net::SocketAddr;

use netsim::{
    LinkConfig, Loss, Seed,
    link::QueueSize,
    network::{Direction, PathId as LinkId},
};
use proto::{ControllerKind, Dir, NetworkPath, PathStats, Read, StreamId, TransportConfig};
use units::{BitRate, Bytes, Duration, Instant};

use crate::world::{ConnectionId, HostId, Step, World};

/// Bytes written with one call.
const CHUNK: [u8; 16_384] = [7; 16_384];

/// A drop-tail queue before a transmitter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bottleneck {
    /// What it carries.
    pub rate: BitRate,
    /// What may wait, in bytes.
    pub buffer: u64,
}

impl Bottleneck {
    /// One of `mbps` Mbit/s with a buffer of `buffer` times what it carries in `rtt_ms` ms.
    pub fn new(mbps: u64, rtt_ms: u64, buffer: f64) -> Self {
        let rate = BitRate::from_mbps(mbps);
        let product = rate.bytes_in(Duration::from_millis(rtt_ms)) as f64;
        Self { rate, buffer: ((product * buffer) as u64).max(20_000) }
    }
}

/// A path of a flow.
#[derive(Clone, PartialEq, Debug)]
pub struct Route {
    /// Which of the bottlenecks it runs through.
    pub over: usize,
    /// Its round-trip time without queue and jitter.
    pub rtt: Duration,
    /// How far delays towards the server deviate to both sides; packets stay in order.
    pub jitter: Duration,
    /// Losses on the way to the bottleneck.
    pub loss: Loss,
}

impl Route {
    /// One without jitter and loss.
    pub fn new(over: usize, rtt_ms: u64) -> Self {
        let rtt = Duration::from_millis(rtt_ms);
        Self { over, rtt, jitter: Duration::ZERO, loss: Loss::None }
    }

    /// With jitter in ms.
    pub fn jitter(self, ms: u64) -> Self {
        Self { jitter: Duration::from_millis(ms), ..self }
    }

    /// With losses.
    pub fn loss(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }
}

/// A connection that sends all that it may.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// Its controller.
    pub controller: ControllerKind,
    /// When it begins.
    pub start: Duration,
    /// Its paths.
    pub routes: Vec<Route>,
    /// Bytes per second that its application has to send, if that is all.
    pub limit: Option<u64>,
}

impl Flow {
    /// One that begins at once.
    pub fn new(controller: ControllerKind, routes: &[Route]) -> Self {
        Self { controller, start: Duration::ZERO, routes: routes.to_vec(), limit: None }
    }

    /// One that begins later, in ms.
    pub fn from(self, start_ms: u64) -> Self {
        Self { start: Duration::from_millis(start_ms), ..self }
    }
}

/// A flow under way.
struct Running {
    flow: Flow,
    hosts: (HostId, HostId),
    links: Vec<LinkId>,
    client: Option<ConnectionId>,
    server: Option<ConnectionId>,
    opened: usize,
    stream: Option<StreamId>,
    written: u64,
}

/// Flows, bottlenecks and the time.
pub struct Meeting {
    /// Everything.
    pub world: World,
    transport: TransportConfig,
    bottlenecks: usize,
    flows: Vec<Running>,
}

fn address(flow: usize, path: usize, host: u8) -> SocketAddr {
    SocketAddr::from(([10, flow as u8, path as u8, host], if host == 1 { 443 } else { 50_000 }))
}

fn network(flow: usize, path: usize) -> NetworkPath {
    NetworkPath { local: address(flow, path, 2), remote: address(flow, path, 1) }
}

impl Meeting {
    /// A network in which nothing has happened yet. `transport` is everybody's but for the
    /// controller.
    pub fn new(seed: Seed, bottlenecks: &[Bottleneck], flows: &[Flow], transport: &TransportConfig) -> Self {
        let mut world = World::new(seed, false);
        let begin = |(n, flow): (usize, &Flow)| {
            let paths = 0..flow.routes.len();
            let addresses = |host| paths.clone().map(|path| address(n, path, host)).collect::<Vec<_>>();
            let config = TransportConfig { controller: flow.controller, ..transport.clone() };
            let hosts = (world.add_host(&addresses(2), None), world.add_host(&addresses(1), Some(&config)));
            let join = |(path, route): (usize, &Route)| {
                let back = LinkConfig::new().delay(route.rtt / 2);
                let there = back.clone().jitter(route.jitter).loss(route.loss.clone());
                world.join(address(n, path, 2), address(n, path, 1), &there, &back)
            };
            let links = flow.routes.iter().enumerate().map(join).collect();
            Running {
                flow: flow.clone(),
                hosts,
                links,
                client: None,
                server: None,
                opened: 0,
                stream: None,
                written: 0,
            }
        };
        let flows: Vec<Running> = flows.iter().enumerate().map(begin).collect();
        let mut meeting = Self { world, transport: transport.clone(), bottlenecks: 0, flows };
        bottlenecks.iter().for_each(|bottleneck| meeting.add_bottleneck(bottleneck));
        meeting
    }

    /// One more bottleneck, for the routes that name it.
    fn add_bottleneck(&mut self, bottleneck: &Bottleneck) {
        let number = self.bottlenecks;
        self.bottlenecks += 1;
        let paths = self.flows.iter().flat_map(|running| running.flow.routes.iter().zip(&running.links));
        let through: Vec<LinkId> = paths.filter(|(route, _)| route.over == number).map(|(_, l)| *l).collect();
        let link = LinkConfig::new().rate(bottleneck.rate).queue(QueueSize::Bytes(Bytes(bottleneck.buffer)));
        self.world.network_mut().share(&through, Direction::Forward, &link);
    }

    /// A path of a flow runs through a bottleneck of its own from now on.
    pub fn reroute(&mut self, flow: usize, path: usize, to: &Bottleneck) {
        self.flows[flow].flow.routes[path].over = self.bottlenecks;
        self.add_bottleneck(to);
    }

    /// Lets time pass until `until` after the beginning.
    pub fn run_until(&mut self, until: Duration) {
        let end = Instant::ORIGIN + until;
        loop {
            let starts = self.flows.iter().filter(|running| running.client.is_none());
            let next = starts.map(|running| Instant::ORIGIN + running.flow.start).min();
            (0..self.flows.len()).for_each(|n| self.attend(n));
            // Applications with a limit write now and then.
            let tick = self.world.now() + Duration::from_millis(5);
            let limited = self.flows.iter().any(|running| running.flow.limit.is_some());
            let limit = next.map_or(end, |next| next.min(end)).min(if limited { tick } else { end });
            if self.world.step(limit) == Step::Limit && self.world.now() >= end {
                return;
            }
        }
    }

    /// Lets the application of a flow do what it can.
    fn attend(&mut self, n: usize) {
        let now = self.world.now();
        let running = &mut self.flows[n];
        let Some(client) = running.client else {
            if now >= Instant::ORIGIN + running.flow.start {
                let config =
                    TransportConfig { controller: running.flow.controller, ..self.transport.clone() };
                running.client = Some(self.world.connect(running.hosts.0, &config, network(n, 0)));
                running.opened = 1;
            }
            return;
        };
        let mut happened = running.flow.limit.is_some();
        while self.world.poll_event(client).is_some() {
            happened = true;
        }
        if happened && !self.world.connection(client).is_handshaking() {
            self.send(n, client, now);
        }
        let running = &mut self.flows[n];
        running.server = running.server.or_else(|| self.world.hosts_connection(running.hosts.1));
        if let Some(server) = running.server {
            self.read(server);
        }
    }

    fn send(&mut self, n: usize, client: ConnectionId, now: Instant) {
        let running = &mut self.flows[n];
        while running.opened < running.flow.routes.len() {
            let path = network(n, running.opened);
            if self.world.with(client, |c, now| c.open_path(now, path)).is_err() {
                break;
            }
            running.opened += 1;
        }
        if running.stream.is_none() {
            running.stream = self.world.with(client, |c, _| c.open(Dir::Uni));
        }
        let Some(stream) = running.stream else { return };
        let elapsed = now - (Instant::ORIGIN + running.flow.start);
        let allowed = running.flow.limit.map(|rate| (rate as f64 * elapsed.as_secs_f64()) as u64);
        let written = &mut running.written;
        self.world.with(client, |c, _| {
            while let Some(left) = allowed.unwrap_or(u64::MAX).checked_sub(*written).filter(|left| *left > 0)
            {
                let chunk = &CHUNK[..CHUNK.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
                let Ok(n) = c.write(stream, chunk) else { break };
                *written += n as u64;
            }
        });
    }

    fn read(&mut self, server: ConnectionId) {
        let mut happened = false;
        while self.world.poll_event(server).is_some() {
            happened = true;
        }
        if !happened {
            return;
        }
        let mut buffer = [0; 16_384];
        self.world.with(server, |c, _| {
            while c.accept(Dir::Uni).is_some() {}
            let stream = StreamId::new(proto::Side::Client, Dir::Uni, 0);
            while let Ok(Read::Data(_)) = c.read(stream, &mut buffer) {}
        });
    }

    /// Bytes that a flow's receiver has.
    pub fn received(&self, flow: usize) -> u64 {
        let server = self.flows[flow].server;
        server.map_or(0, |server| self.world.connection(server).stats().stream_bytes_received)
    }

    /// The sender's paths of a flow.
    pub fn paths(&self, flow: usize) -> Vec<PathStats> {
        let client = self.flows[flow].client;
        client.map_or_else(Vec::new, |client| self.world.connection(client).paths())
    }

    /// How often a flow has held a path to find out about its bottlenecks.
    pub fn probes(&self, flow: usize) -> u64 {
        let client = self.flows[flow].client;
        client.map_or(0, |client| self.world.connection(client).stats().bottleneck_probes)
    }

    /// Whether all paths of a flow are known to share one bottleneck.
    pub fn is_one_group(&self, flow: usize) -> bool {
        let paths = self.paths(flow);
        paths.len() > 1
            && paths.iter().all(|path| path.bottleneck.is_some() && path.bottleneck == paths[0].bottleneck)
    }

    /// The links of a flow's paths, without the bottlenecks.
    pub fn links(&self, flow: usize) -> &[LinkId] {
        &self.flows[flow].links
    }
}
