//! What hosts and connections of a world are called.

use proto::ConnectionHandle;

/// Names a host of a [`World`](crate::world::World).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostId(pub usize);

/// Names one side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId {
    /// The host.
    pub host: HostId,
    /// The connection within the host's endpoint.
    pub handle: ConnectionHandle,
}
