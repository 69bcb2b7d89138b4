//! The command line. What `--help` prints is written to teach: what a command does, and how it is
//! typed.

mod client;
mod config;
mod demo;
mod doctor;
#[cfg(feature = "experiment")]
mod experiment;
mod invite;
#[cfg(feature = "lab")]
mod lab;
mod paths;
#[cfg(feature = "trace")]
mod qlog;
#[cfg(all(feature = "tunnel", target_os = "linux"))]
mod run;
mod sending;
#[cfg(feature = "serve")]
mod serve;
mod server;
#[cfg(feature = "trace")]
mod trace;

use std::{net::SocketAddr, path::PathBuf};

use clap::{ArgAction, Args, Parser, Subcommand};

#[cfg(feature = "experiment")]
pub use self::experiment::{ExperimentCommand, ListArgs, MergeArgs, RunArgs};
#[cfg(feature = "lab")]
pub use self::lab::{AppProtection, CallArgs, LabArgs, LabCommand, LabRunArgs, RelayArgs};
#[cfg(feature = "trace")]
pub use self::qlog::{QlogCommand, ViewArgs};
#[cfg(feature = "trace")]
pub use self::trace::{AnalyzeArgs, TraceCommand};

#[cfg(all(feature = "tunnel", target_os = "linux"))]
pub use self::run::{CarryArgs, RunCommandArgs, TunnelArgs};

pub use self::client::{ClientArgs, DialArgs, SessionArgs};
pub use self::config::{CONFIGURED, CheckArgs, ConfigCommand, TemplateArgs};
pub use self::demo::DemoArgs;
#[cfg(feature = "serve")]
pub use self::serve::ServeArgs;

pub use self::doctor::DoctorArgs;
pub use self::invite::{
    AddArgs, ChangeArgs, ImportArgs, InviteArgs, InviteCommand, InviteListArgs, Limit, RevokeArgs, ShowArgs,
    StateArgs, TermsArgs,
};

pub use self::paths::{CapArgs, NamedArgs, PathArgs, PathCommand, PathUseArgs, PathsArgs};
pub use self::sending::SendingArgs;
pub use self::server::ServerArgs;

use crate::{console::LogFormat, server::Advertise, target::TargetError};

/// Multipath QUIC that repairs loss before it costs a round trip.
#[derive(Debug, Parser)]
#[command(
    name = "mendpath",
    version,
    about = "Multipath QUIC that repairs loss before it costs a round trip",
    long_about = "Multipath QUIC that repairs loss before it costs a round trip.\n\n\
                  A client and a server share one connection over several network paths (WiFi and cellular, two providers, ...). What one \
                  path loses is mended over the others. Applications use it through a SOCKS5 or HTTP proxy, or forwarded ports.",
    after_help = "Examples:\n  \
                  mendpath demo                       see on this machine what it gains\n  \
                  mendpath server                     on a well-connected host: prints an invitation\n  \
                  mendpath client --invitation-file FILE   at home: a SOCKS5 proxy on 127.0.0.1:1080\n  \
                  curl --socks5-hostname 127.0.0.1:1080 https://example.org/"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Log what happens on stderr: -v the events, -vv the decisions, -vvv everything.
    #[arg(short, long, global = true, display_order = 100, action = ArgAction::Count)]
    pub verbose: u8,
    /// How lines on stderr are written: text, or json (an object on each line).
    #[arg(long, global = true, display_order = 101, value_name = "FORMAT", default_value_t)]
    pub log_format: LogFormat,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compare recovery schemes over emulated paths, on this machine.
    #[command(long_about = "Compare recovery schemes over emulated paths, on this machine.\n\n\
                  Real endpoints talk over real UDP sockets; between them, emulated links delay and lose packets. Needs neither root nor \
                  set-up. Every response has a connection of its own; the time runs from the request to the response's last byte. The n-th \
                  response of every row meets the same losses.")]
    Demo(DemoArgs),
    /// Let invited clients reach other hosts from here.
    #[command(long_about = "Let invited clients reach other hosts from here.\n\n\
                  Prints one line on stdout: the invitation. Whoever has it may use this server, so hand it over like a password. The \
                  server's key and the secret behind its tokens are made on first use and kept in --state; the invitation stays the same \
                  until they are deleted.")]
    Server(ServerArgs),
    /// Offer proxies on this machine, carried over every usable path.
    #[command(long_about = "Offer proxies on this machine, carried over every usable path.\n\n\
                  Paths come and go with their interfaces while the client runs; connections through it go on as long as one path works. \
                  When all are gone for too long, it reconnects by itself. Without --socks5, --http or --forward it offers SOCKS5 on \
                  127.0.0.1:1080.")]
    Client(ClientArgs),
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    /// Run one command, all of whose traffic goes through the server (Linux, without root).
    #[command(long_about = "Run one command, all of whose traffic goes through the server.\n\n\
                  The command and its children get a network of their own, in which a TUN device is the only way out: TCP, UDP and names go \
                  over every usable path, whether they know of proxies or not. It needs no root, and nothing else on the machine changes. \
                  What listens on this machine's 127.0.0.1 is not there for them.")]
    Run(Box<RunCommandArgs>),
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    /// Send everything on this machine through the server (Linux, root).
    #[command(long_about = "Send everything on this machine through the server.\n\n\
                  A TUN device takes the traffic of all programs, whether they know of proxies or not: TCP, UDP and names go over every \
                  usable path. Networks that this machine is in stay as they are. Needs root or CAP_NET_ADMIN; routes are in a table of their \
                  own, and everything is undone at the end, or at the next start if this one was killed.")]
    Tunnel(Box<TunnelArgs>),
    /// Show what the clients and servers do that run on this machine.
    #[command(long_about = "Show what the clients and servers do that run on this machine.\n\n\
                  Asks those of the same user, or as root those of root, through a socket in $XDG_RUNTIME_DIR/mendpath or /run/mendpath \
                  that no other user can open.")]
    Status(StatusArgs),
    /// Show which interfaces of this machine a client would use, and why not the others.
    Paths(PathsArgs),
    /// Change what a path of a running client is used for.
    #[command(long_about = "Change what a path of a running client is used for.\n\n\
                  It holds for both directions, also when the interface comes back or the connection is made anew, until the client \
                  ends or something else is said.")]
    Path(PathArgs),
    /// Try what usually goes wrong, and say what to do.
    #[command(long_about = "Try what usually goes wrong, and say what to do.\n\n\
                  One line for each check: ok, warning or problem. On a client it shakes hands with the server over each interface and \
                  tries which packets pass; on a server it looks at its port, its address, its state and the firewall; on both at clock, \
                  limits and buffers. Changes nothing, and needs no root. The exit code is 1 if there is a problem.")]
    Doctor(DoctorArgs),
    /// Say who may use the server on this machine, and how much.
    #[command(long_about = "Say who may use the server on this machine, and how much.\n\n\
                  Each account has an invitation of its own, which can be limited and taken back; a running server follows within a second. \
                  Run it as the user that the server runs as, or as root, with the same --state.")]
    Invite(InviteArgs),
    /// Check configuration files of `server`, `client`, `tunnel` and `serve`, and make one.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Hand a file over to `mendpath receive`.
    Send(SendArgs),
    /// Wait for one file from `mendpath send`.
    #[command(long_about = "Wait for one file from `mendpath send`.\n\n\
                  Prints the invitation on stdout, stores the file that comes under its own name in --out, checks its SHA-256, and ends.")]
    Receive(ReceiveArgs),
    #[cfg(feature = "serve")]
    /// Serve web pages by HTTPS, and by HTTP/3 with loss repair to browsers as they are.
    #[command(
        long_about = "Serve web pages by HTTPS, and by HTTP/3 with loss repair to browsers as they are.\n\n\
                  The files of a directory, or what a program on this machine answers (--proxy). Browsers come by HTTP/1.1 or 2 over TCP, \
                  are told of HTTP/3 (Alt-Svc), and use it from then on: packets that may be lost are sent again before anybody misses them. \
                  They need not know of Mendpath. TCP and UDP use the same port number."
    )]
    Serve(Box<ServeArgs>),
    /// Print what makes a shell complete our command lines.
    #[command(after_help = "Examples:\n  \
                  mendpath completions bash > ~/.local/share/bash-completion/completions/mendpath\n  \
                  mendpath completions fish > ~/.config/fish/completions/mendpath.fish")]
    Completions(CompletionsArgs),
    /// Write manual pages of every command into a directory.
    #[command(after_help = "Example:\n  mendpath manual ~/.local/share/man/man1")]
    Manual(ManualArgs),
    #[cfg(feature = "lab")]
    /// Compare with the kernel's TCP and MPTCP and other programs over emulated links (Linux,
    /// root).
    #[command(
        long_about = "Compare with the kernel's TCP and MPTCP and other programs over emulated links.\n\n\
                  Each contender gets two network namespaces of its own, joined by TUN devices with emulated links between them. The n-th fetch \
                  of every contender meets the same losses. Needs Linux and root; the machine's own network is not touched, and everything \
                  is removed at the end."
    )]
    Lab(Box<LabArgs>),
    #[cfg(feature = "trace")]
    /// Look into packet captures.
    #[command(subcommand)]
    Trace(TraceCommand),
    #[cfg(feature = "trace")]
    /// Look into traces of our own connections.
    #[command(subcommand)]
    Qlog(QlogCommand),
    #[cfg(feature = "experiment")]
    /// Simulate the papers' experiments, or your own.
    #[command(subcommand)]
    Experiment(ExperimentCommand),
}

fn parse_advertise(text: &str) -> Result<Advertise, String> {
    text.parse().map_err(|error: TargetError| error.to_string())
}

/// An address and a port of this machine, where something is to listen.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "it is no address with a port, such as 127.0.0.1:9000 or [::]:9000".to_owned())
}

/// Arguments of `status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  mendpath status                 one screen for each\n  \
                  mendpath status --watch         go on, once a second\n  \
                  mendpath status --json          for programs: docs/json.md")]
pub struct StatusArgs {
    /// Go on once a second until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
    /// Print each snapshot as a line of JSON.
    #[arg(long)]
    pub json: bool,
    /// Ask the process with this socket only.
    #[arg(long, value_name = "FILE")]
    pub socket: Option<PathBuf>,
}

/// Arguments of `send`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  mendpath send holiday.tar --invitation-file invitation --path wlan0 --path wwan0\n  \
                  mendpath send holiday.tar -     and paste the invitation")]
pub struct SendArgs {
    /// The file.
    pub file: PathBuf,
    /// Where and how.
    #[command(flatten)]
    pub dial: DialArgs,
}

/// Arguments of `receive`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  mendpath receive --out ~/Downloads")]
pub struct ReceiveArgs {
    /// UDP address to listen on; port 0 takes any.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:4434", value_parser = parse_address)]
    pub listen: SocketAddr,
    /// Host, or HOST:PORT, for the invitation [default: the address listened on, or this
    /// machine's].
    #[arg(long, value_name = "HOST[:PORT]", value_parser = parse_advertise)]
    pub advertise: Option<Advertise>,
    /// Directory for the file.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    /// Directory of the key and the token secret [default: ~/.local/state/mendpath].
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Replace a file of the same name.
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// Arguments of `manual`.
#[derive(Debug, Args)]
pub struct ManualArgs {
    /// The directory, which is made if it is not there.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use mendpath::{ControllerKind, RecoveryKind, SchedulerKind};

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn unknown_schemes_are_refused_with_what_exists() {
        let error =
            Cli::try_parse_from(["mendpath", "client", "x", "--recovery", "tcpc"]).unwrap_err().to_string();
        let exist =
            "there is no `tcpc`: use one of none, proactive, fuso, cofuso, ctcp, slp, streaming, auto";
        assert!(error.contains(exist), "{error}");
        let error =
            Cli::try_parse_from(["mendpath", "server", "--congestion", "olla"]).unwrap_err().to_string();
        assert!(error.contains("there is no `olla`: use one of "), "{error}");
        assert!(Cli::try_parse_from(["mendpath", "server", "--congestion", "olia"]).is_ok());
    }

    /// The help names what there is; a registry does not know of it.
    #[test]
    fn help_names_every_scheme() {
        let recovery: Vec<_> = RecoveryKind::ALL.iter().map(|kind| kind.name()).collect();
        let congestion: Vec<_> = ControllerKind::ALL.iter().map(|kind| kind.name()).collect();
        let scheduler: Vec<_> = SchedulerKind::ALL.iter().map(|kind| kind.name()).collect();
        let (mut command, mut looked) = (Cli::command(), 0);
        command.build();
        for of_command in command.get_subcommands() {
            for (option, all) in
                [("recovery", &recovery), ("congestion", &congestion), ("scheduler", &scheduler)]
            {
                let Some(arg) = of_command.get_arguments().find(|arg| arg.get_long() == Some(option)) else {
                    continue;
                };
                let help = arg.get_long_help().or(arg.get_help()).unwrap().to_string();
                let words: Vec<&str> = help.split([' ', ',', '.', '\n']).collect();
                let missing: Vec<_> = all.iter().filter(|name| !words.contains(*name)).collect();
                assert!(missing.is_empty(), "{} --{option} lacks {missing:?}: {help}", of_command.get_name());
                looked += 1;
            }
        }
        assert!(looked > 10, "{looked}");
    }

    /// As where the port is left out, or a name stands in the place of an address.
    #[test]
    fn what_is_no_address_to_listen_on_is_refused_with_one_that_is() {
        for (command, option) in [
            ("server", "--listen"),
            ("server", "--admin"),
            ("receive", "--listen"),
            ("client", "--socks5"),
            ("client", "--http"),
            ("client", "--admin"),
        ] {
            for address in ["127.0.0.1", "localhost:9000", ":9000", "9000", "127.0.0.1:90000", "::1:x"] {
                let error =
                    Cli::try_parse_from(["mendpath", command, option, address]).unwrap_err().to_string();
                let example = "it is no address with a port, such as 127.0.0.1:9000 or [::]:9000";
                assert!(error.contains(example), "{command} {option} {address}: {error}");
            }
        }
        for address in ["127.0.0.1:9000", "[::]:9000"] {
            assert!(Cli::try_parse_from(["mendpath", "server", "--listen", address]).is_ok(), "{address}");
        }
    }

    /// One that is longer is broken where words end, and is then nothing that can be typed.
    #[test]
    fn an_example_is_a_line() {
        fn look(command: &clap::Command) -> usize {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> = help.lines().filter(|line| line.starts_with("  ")).collect();
            for example in &examples {
                assert!(example.chars().count() <= 100, "{}: {example}", command.get_name());
            }
            examples.len() + command.get_subcommands().map(look).sum::<usize>()
        }
        assert!(look(&Cli::command()) > 20);
    }

    #[test]
    fn an_experiment_names_plans_or_asks_for_all() {
        let parse = |more: &[&str]| Cli::try_parse_from([&["mendpath", "experiment", "run"], more].concat());
        assert!(parse(&["--all"]).is_ok() && parse(&["fuso-fig2", "fuso-fig4"]).is_ok());
        assert!(parse(&[]).is_err() && parse(&["--all", "fuso-fig2"]).is_err());
    }

    #[test]
    fn lists_may_be_repeated_or_separated() {
        let cli =
            Cli::try_parse_from(["mendpath", "demo", "--recovery", "none,fuso", "--recovery", "cofuso"])
                .unwrap();
        let Command::Demo(args) = cli.command else { panic!("not demo") };
        assert_eq!(args.recovery, [RecoveryKind::None, RecoveryKind::Fuso, RecoveryKind::Cofuso]);
    }
}
