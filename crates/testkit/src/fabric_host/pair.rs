//! Both ends of one connection, with endpoints of their own and the applications that send and
//! read.

use std::{fmt, mem, net::SocketAddr, sync::Arc};

use netsim::{
    Rng, Seed,
    fabric::{Ecn as FabricEcn, HostId},
};
use proto::{
    ClientConfig, Connection, ConnectionHandle, ConnectionStats, Datagram, Dir, Ecn, Endpoint,
    EndpointOutput, Event, NetworkPath, PathEvent, Read, ServerConfig, StreamId, TransportConfig,
};
use units::{Duration, Instant};

use crate::tls;

/// How long a connection waits for its paths to be validated.
const PATIENCE: Duration = Duration::from_secs(3);
/// Datagrams asked for with one call.
const BATCH: usize = 10;
/// Bytes written or read with one call.
const CHUNK: usize = 65_536;
/// What applications write.
static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// An end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum End {
    /// Begins the connection, and sends.
    Client,
    /// Reads.
    Server,
}

impl End {
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// A datagram that is to leave.
pub(super) struct Outgoing<'a> {
    /// The client's host and the server's, whoever sends.
    pub(super) from: HostId,
    pub(super) to: HostId,
    pub(super) path: u8,
    pub(super) ecn: bool,
    pub(super) bytes: &'a [u8],
}

struct Side {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Box<Connection>)>,
}

/// A flow that is not finished.
struct Transfer {
    flow: u32,
    stream: Option<StreamId>,
    left: u64,
    ended: bool,
}

pub(super) struct Pair {
    pub(super) from: HostId,
    pub(super) to: HostId,
    /// Ends when its flows are finished.
    pub(super) one_shot: bool,
    /// Whether it ends no earlier than when its client knows what became of all that it sent.
    pub(super) learns: bool,
    config: TransportConfig,
    client: Side,
    server: Side,
    paths: usize,
    opened: usize,
    validated: usize,
    patient: bool,
    ready: bool,
    transfers: Vec<Transfer>,
    started: Vec<u32>,
    finished: Vec<u32>,
    /// Bytes that the server has read.
    pub(super) read: u64,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, paths, ready, .. } = self;
        write!(f, "Pair({from:?} to {to:?}, {paths} paths, ready: {ready})")
    }
}

/// The address of one end on a path: the host tells machines apart, the port paths.
fn address(host: HostId, port: u16, path: u8) -> SocketAddr {
    let [_, b, c, d] = host.0.to_be_bytes();
    SocketAddr::from(([10, b, c, d], port + u16::from(path)))
}

fn endpoint(server: Option<Arc<ServerConfig>>, rng: &mut Rng) -> Side {
    let mut seed = [0; 32];
    seed.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next_u64().to_le_bytes()));
    Side { endpoint: Endpoint::new(server, seed), connection: None }
}

impl Pair {
    pub(super) fn new(from: HostId, to: HostId, config: &TransportConfig, paths: usize, seed: Seed) -> Self {
        let config = TransportConfig { max_paths: config.max_paths.max(paths as u32), ..config.clone() };
        let server = Arc::new(ServerConfig::new(tls::server(), config.clone()));
        let mut rng = seed.stream("endpoints");
        Self {
            from,
            to,
            one_shot: false,
            learns: false,
            config,
            client: endpoint(None, &mut rng),
            server: endpoint(Some(server), &mut rng),
            paths,
            opened: 1,
            validated: 1,
            patient: true,
            ready: false,
            transfers: Vec::new(),
            started: Vec::new(),
            finished: Vec::new(),
            read: 0,
        }
    }

    fn network(&self, end: End, path: u8) -> NetworkPath {
        let (client, server) = (address(self.from, 50_000, path), address(self.to, 443, path));
        match end {
            End::Client => NetworkPath { local: client, remote: server },
            End::Server => NetworkPath { local: server, remote: client },
        }
    }

    fn side(&mut self, end: End) -> &mut Side {
        match end {
            End::Client => &mut self.client,
            End::Server => &mut self.server,
        }
    }

    /// Begins the handshake; until when to wait for paths.
    ///
    /// # Panics
    /// If TLS refuses its fixed configuration.
    pub(super) fn begin(&mut self, now: Instant) -> Instant {
        let config = ClientConfig::new(tls::client(), self.config.clone());
        let network = self.network(End::Client, 0);
        let begun = self.client.endpoint.connect(now, &config, network, tls::SERVER_NAME);
        self.client.connection = Some(begun.expect("the fixed TLS configuration is valid"));
        now + PATIENCE
    }

    /// Paths that are not validated yet are not waited for any longer.
    pub(super) fn stop_waiting(&mut self) {
        self.patient = false;
    }

    /// The client's application has `bytes` to send.
    pub(super) fn write(&mut self, flow: u32, bytes: u64) {
        self.transfers.push(Transfer { flow, stream: None, left: bytes, ended: false });
    }

    pub(super) fn time_out(&mut self, end: End, now: Instant) {
        if let Some((_, connection)) = &mut self.side(end).connection {
            connection.handle_timeout(now);
        }
    }

    /// When an end's timer is due; [`Instant::MAX`] if it is not set.
    pub(super) fn deadline(&mut self, end: End) -> Instant {
        let connection = self.side(end).connection.as_ref();
        connection.and_then(|(_, connection)| connection.poll_timeout()).unwrap_or(Instant::MAX)
    }

    /// A datagram arrived.
    pub(super) fn receive(&mut self, end: End, now: Instant, path: u8, ecn: FabricEcn, bytes: &mut [u8]) {
        let ecn = match ecn {
            FabricEcn::NotCapable => None,
            FabricEcn::Capable => Some(Ecn::Ect0),
            FabricEcn::Marked => Some(Ecn::Ce),
        };
        let network = self.network(end, path);
        let side = self.side(end);
        // Replies to strangers would go to nobody: all packets here are those of this connection.
        let mut reply = Vec::new();
        let datagram = Datagram { path: network, ecn, data: bytes };
        match side.endpoint.handle_datagram(now, datagram, &mut reply) {
            Some(EndpointOutput::ToConnection(known)) => {
                if let Some((handle, connection)) = &mut side.connection
                    && *handle == known
                {
                    connection.handle_datagram(now, Datagram { path: network, ecn, data: bytes });
                }
            }
            Some(EndpointOutput::Incoming(incoming)) if side.connection.is_none() => {
                let accepted = side.endpoint.accept(now, *incoming);
                side.connection = Some(accepted.expect("TLS takes its configuration"));
            }
            _ => {}
        }
    }

    /// Lets the application act on what happened, and sends what follows, until nothing follows any
    /// more.
    pub(super) fn attend(&mut self, end: End, now: Instant, send: &mut dyn FnMut(Outgoing<'_>)) {
        let (from, to) = (self.from, self.to);
        let mut out = Vec::new();
        loop {
            match end {
                End::Client => self.act_as_client(now),
                End::Server => self.act_as_server(),
            }
            let Side { endpoint, connection: Some((handle, connection)) } = self.side(end) else { return };
            while let Some(event) = connection.poll_endpoint_event() {
                endpoint.handle_event(*handle, event);
            }
            out.clear();
            let Some(transmit) = connection.poll_transmit(now, BATCH, &mut out) else { break };
            let port = if end == End::Client { 50_000 } else { 443 };
            let path = transmit.path.local.port().saturating_sub(port) as u8;
            for bytes in out.chunks(transmit.segment_size.unwrap_or(transmit.size).max(1)) {
                send(Outgoing { from, to, path, ecn: transmit.ecn.is_some(), bytes });
            }
        }
    }

    fn act_as_client(&mut self, now: Instant) {
        let next = self.network(End::Client, self.opened as u8);
        let Some((_, connection)) = &mut self.client.connection else { return };
        while let Some(event) = connection.poll_event() {
            self.validated += usize::from(matches!(event, Event::Path(PathEvent::Validated(_))));
        }
        if connection.is_handshaking() {
            return;
        }
        if self.opened < self.paths && connection.open_path(now, next).is_ok() {
            self.opened += 1;
        }
        self.ready |= self.validated >= self.paths || !self.patient;
        if !self.ready {
            return;
        }
        for transfer in &mut self.transfers {
            if transfer.stream.is_none() {
                transfer.stream = connection.open(Dir::Uni);
                self.started.extend(transfer.stream.map(|_| transfer.flow));
            }
            let Some(stream) = transfer.stream else { continue };
            while transfer.left > 0 {
                let chunk = &ZEROS[..transfer.left.min(CHUNK as u64) as usize];
                let Ok(written) = connection.write(stream, chunk) else { break };
                transfer.left -= written as u64;
            }
            if transfer.left == 0 && !transfer.ended {
                transfer.ended = connection.finish(stream).is_ok();
            }
        }
    }

    fn act_as_server(&mut self) {
        let Some((_, connection)) = &mut self.server.connection else { return };
        while connection.poll_event().is_some() {}
        while connection.accept(Dir::Uni).is_some() {}
        let mut buffer = [0; 4_096];
        let (finished, total) = (&mut self.finished, &mut self.read);
        self.transfers.retain(|transfer| {
            let Some(stream) = transfer.stream else { return true };
            loop {
                match connection.read(stream, &mut buffer) {
                    Ok(Read::Data(length)) => *total += length as u64,
                    Ok(Read::Finished) => {
                        finished.push(transfer.flow);
                        return false;
                    }
                    Err(_) => return true,
                }
            }
        });
    }

    /// Flows whose stream was opened since the last call.
    pub(super) fn take_started(&mut self) -> Vec<u32> {
        mem::take(&mut self.started)
    }

    /// Flows that the server has read since the last call.
    pub(super) fn take_finished(&mut self) -> Vec<u32> {
        mem::take(&mut self.finished)
    }

    /// The client's statistics.
    pub(super) fn sender_stats(&self) -> ConnectionStats {
        self.client.connection.as_ref().map(|(_, connection)| connection.stats()).unwrap_or_default()
    }

    /// The client's congestion window on its first path, in bytes; 0 before there is one.
    pub(super) fn window(&self) -> u64 {
        let connection = self.client.connection.as_ref();
        connection.and_then(|(_, connection)| connection.paths().first().map(|path| path.window)).unwrap_or(0)
    }

    /// Whether its purpose is fulfilled.
    pub(super) fn is_done(&self) -> bool {
        self.one_shot && self.ready && self.transfers.is_empty() && !(self.learns && self.is_in_flight())
    }

    /// Whether anything of the client's is un-ACKed.
    fn is_in_flight(&self) -> bool {
        let connection = self.client.connection.as_ref();
        connection.is_some_and(|(_, connection)| connection.paths().iter().any(|path| path.in_flight > 0))
    }
}
