//! Flows that arrive at random, each with a connection of its own: `flows` of the given sizes at
//! `load`, a share of what the hosts of `from` can send (or `load_mbps` in all), from any host of
//! `from` to any of `to` (`pairs = "matched"`: n-th to n-th). Flows above `tested_bytes` stand in
//! the background and use plain TCP. Completion times include `request_ms`.

use netsim::fabric::workload::{Pairs, Poisson as Arrivals};
use plans::{Keys, PlanError};
use units::{BitRate, Duration, Instant};

use super::{Network, Party, Traffic, TrafficError, Workload};

#[derive(Clone, Debug)]
struct Poisson {
    arrivals: Arrivals,
    tested_bytes: u64,
    request: Duration,
}

const MATCHED: &[(&str, bool)] = &[("random", false), ("matched", true)];

pub(super) fn read(keys: &mut Keys<'_>, network: &Network) -> Result<Box<dyn Workload>, PlanError> {
    let all = network.hosts[0].1.clone();
    let from = network.group(keys, "from")?.unwrap_or(all.clone());
    let to = network.group(keys, "to")?.unwrap_or(all);
    let hosts = u64::from(from.end - from.start);
    let matched = keys.named("pairs", MATCHED)?.unwrap_or(false);
    if matched && to.len() < from.len() {
        let allowed = "used where `to` has as many hosts as `from`";
        return Err(PlanError::value(keys.path("pairs"), "`matched`", allowed));
    }
    let pairs = match matched {
        true => Pairs::Matched(from, to),
        false if from == to => Pairs::Any(from),
        false => Pairs::Between(from, to),
    };
    let flows = keys.count("flows", 1..=100_000_000)?;
    let (load, capacity) = load(keys, BitRate(network.access.bits_per_second() * hosts))?;
    let arrivals = Arrivals {
        load,
        capacity,
        flows: keys.need("flows", flows, "how many")? as usize,
        sizes: crate::sizes::read(keys)?,
        pairs,
        start: Instant::ORIGIN,
    };
    let tested_bytes = keys.int("tested_bytes", 0..=1 << 60)?.unwrap_or(u64::MAX);
    let request = keys.millis("request_ms")?.unwrap_or(Duration::ZERO);
    Ok(Box::new(Poisson { arrivals, tested_bytes, request }))
}

/// `load` of `capacity`, or all of `load_mbps`.
pub(super) fn load(keys: &mut Keys<'_>, capacity: BitRate) -> Result<(f64, BitRate), PlanError> {
    if let Some(rate) = keys.float("load_mbps", 1e-6..=1e9)? {
        return Ok((1.0, BitRate((rate * 1e6).round() as u64)));
    }
    let load = keys.float("load", 1e-9..=100.0)?;
    Ok((keys.need("load", load, "a share of the senders' links (or `load_mbps`)")?, capacity))
}

impl Workload for Poisson {
    fn generate(&self, traffic: &mut Traffic<'_>) -> Result<(), TrafficError> {
        traffic.head_start = self.request;
        for flow in self.arrivals.flows(traffic.seed) {
            let party = if flow.bytes > self.tested_bytes { Party::Background } else { Party::Tested };
            traffic.flow(&flow, party)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Plan, Scale};

    /// Of twenty hosts that send the last ten would send to hosts that are not of the group.
    #[test]
    fn every_host_that_sends_has_one_that_receives() {
        let plan = |from: &str, to: &str| {
            let text = format!(
                "title = 'x'\nmetrics = ['fct_mean_ms']\nscheme = [{{ kind = 'tcp' }}]\n\
                 topology = {{ kind = 'ten-routers' }}\n\
                 workload = {{ kind = 'poisson', from = '{from}', to = '{to}', pairs = 'matched', flows = 1, \
                 bytes = 9, load = 0.1 }}"
            );
            Plan::parse("p", &text, Scale::Quick)
        };
        assert!(plan("senders", "receivers").is_ok());
        let error = plan("all", "receivers").unwrap_err().to_string();
        assert!(error.starts_with("`workload.pairs` is `matched`: it must be used where "), "{error}");
    }
}
