//! One QUIC connection: a struct that owns the subsystems and connects them.
//!
//! | file          | concern                                                                    |
//! |---------------|----------------------------------------------------------------------------|
//! | `handshake`   | TLS, Initial and Handshake packets, what follows from transport parameters |
//! | `early`       | data before the handshake is complete (0-RTT)                              |
//! | `key_update`  | when 1-RTT keys follow each other (RFC 9001 section 6)                     |
//! | `retry`       | Retry, Version Negotiation and address validation tokens                   |
//! | `application` | what the application writes and reads: streams, datagrams                  |
//! | `receive`     | from datagrams to packets                                                  |
//! | `frames`      | from packets to frames to subsystems                                       |
//! | `acks`        | what becomes of packets: whom an ACK or a loss concerns                    |
//! | `transmit`    | which packet is next                                                       |
//! | `path_bound`  | what must leave on a certain path: validation, probes                      |
//! | `packet`      | how a packet is built, sealed and recorded                                 |
//! | `repair`      | what recovery sends and receives: copies, symbols, blocks                  |
//! | `observe`     | what an observer is told, for traces                                       |
//! | `multipath`   | opening, validating, closing paths                                         |
//! | `migration`   | paths whose addresses change                                               |
//! | `silence`     | probe timeouts, and receivers that wait in vain                            |
//! | `admission`   | what a client may use up before the application lets it in                 |
//! | `close`       | how a connection ends                                                      |
//! | `declared`    | what the peer's transport parameters say                                   |
//! | `counters`    | what is counted                                                            |
//! | `timers`      | deadlines                                                                  |
//! | `bulk`        | whether all that happens is that stream data comes in                      |
//! | `rest`        | what is given back when nothing happens                                    |
//! | `neglect`     | the rule that whatever waits has a deadline                                |

mod acks;
mod admission;
mod application;
mod bulk;
mod close;
mod counters;
mod declared;
mod early;
mod event;
mod frames;
#[cfg(feature = "fuzzing")]
mod fuzzing;
mod handshake;
mod jumbo;
mod key_update;
mod migration;
mod multipath;
mod neglect;
mod network;
mod observe;
mod packet;
mod path_bound;
mod receive;
pub(crate) mod repair;
mod rest;
mod retry;
mod silence;
mod timers;
mod transmit;

use std::{collections::VecDeque, net::SocketAddr, sync::Arc};

use ring::hmac;
use units::{Duration, Instant};

pub(crate) use event::EndpointEventKind;
pub use event::{ConnectionError, DatagramError, EndpointEvent, Event, PathError, PathEvent};

use self::observe::Watcher;
use crate::{
    AddressValidation, Admission, ConnectionStats, NetworkPath, PathSnapshot, PathStats, RecoveryReasons,
    cids::{CidMaker, CidRegistry, reset_token},
    config::TransportConfig,
    datagrams::Datagrams,
    path::{Path, loss::LossOutcome, newly_acked::NewlyAcked, sent::ControlFrame, table::Paths},
    randomness::Randomness,
    scheduler::Scheduler,
    streams::Streams,
    token::TokenKey,
    token_store::TokenStore,
    wire::{ConnectionId, PathId, Side, TransportError, TransportErrorCode},
};
use bulk::BulkRun;
use close::State;
use counters::Counters;
use declared::Declared;
use early::EarlyData;
use handshake::Handshake;
use multipath::PathIds;
use repair::Repair;
use rest::Rest;
use timers::IdleTimer;

/// Control frames that may wait at once; a peer that makes us owe more is closed
/// (PROTOCOL_VIOLATION).
const MAX_PENDING_CONTROL: usize = 4_096;
/// Our ack_delay_exponent (the default of RFC 9000 section 18.2).
const ACK_DELAY_EXPONENT: u8 = 3;

/// What an endpoint keeps from strangers and its connections need.
pub(crate) struct Secrets {
    /// The connection's own source of randomness begins with this.
    pub(crate) rng: [u8; 32],
    pub(crate) reset_key: Arc<hmac::Key>,
    pub(crate) cids: CidMaker,
    pub(crate) token_key: Arc<TokenKey>,
}

/// What a client's first Initial packet says, the one that makes the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstInitial {
    /// Where it goes; the Initial keys follow from it.
    pub(crate) destination: ConnectionId,
    /// Where it comes from.
    pub(crate) source: ConnectionId,
    pub(crate) token: AddressToken,
}

/// What the token of a client's first Initial packet shows (RFC 9000 section 8.1). With any, the
/// client receives at its address: no amplification limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressToken {
    /// There is none, or it is as good as none.
    None,
    /// The client answered a Retry, which told it where to send now; its very first packet went
    /// here.
    Retry(ConnectionId),
    /// A NEW_TOKEN frame brought it.
    New,
}

/// Where a client keeps the tokens of its server.
struct TokenOwner {
    store: Arc<TokenStore>,
    name: String,
    server: SocketAddr,
}

/// One QUIC connection, without I/O.
///
/// # Methods
/// - getters take `&self`;
/// - `handle_*` take what comes from the network, the endpoint and the clock;
/// - the application's calls change streams, datagrams and paths;
/// - `poll_*` give what is to be done.
///
/// # Polling order
/// After any call that may change something: [`poll_endpoint_event`](Self::poll_endpoint_event)
/// until `None` (so that the endpoint knows new connection ids before the peer does), then
/// [`poll_transmit`](Self::poll_transmit) until `None`, then [`poll_event`](Self::poll_event) until
/// `None`, then [`poll_timeout`](Self::poll_timeout) once.
///
/// # Time
/// `now` may stand still from call to call and jump ahead, but never goes back: deadlines that were
/// made of a later moment would be too late, which debug builds find by an assertion.
pub struct Connection {
    side: Side,
    /// See [`original_id`](Self::original_id).
    original: ConnectionId,
    /// Shared with whoever it is from, as long as the peer takes datagrams as large.
    config: Arc<TransportConfig>,
    state: State,
    rng: Randomness,
    handshake: Handshake,
    early: EarlyData,
    cids: CidRegistry,
    token_key: Arc<TokenKey>,
    /// The token that the peer gets in NEW_TOKEN; servers only.
    new_token: Vec<u8>,
    issue_tokens: bool,
    /// Clients only.
    token_owner: Option<Box<TokenOwner>>,
    paths: Paths,
    path_ids: PathIds,
    /// The peer's address when the connection began.
    handshake_remote: std::net::SocketAddr,
    peer: Declared,
    streams: Streams,
    datagrams: Datagrams,
    /// Frames outside of streams that wait to be sent.
    control: VecDeque<ControlFrame>,
    repair: Repair,
    scheduler: Box<dyn Scheduler>,
    /// Which paths meet in one bottleneck.
    bottlenecks: congestion::Bottlenecks,
    /// Servers: when the handshake must be complete.
    handshake_deadline: Option<Instant>,
    /// Servers: the client is not let in yet, and this is what it may use up.
    awaiting: Option<Admission>,
    idle: IdleTimer,
    rest: Rest,
    bulk: BulkRun,
    events: VecDeque<Event>,
    endpoint_events: VecDeque<EndpointEvent>,
    stats: Counters,
    /// How the recovery scheme makes do, if the peer does not decode what it needs.
    instead: Option<&'static str>,
    scratch: Scratch,
    watcher: Watcher,
}

/// Buffers that are reused from call to call.
#[derive(Default)]
struct Scratch {
    snapshots: Vec<PathSnapshot>,
    /// Boxed for the sake of connections at rest.
    acked: Option<Box<NewlyAcked>>,
    lost: LossOutcome,
    group: Vec<congestion::PathWindow>,
}

impl Connection {
    /// A client's connection; its first packet waits to be transmitted.
    pub(crate) fn client(
        now: Instant,
        config: &crate::ClientConfig,
        server_name: rustls::pki_types::ServerName<'static>,
        path: NetworkPath,
        local_cid: ConnectionId,
        original_cid: ConnectionId,
        secrets: Secrets,
    ) -> Result<Self, rustls::Error> {
        let transport = config.transport.clone();
        let name = server_name.to_str().into_owned();
        let parameters = handshake::local_parameters(&transport, local_cid);
        let tls = crate::crypto::TlsSession::client(config.tls.clone(), server_name, parameters.encode())?;
        let token = config.tokens.take(&name, path.remote).unwrap_or_default();
        let handshake = Handshake::new(tls, Side::Client, original_cid, token);
        let mut connection =
            Self::new(now, Side::Client, transport, path, local_cid, original_cid, handshake, secrets);
        connection.begin_watch(now, original_cid);
        connection.path_zero().trust_address();
        let owner = TokenOwner { store: config.tokens.clone(), name, server: path.remote };
        connection.token_owner = Some(Box::new(owner));
        connection.drive_tls(now);
        Ok(connection)
    }

    /// A server's connection, made for a client's first Initial packet, which it has not seen yet.
    pub(crate) fn server(
        now: Instant,
        config: &crate::ServerConfig,
        path: NetworkPath,
        local_cid: ConnectionId,
        client: FirstInitial,
        secrets: Secrets,
    ) -> Result<Self, rustls::Error> {
        let wide = &config.transport;
        let transport =
            config.admission.as_ref().map_or_else(|| wide.clone(), |a| admission::narrow(wide, a).into());
        let mut parameters = handshake::local_parameters(&transport, local_cid);
        let (original, retry_source) = match client.token {
            AddressToken::Retry(original) => (original, Some(client.destination)),
            AddressToken::None | AddressToken::New => (client.destination, None),
        };
        parameters.original_destination_connection_id = Some(original);
        parameters.retry_source_connection_id = retry_source;
        parameters.stateless_reset_token = Some(reset_token(&secrets.reset_key, &local_cid));
        parameters.disable_active_migration = !transport.migration;
        let tls = crate::crypto::TlsSession::server(config.tls.clone(), parameters.encode())?;
        let handshake = Handshake::new(tls, Side::Server, client.destination, Vec::new());
        let mut connection =
            Self::new(now, Side::Server, transport, path, local_cid, client.source, handshake, secrets);
        connection.begin_watch(now, original);
        if client.token != AddressToken::None {
            connection.path_zero().trust_address();
        }
        connection.issue_tokens = config.address_validation != AddressValidation::Never;
        connection.handshake_deadline = Some(now + config.handshake_timeout.into());
        if let Some(admission) = config.admission {
            connection.await_admission(admission, wide);
        }
        Ok(connection)
    }

    #[allow(clippy::too_many_arguments)] // private: the two constructors above are the interface
    fn new(
        now: Instant,
        side: Side,
        config: Arc<TransportConfig>,
        network: NetworkPath,
        local_cid: ConnectionId,
        remote_cid: ConnectionId,
        handshake: Handshake,
        secrets: Secrets,
    ) -> Self {
        let mut path = Path::new(PathId::ZERO, network, &config, now);
        path.open();
        let idle = IdleTimer::new(now, config.max_idle_timeout.into(), path.rtt().pto_base());
        let mut paths = Paths::new();
        paths.insert(PathId::ZERO, path);
        Self {
            side,
            original: remote_cid,
            state: State::Open,
            rng: Randomness::new(secrets.rng),
            handshake,
            early: EarlyData::default(),
            cids: CidRegistry::new(local_cid, remote_cid, secrets.reset_key, secrets.cids),
            token_key: secrets.token_key,
            new_token: Vec::new(),
            issue_tokens: false,
            token_owner: None,
            paths,
            path_ids: PathIds::default(),
            handshake_remote: network.remote,
            peer: Declared::default(),
            streams: Streams::new(side, &config.streams()),
            datagrams: Datagrams::new(config.datagram_send_buffer, config.datagram_receive_buffer),
            control: VecDeque::new(),
            repair: Repair::new(&config.repair, config.recovery),
            scheduler: config.scheduler.build(),
            bottlenecks: congestion::Bottlenecks::default(),
            handshake_deadline: None,
            awaiting: None,
            idle,
            rest: Rest::new(now),
            bulk: BulkRun::default(),
            events: VecDeque::new(),
            endpoint_events: VecDeque::new(),
            stats: Counters::default(),
            instead: None,
            scratch: Scratch::default(),
            watcher: Watcher::default(),
            config,
        }
    }

    // ---- getters

    /// Which role we have.
    pub fn side(&self) -> Side {
        self.side
    }

    /// The destination connection id of the client's very first packet. Both ends know it, and
    /// traces are named after it.
    pub fn original_id(&self) -> ConnectionId {
        self.original
    }

    /// Whether the TLS handshake is still under way.
    pub fn is_handshaking(&self) -> bool {
        !self.handshake.is_complete()
    }

    /// Whether the connection carries no more data: closed by either side, timed out, or failed.
    pub fn is_closed(&self) -> bool {
        self.state.is_closed()
    }

    /// Whether everything is over and the connection may be dropped.
    pub fn is_drained(&self) -> bool {
        self.state.is_drained()
    }

    /// Whether several paths may be used.
    pub fn multipath_negotiated(&self) -> bool {
        self.path_ids.limits.is_some()
    }

    /// Whether the peer rebuilds packets from our repair symbols.
    pub fn repair_negotiated(&self) -> bool {
        self.repair.peer_decodes()
    }

    /// The peer's certificate chain, once the handshake is complete and if it sent one.
    pub fn peer_certificates(&self) -> Option<Vec<rustls::pki_types::CertificateDer<'static>>> {
        self.handshake.tls.peer_certificates()
    }

    /// Whether the session was resumed with a ticket of an earlier connection (RFC 8446
    /// section 2.2).
    pub fn is_resumed(&self) -> bool {
        self.handshake.tls.is_resumed()
    }

    /// The negotiated application protocol (RFC 7301).
    pub fn alpn(&self) -> Option<Vec<u8>> {
        self.handshake.tls.alpn()
    }

    /// Live statistics of every path, in path id order.
    pub fn paths(&self) -> Vec<PathStats> {
        let mut paths: Vec<_> = self.paths.values().map(Path::stats).collect();
        for path in &mut paths {
            path.left_out = self.datagrams.are_left_out_of(path.id);
            path.bottleneck = self.bottlenecks.group(path.id.0).map(PathId);
        }
        if let Some(zero) = paths.first_mut().filter(|p| p.id == PathId::ZERO) {
            // The handshake's packets take path 0, too.
            zero.packets_outstanding +=
                self.handshake.spaces().map(|s| s.space.sent().len() as u64).sum::<u64>();
        }
        paths
    }

    fn reasons(&self) -> RecoveryReasons {
        RecoveryReasons { handshake: self.stats.handshake_copies.into(), ..self.repair.reasons() }
    }

    fn begin_watch(&mut self, now: Instant, original: ConnectionId) {
        self.original = original;
        let observe = self.config.observe.as_ref();
        self.watcher = Watcher::new(observe.and_then(|o| o.connection(now, self.side, &original)));
    }

    /// Live statistics of the connection.
    pub fn stats(&self) -> ConnectionStats {
        let mut stats = self.stats.stats();
        let recovery = self.config.recovery;
        stats.recovery = match self.instead {
            Some(instead) => format!("{recovery} ({instead}: the peer does not decode)"),
            None => recovery.to_string(),
        };
        self.repair.fill_stats(&mut stats);
        stats.stream_bytes_sent = self.streams.first_sent_bytes();
        stats.reasons = self.reasons();
        stats.datagrams_dropped = self.datagrams.dropped();
        stats.timed.expired = self.datagrams.expired();
        stats.control_pending = self.control.len();
        stats.bottleneck_probes = self.bottlenecks.experiments();
        stats
    }

    /// What streams hold in memory.
    pub fn stream_stats(&self) -> crate::StreamsStats {
        self.streams.stats()
    }

    // ---- polling

    /// The next thing to tell the endpoint, before what [`poll_transmit`](Self::poll_transmit) has
    /// answered leaves: it may name a connection id that the peer uses at once. See the polling
    /// order on the type.
    pub fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        if let Some(tokens) = self.cids.changed_reset_tokens() {
            self.endpoint_events.push_front(EndpointEvent(EndpointEventKind::ResetTokens(tokens)));
        }
        self.endpoint_events.pop_front()
    }

    /// The next piece of news for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if self.datagrams.take_unblocked() {
            return Some(Event::DatagramsUnblocked);
        }
        if self.state.is_closed() || !self.may_send_data() {
            return None;
        }
        self.streams.poll_event().map(Event::Stream)
    }

    // ---- shared by the files of this module

    fn path_zero(&mut self) -> &mut Path {
        self.paths.of_handshake_mut().expect("path 0 exists while the handshake runs")
    }

    /// Queues a control frame unless it waits already.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if the peer made us owe too many.
    fn queue_control(&mut self, frame: ControlFrame) -> Result<(), TransportError> {
        if self.control.len() >= MAX_PENDING_CONTROL {
            return Err(TransportError::new(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "too many frames owed to the peer",
            ));
        }
        if self.control.contains(&frame) {
            return Ok(());
        }
        self.control.push_back(frame);
        Ok(())
    }

    /// The largest delay that the peer adds to ACKs on purpose.
    fn peer_max_ack_delay(&self) -> Duration {
        if self.handshake.is_confirmed() { self.peer.max_ack_delay } else { Duration::ZERO }
    }
}

impl core::fmt::Debug for Connection {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Connection")
            .field("side", &self.side)
            .field("state", &self.state)
            .field("paths", &self.paths.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
