//! `mendpath client`: proxies on this machine, carried by one connection over every usable path.

mod admin;
mod answers;
mod associate;
mod demand;
mod dial;
mod early;
mod follow;
mod forward;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod hosts;
mod http;
mod keeper;
mod lookup;
mod metrics;
mod narrow;
mod news;
mod ports;
mod retired;
mod socks5;
mod socks5_udp;
pub(crate) mod tunnel;
mod uplink;

#[cfg(all(feature = "tunnel", target_os = "linux"))]
pub(crate) use crate::interfaces::TUN;
pub(crate) use crate::interfaces::{Candidate, candidates, local_addresses};
pub use crate::interfaces::{PathSpec, WantedPath, usable_paths};
pub use crate::status::{Change as PathChange, Order as PathOrder};
#[cfg(all(feature = "tunnel", target_os = "linux"))]
pub(crate) use admin::RawRow;
pub(crate) use admin::TunRow;
pub use answers::EarlyAnswers;
pub(crate) use associate::associate;
pub(crate) use demand::Demand;
pub use dial::{DialOptions, Dialled, dial};
pub(crate) use dial::{show_token, try_path};
pub use forward::{Forward, ForwardError};
pub use hosts::Hosts;
pub(crate) use keeper::keep_paths;
pub use lookup::Known;
pub(crate) use lookup::resolve;
pub use ports::Addresses;
pub(crate) use uplink::say_goodbye;
pub use uplink::{Session, Uplink};

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock, PoisonError, RwLock},
    time::Duration,
};

use tokio::task::JoinSet;

use self::{answers::Answers, ports::Ports};
use crate::{
    failure::Failure,
    status::{EventKind, Feed, Live},
    transport::Choice,
};

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// How to reach the server.
    pub dial: DialOptions,
    /// Where to offer SOCKS5.
    pub socks5: Option<SocketAddr>,
    /// Where to offer an HTTP proxy.
    pub http: Option<SocketAddr>,
    /// Ports that lead to fixed places.
    pub forwards: Vec<Forward>,
    /// Where to show statistics.
    pub admin: Option<SocketAddr>,
    /// What programs must show before they may use the proxies.
    pub credentials: Option<Credentials>,
    /// Whether statistics name the hosts that programs connect to.
    pub show_names: bool,
    /// Which programs are told that they are connected before the server has said so.
    pub early_answers: EarlyAnswers,
    /// Whether to keep trying when the server does not answer at the start.
    pub wait_for_server: bool,
    /// What its paths are used for, until somebody says otherwise: at most 64 names.
    pub path_orders: Vec<PathOrder>,
}

/// User and password of the proxies.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name, 1 to 255 bytes.
    pub user: String,
    /// The password, 1 to 255 bytes.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({}:..)", self.user)
    }
}

impl std::str::FromStr for Credentials {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = |part: &str| (1..=255).contains(&part.len());
        match text.split_once(':') {
            Some((user, password)) if fits(user) && fits(password) => {
                Ok(Self { user: user.to_owned(), password: password.to_owned() })
            }
            _ => Err("Write USER:PASS, each of 1 to 255 bytes".into()),
        }
    }
}

impl Credentials {
    /// Whether these are they, in a time that does not tell how much was right.
    pub fn match_pair(&self, user: &str, password: &str) -> bool {
        let hash = |text: &str| ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        // Comparing digests: what an attacker could learn from the time is of no use to him.
        hash(user).as_ref() == hash(&self.user).as_ref()
            && hash(password).as_ref() == hash(&self.password).as_ref()
    }
}

/// What every local connection needs.
pub(crate) struct Shared {
    pub(crate) uplink: Uplink,
    credentials: RwLock<Option<Credentials>>,
    pub(crate) answers: Arc<Answers>,
    /// What a tunnel's device adds to the statistics, if there is one.
    pub(crate) tun: OnceLock<Box<dyn Fn() -> TunRow + Send + Sync>>,
}

impl Shared {
    /// What programs must show now.
    fn credentials(&self) -> Option<Credentials> {
        self.credentials.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// For a program to say what it wants; hung ones are dropped.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);
/// Without traffic, until a proxied connection is closed; the server's own limit is usually
/// shorter.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(2 * 3_600);

/// A client whose listeners are bound and whose server answered.
pub struct Client {
    tasks: JoinSet<Failure>,
    /// The addresses listened on, for tests and messages.
    pub addresses: Addresses,
    /// The connection.
    pub uplink: Uplink,
    /// What every local connection needs.
    #[cfg_attr(
        not(all(feature = "tunnel", target_os = "linux")),
        allow(dead_code, reason = "of tunnels only")
    )]
    pub(crate) shared: Arc<Shared>,
    transport: Arc<RwLock<Choice>>,
}

/// What may change while a client runs.
pub(crate) struct ClientSettings {
    shared: Arc<Shared>,
    transport: Arc<RwLock<Choice>>,
}

impl ClientSettings {
    /// Which programs are told at once that they are connected, from now on.
    pub(crate) fn set_early_answers(&self, when: EarlyAnswers) {
        self.shared.answers.set_when(when);
    }

    /// Whether statistics name hosts, from now on. Refusals name them, too: if not, those that were written
    /// down are told no more.
    pub(crate) fn set_names(&self, names: bool) {
        let live = self.shared.uplink.live();
        live.traffic.set_names(names);
        if !names {
            live.journal.forget(EventKind::Refused);
        }
    }

    /// Whether programs must show something.
    pub(crate) fn has_credentials(&self) -> bool {
        self.shared.credentials().is_some()
    }

    /// What programs must show from now on. Whether that is something else than before.
    pub(crate) fn set_credentials(&self, credentials: Credentials) -> bool {
        let mut held = self.shared.credentials.write().unwrap_or_else(PoisonError::into_inner);
        held.replace(credentials) != *held
    }

    /// What paths are used for, from now on; false if that are too many.
    pub(crate) fn set_paths(&self, paths: &[PathOrder]) -> bool {
        self.shared.uplink.live().wishes.configure(paths).is_ok()
    }

    /// How the next connection to the server sends.
    pub(crate) fn set_transport(&self, choice: Choice) {
        *self.transport.write().unwrap_or_else(PoisonError::into_inner) = choice;
    }
}

impl Client {
    /// Binds every listener, connects to the server, and starts to serve.
    ///
    /// # Errors
    /// When an address cannot be listened on, or the server not be reached or not be used.
    pub async fn start(options: ClientOptions) -> Result<Self, Failure> {
        Self::start_telling(options, |_| {}).await
    }

    /// The same. It calls `bound` before it connects, with what `mendpath status` is shown: programs reach
    /// its ports from then on, and wait there until the server is reached; who asks for statistics does
    /// not wait.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) async fn start_telling(
        options: ClientOptions,
        bound: impl FnOnce(&Arc<Feed>),
    ) -> Result<Self, Failure> {
        let mut ports = Ports::bind(&options).await?;
        let servers = options.dial.invitation.hosts().map(ToString::to_string).collect();
        let transport = options.dial.transport.clone();
        let live = Arc::new(Live::of_client(options.show_names, options.dial.paths.clone()));
        live.wishes.configure(&options.path_orders).map_err(|reason| {
            Failure::usage(
                "cannot do with paths what was asked",
                reason,
                "Name interfaces rather than addresses",
            )
        })?;
        let (uplink, publish) = Uplink::new(live.clone());
        let shared = Arc::new(Shared {
            uplink: uplink.clone(),
            credentials: RwLock::new(options.credentials),
            answers: Arc::new(Answers::new(options.early_answers)),
            tun: OnceLock::new(),
        });
        let mut tasks = JoinSet::new();
        let statistics = admin::Statistics::new(shared.clone(), servers);
        let admin = ports.serve_statistics(&mut tasks, &statistics);
        bound(&statistics.feed());
        tasks.spawn(Uplink::start(options.dial, options.wait_for_server, publish, live).await?);
        let addresses = ports.serve(&mut tasks, &shared, admin);
        Ok(Self { tasks, addresses, uplink, shared, transport })
    }

    /// What may change while it runs.
    pub(crate) fn settings(&self) -> ClientSettings {
        ClientSettings { shared: self.shared.clone(), transport: self.transport.clone() }
    }

    /// Serves until something fails for good, and returns what.
    pub async fn run(mut self) -> Failure {
        match self.tasks.join_next().await {
            Some(Ok(failure)) => failure,
            _ => Failure::new(
                "the client stopped",
                "a task ended unexpectedly",
                "Please report this with the output of -vv",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that were written down before are told no more.
    #[tokio::test]
    async fn hosts_that_are_hidden_are_in_no_event_either() {
        let (uplink, answers) = (Uplink::without_server(), Arc::default());
        let live = uplink.live().clone();
        let shared = Shared { uplink, credentials: RwLock::default(), answers, tun: OnceLock::new() };
        let settings = ClientSettings { shared: Arc::new(shared), transport: Arc::default() };
        live.journal.note(EventKind::Up, "path wlan0 is open");
        live.journal.note(EventKind::Refused, "secret.example:443 is a private address");
        settings.set_names(true);
        assert_eq!(live.journal.newest(9).len(), 2);
        settings.set_names(false);
        assert_eq!(live.journal.newest(9).len(), 1);
    }

    #[test]
    fn credentials_are_compared_whole_and_never_shown() {
        let credentials: Credentials = "alice:a:b".parse().unwrap();
        assert!(credentials.match_pair("alice", "a:b"));
        assert!(!credentials.match_pair("alice", "a"));
        assert!(!credentials.match_pair("bob", "a:b"));
        assert_eq!(format!("{credentials:?}"), "Credentials(alice:..)");
        for bad in ["alice", ":x", "alice:"] {
            assert!(bad.parse::<Credentials>().is_err());
        }
    }
}
