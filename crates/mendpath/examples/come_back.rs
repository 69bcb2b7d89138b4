//! What to do about errors: a client tries again where that can help and gives up where it cannot,
//! and resumes its session when it comes back.
//!
//! `cargo run -p mendpath --example come_back`

use std::{error::Error, net::SocketAddr, time::Duration};

use mendpath::{
    ClientConfig, ConnectionError, Endpoint, Identity, ReadToEndError, ServerConfig, TransportErrorCode,
};
use tokio::time::Instant;

const WORDS: &[u8] = b"still there?";
const ATTEMPTS: u32 = 5;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let identity = Identity::self_signed(["localhost"])?;
    let server = Endpoint::server(ServerConfig::with_identity(&identity)?, "127.0.0.1:0".parse()?)?;
    let address = server.local_addrs()[0];
    tokio::spawn(serve(server));

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    // One configuration for all attempts: it keeps the session's tickets and what paths are like.
    let config = ClientConfig::with_pinned_key(identity.pin()).idle_timeout(Duration::from_secs(5));
    for question in 1..=2 {
        let (attempt, is_resumed) = ask_until_answered(&client, &config, address).await?;
        let session = if is_resumed { "resumed" } else { "new" };
        println!("question {question}: answered at attempt {attempt}, in a {session} session");
    }
    client.wait_idle().await;
    Ok(())
}

/// A server that answers, but has no room for the second connection.
async fn serve(server: Endpoint) {
    let mut met = 0;
    while let Some(incoming) = server.accept().await {
        met += 1;
        if met == 2 {
            incoming.refuse("come back later");
            continue;
        }
        let Ok(connection) = incoming.await else { continue };
        while let Ok((mut send, mut recv)) = connection.accept_bi().await {
            if tokio::io::copy(&mut recv, &mut send).await.is_ok() {
                let _ = send.finish();
            }
        }
    }
}

/// Asks with pauses that grow. At which attempt there was an answer, and whether its session was
/// resumed.
async fn ask_until_answered(
    client: &Endpoint,
    config: &ClientConfig,
    address: SocketAddr,
) -> Result<(u32, bool), Box<dyn Error>> {
    let mut pause = Duration::from_millis(20);
    for attempt in 1..ATTEMPTS {
        match ask(client, config, address).await {
            Ok(is_resumed) => return Ok((attempt, is_resumed)),
            Err(error) if is_worth_another_try(error.as_ref()) => {
                println!("attempt {attempt}: {error}; again in {pause:?}");
                tokio::time::sleep_until(Instant::now() + pause).await;
                pause *= 2;
            }
            Err(error) => return Err(error),
        }
    }
    Ok((ATTEMPTS, ask(client, config, address).await?))
}

/// Asks once. Whether the session was resumed.
async fn ask(client: &Endpoint, config: &ClientConfig, address: SocketAddr) -> Result<bool, Box<dyn Error>> {
    let connection = client.connect_with(config, address, "localhost")?.await?;
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(WORDS).await?;
    send.finish()?;
    let answer = recv.read_to_end(1_024).await?;
    assert_eq!(answer, WORDS);
    connection.close(0u8.into(), b"");
    Ok(connection.is_resumed())
}

/// Errors of a connection end everything on it and say why, in each call that was under way.
fn is_worth_another_try(error: &(dyn Error + 'static)) -> bool {
    let of_stream = error.downcast_ref::<ReadToEndError>().and_then(|error| match error {
        ReadToEndError::Read(mendpath::ReadError::ConnectionLost(lost)) => Some(lost),
        _ => None,
    });
    match of_stream.or_else(|| error.downcast_ref()) {
        // Nobody there, or no way to it; or it has forgotten us.
        Some(ConnectionError::TimedOut | ConnectionError::Reset) => true,
        // The server has no room just now.
        Some(ConnectionError::ConnectionClosed { code, .. }) => {
            *code == TransportErrorCode::CONNECTION_REFUSED
        }
        // A wrong key, another version, a fault of either end: the same again would fail again.
        _ => false,
    }
}
