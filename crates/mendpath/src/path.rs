//! What an application asks of a path, and what it hears about it.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use proto::{PathId, TransportErrorCode};
use tokio::sync::broadcast::{self, error::RecvError};
use units::Duration;

/// Where a new path starts and leads. The default is one more path to the same remote address, from a fresh port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathOptions {
    pub(crate) local: Option<SocketAddr>,
    pub(crate) interface: Option<String>,
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) timeout: Duration,
    pub(crate) backup: bool,
}

impl Default for PathOptions {
    fn default() -> Self {
        Self { local: None, interface: None, remote: None, timeout: Self::DEFAULT_TIMEOUT, backup: false }
    }
}

impl PathOptions {
    /// How long [`add_path`](crate::Connection::add_path) waits for the peer's answer unless told otherwise.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

    /// The default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts at this address of ours. With a port that the endpoint has bound, that socket is used; with another
    /// port, or 0 for any, a fresh socket is bound.
    #[must_use]
    pub fn local(mut self, local: SocketAddr) -> Self {
        self.local = Some(local);
        self
    }

    /// Starts at this IP address of ours, from a fresh port.
    #[must_use]
    pub fn local_ip(self, ip: IpAddr) -> Self {
        self.local(SocketAddr::new(ip, 0))
    }

    /// Starts at this network interface, from a fresh port: its address of the remote's family is bound, and the socket
    /// is tied to the interface where the operating system permits it.
    #[must_use]
    pub fn interface(mut self, name: impl Into<String>) -> Self {
        self.interface = Some(name.into());
        self
    }

    /// Leads to this address of the peer, instead of the one that the connection was made to.
    #[must_use]
    pub fn remote(mut self, remote: SocketAddr) -> Self {
        self.remote = Some(remote);
        self
    }

    /// How long to wait until the peer has answered on the path.
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Duration>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Opens it as a backup, which carries data only while no other path works.
    #[must_use]
    pub fn backup(mut self, backup: bool) -> Self {
        self.backup = backup;
        self
    }
}

/// News about a connection's paths.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathEvent {
    /// The peer answered on this path: it carries data from now on.
    Validated(PathId),
    /// The path got no answer for a while; traffic moves elsewhere, the path is probed.
    Suspect(PathId),
    /// A suspect path answered again.
    Recovered(PathId),
    /// The path runs between other addresses now: one side moved, or a NAT on the way forgot a binding.
    Moved(PathId),
    /// The path is gone.
    Closed {
        /// Which one.
        path: PathId,
        /// Whether the peer closed it.
        by_peer: bool,
        /// Error code of PATH_ABANDON.
        code: TransportErrorCode,
    },
    /// The operating system does not let packets out from this local address (any more), for example since its
    /// interface is gone. Reported once, until sending works again.
    LocalFailure {
        /// The local address of the path.
        local: SocketAddr,
        /// What the operating system said.
        reason: String,
    },
    /// The operating system lets packets out from this local address again.
    LocalRecovery {
        /// The local address of the path.
        local: SocketAddr,
    },
    /// The listener was too slow and missed this many events; [`paths`](crate::Connection::paths) has the present
    /// state.
    Missed(u64),
}

impl PathEvent {
    /// The transport's news, as far as they are about the path itself.
    pub(crate) fn from_proto(event: &proto::PathEvent) -> Self {
        match *event {
            proto::PathEvent::Validated(path) => Self::Validated(path),
            proto::PathEvent::Suspect(path) => Self::Suspect(path),
            proto::PathEvent::Recovered(path) => Self::Recovered(path),
            proto::PathEvent::Moved(path) => Self::Moved(path),
            proto::PathEvent::Closed { path, by_peer, code } => Self::Closed { path, by_peer, code },
        }
    }
}

/// A bounded stream of [`PathEvent`]s, from the moment it was made until the connection ends.
pub struct PathEvents(pub(crate) broadcast::Receiver<PathEvent>);

impl PathEvents {
    /// The next event; `None` once the connection has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<PathEvent> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(missed)) => Some(PathEvent::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }
}

impl fmt::Debug for PathEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathEvents").finish_non_exhaustive()
    }
}
