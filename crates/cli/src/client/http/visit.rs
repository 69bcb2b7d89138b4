//! What the two sides of a program's connection know of each other: the [guard](super::guard),
//! which judges what comes in, and the service, which hyper calls for each request.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Waker},
};

use bytes::Bytes;
use tokio::time::Instant;

use super::head::{Head, HeadError};
use crate::listener::Place;

/// A judged head. Bytes that came with a CONNECT and go to its target.
pub(super) type Ruling = Result<(Head, Bytes), HeadError>;

/// One connection of a program.
pub(super) struct Visit {
    books: Mutex<Books>,
    /// Bytes in both directions.
    moved: AtomicU64,
    /// The program has ended its direction.
    ended: AtomicBool,
    /// A body was not what its head announced.
    malformed: AtomicBool,
    /// The program ended its direction in the middle of a body.
    cut: AtomicBool,
    /// Among the connections of its listener.
    place: Option<Place>,
}

struct Books {
    /// Of requests that were let through and not begun to serve; as many as fit one read.
    rulings: VecDeque<Ruling>,
    /// Requests let through and not completely answered.
    open: usize,
    /// When the last answer was complete.
    rested: Instant,
    /// Of the guard, which may read again after the answer.
    waiting: Option<Waker>,
}

impl Visit {
    pub(super) fn new(place: Option<Place>) -> Arc<Self> {
        let books = Books { rulings: VecDeque::new(), open: 0, rested: Instant::now(), waiting: None };
        Arc::new(Self {
            books: Mutex::new(books),
            moved: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            malformed: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            place,
        })
    }

    /// The guard lets a request through.
    pub(super) fn announce(&self, ruling: Ruling) {
        let mut books = self.books();
        books.rulings.push_back(ruling);
        books.open += 1;
    }

    /// The ruling on the request that hyper has read; `None` if there is none, so that hyper read
    /// something else than the guard.
    pub(super) fn begin(self: &Arc<Self>) -> Option<(Ruling, Turn)> {
        let ruling = self.books().rulings.pop_front()?;
        Some((ruling, Turn(Arc::clone(self))))
    }

    /// When the last answer was complete, if none is under way.
    pub(super) fn resting(&self) -> Option<Instant> {
        let books = self.books();
        (books.open == 0).then_some(books.rested)
    }

    /// When something was answered last: now, if a request has a seat.
    pub(super) fn served(&self) -> Instant {
        let is_seated = self.place.as_ref().is_some_and(Place::is_seated);
        if is_seated { Instant::now() } else { self.books().rested }
    }

    /// Wakes the task once no answer is under way any more; false if that is so now.
    pub(super) fn wait_for_rest(&self, cx: &Context<'_>) -> bool {
        let mut books = self.books();
        books.waiting = Some(cx.waker().clone());
        books.open > 0
    }

    pub(super) fn add(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Relaxed);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    pub(super) fn blame(&self) {
        self.malformed.store(true, Relaxed);
    }

    pub(super) fn is_malformed(&self) -> bool {
        self.malformed.load(Relaxed)
    }

    /// The program's last request has no end.
    pub(super) fn cut(&self) {
        self.cut.store(true, Relaxed);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(Relaxed)
    }

    /// The program has asked for something that it may have.
    pub(super) async fn occupy(&self) {
        if let Some(place) = &self.place {
            place.occupy().await;
        }
    }

    /// Returns once the connection is to end, since another needs its place.
    pub(super) async fn sent_away(&self) {
        match &self.place {
            Some(place) => place.sent_away().await,
            None => std::future::pending().await,
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request being answered; dropped with the last byte of the answer.
pub(super) struct Turn(Arc<Visit>);

impl Drop for Turn {
    fn drop(&mut self) {
        let mut books = self.0.books();
        books.open -= 1;
        if books.open > 0 {
            return;
        }
        books.rested = Instant::now();
        let waiting = books.waiting.take();
        drop(books);
        if let Some(place) = &self.0.place {
            place.vacate();
        }
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}
