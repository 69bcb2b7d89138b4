//! A WebTransport server for browsers: it says back what it hears on streams and in datagrams.
//!
//! Prints its UDP address and the SHA-256 of its key, in base64url. Chromium takes it with
//! `--origin-to-force-quic-on=localhost:PORT` and
//! `--ignore-certificate-errors-spki-list=` with the same in base64; `.ci/browser webtransport`
//! does so.

use std::error::Error;

use mendpath::{Endpoint, Identity, ServerConfig, TransportConfig};
use mendpath_web_transport::{
    Session, SessionError,
    http3::{ALPN, Request},
};
use web_transport_trait::{RecvStream as _, SendStream as _, Session as _};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome {
    let identity = Identity::self_signed(["localhost"])?;
    let transport = TransportConfig { reset_stream_at: true, ..TransportConfig::default() };
    let config = ServerConfig::with_identity(&identity)?.alpn([ALPN]).transport(transport);
    let endpoint = Endpoint::server(config, "127.0.0.1:0".parse()?)?;
    println!("{} {}", endpoint.local_addrs()[0], identity.pin());
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let request = Request::accept(incoming.await?).await?;
            eprintln!("{} asks for {}", request.connection().remote_address(), request.request().url);
            let session = request.ok(None).await?;
            let ended = tokio::try_join!(both_ways(&session), one_way(&session), datagrams(&session));
            eprintln!("over: {}", ended.err().map_or_else(String::new, |error| error.to_string()));
            Outcome::Ok(())
        });
    }
    Ok(())
}

/// Streams of both ways are answered on themselves.
async fn both_ways(session: &Session) -> Result<(), SessionError> {
    loop {
        let (mut send, mut recv) = session.accept_bi().await?;
        tokio::spawn(async move {
            while let Ok(Some(chunk)) = recv.read_chunk(64 << 10).await {
                send.write_chunk(chunk).await?;
            }
            send.finish()
        });
    }
}

/// Those of one way with one of our own, once they have ended.
async fn one_way(session: &Session) -> Result<(), SessionError> {
    loop {
        let mut recv = session.accept_uni().await?;
        let session = session.clone();
        tokio::spawn(async move {
            let data = recv.read_all().await?;
            let mut send = session.open_uni().await?;
            send.write_chunk(data).await?;
            send.finish()
        });
    }
}

async fn datagrams(session: &Session) -> Result<(), SessionError> {
    loop {
        let data = session.recv_datagram().await?;
        // What is lost is lost.
        let _ = session.send_datagram(data);
    }
}
