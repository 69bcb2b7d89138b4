//! The endpoint: UDP sockets, and the connections that run over them.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
};

use crate::{ClientConfig, ConnectError, Connecting, PathOptions, ServerConfig};

/// UDP sockets and the connections that run over them, as client, as server or both.
///
/// Clones are handles of the same endpoint. When the last handle is dropped, no connection is accepted any more; those
/// that exist go on, and the sockets close with the last of them.
#[derive(Clone, Debug)]
pub struct Endpoint {}

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
    pub fn set_default_client_config(&self, _config: ClientConfig) {
        todo!()
    }

    /// Changes how connections are accepted from now on; `None` accepts no more.
    pub fn set_server_config(&self, _config: Option<ServerConfig>) {
        todo!()
    }

    /// Starts connecting to `remote`, whose certificate must be valid for `server_name` unless the key is pinned.
    ///
    /// # Errors
    /// If there is no default client configuration, or the connection cannot even start.
    pub fn connect(&self, _remote: SocketAddr, _server_name: &str) -> Result<Connecting, ConnectError> {
        todo!()
    }

    /// Starts connecting with a configuration of its own.
    ///
    /// # Errors
    /// If the connection cannot even start.
    pub fn connect_with(
        &self,
        _config: &ClientConfig,
        _remote: SocketAddr,
        _server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        todo!()
    }

    /// Starts connecting with the first path over a certain interface or local address; the options' remote address,
    /// timeout and backup mark are not used.
    ///
    /// # Errors
    /// If the interface or address cannot be used, or the connection cannot even start.
    pub fn connect_via(
        &self,
        _config: &ClientConfig,
        _path: &PathOptions,
        _remote: SocketAddr,
        _server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        todo!()
    }

    /// The next connection from a client; `None` once the endpoint is closed. Cancel safe.
    pub async fn accept(&self) -> Option<Connecting> {
        todo!()
    }

    /// Closes all connections with an application code and reason, and accepts no more.
    pub fn close(&self, _code: u64, _reason: &[u8]) {
        todo!()
    }

    /// Waits until no connection is left, with its closing handshake done.
    pub async fn wait_idle(&self) {
        todo!()
    }

    /// Connections that exist, with those that are closing.
    pub fn open_connections(&self) -> usize {
        todo!()
    }

    /// The addresses of the sockets, in the order they were bound.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        todo!()
    }

    /// Binds one more socket and returns its address, for paths from there.
    ///
    /// # Errors
    /// If the socket cannot be bound.
    pub fn bind(&self, _local: SocketAddr) -> io::Result<SocketAddr> {
        todo!()
    }

    /// Takes one more socket, bound by the caller, and returns its address.
    ///
    /// # Errors
    /// If the socket cannot be used with the runtime.
    pub fn add_socket(&self, _socket: UdpSocket) -> io::Result<SocketAddr> {
        todo!()
    }
}

/// Makes an [`Endpoint`].
#[derive(Debug, Default)]
pub struct EndpointBuilder {
    bind: Vec<SocketAddr>,
    sockets: Vec<UdpSocket>,
    server: Option<ServerConfig>,
    client: Option<ClientConfig>,
}

impl EndpointBuilder {
    /// Binds a socket here; may be called several times. Without any, a client socket is bound to any address.
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

    /// Binds the sockets and starts to receive, on the current tokio runtime.
    ///
    /// # Errors
    /// If a socket cannot be bound, or there is no tokio runtime here.
    pub fn build(self) -> io::Result<Endpoint> {
        todo!()
    }
}
