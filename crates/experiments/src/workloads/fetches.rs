//! A client that fetches something, one after the other: a connection is opened, `request_bytes` go
//! there, and the given sizes come back. `flows` from the hosts of `clients` to those of `servers`
//! in turn, a new one every `apart_ms`. Measured from the SYN (SLP section III).

use netsim::fabric::workload::{HostRange, SizeTable};
use plans::{Keys, PlanError};
use units::{Duration, Instant};

use super::{Network, Traffic, TrafficError, Workload};

#[derive(Clone, Debug)]
struct Fetches {
    flows: u32,
    sizes: SizeTable,
    request_bytes: u64,
    apart: Duration,
    clients: HostRange,
    servers: HostRange,
}

pub(super) fn read(keys: &mut Keys<'_>, network: &Network) -> Result<Box<dyn Workload>, PlanError> {
    let clients = network.group(keys, "clients")?;
    let servers = network.group(keys, "servers")?;
    let flows = keys.count("flows", 1..=100_000_000)?;
    let apart = keys.millis("apart_ms")?;
    Ok(Box::new(Fetches {
        flows: keys.need("flows", flows, "how many")?,
        sizes: crate::sizes::read(keys)?,
        request_bytes: keys.int("request_bytes", 1..=1 << 40)?.unwrap_or(400),
        apart: keys.need("apart_ms", apart, "the time between two fetches' starts")?,
        clients: keys.need("clients", clients, "the hosts that fetch")?,
        servers: keys.need("servers", servers, "the hosts that serve")?,
    }))
}

impl Workload for Fetches {
    fn generate(&self, traffic: &mut Traffic<'_>) -> Result<(), TrafficError> {
        let mut rng = traffic.seed.stream("fetch sizes");
        let of = |range: &HostRange, n: u32| range.start + n % (range.end - range.start);
        for n in 0..self.flows {
            let at = Instant::ORIGIN + self.apart * u64::from(n);
            let hosts = (of(&self.clients, n), of(&self.servers, n));
            traffic.fetch(hosts, (self.request_bytes, self.sizes.sample(&mut rng)), at)?;
        }
        Ok(())
    }

    fn last_start(&self) -> Option<Duration> {
        Some(self.apart * u64::from(self.flows - 1))
    }
}
