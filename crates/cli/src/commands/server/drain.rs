//! How a server ends: at once on Ctrl-C; in good order on SIGTERM, and when `mendpath server
//! --drain` says so.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::super::{Ending as Signal, Signals, service, status::tell_server};
use crate::{
    console::say,
    failure::Failure,
    server::Drainer,
    status::{Draining, Running},
};

/// What ends a server.
pub(super) struct Ending {
    drainer: Drainer,
    /// In seconds; it may change while the server runs.
    time: Arc<AtomicU64>,
    ordered: Arc<Notify>,
}

impl Ending {
    /// With `time` in seconds for what runs.
    pub(super) fn new(drainer: Drainer, time: u64) -> Self {
        Self { drainer, time: Arc::new(AtomicU64::new(time)), ordered: Arc::default() }
    }

    /// How many seconds what runs has, from the next drain on.
    pub(super) fn set_time(&self, time: u64) {
        self.time.store(time, Relaxed);
    }

    /// What is to be done when somebody tells the server to drain, within a time of theirs or the
    /// server's own.
    pub(super) fn order(&self) -> impl Fn(Option<Duration>) -> Draining + Send + Sync + 'static {
        let (drainer, time, ordered) = (self.drainer.clone(), self.time.clone(), self.ordered.clone());
        move |asked| {
            let draining = drainer.begin(asked.unwrap_or_else(|| seconds(&time)));
            ordered.notify_one();
            draining
        }
    }

    /// Returns when the server is to close.
    pub(super) async fn run(&self, mut signals: Signals) {
        let ordered = tokio::select! {
            signal = signals.next() => match signal {
                Signal::Interrupt => return say("stopping"),
                Signal::Terminate => false,
            },
            () = self.ordered.notified() => true,
        };
        // What was ordered goes on.
        let time = if ordered { Duration::MAX } else { seconds(&self.time) };
        let draining = self.drainer.begin(time);
        let Running { clients, streams } = draining.running;
        if clients > 0 {
            let clients = counted(clients, "client");
            let streams = counted(streams, "connection");
            let within = draining.seconds();
            say(format_args!(
                "draining: {clients} told to go elsewhere, {streams} may end within {within}s; a signal stops at once"
            ));
        }
        service::stopping_within(draining.within + 2 * super::GOODBYE);
        tokio::select! {
            left = self.drainer.done() => match left.streams {
                0 => say("stopping"),
                left => say(format_args!("stopping, which cuts {} off", counted(left, "connection"))),
            },
            () = again(&mut signals, ordered) => say("stopping at once"),
        }
    }
}

/// Waits for whoever does not want to wait. Who ordered a drain may be about to say so by a signal,
/// too: a service manager does.
async fn again(signals: &mut Signals, ordered: bool) {
    let mut patience = usize::from(ordered);
    while signals.next().await == Signal::Terminate && patience > 0 {
        patience -= 1;
    }
}

fn seconds(time: &AtomicU64) -> Duration {
    Duration::from_secs(time.load(Relaxed))
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// `mendpath server --drain`: tells the server that runs, and waits for its end. `time` is in
/// seconds, instead of those that the server was told.
pub(super) async fn order(socket: Option<PathBuf>, time: Option<u64>) -> Result<(), Failure> {
    let word = time.map_or_else(|| "drain".to_owned(), |time| format!("drain {time}"));
    let told = tell_server(socket, &word).await?;
    let count = |key: &str| told.answer[key].as_u64().unwrap_or_default() as usize;
    let (clients, streams) = (count("clients"), count("streams"));
    let are = if clients == 1 { "is" } else { "are" };
    let (clients, streams) = (counted(clients, "client"), counted(streams, "connection"));
    // Servers of earlier versions do not say it.
    let within = told.answer["within_s"].as_u64().map(|time| format!(", and it ends within {time}s"));
    let within = within.unwrap_or_default();
    say(format_args!("the server lets nobody in any more; there {are} {clients} with {streams}{within}"));
    // It says nothing more; the socket ends with the process.
    told.ended().await;
    say("the server has stopped");
    Ok(())
}
