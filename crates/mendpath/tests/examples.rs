//! The examples do what the manual says they do.

use std::{
    path::PathBuf,
    process::{Command, Output},
};

/// `cargo test` builds the examples beside the tests.
fn run(example: &str) -> Output {
    let own = std::env::current_exe().unwrap();
    let directory: PathBuf = own.ancestors().nth(2).unwrap().join("examples");
    let program = directory.join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
    assert!(program.exists(), "build them: cargo build -p mendpath --examples");
    Command::new(program).output().unwrap()
}

/// Runs an example, which must succeed and say each of `words`.
fn says(example: &str, words: &[&str]) -> String {
    let Output { status, stdout, stderr } = run(example);
    let said = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{example}: {said}{}", String::from_utf8_lossy(&stderr));
    for word in words {
        assert!(said.contains(word), "{example} does not say `{word}`: {said}");
    }
    said
}

#[test]
fn echo() {
    says("echo", &["the server sent back: hello over QUIC"]);
}

#[test]
fn datagrams() {
    let said = says("datagrams", &[" of 100 datagrams arrived"]);
    assert!(!said.contains("\n0 of 100"), "{said}");
}

#[test]
fn two_paths() {
    says("two_paths", &["path 1 went on alone; the server received 16777216 bytes"]);
}

#[test]
fn call() {
    let said = says("call", &["in time", "of 50"]);
    assert!(!said.contains("heard 0 of"), "{said}");
}

#[test]
fn come_back() {
    says(
        "come_back",
        &[
            "question 1: answered at attempt 1, in a new session",
            "attempt 1: the peer closed the connection with CONNECTION_REFUSED: come back later",
            "question 2: answered at attempt 2, in a resumed session",
        ],
    );
}

#[test]
fn tuned() {
    says("tuned", &["as it comes: ", "a network of our own: ", "datagrams of 8900 bytes"]);
}

/// The certificate of its server is among the roots of its client.
#[test]
fn from_quinn() {
    says(
        "from_quinn",
        &["the server sent back: hello", "and as a datagram: ping", "the client says 7: done"],
    );
}
