//! From arguments to work and its result; one file per command.

mod client;
mod config;
mod demo;
mod doctor;
mod documents;
#[cfg(feature = "experiment")]
mod experiment;
#[cfg(feature = "lab")]
mod folder;
mod invite;
#[cfg(feature = "lab")]
mod lab;
mod outputs;
mod paths;
#[cfg(feature = "trace")]
mod qlog_view;
mod receive;
#[cfg(all(feature = "tunnel", target_os = "linux"))]
mod run;
mod send;
#[cfg(feature = "serve")]
mod serve;
mod server;
mod service;
mod status;
#[cfg(feature = "trace")]
mod trace_analyze;
#[cfg(all(feature = "tunnel", target_os = "linux"))]
mod tunnel;

use std::{
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
    sync::{Arc, RwLock},
    time::Duration,
};

use rustix::process::Signal as Kind;
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
};
use tracing::info;

use crate::{
    args::{Cli, Command, DialArgs, SessionArgs},
    client::{ClientOptions, DialOptions},
    config::Reload,
    console::print,
    failure::{Failure, directory_reason},
    identity::default_state_dir,
    invitation::{INVITATION_VARIABLE, Invitation},
    secret::Places,
    status::{Control, Feed, places},
    token::Service,
};

/// So many workers, or one for each core.
fn workers(wanted: Option<u8>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    wanted.map_or_else(cores, usize::from)
}

/// The threads that a command works on. A client has one connection, whose driver and whose streams
/// would only wake each other from one thread to the next (docs/decisions/0035).
pub fn threads(command: &Command) -> Builder {
    match command {
        Command::Client(_) | Command::Send(_) | Command::Receive(_) => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    }
}

/// What ends these threads when the command has ended.
///
/// Who has one thread besides waits for no more than a moment for what others read or write. Others wait for
/// all that is under way, such as the command of `mendpath run`.
pub fn end(command: &Command) -> fn(Runtime) {
    match command {
        Command::Client(_) | Command::Send(_) | Command::Receive(_) => {
            |runtime: Runtime| runtime.shutdown_timeout(LAST_WORK)
        }
        _ => drop,
    }
}

/// For what other threads write or read when a command ends.
const LAST_WORK: Duration = Duration::from_secs(1);

/// Does what the command line says, and returns the exit code; `reload` reads it again.
///
/// # Errors
/// What the user is to be told.
pub async fn run(cli: Cli, reload: Reload) -> Result<u8, Failure> {
    let done = match cli.command {
        Command::Demo(args) => demo::run(args).await,
        Command::Server(args) => server::run(args, reload).await,
        Command::Client(args) => client::run(args, reload).await,
        #[cfg(all(feature = "tunnel", target_os = "linux"))]
        Command::Run(args) => return run::run(*args).await,
        #[cfg(all(feature = "tunnel", target_os = "linux"))]
        Command::Tunnel(args) => tunnel::run(*args, reload).await,
        Command::Status(args) => status::run(args).await,
        Command::Paths(args) => paths::list(&args),
        Command::Path(args) => paths::change(args).await,
        Command::Doctor(args) => return doctor::run(args).await,
        Command::Completions(args) => documents::completions(&args),
        Command::Manual(args) => documents::manual(&args),
        Command::Config(command) => config::run(command),
        Command::Invite(args) => invite::run(args),
        Command::Send(args) => return send::run(args).await,
        Command::Receive(args) => return receive::run(args).await,
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(*args, reload).await,
        #[cfg(feature = "experiment")]
        Command::Experiment(command) => return experiment::run(command).await,
        #[cfg(feature = "lab")]
        Command::Lab(args) => return lab::run(*args).await,
        #[cfg(feature = "trace")]
        Command::Qlog(crate::args::QlogCommand::View(args)) => qlog_view::run(args),
        #[cfg(feature = "trace")]
        Command::Trace(crate::args::TraceCommand::Analyze(args)) => trace_analyze::run(args),
    };
    done.map(|()| 0)
}

fn state_dir(chosen: Option<PathBuf>) -> Result<PathBuf, Failure> {
    chosen.map_or_else(default_state_dir, Ok)
}

/// Where the invitation may be.
fn invitation(args: &DialArgs) -> Places<'_> {
    Places {
        what: "the invitation",
        argument: args.invitation.as_deref(),
        file: args.invitation_file.as_deref(),
        file_option: "--invitation-file",
        variable: INVITATION_VARIABLE,
    }
}

/// A client without proxies.
fn client_options(dial: &DialArgs, session: &SessionArgs) -> Result<ClientOptions, Failure> {
    let mut dial = dial_options(dial, Service::Proxy)?;
    dial.idle_timeout = Duration::from_secs(session.give_up);
    Ok(ClientOptions {
        dial,
        socks5: None,
        http: None,
        forwards: Vec::new(),
        admin: session.admin,
        credentials: None,
        show_names: !session.hide_names,
        early_answers: session.answer_early,
        wait_for_server: session.wait,
        path_orders: session.paths.orders(),
    })
}

fn dial_options(args: &DialArgs, service: Service) -> Result<DialOptions, Failure> {
    let places = invitation(args);
    let secret = places.read()?.ok_or_else(|| {
        Failure::usage(
            "cannot do without an invitation",
            "there is none on the command line and none in the variable MENDPATH_INVITATION",
            "Name a file that holds the line the other side printed with --invitation-file, or give - and paste it",
        )
    })?;
    let invitation: Invitation = secret.text.parse().map_err(|error| {
        Failure::usage("cannot use the invitation", error, "Copy the whole line that the other side printed")
    })?;
    places.warn_of(&secret);
    let mut options = DialOptions::new(invitation, service);
    options.paths = args.paths.clone();
    options.transport = Arc::new(RwLock::new(args.sending.choice(args.recovery)));
    Ok(options)
}

/// Lets `mendpath status` ask this process. A machine without a place for the socket is no reason
/// not to work.
fn show_status(role: &str, feed: Arc<Feed>) {
    match Control::bind(&places(), role) {
        Ok(control) => {
            info!(socket = %control.path().display(), "`mendpath status` is answered");
            tokio::spawn(control.serve(feed));
        }
        Err(error) => info!(%error, "no place for the socket of `mendpath status`"),
    }
}

/// The signals by which the user or the system wants the program to end. From here on none of them is
/// lost: what comes while the program looks elsewhere is there when it asks.
struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    /// Only for who asks for it: servers read their configuration again.
    hangup: Option<Signal>,
}

/// Which one came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Ctrl-C: somebody sits there and waits.
    Interrupt,
    /// SIGTERM: a service manager, as a rule. Or the terminal is gone.
    Terminate,
}

impl Ending {
    /// Of a command that came to nothing: 128 and the signal's number, as shells have it.
    fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

impl Signals {
    fn new() -> Self {
        let listen = |kind| signal(kind).ok();
        let (interrupt, terminate) = (listen(SignalKind::interrupt()), listen(SignalKind::terminate()));
        Self { interrupt, terminate, hangup: None }
    }

    /// With the terminal's end, after which there is something to clean up, unless that is to be
    /// ignored (nohup).
    fn with_hangup() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let listen = || signal(SignalKind::hangup()).ok();
        Self { hangup: (!ignores(&status, Kind::HUP)).then(listen).flatten(), ..Self::new() }
    }

    async fn next(&mut self) -> Ending {
        async fn comes(signal: &mut Option<Signal>) {
            match signal {
                Some(signal) => _ = signal.recv().await,
                None => std::future::pending().await,
            }
        }
        tokio::select! {
            () = comes(&mut self.interrupt) => Ending::Interrupt,
            () = comes(&mut self.terminate) => Ending::Terminate,
            () = comes(&mut self.hangup) => Ending::Terminate,
        }
    }
}

/// Whether a process with this /proc/PID/status ignores a signal. The mask's first bit is signal 1.
fn ignores(status: &str, signal: Kind) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| (mask >> (signal.as_raw() - 1)) & 1 == 1)
}

/// Whether the keyboard's signals come to this process.
#[cfg(any(feature = "lab", all(feature = "tunnel", target_os = "linux")))]
fn is_in_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| {
        rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == rustix::process::getpgrp())
    })
}

/// For connections to say goodbye at the end.
const GOODBYE: Duration = Duration::from_secs(2);

/// A file that cannot be written should show before the work, not after it.
fn check_writable(file: &Path) -> Result<(), Failure> {
    if file == Path::new("-") {
        return Ok(());
    }
    // Whoever reads from a named pipe would take this for all of it.
    if std::fs::metadata(file).is_ok_and(|found| found.file_type().is_fifo()) {
        return Ok(());
    }
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(file);
    opened.map(|_| ()).map_err(|error| unwritable(file, &error))
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).map_err(|error| unwritable(file, &error))
}

fn unwritable(file: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        format!("cannot write {}", file.display()),
        directory_reason(file, error),
        "Name another file",
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use tokio::runtime::{Handle, RuntimeFlavor};

    use super::*;

    #[test]
    fn who_has_one_connection_has_one_thread() {
        for (line, one) in
            [("receive", true), ("client mendpath://x", true), ("demo", false), ("server", false)]
        {
            let cli = Cli::parse_from(std::iter::once("mendpath").chain(line.split(' ')));
            let runtime = threads(&cli.command).build().unwrap();
            let flavor = runtime.block_on(async { Handle::current().runtime_flavor() });
            assert_eq!(flavor == RuntimeFlavor::CurrentThread, one, "{line}");
        }
        assert_eq!(workers(Some(3)), 3);
        assert!(workers(None) >= 1);
    }

    /// Of both sides' idle timeouts the shorter one counts.
    #[test]
    fn a_server_waits_as_long_as_the_most_patient_client() {
        let cli = Cli::parse_from(["mendpath", "client", "mendpath://x", "--give-up", "600"]);
        let Command::Client(args) = cli.command else { panic!("it is a client") };
        let patience = Duration::from_secs(args.session.give_up);
        assert!(crate::server::Limits::default().client_idle >= patience);
    }

    /// As one that reads what somebody else writes.
    #[test]
    fn a_client_ends_though_a_thread_is_held_up() {
        let cli = Cli::parse_from(["mendpath", "client", "mendpath://x"]);
        let runtime = threads(&cli.command).build().unwrap();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (began, begins) = std::sync::mpsc::channel();
        runtime.spawn_blocking(move || {
            began.send(()).unwrap();
            let _ = held.recv();
        });
        begins.recv().unwrap();
        end(&cli.command)(runtime);
        drop(release);
    }

    #[test]
    fn under_nohup_the_terminal_may_go() {
        let ignores_hangup = |status: &str| ignores(status, Kind::HUP);
        assert!(ignores_hangup("SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hangup("SigIgn:\t0000000000001000\n") && !ignores_hangup(""));
        assert!(ignores("SigIgn:\t0000000000000006\n", Kind::INT), "as of what a script leaves behind");
    }
}
