//! What a packet of a bulk transfer costs the transport itself: two connections in one process hand
//! each other their datagrams, without sockets, tasks and losses, in virtual time.
//!
//! Every run executes the same instructions, but for TLS's randomness, so that a profiler that
//! counts them is exact however busy the machine is.

use std::{collections::VecDeque, net::SocketAddr, process::ExitCode, sync::Arc};

use clap::Args;
use proto::{
    ClientConfig, Connection, ConnectionHandle, Datagram, Dir, Endpoint, EndpointOutput, Event, NetworkPath,
    PathEvent, Read, RecoveryKind, ServerConfig, StreamEvent, StreamId, TransportConfig,
};
use units::{BitRate, Duration, Instant};

const HELP: &str = "\
Examples:
  mendpath-tools packet-cost --paths 2
  valgrind --tool=callgrind mendpath-tools packet-cost --megabytes 20";

/// As much as a driver sends before it has another look at what has arrived, and the other way
/// round.
const BATCHES: usize = 16;
const DATAGRAMS: usize = 256;
/// Datagrams per batch.
const BATCH: usize = 44;
/// Bytes that the application writes or reads at once.
const CHUNK: usize = 64 << 10;
/// A turn of either end takes at least so long.
const TURN: Duration = Duration::from_micros(20);
/// Virtual time that paths may take to come up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bulk transfer between two ends in one process: packets, batches, ACKs; for profilers.
#[derive(Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Size of the transfer.
    #[arg(long, default_value_t = 200)]
    megabytes: u64,
    /// Number of paths.
    #[arg(long, default_value_t = 1)]
    paths: u16,
    /// Recovery scheme of both ends.
    #[arg(long, default_value_t)]
    recovery: RecoveryKind,
    /// Do not negotiate the repair extension.
    #[arg(long)]
    plain: bool,
    /// Virtual rate at which packets leave.
    #[arg(long, default_value = "5gbit")]
    rate: BitRate,
}

/// One end: its endpoint and connection, and what it has received and not handled.
struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Box<Connection>)>,
    inbox: VecDeque<Batch>,
    sent: Sent,
}

/// Datagrams that arrived together.
struct Batch {
    path: NetworkPath,
    stride: usize,
    bytes: Vec<u8>,
}

/// What an end has sent.
#[derive(Clone, Copy, Default)]
struct Sent {
    batches: u64,
    datagrams: u64,
    bytes: u64,
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

impl End {
    fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, connection: None, inbox: VecDeque::new(), sent: Sent::default() }
    }

    fn connection(&mut self) -> &mut Connection {
        &mut self.connection.as_mut().expect("it is connected").1
    }

    /// A turn as a driver takes it: what has arrived, timers, what is to be sent. Returns the bytes
    /// that it sent.
    fn turn(&mut self, now: Instant, peer: &mut VecDeque<Batch>) -> u64 {
        self.receive(now);
        let Some((handle, connection)) = &mut self.connection else { return 0 };
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
        }
        let before = self.sent.bytes;
        for _ in 0..BATCHES {
            let mut bytes = Vec::with_capacity(BATCH * 1_500);
            while let Some(event) = connection.poll_endpoint_event() {
                self.endpoint.handle_event(*handle, event);
            }
            let Some(transmit) = connection.poll_transmit(now, BATCH, &mut bytes) else { break };
            let stride = transmit.segment_size.unwrap_or(transmit.size);
            self.sent.batches += 1;
            self.sent.datagrams += bytes.len().div_ceil(stride) as u64;
            self.sent.bytes += bytes.len() as u64;
            let path = NetworkPath { local: transmit.path.remote, remote: transmit.path.local };
            peer.push_back(Batch { path, stride, bytes });
        }
        self.sent.bytes - before
    }

    fn receive(&mut self, now: Instant) {
        let mut datagrams = 0;
        while datagrams < DATAGRAMS
            && let Some(mut batch) = self.inbox.pop_front()
        {
            datagrams += batch.bytes.len().div_ceil(batch.stride);
            for data in batch.bytes.chunks_mut(batch.stride) {
                self.receive_datagram(now, batch.path, data);
            }
        }
    }

    fn receive_datagram(&mut self, now: Instant, path: NetworkPath, data: &mut [u8]) {
        let datagram = Datagram { path, ecn: None, data };
        match self.endpoint.handle_datagram(now, datagram, &mut Vec::new()) {
            Some(EndpointOutput::ToConnection(_)) => {
                self.connection().handle_datagram(now, Datagram { path, ecn: None, data });
            }
            Some(EndpointOutput::Incoming(incoming)) => {
                self.connection = self.endpoint.accept(now, *incoming).ok();
                self.connection().handle_datagram(now, Datagram { path, ecn: None, data });
            }
            Some(EndpointOutput::Reply(_) | EndpointOutput::Misdirected(_)) | None => {}
        }
    }
}

/// Both ends and the clock.
struct Pair {
    now: Instant,
    rate: BitRate,
    client: End,
    server: End,
}

impl Pair {
    fn new(arguments: &Arguments) -> Self {
        let mut transport = TransportConfig { recovery: arguments.recovery, ..TransportConfig::default() };
        transport.repair.accept = !arguments.plain;
        let server = ServerConfig::new(testkit::tls::server(), transport.clone());
        let mut client = End::new(Endpoint::new(None, [1; 32]));
        let path = NetworkPath { local: address(1), remote: address(443) };
        let config = ClientConfig::new(testkit::tls::client(), transport);
        let connected = client.endpoint.connect(Instant::ORIGIN, &config, path, testkit::tls::SERVER_NAME);
        client.connection = Some(connected.expect("the configuration is sound"));
        let server = End::new(Endpoint::new(Some(Arc::new(server)), [2; 32]));
        Self { now: Instant::ORIGIN, rate: arguments.rate, client, server }
    }

    /// A turn of each end; if neither has anything to send, the clock goes on to the next timer.
    fn step(&mut self) {
        let down = self.server.turn(self.now, &mut self.client.inbox);
        self.now += self.rate.time_to_send(down).max(TURN);
        let up = self.client.turn(self.now, &mut self.server.inbox);
        self.now += self.rate.time_to_send(up).max(TURN);
        if down + up == 0 && self.client.inbox.is_empty() && self.server.inbox.is_empty() {
            let ends = [&self.client, &self.server].into_iter();
            let timers = ends.filter_map(|end| end.connection.as_ref()?.1.poll_timeout());
            self.now = timers.min().map_or(self.now, |at| at.max(self.now));
        }
    }

    /// Connects and opens all paths.
    ///
    /// # Errors
    /// If the ends do not allow so many.
    fn establish(&mut self, paths: u16) -> Result<(), String> {
        let is_up = |end: &End| end.connection.as_ref().is_some_and(|(_, c)| !c.is_handshaking());
        while !is_up(&self.client) || !is_up(&self.server) {
            self.step();
        }
        let (mut opened, mut validated) = (1, 1);
        let end = self.now + PATIENCE;
        while validated < paths {
            if self.now > end {
                return Err(format!("{validated} of {paths} paths came up"));
            }
            let network = NetworkPath { local: address(1 + opened), remote: address(443) };
            let now = self.now;
            if opened < paths && self.client.connection().open_path(now, network).is_ok() {
                opened += 1;
            }
            self.step();
            while let Some(event) = self.client.connection().poll_event() {
                validated += u16::from(matches!(event, Event::Path(PathEvent::Validated(_))));
            }
        }
        Ok(())
    }

    /// The client asks, and reads `size` bytes of the server's.
    fn download(&mut self, size: u64) {
        let id = self.client.connection().open(Dir::Bi).expect("a stream may be opened");
        self.client.connection().write(id, b"?").expect("the stream is open");
        let (chunk, mut buffer) = (vec![7; CHUNK], vec![0; CHUNK]);
        let (mut left, mut got) = (size, 0);
        while got < size {
            let mut asked = false;
            while let Some(event) = self.server.connection().poll_event() {
                asked |=
                    matches!(event, Event::Stream(StreamEvent::Opened { .. } | StreamEvent::Writable(_)));
            }
            if asked {
                let server = self.server.connection();
                server.accept(Dir::Bi);
                left -= write(server, id, &chunk, left);
            }
            self.step();
            while let Some(event) = self.client.connection().poll_event() {
                if matches!(event, Event::Stream(StreamEvent::Readable(_))) {
                    while let Ok(Read::Data(n)) = self.client.connection().read(id, &mut buffer) {
                        got += n as u64;
                    }
                }
            }
        }
    }
}

/// Writes until the buffer is full or nothing is left; returns how much that was.
fn write(connection: &mut Connection, id: StreamId, chunk: &[u8], left: u64) -> u64 {
    let mut written = 0;
    while written < left
        && let Ok(n) = connection.write(id, &chunk[..chunk.len().min((left - written) as usize)])
    {
        written += n as u64;
    }
    written
}

/// Runs it.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut pair = Pair::new(arguments);
    if let Err(error) = pair.establish(arguments.paths) {
        eprintln!("packet-cost: {error}");
        return ExitCode::FAILURE;
    }
    let begun = pair.now;
    pair.download(arguments.megabytes * 1_000_000);
    let took = pair.now - begun;
    let stats = pair.server.connection().stats();
    let (down, up) = (pair.server.sent, pair.client.sent);
    let per = |a: u64, b: u64| a as f64 / b.max(1) as f64;
    println!(
        "virtual goodput          {:>10.2} Gbit/s",
        arguments.megabytes as f64 * 8e-3 / took.as_secs_f64()
    );
    println!("server's packets         {:>10}", down.datagrams);
    println!("  per batch              {:>10.1}", per(down.datagrams, down.batches));
    println!("  recovery, % of bytes   {:>10.2}", per(stats.recovery_bytes_sent, stats.bytes_sent) * 100.0);
    println!("  lost                   {:>10}", stats.packets_lost);
    println!("client's packets         {:>10}", up.datagrams);
    println!("  per packet of data     {:>10.3}", per(up.datagrams, down.datagrams));
    for path in pair.server.connection().paths() {
        println!("path {:<19} {:>10} packets", path.id.0, path.packets_sent);
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::read;

    #[test]
    fn more_paths_than_are_allowed_are_not_waited_for_without_end() {
        let arguments: Arguments = read(&["packet-cost"]).unwrap();
        assert_eq!(Pair::new(&arguments).establish(2), Ok(()));
        let error = Pair::new(&arguments).establish(100).unwrap_err();
        assert!(error.ends_with(" of 100 paths came up"), "{error}");
    }
}
