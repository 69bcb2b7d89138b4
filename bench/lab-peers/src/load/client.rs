//! The client, the same for every server: h3 over quinn with its own settings.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::{Buf as _, Bytes};
use h3::{client::SendRequest, error::StreamError};
use http::{Request, StatusCode};
use quinn::crypto::rustls::QuicClientConfig;
use rustls::RootCertStore;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::certificate;

/// How often a server that is still starting is asked for a connection, and for how long.
const ATTEMPTS: u32 = 40;
const ATTEMPT: Duration = Duration::from_millis(250);

type Requests = SendRequest<h3_quinn::OpenStreams, Bytes>;

/// Connections to one server and what they carry.
pub(super) struct Client {
    endpoint: quinn::Endpoint,
    server: SocketAddr,
    connections: Vec<Requests>,
    /// Each asks for one file after the other, until it is dropped or fails.
    asking: JoinSet<Result<()>>,
    /// Bytes of bodies.
    received: Arc<AtomicU64>,
}

impl Client {
    pub(super) fn new(roots: Arc<RootCertStore>, server: SocketAddr) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        let mut endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
        endpoint.set_default_client_config(config);
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
            let quic = self.dial().await?;
            let (mut driver, requests) = h3::client::new(h3_quinn::Connection::new(quic)).await?;
            tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
            self.connections.push(requests);
        }
        Ok(())
    }

    async fn dial(&self) -> Result<quinn::Connection> {
        for _ in 0..ATTEMPTS {
            let connecting = self.endpoint.connect(self.server, certificate::NAME)?;
            if let Ok(connected) = timeout(ATTEMPT, connecting).await {
                return Ok(connected?);
            }
        }
        bail!("the server does not listen")
    }

    /// Begins to ask for a file of so many bytes, so many times at once on each connection.
    pub(super) fn ask(&mut self, at_once: usize, path: &str, bytes: usize) {
        let uri = format!("https://{}{path}", certificate::NAME);
        for connection in &self.connections {
            for _ in 0..at_once {
                let (connection, uri) = (connection.clone(), uri.clone());
                let received = self.received.clone();
                self.asking.spawn(ask(connection, uri, bytes, received));
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
        self.endpoint.close(quinn::VarInt::from_u32(0x100), b"");
        // The server is ended next, whether it has heard of it or not.
        let _ = timeout(ATTEMPT, self.endpoint.wait_idle()).await;
    }
}

async fn ask(mut connection: Requests, uri: String, bytes: usize, received: Arc<AtomicU64>) -> Result<()> {
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
