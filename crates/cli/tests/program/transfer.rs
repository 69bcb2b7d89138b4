//! `mendpath send` and `mendpath receive` that are told to end.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::process::Process;

fn receiver(dir: &tempfile::TempDir) -> (Process, String) {
    receiver_of(Process::start, dir)
}

fn receiver_of(start: fn(&[&str]) -> Process, dir: &tempfile::TempDir) -> (Process, String) {
    let (state, out) = (dir.path().join("state"), dir.path().to_str().unwrap());
    let receiver =
        start(&["receive", "--listen=127.0.0.1:0", "--out", out, "--state", state.to_str().unwrap()]);
    // Two outputs, whose lines may come in any order.
    let [invitation, _] = receiver.lines_with(["mendpath://", "waiting for"]);
    (receiver, invitation)
}

/// Whether a file has begun to arrive.
fn has_part(dir: &tempfile::TempDir) -> bool {
    let mut names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    names.any(|name| name.to_string_lossy().ends_with(".part"))
}

fn tell(process: &Process, signal: Signal) {
    kill(Pid::from_raw(process.id() as i32), signal).unwrap();
}

#[test]
fn a_receiver_that_got_nothing_has_not_succeeded() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let dir = tempfile::tempdir().unwrap();
        let (receiver, _) = receiver(&dir);
        tell(&receiver, signal);
        receiver.line_with("stopped; no file has arrived");
        assert_eq!(receiver.wait(), Some(code));
    }
}

/// A window that is closed, or a login that breaks off, leaves no half of a file, and the other side does
/// not wait for what has gone.
#[test]
#[cfg(target_os = "linux")]
fn the_end_of_the_terminal_ends_a_transfer_in_order() {
    for of_receiver in [true, false] {
        let (dir, from) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let start = Process::start_in_terminal;
        let (receiver, invitation) = receiver_of(start, &dir);
        let endless = from.path().join("endless");
        std::fs::File::create(&endless).unwrap().set_len(1 << 40).unwrap();
        let sender = start(&["send", "--path=127.0.0.1", endless.to_str().unwrap(), &invitation]);
        while !has_part(&dir) {
            std::thread::yield_now();
        }
        tell(if of_receiver { &receiver } else { &sender }, Signal::SIGHUP);
        if of_receiver {
            assert_eq!(receiver.wait(), Some(143));
            sender.line_with("the receiver is gone");
            assert_eq!(sender.wait(), Some(1));
        } else {
            assert_eq!(sender.wait(), Some(143));
            receiver.line_with("the sender has stopped");
        }
        assert!(!has_part(&dir));
    }
}

/// Linux says of this file that it is empty. Its sender stops when all that was announced is there, and only
/// the checksum is missing.
#[test]
#[cfg(target_os = "linux")]
fn a_sender_that_stops_before_its_checksum_has_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let (receiver, invitation) = receiver(&dir);
    let sender = Process::start(&["send", "--path=127.0.0.1", "/proc/version", &invitation]);
    assert_eq!(sender.wait(), Some(1));
    receiver.line_with("the sender has stopped");
}

/// A sender that has to wait says so, and makes room at once when it is told to end.
#[test]
fn a_sender_that_ends_makes_room() {
    let (dir, from) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (receiver, invitation) = receiver(&dir);
    let file = |name: &str, size: u64| {
        let path = from.path().join(name);
        std::fs::File::create(&path).unwrap().set_len(size).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (endless, small) = (file("endless", 1 << 40), file("small", 10));
    let first = Process::start(&["send", "--path=127.0.0.1", &endless, &invitation]);
    while !has_part(&dir) {
        std::thread::yield_now();
    }
    // It need not fill the disk meanwhile.
    tell(&first, Signal::SIGSTOP);
    let second = Process::start(&["send", "--path=127.0.0.1", &small, &invitation]);
    second.line_with("another file is arriving there; waiting");
    tell(&first, Signal::SIGINT);
    tell(&first, Signal::SIGCONT);
    first.line_with("stopped; ");
    assert_eq!(first.wait(), Some(130));
    assert_eq!(second.wait(), Some(0));
    receiver.line_with("received ");
    assert_eq!(receiver.wait(), Some(0));
}
