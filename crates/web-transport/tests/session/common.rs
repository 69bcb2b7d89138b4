//! Two endpoints, and a session of either kind between them.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use mendpath::{ClientConfig, Connection, Endpoint, Identity, ServerConfig, TransportConfig};
use mendpath_web_transport::Session;

/// Any port of loopback.
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
/// The protocol that both ends speak over a session.
pub(crate) const PROTOCOL: &str = "moq-test";

/// The kinds of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Raw,
    #[cfg(feature = "http3")]
    Http3,
}

impl Kind {
    pub(crate) const ALL: &[Self] = &[
        Self::Raw,
        #[cfg(feature = "http3")]
        Self::Http3,
    ];

    fn alpn(self) -> &'static [u8] {
        match self {
            Self::Raw => PROTOCOL.as_bytes(),
            #[cfg(feature = "http3")]
            Self::Http3 => mendpath_web_transport::http3::ALPN,
        }
    }
}

/// Fails a test that hangs; far above what any takes.
pub(crate) async fn watchdog<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), work).await.expect("the test hangs")
}

/// Two endpoints, which stay open as long as this.
pub(crate) struct Pair {
    server: Endpoint,
    client: Endpoint,
    kind: Kind,
}

impl Pair {
    pub(crate) fn new(kind: Kind) -> Self {
        Self::with(kind, |_| {})
    }

    /// `limits` changes what the server lets the client do.
    pub(crate) fn with(kind: Kind, limits: impl Fn(&mut TransportConfig)) -> Self {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let client = ClientConfig::with_pinned_key(identity.pin()).alpn([kind.alpn()]);
        let mut transport = TransportConfig::default();
        limits(&mut transport);
        let server = ServerConfig::with_identity(&identity).unwrap().alpn([kind.alpn()]).transport(transport);
        Self {
            server: Endpoint::server(server, LOOPBACK).unwrap(),
            client: Endpoint::builder().bind(LOOPBACK).client(client).build().unwrap(),
            kind,
        }
    }

    /// One connection: the client's side, then the server's.
    pub(crate) async fn connect(&self) -> (Connection, Connection) {
        let address = self.server.local_addrs()[0];
        let connecting = self.client.connect(address, "localhost").unwrap();
        let accept = async { self.server.accept().await.expect("the server is open").await };
        let (client, server) = tokio::join!(connecting, accept);
        (client.unwrap(), server.unwrap())
    }

    /// One session: the client's side, then the server's.
    pub(crate) async fn session(&self) -> (Session, Session) {
        let (client, server) = self.connect().await;
        match self.kind {
            Kind::Raw => (Session::raw(client), Session::raw(server)),
            #[cfg(feature = "http3")]
            Kind::Http3 => super::http3::session(client, server).await,
        }
    }
}

/// Whether the task that it stands for was woken.
#[derive(Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    /// Whether it was, since the last time that somebody asked.
    pub(crate) fn woken(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }

    /// Polls once, as this task.
    pub(crate) fn poll<T>(self: &Arc<Self>, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        poll(&mut Context::from_waker(&Waker::from(self.clone())))
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Bytes that show when they are out of place.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(|offset| (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
