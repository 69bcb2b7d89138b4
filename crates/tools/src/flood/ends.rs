//! The processes of a contest, and what the system knows of them.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    process::Stdio,
};

use mendpath_cli::invitation::Invitation;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, ChildStdout, Command},
};

use crate::{
    account::Account,
    flood::{ANY, Outcome},
};

/// This program in another role. It ends with its parent.
pub struct Process {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Process {
    /// Starts it.
    pub fn start(line: &[String], verbose: bool) -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("flood")
            .args(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(if verbose { Stdio::inherit() } else { Stdio::null() })
            .kill_on_drop(true)
            .spawn()?;
        let stdout = BufReader::new(child.stdout.take().ok_or("no pipe to a process")?);
        Ok(Self { child, stdout })
    }

    /// The next line that it prints.
    pub async fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).await?;
        if line.is_empty() {
            Err("a process ended before it was ready; --verbose shows why".into())
        } else {
            Ok(line.trim().to_owned())
        }
    }

    /// Whether it has not ended by itself.
    pub fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Lets it go on, or end: whatever the end of its standard input means to it.
    pub fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// What the system has it down for; fails when the process is gone.
    pub fn account(&self) -> Outcome<Account> {
        Ok(Account::of(self.child.id().ok_or("the process is gone")?))
    }

    /// Processor time so far, in seconds.
    pub fn processor_seconds(&self) -> Outcome<f64> {
        Ok(self.account()?.cpu()?.as_secs_f64())
    }
}

/// Which program is judged, and whether it may speak.
#[derive(Clone, Default)]
pub struct Program {
    /// Not the one that this program was built with.
    pub file: Option<PathBuf>,
    /// Shows what it has to say.
    pub verbose: bool,
}

impl Program {
    /// How this program is told to become it.
    fn line(&self) -> Vec<String> {
        let mut line = vec!["mendpath".to_owned()];
        line.extend(self.file.iter().map(|file| format!("--program={}", file.display())));
        line
    }
}

/// The server, and how to reach it.
pub async fn server(
    program: &Program,
    state: &str,
    resolver: Option<Ipv4Addr>,
) -> Outcome<(Process, Invitation)> {
    let mut line = program.line();
    line.extend(resolver.map(|address| format!("--resolver={address}")));
    let command =
        ["--", "mendpath", "server", "--listen", "127.0.0.1:0", "--allow-private", "--state", state];
    line.extend(command.map(str::to_owned));
    let mut server = Process::start(&line, program.verbose)?;
    let invitation = server.line().await?.parse()?;
    Ok((server, invitation))
}

/// A client, and where its SOCKS5 proxy will be.
pub fn client(program: &Program, invitation: &Invitation) -> Outcome<(Process, SocketAddr)> {
    // Free now: nothing else on this machine takes ports so fast that it would be a worry.
    let socks5 = TcpListener::bind(ANY)?.local_addr()?;
    let mut line = program.line();
    line.extend(["--", "mendpath", "client"].map(str::to_owned));
    line.extend([invitation.to_string(), format!("--socks5={socks5}")]);
    Ok((Process::start(&line, program.verbose)?, socks5))
}
