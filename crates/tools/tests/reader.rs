//! Tools whose output nobody reads, as behind `| head` that has read enough.

use std::process::{Command, Stdio};

#[test]
fn a_tool_ends_quietly_with_its_reader() {
    let relay = ["relay", "--server", "127.0.0.1:9", "--path", "rate=1mbit"];
    for line in [&relay[..], &["models"], &["scenario", "--seed", "1"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut tool = Command::new(env!("CARGO_BIN_EXE_mendpath-tools"));
        let output = tool.args(line).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line:?}");
        // 128 and the number of SIGPIPE, as of a program that knows nothing of it.
        assert_eq!(output.status.code(), Some(141), "{line:?}");
    }
}
