//! Every way in which a client is turned away, or cannot start, has one line that says what to do.

mod support;

use std::time::Duration;

use mendpath_cli::{
    client::Client,
    destination::DestinationPolicy::*,
    failure::Failure,
    invitation::Invitation,
    protocol::{ALPN, CloseCode},
    target::Host,
    token::{Service, TokenSecret},
};
use support::*;
use tokio::net::TcpListener;

fn one_line(failure: &Failure, parts: &[&str]) {
    let text = failure.to_string();
    assert!(!text.contains('\n'), "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

#[tokio::test]
async fn a_wrong_token() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut invitation = server.invitation.clone();
        invitation.token = TokenSecret::from_bytes([1; 32]).invitation_token(Service::Proxy);
        let failure = failure(client_options(invitation)).await;
        one_line(&failure, &["refused the token", "Ask its operator for a new invitation"]);
        assert_eq!(failure.exit_code(), 1);
    })
    .await;
}

/// One host with 300 connections that complete the handshake and say nothing, on a server with 256
/// seats: an invited client gets in.
#[tokio::test]
async fn silent_connections_leave_a_seat() {
    within(async {
        let server = Server::start(AllowPrivate);
        let silent = strangers(&server.invitation, 300).await;
        assert!(server.endpoint.stats().half_open <= 128, "a quarter of the room for one address");
        let invited = Client::start(client_options(server.invitation.clone())).await;
        assert!(invited.is_ok(), "{:?}", invited.err());
        drop(silent);
    })
    .await;
}

/// Connections to a server without a hello.
async fn strangers(invitation: &Invitation, count: usize) -> Vec<mendpath::Connection> {
    let endpoint = mendpath::Endpoint::client(ANY).unwrap();
    let config = mendpath::ClientConfig::with_pinned_key(invitation.pin).alpn([ALPN]);
    let Host::Ip(ip) = invitation.server.host else { panic!("tests use addresses") };
    let mut silent = Vec::new();
    for _ in 0..count {
        let address = (ip, invitation.server.port).into();
        silent.push(endpoint.connect_with(&config, address, "localhost").unwrap().await.unwrap());
    }
    silent
}

#[tokio::test]
async fn a_full_server() {
    within(async {
        let server = Server::start_with(AllowPrivate, |options| options.limits.clients = 1);
        let first = Client::start(client_options(server.invitation.clone())).await.unwrap();
        let refused = failure(client_options(server.invitation.clone())).await;
        one_line(&refused, &["it has as many clients as it takes", "Try again later"]);
        assert_eq!(refused.exit_code(), 1);
        drop(first);
    })
    .await;
}

/// With `--wait`, whoever is turned away gets in as soon as a seat is free.
#[tokio::test]
async fn a_full_server_is_waited_for() {
    within(async {
        let server = Server::start_with(AllowPrivate, |options| options.limits.clients = 1);
        let first = Client::start(client_options(server.invitation.clone())).await.unwrap();
        let mut options = client_options(server.invitation.clone());
        options.wait_for_server = true;
        let second = tokio::spawn(Client::start(options));
        // Turned away at least once: one connection is there, and another was.
        while server.endpoint.stats().accepted < 2 || server.endpoint.open_connections() > 1 {
            tokio::task::yield_now().await;
        }
        assert!(!second.is_finished());
        drop(first);
        assert!(second.await.unwrap().is_ok());
    })
    .await;
}

/// A server whose transport has no room says so during the handshake; the client asks some more
/// times, and then says what it was told.
#[tokio::test]
async fn a_crowded_door() {
    within(async {
        let identity = mendpath::Identity::self_signed(["localhost"]).unwrap();
        let config = mendpath::ServerConfig::with_identity(&identity).unwrap().alpn([ALPN]);
        let server = mendpath::Endpoint::server(config, ANY).unwrap();
        let mut invitation = Server::start(AllowPrivate).invitation.clone();
        invitation.server.port = server.local_addrs()[0].port();
        invitation.pin = identity.pin();
        let refusing = async {
            while let Some(incoming) = server.accept().await {
                incoming.accept().unwrap().refuse(CloseCode::Unavailable.into(), "no room\n");
            }
        };
        let failed = tokio::select! {
            () = refusing => panic!("the server stopped"),
            failed = failure(client_options(invitation)) => failed,
        };
        one_line(&failed, &["it takes nobody in at the moment (no room). Try again later."]);
        assert_eq!(server.stats().accepted, 4, "attempts");
    })
    .await;
}

#[tokio::test]
async fn a_wrong_pin() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut invitation = server.invitation.clone();
        invitation.pin = mendpath::KeyPin::of_spki(b"another key");
        one_line(&failure(client_options(invitation)).await, &["does not hold the key", "Ask its operator"]);
    })
    .await;
}

#[tokio::test]
async fn another_service() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut options = client_options(server.invitation.clone());
        options.dial.service = Service::Files;
        one_line(&failure(options).await, &["another service", "mendpath receive"]);
    })
    .await;
}

#[tokio::test]
async fn a_dead_server() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut invitation = server.invitation.clone();
        // A bound UDP port that never answers.
        let silent = std::net::UdpSocket::bind(ANY).unwrap();
        invitation.server.port = silent.local_addr().unwrap().port();
        let mut options = client_options(invitation);
        options.dial.timeout = Duration::from_millis(300);
        one_line(&failure(options).await, &["does not answer", "Check that it runs there"]);
    })
    .await;
}

#[tokio::test]
async fn a_missing_interface() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut options = client_options(server.invitation.clone());
        options.dial.paths = vec!["nosuch0".parse().unwrap()];
        one_line(&failure(options).await, &["nosuch0", "there are: ", "127.0.0.1", "--path"]);
    })
    .await;
}

#[tokio::test]
async fn a_busy_port() {
    within(async {
        let server = Server::start(AllowPrivate);
        let busy = TcpListener::bind(ANY).await.unwrap();
        let address = busy.local_addr().unwrap();
        let mut options = client_options(server.invitation.clone());
        options.socks5 = Some(address);
        one_line(
            &failure(options).await,
            &[&address.to_string(), "another program uses that address", "--socks5"],
        );
    })
    .await;
}

#[tokio::test]
async fn an_open_proxy() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut options = client_options(server.invitation.clone());
        options.http = Some("0.0.0.0:0".parse().unwrap());
        let refused = failure(options.clone()).await;
        one_line(&refused, &["refusing to offer HTTP on 0.0.0.0:0", "--proxy-auth-file FILE"]);
        assert_eq!(refused.exit_code(), 2);
        options.credentials = Some("alice:sesame".parse().unwrap());
        assert!(Client::start(options.clone()).await.is_ok(), "with a password it may");
        options.admin = Some("0.0.0.0:0".parse().unwrap());
        one_line(&failure(options).await, &["refusing to show statistics", "--admin 127.0.0.1"]);
    })
    .await;
}
