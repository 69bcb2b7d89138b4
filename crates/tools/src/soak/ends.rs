//! The two ends of the proxy, each in a process of its own.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdout, Command, ExitCode, Stdio},
    sync::{Arc, RwLock},
    time::Duration as StdDuration,
};

use crate::{
    account::Account,
    soak::{ANY, Args, Outcome},
};
use clap::Parser as _;
use mendpath_cli::{
    args::Cli,
    backoff::pause,
    client::{Client, ClientOptions, DialOptions, EarlyAnswers},
    commands,
    config::Reload,
    console::say,
    invitation::Invitation,
    token::Service,
    transport::{Choice, parse_recovery},
};

/// `mendpath server`, until the parent ends.
pub async fn server_process(args: Args) -> Outcome<ExitCode> {
    end_with_parent();
    let state = args.state.expect("the parent names it");
    let listen = args.listen.unwrap_or(ANY).to_string();
    let line = ["mendpath", "server", "--listen", &listen, "--allow-private", "--state", &state];
    commands::run(Cli::parse_from(line.into_iter().chain(["--recovery", &args.recovery])), Reload::default())
        .await?;
    Ok(ExitCode::SUCCESS)
}

/// `mendpath client` with a second path, until the parent ends.
pub async fn client_process(args: Args) -> Outcome<ExitCode> {
    end_with_parent();
    let invitation: Invitation = args.invitation.expect("the parent names it").parse()?;
    let mut dial = DialOptions::new(invitation, Service::Proxy);
    let choice = Choice { recovery: parse_recovery(&args.recovery)?, ..Choice::default() };
    dial.transport = Arc::new(RwLock::new(choice));
    let options = ClientOptions {
        dial,
        socks5: Some(ANY),
        http: None,
        forwards: Vec::new(),
        admin: Some(ANY),
        show_names: true,
        credentials: None,
        early_answers: EarlyAnswers::default(),
        wait_for_server: args.wait,
        path_orders: Vec::new(),
    };
    let client = Client::start(options).await?;
    let second = args.second.expect("the parent names it");
    let uplink = client.uplink.clone();
    tokio::spawn(async move {
        loop {
            if let Some(session) = uplink.now() {
                let connection = session.connection;
                let open = connection.path_stats().iter().any(|path| path.network.remote == second);
                if !open {
                    let added = connection.add_path(mendpath::PathOptions::new().remote(second)).await;
                    say(format_args!("second path: {added:?}"));
                }
            }
            pause(StdDuration::from_millis(200)).await;
        }
    });
    let (socks5, admin) = (client.addresses.socks5, client.addresses.admin);
    let mut out = io::stdout();
    writeln!(out, "{} {}", socks5.expect("asked for"), admin.expect("asked for"))?;
    out.flush()?;
    Err(client.run().await.into())
}

/// No process is left behind when the parent ends, however it ends.
fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
}

/// One end of the proxy as the parent sees it.
pub struct End {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl End {
    /// Starts this program in another mode.
    pub fn start(mode: &str, args: &Args, more: &[&str]) -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["soak", mode, "--recovery", &args.recovery])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Ok(Self { child, stdout })
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        if line.is_empty() { Err("a process ended before it was ready".into()) } else { Ok(line) }
    }

    /// What the system has it down for.
    pub fn account(&self) -> Account {
        Account::of(self.child.id())
    }

    /// Ends it at once, as `kill -9` does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.kill();
    }
}
