//! What a connection's handles, its driver and the receiving tasks share.

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::Waker,
};

use proto::{ConnectionHandle, Dir, Event, PathEvent, PathId, Side, StreamEvent, StreamId, VarInt};
use tokio::sync::{Notify, broadcast, oneshot};

use super::{
    Engine,
    company::Writers,
    ending::{End, Ending},
    inbox::Inbox,
    migrate::Awaited,
    signal::Signal,
};
use crate::{ConnectionError, OpenPathError, PathUpdate, clock, lock::lock, socket::Socket};

/// Path events that a slow listener may leave waiting before it misses some.
const PATH_EVENTS: usize = 64;

/// One connection.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) handle: ConnectionHandle,
    pub(crate) stable_id: u64,
    /// The peer's address when the connection began.
    pub(crate) remote: SocketAddr,
    state: Mutex<State>,
    pub(crate) inbox: Arc<Inbox>,
    /// The peer opened a stream, by direction.
    pub(crate) opened: [Signal; 2],
    /// The peer allows more streams, by direction.
    pub(crate) available: [Signal; 2],
    pub(crate) datagram_received: Signal,
    pub(crate) datagrams_unblocked: Signal,
    pub(crate) closed: Signal,
    /// Packets or timers have been processed: what was not possible for lack of connection ids, or of
    /// places for paths, may be now.
    pub(crate) progress: Notify,
}

/// Index of a direction in a pair.
pub(crate) fn index(dir: Dir) -> usize {
    match dir {
        Dir::Bi => 0,
        Dir::Uni => 1,
    }
}

/// What needs the connection's lock.
pub(crate) struct State {
    pub(crate) proto: Box<proto::Connection>,
    /// Every live [`SendStream`](crate::SendStream), and those whose end somebody waits for.
    pub(crate) senders: BTreeMap<StreamId, Sender>,
    /// Every live [`RecvStream`](crate::RecvStream), and who waits for its data.
    pub(crate) receivers: BTreeMap<StreamId, Option<Waker>>,
    /// Whose bytes wait for the driver.
    pub(crate) writers: Writers,
    /// Who waits for the handshake.
    connected: Option<oneshot::Sender<()>>,
    /// The server did not take our early data: streams from that time are void.
    early_rejected: bool,
    /// Why the connection ended.
    pub(crate) error: Option<Box<ConnectionError>>,
    path_events: PathEvents,
    /// What belongs to paths, until they are closed.
    paths: BTreeMap<PathId, OwnedByPath>,
    /// Paths whose socket was replaced, and which cannot move yet.
    pub(crate) awaited: Vec<Awaited>,
}

/// What belongs to one path.
#[derive(Default)]
struct OwnedByPath {
    /// Who waits for it to be validated.
    waiter: Option<oneshot::Sender<Result<(), OpenPathError>>>,
    /// The socket that was bound for it, which closes with it.
    socket: Option<Arc<Socket>>,
}

impl OwnedByPath {
    /// Tells who waits, if anybody does.
    fn tell(&mut self, outcome: Result<(), OpenPathError>) {
        if let Some(waiter) = self.waiter.take() {
            let _ = waiter.send(outcome);
        }
    }

    /// Exchanges the socket.
    fn bind(&mut self, socket: Option<Arc<Socket>>) {
        if let Some(before) = std::mem::replace(&mut self.socket, socket) {
            before.retire();
        }
    }
}

/// Who hears about paths. Most connections have no listener, and a channel takes kilobytes.
enum PathEvents {
    Unheard,
    Heard(broadcast::Sender<PathUpdate>),
    /// The connection ended, and listeners hear the end.
    Over,
}

/// The sending side of a stream as far as its handle must know.
#[derive(Default)]
pub(crate) struct Sender {
    /// Waits for room.
    pub(crate) writer: Option<Waker>,
    pub(crate) ending: Arc<Ending>,
    /// There is no [`SendStream`](crate::SendStream) any more, but somebody waits for its end.
    pub(crate) orphaned: bool,
}

impl Sender {
    fn end(&mut self, end: End) {
        self.ending.set(end);
        self.writer.take().into_iter().for_each(Waker::wake);
    }
}

impl Shared {
    /// A new connection, and what resolves when its handshake is done.
    pub(crate) fn new(
        engine: Arc<Engine>,
        handle: ConnectionHandle,
        remote: SocketAddr,
        proto: Box<proto::Connection>,
        inbox: Arc<Inbox>,
    ) -> (Arc<Self>, oneshot::Receiver<()>) {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let (connected, handshake) = oneshot::channel();
        inbox.set_stranger(!proto.is_admitted());
        let state = State {
            proto,
            senders: BTreeMap::new(),
            receivers: BTreeMap::new(),
            writers: Writers::None,
            connected: Some(connected),
            early_rejected: false,
            error: None,
            path_events: PathEvents::Unheard,
            paths: BTreeMap::new(),
            awaited: Vec::new(),
        };
        let shared = Self {
            engine,
            handle,
            stable_id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            remote,
            state: Mutex::new(state),
            inbox,
            opened: Default::default(),
            available: Default::default(),
            datagram_received: Signal::default(),
            datagrams_unblocked: Signal::default(),
            closed: Signal::default(),
            progress: Notify::new(),
        };
        (Arc::new(shared), handshake)
    }

    /// The connection's lock; nothing else may be locked meanwhile except the inbox.
    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Lets the driver look at the connection again: something changed.
    pub(crate) fn wake_driver(&self) {
        self.inbox.wake();
    }

    /// Closes with an application code; the first close counts.
    pub(crate) fn close(&self, code: VarInt, reason: &[u8]) {
        self.end_here(|proto| proto.close(clock::now(), code, reason));
    }

    /// Turns a client away: with the application's code once the handshake is complete, with
    /// CONNECTION_REFUSED before.
    pub(crate) fn refuse(&self, code: VarInt, reason: &str) {
        self.end_here(|proto| proto.refuse(clock::now(), code, reason));
    }

    /// Ends the connection from this side, unless it has ended.
    fn end_here(&self, close: impl FnOnce(&mut proto::Connection)) {
        let mut state = self.lock();
        if state.error.is_none() {
            close(&mut state.proto);
            self.end(&mut state, ConnectionError::LocallyClosed);
        }
        drop(state);
        self.wake_driver();
    }

    /// Lets application data flow before the handshake is complete, if that is possible. What a client has
    /// sent since it asked is read first: its hello may be longer than its first packet.
    pub(crate) fn start_early_data(&self) -> bool {
        let mut state = self.lock();
        let now = clock::now();
        if state.proto.side() == Side::Server {
            for batch in &mut self.inbox.take() {
                for datagram in batch.datagrams() {
                    state.proto.handle_datagram(now, datagram);
                }
            }
        }
        state.proto.start_early_data(now)
    }

    /// The endpoint has forgotten the connection, to make room.
    pub(crate) fn evict(&self) {
        self.lock().proto.evict(clock::now());
        self.wake_driver();
    }

    /// Notes why the connection ended and wakes everybody who waits for anything.
    pub(crate) fn end(&self, state: &mut State, error: ConnectionError) {
        if state.error.is_some() {
            return;
        }
        state.paths.values_mut().for_each(|path| path.tell(Err(error.clone().into())));
        state.senders.values_mut().for_each(|sender| sender.end(End::Lost(error.clone())));
        state.error = Some(Box::new(error));
        state.connected = None;
        state.path_events = PathEvents::Over;
        state.receivers.values_mut().filter_map(Option::take).for_each(Waker::wake);
        let datagrams = [&self.datagram_received, &self.datagrams_unblocked];
        for notify in self.opened.iter().chain(&self.available).chain(datagrams).chain([&self.closed]) {
            notify.notify_waiters();
        }
        self.progress.notify_waiters();
    }

    /// Tells whom it concerns.
    pub(crate) fn dispatch(&self, state: &mut State, event: Event) -> Woken {
        match event {
            Event::Connected => {
                if let Some(connected) = state.connected.take() {
                    let _ = connected.send(());
                }
            }
            Event::EarlyDataRejected => self.reject_early(state),
            Event::Stream(event) => return self.dispatch_stream(state, event),
            Event::DatagramReceived => self.datagram_received.notify_waiters(),
            Event::DatagramsUnblocked => self.datagrams_unblocked.notify_waiters(),
            Event::Path(event) => state.dispatch_path(event),
            Event::ConnectionLost(error) => self.end(state, error),
            // The driver deals with the end, and what a later transport may tell concerns nobody
            // here.
            _ => {}
        }
        Woken::NoReader
    }

    /// Wakes all that wait for what will not come.
    fn reject_early(&self, state: &mut State) {
        state.early_rejected = true;
        std::mem::take(&mut state.senders).values_mut().for_each(|sender| sender.end(End::Rejected));
        std::mem::take(&mut state.receivers).into_values().flatten().for_each(Waker::wake);
        self.available.iter().for_each(|available| available.notify_waiters());
        self.datagrams_unblocked.notify_waiters();
    }

    fn dispatch_stream(&self, state: &mut State, event: StreamEvent) -> Woken {
        match event {
            StreamEvent::Opened { dir } => {
                let opened = &self.opened[index(dir)];
                opened.notify_waiters();
                if opened.is_awaited() {
                    return Woken::Acceptor;
                }
            }
            StreamEvent::Available { dir } => self.available[index(dir)].notify_waiters(),
            StreamEvent::Readable(id) => {
                if let Some(reader) = state.receivers.get_mut(&id).and_then(Option::take) {
                    reader.wake();
                    return Woken::Reader;
                }
            }
            StreamEvent::Writable(id) => {
                if let Some(waker) = state.senders.get_mut(&id).and_then(|sender| sender.writer.take()) {
                    waker.wake();
                }
            }
            StreamEvent::Finished(id) => state.end_sender(id, End::Finished),
            StreamEvent::Stopped { id, code } => state.end_sender(id, End::Stopped(code)),
        }
        Woken::NoReader
    }
}

/// Who hears of an event at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// A task that waits for something to read on a stream.
    Reader,
    /// One that takes streams and sees to it that they are read.
    Acceptor,
    /// Somebody else, or nobody.
    NoReader,
}

impl State {
    /// `Err` once the connection has ended.
    pub(crate) fn alive(&self) -> Result<(), ConnectionError> {
        self.error().map_or(Ok(()), Err)
    }

    /// Why the connection ended.
    pub(crate) fn error(&self) -> Option<ConnectionError> {
        self.error.as_deref().cloned()
    }

    /// A sending side has come to its end.
    fn end_sender(&mut self, id: StreamId, end: End) {
        let Some(sender) = self.senders.get_mut(&id) else { return };
        sender.end(end);
        if sender.orphaned {
            self.senders.remove(&id);
        }
    }

    /// Whether a stream that is opened now belongs to a client's early data.
    pub(crate) fn opens_early(&self) -> bool {
        self.connected.is_some() && self.proto.side() == Side::Client
    }

    /// Whether a stream is void, because it was opened early and the server did not take that.
    pub(crate) fn is_void(&self, early: bool) -> bool {
        early && self.early_rejected
    }

    /// Tells listeners; there may be none.
    pub(crate) fn announce(&self, update: PathUpdate) {
        if let PathEvents::Heard(events) = &self.path_events {
            let _ = events.send(update);
        }
    }

    pub(crate) fn subscribe(&mut self) -> broadcast::Receiver<PathUpdate> {
        match &self.path_events {
            PathEvents::Heard(events) => events.subscribe(),
            PathEvents::Over => broadcast::channel(1).1,
            PathEvents::Unheard => {
                let (events, listener) = broadcast::channel(PATH_EVENTS);
                self.path_events = PathEvents::Heard(events);
                listener
            }
        }
    }

    /// Binds the life of a socket to that of a path.
    pub(crate) fn own_socket(&mut self, path: PathId, socket: Arc<Socket>) {
        self.paths.entry(path).or_default().socket = Some(socket);
    }

    /// The path left the socket that was bound for it, if there was one, perhaps for another.
    pub(crate) fn replace_socket(&mut self, path: PathId, socket: Option<Arc<Socket>>) {
        self.paths.entry(path).or_default().bind(socket);
    }

    /// Resolves when the path is validated, or never will be.
    pub(crate) fn watch_path(&mut self, path: PathId) -> oneshot::Receiver<Result<(), OpenPathError>> {
        let (waiter, validated) = oneshot::channel();
        self.paths.entry(path).or_default().waiter = Some(waiter);
        validated
    }

    /// Forgets a path that failed, and closes its socket.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        self.awaited.retain(|awaited| awaited.path != path);
        if let Some(mut path) = self.paths.remove(&path) {
            path.bind(None);
        }
    }

    /// The connection is gone: so are the sockets of its paths.
    pub(crate) fn retire_sockets(&mut self) {
        self.awaited.clear();
        std::mem::take(&mut self.paths).values_mut().for_each(|path| path.bind(None));
    }

    fn dispatch_path(&mut self, event: PathEvent) {
        match event {
            PathEvent::Validated(path) => {
                if let Some(path) = self.paths.get_mut(&path) {
                    path.tell(Ok(()));
                }
            }
            PathEvent::Closed { path, by_peer, code } => {
                if let Some(path) = self.paths.get_mut(&path) {
                    path.tell(Err(OpenPathError::Closed { by_peer, code }));
                }
                self.forget_path(path);
            }
            _ => {}
        }
        self.announce(PathUpdate::Event(event));
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("stable_id", &self.stable_id).field("remote", &self.remote).finish()
    }
}
