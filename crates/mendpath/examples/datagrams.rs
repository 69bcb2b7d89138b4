//! Unreliable datagrams, as games and voice use them: nothing is sent again, nothing waits for what
//! was lost.
//!
//! `cargo run -p mendpath --example datagrams`

use std::error::Error;

use bytes::Bytes;
use mendpath::{ClientConfig, Endpoint, Identity, ServerConfig};

const COUNT: u32 = 100;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let identity = Identity::self_signed(["localhost"])?;
    let server = Endpoint::server(ServerConfig::with_identity(&identity)?, "127.0.0.1:0".parse()?)?;
    let address = server.local_addrs()[0];
    let received = tokio::spawn(async move {
        let connection = server.accept().await.expect("the server is open").await?;
        let mut numbers = Vec::new();
        while let Ok(data) = connection.read_datagram().await {
            numbers.push(u32::from_be_bytes(data[..4].try_into().expect("four bytes were sent")));
        }
        Ok::<_, mendpath::ConnectionError>(numbers)
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::with_pinned_key(identity.pin());
    let connection = client.connect_with(&config, address, "localhost")?.await?;
    println!("a datagram has at most {:?} bytes", connection.max_datagram_size());
    for number in 0..COUNT {
        connection.send_datagram_wait(Bytes::copy_from_slice(&number.to_be_bytes())).await?;
    }
    // A stream that is acknowledged was sent after the datagrams.
    let mut marker = connection.open_uni().await?;
    marker.write_all(b"end").await?;
    marker.finish()?;
    marker.finished().await?;
    connection.close(0u8.into(), b"done");

    let numbers = received.await??;
    println!("{} of {COUNT} datagrams arrived, the last was number {:?}", numbers.len(), numbers.last());
    Ok(())
}
