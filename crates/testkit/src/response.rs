//! Request and response over paths that are ready: the measurement behind the demo, in virtual
//! time.

use std::net::SocketAddr;

use netsim::{
    LinkConfig, Loss, Seed,
    network::{Direction, PathId as LinkId},
};
use proto::{
    ConnectionStats, Dir, Event, NetworkPath, PathEvent, PathStats, Read, StreamEvent, StreamId,
    TransportConfig,
};
use units::{Duration, Instant};

use crate::world::{ConnectionId, Step, World};

/// How long a response may take before it counts as failed, unless [`Exchange::limit`] says
/// otherwise.
const LIMIT: Duration = Duration::from_secs(120);
/// How long the server's books are given to settle after the response, unless [`Exchange::settle`] says
/// otherwise.
const SETTLE: Duration = Duration::from_secs(2);
/// Size of the request in bytes.
const REQUEST: usize = 100;

/// One path between the client and the server.
#[derive(Clone, Debug)]
pub struct PathPlan {
    /// Client to server.
    pub up: LinkConfig,
    /// Server to client.
    pub down: LinkConfig,
    /// Loss from server to client, from the moment of the request on: the n-th packet from then is
    /// the n-th draw.
    pub loss: Loss,
}

impl PathPlan {
    /// The same link both ways, and loss from server to client.
    pub fn symmetric(link: LinkConfig, loss: Loss) -> Self {
        Self { up: link.clone(), down: link, loss }
    }

    /// The same with another loss.
    pub fn losing(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }
}

/// What one response cost.
#[derive(Clone, Debug)]
pub struct Response {
    /// From the request to the last byte read.
    pub completion: Duration,
    /// The longest time in which nothing could be read, from the request to the end.
    pub longest_stall: Duration,
    /// The server's connection after everything settled, minus what it had sent before the request.
    pub bytes_sent: u64,
    /// Of these, those of copies and repair symbols.
    pub recovery_bytes_sent: u64,
    /// The server's statistics, which begin with the connection.
    pub stats: ConnectionStats,
    /// The client's.
    pub client_stats: ConnectionStats,
    /// The server's paths.
    pub paths: Vec<PathStats>,
    /// Packets for the client that the links lost, per path.
    pub link_lost: Vec<u64>,
    /// Hash over everything.
    pub trace_hash: u64,
}

/// A response that did not complete.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{got} of {size} bytes after {limit}, paths {paths:?}")]
pub struct Incomplete {
    limit: Duration,
    got: usize,
    size: usize,
    paths: Vec<PathStats>,
}

impl Incomplete {
    /// What is missing, without how the paths are.
    pub fn summary(&self) -> String {
        format!("{} of {} bytes after {}", self.got, self.size, self.limit)
    }
}

/// Paths so slow that they did not come up within virtual minutes: what was waited for.
#[derive(Clone, Debug, thiserror::Error)]
#[error("after {LIMIT} {0}")]
pub struct NotSetUp(&'static str);

/// A client connected to a server with every path validated, ready for a request.
pub struct Exchange {
    /// Everything.
    pub world: World,
    /// The client's side.
    pub client: ConnectionId,
    /// The server's side.
    pub server: ConnectionId,
    /// The paths' links, forward is up.
    pub links: Vec<LinkId>,
    /// How long a response may take before it counts as failed. Two minutes.
    pub limit: Duration,
    /// How long the server's books are given to settle after a response, and the next request has to wait. Two
    /// seconds.
    pub settle: Duration,
    seed: Seed,
}

fn client_address(path: usize) -> SocketAddr {
    SocketAddr::from(([10, path as u8, 0, 2], 50_000))
}

fn server_address(path: usize) -> SocketAddr {
    SocketAddr::from(([10, path as u8, 0, 1], 443))
}

/// One step, if there is one before `limit`; else what was waited for in vain.
fn advance(world: &mut World, limit: Instant, waited_for: &'static str) -> Result<(), NotSetUp> {
    match world.step(limit) {
        Step::Advanced => Ok(()),
        _ => Err(NotSetUp(waited_for)),
    }
}

impl Exchange {
    /// Connects over the first path, opens the others and waits until both sides have validated
    /// them all.
    ///
    /// # Panics
    /// If that does not succeed within virtual minutes: paths without loss cannot fail.
    pub fn establish(seed: Seed, paths: &[PathPlan], transport: &TransportConfig) -> Self {
        Self::establish_in(seed, paths, transport, |_, _, _| {})
    }

    /// As [`establish`](Self::establish), for paths that somebody else has chosen.
    ///
    /// # Errors
    /// If that does not succeed within virtual minutes.
    pub fn try_establish(
        seed: Seed,
        paths: &[PathPlan],
        transport: &TransportConfig,
    ) -> Result<Self, NotSetUp> {
        Self::try_establish_in(seed, paths, transport, |_, _, _| {})
    }

    /// As [`establish`](Self::establish), in a world where `prepare` has had its hands on the
    /// network between each pair of addresses.
    ///
    /// # Panics
    /// If the paths do not come up within virtual minutes.
    pub fn establish_in(
        seed: Seed,
        paths: &[PathPlan],
        transport: &TransportConfig,
        prepare: impl Fn(&mut World, SocketAddr, SocketAddr),
    ) -> Self {
        Self::try_establish_in(seed, paths, transport, prepare).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_establish_in(
        seed: Seed,
        paths: &[PathPlan],
        transport: &TransportConfig,
        prepare: impl Fn(&mut World, SocketAddr, SocketAddr),
    ) -> Result<Self, NotSetUp> {
        let Self { mut world, client, server, links, .. } = Self::connect(seed, paths, transport, prepare)?;
        let network = |i: usize| NetworkPath { local: client_address(i), remote: server_address(i) };
        let limit = world.now() + LIMIT;
        let mut open = 1;
        while open < paths.len() {
            match world.with(client, |c, now| c.open_path(now, network(open))) {
                Ok(_) => open += 1,
                Err(_) => advance(&mut world, limit, "a path could not be opened")?,
            }
        }
        let (mut waiting_client, mut waiting_server) = (paths.len() - 1, paths.len() - 1);
        while waiting_client + waiting_server > 0 {
            advance(&mut world, limit, "not all paths were validated")?;
            for (id, waiting) in [(client, &mut waiting_client), (server, &mut waiting_server)] {
                while let Some(event) = world.poll_event(id) {
                    *waiting -= usize::from(matches!(event, Event::Path(PathEvent::Validated(_))));
                }
            }
        }
        // Let ACKs and connection ids come to rest.
        let rest = world.now() + Duration::from_secs(1);
        world.run_until(rest);
        while world.poll_event(client).is_some() || world.poll_event(server).is_some() {}
        Ok(Self { world, client, server, links, limit: LIMIT, settle: SETTLE, seed })
    }

    /// Connects over the first path and returns when the client's handshake is complete.
    fn connect(
        seed: Seed,
        paths: &[PathPlan],
        transport: &TransportConfig,
        prepare: impl Fn(&mut World, SocketAddr, SocketAddr),
    ) -> Result<Self, NotSetUp> {
        let mut world = World::new(seed, false);
        let servers: Vec<_> = (0..paths.len()).map(server_address).collect();
        let clients: Vec<_> = (0..paths.len()).map(client_address).collect();
        let server_host = world.add_host(&servers, Some(transport));
        let client_host = world.add_host(&clients, None);
        let links = paths
            .iter()
            .enumerate()
            .map(|(i, p)| world.join(clients[i], servers[i], &p.up, &p.down))
            .collect();
        (0..paths.len()).for_each(|i| prepare(&mut world, clients[i], servers[i]));
        let network = NetworkPath { local: clients[0], remote: servers[0] };
        let client = world.connect(client_host, transport, network);
        let limit = world.now() + LIMIT;
        while world.connection(client).is_handshaking() || world.hosts_connection(server_host).is_none() {
            advance(&mut world, limit, "the handshake was not complete")?;
        }
        let server = world.hosts_connection(server_host).expect("the loop waited for it");
        Ok(Self { world, client, server, links, limit: LIMIT, settle: SETTLE, seed })
    }

    /// Connects over `path`, whose links may lose from the start, and requests a response of `size`
    /// bytes at once. Returns the time for both together, and what the response cost.
    ///
    /// # Errors
    /// [`Incomplete`] after two virtual minutes.
    ///
    /// # Panics
    /// If the connection is not set up within virtual minutes.
    pub fn fetch(
        seed: Seed,
        path: &PathPlan,
        transport: &TransportConfig,
        size: usize,
    ) -> Result<(Duration, Response), Incomplete> {
        let paths = core::slice::from_ref(path);
        let connected = Self::connect(seed, paths, transport, |_, _, _| {});
        let mut exchange = connected.unwrap_or_else(|error| panic!("{error}"));
        let set_up = exchange.world.now() - Instant::ORIGIN;
        let response = exchange.request(size, paths)?;
        Ok((set_up + response.completion, response))
    }

    /// Requests a response of `size` bytes while the paths lose as planned.
    ///
    /// # Errors
    /// [`Incomplete`] after [`limit`](Self::limit).
    pub fn request(&mut self, size: usize, paths: &[PathPlan]) -> Result<Response, Incomplete> {
        self.request_observed(size, paths, |_, _| {})
    }

    /// As [`request`](Self::request); `observe` sees the world and the server's side at every step,
    /// after the applications acted, and may meddle with the network.
    ///
    /// # Errors
    /// [`Incomplete`] after [`limit`](Self::limit).
    pub fn request_observed(
        &mut self,
        size: usize,
        paths: &[PathPlan],
        observe: impl FnMut(&mut World, ConnectionId),
    ) -> Result<Response, Incomplete> {
        for (i, path) in paths.iter().enumerate() {
            let seed = self.seed.child("response loss", i as u64);
            self.lose(i, Direction::Backward, seed, &path.loss);
        }
        self.respond(size, observe)
    }

    /// From now on one direction of a path loses as `loss` says, and its links draw from `seed`.
    pub fn lose(&mut self, path: usize, direction: Direction, seed: Seed, loss: &Loss) {
        self.world.network_mut().change(self.links[path], direction, |link, now| {
            link.reseed(now, seed);
            link.set_loss(now, loss.clone());
        });
    }

    /// Requests a response of `size` bytes on the paths as they are; `observe` as in
    /// [`request_observed`](Self::request_observed).
    ///
    /// # Errors
    /// [`Incomplete`] after [`limit`](Self::limit).
    pub fn respond(
        &mut self,
        size: usize,
        mut observe: impl FnMut(&mut World, ConnectionId),
    ) -> Result<Response, Incomplete> {
        let lost_before: Vec<u64> = self.lost();
        let (client, server) = (self.client, self.server);
        let before = self.world.connection(server).stats();
        let start = self.world.now();
        let id = self.world.with(client, |c, _| {
            let id = c.open(Dir::Bi).expect("a stream may be opened");
            assert_eq!(c.write(id, &[7; REQUEST]), Ok(REQUEST));
            c.finish(id).expect("it was just opened");
            id
        });
        let mut answer = Answer { id, asked: 0, left: size, buffer: vec![0; 65_536], data: vec![42; 65_536] };
        let mut reader =
            Reader { id, got: 0, read_at: start, longest_stall: Duration::ZERO, completed: None };
        while reader.completed.is_none() {
            answer.go_on(&mut self.world, server);
            while self.world.poll_event(client).is_some() {}
            self.world.with(client, |c, now| reader.read(c, now, &mut answer.buffer));
            observe(&mut self.world, server);
            if reader.completed.is_none() && self.world.step(start + self.limit) == Step::Limit {
                let paths = self.world.connection(server).paths();
                return Err(Incomplete { limit: self.limit, got: reader.got, size, paths });
            }
        }
        assert_eq!(reader.got, size, "every byte of the response was read");
        let completion: Duration = reader.completed.map_or(self.limit, |at: Instant| at - start);
        let settled = self.world.now() + self.settle;
        self.world.run_until(settled);
        let connection = self.world.connection(server);
        let stats = connection.stats();
        Ok(Response {
            completion,
            longest_stall: reader.longest_stall,
            bytes_sent: stats.bytes_sent - before.bytes_sent,
            recovery_bytes_sent: stats.recovery_bytes_sent - before.recovery_bytes_sent,
            stats,
            client_stats: self.world.connection(client).stats(),
            paths: connection.paths(),
            link_lost: self.lost().iter().zip(&lost_before).map(|(now, before)| now - before).collect(),
            trace_hash: self.world.trace_hash(),
        })
    }

    fn lost(&self) -> Vec<u64> {
        self.links.iter().map(|l| self.world.link_stats(*l, Direction::Backward).gone()).collect()
    }
}

/// The server's application, which answers a request.
struct Answer {
    id: StreamId,
    /// Bytes of the request that have been read.
    asked: usize,
    /// Bytes of the response that have not been written.
    left: usize,
    buffer: Vec<u8>,
    data: Vec<u8>,
}

impl Answer {
    /// Reads and writes what is possible now.
    fn go_on(&mut self, world: &mut World, server: ConnectionId) {
        while let Some(event) = world.poll_event(server) {
            match event {
                Event::Stream(StreamEvent::Opened { dir }) => {
                    world.with(server, |c, _| _ = c.accept(dir));
                }
                Event::Stream(StreamEvent::Readable(_) | StreamEvent::Writable(_)) => {}
                _ => continue,
            }
            world.with(server, |c, _| {
                while let Ok(Read::Data(n)) = c.read(self.id, &mut self.buffer) {
                    self.asked += n;
                }
                while self.asked == REQUEST && self.left > 0 {
                    let Ok(n) = c.write(self.id, &self.data[..self.left.min(self.data.len())]) else { break };
                    self.left -= n;
                    if self.left == 0 {
                        c.finish(self.id).expect("the stream is open");
                    }
                }
            });
        }
    }
}

/// The client's application, which reads the response as it comes.
struct Reader {
    id: StreamId,
    got: usize,
    read_at: Instant,
    longest_stall: Duration,
    completed: Option<Instant>,
}

impl Reader {
    fn read(&mut self, c: &mut proto::Connection, now: Instant, buffer: &mut [u8]) {
        loop {
            match c.read(self.id, buffer) {
                Ok(Read::Data(n)) => {
                    self.got += n;
                    self.longest_stall = self.longest_stall.max(now - self.read_at);
                    self.read_at = now;
                }
                Ok(Read::Finished) => self.completed = Some(now),
                Err(_) => break,
            }
        }
    }
}
