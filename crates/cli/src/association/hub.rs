//! Shares the datagrams of one connection out to its associations.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use mendpath::{Connection, DatagramOptions, SendDatagramError};
use tokio::sync::mpsc;
use tracing::trace;

use super::queue::{Budget, CONNECTION_BYTES, Held, Inlet, queue};
use crate::protocol::Packet;

/// Associations that one connection may have at a time.
pub const MAX_ASSOCIATIONS: usize = 256;

/// Datagrams that are handed out together.
const ROUND: usize = 64;

/// Bytes of the id before every datagram.
pub(super) const ID: usize = 4;

/// The datagrams of one connection.
pub struct Hub {
    connection: Connection,
    routes: Mutex<Routes>,
    /// What waits to be taken by this end, and what waits for streams towards the other.
    arrived: Arc<Budget>,
    large: Arc<Budget>,
    dropped: Arc<AtomicU64>,
    /// Datagrams of its tunnel that came, and times that some were sent.
    tunnelled: AtomicU64,
}

/// Where datagrams go. Routes are numbered, so that the end of one does not remove another that has
/// taken its id.
#[derive(Default)]
struct Routes {
    by_id: BTreeMap<u32, (u64, Way)>,
    next: u64,
}

/// What became of a packet that was to go out as a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// It is on its way, or the connection has ended.
    Yes,
    /// The connection is full.
    Dropped,
    /// It does not fit a datagram.
    TooLarge,
}

/// What becomes of a datagram.
enum Way {
    /// It is a packet of UDP.
    Association(Inlet<Packet>),
    /// Somebody else reads it.
    #[cfg_attr(
        not(all(feature = "tunnel", target_os = "linux")),
        allow(dead_code, reason = "of tunnels only")
    )]
    Tunnel(Inlet<Bytes>),
}

/// A queue for what arrives, and the number of its route.
pub(super) type Registered<T> = (u64, Inlet<T>, mpsc::Receiver<Held<T>>);

impl Hub {
    /// A hub for `connection`; [`run`](Self::run) must run as well.
    pub fn new(connection: Connection) -> Self {
        let (arrived, large) = (Budget::new(CONNECTION_BYTES), Budget::new(CONNECTION_BYTES));
        let (routes, tunnelled) = (Mutex::default(), AtomicU64::new(0));
        Self { connection, routes, arrived, large, dropped: Arc::default(), tunnelled }
    }

    /// Packets of associations that were dropped because too many, or too many bytes, were waiting here or
    /// in the connection. One that the connection had taken, and dropped for another association's, is counted
    /// there, with its datagrams.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Bytes that wait here: for this end to take them, and to be written to streams.
    pub fn held(&self) -> (usize, usize) {
        (self.arrived.held(), self.large.held())
    }

    /// A number that has changed whenever packets went through the connection's tunnel, in either direction;
    /// `None` while there is no tunnel.
    pub(crate) fn tunnelled(&self) -> Option<u64> {
        self.routes().has_tunnel().then(|| self.tunnelled.load(Relaxed))
    }

    /// Some are sent.
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    pub(super) fn sends_tunnelled(&self) {
        self.tunnelled.fetch_add(1, Relaxed);
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the datagrams of `id` a queue.
    pub(super) fn register(&self, id: u32) -> Option<Registered<Packet>> {
        let (inlet, outlet) = queue(&self.arrived, &self.dropped);
        let number = self.routes().add(id, Way::Association(inlet.clone()))?;
        Some((number, inlet, outlet))
    }

    /// Gives the datagrams of a tunnel a queue, which counts what it drops by itself. A connection has one
    /// tunnel.
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    pub(super) fn register_tunnel(&self, id: u32) -> Option<Registered<Bytes>> {
        let (inlet, outlet) = super::queue::wide_queue(&self.arrived, &Arc::default());
        let mut routes = self.routes();
        if routes.has_tunnel() {
            return None;
        }
        let number = routes.add(id, Way::Tunnel(inlet.clone()))?;
        Some((number, inlet, outlet))
    }

    /// The connection whose datagrams these are.
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn unregister(&self, id: u32, number: u64) {
        let mut routes = self.routes();
        if routes.by_id.get(&id).is_some_and(|(found, _)| *found == number) {
            routes.by_id.remove(&id);
        }
    }

    /// A queue for packets that are too large for datagrams, of whoever has `arrivals`: what both drop counts
    /// together.
    pub(super) fn large_packets<T>(
        &self,
        arrivals: &Inlet<T>,
    ) -> (Inlet<Vec<u8>>, mpsc::Receiver<Held<Vec<u8>>>) {
        queue(&self.large, arrivals.drops())
    }

    /// Sends a packet as a datagram, in its association's turn: a call does not wait for the megabyte that a
    /// download may have waiting.
    pub(super) fn send(&self, id: u32, packet: &Packet) -> Sent {
        let datagram = packet.encode_datagram(id);
        if self.connection.max_datagram_size().is_none_or(|max| datagram.len() > max) {
            return Sent::TooLarge;
        }
        let in_turn = DatagramOptions::new().flow(id);
        match self.connection.send_datagram_with(Bytes::from(datagram), in_turn) {
            Err(SendDatagramError::TooLarge { .. } | SendDatagramError::Unsupported) => Sent::TooLarge,
            Err(SendDatagramError::Blocked) => {
                self.dropped.fetch_add(1, Relaxed);
                Sent::Dropped
            }
            _ => Sent::Yes,
        }
    }

    /// Hands out datagrams until the connection ends. What is malformed, unknown or too much is
    /// dropped.
    pub async fn run(&self) {
        let mut datagrams = Vec::new();
        while self.connection.read_datagrams(&mut datagrams, ROUND).await.is_ok() {
            let routes = self.routes();
            datagrams.drain(..).for_each(|datagram| routes.hand_out(&datagram, &self.tunnelled));
        }
        // Associations end with the connection.
        self.routes().by_id.clear();
    }
}

impl Routes {
    fn has_tunnel(&self) -> bool {
        self.by_id.values().any(|(_, way)| matches!(way, Way::Tunnel(_)))
    }

    fn hand_out(&self, datagram: &Bytes, tunnelled: &AtomicU64) {
        let Some(id) = datagram.first_chunk().map(|id| u32::from_be_bytes(*id)) else { return };
        match self.by_id.get(&id) {
            Some((_, Way::Association(arrivals))) => match Packet::decode(&datagram[ID..]) {
                Ok(packet) => arrivals.offer(packet, datagram.len()),
                Err(_) => trace!("dropped a malformed datagram"),
            },
            Some((_, Way::Tunnel(arrivals))) => {
                tunnelled.fetch_add(1, Relaxed);
                arrivals.offer(datagram.slice(ID..), datagram.len());
            }
            None => {}
        }
    }

    /// Takes an id; `None` if it is in use or there are as many as there may be.
    fn add(&mut self, id: u32, way: Way) -> Option<u64> {
        if self.by_id.len() >= MAX_ASSOCIATIONS || self.by_id.contains_key(&id) {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.by_id.insert(id, (number, way));
        Some(number)
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("associations", &self.routes().by_id.len()).finish_non_exhaustive()
    }
}
