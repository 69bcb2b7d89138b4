//! Sessions are resumed with tickets, and data sent with the first packets (0-RTT, RFC 9001
//! section 4.6).

use mendpath::ReadError;

use super::{Lab, Pair, Role, echo, handshake::ping_pong, lab::NAME, watchdog};

/// The second connection to their server. It has forgotten the tickets of the first unless it
/// `accepts`.
async fn our_client(accepts: bool) {
    let mut lab = Lab::new();
    let (ours, theirs) = lab.endpoints(Role::Client);
    ours.set_default_client_config(lab.our_client_config().early_data(true));
    let server = theirs.local_addr().unwrap();
    let first = Pair::connect(ours.clone(), theirs.clone(), Role::Client, server).await;
    assert!(!first.ours.is_resumed());
    ping_pong(first).await;
    if !accepts {
        theirs.set_server_config(Some(lab.their_server_config()));
    }
    let connecting = ours.connect(server, NAME).unwrap();
    let (connection, accepted) = connecting.into_0rtt().expect("a ticket allows it");
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(b"early").await.unwrap();
    send.finish().unwrap();
    tokio::spawn(async move { echo(theirs.accept().await.unwrap().await.unwrap()).await });
    assert_eq!(accepted.await, accepts);
    assert_eq!(connection.is_resumed(), accepts);
    if accepts {
        assert_eq!(recv.read_to_end(10).await.unwrap(), b"early");
    } else {
        assert_eq!(recv.read(&mut [0; 10]).await, Err(ReadError::ZeroRttRejected));
    }
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(b"late").await.unwrap();
    send.finish().unwrap();
    assert_eq!(recv.read_to_end(10).await.unwrap(), b"late");
}

#[tokio::test]
async fn their_server_takes_our_early_data() {
    watchdog(our_client(true)).await;
}

#[tokio::test]
async fn their_server_refuses_our_early_data() {
    watchdog(our_client(false)).await;
}

/// The second connection to our server. It has forgotten the tickets of the first unless it
/// `accepts`.
async fn their_client(accepts: bool) {
    let mut lab = Lab::new();
    let (ours, theirs) = lab.endpoints(Role::Server);
    ours.set_server_config(Some(lab.our_server_config().early_data(true)));
    let server = ours.local_addrs()[0];
    ping_pong(Pair::connect(ours.clone(), theirs.clone(), Role::Server, server).await).await;
    if !accepts {
        ours.set_server_config(Some(lab.our_server_config().early_data(true)));
    }
    let connecting = theirs.connect(server, NAME).unwrap();
    let Ok((connection, accepted)) = connecting.into_0rtt() else { panic!("a ticket allows it") };
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(b"early").await.unwrap();
    send.finish().unwrap();
    let here = ours.accept().await.unwrap().await.unwrap();
    assert_eq!(here.is_resumed(), accepts);
    tokio::spawn(echo(here));
    assert_eq!(accepted.await, accepts);
    if accepts {
        assert_eq!(recv.read_to_end(10).await.unwrap(), b"early");
    } else {
        recv.read(&mut [0; 10]).await.unwrap_err();
    }
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(b"late").await.unwrap();
    send.finish().unwrap();
    assert_eq!(recv.read_to_end(10).await.unwrap(), b"late");
}

#[tokio::test]
async fn our_server_takes_their_early_data() {
    watchdog(their_client(true)).await;
}

#[tokio::test]
async fn our_server_refuses_their_early_data() {
    watchdog(their_client(false)).await;
}
