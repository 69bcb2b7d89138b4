//! A fixed count of short and of long flows (HTPC sections 5.2 and 5.3, HTPC-A13): `short` flows
//! within `within_ms` and `long` ones from the start, with sizes in `short_sizes` and `long_sizes`.

use netsim::fabric::workload::{Mix as Flows, Pairs};
use plans::{Keys, PlanError};
use units::Duration;

use super::{Network, Party, Traffic, TrafficError, Workload};

#[derive(Clone, Debug)]
struct Mix(Flows);

pub(super) fn read(keys: &mut Keys<'_>, network: &Network) -> Result<Box<dyn Workload>, PlanError> {
    let all = network.hosts[0].1.clone();
    let from = network.group(keys, "from")?.unwrap_or(all.clone());
    let to = network.group(keys, "to")?.unwrap_or(all);
    let mut sizes = |key| -> Result<_, PlanError> {
        let mut below = keys.table(key)?;
        let sizes = crate::sizes::read(&mut below)?;
        below.finish()?;
        Ok(sizes)
    };
    let (short_sizes, long_sizes) = (sizes("short_sizes")?, sizes("long_sizes")?);
    Ok(Box::new(Mix(Flows {
        short: keys.count("short", 0..=100_000_000)?.unwrap_or(0) as usize,
        short_sizes,
        within: keys.millis("within_ms")?.unwrap_or(Duration::ZERO),
        long: keys.count("long", 0..=100_000_000)?.unwrap_or(0) as usize,
        long_sizes,
        pairs: if from == to { Pairs::Any(from) } else { Pairs::Between(from, to) },
    })))
}

impl Workload for Mix {
    fn generate(&self, traffic: &mut Traffic<'_>) -> Result<(), TrafficError> {
        self.0.flows(traffic.seed).iter().try_for_each(|flow| traffic.flow(flow, Party::Tested).map(|_| ()))
    }
}
