//! quinn, with GSO and GRO as it comes, and `ring` like ours.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result};
use quinn::{
    Connection, Endpoint, TransportConfig, VarInt,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer},
};

use super::{ALPN, CHUNK, Credentials, IDLE, SERVER_NAME, WINDOW};

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    let window = VarInt::from_u64(WINDOW).expect("below 2^62");
    transport.receive_window(window).stream_receive_window(window).send_window(WINDOW);
    transport.max_idle_timeout(Some(IDLE.try_into().expect("below 2^62 ms")));
    Arc::new(transport)
}

pub async fn serve(credentials: &Credentials, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let key = PrivateKeyDer::try_from(credentials.der("key")?).map_err(anyhow::Error::msg)?;
    let mut tls = rustls::ServerConfig::builder_with_provider(super::super::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(credentials.der("cert")?)], key)?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport());
    let endpoint = Endpoint::server(config, "127.0.0.1:0".parse()?)?;
    ready(endpoint.local_addr()?);
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await?;
            while let Ok((send, recv)) = connection.accept_bi().await {
                tokio::spawn(answer(send, recv));
            }
            anyhow::Ok(())
        });
    }
    Ok(())
}

async fn answer(mut send: quinn::SendStream, mut recv: quinn::RecvStream) -> Result<()> {
    let mut request = [0; 8];
    recv.read_exact(&mut request).await?;
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
    server: SocketAddr,
}

impl Dialer {
    pub fn new(credentials: &Credentials, server: SocketAddr) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(credentials.der("cert")?))?;
        let mut tls = rustls::ClientConfig::builder_with_provider(super::super::provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        config.transport_config(transport());
        let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
        endpoint.set_default_client_config(config);
        Ok(Self { endpoint, server })
    }

    pub async fn connect(&self) -> Result<Client> {
        Ok(Client { connection: self.endpoint.connect(self.server, SERVER_NAME)?.await? })
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
