//! A client and a server that speak HTTP/3.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::{Buf, Bytes};
use mendpath::{ClientConfig, Endpoint, Identity, ServerConfig};
use mendpath_h3::{ALPN, BidiStream, Connection, OpenStreams};
use tokio::net::UdpSocket;

/// Any port of loopback.
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

pub(crate) type Requests = h3::client::SendRequest<OpenStreams, Bytes>;
pub(crate) type Accepted = h3::server::Connection<Connection, Bytes>;
pub(crate) type Asked = h3::client::RequestStream<BidiStream<Bytes>, Bytes>;
pub(crate) type Answering = h3::server::RequestStream<BidiStream<Bytes>, Bytes>;

/// Fails a test that hangs; far above what any takes.
pub(crate) async fn watchdog<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), work).await.expect("the test hangs")
}

/// Two endpoints, which stay open as long as this.
pub(crate) struct Pair {
    pub(crate) server: Endpoint,
    pub(crate) client: Endpoint,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::with(|client| client)
    }

    /// With a client of which something is said besides.
    pub(crate) fn with(said: impl FnOnce(ClientConfig) -> ClientConfig) -> Self {
        Self::with_both(said, |server| server)
    }

    /// With both of which something is said besides.
    pub(crate) fn with_both(
        of_client: impl FnOnce(ClientConfig) -> ClientConfig,
        of_server: impl FnOnce(ServerConfig) -> ServerConfig,
    ) -> Self {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let client = of_client(ClientConfig::with_pinned_key(identity.pin()).alpn([ALPN]));
        let server = of_server(ServerConfig::with_identity(&identity).unwrap().alpn([ALPN]));
        Self {
            server: Endpoint::server(server, LOOPBACK).unwrap(),
            client: Endpoint::builder().bind(LOOPBACK).client(client).build().unwrap(),
        }
    }

    /// One connection: the client's side, then the server's.
    pub(crate) async fn connect(&self) -> (mendpath::Connection, mendpath::Connection) {
        self.connect_by(self.server.local_addrs()[0]).await
    }

    /// The same by way of another address.
    pub(crate) async fn connect_by(
        &self,
        address: SocketAddr,
    ) -> (mendpath::Connection, mendpath::Connection) {
        let connecting = self.client.connect(address, "localhost").unwrap();
        let accept = async { self.server.accept().await.expect("the server is open").await };
        let (client, server) = tokio::join!(connecting, accept);
        (client.unwrap(), server.unwrap())
    }

    /// The same with HTTP/3 on both sides; the client's side is driven by a task of its own.
    pub(crate) async fn http(&self) -> (Requests, Accepted) {
        let (client, server) = self.connect().await;
        let ((mut driver, requests), accepted) =
            tokio::join!(async { h3::client::new(Connection::new(client)).await.unwrap() }, async {
                h3::server::builder().build(Connection::new(server)).await.unwrap()
            });
        tokio::spawn(async move { driver.wait_idle().await });
        (requests, accepted)
    }
}

/// A way to the server that passes on no datagram from it of more than `most` bytes, once that is said.
pub(crate) struct Way {
    pub(crate) address: SocketAddr,
    most: Arc<AtomicUsize>,
}

impl Way {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let [inner, outer] =
            [UdpSocket::bind(LOOPBACK).await.unwrap(), UdpSocket::bind(LOOPBACK).await.unwrap()];
        let most = Arc::new(AtomicUsize::new(usize::MAX));
        let (address, limit) = (outer.local_addr().unwrap(), most.clone());
        inner.connect(server).await.unwrap();
        tokio::spawn(async move {
            let (mut forth, mut back, mut client) = ([0; 65_536], [0; 65_536], server);
            loop {
                tokio::select! {
                    Ok((len, from)) = outer.recv_from(&mut forth) => {
                        client = from;
                        let _ = inner.send(&forth[..len]).await;
                    }
                    Ok(len) = inner.recv(&mut back) => if len <= limit.load(Relaxed) {
                        let _ = outer.send_to(&back[..len], client).await;
                    },
                }
            }
        });
        Self { address, most }
    }

    pub(crate) fn narrow(&self, most: usize) {
        self.most.store(most, Relaxed);
    }
}

/// An HTTP/3 client on this connection, driven by a task of its own.
pub(crate) async fn requests(connection: mendpath::Connection) -> Requests {
    let (mut driver, requests) = h3::client::new(Connection::new(connection)).await.unwrap();
    tokio::spawn(async move { driver.wait_idle().await });
    requests
}

pub(crate) fn get(path: &str) -> http::Request<()> {
    http::Request::get(format!("https://localhost{path}")).body(()).unwrap()
}

pub(crate) fn post(path: &str) -> http::Request<()> {
    http::Request::post(format!("https://localhost{path}")).body(()).unwrap()
}

/// Sends a request that has no body.
pub(crate) async fn ask(requests: &mut Requests, request: http::Request<()>) -> Asked {
    let mut stream = requests.send_request(request).await.unwrap();
    stream.finish().await.unwrap();
    stream
}

/// Bytes that show when they are out of place.
pub(crate) fn pattern(length: usize) -> Bytes {
    (0..length as u64).map(|offset| (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// The rest of a response's body.
pub(crate) async fn read_response(stream: &mut Asked) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(mut data) = stream.recv_data().await.unwrap() {
        all.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    all
}

/// The rest of a request's body.
pub(crate) async fn read_request(stream: &mut Answering) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(mut data) = stream.recv_data().await.unwrap() {
        all.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    all
}
