//! A connection whose handshake is under way.

use std::{
    fmt,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use proto::{PathId, VarInt};
use tokio::sync::oneshot;

use crate::{
    Connection, ConnectionError,
    engine::{Shared, Started},
    socket::Socket,
};

/// A connection whose handshake is under way: await it to get the [`Connection`], also one that has
/// ended since its handshake was complete.
///
/// Dropping it closes the connection.
#[must_use = "a dropped handshake closes the connection"]
pub struct Connecting {
    connection: Connection,
    handshake: oneshot::Receiver<()>,
}

impl Connecting {
    pub(crate) fn new(Started { shared, handshake }: Started) -> Self {
        Self { connection: Connection::new(shared), handshake }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.connection.shared()
    }

    /// Binds the life of a socket to that of a path.
    pub(crate) fn own_socket(&self, path: PathId, socket: Arc<Socket>) {
        self.shared().lock().own_socket(path, socket);
    }

    /// Uses the connection before its handshake is complete. The future tells whether the peer took
    /// what was sent until then.
    ///
    /// As client: what is sent now leaves in 0-RTT packets, one round trip earlier. That takes
    /// [`ClientConfig::early_data`](crate::ClientConfig::early_data) and a ticket from an earlier
    /// connection to a server that accepts it. **An attacker can replay such data**: send only what
    /// may be executed twice. If the server takes none of it, the future gives `false`, and every
    /// stream opened before fails with `ZeroRttRejected`; the application sends again on new ones.
    ///
    /// As server, possible as soon as all of the client's hello is there, which may be longer than its
    /// first packet: 0-RTT data are read at once, and answered before the client has proven that it is
    /// alive and at its address. **They may be a replay** until the future gives `true`; see
    /// [`RecvStream::is_0rtt`](crate::RecvStream::is_0rtt). A server that awaits the handshake instead
    /// never reads a replay.
    ///
    /// # Errors
    /// Itself, if it is not possible: await the handshake.
    pub fn into_0rtt(self) -> Result<(Connection, ZeroRttAccepted), Self> {
        let started = self.shared().start_early_data();
        self.shared().wake_driver();
        if !started {
            return Err(self);
        }
        let shared = self.shared().clone();
        Ok((self.connection, ZeroRttAccepted { shared, handshake: self.handshake }))
    }

    /// The peer's address.
    pub fn remote_address(&self) -> SocketAddr {
        self.shared().remote
    }

    /// Turns the peer away at once. While the handshake is under way it is told
    /// `CONNECTION_REFUSED` and the reason, which anybody on the path can read: an application's
    /// code does not get through that early (RFC 9000 section 10.2.3). Afterwards it is told both.
    pub fn refuse(self, code: VarInt, reason: &str) {
        self.shared().refuse(code, reason);
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let done = ready!(Pin::new(&mut self.handshake).poll(cx));
        Poll::Ready(match done {
            // If it has ended since, what came before that can still be accepted and read.
            Ok(()) => Ok(self.connection.clone()),
            Err(_) => Err(self.connection.close_reason().unwrap_or(ConnectionError::EndpointGone)),
        })
    }
}

/// Whether the peer took what was sent before the handshake was complete: resolves with the end of
/// the handshake. `false` also if the connection ended before; `true` for servers, whose clients
/// take whatever they complete the handshake for.
#[must_use = "what was sent early may have to be sent again"]
pub struct ZeroRttAccepted {
    shared: Arc<Shared>,
    handshake: oneshot::Receiver<()>,
}

impl Future for ZeroRttAccepted {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        let done = ready!(Pin::new(&mut self.handshake).poll(cx)).is_ok();
        Poll::Ready(done && self.shared.lock().proto.early_data_accepted().unwrap_or(true))
    }
}

impl fmt::Debug for ZeroRttAccepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZeroRttAccepted").finish_non_exhaustive()
    }
}

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connecting").field("remote", &self.remote_address()).finish_non_exhaustive()
    }
}
