//! In place of the beginning of `h3`'s tests: a client and a server, of mendpath where they are quinn's. `.ci/h3`
//! puts the tests themselves, which come with `h3`'s source, beside this.

use std::{
    net::{Ipv6Addr, SocketAddr},
    time::Duration,
};

use ::bytes::{Buf, Bytes};
use ::http::Request;
use mendpath::{ClientConfig, Endpoint, Identity, ServerConfig, TransportConfig};

mod connection;
mod quinn;
mod request;

/// Where the tests look for what stands between `h3` and the transport.
mod h3_quinn {
    /// Of a connection as the tests hold it.
    pub struct Connection;

    impl Connection {
        #[expect(clippy::new_ret_no_self, reason = "the tests call it so")]
        pub fn new(connection: super::quinn::Connection) -> mendpath_h3::Connection {
            mendpath_h3::Connection::new(connection.0)
        }
    }
}

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), 0);

fn init_tracing() {}

/// The next request, once its fields are there.
async fn get_stream_blocking<C: crate::quic::Connection<B>, B: Buf>(
    incoming: &mut crate::server::Connection<C, B>,
) -> Option<(Request<()>, crate::server::RequestStream<C::BidiStream, B>)> {
    incoming.accept().await.ok()??.resolve_request().await.ok()
}

/// A server, and what its clients know of it.
struct Pair {
    identity: Identity,
    transport: TransportConfig,
    address: SocketAddr,
}

impl Default for Pair {
    fn default() -> Self {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        Self { identity, transport: TransportConfig::default(), address: ANY_PORT }
    }
}

impl Pair {
    fn with_timeout(&mut self, duration: Duration) {
        self.transport.max_idle_timeout = duration;
        self.transport.initial_rtt = Duration::from_millis(10);
    }

    fn server_inner(&mut self) -> Listening {
        let config = ServerConfig::with_identity(&self.identity).unwrap();
        let config = config.alpn([mendpath_h3::ALPN]).transport(self.transport.clone());
        let endpoint = Endpoint::server(config, ANY_PORT).unwrap();
        self.address = endpoint.local_addrs()[0];
        Listening(endpoint)
    }

    fn server(&mut self) -> Server {
        Server { endpoint: self.server_inner() }
    }

    async fn client_inner(&self) -> quinn::Connection {
        let config = ClientConfig::with_pinned_key(self.identity.pin()).alpn([mendpath_h3::ALPN]);
        let endpoint = Endpoint::client(ANY_PORT).unwrap();
        let connecting = endpoint.connect_with(&config, self.address, "localhost").unwrap();
        quinn::Connection(connecting.await.unwrap())
    }

    async fn client(&self) -> mendpath_h3::Connection {
        h3_quinn::Connection::new(self.client_inner().await)
    }
}

/// An endpoint whose connections the tests hold.
struct Listening(Endpoint);

impl Listening {
    async fn accept(&self) -> Option<impl Future<Output = Result<quinn::Connection, mendpath::ConnectionError>>> {
        let incoming = self.0.accept().await?;
        Some(async { incoming.await.map(quinn::Connection) })
    }

    async fn wait_idle(&self) {
        self.0.wait_idle().await;
    }
}

struct Server {
    endpoint: Listening,
}

impl Server {
    async fn next(&mut self) -> impl crate::quic::Connection<Bytes> + use<> {
        h3_quinn::Connection::new(self.endpoint.accept().await.unwrap().await.unwrap())
    }
}
