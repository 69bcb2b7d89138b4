//! The endpoint: UDP sockets, and the connections that run over them.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, io,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::{Arc, Mutex, MutexGuard},
};

use proto::{
    AcceptError, ConnectionHandle, Datagram, EndpointEvent, EndpointOutput, NetworkPath, PathId, Transmit,
    TransportError, VarInt,
};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::{runtime::Handle, sync::Notify};
use tracing::{Instrument as _, debug, info_span};
use units::Instant;

use crate::{
    BindError, ClientConfig, ConnectError, Connecting, ConnectionError, EndpointStats, Incoming, PathOptions,
    QuicLb, ResetKey, ServerConfig,
    bind::{bind, bind_path},
    clock,
    driver::Driver,
    inbox::{Batch, Inbox, Spares},
    incoming::Client,
    lock::lock,
    migrate::rebind,
    receive,
    shared::Shared,
    socket::{Socket, UsedBy},
    sockets::Sockets,
};

/// Clients that may wait for [`Endpoint::accept`]; more are refused.
const MAX_BACKLOG: usize = 1_024;

/// What a client is told that had to make room before anybody decided about it.
const CROWDED: &str = "too many clients wait to be let in";

/// UDP sockets and the connections that run over them, as client, as server or both.
///
/// Clones are handles of the same endpoint. When the last handle is dropped, no connection is
/// accepted any more; those that exist go on, and the sockets close with the last of them.
#[derive(Clone)]
pub struct Endpoint {
    inner: Arc<Inner>,
    last: Arc<LastHandle>,
}

/// Dropped with the last handle.
pub(crate) struct LastHandle(Arc<Inner>);

impl Drop for LastHandle {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// What handles, tasks and connections share.
pub(crate) struct Inner {
    runtime: Handle,
    pub(crate) sockets: Sockets,
    /// Receive buffers of handled datagrams.
    pub(crate) spares: Spares,
    state: Mutex<State>,
    /// A connection waits to be accepted, or none ever will.
    incoming: Notify,
    /// The last connection is gone.
    idle: Notify,
}

struct State {
    proto: proto::Endpoint,
    connections: BTreeMap<ConnectionHandle, Arc<Shared>>,
    /// Clients about which nobody has decided, and what has come from them meanwhile.
    undecided: BTreeMap<ConnectionHandle, Arc<Inbox>>,
    /// Those of them that wait for [`Endpoint::accept`].
    backlog: VecDeque<Incoming>,
    client: Option<ClientConfig>,
    /// By [`Endpoint::close`].
    closed: bool,
    /// No [`Endpoint`] is left.
    abandoned: bool,
}

impl Endpoint {
    /// Binds sockets one by one.
    pub fn builder() -> EndpointBuilder {
        EndpointBuilder::default()
    }

    /// A client on one socket; `0.0.0.0:0` or `[::]:0` leaves the address to the operating system.
    ///
    /// # Errors
    /// If the socket cannot be bound, or there is no tokio runtime here.
    pub fn client(local: SocketAddr) -> io::Result<Self> {
        Self::builder().bind(local).build()
    }

    /// A server on one socket.
    ///
    /// # Errors
    /// If the socket cannot be bound, or there is no tokio runtime here.
    pub fn server(config: ServerConfig, local: SocketAddr) -> io::Result<Self> {
        Self::builder().server(config).bind(local).build()
    }

    /// The configuration that [`connect`](Self::connect) uses from now on.
    pub fn set_default_client_config(&self, config: ClientConfig) {
        self.inner.lock().client = Some(config);
    }

    /// Changes how connections are accepted from now on; `None` accepts no more.
    pub fn set_server_config(&self, config: Option<ServerConfig>) {
        self.inner.lock().proto.set_server_config(config.map(|config| config.to_proto()));
    }

    /// Starts connecting to `remote`, whose certificate must be valid for `server_name` unless the
    /// key is pinned.
    ///
    /// # Errors
    /// If there is no default client configuration, or the connection cannot even start.
    pub fn connect(&self, remote: SocketAddr, server_name: &str) -> Result<Connecting, ConnectError> {
        let config = self.inner.lock().client.clone().ok_or(ConnectError::NoClientConfig)?;
        self.connect_with(&config, remote, server_name)
    }

    /// Starts connecting with a configuration of its own.
    ///
    /// # Errors
    /// If the connection cannot even start.
    pub fn connect_with(
        &self,
        config: &ClientConfig,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let socket = self.inner.sockets.towards(remote).ok_or(ConnectError::NoSocket(remote))?;
        self.inner.connect(config, NetworkPath { local: socket.local(), remote }, server_name)
    }

    /// Starts connecting with the first path over a certain interface or local address; the
    /// options' remote address, timeout and status are not used.
    ///
    /// # Errors
    /// If the interface or address cannot be used, or the connection cannot even start.
    pub fn connect_via(
        &self,
        config: &ClientConfig,
        path: &PathOptions,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let socket = self.inner.path_socket(path, remote)?;
        let local = NetworkPath { local: socket.socket.local(), remote };
        let connecting = self.inner.connect(config, local, server_name)?;
        if let Some(socket) = socket.keep() {
            connecting.own_socket(PathId(0), socket);
        }
        Ok(connecting)
    }

    /// The next client that asks for a connection, to be decided about; `None` once the endpoint is
    /// closed. Cancel safe.
    pub async fn accept(&self) -> Option<Incoming> {
        loop {
            let incoming = self.inner.incoming.notified();
            {
                let mut state = self.inner.lock();
                if let Some(incoming) = state.backlog.pop_front() {
                    return Some(incoming.hand_out(self.last.clone()));
                }
                if state.closed {
                    return None;
                }
            }
            incoming.await;
        }
    }

    /// Closes all connections with an application code and reason, and accepts no more.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        let mut state = self.inner.lock();
        state.closed = true;
        state.proto.set_server_config(None);
        let connections: Vec<Arc<Shared>> = state.connections.values().cloned().collect();
        let backlog = std::mem::take(&mut state.backlog);
        drop(state);
        for connection in connections {
            connection.close(code, reason);
        }
        drop(backlog);
        self.inner.incoming.notify_waiters();
    }

    /// Waits until no connection is left, those that are closing included.
    pub async fn wait_idle(&self) {
        loop {
            let idle = self.inner.idle.notified();
            if self.open_connections() == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Connections that exist, those that are closing included.
    pub fn open_connections(&self) -> usize {
        self.inner.lock().connections.len()
    }

    /// How strangers were dealt with: connections accepted and refused, Retry packets, stateless
    /// resets.
    pub fn stats(&self) -> EndpointStats {
        self.inner.lock().proto.stats()
    }

    /// The addresses of the sockets, in the order they were bound, those bound for single paths
    /// included.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.inner.sockets.local_addrs()
    }

    /// Binds one more socket and returns its address, for paths from there.
    ///
    /// # Errors
    /// If the socket cannot be bound.
    pub fn bind(&self, local: SocketAddr) -> io::Result<SocketAddr> {
        self.add_socket(bind(local).map_err(with_address)?)
    }

    /// Replaces the sockets of this address family that were not bound for single paths by one that
    /// the caller has bound, and returns its address. The paths of clients that ran over them move
    /// there (RFC 9000 section 9); those of servers, and connections whose handshake is not
    /// complete, lose theirs.
    ///
    /// # Errors
    /// If the socket cannot be used with the runtime.
    pub fn rebind(&self, socket: UdpSocket) -> io::Result<SocketAddr> {
        let new = self.inner.add_socket(socket, UsedBy::All)?;
        let old = self.inner.sockets.replace(&new);
        let connections: Vec<Arc<Shared>> = self.inner.lock().connections.values().cloned().collect();
        for connection in &connections {
            rebind(connection, &old, new.local());
        }
        old.iter().for_each(|socket| socket.retire());
        Ok(new.local())
    }

    /// Takes one more socket, bound by the caller, and returns its address.
    ///
    /// # Errors
    /// If the socket cannot be used with the runtime.
    pub fn add_socket(&self, socket: UdpSocket) -> io::Result<SocketAddr> {
        Ok(self.inner.add_socket(socket, UsedBy::All)?.local())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("local_addrs", &self.local_addrs()).finish_non_exhaustive()
    }
}

/// The operating system's kind of error, with the address in its text.
fn with_address(error: BindError) -> io::Error {
    let kind = match &error {
        BindError::Io { source, .. } => source.kind(),
        _ => io::ErrorKind::AddrNotAvailable,
    };
    io::Error::new(kind, error)
}

/// A socket for a path; one that was bound for it closes again unless kept.
pub(crate) struct PathSocket {
    pub(crate) socket: Arc<Socket>,
    fresh: bool,
}

impl PathSocket {
    /// The socket, if it was bound for the path: its keeper closes it.
    pub(crate) fn keep(mut self) -> Option<Arc<Socket>> {
        std::mem::take(&mut self.fresh).then(|| self.socket.clone())
    }
}

impl Drop for PathSocket {
    fn drop(&mut self) {
        if self.fresh {
            self.socket.close();
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn connect(
        self: &Arc<Self>,
        config: &ClientConfig,
        path: NetworkPath,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let mut state = self.lock();
        if state.closed {
            return Err(ConnectError::EndpointClosed);
        }
        let (handle, proto) = state.proto.connect(clock::now(), &config.to_proto(), path, server_name)?;
        let connecting = self.insert(&mut state, handle, path.remote, proto, Arc::default());
        drop(state);
        self.drive(&connecting);
        Ok(connecting)
    }

    /// Makes the connection of a client.
    pub(crate) fn accept(
        self: &Arc<Self>,
        client: Client,
        config: Option<&ServerConfig>,
    ) -> Result<Connecting, ConnectionError> {
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
        let connecting = self.insert(&mut state, handle, remote, proto, client.inbox);
        drop(state);
        self.drive(&connecting);
        Ok(connecting)
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
        let Client { endpoint, proto, inbox } = client;
        let (handle, mut out) = (proto.handle(), Vec::new());
        let mut state = self.lock();
        match state.proto.retry(clock::now(), *proto, &mut out) {
            Ok(transmit) => {
                state.undecided.remove(&handle);
                drop(state);
                self.reply(&transmit, &out);
                Ok(())
            }
            Err(proto) => Err(Client { endpoint, proto, inbox }),
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
        state: &mut State,
        handle: ConnectionHandle,
        remote: SocketAddr,
        proto: Box<proto::Connection>,
        inbox: Arc<Inbox>,
    ) -> Connecting {
        let (shared, handshake) = Shared::new(self.clone(), handle, remote, proto, inbox);
        state.connections.insert(handle, shared.clone());
        Connecting::new(shared, handshake)
    }

    /// Starts the driver. Not while the endpoint is locked: a runtime that shuts down drops it at
    /// once.
    fn drive(&self, connecting: &Connecting) {
        let id = connecting.shared().lock().proto.original_id();
        let span = info_span!("connection", %id);
        self.runtime.spawn(Driver::new(connecting.shared().clone()).instrument(span));
    }

    fn add_socket(self: &Arc<Self>, socket: UdpSocket, used_by: UsedBy) -> io::Result<Arc<Socket>> {
        let _within = self.runtime.enter();
        let socket = Arc::new(Socket::new(socket, used_by)?);
        debug!(local = %socket.local(), "socket bound");
        self.sockets.add(socket.clone());
        self.runtime.spawn(receive::receive(self.clone(), socket.clone()));
        Ok(socket)
    }

    /// The socket for a path: one that is bound to the port asked for, or else a fresh one.
    pub(crate) fn path_socket(
        self: &Arc<Self>,
        options: &PathOptions,
        remote: SocketAddr,
    ) -> Result<PathSocket, BindError> {
        let bound = options.local.filter(|local| local.port() != 0 && options.interface.is_none());
        if let Some(socket) = bound.and_then(|local| self.sockets.select(local))
            && socket.reaches(remote.ip())
        {
            return Ok(PathSocket { socket, fresh: false });
        }
        let socket = bind_path(options, remote)?;
        let local = socket.local_addr().map_err(|source| BindError::Io { local: remote, source })?;
        let socket =
            self.add_socket(socket, UsedBy::OnePath).map_err(|source| BindError::Io { local, source })?;
        Ok(PathSocket { socket, fresh: true })
    }

    /// The endpoint, locked for datagrams that arrived.
    pub(crate) fn arrivals<'a>(self: &'a Arc<Self>) -> Arrivals<'a> {
        Arrivals {
            endpoint: self,
            state: Some(self.lock()),
            incoming: Vec::new(),
            evicted: Vec::new(),
            crowded_out: Vec::new(),
        }
    }

    /// Takes a connection's news.
    pub(crate) fn handle_events(&self, handle: ConnectionHandle, events: Vec<EndpointEvent>) {
        let mut state = self.lock();
        for event in events {
            state.proto.handle_event(handle, event);
        }
    }

    /// Nothing is left of the connection.
    pub(crate) fn forget(&self, handle: ConnectionHandle) {
        let mut state = self.lock();
        // A driver that died has not told that its connection is drained.
        state.proto.forget(handle);
        let connection = state.connections.remove(&handle);
        let idle = state.connections.is_empty();
        let abandoned = state.abandoned;
        drop(state);
        drop(connection);
        if idle {
            self.idle.notify_waiters();
            if abandoned {
                self.sockets.close();
            }
        }
    }

    /// The last handle is gone: nobody can accept.
    fn abandon(&self) {
        let mut state = self.lock();
        state.abandoned = true;
        state.proto.set_server_config(None);
        let backlog = std::mem::take(&mut state.backlog);
        let idle = state.connections.is_empty();
        drop(state);
        drop(backlog);
        if idle {
            self.sockets.close();
        }
    }
}

/// The endpoint, locked while a run of datagrams is sorted.
pub(crate) struct Arrivals<'a> {
    endpoint: &'a Arc<Inner>,
    /// `None` only while being dropped.
    state: Option<MutexGuard<'a, State>>,
    incoming: Vec<Incoming>,
    /// They had to make room, and are told so when the endpoint is unlocked.
    evicted: Vec<Arc<Shared>>,
    /// The same of clients about which nobody has decided.
    crowded_out: Vec<ConnectionHandle>,
}

impl Arrivals<'_> {
    pub(crate) fn handle_datagram(
        &mut self,
        now: Instant,
        datagram: Datagram<'_>,
        reply: &mut Vec<u8>,
    ) -> Option<EndpointOutput> {
        let state = self.state.as_mut()?;
        let output = state.proto.handle_datagram(now, datagram, reply);
        while let Some(handle) = state.proto.poll_evicted() {
            match state.connections.remove(&handle) {
                Some(connection) => self.evicted.push(connection),
                None => {
                    state.undecided.remove(&handle);
                    self.crowded_out.push(handle);
                }
            }
        }
        output
    }

    pub(crate) fn spares(&self) -> &Spares {
        &self.endpoint.spares
    }

    /// A client asks for a connection; the application hears of it when the endpoint is unlocked.
    pub(crate) fn announce(&mut self, proto: Box<proto::Incoming>) {
        if let Some(state) = &mut self.state {
            let inbox = Arc::<Inbox>::default();
            inbox.set_stranger(true);
            state.undecided.insert(proto.handle(), inbox.clone());
            self.incoming.push(Incoming::new(Client { endpoint: self.endpoint.clone(), proto, inbox }));
        }
    }

    pub(crate) fn deliver(&self, handle: ConnectionHandle, batch: Batch) {
        let Some(state) = &self.state else { return };
        if let Some(connection) = state.connections.get(&handle) {
            connection.inbox.deliver(batch);
        } else if let Some(inbox) = state.undecided.get(&handle) {
            inbox.deliver(batch);
        }
    }
}

impl Drop for Arrivals<'_> {
    fn drop(&mut self) {
        self.state = None;
        if self.incoming.is_empty() {
            return;
        }
        let mut state = self.endpoint.lock();
        if !state.closed && !state.abandoned {
            let room = MAX_BACKLOG.saturating_sub(state.backlog.len());
            let taken = self.incoming.len().min(room);
            state.backlog.extend(self.incoming.drain(..taken));
        }
        let gone = take_crowded_out(&mut state.backlog, &self.crowded_out);
        drop(state);
        self.evicted.iter().for_each(|connection| connection.evict());
        gone.into_iter().for_each(|incoming| incoming.refuse(CROWDED));
        // What is left here was not taken, and is refused.
        self.endpoint.incoming.notify_waiters();
    }
}

/// Takes out what a slow application would keep although it has no place any more.
fn take_crowded_out(
    backlog: &mut VecDeque<Incoming>,
    crowded_out: &[ConnectionHandle],
) -> VecDeque<Incoming> {
    if crowded_out.is_empty() {
        return VecDeque::new();
    }
    let (gone, rest) =
        std::mem::take(backlog).into_iter().partition(|waiting| crowded_out.contains(&waiting.handle()));
    *backlog = rest;
    gone
}

/// Makes an [`Endpoint`].
#[derive(Debug, Default)]
pub struct EndpointBuilder {
    bind: Vec<SocketAddr>,
    sockets: Vec<UdpSocket>,
    server: Option<ServerConfig>,
    client: Option<ClientConfig>,
    reset_key: Option<ResetKey>,
    quic_lb: Option<QuicLb>,
}

impl EndpointBuilder {
    /// Binds a socket here; may be called several times. Without any, one is bound to any IPv4
    /// address and port.
    #[must_use]
    pub fn bind(mut self, local: SocketAddr) -> Self {
        self.bind.push(local);
        self
    }

    /// Uses a socket that the caller has bound; may be called several times.
    #[must_use]
    pub fn socket(mut self, socket: UdpSocket) -> Self {
        self.sockets.push(socket);
        self
    }

    /// Accepts connections.
    #[must_use]
    pub fn server(mut self, config: ServerConfig) -> Self {
        self.server = Some(config);
        self
    }

    /// The configuration that [`connect`](Endpoint::connect) uses.
    #[must_use]
    pub fn client(mut self, config: ClientConfig) -> Self {
        self.client = Some(config);
        self
    }

    /// Makes stateless resets from this key instead of a random one (RFC 9000 section 10.3): a
    /// server that is started again with the key of its former life, on the same address, tells the
    /// clients of that life at once that their connections are gone
    /// ([`ConnectionError::Reset`](crate::ConnectionError::Reset)). Keep it as secret as a private
    /// key: with it, anybody can end the endpoint's connections.
    #[must_use]
    pub fn reset_key(mut self, key: ResetKey) -> Self {
        self.reset_key = Some(key);
        self
    }

    /// Issues connection ids from which load balancers can tell which server they lead to
    /// (draft-ietf-quic-load-balancers-21), so that all paths of a connection, and a client that
    /// has moved, arrive at the same one.
    #[must_use]
    pub fn quic_lb(mut self, config: QuicLb) -> Self {
        self.quic_lb = Some(config);
        self
    }

    /// Binds the sockets and starts to receive, on the current tokio runtime.
    ///
    /// # Errors
    /// If a socket cannot be bound, or there is no tokio runtime here.
    pub fn build(mut self) -> io::Result<Endpoint> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        if self.bind.is_empty() && self.sockets.is_empty() {
            self.bind.push(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0));
        }
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).map_err(|_| io::Error::other("no randomness from the system"))?;
        let mut proto = proto::Endpoint::new(self.server.map(|config| config.to_proto()), seed);
        if let Some(key) = &self.reset_key {
            proto = proto.with_reset_key(key);
        }
        if let Some(config) = self.quic_lb {
            proto = proto.with_quic_lb(config);
        }
        let state = State {
            proto,
            connections: BTreeMap::new(),
            undecided: BTreeMap::new(),
            backlog: VecDeque::new(),
            client: self.client,
            closed: false,
            abandoned: false,
        };
        let inner = Arc::new(Inner {
            runtime,
            sockets: Sockets::default(),
            spares: Spares::default(),
            state: Mutex::new(state),
            incoming: Notify::new(),
            idle: Notify::new(),
        });
        let endpoint = Endpoint { last: Arc::new(LastHandle(inner.clone())), inner };
        for local in self.bind {
            endpoint.bind(local)?;
        }
        for socket in self.sockets {
            endpoint.add_socket(socket)?;
        }
        Ok(endpoint)
    }
}
