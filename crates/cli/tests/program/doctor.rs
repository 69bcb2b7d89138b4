//! `mendpath doctor` finds what is wrong, and nothing where all is well.

use std::{
    fs,
    net::UdpSocket,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::process::Process;

/// A place for everything, and a server in it.
struct Bed {
    dir: tempfile::TempDir,
}

impl Bed {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn server(&self) -> (Process, String) {
        let place = format!("export XDG_RUNTIME_DIR={}", self.dir.path().display());
        let state = self.state();
        let server = Process::start_after(
            &place,
            &["server", "--listen=127.0.0.1:0", "--state", state.to_str().unwrap()],
        );
        let invitation = server.line_with("mendpath://");
        (server, invitation)
    }

    /// Runs the doctor after the shell's `preparation`.
    fn doctor_after(&self, preparation: &str, arguments: &[&str]) -> Report {
        let script = format!("{preparation} exec \"$0\" doctor --json \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_mendpath")]).args(arguments);
        command.env("XDG_RUNTIME_DIR", self.dir.path()).env_remove("MENDPATH_INVITATION");
        let output = command.output().unwrap();
        let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{wrong}"));
        assert_eq!(output.status.code(), Some(i32::from(report["problems"] != 0)), "{report}");
        Report(report)
    }

    fn doctor(&self, arguments: &[&str]) -> Report {
        self.doctor_after("", arguments)
    }

    fn of_server(&self, arguments: &[&str]) -> Report {
        let state = format!("--state={}", self.state().display());
        self.doctor(&[&["--server", &state], arguments].concat())
    }
}

/// What it has found.
struct Report(Value);

impl Report {
    /// The only finding about `check`, as one line.
    #[track_caller]
    fn of(&self, check: &str) -> String {
        let all = self.0["checks"].as_array().unwrap();
        let found: Vec<&Value> = all.iter().filter(|finding| finding["check"] == check).collect();
        let [finding] = found.as_slice() else { panic!("not one `{check}`: {}", self.0) };
        let part = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
        format!("{}: {}. {}", part("verdict"), part("found"), part("cure"))
    }
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_client_that_is_let_in_has_no_problem() {
    let bed = Bed::new();
    let (_server, invitation) = bed.server();
    let report = bed.doctor(&[&invitation]);
    assert!(report.of("path lo (127.0.0.1)").starts_with("ok: the server answers, handshake in "));
    assert_eq!(report.of("packets lo (127.0.0.1)"), "ok: packets of 1450 bytes pass. ");
    assert_eq!(report.of("admission"), "ok: the server takes the invitation. ");
    assert_eq!(report.0["problems"], 0, "{}", report.0);

    let few = bed.doctor_after("ulimit -n 100;", &[&invitation]);
    assert!(few.of("open files").starts_with("problem: 100 at a time"), "{}", few.0);

    // The same from a file of options, on a terminal or not.
    let (file, config) = (bed.dir.path().join("invitation"), bed.dir.path().join("client.toml"));
    fs::write(&file, &invitation).unwrap();
    allow(&file, 0o600);
    fs::write(&config, format!("[client]\ninvitation-file = '{}'\n", file.display())).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_mendpath"))
        .args(["doctor", "--config", config.to_str().unwrap()])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\nok       admission ") && text.contains("\n\n0 problems, "), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn what_is_wrong_with_the_way_to_a_server_is_named() {
    let bed = Bed::new();
    let (server, invitation) = bed.server();
    let state = bed.state();
    let office = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_mendpath"))
            .args(words)
            .args(["--state", state.to_str().unwrap()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let alice = office(&["invite", "add", "alice"]);
    office(&["invite", "revoke", "alice"]);
    let told = bed.doctor(&[&alice]).of("admission");
    assert_eq!(told, "problem: its operator revoked the invitation. Ask its operator for a new invitation");

    // Another key than the one that is named.
    let (place, pin) = invitation.split_once("?pin=").unwrap();
    let first = if pin.starts_with('A') { 'B' } else { 'A' };
    let other = format!("{place}?pin={first}{}", &pin[1..]);
    let told = bed.doctor(&[&other]);
    assert!(told.of("path lo (127.0.0.1)").contains("does not hold the key"), "{}", told.0);
    assert!(told.of("packets lo (127.0.0.1)").starts_with("ok"), "the server is there");

    server.kill();
    let told = bed.doctor(&[&invitation]);
    assert!(told.of("packets lo (127.0.0.1)").contains("nothing listens on that port"), "{}", told.0);
    let named = invitation.replace("@127.0.0.1", "@vps.mendpath.invalid");
    assert!(bed.doctor(&[&named]).of("name").starts_with("problem: "));
    let told = bed.doctor(&["mendpath://nonsense"]).of("invitation");
    assert!(told.starts_with("problem: ") && told.contains("Copy the whole line"), "{told}");
    let told = bed.doctor(&["--invitation-file=/nowhere"]).of("invitation");
    assert!(told.contains("no such file"), "{told}");
}

#[test]
fn without_an_invitation_the_server_of_a_running_client_is_tried() {
    let bed = Bed::new();
    let told = bed.doctor(&[]).of("invitation");
    // Root sees clients of other tests, too.
    let others = told.contains("a running client's server is");
    assert!(told.starts_with("warning: there is none, and no client runs") || others, "{told}");
    let (_server, invitation) = bed.server();
    let place = format!("export XDG_RUNTIME_DIR={}", bed.dir.path().display());
    let client = Process::start_after(&place, &["client", &invitation, "--socks5=127.0.0.1:0"]);
    client.line_with("SOCKS5 proxy on");
    let report = bed.doctor(&[]);
    assert!(report.of("invitation").contains("a running client's server is 127.0.0.1:"), "{}", report.0);
    assert!(report.of("packets lo (127.0.0.1)").starts_with("ok"));
}

#[test]
fn a_server_is_examined_before_it_runs_and_while_it_does() {
    let bed = Bed::new();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let fresh = bed.of_server(&[&format!("--listen={free}")]);
    assert!(fresh.of("state").contains("is made at the first start"));
    assert!(fresh.of("port").contains("is free"), "{}", fresh.0);
    assert!(!bed.state().exists(), "it makes nothing");

    let (server, invitation) = bed.server();
    let port = invitation.split(['@', '?']).nth(1).unwrap().to_owned();
    let listen = format!("--listen={port}");
    let report = bed.of_server(&[&listen]);
    assert!(report.of("port").contains(&format!("a server listens on UDP {port} (")), "{}", report.0);
    assert!(report.of("port").ends_with("and answers. "), "{}", report.0);
    assert!(report.of("accounts").starts_with("ok: 1, of which 0 "), "{}", report.0);
    assert!(report.of("address").contains("a loopback address, which only this network reaches"));
    assert!(report.of("private").starts_with("ok: clients reach public addresses alone"));
    // Where its socket cannot be asked, its port can.
    let elsewhere = tempfile::tempdir().unwrap();
    let preparation = format!("export XDG_RUNTIME_DIR={};", elsewhere.path().display());
    let state = format!("--state={}", bed.state().display());
    let report = bed.doctor_after(&preparation, &["--server", &state, &listen]);
    let told = report.of("port");
    assert!(
        told.starts_with("ok: a QUIC server of another user answers") || told.contains("a server listens"),
        "{told}"
    );
    server.kill();

    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let listen = format!("--listen={}", taken.local_addr().unwrap());
    let told = bed.of_server(&[&listen]).of("port");
    assert!(told.starts_with("problem: another program uses UDP 127.0.0.1:"), "{told}");
    let told = bed.of_server(&["--listen=198.51.100.77:4433"]).of("port");
    assert!(told.contains("this machine does not have that address"), "{told}");
}

#[test]
fn what_is_wrong_with_a_servers_files_is_named() {
    let bed = Bed::new();
    let (server, _) = bed.server();
    server.kill();
    let told = |check: &str| bed.of_server(&["--listen=127.0.0.1:0"]).of(check);
    allow(&bed.state().join("token-secret"), 0o644);
    assert!(told("state").contains("opens it to other users. Run: chmod 600 "), "{}", told("state"));
    allow(&bed.state().join("token-secret"), 0o600);
    allow(&bed.state(), 0o777);
    assert!(told("state").contains("Run: chmod 700 "), "{}", told("state"));
    allow(&bed.state(), 0o700);
    assert!(told("state").starts_with("ok: "), "{}", told("state"));
    fs::write(bed.state().join("server-key.pem"), "nonsense").unwrap();
    assert!(told("state").contains("it holds no private key"), "{}", told("state"));
    allow(&bed.state().join("accounts.db"), 0o644);
    assert!(told("accounts").contains("chmod 600"), "{}", told("accounts"));

    let config = bed.dir.path().join("server.toml");
    let with = format!("--config={}", config.display());
    fs::write(&config, "[server]\nallow-private = true\n").unwrap();
    assert!(bed.of_server(&[&with]).of("private").starts_with("warning: clients reach this machine"));
    // The package's own file would not count beside this.
    let by_variable = format!("export MENDPATH_CONFIG={};", config.display());
    let state = format!("--state={}", bed.state().display());
    let told = bed.doctor_after(&by_variable, &["--server", &state]).of("options");
    assert_eq!(told, format!("ok: read from {}. ", config.display()));
    fs::write(&config, "[server]\n\nmax-clients = 0\n").unwrap();
    let told = bed.of_server(&[&with]).of("options");
    assert!(told.contains("server.toml, line 3") && told.contains("0 is not in 1..=100000"), "{told}");
}

/// What it finds stands in the report; what a server says of itself at its start does not belong there.
#[test]
fn a_server_that_has_never_run_is_examined_without_a_word_beside_the_report() {
    let bed = Bed::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    command.args(["doctor", "--server", "--listen=0.0.0.0:0", "--state"]).arg(bed.state());
    command.env("XDG_RUNTIME_DIR", bed.dir.path());
    let output = command.output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("address"));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
