//! Through a bad network: loss, reordering, copies, corruption, and a translator that forgets in
//! the middle of it.

use mendpath::{AddressValidation, Endpoint, Identity};
use tokio::{io::AsyncWriteExt as _, time::Instant};

use super::{
    LOOPBACK, Lab, Pair, Relay, Role, Streams, check_and_tell, lab::NAME, relay::Weather, watchdog, write,
};

/// What is sent in each direction.
const SIZE: u64 = 2_000_000;

/// Three datagrams of a hundred are lost, and two meet with something else.
const BAD: Weather = Weather { lost: 30, doubled: 10, overtaken: 20, corrupted: 10, seed: 5 };

/// Loss alone, as in the measurements of ACK sizes.
const LOSSY: Weather = Weather { lost: 50, doubled: 0, overtaken: 0, corrupted: 0, seed: 6 };

/// A connection through a relay.
async fn connect(role: Role, weather: Weather) -> (Pair, Relay) {
    let (ours, theirs) = Lab::new().endpoints(role);
    let server = match role {
        Role::Client => theirs.local_addr().unwrap(),
        Role::Server => ours.local_addrs()[0],
    };
    let relay = Relay::start(server).await;
    relay.set_weather(weather);
    let pair = Pair::connect(ours, theirs, role, relay.address).await;
    (pair, relay)
}

/// Sends in one direction; `halfway` is called when half of it has been read.
async fn transfer(from: impl Streams, to: impl Streams, halfway: impl FnOnce() + Send) {
    let send = async {
        let mut stream = from.open_uni().await.unwrap();
        write(&mut stream, 0, SIZE).await;
        stream.shutdown().await.unwrap();
        // Dropping it would be an end of another kind for one of the stacks.
        stream
    };
    let receive = async {
        let mut halfway = Some(halfway);
        let mut stream = to.accept_uni().await.unwrap();
        check_and_tell(&mut stream, |offset| {
            if offset >= SIZE / 2
                && let Some(halfway) = halfway.take()
            {
                halfway();
            }
        })
        .await
    };
    assert_eq!(tokio::join!(send, receive).1, SIZE);
}

/// Every byte arrives, from the handshake on, in both directions, also from another address.
async fn bytes_survive(role: Role) {
    let (pair, relay) = connect(role, BAD).await;
    let there = transfer(pair.ours.clone(), pair.theirs.clone(), || {});
    let back = transfer(pair.theirs.clone(), pair.ours.clone(), || {
        // Where a server challenges the new address once, that must not be what gets lost.
        if role == Role::Client && !crate::VALIDATES_AGAIN {
            relay.set_weather(Weather::default());
        }
        relay.rebind();
    });
    tokio::join!(there, back);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_survive_bad_weather_to_their_server() {
    watchdog(bytes_survive(Role::Client)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_survive_bad_weather_from_their_client() {
    watchdog(bytes_survive(Role::Server)).await;
}

/// We only receive: what we send is ACKs, which name what is new (RFC 9000 section 13.2.4), whoever
/// the sender is.
async fn acks_stay_short(role: Role) {
    let (pair, relay) = connect(role, LOSSY).await;
    let ours = usize::from(role == Role::Server);
    let before = relay.counts();
    for _ in 0..3 {
        transfer(pair.theirs.clone(), pair.ours.clone(), || {}).await;
    }
    let after = relay.counts();
    let sent = |side: usize| {
        (after[side].datagrams - before[side].datagrams, after[side].bytes - before[side].bytes)
    };
    let ((datagrams, bytes), (_, data)) = (sent(ours), sent(1 - ours));
    // Our probes for larger datagrams are among them.
    assert!(bytes < 100 * datagrams, "{datagrams} datagrams with {bytes} bytes");
    assert!(bytes * 20 < data, "{bytes} bytes for {data}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acks_for_their_server_stay_short() {
    watchdog(acks_stay_short(Role::Client)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acks_for_their_client_stay_short() {
    watchdog(acks_stay_short(Role::Server)).await;
}

/// A translator gives us another port, and all is lost that was on its way. Their server goes on
/// sending to where nobody is: that we only receive must not keep us from telling it where we are.
/// The rest can only come if it has followed, whatever gets lost of that with a stack that goes on
/// asking the new address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_waits_and_is_moved_in_silence() {
    watchdog(async {
        let (pair, relay) = connect(Role::Client, LOSSY).await;
        transfer(pair.theirs.clone(), pair.ours.clone(), || {
            relay.set_weather(if crate::VALIDATES_AGAIN { LOSSY } else { Weather::default() });
            relay.rebind_in_silence();
        })
        .await;
    })
    .await;
}

/// Their client sends, is moved in silence, and tries again by itself: we validate where it is now,
/// whatever gets lost of that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_client_sends_and_is_moved_in_silence() {
    watchdog(async {
        let (pair, relay) = connect(Role::Server, Weather { lost: 200, ..LOSSY }).await;
        let seen = pair.ours.remote_address();
        transfer(pair.theirs.clone(), pair.ours.clone(), || relay.rebind_in_silence()).await;
        assert_ne!(pair.ours.remote_address(), seen, "we have followed");
    })
    .await;
}

/// A client shows that it receives at its address, asks for a handshake with a chain of 8 kB, and
/// is never heard of again. Each probe timeout may send two datagrams of that again (RFC 9002
/// section 6.2.4), not all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_falls_silent_gets_two_datagrams_per_timeout() {
    watchdog(async {
        let mut lab = Lab::new();
        let names = (0..180).map(|n| format!("a-name-that-makes-the-certificate-longer-{n}.example"));
        lab.identity = Identity::self_signed(names.chain([NAME.to_owned()])).unwrap();
        let (_, theirs) = lab.endpoints(Role::Server);
        let config = lab.our_server_config().address_validation(AddressValidation::Always);
        let ours =
            Endpoint::server(config.idle_timeout(std::time::Duration::from_secs(6)), LOOPBACK).unwrap();
        let relay = Relay::start(ours.local_addrs()[0]).await;
        // A datagram that is answered with Retry, and one that brings the token.
        relay.mute_client_after(2);
        let began = Instant::now();
        let _connecting = theirs.connect(relay.address, NAME).unwrap();
        assert!(ours.accept().await.unwrap().await.is_err(), "the handshake never completes");
        // The first timeout comes after three initial round-trip times, each further one after
        // twice the last.
        let timeouts = (1.0 + began.elapsed().as_secs_f64()).log2().floor() as u64;
        let [_, sent] = relay.counts();
        let flight = 11_000;
        assert!(sent.bytes > 8_000, "{sent:?}");
        assert!(sent.bytes <= flight + timeouts * 2 * 1_500, "{sent:?} after {timeouts} timeouts");
    })
    .await;
}
