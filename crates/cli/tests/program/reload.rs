//! Options of a running server and client are read again when they are told to.

use std::{
    fs::{self, Permissions},
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::process::Process;

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

#[test]
fn what_can_change_does_what_cannot_is_named_and_a_mistake_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (file, state) = (dir.path().join("server.toml"), dir.path().join("state"));
    let base = format!("[server]\nlisten = '127.0.0.1:0'\nstate = '{}'\n", state.display());
    write(&file, &base);
    let server = Process::start(&["server", "--config", file.to_str().unwrap()]);
    server.line_with("mendpath://");

    write(
        &file,
        &format!("{base}allow-private = true\nadvertise = 'a.example'\nadmin = '127.0.0.1:0'\nverbose = 1\n"),
    );
    server.hang_up();
    let told = server.line_with("read the options again");
    assert!(told.ends_with("allow-private, verbose changed"), "{told}");
    for key in ["advertise", "admin"] {
        server.line_with(&format!("`{key}` cannot change while it runs"));
    }

    write(&file, &format!("{base}allow-private = 3\n"));
    server.hang_up();
    let told = server.line_with("server.toml, line 4");
    assert!(told.contains("`server.allow-private`: it is 3") && told.contains("stay as they were"), "{told}");

    write(&file, &base);
    server.hang_up();
    let told = server.line_with("read the options again");
    assert!(told.ends_with("allow-private, verbose changed"), "{told}");
}

#[test]
fn a_server_takes_as_many_clients_as_it_is_told_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (file, state) = (dir.path().join("server.toml"), dir.path().join("state"));
    let base = format!("[server]\nlisten = '127.0.0.1:0'\nstate = '{}'\n", state.display());
    write(&file, &format!("{base}max-clients = 1\n"));
    let server = Process::start(&["server", "--config", file.to_str().unwrap()]);
    let invitation = server.line_with("mendpath://");
    let client = || Process::start(&["client", &invitation, "--path=127.0.0.1", "--socks5=127.0.0.1:0"]);
    let first = client();
    first.line_with("SOCKS5 proxy on");
    client().line_with("it has as many clients as it takes");

    let changed = "max-clients = 2\nmax-streams = 7\nrecovery = 'fuso'\ncongestion = 'cubic'\n";
    write(&file, &format!("{base}{changed}repair-symbols = 2\nscheduler = 'ecf'\nhide-names = true\n"));
    server.hang_up();
    let told = server.line_with("read the options again");
    for key in
        ["max-clients", "max-streams", "recovery", "repair-symbols", "congestion", "scheduler", "hide-names"]
    {
        assert!(told.contains(key), "{key}: {told}");
    }
    let second = client();
    second.line_with("SOCKS5 proxy on");
    client().line_with("it has as many clients as it takes");
}

#[test]
fn a_client_takes_over_what_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let (file, state) = (dir.path().join("client.toml"), dir.path().join("state"));
    let server = Process::start(&["server", "--listen=127.0.0.1:0", "--state", state.to_str().unwrap()]);
    let invitation = server.line_with("mendpath://");
    let base = "[client]\npath = ['127.0.0.1']\nsocks5 = '127.0.0.1:0'\n";
    write(&file, base);
    let client = Process::start(&["client", &invitation, "--config", file.to_str().unwrap()]);
    client.line_with("SOCKS5 proxy on");
    let changed = "answer-early = 'never'\nhide-names = true\nrecovery = 'none'\nscheduler = 'ecf'\n";
    write(&file, &format!("{base}{changed}repair-symbols = 2\ngive-up = 60\n"));
    client.hang_up();
    let told = client.line_with("read the options again");
    for key in ["answer-early", "hide-names", "recovery", "repair-symbols", "scheduler"] {
        assert!(told.contains(key), "{key}: {told}");
    }
    client.line_with("`give-up` cannot change while it runs");
}

/// Whoever changes a password wants the old one to open nothing any more.
#[test]
fn a_client_takes_over_the_password_that_its_file_has_by_now() {
    let dir = tempfile::tempdir().unwrap();
    let [file, state, password] = ["client.toml", "state", "password"].map(|name| dir.path().join(name));
    let server = Process::start(&["server", "--listen=127.0.0.1:0", "--state", state.to_str().unwrap()]);
    let invitation = server.line_with("mendpath://");
    write(&password, "alice:first");
    fs::set_permissions(&password, Permissions::from_mode(0o600)).unwrap();
    let named = format!("proxy-auth-file = '{}'\n", password.display());
    write(&file, &format!("[client]\npath = ['127.0.0.1']\nhttp = '127.0.0.1:0'\n{named}"));
    let client = Process::start(&["client", &invitation, "--config", file.to_str().unwrap()]);
    let proxy = client.address_after("HTTP proxy on ");
    let opens = |password: &str| {
        let mut tcp = TcpStream::connect(proxy).unwrap();
        // The proxy answers this itself.
        let request = "OPTIONS http://a.example/ HTTP/1.1\r\nMax-Forwards: 0\r\nConnection: close";
        let shown = STANDARD.encode(password);
        let request = format!("{request}\r\nProxy-Authorization: Basic {shown}\r\n\r\n");
        tcp.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        tcp.read_to_string(&mut answer).unwrap();
        answer.starts_with("HTTP/1.1 200")
    };
    assert!(opens("alice:first") && !opens("alice:second"));
    write(&password, "alice:second");
    client.hang_up();
    client.line_with("the proxy's password is another one now");
    assert!(opens("alice:second") && !opens("alice:first"));
    fs::set_permissions(&password, Permissions::from_mode(0o644)).unwrap();
    client.hang_up();
    let told = client.line_with("stays as it was");
    assert!(told.contains("chmod 600"), "{told}");
    assert!(opens("alice:second"));
}
