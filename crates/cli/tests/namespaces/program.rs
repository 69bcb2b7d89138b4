//! `mendpath server` and `mendpath client` as processes.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::SocketAddr,
    process::Child,
    time::Duration,
};

use super::bed::{Bed, Family, PATIENCE, pause};

/// A running program; killed when this is dropped.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `mendpath server`.
pub struct Server {
    program: Program,
    arguments: Vec<String>,
    invitation: String,
    _state: tempfile::TempDir,
}

impl Server {
    /// Starts it on `listen` and reads its invitation.
    pub fn start(bed: &Bed, listen: &str) -> Self {
        Self::start_with(bed, listen, &[])
    }

    /// The same with more arguments.
    pub fn start_with(bed: &Bed, listen: &str, more: &[&str]) -> Self {
        let state = tempfile::tempdir().unwrap();
        let place = if bed.family == Family::V6 { "[fd99::1]:4433" } else { "10.99.0.1:4433" };
        let arguments = ["server", "--allow-private", "--listen", listen, "--advertise", place, "--state"];
        let mut arguments = arguments.map(str::to_owned).to_vec();
        arguments.push(state.path().display().to_string());
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        let (program, invitation) = Self::spawn(bed, &arguments);
        Self { program, arguments, invitation, _state: state }
    }

    fn spawn(bed: &Bed, arguments: &[String]) -> (Program, String) {
        let mut program = Program(bed.start(true, arguments));
        let mut stdout = BufReader::new(program.0.stdout.take().unwrap());
        drain(program.0.stderr.take().unwrap());
        let mut invitation = String::new();
        stdout.read_line(&mut invitation).unwrap();
        assert!(invitation.starts_with("mendpath://"), "{invitation}");
        (program, invitation.trim().to_owned())
    }

    /// Kills it, and starts it again with the same keys.
    pub fn kill_and_restart(&mut self, bed: &Bed) {
        self.program.0.kill().unwrap();
        self.program.0.wait().unwrap();
        self.program = Self::spawn(bed, &self.arguments).0;
    }

    /// The same without one argument, or with one more.
    pub fn restart_with(&mut self, bed: &Bed, argument: &str, is_there: bool) {
        self.arguments.retain(|other| other != argument);
        if is_there {
            self.arguments.push(argument.to_owned());
        }
        self.kill_and_restart(bed);
    }

    /// Stops it in good order.
    pub fn stop(mut self) {
        let pid = nix::unistd::Pid::from_raw(self.program.0.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        assert!(self.program.0.wait().unwrap().success());
    }

    /// Its invitation.
    pub fn invitation(&self) -> &str {
        &self.invitation
    }

    /// The invitation with another place in it.
    pub fn invitation_for(&self, place: &str) -> String {
        let (token, rest) = self.invitation.split_once('@').unwrap();
        let (_, pin) = rest.split_once('?').unwrap();
        format!("{token}@{place}?{pin}")
    }

    /// The `nth` client, over the `nth` path.
    pub fn client(&self, bed: &Bed, invitation: &str, nth: u16) -> Client {
        Client::start(bed, invitation, &[&format!("path{nth}")], nth)
    }
}

/// `mendpath client`.
pub struct Client {
    _program: Program,
    /// Its SOCKS5 proxy.
    pub socks5: SocketAddr,
    admin: SocketAddr,
}

impl Client {
    fn start(bed: &Bed, invitation: &str, paths: &[&str], nth: u16) -> Self {
        let [socks5, admin] = [1_080, 9_000].map(|port| SocketAddr::from(([127, 0, 0, 1], port + nth)));
        let mut arguments = client_arguments(invitation, paths);
        arguments.extend([format!("--socks5={socks5}"), format!("--admin={admin}")]);
        let mut program = Program(bed.start(false, &arguments));
        for output in [
            program.0.stdout.take().map(|out| Box::new(out) as Box<dyn std::io::Read + Send>),
            program.0.stderr.take().map(|out| Box::new(out) as Box<dyn std::io::Read + Send>),
        ] {
            drain(output.unwrap());
        }
        Self { _program: program, socks5, admin }
    }

    /// What the client says about itself.
    fn admin(&self, bed: &Bed, page: &str) -> serde_json::Value {
        let mut tcp = bed.connect(self.admin);
        let request = format!("GET {page} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.admin);
        tcp.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        tcp.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

/// Both ends.
pub struct Pair {
    _server: Server,
    /// The client.
    pub client: Client,
}

impl Pair {
    /// Starts both and waits until all these paths are at work.
    pub fn start(bed: &Bed, paths: &[&str]) -> Self {
        let pair = Self::start_without_waiting(bed, paths);
        pair.wait_for_paths(bed, paths.len());
        pair
    }

    /// Starts both.
    pub fn start_without_waiting(bed: &Bed, paths: &[&str]) -> Self {
        let listen = if bed.family == Family::V4 { "0.0.0.0:4433" } else { "[::]:4433" };
        let server = Server::start(bed, listen);
        let client = Client::start(bed, &server.invitation, paths, 0);
        Self { _server: server, client }
    }

    /// Waits until so many paths are active.
    pub fn wait_for_paths(&self, bed: &Bed, count: usize) {
        let mut seen = serde_json::Value::Null;
        for _ in 0..PATIENCE.as_millis() / 50 {
            seen = self.client.admin(bed, "/paths");
            let active = |path: &&serde_json::Value| path["state"] == "active";
            if seen.as_array().is_some_and(|paths| paths.iter().filter(active).count() == count) {
                return;
            }
            pause(Duration::from_millis(50));
        }
        panic!("there should be {count} paths: {seen}");
    }

    /// How often the client had to connect anew.
    pub fn reconnects(&self, bed: &Bed) -> u64 {
        self.client.admin(bed, "/stats")["reconnects"].as_u64().unwrap()
    }
}

/// Runs a client that does not get through; its exit code, and what it said.
pub fn client_that_fails(bed: &Bed, paths: &[&str]) -> (Option<i32>, String) {
    let server = Server::start(bed, "0.0.0.0:4433");
    let client = bed.start(false, &client_arguments(&server.invitation, paths));
    let output = client.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn client_arguments(invitation: &str, paths: &[&str]) -> Vec<String> {
    let mut arguments = vec!["client".to_owned(), invitation.to_owned()];
    arguments.extend(paths.iter().map(|path| format!("--path={path}")));
    arguments
}

/// Reads what a program says, so that it never waits for that; shows it when a test fails.
fn drain(mut output: impl std::io::Read + Send + 'static) {
    std::thread::spawn(move || {
        let mut said = String::new();
        let _ = output.read_to_string(&mut said);
        let _ = write!(std::io::stderr(), "{said}");
    });
}
