//! The receiver's and the camera's end of a connection, with either stack: one function each, and
//! MoQ knows no difference.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use mendpath::{ClientConfig, Endpoint, Identity, PathOptions, ServerConfig};
use moq_net::{Client, Hop, Server, origin, transport::poll::Boxable};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
};
use tokio::task::JoinHandle;

use crate::network::Network;

/// moq-lite, the newest version that is none of the works in progress.
const ALPN: &[u8] = b"moq-lite-06";
const NAME: &str = "localhost";
const LOOPBACK: &str = "127.0.0.1:0";

#[derive(Clone, Copy)]
pub(crate) enum Stack {
    Mendpath,
    Quinn,
}

#[derive(Clone, Copy)]
pub(crate) enum Paths {
    Both,
    First,
    Second,
}

impl Paths {
    /// The path that the connection is made on.
    fn begin(self) -> usize {
        usize::from(matches!(self, Self::Second))
    }
}

/// The receiver, listening.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    pub(crate) origin: origin::Producer,
    trust: Trust,
    task: JoinHandle<anyhow::Result<()>>,
}

enum Trust {
    Mendpath(mendpath::KeyPin),
    Quinn(CertificateDer<'static>),
}

/// The camera's connection.
#[allow(dead_code, reason = "with its endpoint a connection would end")]
pub(crate) enum Sending {
    Mendpath(mendpath::Connection, Endpoint),
    Quinn(quinn::Connection, quinn::Endpoint),
}

impl Sending {
    /// UDP payload sent so far, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Mendpath(connection, _) => connection.stats().bytes_sent,
            Self::Quinn(connection, _) => connection.stats().udp_tx.bytes,
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn receive(stack: Stack) -> anyhow::Result<Receiver> {
    let (origin, driver) = origin::Producer::new(origin::Config::new(Hop::random()));
    tokio::spawn(moq_net::time::run(driver));
    match stack {
        Stack::Mendpath => {
            let identity = Identity::self_signed([NAME])?;
            let config = ServerConfig::with_identity(&identity)?.alpn([ALPN]);
            let endpoint = Endpoint::server(config, LOOPBACK.parse()?)?;
            let address = endpoint.local_addrs()[0];
            let subscriber = origin.clone();
            let task = tokio::spawn(async move {
                let connection = endpoint.accept().await.context("the endpoint is closed")?.await?;
                subscribe(subscriber, mendpath_web_transport::Session::raw(connection)).await
            });
            Ok(Receiver { address, origin, trust: Trust::Mendpath(identity.pin()), task })
        }
        Stack::Quinn => {
            let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
            let certificate = made.cert.der().clone();
            let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
            let mut tls = rustls::ServerConfig::builder_with_provider(provider())
                .with_protocol_versions(&[&rustls::version::TLS13])?
                .with_no_client_auth()
                .with_single_cert(vec![certificate.clone()], key.into())?;
            tls.alpn_protocols = vec![ALPN.to_vec()];
            let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(tls)?;
            let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
            let endpoint = quinn::Endpoint::server(config, LOOPBACK.parse()?)?;
            let address = endpoint.local_addr()?;
            let subscriber = origin.clone();
            let task = tokio::spawn(async move {
                let connection = endpoint.accept().await.context("the endpoint is closed")?.await?;
                subscribe(subscriber, web_transport_quinn::Session::raw(connection)).await
            });
            Ok(Receiver { address, origin, trust: Trust::Quinn(certificate), task })
        }
    }
}

/// Connects, publishes, and opens the second path if there is to be one.
pub(crate) async fn publish(
    receiver: &Receiver,
    network: &Network,
    paths: Paths,
    camera: &origin::Producer,
) -> anyhow::Result<Sending> {
    let remote = network.address(paths.begin())?;
    match &receiver.trust {
        Trust::Mendpath(pin) => {
            let config = ClientConfig::with_pinned_key(*pin).alpn([ALPN]);
            let endpoint = Endpoint::client(LOOPBACK.parse()?)?;
            let connection = endpoint.connect_with(&config, remote, NAME)?.await?;
            announce(camera, mendpath_web_transport::Session::raw(connection.clone())).await?;
            if matches!(paths, Paths::Both) {
                connection.add_path(PathOptions::new().remote(network.address(1)?)).await?;
            }
            Ok(Sending::Mendpath(connection, endpoint))
        }
        Trust::Quinn(certificate) => {
            let mut roots = RootCertStore::empty();
            roots.add(certificate.clone())?;
            let mut tls = rustls::ClientConfig::builder_with_provider(provider())
                .with_protocol_versions(&[&rustls::version::TLS13])?
                .with_root_certificates(roots)
                .with_no_client_auth();
            tls.alpn_protocols = vec![ALPN.to_vec()];
            let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls)?;
            let config = quinn::ClientConfig::new(Arc::new(crypto));
            let endpoint = quinn::Endpoint::client(LOOPBACK.parse()?)?;
            let connection = endpoint.connect_with(config, remote, NAME)?.await?;
            announce(camera, web_transport_quinn::Session::raw(connection.clone())).await?;
            Ok(Sending::Quinn(connection, endpoint))
        }
    }
}

/// The camera's end of a session.
async fn announce(camera: &origin::Producer, session: impl Boxable<SendStream: Sync, RecvStream: Sync>) -> anyhow::Result<()> {
    let client = Client::new().with_publisher(camera);
    let (session, driver) = client.connect(std::time::Instant::now(), session).await?;
    tokio::spawn(async move {
        let _session = session;
        moq_net::time::run(driver).await
    });
    Ok(())
}

/// The receiver's end, until the session ends.
async fn subscribe(receiver: origin::Producer, session: impl Boxable<SendStream: Sync, RecvStream: Sync>) -> anyhow::Result<()> {
    let server = Server::new().with_subscriber(receiver);
    let (_session, driver) = server.accept(std::time::Instant::now(), session).await?;
    moq_net::time::run(driver).await;
    Ok(())
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
