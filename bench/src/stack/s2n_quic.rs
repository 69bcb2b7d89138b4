//! s2n-quic with its own default TLS.

use std::net::SocketAddr;

use ::s2n_quic::{
    Connection, Server, client::Connect, provider::limits::Limits, stream::BidirectionalStream,
};
use anyhow::{Context as _, Result};

use super::{ALPN, CHUNK, Credentials, IDLE, SERVER_NAME, WINDOW};

fn limits() -> Result<Limits> {
    Ok(Limits::new()
        .with_max_idle_timeout(IDLE)?
        .with_data_window(WINDOW)?
        .with_bidirectional_local_data_window(WINDOW)?
        .with_bidirectional_remote_data_window(WINDOW)?
        .with_max_send_buffer_size(WINDOW as u32)?)
}

pub async fn serve(credentials: &Credentials, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let (cert, key) = (credentials.pem("cert")?, credentials.pem("key")?);
    let tls = ::s2n_quic::provider::tls::default::Server::builder()
        .with_application_protocols([ALPN].iter())
        .map_err(|error| anyhow::anyhow!("{error}"))?
        .with_certificate(cert.as_str(), key.as_str())
        .map_err(|error| anyhow::anyhow!("{error}"))?
        .build()
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut server =
        Server::builder().with_tls(tls)?.with_limits(limits()?)?.with_io("127.0.0.1:0")?.start()?;
    ready(server.local_addr()?);
    while let Some(mut connection) = server.accept().await {
        tokio::spawn(async move {
            while let Ok(Some(stream)) = connection.accept_bidirectional_stream().await {
                tokio::spawn(answer(stream));
            }
        });
    }
    Ok(())
}

async fn answer(stream: BidirectionalStream) -> Result<()> {
    let (mut recv, mut send) = stream.split();
    let mut request = [0; 8];
    tokio::io::AsyncReadExt::read_exact(&mut recv, &mut request).await?;
    let mut left = u64::from_be_bytes(request);
    let chunk = vec![7; CHUNK];
    while left > 0 {
        let len = left.min(CHUNK as u64);
        tokio::io::AsyncWriteExt::write_all(&mut send, &chunk[..len as usize]).await?;
        left -= len;
    }
    send.finish()?;
    Ok(())
}

pub struct Dialer {
    client: ::s2n_quic::Client,
    server: SocketAddr,
}

impl Dialer {
    pub fn new(credentials: &Credentials, server: SocketAddr) -> Result<Self> {
        let cert = credentials.pem("cert")?;
        let tls = ::s2n_quic::provider::tls::default::Client::builder()
            .with_application_protocols([ALPN].iter())
            .map_err(|error| anyhow::anyhow!("{error}"))?
            .with_certificate(cert.as_str())
            .map_err(|error| anyhow::anyhow!("{error}"))?
            .build()
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        let client = ::s2n_quic::Client::builder()
            .with_tls(tls)?
            .with_limits(limits()?)?
            .with_io("127.0.0.1:0")?
            .start()?;
        Ok(Self { client, server })
    }

    pub async fn connect(&self) -> Result<Client> {
        let connect = Connect::new(self.server).with_server_name(SERVER_NAME);
        Ok(Client { connection: self.client.connect(connect).await? })
    }
}

pub struct Client {
    connection: Connection,
}

impl Client {
    pub async fn download(&mut self, bytes: u64) -> Result<u64> {
        let (mut recv, mut send) = self.connection.open_bidirectional_stream().await?.split();
        tokio::io::AsyncWriteExt::write_all(&mut send, &bytes.to_be_bytes()).await?;
        send.finish()?;
        let (mut buffer, mut got) = (vec![0; CHUNK], 0);
        loop {
            let n = tokio::io::AsyncReadExt::read(&mut recv, &mut buffer).await.context("reading")?;
            if n == 0 {
                return Ok(got);
            }
            got += n as u64;
        }
    }
}
