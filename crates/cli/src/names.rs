//! Looks names up: the hosts file, then DNS as `/etc/resolv.conf` says, search domains included. No
//! thread waits for an answer, and a lookup that nobody wants any more ends at once.
//!
//! The system's own resolver (getaddrinfo) blocks a thread for as long as a name server is silent,
//! and cannot be stopped. What it knows beyond hosts file and DNS, such as multicast DNS or NIS, is
//! not known here; a local resolver that offers it through DNS (systemd-resolved) is asked like any
//! other.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use hickory_resolver::{
    Hosts, Resolver,
    config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts},
    lookup::Lookup,
    net::{NetError, runtime::TokioRuntimeProvider},
    proto::{
        op::Query,
        rr::{Name, RecordType},
    },
};
use tokio::time::{Instant, timeout};
use tracing::debug;

use crate::{console::say, destination::source_towards, target::DNS_PORT};

/// For all questions about a name together.
const LIMIT: Duration = Duration::from_secs(8);
/// How long addresses of one family wait for those of the other (RFC 8305 section 3 asks for less,
/// but waits for IPv6 only).
const OTHER_FAMILY: Duration = Duration::from_millis(250);
/// Addresses of a name that are looked at: whoever owns a zone may put thousands in it, and each costs
/// system calls.
const MOST_ADDRESSES: usize = 64;
/// Answers that are remembered, each for as long as it says and no longer than this.
const CACHED: u64 = 1_024;
const LONGEST_TTL: Duration = Duration::from_secs(300);
/// How often the system's files are looked at for changes.
const LOOK: Duration = Duration::from_secs(2);

/// Why a name has no addresses; follows "the name NAME".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LookupError {
    #[error("has no address")]
    NoAddress,
    #[error("could not be looked up in time: no name server answers")]
    Late,
    #[error("could not be looked up: {0}")]
    Failed(String),
}

/// Resolves names.
pub(crate) struct Names {
    /// Name servers to ask instead of the system's.
    given: Vec<SocketAddr>,
    resolv_conf: PathBuf,
    hosts: PathBuf,
    current: Mutex<Option<Current>>,
    /// The user knows that the system's name servers are not known.
    told: AtomicBool,
}

/// What was made of the system's files, and as of when.
struct Current {
    resolver: Arc<Configured>,
    looked: Instant,
    changed: [Option<SystemTime>; 2],
}

struct Configured {
    dns: Resolver<TokioRuntimeProvider>,
    hosts: Hosts,
}

/// Whether the name servers of a server answer, in words either way.
pub(crate) async fn names_work(given: &[SocketAddr]) -> Result<String, String> {
    let names = Names::new(given);
    let servers: Vec<_> = names.servers().iter().map(ToString::to_string).collect();
    let servers = servers.join(", ");
    match names.lookup("example.org.").await {
        // That there is none is an answer, too.
        Ok(_) | Err(LookupError::NoAddress) => Ok(format!("{servers} answers")),
        Err(error) => Err(format!("{servers}: the name example.org {error}")),
    }
}

/// The name servers of this machine, as its files are now.
#[cfg(all(feature = "tunnel", target_os = "linux"))]
pub(crate) fn system_name_servers() -> Vec<IpAddr> {
    // Nobody is asked for a name here, and it is looked once a second.
    let names = Names { told: AtomicBool::new(true), ..Names::new(&[]) };
    names.servers().iter().map(SocketAddr::ip).collect()
}

impl Names {
    /// Asks these name servers, or the system's if there are none.
    pub(crate) fn new(given: &[SocketAddr]) -> Self {
        Self {
            given: given.to_vec(),
            resolv_conf: "/etc/resolv.conf".into(),
            hosts: "/etc/hosts".into(),
            current: Mutex::default(),
            told: AtomicBool::new(false),
        }
    }

    /// The addresses of `name`, at most [`MOST_ADDRESSES`]: families in turn, those without a route
    /// last.
    pub(crate) async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        let name = Name::from_str_relaxed(name).map_err(|_| LookupError::NoAddress)?;
        let resolver = self.resolver()?;
        let found = timeout(LIMIT, resolver.lookup(&name)).await;
        let mut addresses = found.map_err(|_| LookupError::Late)??;
        addresses.sort_by_cached_key(|ip| source_towards(*ip).is_err());
        Ok(addresses)
    }

    /// Where names are looked up.
    pub(crate) fn servers(&self) -> Vec<SocketAddr> {
        let (config, _) = self.name_servers();
        let address = |server: &NameServerConfig| {
            let port = server.connections.first().map_or(DNS_PORT, |connection| connection.port);
            SocketAddr::new(server.ip, port)
        };
        config.name_servers().iter().map(address).collect()
    }

    /// As the system's files are now.
    fn resolver(&self) -> Result<Arc<Configured>, LookupError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = current.as_ref().filter(|current| current.looked.elapsed() < LOOK) {
            return Ok(current.resolver.clone());
        }
        let changed = [&self.resolv_conf, &self.hosts]
            .map(|file| fs::metadata(file).and_then(|about| about.modified()).ok());
        let looked = Instant::now();
        match current.as_mut().filter(|current| current.changed == changed) {
            Some(current) => {
                current.looked = looked;
                Ok(current.resolver.clone())
            }
            None => {
                let resolver = Arc::new(self.configure()?);
                *current = Some(Current { resolver: resolver.clone(), looked, changed });
                Ok(resolver)
            }
        }
    }

    fn configure(&self) -> Result<Configured, LookupError> {
        let mut hosts = Hosts::default();
        if let Err(error) = fs::File::open(&self.hosts).and_then(|file| hosts.read_hosts_conf(file)) {
            debug!(%error, "no hosts file");
        }
        let (config, mut options) = self.name_servers();
        // It is asked before, and for both families together.
        options.use_hosts_file = ResolveHosts::Never;
        options.cache_size = CACHED;
        options.positive_max_ttl = Some(LONGEST_TTL);
        options.negative_max_ttl = Some(LONGEST_TTL);
        let builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
        let dns =
            builder.with_options(options).build().map_err(|error| LookupError::Failed(error.to_string()))?;
        Ok(Configured { dns, hosts })
    }

    /// What to tell the user of name servers that the system does not say, once, if they are needed.
    fn complaint(&self, error: &NetError) -> Option<String> {
        let is_news = self.given.is_empty() && !self.told.swap(true, Relaxed);
        is_news.then(|| format!("cannot use /etc/resolv.conf: {error}; asking a name server on this machine"))
    }

    fn name_servers(&self) -> (ResolverConfig, ResolverOpts) {
        let system = system_conf(&self.resolv_conf).unwrap_or_else(|error| {
            self.complaint(&error).into_iter().for_each(say);
            // As resolv.conf(5) says.
            let here = NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into());
            (ResolverConfig::from_name_servers(vec![here]), ResolverOpts::default())
        });
        if self.given.is_empty() {
            return system;
        }
        // Search domains and options stay the system's.
        let ((domain, search, _), options) = (system.0.into_parts(), system.1);
        let given = self.given.iter().map(|address| {
            let mut server = NameServerConfig::udp_and_tcp(address.ip());
            server.connections.iter_mut().for_each(|connection| connection.port = address.port());
            server
        });
        (ResolverConfig::from_parts(domain, search, given.collect()), options)
    }
}

#[cfg(not(target_vendor = "apple"))]
fn system_conf(file: &Path) -> Result<(ResolverConfig, ResolverOpts), NetError> {
    fs::read(file).map_err(NetError::from).and_then(hickory_resolver::system_conf::parse_resolv_conf)
}

/// Apple's systems are asked themselves: there the file is a courtesy to old programs.
#[cfg(target_vendor = "apple")]
fn system_conf(_: &Path) -> Result<(ResolverConfig, ResolverOpts), NetError> {
    hickory_resolver::system_conf::read_system_conf().map_err(NetError::from)
}

impl Configured {
    async fn lookup(&self, name: &Name) -> Result<Vec<IpAddr>, LookupError> {
        let static_host = |kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind));
        let (v6, v4) = (static_host(RecordType::AAAA), static_host(RecordType::A));
        if v6.is_some() || v4.is_some() {
            return Ok(in_turn(addresses(v6.as_ref()), addresses(v4.as_ref())));
        }
        let (v6, v4) = self.ask_for_both(name).await;
        let found = in_turn(addresses(v6.as_ref().ok()), addresses(v4.as_ref().ok()));
        match (v6, v4) {
            _ if !found.is_empty() => Ok(found),
            (Err(error), Ok(_)) | (_, Err(error)) => Err(failure(&error)),
            _ => Err(LookupError::NoAddress),
        }
    }

    /// The answers for IPv6 and IPv4. Some name servers never answer for one of them: who has
    /// addresses does not wait for long.
    async fn ask_for_both(&self, name: &Name) -> (Result<Lookup, NetError>, Result<Lookup, NetError>) {
        let ask = |kind| self.dns.lookup(name.clone(), kind);
        let (v6, v4) = (ask(RecordType::AAAA), ask(RecordType::A));
        tokio::pin!(v6, v4);
        let patience = |first: &Result<Lookup, NetError>| {
            if addresses(first.as_ref().ok()).is_empty() { LIMIT } else { OTHER_FAMILY }
        };
        let late = |_| Err(NetError::Timeout);
        tokio::select! {
            first = &mut v6 => {
                let other = timeout(patience(&first), v4).await.unwrap_or_else(late);
                (first, other)
            }
            first = &mut v4 => {
                let other = timeout(patience(&first), v6).await.unwrap_or_else(late);
                (other, first)
            }
        }
    }
}

fn addresses(lookup: Option<&Lookup>) -> Vec<IpAddr> {
    let records = lookup.map(Lookup::answers).unwrap_or_default();
    records.iter().filter_map(|record| record.data.ip_addr()).collect()
}

/// One of each while there are both: the first of a family may be dead, and with it the others. At
/// most [`MOST_ADDRESSES`] of them.
fn in_turn(v6: Vec<IpAddr>, v4: Vec<IpAddr>) -> Vec<IpAddr> {
    let longest = v6.len().max(v4.len());
    let both = (0..longest).flat_map(|i| [v6.get(i), v4.get(i)]).flatten();
    both.take(MOST_ADDRESSES).copied().collect()
}

fn failure(error: &NetError) -> LookupError {
    match error {
        _ if error.is_no_records_found() => LookupError::NoAddress,
        NetError::Timeout => LookupError::Late,
        other => LookupError::Failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn that_the_system_says_no_name_server_is_told_once() {
        let error = NetError::from(std::io::Error::from(std::io::ErrorKind::NotFound));
        let names = Names::new(&[]);
        assert!(names.complaint(&error).unwrap().contains("asking a name server on this machine"));
        assert_eq!(names.complaint(&error), None);
        let given = Names::new(&["192.0.2.53:53".parse().unwrap()]);
        assert_eq!(given.complaint(&error), None, "it is asked for nothing");
    }

    #[test]
    fn few_addresses_are_taken_of_a_long_answer_and_both_families_in_turn() {
        let v6 = |n: u16| IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n));
        let v4 = |n: u16| IpAddr::from(Ipv4Addr::from(0xc000_0200 + u32::from(n)));
        for (sixes, fours, taken) in
            [(5_000, 5_000, [32_usize, 32]), (5_000, 3, [61, 3]), (0, 5_000, [0, 64]), (2, 1, [2, 1])]
        {
            let found = in_turn((0..sixes).map(v6).collect(), (0..fours).map(v4).collect());
            let of_v6 = found.iter().filter(|ip| ip.is_ipv6()).count();
            assert_eq!([of_v6, found.len() - of_v6], taken, "of {sixes} and {fours}");
            let turns = found.iter().take(2 * taken[0].min(taken[1]));
            assert!(turns.enumerate().all(|(i, ip)| ip.is_ipv6() == (i % 2 == 0)), "{found:?}");
        }
    }
}
