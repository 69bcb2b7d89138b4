//! A program of a contender: started in a namespace, watched, ended with all its descendants.

use std::{
    collections::VecDeque,
    fs,
    io::{self, BufRead as _, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use nix::unistd::{SysconfVar, sysconf};
use units::Duration;

use crate::{LabError, bed::Namespace, leftovers::RunDirectory, processes};

/// Lines of output that are kept, and bytes of each.
const LINES: usize = 30;
const LINE: u64 = 2_000;

/// A running program; killed when this is dropped.
pub(crate) struct Process {
    name: String,
    child: Child,
    output: Output,
}

/// The first line, and the last ones.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Lines>>);

#[derive(Default)]
struct Lines {
    first: Option<String>,
    last: VecDeque<String>,
}

impl Process {
    /// Starts `words` in `namespace`, as the leader of a process group. `install` says how to get
    /// the program.
    pub(crate) fn start(
        namespace: &Namespace,
        words: &[String],
        install: &str,
        directory: &RunDirectory,
    ) -> Result<Self, LabError> {
        use std::os::unix::process::CommandExt as _;
        let (program, arguments) = words.split_first().map_or(("", &[][..]), |(p, a)| (p.as_str(), a));
        let mut command = Command::new(program);
        command.args(arguments).process_group(0).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        directory.shelter(&mut command, std::env::vars_os().map(|(variable, _)| variable));
        let mut child = directory.spawn(&mut command, namespace)?.map_err(|error| LabError::Contender {
            contender: program.to_owned(),
            reason: match error.kind() {
                io::ErrorKind::NotFound => format!("there is no such program. {install}"),
                _ => format!("it cannot be started: {error}. {install}"),
            },
        })?;
        let output = Output::default();
        // Only the first line of stdout is ever asked for; both go into the last lines.
        if let Some(stdout) = child.stdout.take() {
            output.follow(stdout, Source::Stdout);
        }
        if let Some(stderr) = child.stderr.take() {
            output.follow(stderr, Source::Stderr);
        }
        let name = program.rsplit('/').next().unwrap_or(program).to_owned();
        Ok(Self { name, child, output })
    }

    /// The first line on stdout, if it is there already.
    pub(crate) fn first_line(&self) -> Option<String> {
        self.output.0.lock().unwrap_or_else(PoisonError::into_inner).first.clone()
    }

    /// # Errors
    /// [`LabError::Contender`] with the program's last words if it has ended.
    pub(crate) fn check(&mut self) -> Result<(), LabError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                // Its last words may still be on their way.
                crate::clock::pause(Duration::from_millis(100));
                Err(self.failure(&format!("it ended ({status})")))
            }
            Err(error) => Err(self.failure(&format!("it cannot be watched: {error}"))),
        }
    }

    /// Whether it has ended well, once it has ended.
    ///
    /// # Errors
    /// [`LabError::Contender`] if that cannot be found out.
    pub(crate) fn ended(&mut self) -> Result<Option<bool>, LabError> {
        match self.child.try_wait() {
            Ok(status) => Ok(status.map(|status| status.success())),
            Err(error) => Err(self.failure(&format!("it cannot be watched: {error}"))),
        }
    }

    /// An error about this program, with its last words.
    pub(crate) fn failure(&self, what: &str) -> LabError {
        let lines = self.output.0.lock().unwrap_or_else(PoisonError::into_inner);
        let words: Vec<&str> = lines.last.iter().map(String::as_str).collect();
        let said = if words.is_empty() { String::new() } else { format!("; it said: {}", words.join(" / ")) };
        LabError::Contender { contender: self.name.clone(), reason: format!("{what}{said}") }
    }

    /// Processor time that the program's process group has spent.
    pub(crate) fn cpu(&self) -> Duration {
        let ticks: u64 = self.group().map(|(_, ticks)| ticks).sum();
        let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().map_or(100, |n| n.max(1).unsigned_abs());
        Duration::from_secs(ticks) / per_second
    }

    /// The most memory in bytes that the group's processes have had, each at its own moment.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = |(process, _): (PathBuf, u64)| fs::read_to_string(process.join("status")).ok();
        self.group().filter_map(status).filter_map(|status| peak_of(&status)).sum()
    }

    /// The processes of the program's group: where they are described, and the ticks they have spent.
    fn group(&self) -> impl Iterator<Item = (PathBuf, u64)> {
        let group = self.child.id();
        processes::all().filter_map(move |process| {
            let path = Path::new("/proc").join(process.to_string());
            let stat = fs::read_to_string(path.join("stat")).ok()?;
            Some((path, ticks_of_group(&stat, group)?))
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        processes::end_group(&mut self.child);
    }
}

/// User and kernel ticks of a process and its dead children, if it belongs to `group`
/// (proc_pid_stat(5), fields 5 and 14 to 17).
fn ticks_of_group(stat: &str, group: u32) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    (fields.get(2)?.parse() == Ok(group)).then_some(())?;
    Some((11..15).filter_map(|at| fields.get(at)?.parse::<u64>().ok()).sum())
}

/// Bytes of the largest resident set of a process (proc_pid_status(5), `VmHWM`).
fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Where a program wrote a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Stdout,
    Stderr,
}

impl Output {
    /// Reads to the end, on a thread of its own.
    fn follow(&self, from: impl Read + Send + 'static, source: Source) {
        let lines = Arc::clone(&self.0);
        let read = move || {
            let mut reader = BufReader::new(from);
            let mut line = Vec::new();
            loop {
                line.clear();
                match reader.by_ref().take(LINE).read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => keep(&lines, &line, source),
                }
            }
        };
        // Without the thread the program's output is lost, and nothing else.
        let _ = std::thread::Builder::new().name("output".to_owned()).spawn(read);
    }
}

fn keep(lines: &Mutex<Lines>, line: &[u8], source: Source) {
    let text = String::from_utf8_lossy(line).trim().to_owned();
    let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
    if source == Source::Stdout && lines.first.is_none() {
        lines.first = Some(text.clone());
    }
    if !text.is_empty() {
        lines.last.push_back(text);
    }
    if lines.last.len() > LINES {
        lines.last.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_belong_to_a_group() {
        let stat = "42 (a (strange) name) S 1 40 40 0 -1 0 0 0 0 0 10 20 3 4 20 0 1 0 999";
        assert_eq!(ticks_of_group(stat, 40), Some(37));
        assert_eq!(ticks_of_group(stat, 41), None);
        assert_eq!(ticks_of_group("", 40), None);
    }

    #[test]
    fn the_peak_of_memory_is_read() {
        assert_eq!(
            peak_of("Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t   1204 kB\nVmRSS:\t 7 kB\n"),
            Some(1_204 << 10)
        );
        assert_eq!(peak_of("Name:\tkthreadd\n"), None);
    }

    #[test]
    fn only_the_first_and_the_last_lines_are_kept() {
        let lines = Mutex::new(Lines::default());
        keep(&lines, b"warning\n", Source::Stderr);
        for n in 0..100 {
            keep(&lines, format!("line {n}\n").as_bytes(), Source::Stdout);
        }
        let lines = lines.into_inner().unwrap();
        assert_eq!(lines.first.as_deref(), Some("line 0"));
        assert_eq!(lines.last.len(), LINES);
        assert_eq!(lines.last.back().map(String::as_str), Some("line 99"));
    }
}
