//! Which connection a datagram belongs to, and the making of connections.

use std::{collections::BTreeMap, sync::Arc};

use rand_chacha::{
    ChaCha12Rng,
    rand_core::{RngCore, SeedableRng},
};
use ring::hmac;
use units::Instant;

use crate::{
    CID_LEN, ClientConfig, Datagram, NetworkPath, ServerConfig, Transmit,
    connection::{Connection, EndpointEvent, EndpointEventKind, Seed},
    crypto::{self, TAG_LEN},
    wire::{
        ConnectionClose, ConnectionId, HeaderKind, LongHeader, PacketKind, PathId, ProtectedHeader, Side,
        TransportErrorCode, VERSION_1, encode_version_negotiation,
    },
};

/// Smallest datagram that may start a connection (RFC 9000 section 14.1).
const MIN_INITIAL_DATAGRAM: usize = 1_200;
/// Shortest destination connection id of a client's first packet (RFC 9000 section 7.2).
const MIN_FIRST_CID: usize = 8;

/// Names a connection within its endpoint. Handles are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle(pub usize);

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
    /// It made a new connection, which has been fed with it.
    Accepted(ConnectionHandle, Box<Connection>),
    /// Send this at once; the bytes are in the buffer given along.
    Reply(Transmit),
}

/// All connections that share sockets, without I/O.
pub struct Endpoint {
    server: Option<Arc<ServerConfig>>,
    rng: ChaCha12Rng,
    reset_key: hmac::Key,
    cids: BTreeMap<ConnectionId, ConnectionHandle>,
    connections: BTreeMap<ConnectionHandle, Vec<ConnectionId>>,
    next_handle: usize,
}

impl Endpoint {
    /// An endpoint that accepts connections if `server` says how. The seed decides every random choice.
    pub fn new(server: Option<Arc<ServerConfig>>, seed: [u8; 32]) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        let mut key = [0; 32];
        rng.fill_bytes(&mut key);
        Self {
            server,
            rng,
            reset_key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            cids: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_handle: 0,
        }
    }

    /// Changes how new connections are accepted; `None` refuses them.
    pub fn set_server_config(&mut self, server: Option<Arc<ServerConfig>>) {
        self.server = server;
    }

    /// How many connections there are, closing ones included.
    pub fn open_connections(&self) -> usize {
        self.connections.len()
    }

    /// Begins a connection to a server.
    pub fn connect(
        &mut self,
        now: Instant,
        config: &ClientConfig,
        path: NetworkPath,
        server_name: &str,
    ) -> Result<(ConnectionHandle, Box<Connection>), ConnectError> {
        let name = rustls::pki_types::ServerName::try_from(server_name.to_owned())
            .map_err(|_| ConnectError::InvalidServerName(server_name.to_owned()))?;
        let (local, original) = (self.new_cid(), self.new_cid());
        let seed = self.seed();
        let connection = Connection::client(now, config, name, path, local, original, seed)
            .map_err(|error| ConnectError::Tls(error.to_string()))?;
        let handle = self.add(&[local]);
        Ok((handle, Box::new(connection)))
    }

    /// Finds out what to do with a datagram. `reply` receives the bytes of an [`EndpointOutput::Reply`].
    ///
    /// `None` drops it: nobody's packet, or one that must not be answered.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        datagram: Datagram<'_>,
        reply: &mut Vec<u8>,
    ) -> Option<EndpointOutput> {
        let header = ProtectedHeader::decode(datagram.data, CID_LEN).ok()?;
        if let HeaderKind::UnknownVersion { dcid, scid } = header.kind {
            return self.negotiate_version(&datagram, dcid, scid, reply);
        }
        if let Some(&handle) = self.cids.get(&header.dcid) {
            return Some(EndpointOutput::ToConnection(handle));
        }
        let (kind, dcid, scid, number_at, len) =
            (header.kind, header.dcid, header.scid, header.pn_offset, header.len);
        let acceptable = matches!(kind, HeaderKind::Initial { token } if token.is_empty())
            && datagram.data.len() >= MIN_INITIAL_DATAGRAM
            && dcid.len() >= MIN_FIRST_CID;
        if !acceptable || !opens(&dcid, &datagram.data[..len], number_at) {
            return None;
        }
        self.accept(now, datagram, dcid, scid, reply)
    }

    fn accept(
        &mut self,
        now: Instant,
        datagram: Datagram<'_>,
        original: ConnectionId,
        client: ConnectionId,
        reply: &mut Vec<u8>,
    ) -> Option<EndpointOutput> {
        let server = self.server.clone()?;
        if self.connections.len() >= server.max_connections {
            return refuse(&datagram, &original, &client, reply);
        }
        let local = self.new_cid();
        let seed = self.seed();
        let connection = Connection::server(now, &server, datagram.path, local, original, client, seed);
        let mut connection = Box::new(connection.ok()?);
        // Until it has seen our choice, the client sends to its own.
        let handle = self.add(&[local, original]);
        connection.handle_datagram(now, datagram);
        Some(EndpointOutput::Accepted(handle, connection))
    }

    /// Takes what a connection tells about itself.
    pub fn handle_event(&mut self, handle: ConnectionHandle, event: EndpointEvent) {
        match event.0 {
            EndpointEventKind::NewCid(cid) => {
                if let Some(cids) = self.connections.get_mut(&handle) {
                    cids.push(cid);
                    self.cids.insert(cid, handle);
                }
            }
            EndpointEventKind::RetiredCid(cid) => {
                self.cids.remove(&cid);
                if let Some(cids) = self.connections.get_mut(&handle) {
                    cids.retain(|c| *c != cid);
                }
            }
            EndpointEventKind::Drained => {
                for cid in self.connections.remove(&handle).unwrap_or_default() {
                    self.cids.remove(&cid);
                }
            }
        }
    }

    /// Tells a peer of an unknown version what we speak (RFC 9000 section 6.1). The answer is never larger than the question.
    fn negotiate_version(
        &mut self,
        datagram: &Datagram<'_>,
        dcid: &[u8],
        scid: &[u8],
        reply: &mut Vec<u8>,
    ) -> Option<EndpointOutput> {
        if self.server.is_none() || datagram.data.len() < MIN_INITIAL_DATAGRAM {
            return None;
        }
        reply.clear();
        let random = (self.rng.next_u32() & 0x7f) as u8;
        encode_version_negotiation(random, scid, dcid, &[VERSION_1], reply);
        Some(EndpointOutput::Reply(Transmit {
            path: datagram.path,
            ecn: None,
            size: reply.len(),
            segment_size: None,
        }))
    }

    fn add(&mut self, cids: &[ConnectionId]) -> ConnectionHandle {
        let handle = ConnectionHandle(self.next_handle);
        self.next_handle += 1;
        self.cids.extend(cids.iter().map(|cid| (*cid, handle)));
        self.connections.insert(handle, cids.to_vec());
        handle
    }

    fn new_cid(&mut self) -> ConnectionId {
        let mut bytes = [0; CID_LEN];
        self.rng.fill_bytes(&mut bytes);
        ConnectionId::new(&bytes).expect("eight bytes fit")
    }

    fn seed(&mut self) -> Seed {
        let mut rng = [0; 32];
        self.rng.fill_bytes(&mut rng);
        Seed { rng, reset_key: self.reset_key.clone() }
    }
}

/// Whether a first Initial packet authenticates: garbage must not make a connection.
fn opens(dcid: &ConnectionId, packet: &[u8], number_at: usize) -> bool {
    let keys = crypto::initial_keys(dcid, Side::Server);
    let mut packet = packet.to_vec();
    let Some(field) = crypto::unprotect(&*keys.remote.header, &mut packet, number_at) else { return false };
    let (header, payload) = packet.split_at_mut(number_at + field.len);
    crypto::open(&*keys.remote.packet, PathId::ZERO, u64::from(field.truncated), header, payload).is_some()
}

/// Answers a first Initial with CONNECTION_REFUSED (RFC 9000 section 5.2.2), without keeping any state.
fn refuse(
    datagram: &Datagram<'_>,
    original: &ConnectionId,
    client: &ConnectionId,
    reply: &mut Vec<u8>,
) -> Option<EndpointOutput> {
    let keys = crypto::initial_keys(original, Side::Server);
    reply.clear();
    let header = LongHeader { kind: PacketKind::Initial, token: &[], dcid: *client, scid: *original };
    let at = header.encode(0, 1, reply);
    let close = ConnectionClose::Transport {
        error_code: TransportErrorCode::CONNECTION_REFUSED,
        frame_type: None,
        reason: b"too many connections",
    };
    close.encode(reply);
    reply.resize(reply.len().max(at.pn_offset + 4 + TAG_LEN), 0);
    crypto::seal((&*keys.local.packet, &*keys.local.header), PathId::ZERO, 0, reply, &at).ok()?;
    Some(EndpointOutput::Reply(Transmit {
        path: datagram.path,
        ecn: None,
        size: reply.len(),
        segment_size: None,
    }))
}
