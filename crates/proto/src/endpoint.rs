//! Which connection a datagram belongs to, and the making of connections.

mod admission;
mod incoming;
mod lobby;
mod rate_limit;
mod reset;
mod routes;
#[cfg(test)]
mod tests;
mod used_tokens;
mod workers;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use rand_chacha::{
    ChaCha12Rng,
    rand_core::{RngCore, SeedableRng},
};
use ring::hmac;
use smallvec::SmallVec;
use units::Instant;

use crate::{
    ClientConfig, Datagram, NetworkPath, QuicLb, ServerConfig, Transmit,
    cids::{CidMaker, random_cid},
    connection::{Connection, EndpointEvent, EndpointEventKind, Secrets},
    token::TokenKey,
    wire::{ConnectionId, HeaderKind, ProtectedHeader, VERSION_1, encode_version_negotiation},
};
use admission::Knock;
pub use incoming::{AcceptError, Incoming};
use lobby::Lobby;
use rate_limit::RateLimit;
use routes::Routes;
use used_tokens::UsedTokens;

/// Smallest datagram that may start a connection (RFC 9000 section 14.1).
const MIN_INITIAL_DATAGRAM: usize = 1_200;
/// Stateless resets per second; whoever gets none finds out by its idle timeout (RFC 9000
/// section 10.3.3).
const RESETS_PER_SECOND: u32 = 1_000;
/// Refusals per second that are told to the client; each takes a key derivation. Other clients hear
/// nothing and try again.
const REFUSALS_PER_SECOND: u32 = 1_000;
/// Shortest datagram that can be a stateless reset (RFC 9000 section 10.3).
const MIN_RESET: usize = 21;

/// Connections put out that whoever drives them has not heard of; of the oldest beyond, each ends
/// by its own timers.
const MAX_EVICTED: usize = 4_096;

/// Names a connection within its endpoint. Handles are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle(pub usize);

/// Bytes of a ProtocolName (RFC 7301 section 3.1); TLS leaves it to us to see to that.
const ALPN_NAME: std::ops::RangeInclusive<usize> = 1..=255;

/// Why a connection was not begun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Not a DNS name or IP address.
    #[error("`{0}` is not a valid server name")]
    InvalidServerName(String),
    /// TLS refused its configuration.
    #[error("TLS: {0}")]
    Tls(String),
}

/// What becomes of a datagram.
#[derive(Debug)]
pub enum EndpointOutput {
    /// It is for this connection: give it to [`Connection::handle_datagram`].
    ToConnection(ConnectionHandle),
    /// A client asks for a connection: decide about it.
    Incoming(Box<Incoming>),
    /// Send this at once; the bytes are in the buffer given along.
    Reply(Transmit),
    /// It is for this other worker, see [`Endpoint::into_workers`]: give it to that one.
    Misdirected(usize),
}

/// How an endpoint dealt with strangers. Counters only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Connections accepted.
    pub accepted: u64,
    /// Clients that are not let in, at present: the application has not decided about them, their
    /// handshake is under way or, with [`Admission`](crate::Admission), they wait to be admitted.
    pub half_open: usize,
    /// Clients put out of that room for newcomers; the oldest go first.
    pub evicted: u64,
    /// Of those, how many had to go because the newcomer's network had its share of the room.
    pub evicted_by_network: u64,
    /// Retry packets sent (RFC 9000 section 8.1.2).
    pub retries_sent: u64,
    /// Connections refused because too many were open, their Retry token was not ours, or the
    /// application said so.
    pub refused: u64,
    /// Version Negotiation packets sent (RFC 9000 section 6).
    pub version_negotiations_sent: u64,
    /// Stateless resets sent (RFC 9000 section 10.3).
    pub resets_sent: u64,
    /// Datagrams that came to another worker than the one they were for, and were handed on
    /// ([`Endpoint::into_workers`]).
    pub misdirected: u64,
    /// Datagrams dropped without an answer: garbage, fragments, packets of nobody, and clients that
    /// the application ignored.
    pub dropped: u64,
}

/// The key that an endpoint's stateless resets are made from (RFC 9000 section 10.3.2). Whoever has
/// it can end every connection of the endpoint; its `Debug` form hides it.
#[derive(Clone)]
pub struct ResetKey([u8; Self::LEN]);

impl ResetKey {
    /// Length in bytes.
    pub const LEN: usize = 32;

    /// A key of these bytes, which should be random.
    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The key's bytes, to store them.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl core::fmt::Debug for ResetKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ResetKey(..)")
    }
}

/// All connections that share sockets, without I/O.
///
/// Bounds: see [`ServerConfig`] for connections; beyond those, 128 KiB to know used tokens. Answers
/// to strangers are always smaller than the datagram they answer.
pub struct Endpoint {
    server: Option<Arc<ServerConfig>>,
    rng: ChaCha12Rng,
    reset_key: Arc<hmac::Key>,
    cids: CidMaker,
    token_key: Arc<TokenKey>,
    /// Workers share them: a token is good once.
    used_tokens: Arc<Mutex<UsedTokens>>,
    routes: Routes,
    /// How many workers share the limits.
    workers: usize,
    lobby: Lobby,
    evicted: VecDeque<ConnectionHandle>,
    resets: RateLimit,
    refusals: RateLimit,
    stats: EndpointStats,
}

impl Endpoint {
    /// An endpoint that accepts connections if `server` says how. The seed decides every random
    /// choice.
    pub fn new(server: Option<Arc<ServerConfig>>, seed: [u8; 32]) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        let (mut reset_key, mut lookup_key, mut token_key) = ([0; 32], [0; 32], [0; 16]);
        rng.fill_bytes(&mut reset_key);
        rng.fill_bytes(&mut lookup_key);
        rng.fill_bytes(&mut token_key);
        Self {
            server,
            rng,
            reset_key: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &reset_key)),
            cids: CidMaker::RANDOM,
            token_key: Arc::new(TokenKey::new(&token_key)),
            used_tokens: Arc::default(),
            routes: Routes::new(&lookup_key),
            workers: 1,
            lobby: Lobby::default(),
            evicted: VecDeque::new(),
            resets: RateLimit::new(RESETS_PER_SECOND),
            refusals: RateLimit::new(REFUSALS_PER_SECOND),
            stats: EndpointStats::default(),
        }
    }

    /// Makes stateless resets from this key instead of one that the seed gives (RFC 9000
    /// section 10.3.2): an endpoint that is started again with the same key ends the connections
    /// that it has forgotten, as soon as their peers send. To be called before the first
    /// connection.
    #[must_use]
    pub fn with_reset_key(mut self, key: &ResetKey) -> Self {
        self.reset_key = Arc::new(hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()));
        self
    }

    /// Issues connection ids that balancers with this configuration can read, those of further
    /// paths and of Retry included. To be called before the first connection.
    ///
    /// Packets that a balancer should have brought to another server are dropped without a word.
    #[must_use]
    pub fn with_quic_lb(mut self, config: QuicLb) -> Self {
        let mut key = [0; QuicLb::KEY_LEN];
        self.rng.fill_bytes(&mut key);
        self.cids = CidMaker::readable(config, &key);
        self
    }

    /// Changes how new connections are accepted; `None` refuses them.
    pub fn set_server_config(&mut self, server: Option<Arc<ServerConfig>>) {
        self.server = server;
    }

    /// How many connections there are, closing ones included.
    pub fn open_connections(&self) -> usize {
        self.routes.connections()
    }

    /// How strangers were dealt with.
    pub fn stats(&self) -> EndpointStats {
        EndpointStats { half_open: self.lobby.len(), ..self.stats }
    }

    /// Begins a connection to a server.
    ///
    /// # Errors
    /// [`ConnectError`] if the name cannot be one or TLS refuses its configuration.
    pub fn connect(
        &mut self,
        now: Instant,
        config: &ClientConfig,
        path: NetworkPath,
        server_name: &str,
    ) -> Result<(ConnectionHandle, Box<Connection>), ConnectError> {
        let name = rustls::pki_types::ServerName::try_from(server_name.to_owned())
            .map_err(|_| ConnectError::InvalidServerName(server_name.to_owned()))?;
        if config.tls.alpn_protocols.iter().any(|name| !ALPN_NAME.contains(&name.len())) {
            let reason = "the name of an application protocol has 1 to 255 bytes";
            return Err(ConnectError::Tls(reason.to_owned()));
        }
        // The first destination is the server's name for nothing: no balancer is to read it.
        let (local, original) = (self.new_cid(), random_cid(&mut self.rng));
        let secrets = self.secrets();
        let connection = Connection::client(now, config, name, path, local, original, secrets)
            .map_err(|error| ConnectError::Tls(error.to_string()))?;
        let handle = self.routes.add(&[local]);
        Ok((handle, Box::new(connection)))
    }

    /// Finds out what to do with a datagram. `out` receives the bytes of an
    /// [`EndpointOutput::Reply`].
    ///
    /// `None` drops it: nobody's packet, or one that must not be answered.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        datagram: Datagram<'_>,
        out: &mut Vec<u8>,
    ) -> Option<EndpointOutput> {
        let Ok(header) = ProtectedHeader::decode(datagram.data, self.cids.len()) else {
            // Resets may be shorter than any packet of ours.
            return self.reset_of_ours(datagram);
        };
        if let Some(handle) = self.routes.by_cid(&header.dcid) {
            return Some(EndpointOutput::ToConnection(handle));
        }
        let unknown = header.dcid;
        if let Some(worker) = self.cids.elsewhere(&unknown) {
            return Some(self.hand_on(worker, &header.kind, datagram.data));
        }
        match header.kind {
            HeaderKind::UnknownVersion { dcid, scid } => self.negotiate_version(&datagram, dcid, scid, out),
            HeaderKind::Initial { token } => {
                // The token outlives the borrow of the datagram; of those that matter none is
                // longer than this.
                let token: SmallVec<[u8; 64]> = SmallVec::from_slice(token.get(..64).unwrap_or(token));
                let knock = Knock {
                    destination: header.dcid,
                    source: header.scid,
                    token: &token,
                    number_at: header.pn_offset,
                    end: header.len,
                };
                self.admit(now, datagram, &knock, out)
            }
            HeaderKind::Short => self.on_unknown_short(now, datagram, unknown, out),
            _ => {
                self.stats.dropped += 1;
                None
            }
        }
    }

    /// A 1-RTT packet for a connection that we do not know: a reset of one of ours, or a reason to
    /// send one.
    fn on_unknown_short(
        &mut self,
        now: Instant,
        datagram: Datagram<'_>,
        dcid: ConnectionId,
        out: &mut Vec<u8>,
    ) -> Option<EndpointOutput> {
        if let Some(output) = self.reset_of_a_connection(datagram.data) {
            return Some(output);
        }
        if !self.cids.may_have_made(&dcid) {
            self.stats.dropped += 1;
            return None;
        }
        let written = reset::write(&mut self.rng, &self.reset_key, &dcid, datagram.data.len(), out);
        if !written || !self.resets.take(now) {
            self.stats.dropped += 1;
            return None;
        }
        self.stats.resets_sent += 1;
        Some(reply(&datagram, out))
    }

    /// Takes what cannot be read as a packet for the reset of a connection, if it is one.
    fn reset_of_ours(&mut self, datagram: Datagram<'_>) -> Option<EndpointOutput> {
        if datagram.data.len() >= MIN_RESET
            && let Some(output) = self.reset_of_a_connection(datagram.data)
        {
            return Some(output);
        }
        self.stats.dropped += 1;
        None
    }

    /// Takes what a connection tells about itself.
    pub fn handle_event(&mut self, handle: ConnectionHandle, event: EndpointEvent) {
        match event.0 {
            EndpointEventKind::NewCid(cid) => self.routes.add_cid(handle, cid),
            EndpointEventKind::RetiredCid(cid) => self.routes.retire_cid(handle, cid),
            EndpointEventKind::ResetTokens(tokens) => self.routes.set_reset_tokens(handle, &tokens),
            EndpointEventKind::HandshakeComplete => self.lobby.validate(handle),
            EndpointEventKind::Admitted => self.lobby.leave(handle),
            EndpointEventKind::Drained => self.forget(handle),
        }
    }

    /// Forgets a connection that will not say that it is drained, because whoever drove it is gone.
    /// Its peer gets a stateless reset.
    pub fn forget(&mut self, handle: ConnectionHandle) {
        self.lobby.leave(handle);
        self.routes.remove(handle);
    }

    /// The next connection that had to make room for another, to be asked after each datagram: tell
    /// it by [`Connection::evict`]. The endpoint has forgotten it already.
    pub fn poll_evicted(&mut self) -> Option<ConnectionHandle> {
        self.evicted.pop_front()
    }

    /// Tells a peer of an unknown version what we speak (RFC 9000 section 6.1). The answer is never
    /// larger than the question.
    fn negotiate_version(
        &mut self,
        datagram: &Datagram<'_>,
        dcid: &[u8],
        scid: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<EndpointOutput> {
        if self.server.is_none() || datagram.data.len() < MIN_INITIAL_DATAGRAM {
            self.stats.dropped += 1;
            return None;
        }
        out.clear();
        let random = (self.rng.next_u32() & 0x7f) as u8;
        encode_version_negotiation(random, scid, dcid, &[VERSION_1], out);
        self.stats.version_negotiations_sent += 1;
        Some(reply(datagram, out))
    }

    fn new_cid(&mut self) -> ConnectionId {
        self.cids.make(&mut self.rng)
    }

    fn secrets(&mut self) -> Secrets {
        let mut rng = [0; 32];
        self.rng.fill_bytes(&mut rng);
        Secrets {
            rng,
            reset_key: self.reset_key.clone(),
            cids: self.cids.clone(),
            token_key: self.token_key.clone(),
        }
    }
}

/// The answer in `out` to whoever sent the datagram.
fn reply(datagram: &Datagram<'_>, out: &[u8]) -> EndpointOutput {
    EndpointOutput::Reply(reply_to(datagram.path, datagram.data.len(), out))
}

/// The answer in `out` to a datagram of so many bytes.
fn reply_to(path: NetworkPath, bytes: usize, out: &[u8]) -> Transmit {
    debug_assert!(out.len() < bytes, "answers to strangers are smaller than their cause");
    Transmit { path, ecn: None, size: out.len(), segment_size: None }
}
