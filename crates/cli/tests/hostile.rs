//! Clients and programs that forge or hang. The clock of the proxy's timeouts is moved by hand:
//! nobody waits for them.

mod support;

use std::time::Duration;

use mendpath::{ClientConfig, Connection, ConnectionError, Endpoint};
use mendpath_cli::{
    destination::DestinationPolicy::*,
    identity::CERTIFICATE_NAME,
    invitation::Invitation,
    protocol::{ALPN, CloseCode, Hello, MAX_MESSAGE, Request, read_frame, write_frame},
    server::HELLO_TIMEOUT,
    target::Target,
    token::{Service, Token, TokenSecret},
};
use support::*;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{advance, pause},
};

/// How long a program may take to say what it wants of a proxy.
const PROXY_TIMEOUT: Duration = Duration::from_secs(15);
/// For how long a connection to the HTTP proxy is kept between requests.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// What a timer may be late.
const SLACK: Duration = Duration::from_secs(1);

/// A connection to the server as anybody can make who knows its key, without a hello.
async fn connect(invitation: &Invitation) -> Connection {
    let server = tokio::net::lookup_host((invitation.server.host.to_string(), invitation.server.port));
    let server = server.await.unwrap().next().unwrap();
    let config = ClientConfig::with_pinned_key(invitation.pin).alpn([ALPN]);
    let endpoint = Endpoint::client(ANY).unwrap();
    endpoint.connect_with(&config, server, CERTIFICATE_NAME).unwrap().await.unwrap()
}

fn assert_closed_by_peer(error: ConnectionError, code: CloseCode) {
    match error {
        ConnectionError::ApplicationClosed { code: found, .. } => {
            assert_eq!(CloseCode::from_code(found), Some(code));
        }
        other => panic!("{other:?} instead of {code:?}"),
    }
}

/// A client that says nothing, or stops in the middle of its hello, is closed with code 4 once
/// [`HELLO_TIMEOUT`] is over.
#[tokio::test]
async fn clients_without_a_hello_are_closed_in_time() {
    let server = Server::start(AllowPrivate);
    let silent = connect(&server.invitation).await;
    let halting = connect(&server.invitation).await;
    let (mut send, _receive) = halting.open_bi().await.unwrap();
    send.write_all(&[0, 50, 1]).await.unwrap();
    pause();
    advance(HELLO_TIMEOUT + SLACK).await;
    for connection in [&silent, &halting] {
        assert_closed_by_peer(within(connection.closed()).await, CloseCode::HelloTimeout);
    }
}

/// Tokens of another server, of another service, with a changed bit or made up: code 2 (or 5 for
/// the other service), and nothing that was asked for along with the hello is done.
#[tokio::test]
async fn forged_tokens_open_nothing() {
    within(async {
        let server = Server::start(AllowPrivate);
        let target = TcpListener::bind(ANY).await.unwrap();
        let genuine = server.invitation.token;
        let changed = |at: usize| {
            let mut bytes = genuine.as_bytes().to_vec();
            bytes[at] ^= 1;
            Token::try_from(bytes.as_slice()).unwrap()
        };
        let files = TokenSecret::from_bytes([1; 32]).invitation_token(Service::Files);
        let forged = [
            (
                Service::Proxy,
                TokenSecret::from_bytes([1; 32]).invitation_token(Service::Proxy),
                CloseCode::TokenRefused,
            ),
            (Service::Proxy, changed(0), CloseCode::TokenRefused),
            (Service::Proxy, changed(47), CloseCode::TokenRefused),
            (Service::Proxy, files, CloseCode::TokenRefused),
            (Service::Files, genuine, CloseCode::WrongService),
        ];
        for (service, token, code) in forged {
            let connection = connect(&server.invitation).await;
            let (mut control, mut answer) = connection.open_bi().await.unwrap();
            write_frame(&mut control, &Hello { service, token }.encode()).await.unwrap();
            // Without a seat there is the control stream and no other; a request goes out with the
            // hello as well as it can.
            let request = Request::Connect(Target::from_addr(target.local_addr().unwrap()));
            write_frame(&mut control, &request.encode()).await.unwrap();
            assert!(connection.open_bi().await.is_err(), "there was a stream to ask on");
            assert!(!matches!(read_frame(&mut answer, MAX_MESSAGE).await, Ok(Some(_))), "it was answered");
            assert_closed_by_peer(connection.closed().await, code);
        }
        // A connection that had been made would be waiting to be accepted.
        let accepted = tokio::time::timeout(Duration::ZERO, target.accept()).await;
        assert!(accepted.is_err(), "the server connected for a forged token");
    })
    .await;
}

/// Programs that say nothing, or stop in the middle, hold a place in front of each proxy for 15
/// seconds and no longer; meanwhile and afterwards others are served.
#[tokio::test]
async fn programs_that_hang_are_dropped_in_time() {
    let (server, echo) = (Server::start(AllowPrivate), echo_server().await);
    let addresses = client(client_options(server.invitation.clone())).await;
    let (socks, http) = (addresses.socks5.unwrap(), addresses.http.unwrap());
    let request = socks5_request(1, echo);
    let beginnings: [(_, &[u8]); 6] = [
        (socks, &[]),
        (socks, &[5]),
        (socks, &[5, 1, 0]),
        (socks, &[&[5, 1, 0], &request[..5]].concat()),
        (http, &[]),
        (http, b"CONNECT example.org:443 HTTP/1.1\r\nHost: exam"),
    ];
    let mut hanging = Vec::new();
    for (proxy, beginning) in beginnings.iter().cycle().take(60) {
        let mut tcp = TcpStream::connect(proxy).await.unwrap();
        tcp.write_all(beginning).await.unwrap();
        hanging.push(tcp);
    }
    let (mut tcp, reply, _) = socks5(socks, 1, echo).await;
    assert_eq!((reply, converse(&mut tcp, b"meanwhile").await), (0, b"meanwhilegoodbye".to_vec()));

    pause();
    advance(PROXY_TIMEOUT + SLACK).await;
    for mut tcp in hanging {
        // What it may get is a greeting or HTTP's status 408; then the end, or a reset for what was
        // not read.
        let _ = within(tcp.read_to_end(&mut Vec::new())).await;
    }
    let (mut tcp, reply, _) = socks5(socks, 1, echo).await;
    assert_eq!((reply, converse(&mut tcp, b"afterwards").await), (0, b"afterwardsgoodbye".to_vec()));
}

/// Connections that say nothing take no place from one that asks: it is served while they are still
/// waited for.
#[tokio::test]
async fn idle_connections_keep_nobody_out() {
    const IDLE: usize = 1_100;
    /// Fewer than the places of those that have not asked.
    const STILL_WAITED_FOR: usize = 100;
    within(async {
        let (server, echo) = (Server::start(AllowPrivate), echo_server().await);
        let mut options = client_options(server.invitation.clone());
        options.credentials = Some("alice:sesame".parse().unwrap());
        let proxy = client(options).await.socks5.unwrap();
        let mut idle = Vec::new();
        for _ in 0..IDLE {
            idle.push(TcpStream::connect(proxy).await.unwrap());
        }
        let mut tcp = TcpStream::connect(proxy).await.unwrap();
        let request = socks5_request(1, echo);
        tcp.write_all(&[&[5, 1, 2, 1, 5][..], b"alice", &[6], b"sesame", &request].concat()).await.unwrap();
        let mut answer = [0; 14];
        tcp.read_exact(&mut answer).await.unwrap();
        assert_eq!((answer[1], answer[3], answer[5]), (2, 0, 0), "greeted, let in, connected");
        for (i, idle) in idle.iter().rev().enumerate().take(STILL_WAITED_FOR) {
            let said = socket2::SockRef::from(idle).peek(&mut [std::mem::MaybeUninit::uninit()]);
            assert_eq!(said.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "{i} was given up");
        }
        assert_eq!(converse(&mut tcp, b"served ").await, b"served goodbye");
    })
    .await;
}

/// A kept connection to the HTTP proxy is closed when its program has nothing to ask for.
#[tokio::test]
async fn kept_connections_are_closed_in_time() {
    let server = Server::start(AllowPrivate);
    let origin = http::origin(|_| http::ok("kept")).await;
    let proxy = client(client_options(server.invitation.clone())).await.http.unwrap();
    let (mut kept, mut halting) = (http::Program::new(proxy).await, http::Program::new(proxy).await);
    let request = format!("GET http://{}/ HTTP/1.1\r\n\r\n", origin.address);
    assert_eq!(within(kept.ask(&request)).await.1, "kept");
    // What follows its first request has been read with it, so that its time runs before the clock
    // is moved.
    let one_and_a_half = format!("{request}{}", &request[..20]);
    assert_eq!(within(halting.ask(&one_and_a_half)).await.1, "kept");
    pause();
    // Half of a request has less time than none.
    advance(PROXY_TIMEOUT + SLACK).await;
    let (heard, _) = within(halting.hear_rest()).await;
    assert!(heard.starts_with("HTTP/1.1 408 "), "{heard}");
    let said = socket2::SockRef::from(&kept.0).peek(&mut [std::mem::MaybeUninit::uninit()]);
    assert_eq!(said.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "it has time");
    advance(KEEP_ALIVE).await;
    assert_eq!(within(kept.hear_rest()).await, (String::new(), false));
}
