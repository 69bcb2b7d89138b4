//! When the service manager is told that the work has begun.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixDatagram,
    time::Duration,
};

use mendpath_cli::invitation::Invitation;

use crate::process::Process;

/// systemd would end it after 90 s, and start it again, for as long as the server is away.
#[test]
fn a_client_that_waits_for_its_server_is_ready() {
    let dir = tempfile::tempdir().unwrap();
    let (state, manager) = (dir.path().join("state"), dir.path().join("manager"));
    let serve = |port: u16| {
        let listen = format!("--listen=127.0.0.1:{port}");
        Process::start(&["server", &listen, "--state", state.to_str().unwrap()])
    };
    let server = serve(0);
    let invitation = server.line_with("mendpath://");
    let port = invitation.parse::<Invitation>().unwrap().server.port;
    server.kill();

    let heard = UnixDatagram::bind(&manager).unwrap();
    heard.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let told = || {
        let mut words = [0; 256];
        let length = heard.recv(&mut words).unwrap();
        String::from_utf8_lossy(&words[..length]).into_owned()
    };
    let preparation = format!("export NOTIFY_SOCKET={}", manager.display());
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let admin = format!("--admin={free}");
    let args = ["client", "--wait", &invitation, "--path=127.0.0.1", "--socks5=127.0.0.1:0", &admin];
    let _client = Process::start_after(&preparation, &args);
    assert_eq!(told(), "READY=1\nSTATUS=waiting for the server\n");
    assert!(metrics(free).contains("\nmendpath_up 0\n"), "whoever watches it is told");
    let _server = serve(port);
    assert_eq!(told(), "READY=1\nSTATUS=\n");
}

/// `/metrics` of a program there.
fn metrics(admin: SocketAddr) -> String {
    let mut tcp = TcpStream::connect(admin).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    tcp.write_all(format!("GET /metrics HTTP/1.1\r\nhost: {admin}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).unwrap();
    answer
}
