//! A path of a connection, as the application holds it.

use std::{fmt, time::Duration};

use proto::{NetworkPath, PathError, PathId, PathLimits, PathStats, PathStatus};

use crate::{
    OpenPathError, PathOptions, clock,
    engine::{APPLICATION_ABANDON_PATH, Handle, migrate},
};

/// A path of a connection.
///
/// Clones are handles of the same path, and of its connection: as with streams, the connection
/// stays open while one is held. A path that is gone answers with [`PathError::Unknown`]; its id is
/// never used again.
///
/// ```no_run
/// # async fn example(connection: mendpath::Connection) -> Result<(), Box<dyn std::error::Error>> {
/// use mendpath::{PathOptions, PathStatus};
///
/// let mobile = connection.add_path(PathOptions::new().interface("wwan0")).await?;
/// mobile.set_status(PathStatus::Backup)?;
/// println!("path {} from {}: {:?}", mobile.id(), mobile.network()?.local, mobile.rtt()?);
/// mobile.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Path {
    connection: Handle,
    id: PathId,
}

impl Path {
    pub(crate) fn new(connection: Handle, id: PathId) -> Self {
        Self { connection, id }
    }

    /// The path's id, the same at the peer.
    pub fn id(&self) -> PathId {
        self.id
    }

    /// Statistics of the path at this moment.
    ///
    /// # Errors
    /// [`PathError::Unknown`] if the path is gone.
    pub fn stats(&self) -> Result<PathStats, PathError> {
        let paths = self.connection.path_stats();
        paths.into_iter().find(|path| path.id == self.id).ok_or(PathError::Unknown(self.id))
    }

    /// The smoothed round-trip time (RFC 9002 section 5.3).
    ///
    /// # Errors
    /// [`PathError::Unknown`] if the path is gone.
    pub fn rtt(&self) -> Result<Duration, PathError> {
        Ok(self.stats()?.rtt)
    }

    /// The two addresses that the path runs between now.
    ///
    /// # Errors
    /// [`PathError::Unknown`] if the path is gone.
    pub fn network(&self) -> Result<NetworkPath, PathError> {
        Ok(self.stats()?.network)
    }

    /// What this side last wished for the path.
    ///
    /// # Errors
    /// [`PathError::Unknown`] if the path is gone.
    pub fn status(&self) -> Result<PathStatus, PathError> {
        self.connection.shared().lock().proto.path_status(self.id)
    }

    /// Makes the path a backup, used only while no other works, or a regular one again, and asks
    /// the peer to do the same.
    ///
    /// # Errors
    /// [`PathError`] if the path is gone or the peer speaks no multipath.
    pub fn set_status(&self, status: PathStatus) -> Result<(), PathError> {
        self.connection.shared().lock().proto.set_path_status(self.id, status)?;
        self.connection.shared().wake_driver();
        Ok(())
    }

    /// What this side lets the path carry.
    ///
    /// # Errors
    /// [`PathError::Unknown`] if the path is gone.
    pub fn limits(&self) -> Result<PathLimits, PathError> {
        self.connection.shared().lock().proto.path_limits(self.id)
    }

    /// Says what this side lets the path carry from now on: how fast, and whether data, copies and
    /// repair symbols at all. The peer sends on it as before: tell it in the application's own
    /// words if it is to follow.
    ///
    /// # Errors
    /// [`PathError::Unknown`] if the path is gone.
    pub fn set_limits(&self, limits: PathLimits) -> Result<(), PathError> {
        self.connection.shared().lock().proto.set_path_limits(self.id, limits)?;
        self.connection.shared().wake_driver();
        Ok(())
    }

    /// Abandons the path; what it carried is sent again on the others.
    ///
    /// # Errors
    /// [`PathError`] if the path is gone, there is no other, or the connection has ended.
    pub fn close(&self) -> Result<(), PathError> {
        let mut state = self.connection.shared().lock();
        // The clock is read under the lock, where the transport's time does not go on meanwhile.
        state.proto.close_path(clock::now(), self.id, APPLICATION_ABANDON_PATH)?;
        drop(state);
        self.connection.shared().wake_driver();
        Ok(())
    }

    /// Continues the path from another local address (RFC 9000 section 9.2), also with servers that
    /// speak no multipath. Binds a fresh socket unless the options name one that is bound; the
    /// options' remote address, timeout and status are not used. Data flows from there at once.
    /// Only clients move paths. Where both addresses work, rather [open another
    /// path](crate::Connection::add_path) and then [`close`](Self::close) this one.
    ///
    /// # Errors
    /// If no socket can be bound, the path is gone, the server has forbidden it, or the peer has
    /// not provided another connection id for the path yet ([`PathError::NoConnectionId`]: try
    /// again shortly).
    pub fn migrate(&self, options: &PathOptions) -> Result<(), OpenPathError> {
        migrate(self.connection.shared(), self.id, options)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Path").field("id", &self.id).finish_non_exhaustive()
    }
}
