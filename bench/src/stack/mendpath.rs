//! Our own stack.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
};

use ::mendpath::{
    ClientConfig, Connection, Endpoint, Identity, PathOptions, RecoveryKind, ServerConfig, TransportConfig,
};
use anyhow::{Context as _, Result};

use super::{ALPN, CHUNK, Credentials, IDLE, SERVER_NAME, Stack, WINDOW};

/// Bytes that a server's finished transfers sent for recovery, and in all.
static RECOVERY: AtomicU64 = AtomicU64::new(0);
static SENT: AtomicU64 = AtomicU64::new(0);

/// Share of a server's bytes that served recovery, in per cent; of the last finished transfer's
/// connection.
pub fn recovery_percent() -> f64 {
    let (recovery, sent) = (RECOVERY.load(Ordering::Relaxed), SENT.load(Ordering::Relaxed));
    recovery as f64 / sent.max(1) as f64 * 100.0
}

fn recovery(stack: Stack) -> RecoveryKind {
    match stack {
        Stack::MendpathJumbo | Stack::MendpathAuto | Stack::MendpathAutoTwoPaths => RecoveryKind::Auto,
        Stack::MendpathCofuso | Stack::MendpathCofusoTwoPaths => RecoveryKind::Cofuso,
        _ => RecoveryKind::None,
    }
}

/// What both ends have alike.
fn tune(stack: Stack, transport: &mut TransportConfig) {
    transport.repair.accept = stack != Stack::Mendpath;
    if stack != Stack::MendpathJumbo {
        transport.jumbo_datagram_size = 0;
    }
}

fn identity(credentials: &Credentials) -> Result<Identity> {
    Ok(Identity::from_pkcs8_der(&credentials.der("key")?, [SERVER_NAME])?)
}

pub async fn serve(stack: Stack, credentials: &Credentials, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let mut config = ServerConfig::with_identity(&identity(credentials)?)?
        .alpn([ALPN])
        .recovery(recovery(stack))
        .receive_windows(WINDOW, WINDOW)
        .idle_timeout(IDLE)
        .max_connections(100_000);
    tune(stack, config.transport_mut());
    config.transport_mut().send_buffer = WINDOW;
    let endpoint = Endpoint::server(config, "127.0.0.1:0".parse()?)?;
    ready(endpoint.local_addrs()[0]);
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await?;
            while let Ok((send, recv)) = connection.accept_bi().await {
                let connection = connection.clone();
                tokio::spawn(async move {
                    answer(send, recv).await?;
                    let stats = connection.stats();
                    RECOVERY.store(stats.recovery_bytes_sent, Ordering::Relaxed);
                    SENT.store(stats.bytes_sent, Ordering::Relaxed);
                    anyhow::Ok(())
                });
            }
            anyhow::Ok(())
        });
    }
    Ok(())
}

async fn answer(mut send: ::mendpath::SendStream, mut recv: ::mendpath::RecvStream) -> Result<()> {
    let mut request = [0; 8];
    tokio::io::AsyncReadExt::read_exact(&mut recv, &mut request).await?;
    let mut left = u64::from_be_bytes(request);
    let chunk = vec![7; CHUNK];
    while left > 0 {
        let len = left.min(CHUNK as u64);
        send.write_all(&chunk[..len as usize]).await?;
        left -= len;
    }
    send.finish()?;
    let _ = send.stopped().await;
    Ok(())
}

pub struct Dialer {
    endpoint: Endpoint,
    config: ClientConfig,
    server: SocketAddr,
    two_paths: bool,
}

impl Dialer {
    pub fn new(stack: Stack, credentials: &Credentials, server: SocketAddr) -> Result<Self> {
        let pin = identity(credentials)?.pin();
        let mut config = ClientConfig::with_pinned_key(pin)
            .alpn([ALPN])
            .recovery(recovery(stack))
            .receive_windows(WINDOW, WINDOW)
            .idle_timeout(IDLE);
        tune(stack, config.transport_mut());
        let endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
        let two_paths = matches!(stack, Stack::MendpathAutoTwoPaths | Stack::MendpathCofusoTwoPaths);
        Ok(Self { endpoint, config, server, two_paths })
    }

    pub async fn connect(&self) -> Result<Client> {
        let connection = self.endpoint.connect_with(&self.config, self.server, SERVER_NAME)?.await?;
        if self.two_paths {
            connection.add_path(PathOptions::new().local("127.0.0.1:0".parse()?)).await?;
        }
        Ok(Client { connection })
    }
}

pub struct Client {
    connection: Connection,
}

impl Client {
    pub async fn download(&mut self, bytes: u64) -> Result<u64> {
        let (mut send, mut recv) = self.connection.open_bi().await?;
        send.write_all(&bytes.to_be_bytes()).await?;
        send.finish()?;
        let (mut buffer, mut got) = (vec![0; CHUNK], 0);
        while let Some(n) = recv.read(&mut buffer).await.context("reading")? {
            got += n as u64;
        }
        Ok(got)
    }
}
