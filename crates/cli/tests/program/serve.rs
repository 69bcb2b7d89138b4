//! `mendpath serve` as a process.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mendpath::{
    ClientConfig, Endpoint, Identity,
    rustls::{ClientConfig as TlsConfig, ClientConnection, HandshakeKind, StreamOwned},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{process::Process, support::tls::trusting};

#[test]
fn a_hangup_does_not_end_a_server_without_certificate_files() {
    let root = tempfile::tempdir().unwrap();
    let server =
        Process::start(&["serve", "--root", root.path().to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    let address = server.address_after("HTTP/3 on UDP ");
    for _ in 0..2 {
        kill(Pid::from_raw(server.id() as i32), Signal::SIGHUP).unwrap();
        server.line_with("made for this run and stays");
    }
    assert!(TcpStream::connect(address).is_ok());
    end(server);
}

#[test]
fn options_stand_in_a_file_and_are_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("serve.toml");
    let base = format!("[serve]\nroot = '{}'\nlisten = '127.0.0.1:0'\n", dir.path().display());
    fs::write(&file, &base).unwrap();
    let server = Process::start(&["serve", "--config", file.to_str().unwrap()]);
    let address = server.address_after("HTTP/3 on UDP ");
    fs::write(&file, format!("{base}drain-time = 1\nmax-connections = 7\n")).unwrap();
    kill(Pid::from_raw(server.id() as i32), Signal::SIGHUP).unwrap();
    let told = server.line_with("read the options again");
    assert!(told.ends_with("drain-time changed"), "{told}");
    server.line_with("`max-connections` cannot change while it runs");
    assert!(TcpStream::connect(address).is_ok());
    end(server);
}

/// A certificate and its key, in files.
fn write_certificate(dir: &std::path::Path) -> [String; 2] {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let pems =
        [("CERTIFICATE", identity.certificate().to_vec()), ("PRIVATE KEY", identity.to_pkcs8_der().to_vec())];
    pems.map(|(kind, der)| {
        let file = dir.join(kind);
        let text = format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der));
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    })
}

/// It may have to be replaced because somebody has its key: nobody goes on from it.
#[tokio::test]
async fn who_comes_again_sees_the_new_certificate() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "here").unwrap();
    let [certificate, key] = write_certificate(dir.path());
    let root = dir.path().to_str().unwrap();
    let (cert, key) = (format!("--cert={certificate}"), format!("--key={key}"));
    let server =
        Process::start(&["serve", "--root", root, "--listen=127.0.0.1:0", &cert, &key, "--early-data"]);
    let address = server.address_after("HTTP/3 on UDP ");
    let tls = Arc::new(trusting("http/1.1"));
    let by_tcp = || {
        let mut client = connect_with(address, tls.clone());
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let _ = client.read_to_end(&mut Vec::new());
        client.conn.handshake_kind().unwrap()
    };
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let config = ClientConfig::with_tls(trusting("h3")).alpn([b"h3"]).early_data(true);
    // Whether its early data is taken, once there are tickets; they come in twos.
    let by_quic = async || loop {
        match endpoint.connect_with(&config, address, "localhost").unwrap().into_0rtt() {
            Ok((_connection, accepted)) => return accepted.await,
            Err(connecting) => _ = connecting.await.unwrap().accept_uni().await.unwrap(),
        }
    };
    assert_eq!([by_tcp(), by_tcp()], [HandshakeKind::Full, HandshakeKind::Resumed]);
    server.hang_up();
    server.line_with("read the certificate again");
    assert_eq!(by_tcp(), HandshakeKind::Resumed, "it is the same");
    assert!(by_quic().await);
    write_certificate(dir.path());
    server.hang_up();
    server.line_with("read the certificate again");
    assert_eq!([by_tcp(), by_tcp()], [HandshakeKind::Full, HandshakeKind::Resumed]);
    assert!(!by_quic().await);
    end(server);
}

/// As `logrotate` does it.
#[test]
fn a_hangup_opens_the_access_log_again() {
    let dir = tempfile::tempdir().unwrap();
    let (root, log, moved) = (dir.path(), dir.path().join("log"), dir.path().join("log.1"));
    let server = Process::start(&[
        "serve",
        "--root",
        root.to_str().unwrap(),
        "--listen=127.0.0.1:0",
        "--access-log",
        log.to_str().unwrap(),
    ]);
    server.address_after("HTTP/3 on UDP ");
    fs::rename(&log, &moved).unwrap();
    kill(Pid::from_raw(server.id() as i32), Signal::SIGHUP).unwrap();
    server.line_with("opened the access log again");
    assert!(log.exists());
    end(server);
}

/// A request whose answer never comes holds it up for `--drain-time`, unless somebody has no patience.
#[test]
fn ctrl_c_ends_it_at_once_and_so_does_a_second_signal() {
    for signals in [&[Signal::SIGINT][..], &[Signal::SIGTERM; 2], &[Signal::SIGTERM, Signal::SIGINT]] {
        let behind = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", behind.local_addr().unwrap());
        let server = Process::start(&["serve", "--proxy", &url, "--listen=127.0.0.1:0", "--drain-time=3600"]);
        let mut client = connect(server.address_after("HTTP/3 on UDP "));
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let _asked = behind.accept().unwrap();
        for (n, signal) in signals.iter().enumerate() {
            if n > 0 {
                server.line_with("requests may end within 3600s");
            }
            kill(Pid::from_raw(server.id() as i32), *signal).unwrap();
        }
        assert_eq!(server.wait(), Some(0), "{signals:?}");
    }
}

#[test]
fn what_belongs_together_is_asked_for() {
    for (args, wrong) in [
        (&["serve"][..], "there is nothing to serve"),
        (&["serve", "--root", "/tmp", "--cert", "chain.pem"], "one of them is missing"),
        (&["serve", "--proxy", "http://127.0.0.1:1", "--follow-symlinks"], "a server behind has none"),
        (
            &["serve", "--proxy", "http://127.0.0.1:1", "--hint=</a.css>; rel=preload"],
            "a server behind gives its own",
        ),
    ] {
        let process = Process::start(args);
        process.line_with(wrong);
        assert_eq!(process.wait(), Some(2), "{args:?}");
    }
}

/// Browsers whose connections wait for open files would seem to hang without a reason.
#[test]
fn a_shortage_of_open_files_is_told() {
    let root = tempfile::tempdir().unwrap();
    let args = ["serve", "--root", root.path().to_str().unwrap(), "--listen=127.0.0.1:0"];
    let server = Process::start_after("ulimit -n 64", &args);
    let address = server.address_after("HTTP/3 on UDP ");
    let _browsers: Vec<_> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
    server.line_with("browsers' connections wait for one of 64 open files");
    end(server);
}

/// The server behind is there, and is not to blame: caches and browsers may ask again.
#[test]
fn a_request_that_finds_no_open_file_for_the_server_behind_may_come_again() {
    let behind = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", behind.local_addr().unwrap());
    let server = Process::start_after("ulimit -n 64", &["serve", "--proxy", &url, "--listen=127.0.0.1:0"]);
    let address = server.address_after("HTTP/3 on UDP ");
    let mut client = connect(address);
    while client.conn.is_handshaking() {
        client.conn.complete_io(&mut client.sock).unwrap();
    }
    let _browsers: Vec<_> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
    server.line_with("browsers' connections wait");
    client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("retry-after: 1"), "{answer}");
    end(server);
}

/// A client by TLS and TCP.
fn connect(server: SocketAddr) -> StreamOwned<ClientConnection, TcpStream> {
    connect_with(server, Arc::new(trusting("http/1.1")))
}

fn connect_with(server: SocketAddr, tls: Arc<TlsConfig>) -> StreamOwned<ClientConnection, TcpStream> {
    let client = ClientConnection::new(tls, "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(client, TcpStream::connect(server).unwrap())
}

fn end(server: Process) {
    kill(Pid::from_raw(server.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(server.wait(), Some(0));
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut tcp = TcpStream::connect(address).unwrap();
    write!(tcp, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn what_it_does_is_shown() {
    let root = tempfile::tempdir().unwrap();
    let server = Process::start(&[
        "serve",
        "--root",
        root.path().to_str().unwrap(),
        "--listen=127.0.0.1:0",
        "--admin=127.0.0.1:0",
    ]);
    let admin = server.address_after("statistics on ");
    let metrics = get(admin, "/metrics");
    for line in [
        "mendpath_build_info{",
        "mendpath_web_connections{transport=\"quic\"} 0",
        "mendpath_web_connections{transport=\"tcp\"} 0",
        "mendpath_web_refused_total 0",
        "mendpath_packets_mended_total 0",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    assert!(get(admin, "/").contains("<!doctype html>"), "the page");
    assert!(get(admin, "/nowhere").starts_with("HTTP/1.1 404"));
    end(server);
}

#[test]
fn its_status_is_told() {
    let runtime = tempfile::tempdir().unwrap();
    let place = format!("export XDG_RUNTIME_DIR='{}'", runtime.path().display());
    let root = runtime.path().to_str().unwrap();
    let server = Process::start_after(&place, &["serve", "--root", root, "--listen=127.0.0.1:0"]);
    let address = server.address_after("HTTP/3 on UDP ");
    let socket = runtime.path().join(format!("mendpath/web-{}.sock", server.id()));
    let status = Process::start(&["status", &format!("--socket={}", socket.display())]);
    let told = status.line_with("server on");
    assert!(told.contains(&address.to_string()), "{told}");
    end(server);
    assert!(!socket.exists(), "it is left behind");
}
