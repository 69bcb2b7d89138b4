//! When programs hear that they are connected: what is waited for, what is said early, and how a
//! failure shows.

mod support;

use std::{io::ErrorKind, net::SocketAddr};

use mendpath_cli::{
    client::EarlyAnswers,
    destination::DestinationPolicy::AllowPrivate,
    protocol::{Reply, Status},
};
use support::{hand::Hand, *};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const CONNECT: u8 = 1;

fn refusal() -> Reply {
    Reply::new(Status::Refused, "nobody is there")
}

/// Asks an HTTP proxy for a tunnel; returns the connection and the status line.
async fn tunnel(proxy: SocketAddr, target: SocketAddr) -> (TcpStream, String) {
    let mut tcp = TcpStream::connect(proxy).await.unwrap();
    tcp.write_all(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tcp.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let line = head.lines().next().unwrap().to_owned();
    (tcp, line)
}

/// What the program says goes out before the server has answered, and the other way round once it
/// has.
async fn talk(hand: &mut Hand, mut tcp: TcpStream) {
    hand.hear().await;
    tcp.write_all(b"question").await.unwrap();
    let mut said = [0; 8];
    hand.asked[0].1.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"question");
    let (mut send, _receive) = hand.answer(Reply::ok()).await;
    send.write_all(b"answer").await.unwrap();
    send.finish().unwrap();
    let mut heard = [0; 6];
    tcp.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"answer");
}

async fn assert_reset(tcp: &mut TcpStream) {
    let error = tcp.read(&mut [0]).await.expect_err("a refusal must not look like an end");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_known_destination_is_answered_at_once_and_both_proxies_know_it() {
    within(async {
        let (mut hand, addresses) = Hand::start(|options| options.early_answers = EarlyAnswers::Known).await;
        let target = closed_port().await;
        let (socks, http) = (addresses.socks5.unwrap(), addresses.http.unwrap());
        let ((_first, code, _), _open) = tokio::join!(socks5(socks, CONNECT, target), hand.grant());
        assert_eq!(code, 0);

        // The server has not heard of these, let alone answered.
        let (tcp, code, _) = socks5(socks, CONNECT, target).await;
        assert_eq!(code, 0);
        talk(&mut hand, tcp).await;
        let (tcp, line) = tunnel(http, target).await;
        assert_eq!(line, "HTTP/1.1 200 Connection established");
        talk(&mut hand, tcp).await;
    })
    .await;
}

#[tokio::test]
async fn a_late_refusal_is_a_reset_and_the_next_program_hears_why() {
    within(async {
        let (mut hand, addresses) = Hand::start(|options| options.early_answers = EarlyAnswers::Known).await;
        let target = closed_port().await;
        let (socks, http) = (addresses.socks5.unwrap(), addresses.http.unwrap());
        for proxy in ["SOCKS5", "HTTP"] {
            let ((_first, code, _), _open) = tokio::join!(socks5(socks, CONNECT, target), hand.grant());
            assert_eq!(code, 0);
            let mut tcp = match proxy {
                "SOCKS5" => socks5(socks, CONNECT, target).await.0,
                _ => tunnel(http, target).await.0,
            };
            hand.hear().await;
            let (mut send, mut receive) = hand.answer(refusal()).await;
            send.finish().unwrap();
            receive.stop(0u32.into()).unwrap();
            assert_reset(&mut tcp).await;

            let refused = async {
                hand.hear().await;
                hand.answer(refusal()).await
            };
            let ((_tcp, code, _), _) = tokio::join!(socks5(socks, CONNECT, target), refused);
            assert_eq!(code, 5, "{proxy}: connection refused");
        }
    })
    .await;
}

#[tokio::test]
async fn the_connection_s_end_is_a_reset_for_who_was_answered_early() {
    within(async {
        let (hand, addresses) = Hand::start(|options| options.early_answers = EarlyAnswers::Always).await;
        let (mut tcp, code, _) = socks5(addresses.socks5.unwrap(), CONNECT, closed_port().await).await;
        assert_eq!(code, 0);
        hand.connection.close(0u32.into(), b"");
        drop(hand.control);
        assert_reset(&mut tcp).await;
    })
    .await;
}

#[tokio::test]
async fn never_waits_even_where_connections_were_made() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut options = client_options(server.invitation.clone());
        options.early_answers = EarlyAnswers::Never;
        let addresses = client(options).await;
        let listener = TcpListener::bind(ANY).await.unwrap();
        let target = listener.local_addr().unwrap();
        assert_eq!(socks5(addresses.socks5.unwrap(), CONNECT, target).await.1, 0);
        drop(listener);
        assert_eq!(socks5(addresses.socks5.unwrap(), CONNECT, target).await.1, 5, "connection refused");
        let (_tcp, line) = tunnel(addresses.http.unwrap(), target).await;
        assert!(line.starts_with("HTTP/1.1 502 "), "{line}");
    })
    .await;
}
