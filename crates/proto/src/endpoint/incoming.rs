//! Clients that wait until the application has decided about them.
//!
//! Who is asked about has passed everything that the endpoint decides by itself (`admission`), and
//! has a place in the lobby like one that was accepted: an application that is slow to decide keeps
//! nobody else out.

use std::sync::Arc;

use units::Instant;

use super::{ConnectionHandle, Endpoint, reply_to};
use crate::{
    Datagram, Ecn, NetworkPath, ServerConfig, Transmit,
    connection::{AddressToken, Connection, FirstInitial},
    wire::TransportErrorCode,
};

/// A client that asks for a connection, of which only its first datagram is kept.
///
/// Hand it to [`Endpoint::accept`], [`refuse`](Endpoint::refuse), [`retry`](Endpoint::retry) or
/// [`ignore`](Endpoint::ignore): until then it holds a place among those who wait to be let in, and
/// newcomers may displace it. Datagrams that follow come out as
/// [`EndpointOutput::ToConnection`](super::EndpointOutput::ToConnection) with its handle: keep a
/// few for the connection, or drop them, which is a loss like any other.
#[derive(Debug)]
pub struct Incoming {
    pub(super) handle: ConnectionHandle,
    pub(super) server: Arc<ServerConfig>,
    pub(super) initial: FirstInitial,
    pub(super) path: NetworkPath,
    pub(super) ecn: Option<Ecn>,
    pub(super) datagram: Vec<u8>,
}

impl Incoming {
    /// The handle that its connection would have.
    pub fn handle(&self) -> ConnectionHandle {
        self.handle
    }

    /// Where it asks from, and where it arrived.
    pub fn path(&self) -> NetworkPath {
        self.path
    }

    /// Whether it has shown, with a token, that it receives at its address (RFC 9000 section 8.1).
    pub fn remote_address_validated(&self) -> bool {
        self.initial.token != AddressToken::None
    }

    /// Whether it may be sent a Retry: not if it answers one.
    pub fn may_retry(&self) -> bool {
        !matches!(self.initial.token, AddressToken::Retry(_))
    }
}

/// Why a client that was to be accepted has no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// It had to make room for others before.
    #[error("the client had to make room for others")]
    Evicted,
    /// TLS refused its configuration.
    #[error("TLS: {0}")]
    Tls(String),
}

impl Endpoint {
    /// Makes the connection of a client, which is fed with its first datagram.
    ///
    /// # Errors
    /// [`AcceptError`] if the client had to make room, or TLS refuses its configuration.
    pub fn accept(
        &mut self,
        now: Instant,
        incoming: Incoming,
    ) -> Result<(ConnectionHandle, Box<Connection>), AcceptError> {
        let server = incoming.server.clone();
        self.accept_with(now, incoming, &server)
    }

    /// As [`accept`](Self::accept), with another configuration than the endpoint's. The limits on
    /// how many connections there may be stay the endpoint's.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn accept_with(
        &mut self,
        now: Instant,
        mut incoming: Incoming,
        server: &ServerConfig,
    ) -> Result<(ConnectionHandle, Box<Connection>), AcceptError> {
        let Incoming { handle, initial, path, ecn, .. } = incoming;
        if !self.lobby.contains(handle) {
            return Err(AcceptError::Evicted);
        }
        let local = self.new_cid();
        let secrets = self.secrets();
        let connection = Connection::server(now, server, path, local, initial, secrets);
        let mut connection = match connection {
            Ok(connection) => Box::new(connection),
            Err(error) => {
                self.forget(handle);
                return Err(AcceptError::Tls(error.to_string()));
            }
        };
        self.routes.add_cid(handle, local);
        self.stats.accepted += 1;
        connection.handle_datagram(now, Datagram { path, ecn, data: &mut incoming.datagram });
        Ok((handle, connection))
    }

    /// Turns a client away with CONNECTION_REFUSED and words that anybody on the path can read.
    /// `None` if there is nothing to send: so many clients a second are told.
    pub fn refuse(
        &mut self,
        now: Instant,
        incoming: Incoming,
        reason: &str,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.forget(incoming.handle);
        let code = TransportErrorCode::CONNECTION_REFUSED;
        self.write_refusal(now, &incoming.initial, code, reason.as_bytes(), out)?;
        Some(reply_to(incoming.path, incoming.datagram.len(), out))
    }

    /// Makes a client show that it receives at its address, at the price of a round trip, and
    /// forgets it: it comes back as another (RFC 9000 section 8.1.2).
    ///
    /// # Errors
    /// The client itself, if it has answered a Retry already.
    pub fn retry(
        &mut self,
        now: Instant,
        incoming: Incoming,
        out: &mut Vec<u8>,
    ) -> Result<Transmit, Box<Incoming>> {
        if !incoming.may_retry() {
            return Err(Box::new(incoming));
        }
        self.forget(incoming.handle);
        self.write_retry(now, incoming.path.remote, &incoming.initial, out);
        Ok(reply_to(incoming.path, incoming.datagram.len(), out))
    }

    /// Forgets a client without a word.
    pub fn ignore(&mut self, incoming: Incoming) {
        self.forget(incoming.handle);
        self.stats.dropped += 1;
    }
}
