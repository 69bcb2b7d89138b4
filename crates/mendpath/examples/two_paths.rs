//! One transfer over two paths, here two ports of the loopback interface: the second path joins at
//! the start, the first one leaves in the middle.
//!
//! `cargo run -p mendpath --example two_paths`

use std::error::Error;

use mendpath::{ClientConfig, Connection, Endpoint, Identity, PathOptions, RecoveryKind, ServerConfig};

const CHUNK: usize = 64 << 10;
const CHUNKS: usize = 256;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let identity = Identity::self_signed(["localhost"])?;
    let server = Endpoint::server(ServerConfig::with_identity(&identity)?, "127.0.0.1:0".parse()?)?;
    let address = server.local_addrs()[0];
    let received = tokio::spawn(async move {
        let connecting = server.accept().await.expect("the server is open");
        let connection = connecting.await?;
        let total = count(&connection).await?;
        connection.closed().await;
        Ok::<usize, mendpath::ReadError>(total)
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::with_pinned_key(identity.pin()).recovery(RecoveryKind::Cofuso);
    let connection = client.connect_with(&config, address, "localhost")?.await?;
    let mut events = connection.path_updates();
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            println!("path update: {event:?}");
        }
    });

    let first = connection.paths().remove(0);
    let second = connection.add_path(PathOptions::new().local("127.0.0.1:0".parse()?)).await?;
    let mut send = connection.open_uni().await?;
    let chunk = vec![1; CHUNK];
    for number in 0..CHUNKS {
        if number == CHUNKS / 2 {
            report(&connection);
            first.close()?;
        }
        send.write_all(&chunk).await?;
    }
    send.finish()?;
    send.finished().await?;
    report(&connection);
    connection.close(0u8.into(), b"done");
    println!("path {} went on alone; the server received {} bytes", second.id(), received.await??);
    client.wait_idle().await;
    Ok(())
}

/// Reads one stream to its end and returns its length.
async fn count(connection: &Connection) -> Result<usize, mendpath::ReadError> {
    let mut recv = connection.accept_uni().await?;
    let mut buffer = vec![0; CHUNK];
    let mut total = 0;
    while let Some(read) = recv.read(&mut buffer).await? {
        total += read;
    }
    Ok(total)
}

fn report(connection: &Connection) {
    for path in connection.path_stats() {
        println!(
            "path {} from {}: {:?}, rtt {:?}, {} bytes sent, {} packets lost",
            path.id.0, path.network.local, path.state, path.rtt, path.bytes_sent, path.packets_lost
        );
    }
}
