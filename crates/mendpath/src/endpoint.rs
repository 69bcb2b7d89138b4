//! The endpoint: UDP sockets, and the connections that run over them.

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
};

use proto::{PathId, Steering, VarInt};
use ring::rand::{SecureRandom as _, SystemRandom};
use tracing::info;

use crate::{
    BindError, ClientConfig, ConnectError, Connecting, EndpointStats, Incoming, PathOptions, QuicLb,
    ResetKey, ServerConfig,
    bind::bind,
    engine::{Crew, EndpointHandle, Threads},
    socket::canonical,
    steer::{GroupError, Steered},
};

/// UDP sockets and the connections that run over them, as client, as server or both.
///
/// Clones are handles of the same endpoint. When the last handle is dropped, no connection is
/// accepted any more; those that exist go on, and the sockets close with the last of them.
#[derive(Clone)]
pub struct Endpoint {
    handle: EndpointHandle,
}

impl Endpoint {
    fn crew(&self) -> &Crew {
        self.handle.crew()
    }

    /// Binds sockets one by one.
    pub fn builder() -> EndpointBuilder {
        EndpointBuilder::default()
    }

    /// A client on one socket; `0.0.0.0:0` or `[::]:0` leaves the address to the operating system.
    ///
    /// # Errors
    /// If the socket cannot be bound, or there is no tokio runtime here.
    ///
    /// # Panics
    /// If I/O or timers are not enabled in this runtime; `enable_all` of its builder enables both.
    pub fn client(local: SocketAddr) -> io::Result<Self> {
        Self::builder().bind(local).build()
    }

    /// A server on one socket.
    ///
    /// # Errors
    /// If the socket cannot be bound, or there is no tokio runtime here.
    ///
    /// # Panics
    /// If I/O or timers are not enabled in this runtime; `enable_all` of its builder enables both.
    pub fn server(config: ServerConfig, local: SocketAddr) -> io::Result<Self> {
        Self::builder().server(config).bind(local).build()
    }

    /// The configuration that [`connect`](Self::connect) uses from now on.
    pub fn set_default_client_config(&self, config: ClientConfig) {
        self.crew().set_client_config(config);
    }

    /// Changes how connections are accepted from now on; `None` accepts no more.
    pub fn set_server_config(&self, config: Option<ServerConfig>) {
        self.crew().set_server_config(config);
    }

    /// Starts connecting to `remote`, whose certificate must be valid for `server_name` unless the
    /// key is pinned.
    ///
    /// # Errors
    /// If there is no default client configuration, or the connection cannot even start.
    pub fn connect(&self, remote: SocketAddr, server_name: &str) -> Result<Connecting, ConnectError> {
        let config = self.crew().client_config().ok_or(ConnectError::NoClientConfig)?;
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
        let (engine, remote) = (self.crew().pick(), canonical(remote));
        let started = engine.connect(config, remote, server_name, |sockets| {
            sockets.towards(remote).map(|socket| socket.local())
        });
        started.map(Connecting::new)
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
        let (engine, remote) = (self.crew().pick(), canonical(remote));
        let socket = engine.path_socket(path, remote)?;
        let local = socket.local;
        // Its socket may have been replaced meanwhile.
        let started =
            engine.connect(config, remote, server_name, |sockets| sockets.select(local).map(|_| local));
        let connecting = Connecting::new(started?);
        if let Some(socket) = socket.keep() {
            connecting.own_socket(PathId(0), socket);
        }
        Ok(connecting)
    }

    /// The next client that asks for a connection, to be decided about; `None` once the endpoint is
    /// closed, or the runtime that it was made on is shut down. Cancel safe.
    pub async fn accept(&self) -> Option<Incoming> {
        let client = self.crew().next_client().await?;
        Some(Incoming::new(client, self.handle.clone()))
    }

    /// Closes all connections with an application code and reason, and accepts no more. The sockets stay, to
    /// answer what still comes for those connections and clients that are not decided about, until the last
    /// handle is dropped and no connection is left ([`wait_idle`](Self::wait_idle)): drop all of them to bind
    /// the address anew.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        self.crew().close(code, reason);
    }

    /// Waits until no connection is left, those that are closing included: that takes three probe
    /// timeouts of their slowest path (RFC 9000 section 10.2), some seconds where one was never answered.
    /// Cancel safe.
    pub async fn wait_idle(&self) {
        self.crew().wait_idle().await;
    }

    /// Connections that exist, those that are closing included.
    pub fn open_connections(&self) -> usize {
        self.crew().open_connections()
    }

    /// How strangers were dealt with: connections accepted and refused, Retry packets, stateless
    /// resets.
    pub fn stats(&self) -> EndpointStats {
        self.crew().stats()
    }

    /// The addresses of the sockets, in the order they were bound, those bound for single paths
    /// included.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.crew().local_addrs()
    }

    /// Binds one more socket and returns its address, for paths from there.
    ///
    /// # Errors
    /// If the socket cannot be bound.
    pub fn bind(&self, local: SocketAddr) -> io::Result<SocketAddr> {
        match self.crew().bind_group(local) {
            Some(Ok(group)) => self.crew().add_sockets(group),
            Some(Err(GroupError::Bind(error))) => Err(with_address(error)),
            Some(Err(GroupError::Share(_))) | None => self.add_socket(bind(local).map_err(with_address)?),
        }
    }

    /// Replaces the sockets of this address family that were not bound for single paths by one that
    /// the caller has bound, and returns its address. The paths of clients that ran over them move
    /// there (RFC 9000 section 9), and those of servers are lost. Of several over one socket to one
    /// address of the peer, those after the first start at their own addresses as before if the new
    /// socket takes any, and are lost else. A path that cannot move yet, because the handshake is not
    /// confirmed or the server has to provide another connection id first, stays on its old socket
    /// until it can: it is lost where that works no longer. With several workers the first one takes
    /// what arrives there, and hands on what is the others'.
    ///
    /// # Errors
    /// If the socket cannot be used with the runtime.
    pub fn rebind(&self, socket: UdpSocket) -> io::Result<SocketAddr> {
        self.crew().rebind(socket)
    }

    /// Takes one more socket, bound by the caller, and returns its address.
    ///
    /// # Errors
    /// If the socket cannot be used with the runtime.
    pub fn add_socket(&self, socket: UdpSocket) -> io::Result<SocketAddr> {
        self.crew().add_sockets(vec![socket])
    }

    /// How many workers it has, see [`EndpointBuilder::workers`].
    pub fn workers(&self) -> usize {
        self.crew().len()
    }

    /// Connections of each worker, those that are closing included.
    pub fn connections_by_worker(&self) -> Vec<usize> {
        self.crew().connections()
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

/// Makes an [`Endpoint`].
#[derive(Debug, Default)]
pub struct EndpointBuilder {
    bind: Vec<SocketAddr>,
    sockets: Vec<UdpSocket>,
    server: Option<ServerConfig>,
    client: Option<ClientConfig>,
    reset_key: Option<ResetKey>,
    quic_lb: Option<QuicLb>,
    workers: Option<usize>,
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

    /// So many workers, 1 to 64: each has a socket of its own on every address, a thread of its own
    /// and its own connections, and the kernel takes each packet to its worker by the connection id.
    /// See [`Incoming::runtime`] for how an application works on that thread, too. Without this, the
    /// endpoint runs on the current runtime. So it does instead of several workers with sockets that
    /// the caller has bound, and where the system cannot steer (other than Linux, or not permitted):
    /// a log line says so.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers.clamp(1, Steering::MAX_WORKERS));
        self
    }

    /// Binds the sockets and starts to receive: on the current tokio runtime, or on the threads of
    /// its workers.
    ///
    /// # Errors
    /// If a socket cannot be bound, or there is no tokio runtime here.
    ///
    /// # Panics
    /// If it is to run on the current runtime, and I/O or timers are not enabled there; `enable_all`
    /// of its builder enables both.
    pub fn build(mut self) -> io::Result<Endpoint> {
        if self.bind.is_empty() && self.sockets.is_empty() {
            self.bind.push(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0));
        }
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).map_err(|_| io::Error::other("no randomness from the system"))?;
        let mut proto = proto::Endpoint::new(self.server.take().map(|config| config.to_proto()), seed);
        if let Some(key) = &self.reset_key {
            proto = proto.with_reset_key(key);
        }
        if let Some(config) = self.quic_lb.take() {
            proto = proto.with_quic_lb(config);
        }
        let steering = proto.steering(self.workers.unwrap_or(1));
        let steered = Steered::new(steering, proto.cid_len());
        let Some(groups) = self.bind_groups(&steered)? else {
            let threads = if self.workers == Some(1) { Threads::Own } else { Threads::Callers };
            let crew = Crew::new(vec![proto], threads, None, self.client.take())?;
            let endpoint = Endpoint { handle: EndpointHandle::new(crew) };
            for local in self.bind {
                endpoint.bind(local)?;
            }
            for socket in self.sockets {
                endpoint.add_socket(socket)?;
            }
            return Ok(endpoint);
        };
        let workers = proto.into_workers(steering);
        let crew = Crew::new(workers, Threads::Own, Some(steered), self.client.take())?;
        for group in groups {
            crew.add_sockets(group)?;
        }
        Ok(Endpoint { handle: EndpointHandle::new(crew) })
    }

    /// A socket per worker for each address; `None` if there is to be one worker.
    fn bind_groups(&self, steered: &Steered) -> io::Result<Option<Vec<Vec<UdpSocket>>>> {
        if steered.workers() == 1 {
            return Ok(None);
        }
        if !self.sockets.is_empty() {
            info!("no threads for {} workers: the sockets are others'", steered.workers());
            return Ok(None);
        }
        let groups = self.bind.iter().map(|local| steered.bind(*local)).collect();
        match groups {
            Ok(groups) => Ok(Some(groups)),
            Err(GroupError::Bind(error)) => Err(with_address(error)),
            Err(GroupError::Share(error)) => {
                info!("no threads for {} workers: the system steers no packets: {error}", steered.workers());
                Ok(None)
            }
        }
    }
}
