//! What runs below the handles: sockets' receiving tasks, connections and their drivers, and what
//! an endpoint knows of them.
//!
//! The crate's root has the handles that applications hold. They know this room; nothing in here
//! knows them.

mod arrivals;
mod company;
mod crew;
mod driver;
mod ending;
mod handle;
mod inbox;
mod migrate;
mod open_path;
mod patience;
mod receive;
mod shared;
mod signal;
mod thread;

use std::{
    collections::BTreeMap,
    io,
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use proto::{AcceptError, ConnectionHandle, EndpointEvent, NetworkPath, Transmit, TransportError, VarInt};
use tokio::{runtime::Handle as Runtime, sync::oneshot};
use tracing::{Instrument as _, debug, info_span};

use self::{
    crew::Common,
    driver::Driver,
    inbox::{Inbox, Spares},
    thread::Thread,
};
pub(crate) use self::{
    crew::{Crew, Threads},
    ending::{End, Ending},
    handle::{EndpointHandle, Handle},
    migrate::migrate,
    open_path::{APPLICATION_ABANDON_PATH, open_path},
    shared::{Sender, Shared, State, index},
    signal::Signal,
};
use crate::{
    BindError, ClientConfig, ConnectError, ConnectionError, PathOptions, ServerConfig,
    bind::{bind, bind_path},
    clock,
    lock::lock,
    socket::{Receiver, Socket, UsedBy},
    sockets::Sockets,
};

/// What a client is told that had to make room before anybody decided about it.
const CROWDED: &str = "too many clients wait to be let in";

/// What an endpoint's handles, tasks and connections share; where it has several workers, those of
/// one of them.
pub(crate) struct Engine {
    /// Which worker it is.
    index: usize,
    runtime: Runtime,
    pub(crate) sockets: Sockets,
    /// So many are about to replace sockets, whose connections do not all know that yet.
    rebinding: AtomicUsize,
    /// Receive buffers of handled datagrams.
    spares: Spares,
    books: Mutex<Books>,
    common: Arc<Common>,
    /// Where the runtime is, if it is its own.
    _thread: Option<Thread>,
}

/// What needs the engine's lock.
struct Books {
    proto: proto::Endpoint,
    connections: BTreeMap<ConnectionHandle, Arc<Shared>>,
    /// Clients about which nobody has decided, and what has come from them meanwhile.
    undecided: BTreeMap<ConnectionHandle, Arc<Inbox>>,
    /// By [`Crew::close`].
    closed: bool,
}

/// A client that asks for a connection.
pub(crate) struct Client {
    /// Whose client it is.
    worker: usize,
    pub(crate) proto: Box<proto::Incoming>,
    /// Datagrams that follow.
    inbox: Arc<Inbox>,
}

/// A connection whose driver runs, and what resolves when its handshake is done.
pub(crate) struct Started {
    pub(crate) shared: Arc<Shared>,
    pub(crate) handshake: oneshot::Receiver<()>,
}

/// A socket for a path; one that was bound for it, or for another path, is left again unless kept.
pub(crate) struct PathSocket {
    socket: Arc<Socket>,
    /// Where the path starts: of a socket that takes any of this host's addresses, the one asked for.
    pub(crate) local: SocketAddr,
    owned: bool,
}

impl PathSocket {
    /// The socket, if it was bound for paths: its keeper retires it.
    pub(crate) fn keep(mut self) -> Option<Arc<Socket>> {
        std::mem::take(&mut self.owned).then(|| self.socket.clone())
    }
}

impl Drop for PathSocket {
    fn drop(&mut self) {
        if self.owned {
            self.socket.leave();
        }
    }
}

impl Engine {
    fn new(
        proto: proto::Endpoint,
        index: usize,
        runtime: Runtime,
        thread: Option<Thread>,
        common: Arc<Common>,
    ) -> Self {
        let books = Books { proto, connections: BTreeMap::new(), undecided: BTreeMap::new(), closed: false };
        Self {
            index,
            runtime,
            sockets: Sockets::default(),
            rebinding: AtomicUsize::new(0),
            spares: Spares::default(),
            books: Mutex::new(books),
            common,
            _thread: thread,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        lock(&self.books)
    }

    /// What drives its connections.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Whether sockets may be gone of which connections have not heard yet.
    fn is_rebinding(&self) -> bool {
        self.rebinding.load(SeqCst) > 0
    }

    /// Closes all connections, and takes no more.
    fn close(&self, code: VarInt, reason: &[u8]) {
        let mut state = self.lock();
        state.closed = true;
        state.proto.set_server_config(None);
        let connections: Vec<Arc<Shared>> = state.connections.values().cloned().collect();
        drop(state);
        connections.iter().for_each(|connection| connection.close(code, reason));
    }

    /// Starts a connection to a server from the address that `local` chooses. It does so while the
    /// endpoint is locked: who replaces a socket looks for its connections afterwards, under this lock.
    pub(crate) fn connect(
        self: &Arc<Self>,
        config: &ClientConfig,
        remote: SocketAddr,
        server_name: &str,
        local: impl FnOnce(&Sockets) -> Option<SocketAddr>,
    ) -> Result<Started, ConnectError> {
        if leads_nowhere(remote) {
            return Err(ConnectError::InvalidRemote(remote));
        }
        let mut state = self.lock();
        if state.closed {
            return Err(ConnectError::EndpointClosed);
        }
        let local = local(&self.sockets).ok_or(ConnectError::NoSocket(remote))?;
        let path = NetworkPath { local, remote };
        let (handle, proto) = state.proto.connect(clock::now(), &config.to_proto(), path, server_name)?;
        let started = self.insert(&mut state, handle, remote, proto, Arc::default());
        drop(state);
        self.drive(&started.shared);
        Ok(started)
    }

    /// Makes the connection of a client.
    pub(crate) fn accept(
        self: &Arc<Self>,
        client: Client,
        config: Option<&ServerConfig>,
    ) -> Result<Started, ConnectionError> {
        let config = config.map(ServerConfig::to_proto);
        let (now, remote) = (clock::now(), client.proto.path().remote);
        let mut state = self.lock();
        state.undecided.remove(&client.proto.handle());
        if state.closed {
            drop(state);
            self.refuse(client, "");
            return Err(ConnectionError::LocallyClosed);
        }
        let accepted = match config {
            Some(config) => state.proto.accept_with(now, *client.proto, &config),
            None => state.proto.accept(now, *client.proto),
        };
        let (handle, proto) = accepted.map_err(|error| {
            ConnectionError::TransportError(match error {
                AcceptError::Evicted => TransportError::connection_refused(CROWDED),
                other => TransportError::internal_error(other.to_string()),
            })
        })?;
        let started = self.insert(&mut state, handle, remote, proto, client.inbox);
        drop(state);
        self.drive(&started.shared);
        Ok(started)
    }

    /// Turns a client away.
    pub(crate) fn refuse(&self, client: Client, reason: &str) {
        let mut out = Vec::new();
        let mut state = self.lock();
        state.undecided.remove(&client.proto.handle());
        let transmit = state.proto.refuse(clock::now(), *client.proto, reason, &mut out);
        drop(state);
        if let Some(transmit) = transmit {
            self.reply(&transmit, &out);
        }
    }

    /// Makes a client show that it receives at its address; gives it back if it has.
    pub(crate) fn retry(&self, client: Client) -> Result<(), Client> {
        let Client { worker, proto, inbox } = client;
        let (handle, mut out) = (proto.handle(), Vec::new());
        let mut state = self.lock();
        match state.proto.retry(clock::now(), *proto, &mut out) {
            Ok(transmit) => {
                state.undecided.remove(&handle);
                drop(state);
                self.reply(&transmit, &out);
                Ok(())
            }
            Err(proto) => Err(Client { worker, proto, inbox }),
        }
    }

    /// Forgets a client.
    pub(crate) fn ignore(&self, client: Client) {
        let mut state = self.lock();
        state.undecided.remove(&client.proto.handle());
        state.proto.ignore(*client.proto);
    }

    /// Answers a client that has no connection, from where it asked.
    fn reply(&self, transmit: &Transmit, bytes: &[u8]) {
        if let Some(socket) = self.sockets.select(transmit.path.local) {
            receive::reply(&socket, transmit, bytes);
        }
    }

    fn insert(
        self: &Arc<Self>,
        state: &mut Books,
        handle: ConnectionHandle,
        remote: SocketAddr,
        proto: Box<proto::Connection>,
        inbox: Arc<Inbox>,
    ) -> Started {
        let (shared, handshake) = Shared::new(self.clone(), handle, remote, proto, inbox);
        state.connections.insert(handle, shared.clone());
        self.common.open.fetch_add(1, SeqCst);
        Started { shared, handshake }
    }

    /// Starts the driver. Not while the endpoint is locked: a runtime that shuts down drops it at
    /// once.
    fn drive(&self, connection: &Arc<Shared>) {
        let id = connection.lock().proto.original_id();
        let span = info_span!("connection", %id);
        self.runtime.spawn(Driver::new(connection.clone()).instrument(span));
    }

    pub(crate) fn add_socket(
        self: &Arc<Self>,
        socket: UdpSocket,
        used_by: UsedBy,
    ) -> io::Result<Arc<Socket>> {
        let _within = self.runtime.enter();
        let receiver = Receiver::new(socket, used_by)?;
        let socket = receiver.socket().clone();
        debug!(local = %socket.local(), "socket bound");
        self.sockets.add(socket.clone());
        self.runtime.spawn(receive::receive(self.clone(), receiver));
        Ok(socket)
    }

    /// The socket for a path: one that is bound to the port asked for, or else a fresh one.
    pub(crate) fn path_socket(
        self: &Arc<Self>,
        options: &PathOptions,
        remote: SocketAddr,
    ) -> Result<PathSocket, BindError> {
        let bound = options.local.filter(|local| local.port() != 0 && options.interface.is_none());
        let suits = |local: &SocketAddr| local.ip().is_unspecified() || local.is_ipv4() == remote.is_ipv4();
        if let Some(local) = bound.filter(suits)
            && let Some(socket) = self.sockets.select(local)
            && socket.reaches(remote.ip())
        {
            let is_chosen = !local.ip().is_unspecified();
            if is_chosen && socket.local().ip().is_unspecified() {
                // It must be one of this host's.
                let mut any_port = local;
                any_port.set_port(0);
                bind(any_port)?;
            }
            if !socket.is_dedicated() || socket.join() {
                let local = if is_chosen { local } else { socket.local() };
                return Ok(PathSocket { owned: socket.is_dedicated(), local, socket });
            }
        }
        let socket = bind_path(options, remote)?;
        let local = socket.local_addr().map_err(|source| BindError::Io { local: remote, source })?;
        let socket =
            self.add_socket(socket, UsedBy::OnePath).map_err(|source| BindError::Io { local, source })?;
        Ok(PathSocket { local: socket.local(), socket, owned: true })
    }

    /// Takes a connection's news.
    fn handle_events(&self, handle: ConnectionHandle, events: Vec<EndpointEvent>) {
        let mut state = self.lock();
        for event in events {
            state.proto.handle_event(handle, event);
        }
    }

    /// Nothing is left of the connection.
    fn forget(&self, handle: ConnectionHandle) {
        let mut state = self.lock();
        // A driver that died has not told that its connection is drained.
        state.proto.forget(handle);
        let connection = state.connections.remove(&handle);
        drop(state);
        if connection.is_some() {
            self.common.open.fetch_sub(1, SeqCst);
        }
        drop(connection);
        self.common.end_if_idle();
    }
}

/// Whether an address names no host or no port.
fn leads_nowhere(remote: SocketAddr) -> bool {
    remote.port() == 0 || remote.ip().is_unspecified()
}
