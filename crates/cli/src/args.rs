//! The command line. What `--help` prints is written to teach: what a command does, and how it is
//! typed.

mod config;
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
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "trace")]
mod trace;

use std::{net::SocketAddr, path::PathBuf};

use clap::{ArgAction, Args, Parser, Subcommand};
use mendpath::{ControllerKind, QlogDirectory, RecoveryKind, SchedulerKind};
use units::Bytes;

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

pub use self::config::{CONFIGURED, CheckArgs, ConfigCommand, TemplateArgs};
#[cfg(feature = "serve")]
pub use self::serve::ServeArgs;

pub use self::doctor::DoctorArgs;
pub use self::invite::{
    AddArgs, ChangeArgs, ImportArgs, InviteArgs, InviteCommand, InviteListArgs, Limit, RevokeArgs, ShowArgs,
    StateArgs, TermsArgs,
};

pub use self::paths::{CapArgs, NamedArgs, PathArgs, PathCommand, PathUseArgs, PathsArgs};

use crate::{
    client::{EarlyAnswers, Forward, PathSpec},
    console::LogFormat,
    demo,
    quic_lb::QuicLbOptions,
    server::{Advertise, DNS_PORT},
    target::TargetError,
    transport::{Choice, parse_congestion, parse_qlog, parse_recovery, parse_scheduler},
};

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

/// Arguments of `demo`.
#[derive(Debug, Args)]
#[command(after_help = "A path is described by rate=50mbit,delay=20ms,loss=1% and, if wanted, more:\n  \
                  rate     of each direction                   [default: 100mbit]\n  \
                  delay    round-trip time                     [default: 50ms]\n  \
                  loss     from server to client               [default: 0]\n  \
                  loss-up  from client to server               [default: 0]\n  \
                  burst    mean length of a burst of losses in packets\n  \
                  jitter   of the one-way delay\n  \
                  queue    what may wait before the link       [default: one round trip's worth]\n\n\
                  Examples:\n  \
                  mendpath demo\n  \
                  mendpath demo --virtual                  the links alone, without this machine's noise\n  \
                  mendpath demo --html demo.html --json demo.json\n  \
                  mendpath demo --path rate=50mbit,delay=20ms,loss=1% --path rate=10mbit,delay=80ms,loss=3%,burst=2\n  \
                  mendpath demo --path loss=2% --recovery none,fuso,cofuso --size 20kB --count 500")]
pub struct DemoArgs {
    /// An emulated path; give it several times for several [default: two of 100mbit and 50ms, the
    /// second with loss=2%].
    #[arg(long = "path", value_name = "PATH")]
    pub paths: Vec<demo::PathSpec>,
    /// Size of each response.
    #[arg(long, default_value = "60kB")]
    pub size: Bytes,
    /// Responses per row [default: 200, with --quick 24].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub count: Option<u32>,
    /// Schemes to compare over all paths: none, proactive, fuso, cofuso, auto, ctcp, slp, streaming
    /// [default: the first five].
    #[arg(long, value_name = "SCHEME", value_delimiter = ',', value_parser = parse_recovery)]
    pub recovery: Vec<RecoveryKind>,
    /// Congestion controller of every path: auto, cubic, newreno, ctcp, ctcp-printed,
    /// lia, olia, balia, dctcp.
    #[arg(long, default_value = "auto", value_parser = parse_congestion)]
    pub congestion: ControllerKind,
    /// UDP payload of a full packet in bytes; a real connection begins with 1200 and searches for
    /// more.
    #[arg(long, value_name = "BYTES", default_value_t = 1_452, value_parser = clap::value_parser!(u16).range(1_200..=1_472))]
    pub datagram: u16,
    /// Number from which all losses derive.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Responses under way at a time, each on links of its own [default: 12].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub lanes: Option<u16>,
    /// The same in virtual time, within a second or two: no sockets, no noise of this machine, the
    /// same digits every time.
    #[arg(long = "virtual", conflicts_with = "lanes")]
    pub virtual_time: bool,
    /// A few seconds instead of most of a minute; too few responses for a 99th percentile worth the
    /// name.
    #[arg(long)]
    pub quick: bool,
    /// Write the results as JSON (`-` for stdout, instead of the table).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with a picture and the numbers (`-` for stdout, instead of the table).
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write a picture of the tails and what they cost (`-` for stdout, instead of the table).
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Arguments of `server`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  mendpath server --listen 0.0.0.0:4433\n  \
                  mendpath server --listen '[::]:443' --advertise vps.example.org\n  \
                  mendpath server --allow-private          clients may also reach this server's own network\n  \
                  mendpath server --drain                  the one that runs: no new clients, end with the last connection\n  \
                  mendpath server --drain --drain-time 5   the same, within 5 s")]
pub struct ServerArgs {
    /// Read options from the table `server` of this file [default: the variable MENDPATH_CONFIG].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// UDP address to listen on; `[::]:4433` takes IPv4 and IPv6.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:4433")]
    pub listen: SocketAddr,
    /// Host, or HOST:PORT, for the invitation; several times for further servers that have the same
    /// keys, of which clients choose one [default: the address listened on, or this machine's].
    #[arg(long, value_name = "HOST[:PORT]", value_parser = parse_advertise)]
    pub advertise: Vec<Advertise>,
    /// Directory of the keys, the token secret and the accounts [default: ~/.local/state/mendpath].
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Let clients reach private, loopback and link-local addresses as well.
    #[arg(long)]
    pub allow_private: bool,
    /// Name server to ask for clients' names, also more than one [default: those of
    /// /etc/resolv.conf].
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse_name_server)]
    pub dns: Vec<SocketAddr>,
    /// Clients at a time.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_clients: u32,
    /// Proxied connections per client at a time.
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_streams: u32,
    /// Worker threads, each with a socket and clients of its own; Linux takes each packet to its
    /// worker [default: one for each core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub workers: Option<u8>,
    /// How this side mends what it sends, so downloads: none, proactive, fuso, cofuso, ctcp, slp,
    /// streaming, auto.
    #[arg(long, value_name = "SCHEME", default_value = "auto", value_parser = parse_recovery)]
    pub recovery: RecoveryKind,
    /// How else it sends.
    #[command(flatten)]
    pub sending: SendingArgs,
    /// Show a live page and statistics over HTTP here, on loopback: http://ADDR/ for people, /stats
    /// as JSON and /metrics for Prometheus, for all clients together and for each account.
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<SocketAddr>,
    /// Leave the hosts that clients connect to out of statistics and events.
    #[arg(long)]
    pub hide_names: bool,
    /// Write this server's id into connection ids, for load balancers to read (QUIC-LB):
    /// `id=HEX[,nonce=BYTES][,config=0..6][,length=off]`.
    #[arg(long, value_name = "CONFIG")]
    pub quic_lb: Option<QuicLbOptions>,
    /// Encrypt connection ids with the key in this file, 32 hexadecimal digits that only you and
    /// the balancers may read (`-` for stdin) [default: the variable MENDPATH_QUIC_LB_KEY].
    #[arg(long, value_name = "FILE")]
    pub quic_lb_key_file: Option<PathBuf>,
    /// Offer tunnels of packets as well, for `mendpath tunnel --tcp raw`: makes a TUN device, forwards
    /// what comes out of it and masquerades it. Needs root or CAP_NET_ADMIN, and `nft`.
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    #[arg(long)]
    pub tunnel: bool,
    /// Networks that tunnels have their addresses from, one of IPv4 and one of IPv6 at most
    /// [default: 198.19.0.0/16 and fd6d:656e:6470:1::/64].
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    #[arg(long, value_name = "CIDR")]
    pub tunnel_pool: Vec<ipnet::IpNet>,
    /// Seconds that connections have to end when the server is to stop (SIGTERM, --drain); with
    /// --drain, this time instead of what the running server was told [default: 30].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub drain_time: Option<u64>,
    /// Have the server that runs already stop in good order: it takes no new clients, tells those
    /// it has to go to another server, and ends with their last connection. Waits for that.
    #[arg(long, conflicts_with_all = ["config", "listen"])]
    pub drain: bool,
    /// Tell the server with this socket, of several that run.
    #[arg(long, value_name = "FILE", requires = "drain")]
    pub socket: Option<PathBuf>,
}

/// How either end of the proxy pair sends, besides its recovery scheme.
#[derive(Debug, Args)]
pub struct SendingArgs {
    /// Congestion controller of what this side sends: auto, cubic, newreno, ctcp, ctcp-printed,
    /// lia, olia, balia, dctcp.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = parse_congestion)]
    pub congestion: ControllerKind,
    /// Which path carries the next packet of what this side sends: earliest-delivery, lowest-rtt,
    /// ecf, blest, round-robin.
    #[arg(long, value_name = "SCHEDULER", default_value = "earliest-delivery", value_parser = parse_scheduler)]
    pub scheduler: SchedulerKind,
    /// Write a trace of every connection into this directory, in qlog's format: what was sent, lost
    /// and mended, and why.
    #[arg(long, value_name = "DIR", value_parser = parse_qlog)]
    pub qlog: Option<QlogDirectory>,
}

impl SendingArgs {
    /// The same with a recovery scheme.
    pub(crate) fn choice(&self, recovery: RecoveryKind) -> Choice {
        let Self { congestion, scheduler, qlog } = self;
        Choice { recovery, congestion: *congestion, scheduler: *scheduler, qlog: qlog.clone() }
    }
}

fn parse_advertise(text: &str) -> Result<Advertise, String> {
    text.parse().map_err(|error: TargetError| error.to_string())
}

fn parse_name_server(text: &str) -> Result<SocketAddr, String> {
    let alone = || text.parse().map(|ip| SocketAddr::new(ip, DNS_PORT));
    text.parse()
        .or_else(|_| alone())
        .map_err(|_| "write an address, with or without a port: 192.0.2.53".to_owned())
}

/// The server and the ways to it, for `client` and `send`.
#[derive(Debug, Args)]
pub struct DialArgs {
    /// The line that the other side printed, or `-` to read it from stdin; on the command line
    /// other users of this machine can read it (and quote it: it contains `?`) [default: the
    /// variable MENDPATH_INVITATION].
    #[arg(value_name = "INVITATION")]
    pub invitation: Option<String>,
    /// Read the invitation from this file, which only you may read (`-` for stdin).
    #[arg(long, value_name = "FILE", conflicts_with = "invitation")]
    pub invitation_file: Option<PathBuf>,
    /// Network interface or local address to use, several times for several [default: every usable
    /// interface].
    #[arg(long = "path", value_name = "IFACE|IP")]
    pub paths: Vec<PathSpec>,
    /// How this side mends what it sends, so uploads: none, proactive, fuso, cofuso, ctcp, slp,
    /// streaming, auto.
    #[arg(long, value_name = "SCHEME", default_value = "auto", value_parser = parse_recovery)]
    pub recovery: RecoveryKind,
    /// How else it sends.
    #[command(flatten)]
    pub sending: SendingArgs,
}

/// What `client`, `run` and `tunnel` have in common besides where they connect to.
#[derive(Debug, Args)]
pub struct SessionArgs {
    /// Tell programs that they are connected before the server has said so, which saves a round
    /// trip; what goes wrong then shows as a reset: never, known (where a connection was made
    /// within the last ten minutes) or always.
    #[arg(long, value_name = "WHEN", default_value_t)]
    pub answer_early: EarlyAnswers,
    /// Show a live page and statistics over HTTP here, on loopback: http://ADDR/ for people, /paths
    /// and /stats as JSON, /metrics for Prometheus.
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<SocketAddr>,
    /// Leave the hosts that programs connect to out of statistics and events.
    #[arg(long)]
    pub hide_names: bool,
    /// Seconds without an answer on any path until the connection is made anew.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(3..=600))]
    pub give_up: u64,
    /// Keep trying when the server does not answer, or its name is not found, at the start, as a
    /// service should.
    #[arg(long)]
    pub wait: bool,
    /// What its paths are used for.
    #[command(flatten)]
    pub paths: PathUseArgs,
}

/// Arguments of `client`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  mendpath client --invitation-file invitation\n  \
                  mendpath client --invitation-file invitation --path wlan0 --path wwan0 --http 127.0.0.1:8080\n  \
                  mendpath client --invitation-file invitation --forward 2222=intern.example:22 --admin 127.0.0.1:9000\n  \
                  ssh vps.example.org cat invitation | mendpath client -\n  \
                  curl --socks5-hostname 127.0.0.1:1080 https://example.org/")]
pub struct ClientArgs {
    /// Where and how.
    #[command(flatten)]
    pub dial: DialArgs,
    /// Read options from the table `client` of this file [default: the variable MENDPATH_CONFIG].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Offer a SOCKS5 proxy (CONNECT and UDP ASSOCIATE) here.
    #[arg(long, value_name = "ADDR")]
    pub socks5: Option<SocketAddr>,
    /// Offer an HTTP proxy (CONNECT and plain http://) here.
    #[arg(long, value_name = "ADDR")]
    pub http: Option<SocketAddr>,
    /// Forward a local port to HOST:PORT as seen from the server; several times for several.
    #[arg(long = "forward", value_name = "LISTEN=HOST:PORT")]
    pub forwards: Vec<Forward>,
    /// Ask programs for the user and the password in this file, which holds USER:PASS and which
    /// only you may read (`-` for stdin); needed to offer proxies beyond this machine [default: the
    /// variable MENDPATH_PROXY_AUTH].
    #[arg(long, value_name = "FILE")]
    pub proxy_auth_file: Option<PathBuf>,
    /// The same on the command line, where other users of this machine can read it.
    #[arg(long, value_name = "USER:PASS", conflicts_with = "proxy_auth_file")]
    pub proxy_auth: Option<String>,
    /// What the connection to the server is like.
    #[command(flatten)]
    pub session: SessionArgs,
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
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:4434")]
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

    /// The help names what there is; a registry does not know of it. Browsers know no repair symbols,
    /// so that `serve` has fewer.
    #[test]
    fn help_names_every_scheme() {
        let recovery: Vec<_> = RecoveryKind::ALL.iter().map(|kind| kind.name()).collect();
        let congestion: Vec<_> = ControllerKind::ALL.iter().map(|kind| kind.name()).collect();
        let scheduler: Vec<_> = SchedulerKind::ALL.iter().map(|kind| kind.name()).collect();
        let (mut command, mut looked) = (Cli::command(), 0);
        command.build();
        for of_command in command.get_subcommands().filter(|command| command.get_name() != "serve") {
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
