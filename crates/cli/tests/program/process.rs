//! The real program as a child process, for tests that kill it or take things from it.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread::JoinHandle,
    time::Duration,
};

/// After so long a test fails instead of holding up all others; nothing takes a tenth of it.
const PATIENCE: Duration = Duration::from_secs(300);

/// A `mendpath` that runs in the background; killed with the value.
pub struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
    /// All of its standard error.
    errors: Option<JoinHandle<Vec<String>>>,
    /// Where its socket is, unless it was told another place: tests do not meet each other's.
    _runtime: tempfile::TempDir,
}

impl Process {
    /// Starts it with `args`.
    pub fn start(args: &[&str]) -> Self {
        Self::spawn(Command::new(env!("CARGO_BIN_EXE_mendpath")).args(args))
    }

    /// Starts it with `args` so that it hears of the end of its terminal: whoever started this test under nohup
    /// has it ignore that, and what it starts as well.
    #[cfg(target_os = "linux")]
    pub fn start_in_terminal(args: &[&str]) -> Self {
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_mendpath")]).args(args);
        Self::spawn(&mut command)
    }

    /// Starts it with `args` after the shell's `preparation`, such as a lower limit.
    pub fn start_after(preparation: &str, args: &[&str]) -> Self {
        let script = format!("{preparation} && exec \"$0\" \"$@\"");
        Self::spawn(Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_mendpath")]).args(args))
    }

    /// The same with `input` as its standard input for the shell.
    pub fn start_with(input: impl Into<Stdio>, preparation: &str, args: &[&str]) -> Self {
        let script = format!("{preparation} && exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_mendpath")]).args(args);
        Self::spawn_with(&mut command, input)
    }

    fn spawn(command: &mut Command) -> Self {
        Self::spawn_with(command, Stdio::null())
    }

    fn spawn_with(command: &mut Command, input: impl Into<Stdio>) -> Self {
        let runtime = tempfile::tempdir().unwrap();
        let command = command
            .env("XDG_RUNTIME_DIR", runtime.path())
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr: BufReader<ChildStderr> = BufReader::new(child.stderr.take().unwrap());
        let (tell, lines) = mpsc::channel();
        let also = tell.clone();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let errors = std::thread::spawn(move || {
            let lines = stderr.lines().map_while(Result::ok).inspect(|line| {
                // Shown when a test fails.
                println!("{line}");
                let _ = also.send(line.clone());
            });
            lines.collect()
        });
        Self { child, lines, errors: Some(errors), _runtime: runtime }
    }

    /// The first line, of either output, that contains `part`; earlier lines are forgotten.
    pub fn line_with(&self, part: &str) -> String {
        std::iter::repeat_with(|| self.line(part)).find(|line| line.contains(part)).expect("it never ends")
    }

    /// The next line of either output, while `part` is looked for.
    fn line(&self, part: &str) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("it ended without `{part}`"),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not say `{part}`"),
        }
    }

    /// The first line with each of `parts`, which may come in any order.
    pub fn lines_with<const N: usize>(&self, parts: [&str; N]) -> [String; N] {
        let mut found = [const { None }; N];
        while let Some(missing) = found.iter().position(Option::is_none) {
            let line = self.line(parts[missing]);
            let new = |nth: &usize| found[*nth].is_none() && line.contains(parts[*nth]);
            if let Some(nth) = (0..N).find(new) {
                found[nth] = Some(line);
            }
        }
        found.map(|line| line.expect("all were found"))
    }

    /// The address at the end of the first line that contains `part`.
    pub fn address_after(&self, part: &str) -> SocketAddr {
        address_in(&self.line_with(part), part)
    }

    /// The system's number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to read its options again.
    pub fn hang_up(&self) {
        let process = nix::unistd::Pid::from_raw(self.id() as i32);
        nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGHUP).unwrap();
    }

    /// Waits for its end, and returns everything that it said on standard error.
    pub fn errors(mut self) -> Vec<String> {
        let errors = self.errors.take().expect("this is asked once");
        self.ended();
        errors.join().unwrap()
    }

    /// Waits for its end, and returns its exit code if it was not killed.
    pub fn wait(mut self) -> Option<i32> {
        self.ended().code()
    }

    /// With its outputs at their end it is, too.
    fn ended(&mut self) -> ExitStatus {
        let end = std::iter::repeat_with(|| self.lines.recv_timeout(PATIENCE)).find_map(Result::err);
        assert_eq!(end, Some(mpsc::RecvTimeoutError::Disconnected), "it does not end");
        self.child.wait().unwrap()
    }

    /// As `kill -9` does.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address after `part`.
fn address_in(line: &str, part: &str) -> SocketAddr {
    let after = &line[line.find(part).unwrap() + part.len()..];
    let word = after.split([' ', ';']).find(|word| !word.is_empty()).unwrap_or_default();
    word.parse().unwrap_or_else(|_| panic!("no address after `{part}`: {line}"))
}
