//! Requests and responses over long-lived connections, as in FUSO's testbed (section VI-B).
//!
//! Every client keeps `connections` to every server that it may ask, half of them (at least one)
//! for tested responses, half for the background, each used in turn. `flows` requests arrive at
//! random at `load`, a share of the clients' links (FUSO-A9), or at `load_mbps` in all. A client
//! asks a random server, or with `pairs = "matched"` the n-th the n-th. Responses above
//! `tested_bytes` stand in the background: plain TCP. A response starts when its request has
//! arrived; completion times run from the request to the response's last byte.
//!
//! Tested connections carry `warm_bytes` first, a new one every 1.5 ms, and are then idle until `start_ms`,
//! so that all sub-flows are active and the initial window is restored (FUSO-A13).

use netsim::{
    Rng,
    fabric::workload::{HostRange, SizeTable},
};
use plans::{Keys, PlanError};
use tcpsim::ConnectionId;
use units::{BitRate, Duration, Instant};

use super::{Network, Party, Traffic, TrafficError, Workload, poisson::load};

#[derive(Clone, Debug)]
struct Requests {
    clients: HostRange,
    servers: HostRange,
    matched: bool,
    connections: u32,
    flows: u32,
    sizes: SizeTable,
    tested_bytes: u64,
    request_bytes: u64,
    warm_bytes: u64,
    start: Duration,
    /// Mean time between two requests, in seconds.
    gap: f64,
}

/// From the beginning of one connection's warming up to that of the next.
const WARMED_APART: Duration = Duration::from_micros(1_500);

const MATCHED: &[(&str, bool)] = &[("random", false), ("matched", true)];

pub(super) fn read(keys: &mut Keys<'_>, network: &Network) -> Result<Box<dyn Workload>, PlanError> {
    let clients = network.group(keys, "clients")?;
    let clients = keys.need("clients", clients, "the hosts that ask")?;
    let servers = network.group(keys, "servers")?;
    let servers = keys.need("servers", servers, "the hosts that answer")?;
    let capacity = BitRate(network.access.bits_per_second() * u64::from(clients.end - clients.start));
    let (load, capacity) = load(keys, capacity)?;
    let sizes = crate::sizes::read(keys)?;
    let flows = keys.count("flows", 1..=100_000_000)?;
    let requests = Requests {
        clients,
        servers,
        matched: keys.named("pairs", MATCHED)?.unwrap_or(false),
        connections: keys.count("connections", 1..=1_000)?.unwrap_or(10),
        flows: keys.need("flows", flows, "how many")?,
        gap: sizes.mean() * 8.0 / (load * capacity.bits_per_second() as f64),
        sizes,
        tested_bytes: keys.int("tested_bytes", 0..=1 << 60)?.unwrap_or(u64::MAX),
        request_bytes: keys.int("request_bytes", 1..=1 << 40)?.unwrap_or(100),
        warm_bytes: keys.int("warm_bytes", 0..=1 << 40)?.unwrap_or(100_000),
        start: keys.millis("start_ms")?.unwrap_or(Duration::from_secs(2)),
    };
    let (start, warmed) = (requests.start.as_millis_f64(), requests.warmed_up().as_millis_f64());
    if start < warmed {
        let allowed = format!("at least {warmed}, when the last connection begins to warm up");
        return Err(PlanError::value(keys.path("start_ms"), start, allowed));
    }
    Ok(Box::new(requests))
}

/// The connections between a client and a server, and which is next.
#[derive(Debug, Default)]
struct Pool {
    pairs: Vec<(ConnectionId, ConnectionId)>,
    next: usize,
}

impl Pool {
    fn take(&mut self) -> (ConnectionId, ConnectionId) {
        let taken = self.pairs[self.next % self.pairs.len()];
        self.next += 1;
        taken
    }
}

impl Requests {
    /// The servers that a client asks.
    fn servers_of(&self, client: u32) -> HostRange {
        let count = self.servers.end - self.servers.start;
        let own = self.servers.start + (client - self.clients.start) % count;
        if self.matched { own..own + 1 } else { self.servers.clone() }
    }

    /// How many of the connections between a client and a server are tested.
    fn tested(&self) -> u32 {
        self.connections.div_ceil(2)
    }

    /// When the last connection begins to warm up.
    fn warmed_up(&self) -> Duration {
        let pairs: usize = self.clients.clone().map(|client| self.servers_of(client).len()).sum();
        let connections = if self.warm_bytes > 0 { pairs as u64 * u64::from(self.tested()) * 2 } else { 0 };
        WARMED_APART * connections.saturating_sub(1)
    }

    /// Opens and warms all connections: tested and background pools by client and server.
    fn connect(&self, traffic: &mut Traffic<'_>) -> Result<Vec<[Pool; 2]>, TrafficError> {
        let servers = self.servers.len();
        let mut pools: Vec<[Pool; 2]> =
            (0..self.clients.len() * servers).map(|_| Default::default()).collect();
        let mut warmed = 0;
        for client in self.clients.clone() {
            for server in self.servers_of(client) {
                let place =
                    (client - self.clients.start) as usize * servers + (server - self.servers.start) as usize;
                for n in 0..self.connections.max(2) {
                    let tested = n < self.tested();
                    let party = if tested { Party::Tested } else { Party::Background };
                    let profile = traffic.profile(party);
                    let there = traffic.sim.connect(profile, client, server)?;
                    let back = traffic.sim.connect(profile, server, client)?;
                    pools[place][party as usize].pairs.push((there, back));
                    if tested && self.warm_bytes > 0 {
                        for connection in [there, back] {
                            let at = Instant::ORIGIN + WARMED_APART * warmed;
                            warmed += 1;
                            traffic.warm(connection, self.warm_bytes, at)?;
                        }
                    }
                }
            }
        }
        Ok(pools)
    }
}

impl Workload for Requests {
    fn generate(&self, traffic: &mut Traffic<'_>) -> Result<(), TrafficError> {
        let mut pools = self.connect(traffic)?;
        let own = traffic.seed.child("requests", 0);
        let (mut arrivals, mut sizes, mut hosts) =
            (own.stream("arrivals"), own.stream("sizes"), own.stream("hosts"));
        let pick = |range: &HostRange, rng: &mut Rng| {
            range.start + rng.below(u64::from(range.end - range.start)) as u32
        };
        let mut at = Instant::ORIGIN + self.start;
        for _ in 0..self.flows {
            at += Duration::from_secs_f64(-libm::log(1.0 - arrivals.next_f64()) * self.gap);
            let client = pick(&self.clients, &mut hosts);
            let server = pick(&self.servers_of(client), &mut hosts);
            let bytes = self.sizes.sample(&mut sizes);
            let party = if bytes > self.tested_bytes { Party::Background } else { Party::Tested };
            let place = (client - self.clients.start) as usize * self.servers.len()
                + (server - self.servers.start) as usize;
            let pair = pools[place][party as usize].take();
            traffic.exchange(pair, (self.request_bytes, bytes), at, party)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Plan, Scale};

    /// What warms up meanwhile would stand in the way of what is measured.
    #[test]
    fn all_connections_warm_up_before_the_first_request() {
        let plan = |more: &str| {
            let text = format!(
                "title = 'x'\nmetrics = ['fct_mean_ms']\nscheme = [{{ kind = 'tcp' }}]\n\
                 topology = {{ kind = 'parallel-paths', per_rack = 20 }}\n\
                 workload = {{ kind = 'requests', clients = 'second', servers = 'first', flows = 1, \
                 bytes = 9, load = 0.1{more} }}"
            );
            Plan::parse("p", &text, Scale::Quick)
        };
        // Of 400 pairs of hosts, five connections there and five back.
        let error = plan("").unwrap_err().to_string();
        let said = "`workload.start_ms` is 2000: it must be at least 5998.5, when the last connection begins";
        assert_eq!(error, said.to_owned() + " to warm up");
        for more in [", start_ms = 6_000", ", warm_bytes = 0", ", pairs = 'matched'"] {
            assert!(plan(more).is_ok(), "{more}");
        }
    }
}
