//! A queue of packets that drops what comes too fast, as UDP does: bounded in packets and in bytes,
//! for each association and for all of a connection together.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use tokio::sync::mpsc;

/// Packets that may wait in one queue.
const WAITING: usize = 256;
/// Bytes that one queue may hold; an association has a queue for each direction.
pub const QUEUE_BYTES: usize = 256 * 1024;
/// Bytes that all queues of a connection in the same direction may hold.
pub const CONNECTION_BYTES: usize = 4 << 20;
/// What a packet costs besides its bytes: its place in the queue, and the allocations.
const OVERHEAD: usize = 128;

/// Bytes that may be held, and those that are.
#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    held: AtomicUsize,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, held: AtomicUsize::new(0) })
    }

    pub(super) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    fn take(self: &Arc<Self>, bytes: usize) -> Option<Taken> {
        let fits = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= self.limit);
        let taken = self.held.fetch_update(Relaxed, Relaxed, fits).is_ok();
        taken.then(|| Taken { budget: self.clone(), bytes })
    }
}

#[derive(Debug)]
struct Taken {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Relaxed);
    }
}

/// Room for one packet, in its queue's budget and its connection's; given back when it is dropped.
#[derive(Debug)]
pub struct Room {
    _own: Taken,
    _all: Taken,
}

/// A packet together with the room that it takes up for as long as it is anywhere.
#[derive(Debug)]
pub struct Held<T> {
    /// The packet.
    pub packet: T,
    _room: Room,
}

/// Where packets go in.
#[derive(Debug)]
pub(super) struct Inlet<T> {
    queue: mpsc::Sender<Held<T>>,
    own: Arc<Budget>,
    all: Arc<Budget>,
    dropped: Arc<AtomicU64>,
}

// Derived, it would ask that packets can be cloned.
impl<T> Clone for Inlet<T> {
    fn clone(&self) -> Self {
        let (queue, own) = (self.queue.clone(), self.own.clone());
        Self { queue, own, all: self.all.clone(), dropped: self.dropped.clone() }
    }
}

/// A queue, for a connection that holds what `all` says and counts what it drops.
pub(super) fn queue<T>(all: &Arc<Budget>, dropped: &Arc<AtomicU64>) -> (Inlet<T>, mpsc::Receiver<Held<T>>) {
    queue_of(WAITING, QUEUE_BYTES, all, dropped)
}

/// The same for a whole tunnel, through which all that a machine does may pass.
#[cfg(all(feature = "tunnel", target_os = "linux"))]
pub(super) fn wide_queue<T>(
    all: &Arc<Budget>,
    dropped: &Arc<AtomicU64>,
) -> (Inlet<T>, mpsc::Receiver<Held<T>>) {
    queue_of(8 * WAITING, 8 * QUEUE_BYTES, all, dropped)
}

fn queue_of<T>(
    packets: usize,
    bytes: usize,
    all: &Arc<Budget>,
    dropped: &Arc<AtomicU64>,
) -> (Inlet<T>, mpsc::Receiver<Held<T>>) {
    let (queue, outlet) = mpsc::channel(packets);
    let own = Budget::new(bytes);
    (Inlet { queue, own, all: all.clone(), dropped: dropped.clone() }, outlet)
}

impl<T> Inlet<T> {
    /// Room for a packet of `bytes`; without it the packet counts as dropped.
    pub(super) fn room(&self, bytes: usize) -> Option<Room> {
        let cost = bytes + OVERHEAD;
        let room = self.own.take(cost).and_then(|own| Some(Room { _own: own, _all: self.all.take(cost)? }));
        if room.is_none() {
            self.dropped.fetch_add(1, Relaxed);
        }
        room
    }

    /// Puts a packet in the room that was made for it; drops it if too many wait. Whether it is in.
    pub(super) fn put(&self, packet: T, room: Room) -> bool {
        let put = self.queue.try_send(Held { packet, _room: room });
        if let Err(mpsc::error::TrySendError::Full(_)) = put {
            self.dropped.fetch_add(1, Relaxed);
        }
        put.is_ok()
    }

    /// Puts a packet of `bytes` in, or drops it.
    pub(super) fn offer(&self, packet: T, bytes: usize) {
        self.takes(packet, bytes);
    }

    /// The same. Whether it is in.
    pub(super) fn takes(&self, packet: T, bytes: usize) -> bool {
        self.room(bytes).is_some_and(|room| self.put(packet, room))
    }

    /// Counts what is dropped.
    pub(super) fn drops(&self) -> &Arc<AtomicU64> {
        &self.dropped
    }

    /// Returns once nobody takes packets out any more.
    pub(super) async fn closed(&self) {
        self.queue.closed().await;
    }
}

/// A packet in room of its own, for tests of those who take packets.
#[cfg(test)]
pub fn held_for_tests<T>(packet: T) -> Held<T> {
    let room = || Budget::new(1).take(1).unwrap();
    Held { packet, _room: Room { _own: room(), _all: room() } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inlet(all: &Arc<Budget>) -> (Inlet<usize>, mpsc::Receiver<Held<usize>>, Arc<AtomicU64>) {
        let dropped = Arc::new(AtomicU64::new(0));
        let (inlet, outlet) = queue(all, &dropped);
        (inlet, outlet, dropped)
    }

    #[test]
    fn large_packets_meet_the_limit_of_bytes() {
        let all = Budget::new(CONNECTION_BYTES);
        let (inlet, mut outlet, dropped) = inlet(&all);
        (0..100).for_each(|i| inlet.offer(i, 60_000));
        assert_eq!((all.held(), dropped.load(Relaxed)), (4 * 60_128, 96));
        let first = outlet.try_recv().unwrap();
        assert_eq!((first.packet, all.held()), (0, 4 * 60_128), "it is held until whoever took it is done");
        drop(first);
        inlet.offer(100, 60_000);
        assert_eq!((all.held(), dropped.load(Relaxed)), (4 * 60_128, 96));
        drop(outlet);
        assert_eq!(all.held(), 0);
        inlet.offer(101, 1);
        assert_eq!(all.held(), 0, "what nobody will take is not kept");
    }

    #[test]
    fn small_packets_meet_the_limit_of_packets() {
        let all = Budget::new(CONNECTION_BYTES);
        let (inlet, _outlet, dropped) = inlet(&all);
        (0..1_000).for_each(|i| inlet.offer(i, 1));
        assert_eq!((all.held(), dropped.load(Relaxed)), (WAITING * 129, 1_000 - WAITING as u64));
    }

    #[test]
    fn all_queues_together_meet_the_limit_of_the_connection() {
        let all = Budget::new(CONNECTION_BYTES);
        let queues: Vec<_> = (0..256).map(|_| inlet(&all)).collect();
        for (inlet, ..) in &queues {
            (0..10).for_each(|i| inlet.offer(i, 60_000));
        }
        assert!(all.held() <= CONNECTION_BYTES && all.held() > CONNECTION_BYTES - 60_128);
        drop(queues);
        assert_eq!(all.held(), 0);
    }
}
