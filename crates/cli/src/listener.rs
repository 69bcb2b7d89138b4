//! A TCP port on this machine that programs connect to.
//!
//! Connections that have asked for nothing yet, or for nothing more, cannot keep out those that do:
//! they have places of their own, from which the one that has waited longest goes when a new one
//! comes. A connection that asks takes one of the seats. Who goes without having asked is dropped; who
//! has been served may have an answer that its program has not read, and is told to end by itself.

use std::{
    collections::BTreeMap,
    future::Future,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tracing::{debug, warn};

use crate::{
    descriptors,
    failure::{Failure, io_reason, listen_advice},
    socket_options,
};

/// Connections that are being served, per listener, at a time; more wait.
const SEATS: usize = 1_024;
/// Connections that have not asked for anything; more make the oldest go. A program that opens a
/// thousand at once is none to be thrown out.
pub(crate) const WAITING: usize = 2_048;
/// From so many on it is crowded, and nobody may wait for longer than [`CROWDED_PATIENCE`].
const CROWDED: usize = 128;
/// Long enough for any program on this machine that means to ask.
const CROWDED_PATIENCE: Duration = Duration::from_secs(3);

/// A bound port.
pub(crate) struct Listener {
    tcp: TcpListener,
    /// With the port that the system chose for port 0.
    pub(crate) address: SocketAddr,
}

impl Listener {
    /// Binds `address`.
    ///
    /// # Errors
    /// With `what` it was for and the `option` that changes it.
    pub(crate) async fn bind(address: SocketAddr, what: &str, option: &str) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(
                format!("cannot listen on {address} for {what}"),
                io_reason(&error),
                listen_advice(&error, option),
            )
        };
        // As many as may wait here: one that the kernel drops is tried again after a second only.
        let tcp = socket_options::listen(address, WAITING as u32).map_err(failed)?;
        let address = tcp.local_addr().map_err(failed)?;
        Ok(Self { tcp, address })
    }

    /// Serves each connection with `serve`, which [occupies](Place::occupy) its place once it knows
    /// what the program wants.
    pub(crate) async fn serve<T, F, S>(self, shared: Arc<T>, serve: S) -> Failure
    where
        S: Fn(TcpStream, Place, Arc<T>) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let room = Room::new(SEATS);
        loop {
            match self.tcp.accept().await {
                Ok((tcp, from)) => {
                    debug!(%from, at = %self.address, "local connection");
                    socket_options::prepare_program(&tcp);
                    let (place, out) = room.enter(Instant::now());
                    let served = serve(tcp, place, shared.clone());
                    tokio::spawn(async move {
                        tokio::select! {
                            () = served => {}
                            () = out.notified() => debug!(%from, "made room for another connection"),
                        }
                    });
                }
                Err(error) => {
                    // Too many open files, or a connection gone before it was accepted: others may
                    // still come.
                    warn!(%error, at = %self.address, "cannot accept");
                    descriptors::tell_of_shortage(&error, "programs' connections wait");
                    room.make_room();
                    crate::backoff::pause(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// The places of a listener.
struct Room {
    seats: Arc<Semaphore>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// In the order in which they came or came back.
    queue: BTreeMap<u64, Waiter>,
    next: u64,
}

struct Waiter {
    since: Instant,
    out: Arc<Notify>,
}

impl Room {
    fn new(seats: usize) -> Arc<Self> {
        Arc::new(Self { seats: Arc::new(Semaphore::new(seats)), waiting: Mutex::default() })
    }

    /// A place for a new connection, which is to be dropped when it is notified.
    fn enter(self: &Arc<Self>, now: Instant) -> (Place, Arc<Notify>) {
        let out = Arc::new(Notify::new());
        let number = self.wait(now, &out);
        let held = Mutex::new(Held::Waits(number));
        (Place { room: Arc::clone(self), parting: Arc::default(), held }, out)
    }

    /// Puts a connection at the end of the queue, which hears by `out` that it must go, and sends those
    /// away who have been there for too long.
    fn wait(&self, now: Instant, out: &Arc<Notify>) -> u64 {
        let mut waiting = self.waiting();
        while let Some(oldest) = waiting.queue.first_entry() {
            let patient = now.saturating_duration_since(oldest.get().since) <= CROWDED_PATIENCE;
            let length = waiting.queue.len();
            if length < CROWDED || (length < WAITING && patient) {
                break;
            }
            waiting.send_oldest_away();
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.queue.insert(number, Waiter { since: now, out: Arc::clone(out) });
        number
    }

    /// Sends the one away who has waited longest: it holds a descriptor that another connection
    /// needs.
    fn make_room(&self) {
        self.waiting().send_oldest_away();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn send_oldest_away(&mut self) {
        if let Some((_, oldest)) = self.queue.pop_first() {
            oldest.out.notify_one();
        }
    }
}

/// One connection's place.
pub(crate) struct Place {
    room: Arc<Room>,
    /// Told once the connection is to end by itself.
    parting: Arc<Notify>,
    held: Mutex<Held>,
}

enum Held {
    /// A number in the queue.
    Waits(u64),
    /// A seat, until it is dropped.
    Sits { _seat: OwnedSemaphorePermit },
}

impl Place {
    /// The program has asked for something that it may have. Waits for a seat if all are taken.
    pub(crate) async fn occupy(&self) {
        if self.is_seated() {
            return;
        }
        let seat = self.room.seats.clone().acquire_owned().await.expect("the semaphore is never closed");
        self.change(Held::Sits { _seat: seat });
    }

    /// The program has got what it asked for, and may ask for more. From now on the connection is not
    /// dropped, but [sent away](Self::sent_away).
    pub(crate) fn vacate(&self) {
        if self.is_seated() {
            let number = self.room.wait(Instant::now(), &self.parting);
            self.change(Held::Waits(number));
        }
    }

    /// Returns once the connection, which has been served, is to end within a few seconds, since another
    /// needs its place, unless it has a seat again. One task at a time may wait for that.
    pub(crate) async fn sent_away(&self) {
        self.parting.notified().await;
    }

    /// Whether it has a seat.
    pub(crate) fn is_seated(&self) -> bool {
        matches!(*self.held(), Held::Sits { .. })
    }

    fn change(&self, to: Held) {
        let from = std::mem::replace(&mut *self.held(), to);
        self.leave(&from);
    }

    fn leave(&self, held: &Held) {
        if let Held::Waits(number) = held {
            self.room.waiting().queue.remove(number);
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let held = self.held();
        self.leave(&held);
    }
}

#[cfg(test)]
impl Place {
    /// The only one of a listener, and what sends its connection away.
    pub(crate) fn alone() -> (Self, impl FnOnce()) {
        let room = Room::new(1);
        let (place, _) = room.enter(Instant::now());
        (place, move || room.make_room())
    }

    /// Another of the same listener.
    pub(crate) fn beside(&self) -> Self {
        self.room.enter(Instant::now()).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a connection was told to go.
    async fn is_out(out: &Notify) -> bool {
        tokio::time::timeout(Duration::ZERO, out.notified()).await.is_ok()
    }

    #[tokio::test]
    async fn the_oldest_that_has_not_asked_goes_first() {
        let (room, now) = (Room::new(SEATS), Instant::now());
        let (asked, stays) = room.enter(now);
        asked.occupy().await;
        let waiting: Vec<_> = (0..WAITING).map(|_| room.enter(now)).collect();
        assert!(!is_out(&waiting[0].1).await, "there was room for all");
        let _new: Vec<_> = (0..10).map(|_| room.enter(now)).collect();
        for (i, (_, out)) in waiting.iter().enumerate() {
            assert_eq!(is_out(out).await, i < 10, "{i}");
        }
        assert!(!is_out(&stays).await);
        assert_eq!(room.waiting().queue.len(), WAITING);
    }

    #[tokio::test]
    async fn patience_ends_when_it_is_crowded() {
        let (room, now) = (Room::new(SEATS), Instant::now());
        let early: Vec<_> = (0..CROWDED - 1).map(|_| room.enter(now)).collect();
        let later = now + CROWDED_PATIENCE + Duration::from_millis(1);
        let _new = room.enter(later);
        assert!(!is_out(&early[0].1).await, "it was not crowded");
        let _new = (_new, room.enter(later));
        assert!(is_out(&early[0].1).await && !is_out(&early[1].1).await);
    }

    #[tokio::test]
    async fn who_has_been_served_waits_again() {
        let (room, now) = (Room::new(1), Instant::now());
        let ((first, out), (second, _out)) = (room.enter(now), room.enter(now));
        first.occupy().await;
        assert!(tokio::time::timeout(Duration::ZERO, second.occupy()).await.is_err(), "one seat");
        first.vacate();
        second.occupy().await;
        assert_eq!(room.waiting().queue.len(), 1);
        room.make_room();
        assert!(is_out(&first.parting).await && !is_out(&out).await, "it ends by itself");
        drop((first, second));
        assert_eq!((room.waiting().queue.len(), room.seats.available_permits()), (0, 1));
    }
}
