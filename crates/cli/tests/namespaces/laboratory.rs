//! `mendpath lab` with real programs: calls, loads of a page, and ends in its midst.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

/// Whether a lab can be made here; if not, the reason is said aloud.
fn has_lab() -> bool {
    if let Err(reason) = lab::available() {
        let _ = writeln!(std::io::stderr(), "skipped: {reason}");
        return false;
    }
    true
}

/// Runs a plan with this program, or says why it cannot be. It succeeds if anything was measured.
fn run(plan: &str, more: &[&str]) -> Option<Vec<Value>> {
    if !has_lab() {
        return None;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), plan).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    command.args(["lab", "run"]).arg(file.path()).args(["--json", "-"]).args(more);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    let rows = report["rows"].as_array().unwrap().clone();
    assert_eq!(output.status.success(), rows.iter().any(|row| row["error"].is_null()), "{said}");
    Some(rows)
}

/// How many frames are in time is the machine's affair as well, so only counts are looked at.
#[test]
fn calls_are_made_over_real_paths() {
    let plan = r#"
        title = "calls"
        contenders = ["mendpath:auto", "mendpath-copies", "mendpath-fec", "mendpath:none"]
        [[network]]
        paths = ["rate=10mbit,delay=20ms,loss=5%", "rate=10mbit,delay=20ms"]
        [[call]]
        time = "2s"
        quick_time = "2s"
        cuts = { path = 0, every = "800ms", time = "400ms" }
    "#;
    let Some(rows) = run(plan, &[]) else { return };
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert_eq!((&row["error"], &row["kind"]), (&Value::Null, &"call".into()), "{row}");
        let call = &row["call"];
        let count = |name: &str| call[name].as_u64().unwrap();
        // 50 frames of audio and 30 of video a second, and one of video that 33.333 ms leave room for.
        assert_eq!((count("frames"), count("audio")), (161, 100), "{call}");
        assert!(count("frames_in_time") <= 161 && count("while_cut") > 0, "{call}");
        assert_eq!(call["media_bytes"], rows[0]["call"]["media_bytes"], "everybody's frames are the same");
        let known = ["datagrams_in_time", "datagrams_mended", "datagrams_late"].map(count);
        assert_eq!(count("datagrams"), known.iter().sum::<u64>(), "{call}");
    }
    let sent = |row: usize| rows[row]["sent_ratio"].as_f64().unwrap();
    assert!(sent(1) > 1.8 && sent(3) < 1.5 && sent(2) > sent(3), "{} {} {}", sent(1), sent(2), sent(3));
}

/// Of one server by HTTP/3 and by HTTP/2, and of one that is not there.
#[test]
fn pages_are_loaded_in_a_browser() {
    let plan = r#"
        title = "page"
        contenders = ["mendpath-serve:auto", "mendpath-serve-tcp:cubic", "nobody"]
        [[network]]
        paths = ["rate=50mbit,delay=10ms"]
        [[page]]
        count = 1
    "#;
    let Some(rows) = run(plan, &["--browser", "/nowhere/chromium"]) else { return };
    for row in &rows {
        assert!(row["error"].as_str().unwrap().contains("there is no Chromium"), "{row}");
    }
    let Some(rows) = run(plan, &[]) else { return };
    if let Some(reason) = rows[0]["error"].as_str().filter(|reason| reason.starts_with("skipped")) {
        let _ = writeln!(std::io::stderr(), "{reason}");
        return;
    }
    for (row, protocol) in rows.iter().zip(["h3", "h2"]) {
        assert_eq!(
            (&row["error"], &row["count"], &row["failed"]),
            (&Value::Null, &1.into(), &0.into()),
            "{row}"
        );
        assert_eq!(row["loads"]["protocol"], protocol);
        // All of the page, with headers.
        assert!(row["loads"]["received_bytes"][0].as_u64() > row["payload_bytes"].as_u64(), "{row}");
    }
    assert!(rows[2]["error"].as_str().unwrap().contains("there is no adapter of this name"), "{}", rows[2]);
}

/// Starts `program` with a shell's `script` behind an emulated path, and reads the first line that the
/// script prints.
fn execute(program: &mut Command, script: &str) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let command = program.args(["lab", "exec", "--path", "delay=1ms", "--", "sh", "-c", script]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    (child, output, line.trim().to_owned())
}

/// A window that is closed ends the lab in good order; what a killed one leaves is ended by the next.
#[test]
fn nothing_is_left_of_a_lab_without_a_terminal_or_that_is_killed() {
    if !has_lab() {
        return;
    }
    // Whoever started this test under nohup has it ignore the signal, and what it starts as well.
    let lab = || {
        let mut lab = Command::new("env");
        lab.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_mendpath")]);
        lab
    };
    for (signal, code) in [(Signal::SIGTERM, Some(143)), (Signal::SIGHUP, Some(143)), (Signal::SIGKILL, None)]
    {
        // Two processes: that of the lab's command, and one in a session of its own.
        let (mut child, _output, left) =
            execute(&mut lab(), "setsid sleep 1000 > /dev/null & echo $!; sleep 1000");
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), code, "{signal}");
        if signal == Signal::SIGKILL {
            assert_eq!(execute(&mut lab(), "echo next").2, "next");
        }
        let namespace = std::fs::metadata(format!("/proc/{left}/ns/net"));
        assert!(namespace.is_err(), "{signal}: process {left} is still there");
    }
}

/// The exit code tells that somebody stopped it, and the folder that was made for its results goes.
#[test]
fn a_lab_that_is_stopped_publishes_nothing() {
    if !has_lab() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let [plan, begun, new] = ["plan.toml", "begun", "new"].map(|name| dir.path().join(name));
    let text = format!(
        r#"
        title = "nobody listens"
        contenders = ["endless"]
        [adapters.endless]
        about = "starts, and does nothing"
        install = "it is there"
        server = ["sh", "-c", "touch {}; exec sleep 1000"]
        client = ["sleep", "1000"]
        [[network]]
        paths = ["rate=10mbit"]
        [[fetch]]
        size = "1kB"
        count = 1
        "#,
        begun.display()
    );
    std::fs::write(&plan, text).unwrap();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    lab.args(["lab", "run"]).arg(&plan).args(["--publish", "--publish-to"]).arg(new.join("deep"));
    let mut lab = lab.stdout(Stdio::null()).spawn().unwrap();
    while !begun.exists() {
        assert_eq!(lab.try_wait().unwrap(), None, "it ended by itself");
        std::thread::yield_now();
    }
    assert!(new.exists());
    kill(Pid::from_raw(lab.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(lab.wait().unwrap().code(), Some(130));
    assert!(!new.exists());
}

/// Ctrl-C is typed for the command, which may say its last words and end as it likes.
#[test]
fn what_is_typed_is_for_the_command() {
    if !has_lab() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    let words = "trap 'sleep 0.5; echo in all 3; exit 5' INT; echo ready; while :; do sleep 0.1; done";
    let typed = format!(
        "exec {} lab exec --path delay=1ms -- sh {}",
        env!("CARGO_BIN_EXE_mendpath"),
        script.display()
    );
    std::fs::write(&script, words).unwrap();
    let mut terminal = Command::new("script");
    let terminal = terminal.args(["-qec", &typed, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = terminal.spawn() else {
        let _ = writeln!(std::io::stderr(), "skipped: there is no `script` of util-linux");
        return;
    };
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("ready")));
    let mut keyboard = child.stdin.take().unwrap();
    keyboard.write_all(b"\x03").unwrap();
    keyboard.flush().unwrap();
    assert!(lines.any(|line| line.contains("in all 3")), "it was ended before its last words");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}
