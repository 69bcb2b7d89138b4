//! A server and a client in one process: the client sends a line, the server sends it back.
//!
//! `cargo run -p mendpath --example echo`

use std::error::Error;

use mendpath::{ClientConfig, Connection, Endpoint, Identity, ServerConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let identity = Identity::self_signed(["localhost"])?;
    let server = Endpoint::server(ServerConfig::with_identity(&identity)?, "127.0.0.1:0".parse()?)?;
    let address = server.local_addrs()[0];
    println!("the server listens on {address}, its key is {}", identity.pin());
    tokio::spawn(async move {
        while let Some(connecting) = server.accept().await {
            tokio::spawn(async move {
                if let Ok(connection) = connecting.await {
                    echo(connection).await;
                }
            });
        }
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::with_pinned_key(identity.pin());
    let connection = client.connect_with(&config, address, "localhost")?.await?;
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(b"hello over QUIC").await?;
    send.finish()?;
    let answer = recv.read_to_end(1_024).await?;
    println!("the server sent back: {}", String::from_utf8_lossy(&answer));
    connection.close(0u8.into(), b"done");
    client.wait_idle().await;
    Ok(())
}

/// Sends back what arrives on every stream.
async fn echo(connection: Connection) {
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        tokio::spawn(async move {
            // Unless it is finished, the stream is reset when `send` is dropped: half an echo must
            // not look whole.
            if tokio::io::copy(&mut recv, &mut send).await.is_ok() {
                let _ = send.finish();
            }
        });
    }
}
