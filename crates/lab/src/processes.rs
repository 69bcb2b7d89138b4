//! Processes of this machine, found and ended.

use std::{fs, process::Child};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use units::Duration;

use crate::clock;

/// All that there are (proc(5)).
pub(crate) fn all() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw)
}

/// Kills the process group that a child leads, and waits for the child.
pub(crate) fn end_group(leader: &mut Child) {
    let _ = killpg(Pid::from_raw(leader.id() as i32), Signal::SIGKILL);
    let _ = leader.wait();
}

/// Kills all for which `is_one` holds but this one, and waits until there are none.
pub(crate) fn end(is_one: impl Fn(Pid) -> bool) {
    // Some may be about to start others, and on a busy machine it takes them a while to be gone. What is stuck
    // in the kernel is not waited for without end.
    for _ in 0..400 {
        let mut found = all().filter(|process| *process != Pid::this() && is_one(*process)).peekable();
        if found.peek().is_none() {
            return;
        }
        for process in found {
            let _ = kill(process, Signal::SIGKILL);
        }
        clock::pause(Duration::from_millis(5));
    }
}
