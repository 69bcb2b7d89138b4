//! Options of a running server are read again when it is told to.

use std::{fs, path::Path};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

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
    let hang_up = || kill(Pid::from_raw(server.id() as i32), Signal::SIGHUP).unwrap();

    write(&file, &format!("{base}allow-private = true\nmax-clients = 7\nverbose = 1\n"));
    hang_up();
    let told = server.line_with("read the options again");
    assert!(told.contains("allow-private, verbose changed; not while it runs: max-clients"), "{told}");

    write(&file, &format!("{base}allow-private = 3\n"));
    hang_up();
    let told = server.line_with("server.toml, line 4");
    assert!(told.contains("`server.allow-private`: it is 3") && told.contains("stay as they were"), "{told}");

    write(&file, &base);
    hang_up();
    let told = server.line_with("read the options again");
    assert!(told.contains("allow-private, verbose changed; not while it runs: max-clients"), "{told}");
}
