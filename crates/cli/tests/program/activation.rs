//! A server whose socket belongs to the service manager: what arrives while it is started again is
//! not lost.

use std::{net::UdpSocket, os::fd::OwnedFd};

use mendpath_cli::invitation::Invitation;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{process::Process, support::*};

/// As systemd starts it: the socket is descriptor 3.
fn start(socket: &UdpSocket, state: &str) -> Process {
    let handed = OwnedFd::from(socket.try_clone().unwrap());
    let preparation = "exec 3<&0 0</dev/null; export LISTEN_FDS=1 LISTEN_PID=$$";
    // The port is none that could be bound.
    let args =
        ["server", "--listen", "192.0.2.1:1", "--allow-private", "--drain-time", "0", "--state", state];
    Process::start_with(handed, preparation, &args)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_started_again_and_nobody_is_refused() {
    within(async {
        let state = tempfile::tempdir().unwrap();
        let state = state.path().join("state");
        let state = state.to_str().unwrap();
        let socket = UdpSocket::bind(ANY).unwrap();
        let first = start(&socket, state);
        let invitation: Invitation = first.line_with("mendpath://").parse().unwrap();
        assert_eq!(invitation.server.port, socket.local_addr().unwrap().port());
        let proxy = client(client_options(invitation)).await.socks5.unwrap();
        let echo = echo_server().await;
        let (mut tcp, code, _) = socks5(proxy, 1, echo).await;
        assert_eq!(code, 0);
        assert_eq!(converse(&mut tcp, b"one ").await, b"one goodbye");

        kill(Pid::from_raw(first.id() as i32), Signal::SIGTERM).unwrap();
        assert_eq!(first.wait(), Some(0));
        // Nobody answers now; the program waits for its connection.
        let asking = tokio::spawn(async move { socks5(proxy, 1, echo).await });
        let second = start(&socket, state);
        second.line_with("mendpath://");
        let (mut tcp, code, _) = asking.await.unwrap();
        assert_eq!(code, 0);
        assert_eq!(converse(&mut tcp, b"two ").await, b"two goodbye");
    })
    .await;
}
