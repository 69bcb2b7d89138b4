//! The binary itself: exit codes, what goes to stdout, and the demonstration's JSON.

use std::process::{Command, Output};

fn mendpath(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mendpath")).args(args).output().unwrap()
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
        [("none", 1), ("none", 2), ("proactive", 2), ("fuso", 2), ("cofuso", 2), ("cofuso", 2)]
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
    assert_eq!(lossy, [true, true, true, true, true, false]);
    assert_eq!(rows[5]["lost"], 0);
    assert!(std::fs::read_to_string(html).unwrap().contains("</html>"));
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
