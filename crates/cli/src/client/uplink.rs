//! The connection to the server, made anew whenever it is lost.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use mendpath::Connection;
use tokio::{sync::watch, time::Instant};
use tracing::{Instrument as _, info, info_span};

use super::{
    dial::{DialOptions, Dialled, dial},
    keeper::keep_paths,
};
use crate::{
    association::Hub,
    backoff::{Backoff, pause},
    console::{mention, say},
    failure::Failure,
    protocol::{CloseCode, Reply, Status},
    status::{EventKind, Journal, Live, Saved},
    transport::explain,
};

/// How long a program waits for a connection that is being made anew.
const PATIENCE: Duration = Duration::from_secs(20);
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// In which a last packet leaves.
const LAST_PACKET: Duration = Duration::from_millis(50);

/// One life of the connection.
#[derive(Clone, Debug)]
pub struct Session {
    /// The connection.
    pub connection: Connection,
    /// Its datagrams.
    pub hub: Arc<Hub>,
    /// How many connections there were before.
    pub reconnects: u64,
    pub(crate) live: Arc<Live>,
    saved: Arc<Mutex<Saved>>,
}

/// The connection as its users see it: there, or being made anew. Clones are handles of the same.
#[derive(Clone, Debug)]
pub struct Uplink {
    session: watch::Receiver<Option<Session>>,
    live: Arc<Live>,
}

impl Session {
    /// The books of what mending saved.
    pub(crate) fn saved(&self) -> MutexGuard<'_, Saved> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Uplink {
    /// Connects, and returns the handle and what must run to keep the connection; that ends when
    /// trying again is useless.
    ///
    /// # Errors
    /// When the server cannot be reached or used, unless `wait_for_server` says to keep trying.
    pub(crate) async fn start(
        options: DialOptions,
        wait_for_server: bool,
        live: Arc<Live>,
    ) -> Result<(Self, impl Future<Output = Failure> + Send + 'static), Failure> {
        let dialled = match dial(&options).await {
            Ok(dialled) => dialled,
            Err((failure, retry)) if wait_for_server && retry.is_worth_it(true) => {
                say(format_args!("{failure} Trying again"));
                redial(&options, true).await?
            }
            Err((failure, _)) => return Err(failure),
        };
        let (publish, session) = watch::channel(None);
        Ok((Self { session, live: live.clone() }, keep(options, wait_for_server, dialled, publish, live)))
    }

    /// The present connection, or the next one if it comes soon.
    ///
    /// # Errors
    /// An answer for the waiting program when it takes too long.
    pub async fn session(&self) -> Result<Session, Reply> {
        let mut session = self.session.clone();
        let found = tokio::time::timeout(PATIENCE, session.wait_for(Option::is_some)).await;
        match found {
            Ok(Ok(session)) => Ok(session.clone().expect("waited for Some")),
            _ => {
                Err(Reply::new(Status::HostUnreachable, "the connection to the server is lost; still trying"))
            }
        }
    }

    /// What is written down for those who look.
    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// The present connection, if there is one.
    pub fn now(&self) -> Option<Session> {
        self.session.borrow().clone()
    }

    /// Closes the present connection: the client ends.
    pub(crate) async fn say_goodbye(&self) {
        if let Some(session) = self.now() {
            session.connection.close(CloseCode::Done.into(), b"");
            // The last packet must get out before the process ends.
            pause(LAST_PACKET).await;
        }
    }
}

/// Keeps one connection after the other until trying again is useless.
async fn keep(
    options: DialOptions,
    wait: bool,
    mut dialled: Dialled,
    publish: watch::Sender<Option<Session>>,
    live: Arc<Live>,
) -> Failure {
    let mut reconnects = 0;
    loop {
        let Dialled { connection, first_path, server, control } = dialled;
        let span = info_span!("connection", id = connection.original_id());
        span.in_scope(|| announce(&connection, &first_path.to_string(), server, reconnects, &live.journal));
        let hub = Arc::new(Hub::new(connection.clone()));
        publish.send_replace(Some(Session {
            connection: connection.clone(),
            hub: hub.clone(),
            reconnects,
            live: live.clone(),
            saved: Arc::new(Mutex::new(Saved::new(Instant::now()))),
        }));
        let error = tokio::select! {
            error = connection.closed() => error,
            () = keep_paths(connection.clone(), first_path, server, options.paths.clone(), &live).instrument(span.clone()) => connection.closed().await,
            () = hub.run() => connection.closed().await,
        };
        span.in_scope(|| info!("connection is down: {error}"));
        drop(control);
        end_session(&connection, reconnects, &publish, &live);
        let (failure, retry) = explain(&error, &options.invitation.server);
        if !retry.is_worth_it(wait) {
            return failure;
        }
        say(format_args!("lost the connection: {error}; reconnecting"));
        live.journal.note(EventKind::Down, format_args!("lost the connection: {error}"));
        dialled = match redial(&options, wait).await {
            Ok(dialled) => dialled,
            Err(failure) => return failure,
        };
        reconnects += 1;
        live.past().reconnects = reconnects;
    }
}

/// Writes down what the connection did. Whoever adds that to what there is sees either both or none.
fn end_session(
    connection: &Connection,
    reconnects: u64,
    publish: &watch::Sender<Option<Session>>,
    live: &Live,
) {
    let mut past = live.past();
    past.connections += (&connection.stats()).into();
    past.paths.look(reconnects, &live.path_counts(connection));
    publish.send_replace(None);
}

fn announce(connection: &Connection, path: &str, server: SocketAddr, reconnects: u64, journal: &Journal) {
    let again = if reconnects == 0 { "" } else { " again" };
    let text = format!("connected{again} to {server} over {path}");
    journal.note(EventKind::Up, &text);
    if reconnects == 0 {
        mention(text)
    } else {
        say(text)
    }
    if !connection.multipath_negotiated() {
        say("the server does not speak multipath: one path is used");
    }
    info!(repair = connection.repair_negotiated(), "connection is up");
}

/// Dials until it works, or cannot work.
async fn redial(options: &DialOptions, wait: bool) -> Result<Dialled, Failure> {
    let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
    let mut told = String::new();
    loop {
        pause(backoff.next_wait()).await;
        match dial(options).await {
            Ok(dialled) => return Ok(dialled),
            Err((failure, retry)) if !retry.is_worth_it(wait) => return Err(failure),
            Err((failure, _)) => {
                // The same trouble is told once, not every half minute.
                let text = failure.to_string();
                if text != told {
                    say(format_args!("{text} Still trying"));
                    told = text;
                }
            }
        }
    }
}
