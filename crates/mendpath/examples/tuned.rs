//! The same transfer as it comes, and tuned for a fast network of one's own: the settings that
//! matter, and how to see what they do.
//!
//! `cargo run --release -p mendpath --example tuned`

use std::{error::Error, time::Duration};

use mendpath::{
    ClientConfig, ConnectionError, ControllerKind, Endpoint, Identity, RecoveryKind, ServerConfig,
    TransportConfig,
};

const SIZE: usize = 32 << 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    transfer("as it comes", &TransportConfig::default()).await?;
    let own = TransportConfig {
        // Jumbo frames; the search for the MTU stops at what the network carries.
        max_datagram_size: 8_900,
        // Nothing is lost but by full queues: no repair, and the controller that all others have.
        recovery: RecoveryKind::None,
        controller: ControllerKind::Cubic,
        // Room for more on the way than the defaults have: one stream gets half of the window at most, and
        // two thirds of the buffer.
        receive_window: 256 << 20,
        stream_receive_window: 128 << 20,
        send_buffer: 192 << 20,
        // A peer that is gone is noticed soon.
        max_idle_timeout: Duration::from_secs(5),
        ..TransportConfig::default()
    };
    transfer("a network of our own", &own).await
}

/// Sends as much to a server in this process, and says how it went.
async fn transfer(name: &str, transport: &TransportConfig) -> Result<(), Box<dyn Error>> {
    let identity = Identity::self_signed(["localhost"])?;
    let config = ServerConfig::with_identity(&identity)?.transport(transport.clone());
    let server = Endpoint::server(config, "127.0.0.1:0".parse()?)?;
    let address = server.local_addrs()[0];
    let received = tokio::spawn(async move {
        let connection = server.accept().await.expect("the server is open").await?;
        let mut recv = connection.accept_uni().await?;
        let mut bytes = 0;
        while let Ok(Some(chunk)) = recv.read_chunk(1 << 20).await {
            bytes += chunk.bytes.len();
        }
        connection.closed().await;
        Ok::<_, ConnectionError>(bytes)
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::with_pinned_key(identity.pin()).transport(transport.clone());
    let connection = client.connect_with(&config, address, "localhost")?.await?;
    let began = tokio::time::Instant::now();
    let mut send = connection.open_uni().await?;
    let chunk = vec![7; 1 << 20];
    for _ in 0..SIZE / chunk.len() {
        send.write_all(&chunk).await?;
    }
    send.finish()?;
    send.finished().await?;
    let time = began.elapsed();
    let path = &connection.path_stats()[0];
    println!(
        "{name}: {:.0} Mbit/s, datagrams of {} bytes, {} packets, {} lost",
        SIZE as f64 * 8.0 / 1e6 / time.as_secs_f64(),
        path.mtu,
        path.packets_sent,
        path.packets_lost
    );
    connection.close(0u8.into(), b"done");
    assert_eq!(received.await??, SIZE);
    client.wait_idle().await;
    Ok(())
}
