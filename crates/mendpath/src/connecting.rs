//! A connection whose handshake is under way.

use std::{
    fmt,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use proto::PathId;
use tokio::sync::oneshot;

use crate::{Connection, ConnectionError, shared::Shared, socket::Socket};

/// A connection whose handshake is under way: await it to get the [`Connection`].
///
/// Dropping it closes the connection.
#[must_use = "a dropped handshake closes the connection"]
pub struct Connecting {
    connection: Connection,
    handshake: oneshot::Receiver<()>,
}

impl Connecting {
    pub(crate) fn new(shared: Arc<Shared>, handshake: oneshot::Receiver<()>) -> Self {
        Self { connection: Connection::new(shared), handshake }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.connection.shared()
    }

    /// Binds the life of a socket to that of a path.
    pub(crate) fn own_socket(&self, path: PathId, socket: Arc<Socket>) {
        self.shared().lock().own_socket(path, socket);
    }

    /// The peer's address.
    pub fn remote_address(&self) -> SocketAddr {
        self.shared().remote
    }

    /// Closes the connection at once, with an application code and reason.
    pub fn refuse(self, code: u64, reason: &[u8]) {
        self.connection.close(code, reason);
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let done = ready!(Pin::new(&mut self.handshake).poll(cx));
        Poll::Ready(match (done, self.connection.close_reason()) {
            (_, Some(error)) => Err(error),
            (Ok(()), None) => Ok(self.connection.clone()),
            (Err(_), None) => Err(ConnectionError::EndpointGone),
        })
    }
}

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connecting").field("remote", &self.remote_address()).finish_non_exhaustive()
    }
}
