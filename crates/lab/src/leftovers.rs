//! What a run keeps outside its own memory, and how the next run removes what a killed one left.
//!
//! `/run/mendpath-lab/PID-START/` holds a run's temporary files and, in `processes`, the processes
//! it has started. A process is known by its number and its start time, since numbers are used
//! again; with it goes whatever else is in the namespace in which it began.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use crate::{LabError, bed::Namespace};

const BASE: &str = "/run/mendpath-lab";

/// A run's directory, removed when this is dropped.
pub(crate) struct RunDirectory {
    path: PathBuf,
    next: AtomicU64,
}

impl RunDirectory {
    /// Removes what dead runs left, then makes a directory for this one.
    pub(crate) fn new() -> Result<Self, LabError> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let base = Path::new(BASE);
        sweep(base);
        let own = std::process::id();
        let start = start_time(own).unwrap_or(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("{own}-{start}-{run}"));
        fs::create_dir_all(&path).map_err(LabError::system(format!("make {}", path.display())))?;
        Ok(Self { path, next: AtomicU64::new(0) })
    }

    /// A new directory for somebody's files.
    pub(crate) fn sub_directory(&self) -> Result<PathBuf, LabError> {
        let path = self.path.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir(&path).map_err(LabError::system(format!("make {}", path.display())))?;
        Ok(path)
    }

    /// Remembers a process, in case this run is killed.
    pub(crate) fn remember(&self, pid: u32) {
        let Some(start) = start_time(pid) else { return };
        let namespace = Namespace::of(pid).map_or(0, |namespace| namespace.number());
        let file = fs::OpenOptions::new().create(true).append(true).open(self.path.join("processes"));
        // Best effort: it only helps the next run.
        let _ = file.and_then(|mut file| writeln!(file, "{pid} {start} {namespace}"));
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        // Fails while others run.
        let _ = fs::remove_dir(BASE);
    }
}

/// Ends the processes of dead runs and removes their directories.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let mut numbers = name.to_str().unwrap_or_default().split('-').map(str::parse::<u64>);
        let (Some(Ok(pid)), Some(Ok(start))) = (numbers.next(), numbers.next()) else { continue };
        if start_time(pid as u32) == Some(start) {
            continue;
        }
        let processes = fs::read_to_string(entry.path().join("processes")).unwrap_or_default();
        for line in processes.lines() {
            let mut numbers = line.split(' ').map_while(|number| number.parse::<u64>().ok());
            if let (Some(pid), start @ Some(_)) = (numbers.next(), numbers.next())
                && start_time(pid as u32) == start
            {
                let still = Namespace::of(pid as u32).filter(|still| numbers.next() == Some(still.number()));
                let _ = killpg(Pid::from_raw(pid as i32), Signal::SIGKILL);
                // A process may have moved to one that is not ours to end.
                if let Some(namespace) = still {
                    namespace.end_processes();
                }
            }
        }
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// When a process started, in ticks since boot; `None` if there is none of this number.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Field 22; the name in parentheses may contain anything, and is field 2.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known_and_dead_runs_are_swept() {
        let own = std::process::id();
        let start = start_time(own).unwrap();
        assert_eq!(start_time(u32::MAX), None);
        let base = std::env::temp_dir().join(format!("lab-sweep-{own}"));
        let (alive, dead, other) = (
            base.join(format!("{own}-{start}-0")),
            base.join(format!("{own}-{}-0", start + 1)),
            base.join("x"),
        );
        for directory in [&alive, &dead, &other] {
            fs::create_dir_all(directory).unwrap();
        }
        // A number in use, with another start time: not ours to end.
        fs::write(dead.join("processes"), format!("{own} {}\nnonsense\n", start + 1)).unwrap();
        sweep(&base);
        assert!(alive.exists() && !dead.exists() && other.exists());
        fs::remove_dir_all(base).unwrap();
    }
}
