//! When a connection is not the one to use any more, and how it ends then.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use mendpath::{Connection, PathEvent, PathState, PathUpdate, SendStream};
use tokio::{sync::watch, time::Instant};
use tracing::debug;

use super::uplink::Said;
use crate::{backoff::pause, protocol::CloseCode, status::Live};

/// Old connections that are kept at a time; of more the oldest ends.
const MAX_RETIRED: usize = 4;
/// Without an answer on any path after a probe timeout, until another server is looked for: links
/// that stall for a moment are no reason.
const SILENCE: Duration = Duration::from_millis(300);
/// How often it is looked whether that has changed.
const LOOK: Duration = Duration::from_millis(50);
/// For a request that has just been given the old connection.
const LAST_REQUESTS: Duration = Duration::from_secs(1);
/// For a server that does not answer to come back and end what runs there.
/// The only path is probed every four seconds.
const COME_BACK: Duration = Duration::from_secs(6);
/// For how long a packet shows that the server is there.
const FRESH: Duration = Duration::from_secs(1);
/// For an answer to a probe: so many round trips of the connection to compare with, and within
/// bounds.
const ROUND_TRIPS: u32 = 4;
const LEAST_ANSWER: Duration = Duration::from_millis(100);
const LONGEST_ANSWER: Duration = Duration::from_secs(1);

/// Why another connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The server is about to stop.
    Drained,
    /// It does not answer.
    Silent,
}

/// A connection that nothing new uses.
pub(super) struct Old {
    pub(super) connection: Connection,
    /// Our half of the control stream, whose end is the goodbye.
    pub(super) _goodbye: SendStream,
}

/// The old connections.
#[derive(Default)]
pub(super) struct Retired(VecDeque<Connection>);

impl Retired {
    /// Lets what runs over it end.
    pub(super) fn add(&mut self, old: Old, why: Why, live: &Arc<Live>) {
        self.0.retain(|connection| connection.close_reason().is_none());
        if self.0.len() == MAX_RETIRED
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.close(CloseCode::Done.into(), b"");
        }
        self.0.push_back(old.connection.clone());
        let live = live.clone();
        tokio::spawn(async move {
            see_off(old, why).await;
            live.past().settle();
        });
    }
}

impl Drop for Retired {
    fn drop(&mut self) {
        for connection in &self.0 {
            connection.close(CloseCode::Done.into(), b"");
        }
    }
}

async fn see_off(old: Old, why: Why) {
    let Old { connection, _goodbye } = old;
    let began = Instant::now();
    let mut answered = began;
    while connection.close_reason().is_none() {
        let now = Instant::now();
        if !is_silent(&connection) {
            answered = now;
        }
        let done = connection.stream_stats().open <= 1 && now - began >= LAST_REQUESTS;
        if done || why == Why::Silent && now - answered >= COME_BACK {
            debug!(done, "an old connection ends");
            connection.close(CloseCode::Done.into(), b"");
            return;
        }
        pause(LOOK).await;
    }
}

/// Whether a connection that was silent answers a probe within the time that `other`, which has just
/// been made, would.
pub(super) async fn answers_now(connection: &Connection, other: &Connection) -> bool {
    let rtt = other.path_stats().iter().map(|path| path.rtt).min().unwrap_or_default();
    let until = Instant::now() + (ROUND_TRIPS * rtt).clamp(LEAST_ANSWER, LONGEST_ANSWER);
    connection.probe();
    while is_silent(connection) && connection.close_reason().is_none() {
        if Instant::now() >= until {
            return false;
        }
        pause(LOOK / 5).await;
    }
    connection.close_reason().is_none()
}

/// Says in `silent` whether any path answers, where another server might, until the connection
/// ends; then waits.
pub(super) async fn observe(
    connection: &Connection,
    said: watch::Receiver<Said>,
    silent: &watch::Sender<bool>,
) {
    let mut updates = connection.path_updates();
    while let Some(update) = updates.next().await {
        if !matches!(update, PathUpdate::Event(PathEvent::Suspect(_))) {
            continue;
        }
        let since = Instant::now();
        while is_silent(connection) && connection.close_reason().is_none() {
            if since.elapsed() >= SILENCE && said.borrow().balanced {
                silent.send_if_modified(|silent| !std::mem::replace(silent, true));
            }
            pause(LOOK).await;
        }
        silent.send_if_modified(|silent| std::mem::replace(silent, false));
    }
    std::future::pending().await
}

/// Says in `fresh` whether packets have come lately, where another server might be there if not.
pub(super) async fn keep_count(
    connection: &Connection,
    mut said: watch::Receiver<Said>,
    fresh: &watch::Sender<bool>,
) {
    if said.wait_for(|said| said.balanced).await.is_err() {
        return std::future::pending().await;
    }
    let mut before = connection.stats().packets_received;
    loop {
        pause(FRESH).await;
        let now = connection.stats().packets_received;
        let came = std::mem::replace(&mut before, now) < now;
        fresh.send_if_modified(|fresh| std::mem::replace(fresh, came) != came);
    }
}

/// Whether no path answers.
fn is_silent(connection: &Connection) -> bool {
    !connection.path_stats().iter().any(|path| matches!(path.state, PathState::Active | PathState::Backup))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::association::tests::connected;

    #[tokio::test]
    async fn of_too_many_the_oldest_goes() {
        let (mut retired, mut all) = (Retired::default(), Vec::new());
        let live = Arc::new(Live::new(true));
        for n in 0..=MAX_RETIRED {
            let (connection, (control, words), server) = connected().await;
            server.admit();
            let running = connection.open_bi().await.unwrap();
            retired.add(Old { connection: connection.clone(), _goodbye: control }, Why::Drained, &live);
            all.push((connection, words, running, server));
            let ended: Vec<bool> = all.iter().map(|(old, ..)| old.close_reason().is_some()).collect();
            assert_eq!(ended.iter().filter(|ended| **ended).count(), usize::from(n == MAX_RETIRED));
            assert!(n < MAX_RETIRED || ended[0]);
        }
        drop(retired);
        assert!(all.iter().all(|(old, ..)| old.close_reason().is_some()), "nothing is left behind");
    }
}
