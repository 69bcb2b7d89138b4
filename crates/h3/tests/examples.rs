//! The examples do what they say: the client against both servers.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// `cargo test` builds the examples beside the tests.
fn program(example: &str) -> Command {
    let own = std::env::current_exe().unwrap();
    let directory: PathBuf = own.ancestors().nth(2).unwrap().join("examples");
    let program = directory.join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
    assert!(program.exists(), "build them: cargo build -p mendpath-h3 --examples");
    Command::new(program)
}

/// A server, until this is dropped.
struct Server(Child);

impl Server {
    fn start(example: &str) -> Self {
        Self(program(example).arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap())
    }

    /// The address and the pin, which it says first.
    fn announced(&mut self) -> (String, String) {
        let mut line = String::new();
        BufReader::new(self.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (address, pin) = line.trim_end().split_once(' ').expect("an address and a pin");
        (address.to_owned(), pin.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the client gets from a server for a path.
fn fetch(server: &str, path: &str) -> String {
    let mut server = Server::start(server);
    let (address, pin) = server.announced();
    let got = program("client").args([&*address, &*pin, path]).output().unwrap();
    let said = String::from_utf8_lossy(&got.stderr);
    assert!(got.status.success() && said.contains("200 OK"), "{said}");
    String::from_utf8(got.stdout).unwrap()
}

#[test]
fn a_service_is_asked_by_the_client() {
    assert_eq!(fetch("server", "/somewhere"), "You asked for /somewhere.\n");
}

#[test]
fn a_router_of_axum_is_asked_by_the_client() {
    assert_eq!(fetch("axum", "/hello/Ada"), "Hello, Ada.\n");
}
