//! What an application hears about the paths of a connection.

use std::{fmt, net::SocketAddr};

use proto::PathEvent;
use tokio::sync::broadcast::{self, error::RecvError};

/// News about a connection's paths, and about the local addresses that they start from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathUpdate {
    /// Something happened to a path.
    Event(PathEvent),
    /// The operating system does not let packets out from this local address (any more), for
    /// example since its interface is gone, or since its socket is full and stays so while other paths
    /// wait. Reported once, until sending works again, which of a socket that was full is said once it has
    /// taken everything for a second.
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
    /// The listener was too slow and missed this many updates;
    /// [`paths`](crate::Connection::paths) has the present state.
    Missed(u64),
}

/// A bounded stream of [`PathUpdate`]s, from the moment it was made until the connection ends.
pub struct PathUpdates(pub(crate) broadcast::Receiver<PathUpdate>);

impl PathUpdates {
    /// The next update; `None` once the connection has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<PathUpdate> {
        match self.0.recv().await {
            Ok(update) => Some(update),
            Err(RecvError::Lagged(missed)) => Some(PathUpdate::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }
}

impl fmt::Debug for PathUpdates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathUpdates").finish_non_exhaustive()
    }
}
