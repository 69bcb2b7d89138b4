//! What keeps connections and endpoints open.

use std::sync::Arc;

use proto::{PathStats, VarInt};

use super::{Crew, Shared};

/// Keeps a connection open: held by all that applications hold of it.
#[derive(Clone)]
pub(crate) struct Handle(Arc<LastHandle>);

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(Arc::new(LastHandle(shared)))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.0
    }

    /// Statistics of every path, in the order of path ids.
    pub(crate) fn path_stats(&self) -> Vec<PathStats> {
        self.shared().lock().proto.paths()
    }
}

/// Dropped with the last handle.
struct LastHandle(Arc<Shared>);

impl Drop for LastHandle {
    fn drop(&mut self) {
        self.0.close(VarInt::from_u32(0), b"");
    }
}

/// Keeps an endpoint open to clients that ask for connections.
#[derive(Clone)]
pub(crate) struct EndpointHandle(Arc<LastEndpointHandle>);

impl EndpointHandle {
    pub(crate) fn new(crew: Crew) -> Self {
        Self(Arc::new(LastEndpointHandle(crew)))
    }

    pub(crate) fn crew(&self) -> &Crew {
        &self.0.0
    }
}

/// Dropped with the last handle.
struct LastEndpointHandle(Crew);

impl Drop for LastEndpointHandle {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
