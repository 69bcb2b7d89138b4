//! Snapshots once a second, for as many as watch.
//!
//! Making one costs something, showing the same one to another viewer nearly nothing; while nobody
//! looks, none is made.

use std::{
    fmt,
    future::poll_fn,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Interval, MissedTickBehavior, interval},
};

use super::{Live, Snapshot};

/// Who may watch at a time. Each costs a connection and a few kilobytes a second.
pub(crate) const MAX_VIEWERS: usize = 8;
/// Between two snapshots for one viewer.
const PERIOD: Duration = Duration::from_secs(1);
/// Viewers need not look at the same moment to be shown the same snapshot.
const FRESH: Duration = Duration::from_millis(500);

/// Where snapshots come from.
pub(crate) struct Feed {
    make: Box<dyn Fn() -> Snapshot + Send + Sync>,
    last: Mutex<Option<(Instant, Arc<str>)>>,
    /// The books of a client, whose paths can be told what to carry.
    client: Option<Arc<Live>>,
    seats: Arc<Semaphore>,
    /// What a server does when it is told to drain.
    drain: OnceLock<DrainOrder>,
}

/// What a server that drains still waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// Clients that are connected.
    pub clients: usize,
    /// Proxied connections and associations.
    pub streams: usize,
}

/// What an order to drain comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draining {
    /// What is waited for.
    pub running: Running,
    /// For how long at most.
    pub within: Duration,
}

impl Draining {
    /// The time in seconds, rounded up.
    pub(crate) fn seconds(&self) -> u64 {
        self.within.as_secs_f64().ceil() as u64
    }
}

/// Begins to drain within the time that is asked for, or the server's own.
type DrainOrder = Box<dyn Fn(Option<Duration>) -> Draining + Send + Sync>;

/// Somebody who watches, until this is dropped.
pub(crate) struct Viewer {
    feed: Arc<Feed>,
    ticks: Interval,
    _seat: OwnedSemaphorePermit,
}

impl Feed {
    /// Of a process that takes no orders.
    pub(crate) fn new(make: impl Fn() -> Snapshot + Send + Sync + 'static) -> Arc<Self> {
        Self::make(None, make)
    }

    /// Of a client.
    pub(crate) fn of_client(
        client: Arc<Live>,
        make: impl Fn() -> Snapshot + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::make(Some(client), make)
    }

    /// The books of a client, for orders to it.
    pub(crate) fn client(&self) -> Option<&Arc<Live>> {
        self.client.as_ref()
    }

    /// Of a server that can be told to drain. Only the first call counts.
    pub(crate) fn on_drain(&self, order: impl Fn(Option<Duration>) -> Draining + Send + Sync + 'static) {
        let _ = self.drain.set(Box::new(order));
    }

    /// Tells it to drain, within `time` if there is one; `None` if it is no server.
    pub(crate) fn drain(&self, time: Option<Duration>) -> Option<Draining> {
        self.drain.get().map(|order| order(time))
    }

    fn make(client: Option<Arc<Live>>, make: impl Fn() -> Snapshot + Send + Sync + 'static) -> Arc<Self> {
        let seats = Arc::new(Semaphore::new(MAX_VIEWERS));
        Arc::new(Self { make: Box::new(make), last: Mutex::default(), client, seats, drain: OnceLock::new() })
    }

    /// The present state as a line of JSON, at most half a second old.
    pub(crate) fn line(&self) -> Arc<str> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match &*last {
            Some((made, line)) if now.duration_since(*made) < FRESH => line.clone(),
            _ => {
                let line: Arc<str> =
                    serde_json::to_string(&(self.make)()).expect("snapshots have plain keys").into();
                *last = Some((now, line.clone()));
                line
            }
        }
    }

    /// Something was changed by order: whoever asks next sees it, and not what was before.
    pub(crate) fn outdate(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A seat to watch from, if one is free.
    pub(crate) fn watch(self: &Arc<Self>) -> Option<Viewer> {
        let seat = self.seats.clone().try_acquire_owned().ok()?;
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Some(Viewer { feed: self.clone(), ticks, _seat: seat })
    }
}

impl Viewer {
    /// The next line, as [`poll_line`](Self::poll_line).
    pub(crate) async fn line(&mut self) -> Arc<str> {
        poll_fn(|cx| self.poll_line(cx)).await
    }

    /// The next line: the first at once, then one each second. Who is slow misses some.
    pub(crate) fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<Arc<str>> {
        ready!(self.ticks.poll_tick(cx));
        Poll::Ready(self.feed.line())
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use crate::status::{ClientRow, Live, Role};

    /// A feed, and how many snapshots it has made.
    fn feed() -> (Arc<Feed>, Arc<AtomicUsize>) {
        let made = Arc::new(AtomicUsize::new(0));
        let (live, counted) = (Live::new(true), made.clone());
        let feed = Feed::new(move || {
            counted.fetch_add(1, Relaxed);
            let row = ClientRow {
                server: String::new(),
                servers: Vec::new(),
                connected: false,
                reconnects: 0,
                recovery: String::new(),
            };
            live.snapshot(Role::Client(row), None, Duration::ZERO, Vec::new())
        });
        (feed, made)
    }

    #[tokio::test(start_paused = true)]
    async fn viewers_share_snapshots_and_nobody_watching_costs_nothing() {
        let (feed, made) = feed();
        let mut viewers: Vec<Viewer> = (0..MAX_VIEWERS).map(|_| feed.watch().unwrap()).collect();
        assert_eq!(made.load(Relaxed), 0);
        for second in 1..=5 {
            for viewer in &mut viewers {
                let line = viewer.line().await;
                assert!(
                    line.starts_with("{\"schema\":\"mendpath-status/1\"") && !line.contains('\n'),
                    "{line}"
                );
            }
            assert_eq!(made.load(Relaxed), second);
        }
        drop(viewers);
        tokio::time::advance(100 * PERIOD).await;
        assert_eq!(made.load(Relaxed), 5);
    }

    #[tokio::test]
    async fn seats_are_few_and_come_back() {
        let (feed, _) = feed();
        let mut viewers: Vec<Viewer> = std::iter::from_fn(|| feed.watch()).collect();
        assert_eq!(viewers.len(), MAX_VIEWERS);
        viewers.pop();
        assert!(feed.watch().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn asking_often_makes_few() {
        let (feed, made) = feed();
        for _ in 0..1_000 {
            feed.line();
        }
        assert_eq!(made.load(Relaxed), 1);
        tokio::time::advance(FRESH).await;
        feed.line();
        assert_eq!(made.load(Relaxed), 2);
        feed.outdate();
        feed.line();
        assert_eq!(made.load(Relaxed), 3, "an order has changed something");
    }
}
