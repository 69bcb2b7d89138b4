//! The binary itself: exit codes, what goes to stdout, and the demonstration's JSON.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::{fs::PermissionsExt as _, net::UnixListener},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

fn mendpath(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mendpath")).args(args).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_demonstration_writes_json_and_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let (json, html) = (dir.path().join("demo.json"), dir.path().join("demo.html"));
    let args = ["demo", "--quick", "--count", "3", "--size", "30kB", "--json"];
    let output = mendpath(&[&args[..], &[json.to_str().unwrap(), "--html", html.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "quiet in a pipe");
    let last = text(&output.stdout).lines().last().unwrap().to_owned();

    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(report["schema"], "mendpath-demo/1");
    assert_eq!(report["summary"], last.as_str(), "the last line says what the reader saw");
    assert_eq!(report["scenario"]["paths"].as_array().unwrap().len(), 2);
    let rows = report["rows"].as_array().unwrap();
    let kinds: Vec<_> =
        rows.iter().map(|row| (row["recovery"].as_str().unwrap(), row["paths"].as_u64().unwrap())).collect();
    assert_eq!(
        kinds,
        [("none", 1), ("none", 2), ("proactive", 2), ("fuso", 2), ("cofuso", 2), ("auto", 2), ("auto", 2)]
    );
    for row in rows {
        assert_eq!(row["fct_ms"].as_array().unwrap().len(), 3);
        for field in ["mean_ms", "p50_ms", "p99_ms", "max_ms", "goodput_mbps"] {
            assert!(row[field].as_f64().is_some_and(|value| value > 0.0), "{field} of {row}");
        }
        assert!(row["extra_bytes_ratio"].is_number() && row["name"].is_string());
        assert!(row["mended"].as_u64() <= row["lost"].as_u64(), "{row}");
    }
    let lossy: Vec<_> = rows.iter().map(|row| row["lossy"].as_bool().unwrap()).collect();
    assert_eq!(lossy, [true, true, true, true, true, true, false]);
    assert_eq!(rows[6]["lost"], 0);
    assert!(std::fs::read_to_string(html).unwrap().contains("</html>"));
}

#[test]
fn the_demonstration_in_virtual_time_prints_the_same_every_time() {
    let dir = tempfile::tempdir().unwrap();
    let svg = dir.path().join("demo.svg");
    let args = ["demo", "--virtual", "--count", "3", "--size", "30kB", "--svg", svg.to_str().unwrap()];
    let (first, again) = (mendpath(&args), mendpath(&args));
    assert!(first.status.success(), "{}", text(&first.stderr));
    let printed = text(&first.stdout);
    assert!(printed.contains("3 responses of 30.0 kB per row in virtual time"), "{printed}");
    assert_eq!(printed, text(&again.stdout));
    assert!(fs::read_to_string(svg).unwrap().starts_with("<svg"));
}

/// The digits are the same everywhere, so the README's are those.
#[test]
fn the_readme_shows_what_the_demonstration_prints() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let (_, table) = readme.split_once("```text\npaths ").expect("the demonstration's table");
    let (table, _) = table.split_once("\n```").unwrap();
    let output = text(&mendpath(&["demo", "--virtual"]).stdout);
    assert!(output.contains(table), "{output}");
}

#[test]
fn usage_errors_exit_with_2() {
    for args in [&["demo", "--path", "speed=1"][..], &["client", "nonsense"], &["client"], &["fly"]] {
        assert_eq!(mendpath(args).status.code(), Some(2), "{args:?}");
    }
    let output = mendpath(&["client", "mendpath://secret@host"]);
    let message = text(&output.stderr);
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(
        message.starts_with("mendpath: error: cannot use the invitation: ") && !message.contains("secret"),
        "{message}"
    );
    assert_eq!(message.to_lowercase().matches("whole").count(), 1, "advice is given once: {message}");
}

#[test]
fn the_lab_lists_its_plans_and_refuses_what_it_cannot_measure() {
    let output = mendpath(&["lab", "list"]);
    let list = text(&output.stdout);
    assert!(output.status.success());
    for name in ["never-worse", "one-lossy-path", "kcptun"] {
        assert!(list.contains(&format!("  {name} ")), "{name}: {list}");
    }
    for (args, part) in [
        (&["lab"][..], "no --path or no --contender"),
        (&["lab", "run", "no-such-plan"], "cannot read the plan no-such-plan"),
        (&["lab", "run", "two-paths", "--contender", "tcp@x"], "after the @ stands a path's number"),
        (&["lab", "run", "two-paths", "--contender", "tcp@2"], "tcp@2"),
        (&["lab", "--path", "loss=2", "--contender", "tcp"], "loss"),
        (&["lab", "exec", "--", "true"], "--path"),
        (&["lab", "--path", "delay=9ms", "--contender", "tcp"], "there is neither --fetch nor --bulk"),
    ] {
        let output = mendpath(args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(part), "{args:?}: {message}");
    }
}

/// What is written last would take the other's place, after minutes of work for both.
#[test]
fn two_results_are_not_written_to_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("out"), folder.path().join("link"));
    std::fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let (file, link) = (file.to_str().unwrap(), link.to_str().unwrap());
    // Not there yet, by two names.
    let name = folder.path().file_name().unwrap().to_str().unwrap();
    let [new, other] = [name, &format!("{name}/../{name}")].map(|path| format!("{path}/new"));
    let [new, other] = [new, other].map(|path| format!("{}/../{path}", folder.path().display()));
    for args in [
        &["demo", "--virtual", "--json", "-", "--html", "-"][..],
        &["demo", "--virtual", "--svg", file, "--json", link],
        &["demo", "--virtual", "--svg", &new, "--json", &other],
        &["lab", "run", "two-paths", "--json", file, "--html", link],
    ] {
        let output = mendpath(args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains("they are the same file"), "{args:?}: {message}");
    }
}

/// Each result may go to stdout, in place of the table.
#[test]
fn a_picture_may_go_to_stdout() {
    let output = mendpath(&["demo", "--virtual", "--count", "2", "--size", "3kB", "--svg", "-"]);
    let svg = text(&output.stdout);
    assert!(
        output.status.success() && svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
        "{svg}"
    );
}

/// A named pipe is opened once: whoever reads from it gets all, and nobody waits for another reader.
#[test]
fn a_result_may_go_into_a_named_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).unwrap()
    });
    let schemes = ["--recovery", "none,auto,none", "--json", pipe.to_str().unwrap()];
    let args = [&["demo", "--virtual", "--count", "2", "--size", "3kB"][..], &schemes].concat();
    assert!(mendpath(&args).status.success());
    let report: serde_json::Value = serde_json::from_str(&reader.join().unwrap()).unwrap();
    // One path, two of them with each scheme, and without loss: a scheme named twice is there once.
    assert_eq!(report["rows"].as_array().unwrap().len(), 4);
}

#[test]
fn failed_work_exits_with_1() {
    let output = mendpath(&["demo", "--json", "/no/such/directory/demo.json"]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(
        message.contains("cannot write /no/such/directory/demo.json") && message.lines().count() == 1,
        "{message}"
    );
}

#[cfg(feature = "experiment")]
#[test]
fn a_place_that_takes_no_results_is_named_with_the_reason() {
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans/cofuso-fig11/plan.toml");
    let output = mendpath(&["experiment", "run", plan, "--out", "/dev/full"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    let told = "cannot write /dev/full/cofuso-fig11-quick, there is a file in the place of a directory.";
    assert!(message.contains(told) && !message.contains("os error"), "{message}");
}

#[cfg(feature = "experiment")]
#[test]
fn tables_without_a_place_are_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, readme) = (folder.path().join("plan.toml"), folder.path().join("README.md"));
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans/slp-goodput/plan.toml"), &plan).unwrap();
    let publish = || {
        let (plan, out) = (plan.to_str().unwrap(), folder.path().join("out"));
        text(&mendpath(&["experiment", "run", plan, "--publish", "--out", out.to_str().unwrap()]).stderr)
    };
    fs::write(&readme, "# Mine\n").unwrap();
    assert!(publish().contains("has the lines <!-- results --> and <!-- /results -->"));
    fs::write(&readme, "# Mine\n<!-- results -->\n<!-- /results -->\n").unwrap();
    assert_eq!(publish(), "");
    assert!(fs::read_to_string(&readme).unwrap().contains("| loss | ARQ |"));
}

#[cfg(feature = "experiment")]
#[test]
fn plans_of_one_folder_are_not_published_over_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let plan = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans/slp-goodput/plan.toml")).unwrap();
    let publish = |name: &str| {
        let output = mendpath(&["experiment", "run", &at(name), "--publish", "--out", &at("out")]);
        (output.status.code(), text(&output.stderr))
    };
    // Alone, or beside what is no plan.
    fs::write(at("one.toml"), &plan).unwrap();
    fs::write(at("other.toml"), "[package]").unwrap();
    assert_eq!(publish("one.toml").0, Some(0));
    fs::remove_file(at("summary.csv")).unwrap();

    fs::write(at("two.toml"), &plan).unwrap();
    for (name, other) in [("one.toml", "two.toml"), ("two.toml", "one.toml")] {
        let (code, told) = publish(name);
        let wrong = format!("{} beside it would have the same summary.csv and README.md.", at(other));
        assert!(code == Some(2) && told.contains(&wrong), "{told}");
    }
    assert!(!Path::new(&at("summary.csv")).exists());
    // The folder's own plan.
    fs::write(at("plan.toml"), &plan).unwrap();
    assert_eq!(publish("plan.toml").0, Some(0));
    assert!(Path::new(&at("summary.csv")).exists());
}

#[cfg(feature = "experiment")]
#[test]
fn plans_that_are_not_there_or_have_no_flows_are_said_to_be() {
    let plans = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans");
    for (args, part) in [
        (
            &["fuso-fig66"][..],
            "cannot use the plan fuso-fig66: there is no such file, nor a plan of that name in",
        ),
        (&["htpc-fig5", "--tail", "2"], "worked out, not simulated: there are no flows"),
    ] {
        let output = mendpath(&[&["experiment", "run", "--plans", plans][..], args].concat());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(part), "{args:?}: {message}");
    }
}

/// Somebody's own paths may be too slow for anything: that is no reason to panic.
#[test]
fn paths_that_are_too_slow_are_said_to_be() {
    for (rate, wrong) in
        [("rate=1bit", "the handshake was not complete"), ("rate=2kbit", "of 60000 bytes after")]
    {
        let output = mendpath(&["demo", "--virtual", "--count", "1", "--path", rate]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.starts_with("mendpath: error: cannot finish the demonstration: "), "{message}");
        assert!(message.contains(wrong) && message.lines().count() == 1 && message.len() < 300, "{message}");
    }
}

#[test]
fn help_teaches_with_examples() {
    for (args, example) in [
        (&["--help"][..], "mendpath demo"),
        (&["demo", "--help"], "delay round-trip time"),
        (&["client", "--help"], "curl --socks5-hostname"),
        (&["server", "--help"], "hand it over like a password"),
    ] {
        let output = mendpath(args);
        // Lines break where the terminal's width wants.
        let words: Vec<_> = text(&output.stdout).split_whitespace().map(str::to_owned).collect();
        assert!(output.status.success() && words.join(" ").contains(example), "{args:?}");
    }
}

/// A capture of raw IP packets: a SYN from 10.0.0.1 to 10.0.0.2 at each of `seconds`.
fn capture_of_syns(seconds: &[u32]) -> Vec<u8> {
    let mut syn = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    syn.extend([0x10, 0, 0, 80, 0, 0, 0, 7, 0, 0, 0, 0, 0x50, 2, 1, 0, 0, 0, 0, 0]);
    let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 96, 101];
    let mut capture: Vec<u8> = header.into_iter().flat_map(u32::to_le_bytes).collect();
    for &second in seconds {
        capture.extend([second, 0, 40, 40].into_iter().flat_map(u32::to_le_bytes));
        capture.extend(&syn);
    }
    capture
}

#[test]
fn captures_are_analysed() {
    let dir = tempfile::tempdir().unwrap();
    let (file, html) = (dir.path().join("syns.pcap"), dir.path().join("syns.html"));
    std::fs::write(&file, capture_of_syns(&[10, 11, 13])).unwrap();
    let name = file.to_str().unwrap();
    let output = mendpath(&["trace", "analyze", name, "--html", html.to_str().unwrap(), "--json", "-"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "quiet in a pipe");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], "mendpath-trace/1");
    assert_eq!(report["retransmissions"]["syn_timeouts"], 2);
    assert!(std::fs::read_to_string(html).unwrap().contains("</html>"));
    let output = mendpath(&["trace", "analyze", name, "--timeout-at", "1500"]);
    assert!(text(&output.stdout).contains("2 retransmissions"), "{}", text(&output.stdout));
    let output = mendpath(&["trace", "analyze", name, "--html", "-"]);
    assert!(text(&output.stdout).starts_with("<!doctype html>"), "the page instead of the tables");
    for wrong in
        [&["--cluster", "linear", "--timeout-at", "9"][..], &["--method", "ack-clock", "--timeout-at", "9"]]
    {
        assert_eq!(
            mendpath(&[&["trace", "analyze", name], wrong].concat()).status.code(),
            Some(2),
            "{wrong:?}"
        );
    }
}

#[test]
fn no_output_takes_the_place_of_a_capture() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (a, b, link) = (path("a.pcap"), path("b.pcap"), path("link"));
    for file in [&a, &b] {
        std::fs::write(file, capture_of_syns(&[10, 11, 13])).unwrap();
    }
    std::os::unix::fs::symlink(&a, &link).unwrap();
    let refused = [
        (["--json", &a, &b], "holds a capture"),
        (["--json", &link, &a], "one of the captures"),
        (["--html", &b, &b], "one of the captures"),
    ];
    for (args, why) in refused {
        let output = mendpath(&[&["trace", "analyze"][..], &args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
    let same = path("same");
    let output = mendpath(&["trace", "analyze", &a, "--json", &same, "--html", &same]);
    assert_eq!(output.status.code(), Some(2));
    for file in [&a, &b] {
        assert_eq!(std::fs::read(file).unwrap(), capture_of_syns(&[10, 11, 13]), "{file}");
    }
}

/// Linux has a device that is always full.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("syns.pcap");
    std::fs::write(&file, capture_of_syns(&[10, 11])).unwrap();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    let output = command.args(["trace", "analyze"]).arg(&file).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("disk is full"), "{}", text(&output.stderr));
    let (file, json) = (file.to_str().unwrap(), dir.path().join("report.json"));
    let output = mendpath(&["trace", "analyze", file, "--json", "/dev/full"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let more = ["--html", "/dev/full", "--json", json.to_str().unwrap()];
    let output = mendpath(&[&["trace", "analyze", file][..], &more].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("2 TCP packets"), "what can be shown is: {}", text(&output.stdout));
    assert!(std::fs::read_to_string(json).unwrap().contains("mendpath-trace/1"), "and written");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error_whatever_is_printed() {
    let help = [&["--help"][..], &["--version"], &["client", "--help"]];
    let results = [&["config", "template", "server"][..], &["paths"], &["completions", "bash"]];
    for args in help.into_iter().chain(results) {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mendpath"));
        let output = command.args(args).stdout(full).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("cannot write to standard output: the disk is full"), "{args:?}: {said}");
    }
}

/// Nobody looks any more: whoever watches ends, and has nothing to complain of.
#[test]
fn watching_ends_with_its_reader() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("client-1.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    command.args(["status", "--watch", "--json", "--socket"]).arg(&socket);
    let mut watching = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut asked, _) = listener.accept().unwrap();
    asked.write_all(b"{}\n").unwrap();
    let mut reader = BufReader::new(watching.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "{}\n");
    drop(reader);
    // A test that starts a program at this moment has the pipe, too, for a moment.
    let mut more = (0..100_000).map(|_| asked.write_all(b"{}\n"));
    assert!(more.any(|written| written.is_err()), "it does not hang up");
    let output = watching.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

/// As one of another version, in the midst of an upgrade.
#[test]
fn whoever_is_not_understood_does_not_hide_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let sockets = dir.path().join("mendpath");
    fs::create_dir(&sockets).unwrap();
    let [first, second] =
        ["client-1.sock", "client-2.sock"].map(|name| UnixListener::bind(sockets.join(name)).unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    command.arg("status").env("XDG_RUNTIME_DIR", dir.path());
    let asking = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut first, _) = first.accept().unwrap();
    first.write_all(b"{\"error\":\"it has another word for it\"}\n").unwrap();
    let (second, _) = second.accept().unwrap();
    let mut asked = String::new();
    BufReader::new(&second).read_line(&mut asked).unwrap();
    assert_eq!(asked, "status\n");
    drop(second);
    let output = asking.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("another word"), "{}", text(&output.stderr));
}

#[test]
fn damaged_captures_are_reported_as_far_as_they_go() {
    let dir = tempfile::tempdir().unwrap();
    let (cut, none) = (dir.path().join("cut.pcap"), dir.path().join("missing.pcap"));
    let capture = capture_of_syns(&[10, 11, 13]);
    std::fs::write(&cut, &capture[..capture.len() - 5]).unwrap();
    let output = mendpath(&["trace", "analyze", cut.to_str().unwrap(), none.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("\n1 retransmission ("), "{}", text(&output.stdout));
    let message = text(&output.stderr);
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("ends in the middle") && message.contains("no such file"), "{message}");

    std::fs::write(&cut, capture_of_syns(&[])).unwrap();
    let output = mendpath(&["trace", "analyze", cut.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no TCP"), "{}", text(&output.stderr));
    for wrong in [&["trace", "analyze"][..], &["trace", "analyze", "x", "--cluster", "cubic"], &["trace"]] {
        assert_eq!(mendpath(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

/// A command in the background, killed at the end.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a command that prints an invitation, and returns that.
fn inviting(args: &[&str]) -> (Running, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mendpath"));
    let child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut running = Running(child.unwrap());
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("mendpath://"), "{line}");
    (running, line)
}

fn private_file(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

#[test]
fn invitations_need_not_stand_on_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let (out, state) = (dir.path().join("out"), dir.path().join("state"));
    fs::create_dir(&out).unwrap();
    let file = private_file(dir.path(), "file", "content");
    for place in ["file", "stdin", "stdin-file", "variable", "argument"] {
        let receive = ["receive", "--force", "--listen", "127.0.0.1:0", "--out", out.to_str().unwrap()];
        let (_receiver, line) = inviting(&[&receive[..], &["--state", state.to_str().unwrap()]].concat());
        let mut send = Command::new(env!("CARGO_BIN_EXE_mendpath"));
        send.args(["send", file.to_str().unwrap()]).stdin(Stdio::piped());
        send.stdout(Stdio::piped()).stderr(Stdio::piped());
        match place {
            "file" => _ = send.arg("--invitation-file").arg(private_file(dir.path(), "invitation", &line)),
            "stdin" => _ = send.arg("-"),
            "stdin-file" => _ = send.args(["--invitation-file", "-"]),
            "variable" => _ = send.env("MENDPATH_INVITATION", &line),
            _ => _ = send.arg(line.trim()).env("MENDPATH_INVITATION", "not looked at"),
        }
        let mut send = send.spawn().unwrap();
        // Whoever does not read it may have ended by now.
        let _ = send.stdin.take().unwrap().write_all(line.as_bytes());
        let output = send.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.success(), "{place}: {said}");
        assert_eq!(
            said.contains("warning: other users of this machine"),
            place == "argument",
            "{place}: {said}"
        );
        assert!(!said.contains(line.trim()), "{said}");
    }
}

#[test]
fn secrets_that_others_can_read_or_that_are_none_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open = private_file(dir.path(), "open", "mendpath://secret@host\n");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let open = open.to_str().unwrap();
    let private = private_file(dir.path(), "private", "mendpath://secret@host\n");
    let private = private.to_str().unwrap();
    for (args, part) in [
        (&["client"][..], "--invitation-file"),
        (&["client", "--invitation-file", open], "chmod 600"),
        (&["client", "--invitation-file", private], "cannot use the invitation"),
        (&["client", "--invitation-file", "/no/such/file"], "no such file"),
        (&["client", "-"], "there is nothing"),
        (&["client", "-", "--proxy-auth-file", "-"], "standard input"),
        (&["client", "-", "--proxy-auth-file", open], "chmod 600"),
        (&["client", "-", "--proxy-auth-file", private], "there is nothing"),
        (&["client", "-", "--proxy-auth", "secret"], "Write USER:PASS"),
        (&["send", "file", "--invitation-file", open], "chmod 600"),
    ] {
        let output = mendpath(args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.lines().count() == 1 && message.contains(part), "{args:?}: {message}");
        assert!(!message.contains("secret"), "{args:?}: {message}");
    }
    assert_eq!(mendpath(&["client", "mendpath://x", "--invitation-file", private]).status.code(), Some(2));
    assert_eq!(
        mendpath(&["client", "--proxy-auth", "a:b", "--proxy-auth-file", open]).status.code(),
        Some(2)
    );
}

#[test]
fn the_proxy_s_password_comes_from_a_file_or_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let (_server, line) =
        inviting(&["server", "--listen", "127.0.0.1:0", "--state", state.to_str().unwrap()]);
    let password = private_file(dir.path(), "password", "alice:sesame\n");
    for from_file in [true, false] {
        let mut client = Command::new(env!("CARGO_BIN_EXE_mendpath"));
        client.args(["client", "--http", "127.0.0.1:0"]).env("MENDPATH_INVITATION", &line);
        if from_file {
            client.arg("--proxy-auth-file").arg(&password);
        } else {
            client.env("MENDPATH_PROXY_AUTH", "alice:sesame");
        }
        let mut client = Running(client.stderr(Stdio::piped()).spawn().unwrap());
        let mut says = BufReader::new(client.0.stderr.take().unwrap()).lines().map(Result::unwrap);
        let address = says.find_map(|line| line.strip_prefix("mendpath: HTTP proxy on ").map(str::to_owned));
        let ask = |fields: &str| {
            let mut tcp = TcpStream::connect(address.as_ref().unwrap()).unwrap();
            write!(tcp, "CONNECT 127.0.0.1:1 HTTP/1.1\r\n{fields}\r\n").unwrap();
            let mut heard = String::new();
            tcp.read_to_string(&mut heard).unwrap();
            heard
        };
        assert!(ask("").starts_with("HTTP/1.1 407 "), "{}", ask(""));
        // Let in, and told that the server reaches nothing private.
        let right = ask("Proxy-Authorization: Basic YWxpY2U6c2VzYW1l\r\n");
        assert!(right.starts_with("HTTP/1.1 403 "), "{right}");
    }
}
