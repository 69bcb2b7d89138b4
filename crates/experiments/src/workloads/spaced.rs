//! One flow after the other: `flows` of the given sizes from the hosts of `from` to those of `to`
//! in turn, each with a connection of its own, a new one every `apart_ms`. With `apart_ms` far
//! above completion times, one at a time. Completion times include `request_ms`, the way of a
//! request that nothing happens to.

use netsim::fabric::{
    HostId,
    workload::{FlowSpec, HostRange, SizeTable},
};
use plans::{Keys, PlanError};
use units::{Duration, Instant};

use super::{Network, Party, Traffic, TrafficError, Workload};

#[derive(Clone, Debug)]
struct Spaced {
    flows: u32,
    sizes: SizeTable,
    apart: Duration,
    request: Duration,
    from: HostRange,
    to: HostRange,
}

pub(super) fn read(keys: &mut Keys<'_>, network: &Network) -> Result<Box<dyn Workload>, PlanError> {
    let from = network.group(keys, "from")?;
    let to = network.group(keys, "to")?;
    let flows = keys.count("flows", 1..=100_000_000)?;
    let apart = keys.millis("apart_ms")?;
    let hosts = keys.count("pairs", 1..=1_000_000)?.unwrap_or(u32::MAX);
    let first = |range: HostRange| range.start..range.end.min(range.start.saturating_add(hosts));
    Ok(Box::new(Spaced {
        flows: keys.need("flows", flows, "how many")?,
        sizes: crate::sizes::read(keys)?,
        apart: keys.need("apart_ms", apart, "the time between two flows' starts")?,
        request: keys.millis("request_ms")?.unwrap_or(Duration::ZERO),
        from: first(keys.need("from", from, "the hosts that send")?),
        to: first(keys.need("to", to, "the hosts that receive")?),
    }))
}

impl Workload for Spaced {
    fn generate(&self, traffic: &mut Traffic<'_>) -> Result<(), TrafficError> {
        traffic.head_start = self.request;
        let mut sizes = traffic.seed.stream("spaced sizes");
        let of = |range: &HostRange, n: u32| HostId(range.start + n % (range.end - range.start));
        for n in 0..self.flows {
            let at = Instant::ORIGIN + self.apart * u64::from(n);
            let bytes = self.sizes.sample(&mut sizes);
            traffic
                .flow(&FlowSpec { at, from: of(&self.from, n), to: of(&self.to, n), bytes }, Party::Tested)?;
        }
        Ok(())
    }

    fn last_start(&self) -> Option<Duration> {
        Some(self.apart * u64::from(self.flows - 1))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Plan, Scale};

    /// What has not begun is no flow that did not finish: shares of flows would be of more than there were.
    #[test]
    fn a_run_does_not_end_before_its_last_flow_begins() {
        let plan = |workload: &str, limit: &str| {
            let text = format!(
                "title = 'x'\nmetrics = ['timeout_share']\nlimit_s = {limit}\nscheme = [{{ kind = 'tcp' }}]\n\
                 topology = {{ kind = 'parallel-paths' }}\n\
                 workload = {{ {workload}, flows = 3, apart_ms = 500, bytes = 9 }}"
            );
            Plan::parse("p", &text, Scale::Quick)
        };
        let workloads = [
            "kind = 'spaced', from = 'first', to = 'second'",
            "kind = 'fetches', clients = 'first', servers = 'second'",
        ];
        for workload in workloads {
            let error = plan(workload, "1").unwrap_err().to_string();
            assert_eq!(error, "`limit_s` is 1: it must be more than 1, when the last flow begins");
            assert!(plan(workload, "1.1").is_ok());
        }
    }
}
