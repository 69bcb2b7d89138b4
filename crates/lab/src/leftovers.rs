//! What a run keeps outside its own memory, and how the next run removes what a killed one left.
//!
//! `/run/mendpath-lab/PID-START-N/` holds a run's temporary files and, in `processes`, the processes
//! it has started. A process is known by its number and its start time, since numbers are used
//! again; with it goes whatever else is in the namespace in which it began. What a run has started
//! and had no time to write down is known by the directory's name in its environment. What programs
//! leave in places of their user's (sockets, saved configurations) lies in its folder `home`.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File},
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::atomic::{AtomicU64, Ordering},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use crate::{LabError, bed::Namespace, processes};

const BASE: &str = "/run/mendpath-lab";

/// The variable by which a process tells the run that started it.
const VARIABLE: &str = "MENDPATH_LAB_RUN";

/// How the variables begin that stand for options of mendpath.
const SETTINGS: &str = "MENDPATH_";

/// The variables that name where programs keep what is theirs.
const PLACES: [&str; 5] =
    ["RUNTIME_DIRECTORY", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"];

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
        Self::at(path)
    }

    fn at(path: PathBuf) -> Result<Self, LabError> {
        fs::create_dir_all(&path).map_err(LabError::system(format!("make {}", path.display())))?;
        let directory = Self { path, next: AtomicU64::new(0) };
        let home = directory.home();
        // Whoever has a socket there wants it to be nobody else's.
        let made = DirBuilder::new().mode(0o700).create(&home);
        made.map_err(LabError::system(format!("make {}", home.display())))?;
        Ok(directory)
    }

    fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    /// A new directory for somebody's files.
    pub(crate) fn sub_directory(&self) -> Result<PathBuf, LabError> {
        let path = self.path.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir(&path).map_err(LabError::system(format!("make {}", path.display())))?;
        Ok(path)
    }

    /// Lets a program find no options that are meant for the user's own mendpath, of which there may be some in
    /// `environment`, and leave nothing in the user's places.
    pub(crate) fn shelter(&self, command: &mut Command, environment: impl IntoIterator<Item = OsString>) {
        for variable in environment {
            if variable.to_string_lossy().starts_with(SETTINGS) {
                command.env_remove(variable);
            }
        }
        for variable in PLACES {
            command.env(variable, self.home());
        }
    }

    /// Starts a program in a namespace. If this run is killed, the next one ends it.
    ///
    /// # Errors
    /// [`LabError::System`] if the namespace cannot be entered; within, that it cannot be started.
    pub(crate) fn spawn(
        &self,
        command: &mut Command,
        namespace: &Namespace,
    ) -> Result<io::Result<Child>, LabError> {
        command.env(VARIABLE, self.path.file_name().unwrap_or_default());
        let child = namespace.run(|| command.spawn())?;
        if let Ok(child) = &child {
            self.remember(child.id());
        }
        Ok(child)
    }

    /// Best effort: it only helps the next run.
    fn remember(&self, pid: u32) {
        let Some(start) = start_time(pid) else { return };
        let namespace = Namespace::of(pid).map_or(0, |namespace| namespace.number());
        let file = fs::OpenOptions::new().create(true).append(true).open(self.path.join("processes"));
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

/// Ends the processes of dead runs and removes their directories. Who comes second waits: when this
/// returns, nothing is left of them.
fn sweep(base: &Path) {
    let Ok(lock) = File::open(base) else { return };
    let _ = lock.lock();
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let mut numbers = name.to_str().unwrap_or_default().split('-').map(str::parse::<u64>);
        let (Some(Ok(pid)), Some(Ok(start))) = (numbers.next(), numbers.next()) else { continue };
        if start_time(pid as u32) == Some(start) && !has_ended(pid as u32) {
            continue;
        }
        let written = fs::read_to_string(entry.path().join("processes")).unwrap_or_default();
        written.lines().for_each(end);
        let variable = format!("{VARIABLE}={}", name.display());
        processes::end(|process| has_variable(process, &variable));
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// Ends a process that a dead run has written down, and whatever else is in its namespace.
fn end(line: &str) {
    let mut numbers = line.split(' ').map_while(|number| number.parse::<u64>().ok());
    let (Some(pid), start @ Some(_)) = (numbers.next(), numbers.next()) else { return };
    if start_time(pid as u32) != start {
        return;
    }
    let still = Namespace::of(pid as u32).filter(|still| numbers.next() == Some(still.number()));
    let _ = killpg(Pid::from_raw(pid as i32), Signal::SIGKILL);
    // A process may have moved to one that is not ours to end.
    if let Some(namespace) = still {
        namespace.end_processes();
    }
}

/// Whether a process was started with `variable` in its environment; one that has ended has none.
fn has_variable(process: Pid, variable: &str) -> bool {
    let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|found| found == variable.as_bytes())
}

/// When a process started, in ticks since boot; `None` if there is none of this number.
fn start_time(pid: u32) -> Option<u64> {
    field(pid, 22)?.parse().ok()
}

/// Whether a process has ended, and only its parent has not asked how: then it keeps its number.
fn has_ended(pid: u32) -> bool {
    field(pid, 3).is_some_and(|state| state == "Z")
}

/// A field of what the kernel tells of a process, from the third on.
fn field(pid: u32, number: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything, and is field 2.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number - 3).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        ffi::OsStr,
        os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _},
        process::Stdio,
    };

    use super::*;

    #[test]
    fn programs_know_no_options_of_the_users_and_leave_nothing_in_his_places() {
        let path = std::env::temp_dir().join(format!("lab-shelter-{}", std::process::id()));
        let directory = RunDirectory::at(path.clone()).unwrap();
        let home = path.join("home");
        assert_eq!(fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
        let mut command = Command::new("true");
        directory.shelter(&mut command, ["MENDPATH_RECOVERY", "PATH"].map(OsString::from));
        let changed: BTreeMap<&OsStr, Option<&OsStr>> = command.get_envs().collect();
        assert_eq!(changed.get(OsStr::new("MENDPATH_RECOVERY")), Some(&None));
        assert!(!changed.contains_key(OsStr::new("PATH")));
        for variable in PLACES {
            assert_eq!(changed.get(OsStr::new(variable)), Some(&Some(home.as_os_str())), "{variable}");
        }
        drop(directory);
        assert!(!path.exists());
    }

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

    /// Its parent may never ask how it ended.
    #[test]
    fn a_killed_run_that_nobody_waits_for_is_dead() {
        let base = std::env::temp_dir().join(format!("lab-sweep-ended-{}", std::process::id()));
        let mut run = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let directory = base.join(format!("{}-{}-0", run.id(), start_time(run.id()).unwrap()));
        fs::create_dir_all(&directory).unwrap();
        sweep(&base);
        assert!(directory.exists());
        drop(run.stdin.take());
        while !has_ended(run.id()) {
            std::thread::yield_now();
        }
        sweep(&base);
        assert!(!directory.exists());
        run.wait().unwrap();
        fs::remove_dir_all(base).unwrap();
    }

    /// It was killed before it could write that down.
    #[test]
    fn what_a_dead_run_has_just_started_is_ended() {
        let own = std::process::id();
        let base = std::env::temp_dir().join(format!("lab-sweep-written-{own}"));
        // Another number than that of the dead run above: its sweep, beside this test, would end these.
        let dead = format!("{own}-{}-1", start_time(own).unwrap() + 1);
        fs::create_dir_all(base.join(&dead)).unwrap();
        let start = |run: &str| {
            let child = Command::new("sleep").arg("1000").env(VARIABLE, run).spawn().unwrap();
            // The kernel lets a parent go on before the program's environment is in its place.
            while !has_variable(Pid::from_raw(child.id() as i32), &format!("{VARIABLE}={run}")) {
                assert!(!has_ended(child.id()), "somebody ended it");
                std::thread::yield_now();
            }
            child
        };
        let (mut left, mut others) = (start(&dead), start(&format!("{dead}0")));
        sweep(&base);
        assert_eq!(left.wait().unwrap().signal(), Some(Signal::SIGKILL as i32));
        assert_eq!(others.try_wait().unwrap(), None);
        others.kill().unwrap();
        others.wait().unwrap();
        fs::remove_dir_all(base).unwrap();
    }
}
