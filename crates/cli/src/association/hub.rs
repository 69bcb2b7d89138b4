//! Shares the datagrams of one connection out to its associations.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use mendpath::{Connection, SendDatagramError};
use tokio::sync::mpsc;
use tracing::trace;

use crate::protocol::Packet;

/// Associations that one connection may have at a time.
pub const MAX_ASSOCIATIONS: usize = 256;

/// The datagrams of one connection.
pub struct Hub {
    connection: Connection,
    routes: Mutex<BTreeMap<u32, mpsc::Sender<Packet>>>,
}

impl Hub {
    /// A hub for `connection`; [`run`](Self::run) must run as well.
    pub fn new(connection: Connection) -> Self {
        Self { connection, routes: Mutex::default() }
    }

    fn routes(&self) -> MutexGuard<'_, BTreeMap<u32, mpsc::Sender<Packet>>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn register(&self, id: u32, arrivals: mpsc::Sender<Packet>) -> Option<()> {
        let mut routes = self.routes();
        if routes.len() >= MAX_ASSOCIATIONS || routes.contains_key(&id) {
            return None;
        }
        routes.insert(id, arrivals);
        Some(())
    }

    pub(super) fn unregister(&self, id: u32) {
        self.routes().remove(&id);
    }

    /// Whether the packet went out as a datagram, or was dropped as one; `false` when it is too large for that.
    pub(super) fn send(&self, id: u32, packet: &Packet) -> bool {
        let datagram = packet.encode_datagram(id);
        if self.connection.max_datagram_size().is_none_or(|max| datagram.len() > max) {
            return false;
        }
        !matches!(
            self.connection.send_datagram(Bytes::from(datagram)),
            Err(SendDatagramError::TooLarge { .. } | SendDatagramError::Unsupported)
        )
    }

    /// Hands out datagrams until the connection ends. What is malformed, unknown or too much is dropped.
    pub async fn run(&self) {
        while let Ok(datagram) = self.connection.read_datagram().await {
            let Ok((id, packet)) = Packet::decode_datagram(&datagram) else {
                trace!("dropped a malformed datagram");
                continue;
            };
            if let Some(arrivals) = self.routes().get(&id) {
                let _ = arrivals.try_send(packet);
            }
        }
        // Associations end with the connection.
        self.routes().clear();
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("associations", &self.routes().len()).finish_non_exhaustive()
    }
}
