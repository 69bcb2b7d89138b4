//! What an application asks of a new path.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use proto::PathStatus;

use crate::socket::canonical;

/// Where a new path starts and leads. The default is one more path to the same remote address, from
/// a fresh port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathOptions {
    pub(crate) local: Option<SocketAddr>,
    pub(crate) interface: Option<String>,
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) timeout: Duration,
    pub(crate) status: PathStatus,
}

impl Default for PathOptions {
    fn default() -> Self {
        Self {
            local: None,
            interface: None,
            remote: None,
            timeout: Self::DEFAULT_TIMEOUT,
            status: PathStatus::Available,
        }
    }
}

impl PathOptions {
    /// How long [`add_path`](crate::Connection::add_path) waits for the peer's answer unless told
    /// otherwise.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

    /// The default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts at this address of ours. With a port that the endpoint has bound, that socket is
    /// used, also if it is bound to any address; with another port, or 0 for any, a fresh socket is
    /// bound.
    #[must_use]
    pub fn local(mut self, local: SocketAddr) -> Self {
        self.local = Some(canonical(local));
        self
    }

    /// Starts at this IP address of ours, from a fresh port.
    #[must_use]
    pub fn local_ip(self, ip: IpAddr) -> Self {
        self.local(SocketAddr::new(ip, 0))
    }

    /// Starts at this network interface, from a fresh port: its address of the remote's family is
    /// bound, of several of IPv6 one of the remote's kind (public, unique local or link-local), and the
    /// socket is tied to the interface where the operating system permits it.
    #[must_use]
    pub fn interface(mut self, name: impl Into<String>) -> Self {
        self.interface = Some(name.into());
        self
    }

    /// Leads to this address of the peer, instead of the one that the connection was made to.
    #[must_use]
    pub fn remote(mut self, remote: SocketAddr) -> Self {
        self.remote = Some(canonical(remote));
        self
    }

    /// How long to wait until the peer has answered on the path.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Opens it with this status: a backup carries data only while no other path works. Default
    /// [`PathStatus::Available`].
    #[must_use]
    pub fn status(mut self, status: PathStatus) -> Self {
        self.status = status;
        self
    }
}
