//! A server that is about to stop in good order: it takes no new clients, tells those it has to go
//! elsewhere, and waits for what runs.
//!
//! Clients that know another server leave by themselves, each when its last connection through here
//! has ended. Those that know none, and older ones, stay; they are served as before until nothing
//! runs any more, and connect again once the server has stopped.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval},
};

use super::Tally;
use crate::status::{Draining, Running};

/// How often it is looked whether anything still runs.
const LOOK: Duration = Duration::from_millis(50);
/// The longest that what runs may be given.
const LONGEST: Duration = Duration::from_secs(86_400);
/// For clients without anything under way to go by themselves: a request that they are just making
/// would be lost.
const MOVING: Duration = Duration::from_secs(2);

/// Whether the server drains, and until when.
#[derive(Debug)]
pub(crate) struct Drain(watch::Sender<Option<Instant>>);

/// Drains a server.
#[derive(Clone)]
pub struct Drainer {
    drain: Arc<Drain>,
    tally: Arc<Tally>,
}

impl Drain {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(None)))
    }

    /// Whether it has begun.
    pub(super) fn is_on(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits until it begins, and tells when it ends at the latest.
    pub(super) async fn begun(&self) -> Instant {
        let mut drain = self.0.subscribe();
        let until = drain.wait_for(Option::is_some).await.expect("the sender is here");
        until.expect("waited for Some")
    }
}

impl Drainer {
    pub(super) fn new(drain: Arc<Drain>, tally: Arc<Tally>) -> Self {
        Self { drain, tally }
    }

    /// Begins to drain, for `time` at most (a day if that is longer), and returns what runs and for how long it may. A later
    /// call may only shorten the time.
    pub fn begin(&self, time: Duration) -> Draining {
        let now = Instant::now();
        let asked = now + time.min(LONGEST);
        self.drain.0.send_if_modified(|drain| {
            let sooner = drain.is_none_or(|before| asked < before);
            if sooner {
                *drain = Some(asked);
            }
            sooner
        });
        let until = self.drain.0.borrow().unwrap_or(asked);
        Draining { running: self.running(), within: until - now }
    }

    /// What is left to wait for.
    pub fn running(&self) -> Running {
        self.tally.running()
    }

    /// Waits until a drain has begun and nothing is left to wait for, or its time is over. Returns
    /// what still runs.
    pub async fn done(&self) -> Running {
        let began = {
            self.drain.begun().await;
            Instant::now()
        };
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut quiet = Quiet::default();
        loop {
            let now = look.tick().await;
            let running = self.running();
            let until = self.drain.0.borrow().unwrap_or(began);
            let idle = quiet.lasts(now, running.streams, self.tally.tunnelled());
            if running.clients == 0 || idle >= MOVING || now >= until {
                return running;
            }
        }
    }
}

/// Since when nothing has run.
#[derive(Debug, Default)]
struct Quiet {
    since: Option<Instant>,
    tunnelled: u64,
}

impl Quiet {
    /// For how long nothing has run: there are that many connections and associations, and clients' tunnels
    /// of packets, of whose connections nothing is known, have come to that number.
    fn lasts(&mut self, now: Instant, streams: usize, tunnelled: u64) -> Duration {
        let passed = std::mem::replace(&mut self.tunnelled, tunnelled) != tunnelled;
        if streams > 0 || passed {
            self.since = None;
        }
        if streams > 0 { Duration::ZERO } else { now - *self.since.get_or_insert(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Live;

    #[test]
    fn nothing_runs_where_nothing_is_open_and_no_packet_passes() {
        let (began, mut quiet) = (Instant::now(), Quiet::default());
        let mut lasts = |second, streams, tunnelled| {
            quiet.lasts(began + Duration::from_secs(second), streams, tunnelled).as_secs()
        };
        assert_eq!([lasts(0, 1, 0), lasts(1, 0, 0), lasts(3, 0, 0)], [0, 0, 2]);
        assert_eq!([lasts(4, 0, 7), lasts(5, 0, 7)], [0, 1], "packets have passed");
        assert_eq!([lasts(6, 1, 7), lasts(7, 0, 7), lasts(8, 0, 7)], [0, 0, 1], "something was open");
    }

    fn drainer() -> Drainer {
        Drainer::new(Drain::new(), Tally::new(Arc::new(Live::new(true))))
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_without_clients_need_not_wait() {
        let drainer = drainer();
        assert!(!drainer.drain.is_on());
        assert!(tokio::time::timeout(Duration::from_secs(3_600), drainer.done()).await.is_err());
        let (running, within) = (Running::default(), Duration::from_secs(3_600));
        assert_eq!(drainer.begin(within), Draining { running, within });
        let began = Instant::now();
        assert_eq!(drainer.done().await, Running::default());
        assert!(drainer.drain.is_on() && began.elapsed() < MOVING);
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_order_shortens_and_never_extends() {
        let drainer = drainer();
        let began = Instant::now();
        for (seconds, until) in [(10, 10), (60, 10), (1, 1)] {
            assert_eq!(drainer.begin(Duration::from_secs(seconds)).within, Duration::from_secs(until));
            assert_eq!(drainer.drain.begun().await, began + Duration::from_secs(until));
        }
    }
}
