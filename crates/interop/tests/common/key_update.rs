//! Keys of 1-RTT packets are updated (RFC 9001 section 6), by either side.

use super::{Lab, Pair, Role, both_roles, echo, watchdog};

/// Between two updates, three probe timeouts must pass (RFC 9001 section 6.5): each waits for the
/// one before.
const UPDATES: u64 = 3;

both_roles!(they_update_keys);

async fn they_update_keys(pair: Pair) {
    tokio::spawn(echo(pair.theirs.clone()));
    while pair.ours.stats().key_updates < UPDATES {
        // Without effect while the last update is not settled.
        pair.theirs.force_key_update();
        round_trip(&pair).await;
    }
    round_trip(&pair).await;
}

async fn we_update_keys(role: Role) {
    let mut lab = Lab::new();
    lab.ours.key_update_interval = 10;
    let pair = lab.connect(role).await;
    tokio::spawn(echo(pair.theirs.clone()));
    // The first may be theirs, made at random; they make no more after that.
    while pair.ours.stats().key_updates < 1 + UPDATES {
        round_trip(&pair).await;
    }
    round_trip(&pair).await;
}

async fn round_trip(pair: &Pair) {
    let (mut send, mut recv) = pair.ours.open_bi().await.unwrap();
    send.write_all(b"another phase?").await.unwrap();
    send.finish().unwrap();
    assert_eq!(recv.read_to_end(100).await.unwrap(), b"another phase?");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_update_keys_as_client() {
    watchdog(we_update_keys(Role::Client)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_update_keys_as_server() {
    watchdog(we_update_keys(Role::Server)).await;
}
