//! A program for quinn, line by line. Where a line is another one here, it stands as it was in a comment above; all
//! the others are the same.
//!
//! `cargo run -p mendpath --example from_quinn`

use std::{error::Error, time::Duration};

use bytes::Bytes;
// quinn: use quinn::{ClientConfig, ConnectionError, Endpoint, ServerConfig, VarInt};
use mendpath::{ClientConfig, ConnectionError, Endpoint, Identity, ServerConfig, VarInt};
// quinn: use rustls::{RootCertStore, pki_types::PrivatePkcs8KeyDer};
use mendpath::rustls::{RootCertStore, pki_types::PrivatePkcs8KeyDer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // quinn: let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let made = Identity::self_signed(["localhost"])?;
    // quinn: let certificate = made.cert.der().clone();
    let certificate = made.certificate().clone();
    // quinn: let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let key = PrivatePkcs8KeyDer::from(made.to_pkcs8_der());

    // quinn: let config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    let config = ServerConfig::with_certificate(vec![certificate.clone()], key.into())?;
    let server = Endpoint::server(config, "127.0.0.1:0".parse()?)?;
    // quinn: let address = server.local_addr()?;
    let address = server.local_addrs()[0];
    let serving = tokio::spawn(serve(server));

    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    // quinn: let mut client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    // quinn: client.set_default_client_config(ClientConfig::with_root_certificates(Arc::new(roots))?);
    client.set_default_client_config(ClientConfig::with_roots(roots));
    let connection = client.connect(address, "localhost")?.await?;

    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(b"hello").await?;
    // The same, but without it the stream would be reset here when `send` is dropped.
    send.finish()?;
    let answer = recv.read_to_end(1_024).await?;
    println!("the server sent back: {}", String::from_utf8_lossy(&answer));

    // The same, but where the buffer is full, this one is refused instead of those that wait.
    connection.send_datagram(Bytes::from_static(b"ping"))?;
    let answer = tokio::time::timeout(Duration::from_secs(10), connection.read_datagram()).await??;
    println!("and as a datagram: {}", String::from_utf8_lossy(&answer));

    // quinn: println!("the round trip takes {:?}", connection.rtt());
    println!("the round trip takes {:?}", connection.path_stats()[0].rtt);
    connection.close(VarInt::from_u32(7), b"done");
    client.wait_idle().await;
    serving.await?.map_err(|error| error.to_string())?;
    Ok(())
}

/// Sends back what one client sends, until it says that it is done.
async fn serve(server: Endpoint) -> Result<(), Box<dyn Error + Send + Sync>> {
    let incoming = server.accept().await.ok_or("the endpoint is closed")?;
    let connection = incoming.await?;
    let datagrams = connection.clone();
    tokio::spawn(async move {
        while let Ok(datagram) = datagrams.read_datagram().await {
            let _ = datagrams.send_datagram(datagram);
        }
    });
    loop {
        match connection.accept_bi().await {
            Ok((mut send, mut recv)) => {
                let asked = recv.read_to_end(1_024).await?;
                send.write_all(&asked).await?;
                send.finish()?;
            }
            // quinn: Err(ConnectionError::ApplicationClosed(close)) => {
            Err(ConnectionError::ApplicationClosed { code, reason }) => {
                // quinn: println!("the client says {}: {}", close.error_code, String::from_utf8_lossy(&close.reason));
                println!("the client says {code}: {}", String::from_utf8_lossy(&reason));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
}
