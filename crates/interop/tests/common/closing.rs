//! How streams and connections end, and what the other side hears of it.

use std::time::Duration;

use mendpath::{ConnectionError, ReadError, WriteError};
use stack::VarInt;

use super::{Lab, Pair, Relay, Role, both_roles, lab::NAME, watchdog};
use crate::stack;

both_roles!(we_reset_and_stop, they_reset_and_stop, we_close, they_close);

async fn we_reset_and_stop(pair: Pair) {
    let (mut send, mut recv) = pair.ours.open_bi().await.unwrap();
    send.write_all(b"half a").await.unwrap();
    let (mut their_send, mut their_recv) = pair.theirs.accept_bi().await.unwrap();
    send.reset(7u8.into()).unwrap();
    recv.stop(9u8.into()).unwrap();
    let error = their_recv.read_to_end(100).await.unwrap_err();
    let expected = stack::ReadError::Reset(VarInt::from_u32(7));
    assert!(matches!(&error, stack::ReadToEndError::Read(error) if *error == expected), "{error}");
    assert_eq!(their_send.stopped().await.unwrap(), Some(VarInt::from_u32(9)));
    let error = their_send.write(b"x").await.unwrap_err();
    assert_eq!(error, stack::WriteError::Stopped(VarInt::from_u32(9)));
}

async fn they_reset_and_stop(pair: Pair) {
    let (mut send, mut recv) = pair.theirs.open_bi().await.unwrap();
    send.write_all(b"half a").await.unwrap();
    let (mut our_send, mut our_recv) = pair.ours.accept_bi().await.unwrap();
    send.reset(VarInt::from_u32(7)).unwrap();
    recv.stop(VarInt::from_u32(9)).unwrap();
    let mut buffer = [0; 100];
    let error = loop {
        match our_recv.read(&mut buffer).await {
            Ok(read) => assert!(read.is_some(), "the stream does not end, it is reset"),
            Err(error) => break error,
        }
    };
    assert_eq!(error, ReadError::Reset(7u8.into()));
    assert_eq!(our_send.stopped().await.unwrap(), Some(9u8.into()));
    assert_eq!(our_send.write(b"x").await.unwrap_err(), WriteError::Stopped(9u8.into()));
}

async fn we_close(pair: Pair) {
    pair.ours.close(0x1234u16.into(), b"that is all");
    match pair.theirs.closed().await {
        stack::ConnectionError::ApplicationClosed(close) => {
            assert_eq!(close.error_code, VarInt::from_u32(0x1234));
            assert_eq!(&close.reason[..], b"that is all");
        }
        error => panic!("{error}"),
    }
    assert_eq!(pair.ours.closed().await, ConnectionError::LocallyClosed);
}

async fn they_close(pair: Pair) {
    pair.theirs.close(VarInt::from_u32(0x1234), b"that is all");
    let expected =
        ConnectionError::ApplicationClosed { code: 0x1234u16.into(), reason: b"that is all".to_vec() };
    assert_eq!(pair.ours.closed().await, expected);
}

/// TLS alert no_application_protocol (RFC 9001 section 8.1), as a transport error (section 4.8).
const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;

#[tokio::test]
async fn their_server_refuses_our_protocol() {
    watchdog(async {
        let mut lab = Lab::new();
        let (ours, theirs) = lab.endpoints(Role::Client);
        let config = lab.our_client_config().alpn(["something-else"]);
        let connecting = ours.connect_with(&config, theirs.local_addr().unwrap(), NAME).unwrap();
        let (here, there) = tokio::join!(connecting, async { theirs.accept().await.unwrap().await });
        match here.unwrap_err() {
            ConnectionError::ConnectionClosed { code, .. } => {
                assert_eq!(u64::from(code.0), NO_APPLICATION_PROTOCOL);
            }
            error => panic!("{error}"),
        }
        there.unwrap_err();
    })
    .await;
}

#[tokio::test]
async fn our_server_refuses_their_protocol() {
    watchdog(async {
        let mut lab = Lab::new();
        let (_, theirs) = lab.endpoints(Role::Server);
        let config = lab.our_server_config().alpn(["something-else"]);
        let ours = mendpath::Endpoint::server(config, super::LOOPBACK).unwrap();
        let connecting = theirs.connect(ours.local_addrs()[0], NAME).unwrap();
        let (there, here) = tokio::join!(connecting, async { ours.accept().await.unwrap().await });
        here.unwrap_err();
        match there.unwrap_err() {
            stack::ConnectionError::ConnectionClosed(close) => {
                assert_eq!(u64::from(close.error_code), NO_APPLICATION_PROTOCOL);
                assert!(!close.reason.is_empty(), "our reason arrives");
            }
            error => panic!("{error}"),
        }
    })
    .await;
}

/// The smaller of both idle timeouts counts, whoever set it.
#[tokio::test]
async fn a_silent_peer_is_given_up_on_both_sides() {
    for (role, ours_ms, theirs_ms) in [(Role::Client, 300, 60_000), (Role::Server, 60_000, 300)] {
        watchdog(async {
            let mut lab = Lab::new();
            lab.ours.max_idle_timeout = Duration::from_millis(ours_ms);
            lab.theirs.max_idle_timeout(Some(VarInt::from_u32(theirs_ms).into()));
            let (ours, theirs) = lab.endpoints(role);
            let server = match role {
                Role::Client => theirs.local_addr().unwrap(),
                Role::Server => ours.local_addrs()[0],
            };
            let relay = Relay::start(server).await;
            let pair = Pair::connect(ours, theirs, role, relay.address).await;
            relay.cut();
            // Less than the longer of the timeouts.
            let both = async { tokio::join!(pair.ours.closed(), pair.theirs.closed()) };
            let (here, there) = tokio::time::timeout(std::time::Duration::from_secs(30), both).await.unwrap();
            assert_eq!(here, ConnectionError::TimedOut);
            assert!(matches!(there, stack::ConnectionError::TimedOut), "{there}");
        })
        .await;
    }
}
