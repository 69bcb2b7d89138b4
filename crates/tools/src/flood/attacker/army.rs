//! Connections that do what they are told, and no more.

use std::{collections::BTreeMap, net::Ipv4Addr, sync::Arc};

use mendpath_cli::{identity::CERTIFICATE_NAME, invitation::Invitation, protocol::ALPN};
use netsim::Seed;
use proto::{
    ClientConfig, Connection, ConnectionHandle, Datagram, Endpoint, EndpointOutput, NetworkPath,
    TransportConfig,
    wire::{HeaderKind, ProtectedHeader},
};
use rustls::{crypto::ring::default_provider, version::TLS13};
use testkit::tls::Trusting;
use units::{Duration, Instant};

use super::wire::Wire;
use crate::flood::Outcome;

/// Connections that are kept at most; further ones are not begun until some have ended.
const MOST: usize = 4_096;
/// The shortest datagram with an Initial packet (RFC 9000 section 14.1).
const MIN_INITIAL: usize = 1_200;

/// What a connection sends of what it would.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Says {
    /// Everything.
    All,
    /// Initial packets alone: the handshake never completes.
    Initials,
}

/// A connection with its orders.
pub struct Soldier {
    pub connection: Box<Connection>,
    pub path: NetworkPath,
    pub begun: Instant,
    /// Whether it has shown the token.
    pub greeted: bool,
    says: Says,
}

/// All of them, behind one socket.
pub struct Army {
    endpoint: Endpoint,
    config: ClientConfig,
    server: std::net::SocketAddr,
    random: u64,
    out: Vec<u8>,
    pub soldiers: BTreeMap<ConnectionHandle, Soldier>,
    pub wire: Wire,
    /// Connections begun.
    pub begun: u64,
    /// Handshakes completed.
    pub completed: u64,
    /// Connections that the server ended.
    pub closed: u64,
}

impl Army {
    pub fn new(invitation: &Invitation, seed: u64) -> Outcome<Self> {
        let server = (invitation.server.host.to_string().parse::<Ipv4Addr>()?, invitation.server.port).into();
        let transport = TransportConfig {
            max_idle_timeout: Duration::from_secs(30).into(),
            // Nothing is held back for the sake of this side's memory.
            send_buffer: 16 << 20,
            ..TransportConfig::default()
        };
        let seed_bytes = std::array::from_fn(|at| Seed(seed).child("endpoint", at as u64).0 as u8);
        Ok(Self {
            endpoint: Endpoint::new(None, seed_bytes),
            config: ClientConfig::new(tls()?, transport),
            server,
            random: seed,
            out: Vec::new(),
            soldiers: BTreeMap::new(),
            wire: Wire::open()?,
            begun: 0,
            completed: 0,
            closed: 0,
        })
    }

    /// A loopback address from 127.1.0.0 to 127.253.255.255.
    pub fn anywhere(&mut self) -> Ipv4Addr {
        self.random = self.random.wrapping_add(1);
        let [_, _, _, _, a, b, c, _] = Seed(self.random).child("source", 0).0.to_le_bytes();
        Ipv4Addr::new(127, 1 + a % 253, b, c)
    }

    /// Whether one more may be begun.
    pub fn has_room(&self) -> bool {
        self.soldiers.len() < MOST
    }

    /// Begins a connection from an address; it says its first words when it is next attended to.
    pub fn recruit(&mut self, now: Instant, from: Ipv4Addr, says: Says) -> Outcome<ConnectionHandle> {
        let path = self.wire.path(from, self.server);
        let (handle, connection) = self.endpoint.connect(now, &self.config, path, CERTIFICATE_NAME)?;
        self.begun += 1;
        self.soldiers.insert(handle, Soldier { connection, path, begun: now, greeted: false, says });
        Ok(handle)
    }

    /// The first flight of a connection that is then forgotten; it counts as begun when it is sent.
    pub fn first_flight(&mut self, now: Instant) -> Outcome<(NetworkPath, Vec<u8>)> {
        let from = self.anywhere();
        let handle = self.recruit(now, from, Says::All)?;
        let mut soldier = self.soldiers.remove(&handle).ok_or("it was just made")?;
        self.begun -= 1;
        let mut flight = Vec::new();
        let _ = soldier.connection.poll_transmit(now, 1, &mut flight);
        self.endpoint.forget(handle);
        Ok((soldier.path, flight))
    }

    /// Leaves a connection without a word.
    pub fn desert(&mut self, handle: ConnectionHandle) {
        if self.soldiers.remove(&handle).is_some() {
            self.endpoint.forget(handle);
        }
    }

    /// Gives what has arrived to those whom it is for, if `lets` says so; returns who heard
    /// something.
    pub fn hear(&mut self, now: Instant, lets: impl Fn(&[u8]) -> bool) -> Vec<ConnectionHandle> {
        let mut heard = Vec::new();
        let Self { endpoint, soldiers, wire, out, .. } = self;
        wire.receive(|path, data| {
            out.clear();
            let output = endpoint.handle_datagram(now, Datagram { path, ecn: None, data }, out);
            let Some(EndpointOutput::ToConnection(handle)) = output else { return };
            let Some(soldier) = soldiers.get_mut(&handle) else { return };
            if lets(data) {
                soldier.connection.handle_datagram(now, Datagram { path, ecn: None, data });
            }
            if heard.last() != Some(&handle) {
                heard.push(handle);
            }
        });
        heard
    }

    /// Lets every connection whose time has come act on it; returns which.
    pub fn wake(&mut self, now: Instant) -> Vec<ConnectionHandle> {
        let is_due = |soldier: &Soldier| soldier.connection.poll_timeout().is_some_and(|due| due <= now);
        let due = self.soldiers.iter_mut().filter(|(_, soldier)| is_due(soldier));
        due.map(|(handle, soldier)| {
            soldier.connection.handle_timeout(now);
            *handle
        })
        .collect()
    }

    /// Lets a connection send at most `most` bytes or a little more, and forgets it if it has
    /// ended; whether it still has something to say.
    pub fn attend(&mut self, now: Instant, handle: ConnectionHandle, most: u64) -> bool {
        let Self { endpoint, soldiers, wire, out, .. } = self;
        let Some(Soldier { connection, says, .. }) = soldiers.get_mut(&handle) else { return false };
        let enough = wire.sent_bytes + most;
        let mut more = true;
        while more && wire.sent_bytes < enough {
            out.clear();
            let transmit = connection.poll_transmit(now, 4, out);
            while let Some(event) = connection.poll_endpoint_event() {
                endpoint.handle_event(handle, event);
            }
            more = transmit.is_some();
            let Some(transmit) = transmit else { break };
            for datagram in out.chunks_mut(transmit.segment_size.unwrap_or(transmit.size).max(1)) {
                match says {
                    Says::All => wire.send(transmit.path, datagram),
                    Says::Initials => {
                        if let Some(kept) = initials_of(datagram) {
                            wire.send(transmit.path, &kept);
                        }
                    }
                }
            }
        }
        if connection.is_closed() {
            self.closed += 1;
            self.desert(handle);
            return false;
        }
        more
    }
}

/// The Initial packet that a datagram begins with, filled up with bytes that are no packet.
fn initials_of(datagram: &[u8]) -> Option<Vec<u8>> {
    let header = ProtectedHeader::decode(datagram, proto::CID_LEN).ok()?;
    let HeaderKind::Initial { .. } = header.kind else { return None };
    let mut kept = datagram[..header.len].to_vec();
    kept.resize(datagram.len().max(MIN_INITIAL), 0);
    Some(kept)
}

/// TLS that believes everybody: attackers do not mind whom they attack.
fn tls() -> Outcome<Arc<rustls::ClientConfig>> {
    let provider = Arc::new(default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_protocol_versions(&[&TLS13])?.dangerous();
    let mut config =
        builder.with_custom_certificate_verifier(Arc::new(Trusting(provider))).with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}
