//! Every way in which a client is turned away, or cannot start, has one line that says what to do.

mod support;

use std::time::Duration;

use mendpath_cli::{
    client::Client,
    destination::DestinationPolicy::*,
    failure::Failure,
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
        one_line(&failure(options).await, &["does not answer", "Check that `mendpath server` runs there"]);
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
