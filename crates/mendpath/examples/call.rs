//! Half a call: 50 packets of audio a second that are of no use after 150 ms, and a stream beside
//! them for what must arrive whole. What does not arrive in time is not waited for; what may not is
//! repaired.
//!
//! `cargo run -p mendpath --example call`

use std::{collections::BTreeSet, error::Error, pin::pin, time::Duration};

use bytes::Bytes;
use mendpath::{
    ClientConfig, Connection, DatagramOptions, Endpoint, Identity, SendDatagramError, ServerConfig,
};

const PACKETS: u32 = 50;
const PERIOD: Duration = Duration::from_millis(20);
const DEADLINE: Duration = Duration::from_millis(150);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let identity = Identity::self_signed(["localhost"])?;
    let server = Endpoint::server(ServerConfig::with_identity(&identity)?, "127.0.0.1:0".parse()?)?;
    let address = server.local_addrs()[0];
    let heard = tokio::spawn(async move {
        let incoming = server.accept().await.expect("the server is open");
        hear(incoming.await?).await
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::with_pinned_key(identity.pin());
    let connection = client.connect_with(&config, address, "localhost")?.await?;
    let mut chat = connection.open_uni().await?;
    // Audio goes first where both wait for a window.
    let audio = DatagramOptions::new().within(DEADLINE).priority(1);
    let mut clock = tokio::time::interval(PERIOD);
    for number in 0..PACKETS {
        clock.tick().await;
        match connection.send_datagram_with(frame(number), audio) {
            // There is no room for what would be late: the next one is worth more.
            Ok(()) | Err(SendDatagramError::Blocked) => {}
            Err(error) => return Err(error.into()),
        }
    }
    chat.write_all(b"that was all").await?;
    chat.finish()?;
    chat.finished().await?;
    let timed = connection.stats().timed;
    connection.close(0u8.into(), b"hung up");
    let in_time = timed.in_time + timed.mended;
    println!("sent {}, in time {in_time}, of these mended {}", timed.sent, timed.mended);
    println!("heard {} of {PACKETS}", heard.await?.map_err(|error| error.to_string())?);
    client.wait_idle().await;
    Ok(())
}

/// A number and what stands for sound.
fn frame(number: u32) -> Bytes {
    let mut frame = number.to_be_bytes().to_vec();
    frame.resize(160, 0);
    frame.into()
}

/// Counts packets until the stream says that all were sent. Another stack may bring one twice:
/// their numbers tell.
async fn hear(connection: Connection) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let mut numbers = BTreeSet::new();
    let mut end = pin!(async {
        let mut chat = connection.accept_uni().await?;
        Ok::<_, Box<dyn Error + Send + Sync>>(chat.read_to_end(1_024).await?)
    });
    loop {
        tokio::select! {
            biased;
            packet = connection.read_datagram() => {
                numbers.extend(packet?.first_chunk::<4>().map(|number| u32::from_be_bytes(*number)));
            }
            words = &mut end => {
                words?;
                connection.closed().await;
                return Ok(numbers.len());
            }
        }
    }
}
