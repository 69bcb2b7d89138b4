//! The client, the same for every server: h3 over quinn with its own settings, or the same over Mendpath.

use std::{
    future::poll_fn,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::{Buf as _, Bytes};
use h3::{client::SendRequest, error::StreamError, quic::OpenStreams};
use http::{Request, StatusCode};
use quinn::crypto::rustls::QuicClientConfig;
use rustls::RootCertStore;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{certificate, h3_quinn::Over};

/// How often a server that is still starting is asked for a connection, and for how long.
const ATTEMPTS: u32 = 40;
const ATTEMPT: Duration = Duration::from_millis(250);

/// What makes connections.
enum Endpoint {
    Quinn(quinn::Endpoint),
    Mendpath(mendpath::Endpoint),
}

/// What makes the requests of a connection.
enum Requests {
    Quinn(SendRequest<::h3_quinn::OpenStreams, Bytes>),
    Mendpath(SendRequest<mendpath_h3::OpenStreams, Bytes>),
}

/// Connections to one server and what they carry.
pub(super) struct Client {
    endpoint: Endpoint,
    server: SocketAddr,
    connections: Vec<Requests>,
    /// Each asks for one file after the other, until it is dropped or fails.
    asking: JoinSet<Result<()>>,
    /// Bytes of bodies.
    received: Arc<AtomicU64>,
}

impl Client {
    pub(super) fn new(over: Over, roots: Arc<RootCertStore>, server: SocketAddr) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let endpoint = match over {
            Over::Quinn => {
                let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
                let mut endpoint = quinn::Endpoint::client(local)?;
                endpoint.set_default_client_config(config);
                Endpoint::Quinn(endpoint)
            }
            Over::Mendpath => {
                let endpoint = mendpath::Endpoint::client(local)?;
                endpoint.set_default_client_config(mendpath::ClientConfig::with_tls(tls));
                Endpoint::Mendpath(endpoint)
            }
        };
        Ok(Self {
            endpoint,
            server,
            connections: Vec::new(),
            asking: JoinSet::new(),
            received: Arc::default(),
        })
    }

    /// Opens so many connections, once the server listens.
    pub(super) async fn connect(&mut self, connections: usize) -> Result<()> {
        while self.connections.len() < connections {
            let requests = match &self.endpoint {
                Endpoint::Quinn(endpoint) => {
                    let quic = dial(|| endpoint.connect(self.server, certificate::NAME)).await?;
                    let (mut driver, requests) = h3::client::new(::h3_quinn::Connection::new(quic)).await?;
                    tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
                    Requests::Quinn(requests)
                }
                Endpoint::Mendpath(endpoint) => {
                    let quic = dial(|| endpoint.connect(self.server, certificate::NAME)).await?;
                    let (mut driver, requests) = h3::client::new(mendpath_h3::Connection::new(quic)).await?;
                    tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
                    Requests::Mendpath(requests)
                }
            };
            self.connections.push(requests);
        }
        Ok(())
    }

    /// Begins to ask for a file of so many bytes, so many times at once on each connection.
    pub(super) fn ask(&mut self, at_once: usize, path: &str, bytes: usize) {
        let uri = format!("https://{}{path}", certificate::NAME);
        for connection in &self.connections {
            for _ in 0..at_once {
                let (uri, received) = (uri.clone(), self.received.clone());
                match connection {
                    Requests::Quinn(requests) => {
                        self.asking.spawn(ask(requests.clone(), uri, bytes, received))
                    }
                    Requests::Mendpath(requests) => {
                        self.asking.spawn(ask(requests.clone(), uri, bytes, received))
                    }
                };
            }
        }
    }

    /// Lets them ask for so long; the bytes of bodies that came and the seconds that it took.
    pub(super) async fn run(&mut self, time: Duration) -> Result<(u64, f64)> {
        let (before, begun) = (self.received.load(Ordering::Relaxed), Instant::now());
        tokio::select! {
            failed = self.asking.join_next() => {
                failed.context("there is something to ask for")???;
                bail!("asking never ends by itself");
            }
            () = sleep(time) => {}
        }
        let received = self.received.load(Ordering::Relaxed) - before;
        Ok((received, begun.elapsed().as_secs_f64()))
    }

    /// Gives up what is under way and closes the connections.
    pub(super) async fn close(mut self) {
        self.asking.shutdown().await;
        self.connections.clear();
        // The server is ended next, whether it has heard of it or not.
        let _ = match &self.endpoint {
            Endpoint::Quinn(endpoint) => {
                endpoint.close(quinn::VarInt::from_u32(0x100), b"");
                timeout(ATTEMPT, endpoint.wait_idle()).await
            }
            Endpoint::Mendpath(endpoint) => {
                endpoint.close(mendpath::VarInt::from_u32(0x100), b"");
                timeout(ATTEMPT, endpoint.wait_idle()).await
            }
        };
    }
}

/// A connection to a server that may still be starting.
async fn dial<F, C, E, N>(connect: impl Fn() -> Result<F, N>) -> Result<C>
where
    F: Future<Output = Result<C, E>>,
    E: std::error::Error + Send + Sync + 'static,
    N: std::error::Error + Send + Sync + 'static,
{
    for _ in 0..ATTEMPTS {
        if let Ok(connected) = timeout(ATTEMPT, connect()?).await {
            return Ok(connected?);
        }
    }
    bail!("the server does not listen")
}

async fn ask<T: OpenStreams<Bytes>>(
    mut connection: SendRequest<T, Bytes>,
    uri: String,
    bytes: usize,
    received: Arc<AtomicU64>,
) -> Result<()> {
    loop {
        let mut stream = connection.send_request(Request::get(&uri).body(())?).await?;
        match stream.finish().await {
            Ok(()) => {}
            // It has what it needs of the request (RFC 9114 section 4.1). Quinn, whose program drops the
            // stream before its end has come, says so by another code. The response will tell.
            Err(StreamError::RemoteTerminate { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let response = stream.recv_response().await?;
        ensure!(response.status() == StatusCode::OK, "{uri}: {}", response.status());
        let mut length = 0;
        while let Some(data) = stream.recv_data().await? {
            length += data.remaining();
            received.fetch_add(data.remaining() as u64, Ordering::Relaxed);
        }
        ensure!(length == bytes, "{uri}: {length} bytes of {bytes}");
    }
}
