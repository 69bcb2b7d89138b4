//! The connection to the server, made anew whenever it is lost.

use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use mendpath::{Connection, ConnectionError, RecvStream};
use tokio::{sync::watch, time::Instant};
use tracing::{Instrument as _, info, info_span};

use super::{
    demand::Demand,
    dial::{DialOptions, Dialled, dial},
    keeper::keep_paths,
    news::{addresses, pause_without_news},
    retired::{Old, Retired, Why, answers_now, keep_count, observe},
};
use crate::{
    association::Hub,
    backoff::{Backoff, pause},
    console::{mention, say},
    failure::Failure,
    invitation::Invitation,
    protocol::{CloseCode, MAX_MESSAGE, Notice, Reply, Status, read_frame},
    status::{EventKind, Journal, Left, Live, Saved},
    target::Target,
    transport::explain,
};

/// How long a program waits for a connection that is being made anew.
const PATIENCE: Duration = Duration::from_secs(20);
pub(super) const FIRST_WAIT: Duration = Duration::from_millis(500);
/// A connection that ends sooner is no reason to hurry.
const SHORT_LIFE: Duration = Duration::from_secs(2);
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// For so long no address that comes ends a wait, where they come without end.
const LONGEST_CALM: Duration = Duration::from_secs(8);
/// The longest wait while the old connection is there.
const LONGEST_MOVING: Duration = Duration::from_secs(4);
/// For how long a server that drained is avoided after its end.
const AFTER_DRAIN: Duration = Duration::from_secs(10);
const LONGEST_DRAIN: Duration = Duration::from_secs(3_600);
/// In which a last packet leaves.
const LAST_PACKET: Duration = Duration::from_millis(50);

/// One life of the connection.
#[derive(Clone, Debug)]
pub struct Session {
    /// The connection.
    pub connection: Connection,
    /// Its datagrams.
    pub hub: Arc<Hub>,
    /// The server, as the invitation names it.
    pub host: Target,
    /// How many connections there were before.
    pub reconnects: u64,
    pub(crate) live: Arc<Live>,
    saved: Arc<Mutex<Saved>>,
    left: watch::Receiver<bool>,
    /// Its streams that are waited for.
    pub(crate) demand: Arc<Demand>,
    /// Whether the server has been heard of lately, where another might be there if not.
    fresh: watch::Receiver<bool>,
    /// Whether the server is about to stop.
    draining: bool,
}

/// The connection as its users see it: there, or being made anew. Clones are handles of the same.
#[derive(Clone, Debug)]
pub struct Uplink {
    session: watch::Receiver<Option<Session>>,
    live: Arc<Live>,
}

impl Session {
    /// Whether the server is certain enough to be there that programs may be promised its answer.
    pub(crate) fn is_fresh(&self) -> bool {
        *self.fresh.borrow()
    }

    /// Waits until this connection was given up for another one because its server did not answer.
    pub(crate) async fn left(&self) {
        if self.left.clone().wait_for(|left| *left).await.is_err() {
            // It ended in another way, which those who use it see.
            std::future::pending().await
        }
    }

    /// The books of what mending saved.
    pub(crate) fn saved(&self) -> MutexGuard<'_, Saved> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Uplink {
    /// A handle of a connection that is still to be made, and where that is to be published.
    pub(crate) fn new(live: Arc<Live>) -> (Self, watch::Sender<Option<Session>>) {
        let (publish, session) = watch::channel(None);
        (Self { session, live }, publish)
    }

    /// Connects, and returns what must run to publish the connection and to keep it; that ends when
    /// trying again is useless.
    ///
    /// # Errors
    /// When the server cannot be reached or used, unless `wait_for_server` says to keep trying.
    pub(crate) async fn start(
        options: DialOptions,
        wait_for_server: bool,
        publish: watch::Sender<Option<Session>>,
        live: Arc<Live>,
    ) -> Result<impl Future<Output = Failure> + Send + 'static, Failure> {
        let dialled = match dial(&options).await {
            Ok(dialled) => dialled,
            Err((failure, retry)) if wait_for_server && retry.is_worth_it(true) => {
                say(format_args!("{failure} Trying again"));
                redial(&options, true, Manner::Told).await?
            }
            Err((failure, _)) => return Err(failure),
        };
        Ok(keep(options, wait_for_server, dialled, publish, live))
    }

    /// The present connection, or the next one if it comes soon.
    ///
    /// # Errors
    /// An answer for the waiting program when it takes too long.
    pub async fn session(&self) -> Result<Session, Reply> {
        self.find(|_| true).await
    }

    async fn find(&self, fits: impl Fn(&Session) -> bool) -> Result<Session, Reply> {
        let mut session = self.session.clone();
        let found = session.wait_for(|session| session.as_ref().is_some_and(&fits));
        let found = tokio::time::timeout(PATIENCE, found).await;
        match found {
            Ok(Ok(session)) => Ok(session.clone().expect("waited for Some")),
            _ => {
                Err(Reply::new(Status::HostUnreachable, "the connection to the server is lost; still trying"))
            }
        }
    }

    /// The connection that comes after `failed`, if it comes soon.
    ///
    /// # Errors
    /// An answer for the waiting program when it takes too long.
    pub(crate) async fn session_after(&self, failed: &Session) -> Result<Session, Reply> {
        let number = failed.connection.stable_id();
        self.find(|session| session.connection.stable_id() != number).await
    }

    /// Waits until there is another connection than that of this number.
    pub(crate) async fn moved_on(&self, from: u64) {
        let mut session = self.session.clone();
        let is_another = |session: &Session| session.connection.stable_id() != from;
        if session.wait_for(|session| session.as_ref().is_some_and(is_another)).await.is_err() {
            // There is none any more.
            std::future::pending().await
        }
    }

    /// Whether the server of the present connection is about to stop.
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    pub(crate) fn is_draining(&self) -> bool {
        self.session.borrow().as_ref().is_some_and(|session| session.draining)
    }

    /// Waits until [`is_draining`](Self::is_draining) is not what it `was`.
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    pub(crate) async fn draining_changes(&self, was: bool) {
        let mut session = self.session.clone();
        let is_draining =
            |session: &Option<Session>| session.as_ref().is_some_and(|session| session.draining);
        if session.wait_for(|session| is_draining(session) != was).await.is_err() {
            // There is no connection any more.
            std::future::pending().await
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
            say_goodbye(&session.connection).await;
        }
    }
}

/// Closes a connection, and lets its last packet out before the process may end.
pub(crate) async fn say_goodbye(connection: &Connection) {
    connection.close(CloseCode::Done.into(), b"");
    pause(LAST_PACKET).await;
}

/// Keeps one connection after the other until trying again is useless.
async fn keep(
    options: DialOptions,
    wait: bool,
    mut dialled: Dialled,
    publish: watch::Sender<Option<Session>>,
    live: Arc<Live>,
) -> Failure {
    let (mut reconnects, mut retired) = (0, Retired::default());
    loop {
        let (host, began) = (dialled.host.clone(), Instant::now());
        let span = info_span!("connection", id = dialled.connection.original_id());
        span.in_scope(|| announce(&dialled, &options.invitation, reconnects, &live.journal));
        let used = use_until_it_ends(dialled, reconnects, &options, &publish, &live);
        dialled = match used.instrument(span.clone()).await {
            Next::Moved { to, from, why } => {
                retired.add(from, why, &live);
                *to
            }
            // The client said goodbye, and ends.
            Next::Lost(ConnectionError::LocallyClosed) => std::future::pending().await,
            Next::Lost(error) => {
                span.in_scope(|| info!("connection is down: {error}"));
                let (failure, retry) = explain(&error, &host);
                if !retry.is_worth_another(wait) {
                    return failure;
                }
                say(format_args!("lost the connection: {error}; reconnecting"));
                live.journal.note(EventKind::Down, format_args!("lost the connection: {error}"));
                if !options.invitation.also.is_empty() && began.elapsed() < SHORT_LIFE {
                    // Whoever lets in and closes at once is not asked in a circle.
                    pause(FIRST_WAIT).await;
                }
                match redial(&options, wait, Manner::Told).await {
                    Ok(dialled) => dialled,
                    Err(failure) => return failure,
                }
            }
        };
        reconnects += 1;
        live.past().reconnects = reconnects;
    }
}

/// What whoever keeps a connection tells those who use it.
struct Marks {
    /// It was given up because its server did not answer.
    left: watch::Sender<bool>,
    /// The server has been heard of lately.
    fresh: watch::Sender<bool>,
}

/// Writes down that this is the present connection, and hands it out.
fn begin_session(
    connection: &Connection,
    host: &Target,
    reconnects: u64,
    publish: &watch::Sender<Option<Session>>,
    live: &Arc<Live>,
) -> (Session, Marks) {
    let marks = Marks { left: watch::Sender::new(false), fresh: watch::Sender::new(true) };
    let hub = Arc::new(Hub::new(connection.clone()));
    let session = Session {
        connection: connection.clone(),
        hub: hub.clone(),
        host: host.clone(),
        reconnects,
        live: live.clone(),
        saved: Arc::new(Mutex::new(Saved::new(Instant::now()))),
        left: marks.left.subscribe(),
        demand: Arc::new(Demand::new()),
        fresh: marks.fresh.subscribe(),
        draining: false,
    };
    live.past().present = Some(connection.clone());
    publish.send_replace(Some(session.clone()));
    tokio::spawn(async move { hub.run().await });
    (session, marks)
}

/// Writes down what the connection did, and hands it out no more. Whoever adds that to what there is
/// sees either both or none.
fn end_session(session: &Session, publish: &watch::Sender<Option<Session>>) {
    let Session { connection, live, reconnects, .. } = session;
    let mut past = live.past();
    let names = live.path_names().clone();
    past.left.push(Left { connection: connection.clone(), number: *reconnects, names });
    past.settle();
    past.present = None;
    publish.send_replace(None);
}

/// What comes after a connection.
enum Next {
    /// Nothing yet.
    Lost(ConnectionError),
    /// Another one, while what ran over the old one goes on.
    Moved { to: Box<Dialled>, from: Old, why: Why },
}

/// Publishes a connection and keeps its paths until it ends or there is a better one: when the
/// server drains, or when it does not answer and others might.
async fn use_until_it_ends(
    dialled: Dialled,
    reconnects: u64,
    options: &DialOptions,
    publish: &watch::Sender<Option<Session>>,
    live: &Arc<Live>,
) -> Next {
    let Dialled { connection, first_path, host, server, control: (goodbye, mut words) } = dialled;
    let several = !options.invitation.also.is_empty();
    let (mut session, marks) = begin_session(&connection, &host, reconnects, publish, live);
    let (notice, mut noticed) = watch::channel(Said { drains: None, balanced: several });
    let (silence, mut silent) = watch::channel(false);
    let (specs, demand) = (options.paths.clone(), session.demand.clone());
    let paths = keep_paths(connection.clone(), first_path, server, specs, &demand, live);
    let keeping = attend(&connection, paths, &mut words, &notice, &silence, &marks);
    let mut keeping = std::pin::pin!(keeping);
    let mut moving: Option<(Why, Moving<'_>)> = None;
    loop {
        tokio::select! {
            error = &mut keeping => {
                end_session(&session, publish);
                return Next::Lost(error);
            }
            to = async { moving.as_mut().expect("there is one").1.as_mut().await }, if moving.is_some() => {
                let Some((why, _)) = moving.take() else { unreachable!("it was polled") };
                // What was answered there went over the same networks, so that this one, too, would
                // answer now.
                if why == Why::Silent && answers_now(&connection, &to.connection).await {
                    to.connection.close(CloseCode::Done.into(), b"");
                    continue;
                }
                end_session(&session, publish);
                marks.left.send_replace(why == Why::Silent);
                drop(session);
                return Next::Moved { to: Box::new(to), from: Old { connection: connection.clone(), _goodbye: goodbye }, why };
            }
            Ok(()) = noticed.changed() => {
                let Said { drains: Some(within), .. } = *noticed.borrow_and_update() else { continue };
                mark_draining(&mut session, publish);
                on_drain(&host, within, options, live);
                moving = Some((Why::Drained, Box::pin(move_on(options))));
            }
            Ok(()) = silent.changed() => {
                let is_silent = *silent.borrow_and_update();
                // What is new waits for who answers first.
                publish.send_replace((!is_silent).then(|| session.clone()));
                match (&moving, is_silent) {
                    (None, true) => {
                        live.journal.note(EventKind::Down, format_args!("the server {host} does not answer"));
                        moving = Some((Why::Silent, Box::pin(move_on(options))));
                    }
                    (Some((Why::Silent, _)), false) => moving = None,
                    _ => {}
                }
            }
        }
    }
}

/// Keeps the paths of a connection, hears what its server says and whether it answers, until the
/// connection ends.
async fn attend(
    connection: &Connection,
    paths: impl Future<Output = ()>,
    words: &mut RecvStream,
    said: &watch::Sender<Said>,
    silence: &watch::Sender<bool>,
    marks: &Marks,
) -> ConnectionError {
    tokio::select! {
        error = connection.closed() => error,
        () = paths => connection.closed().await,
        () = heed(words, said) => connection.closed().await,
        () = observe(connection, said.subscribe(), silence) => connection.closed().await,
        () = keep_count(connection, said.subscribe(), &marks.fresh) => connection.closed().await,
    }
}

/// Those who use the connection are to know that its server is about to stop.
fn mark_draining(session: &mut Session, publish: &watch::Sender<Option<Session>>) {
    session.draining = true;
    publish.send_if_modified(|present| match present {
        Some(present) => !std::mem::replace(&mut present.draining, true),
        // The server does not answer: nobody is to use it.
        None => false,
    });
}

/// The server stops within that time: the others come first from now on, and the user is told.
fn on_drain(host: &Target, within: Duration, options: &DialOptions, live: &Live) {
    options.hosts.avoid(host, within + AFTER_DRAIN);
    let then = if options.invitation.also.is_empty() { "" } else { "; moving on" };
    let text = format!("the server {host} is about to stop{then}");
    live.journal.note(EventKind::Changed, &text);
    mention(text);
}

/// A connection to another server is being made.
type Moving<'a> = std::pin::Pin<Box<dyn Future<Output = Dialled> + Send + 'a>>;

/// Dials until it works; the present connection says when trying is useless.
async fn move_on(options: &DialOptions) -> Dialled {
    match redial(options, false, Manner::Quietly).await {
        Ok(dialled) => dialled,
        Err(failure) => {
            info!(%failure, "cannot move");
            std::future::pending().await
        }
    }
}

/// What is known of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// It is about to stop, within that time.
    drains: Option<Duration>,
    /// Another connection may come to another server.
    pub(super) balanced: bool,
}

/// Listens to the server's words until the stream or the connection ends; then waits.
async fn heed(words: &mut RecvStream, said: &watch::Sender<Said>) {
    while let Ok(Some(body)) = read_frame(words, MAX_MESSAGE).await {
        match Notice::decode(&body) {
            Ok(Notice::Draining { within, text }) => {
                info!(?within, text, "the server drains");
                // Hours are for people; a server that is avoided for days may be a slip.
                said.send_if_modified(|said| {
                    let first = said.drains.is_none();
                    said.drains = said.drains.or(Some(within.min(LONGEST_DRAIN)));
                    first
                });
            }
            Ok(Notice::Balanced) => {
                said.send_if_modified(|said| !std::mem::replace(&mut said.balanced, true));
            }
            Err(error) => info!(%error, "the server said something"),
        }
    }
    std::future::pending().await
}

fn announce(dialled: &Dialled, invitation: &Invitation, reconnects: u64, journal: &Journal) {
    let Dialled { connection, first_path: path, host, server, .. } = dialled;
    let again = if reconnects == 0 { "" } else { " again" };
    let which = if invitation.also.is_empty() { String::new() } else { format!(" ({host})") };
    let text = format!("connected{again} to {server}{which} over {path}");
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

/// Whether to tell the user of every kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Told,
    Quietly,
}

/// Dials until it works, or cannot work.
async fn redial(options: &DialOptions, wait: bool, manner: Manner) -> Result<Dialled, Failure> {
    let longest = if manner == Manner::Quietly { LONGEST_MOVING } else { LONGEST_WAIT };
    let mut backoff = Backoff::new(FIRST_WAIT, longest);
    let mut calm = Backoff::new(FIRST_WAIT, LONGEST_CALM);
    let mut least = calm.next_wait();
    let mut told = String::new();
    if options.invitation.also.is_empty() {
        pause(backoff.next_wait()).await;
    }
    loop {
        let had = addresses(&options.paths);
        // Where there are others, one of them is there now.
        match dial(options).await {
            Ok(dialled) => return Ok(dialled),
            Err((failure, retry)) if !retry.is_worth_another(wait) => return Err(failure),
            Err((failure, _)) => {
                // The same trouble is told once, not every half minute.
                let text = failure.to_string();
                if text != told && manner == Manner::Told {
                    say(format_args!("{text} Still trying"));
                    told = text;
                }
            }
        }
        if pause_without_news(backoff.next_wait(), least, had, || addresses(&options.paths)).await {
            // Routes come a moment after the address.
            pause(FIRST_WAIT).await;
            backoff = Backoff::new(FIRST_WAIT, longest);
            least = calm.next_wait();
        }
    }
}

#[cfg(test)]
impl Uplink {
    /// Without a connection, and without anybody who makes one.
    pub(crate) fn without_server() -> Self {
        Self::new(Arc::new(Live::new(true))).0
    }

    /// Over this connection, and what has that given up because its server does not answer. What comes in its
    /// place goes over the same one.
    pub(crate) fn over(connection: &Connection) -> (Self, impl FnOnce() + use<>) {
        let (uplink, marks, replace) = Self::begun(connection);
        let connection = connection.clone();
        (uplink, move || {
            replace(&connection);
            marks.left.send_replace(true);
        })
    }

    /// Over this connection, and what puts `next` in its place, as where it is lost.
    pub(crate) fn over_until_lost(
        connection: &Connection,
        next: &Connection,
    ) -> (Self, impl FnOnce() + use<>) {
        let (uplink, _, replace) = Self::begun(connection);
        let next = next.clone();
        (uplink, move || replace(&next))
    }

    /// Over this connection, and what has its server about to stop.
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    pub(crate) fn over_until_drained(connection: &Connection) -> (Self, impl FnMut() + use<>) {
        let (uplink, publish) = Self::new(Arc::new(Live::new(true)));
        let host = "vps.example:4433".parse().expect("a place");
        let (mut session, _) = begin_session(connection, &host, 0, &publish, &uplink.live);
        (uplink, move || mark_draining(&mut session, &publish))
    }

    /// Over this connection, with its marks, and what puts another in its place.
    fn begun(connection: &Connection) -> (Self, Marks, impl FnOnce(&Connection) + use<>) {
        let (uplink, publish) = Self::new(Arc::new(Live::new(true)));
        let live = uplink.live.clone();
        let begin = move |connection: &Connection, reconnects| {
            let host = "vps.example:4433".parse().expect("a place");
            begin_session(connection, &host, reconnects, &publish, &live).1
        };
        let marks = begin(connection, 0);
        (uplink, marks, move |next: &Connection| _ = begin(next, 1))
    }
}
