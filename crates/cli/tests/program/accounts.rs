//! The server and `mendpath invite` are killed at any moment, while accounts change and bytes pass.
//! No account is lost, none comes back, and no usage that was written down is forgotten.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use mendpath_cli::accounts::{FLUSH, LOOK};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{process::Process, support::*};

/// What is known of an account from the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// A command said so.
    Active,
    /// A command said so.
    Revoked,
    /// Its command was killed too early.
    Never,
    /// The command that would have made it, or revoked it, was killed, and no other has been done
    /// since: what it wrote and did not announce may still come to light, or be overwritten.
    Perhaps { made: bool },
}

/// Random enough for moments and choices, and the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn invite(state: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    command.arg("invite").args(args).arg("--state").arg(state);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn invite_json(state: &Path, args: &[&str]) -> Value {
    let output = invite(state, args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs it, and kills it after so many microseconds, if it is not done by then. Whether it was done.
fn killed_after(mut command: Command, micros: u64) -> bool {
    let mut child = command.spawn().unwrap();
    let id = nix::unistd::Pid::from_raw(child.id() as i32);
    let (done, is_done) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let status = child.wait().unwrap();
        let _ = done.send(());
        status.success()
    });
    if is_done.recv_timeout(Duration::from_micros(micros)).is_err() {
        let _ = nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGKILL);
    }
    waiting.join().unwrap()
}

fn server(state: &Path) -> (Process, String) {
    let server = Process::start(&[
        "server",
        "--listen",
        "127.0.0.1:0",
        "--state",
        state.to_str().unwrap(),
        "--allow-private",
    ]);
    let invitation = server.line_with("mendpath://");
    (server, invitation)
}

#[test]
fn a_hundred_kills_while_accounts_change() {
    let state = tempfile::tempdir().unwrap();
    let state = state.path();
    let mut dice = Dice(1);
    let (mut running, _) = server(state);
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    // What a command takes on this machine at the moment, roughly.
    let mut span = 60_000.0;
    let (mut kills, mut round) = (0, 0);
    while kills < 100 {
        round += 1;
        let active: Vec<_> = known.iter().filter(|(_, known)| **known == Known::Active).collect();
        let revoking = !active.is_empty() && dice.roll(2) == 0;
        let (name, verb) = match revoking {
            true => (active[dice.roll(active.len() as u64) as usize].0.clone(), "revoke"),
            false => (format!("user{round}"), "add"),
        };
        // From before it opens the store until after it is done; every third may end by itself.
        let spared = round % 3 == 0;
        let micros = if spared { 60_000_000 } else { dice.roll(2 * span as u64) };
        let done = killed_after(invite(state, &[verb, &name]), micros);
        if !spared {
            span *= if done { 0.9 } else { 1.1 };
            kills += u32::from(!done);
        }
        let outcome = match (done, revoking) {
            (true, true) => Known::Revoked,
            (true, false) => Known::Active,
            (false, made) => Known::Perhaps { made },
        };
        known.insert(name, outcome);
        if round % 10 == 0 {
            running.kill();
            running = server(state).0;
        }
        check(&mut known, done, &invite_json(state, &["list", "--all", "--json"]));
    }
}

/// What was said is so; what may be so is known from now on if it is `settled`.
fn check(known: &mut BTreeMap<String, Known>, settled: bool, list: &Value) {
    let status = |name: &str| {
        let rows = list.as_array().unwrap().iter().filter(|row| row["name"] == name);
        let rows: Vec<_> = rows.map(|row| row["status"].as_str().unwrap()).collect();
        assert!(rows.len() <= 1, "{name} is there twice");
        rows.first().copied()
    };
    for (name, known) in known {
        *known = match (*known, status(name)) {
            (Known::Active, Some("active")) => Known::Active,
            (Known::Revoked, Some("revoked")) => Known::Revoked,
            (Known::Never, None) => Known::Never,
            (Known::Perhaps { made: true }, Some("active" | "revoked"))
            | (Known::Perhaps { made: false }, None | Some("active"))
                if !settled =>
            {
                *known
            }
            (Known::Perhaps { .. }, Some("active")) => Known::Active,
            (Known::Perhaps { made: true }, Some("revoked")) => Known::Revoked,
            (Known::Perhaps { made: false }, None) => Known::Never,
            (known, found) => panic!("{name} is {known:?}, but the list says {found:?}"),
        };
    }
    assert!(status("owner") == Some("active"));
}

/// Usage that `invite show` has told of survives the server; what it has not told of is younger than
/// 5 s.
#[tokio::test(flavor = "multi_thread")]
async fn usage_survives_its_server() {
    const { assert!(FLUSH.as_millis() + LOOK.as_millis() < 5_000) };
    within(async {
        let state = tempfile::tempdir().unwrap();
        let echo = echo_server().await;
        let mut passed = 0;
        for _ in 0..3 {
            let (server, invitation) = server(state.path());
            let forward = format!("127.0.0.1:0={echo}");
            let client = Process::start(&["client", &invitation, "--forward", &forward]);
            let mut tcp = TcpStream::connect(client.address_after("forwarding ")).await.unwrap();
            let mut heard = vec![0; 50_000];
            let (mut read, mut write) = tcp.split();
            let said = pattern(heard.len());
            let (said, _) = tokio::join!(write.write_all(&said), read.read_exact(&mut heard));
            said.unwrap();
            passed += 50_000;
            let used = || {
                let owner = invite_json(state.path(), &["show", "owner", "--json"]);
                (owner["up_bytes"].as_u64().unwrap(), owner["down_bytes"].as_u64().unwrap())
            };
            while used() < (passed, passed) {}
            server.kill();
            assert_eq!(used(), (passed, passed), "exactly what passed, once");
        }
    })
    .await;
}
