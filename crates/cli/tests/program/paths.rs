//! `mendpath path` changes a running client.

use std::process::Command;

use serde_json::Value;

use crate::process::Process;

/// Both ends with two paths, and the place of their sockets.
struct Pair {
    runtime: tempfile::TempDir,
    _server: Process,
    client: Process,
}

impl Pair {
    fn start() -> Self {
        Self::with(&[])
    }

    /// With more options for the client.
    fn with(more: &[&str]) -> Self {
        let runtime = tempfile::tempdir().unwrap();
        let place = format!("export XDG_RUNTIME_DIR={}", runtime.path().display());
        let state = runtime.path().join("state");
        let state = state.to_str().unwrap();
        let server = Process::start_after(
            &place,
            &["server", "--listen=127.0.0.1:0", "--allow-private", "--state", state],
        );
        let invitation = server.line_with("mendpath://");
        let paths = ["--path=127.0.0.1", "--path=127.0.0.2", "--socks5=127.0.0.1:0"];
        let client =
            Process::start_after(&place, &[&["client", &invitation], paths.as_slice(), more].concat());
        client.line_with("path 127.0.0.2 is open");
        Self { runtime, _server: server, client }
    }

    /// Says it to the client.
    fn say(&self, arguments: &[&str]) -> (bool, String) {
        self.say_to("client", arguments)
    }

    /// Says it to one of them by its socket: root would find those of other tests, too.
    fn say_to(&self, role: &str, arguments: &[&str]) -> (bool, String) {
        let mut sockets = std::fs::read_dir(self.runtime.path().join("mendpath")).unwrap();
        let of_role = |name: &std::ffi::OsString| name.to_str().is_some_and(|name| name.starts_with(role));
        let found =
            sockets.find_map(|entry| Some(entry.unwrap()).filter(|entry| of_role(&entry.file_name())));
        let mut command = Command::new(env!("CARGO_BIN_EXE_mendpath"));
        command.arg(arguments[0]).arg("--socket").arg(found.unwrap().path()).args(&arguments[1..]);
        let output = command.env("XDG_RUNTIME_DIR", self.runtime.path()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    /// The second path as both sides show it, once `done` says of either that it is as it should be.
    fn until(&self, done: impl Fn(&Value) -> bool) {
        for side in ["client", "server"] {
            let mut seen = String::new();
            let is_so = |text: &str| {
                let snapshot: Value = serde_json::from_str(text.lines().next().unwrap_or("null")).unwrap();
                let paths = snapshot["paths"].as_array().cloned().unwrap_or_default();
                paths.iter().any(|path| path["id"] == 1 && done(path))
            };
            // Snapshots are up to half a second old, and the server hears of it a little later.
            let so = (0..200).any(|_| {
                seen = self.say_to(side, &["status", "--json"]).1;
                is_so(&seen)
            });
            assert!(so, "{side}: {seen}");
        }
    }
}

#[test]
fn orders_hold_on_both_sides_until_they_are_taken_back() {
    let pair = Pair::start();
    let told = |arguments: &[&str]| {
        let (fine, text) = pair.say(arguments);
        assert!(fine, "{arguments:?}: {text}");
        text
    };
    assert_eq!(told(&["path", "pause", "127.0.0.2"]), "127.0.0.2: done\n");
    pair.until(|path| path["state"] == "paused");
    let (fine, text) = pair.say(&["path", "pause", "127.0.0.1"]);
    assert!(!fine && text.contains("nothing would be left to send on"), "{text}");

    told(&["path", "resume", "127.0.0.2"]);
    told(&["path", "cap", "127.0.0.2", "5mbit"]);
    pair.until(|path| path["state"] == "active" && path["cap_bits_per_second"] == 5_000_000);
    assert!(pair.say(&["status"]).1.contains("active, at most 5.00 Mbit/s each way"));
    told(&["path", "metered", "127.0.0.2"]);
    pair.until(|path| path["state"] == "backup" && path["metered"] == true);
    told(&["path", "resume", "127.0.0.2"]);
    told(&["path", "cap", "127.0.0.2", "none"]);
    told(&["path", "prefer", "127.0.0.1"]);
    pair.until(|path| path["state"] == "backup" && path.get("cap_bits_per_second").is_none());
    let (fine, text) = pair.say(&["path", "cap", "wlan7", "5mbit"]);
    assert!(!fine && text.contains("no path `wlan7`; there are: 127.0.0.1, 127.0.0.2"), "{text}");
}

#[test]
fn options_say_the_same_from_the_start_and_when_they_are_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("client.toml");
    std::fs::write(&file, "[client]\nmetered = ['127.0.0.2']\ncap = ['127.0.0.2=5mbit']\n").unwrap();
    let pair = Pair::with(&["--config", file.to_str().unwrap()]);
    pair.until(|path| path["state"] == "backup" && path["metered"] == true);
    pair.until(|path| path["cap_bits_per_second"] == 5_000_000);

    std::fs::write(&file, "[client]\nbackup = ['127.0.0.2']\n").unwrap();
    pair.client.hang_up();
    let told = pair.client.line_with("read the options again");
    assert!(["metered", "backup", "cap"].iter().all(|key| told.contains(key)), "{told}");
    pair.until(|path| path["state"] == "backup" && path["metered"] != true);
    pair.until(|path| path.get("cap_bits_per_second").is_none());
}
