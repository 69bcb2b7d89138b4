//! Pairs of hosts over one bottleneck. Its queue is `queue_packets` (100), or `queue_bdp`
//! bandwidth-delay products, but at least ten packets. Lines: `access`, `bottleneck`. Hosts:
//! `left`, `right`. Links: `bottleneck`, `access`.

use netsim::fabric::topology::Dumbbell;
use plans::{Keys, PlanError};
use units::{BitRate, Duration};

use super::{Network, line};

pub(super) fn build(keys: &mut Keys<'_>) -> Result<Network, PlanError> {
    let pairs = keys.count("pairs", 1..=100_000)?.unwrap_or(1);
    let rtt = Duration::from_secs_f64(keys.float("rtt_us", 0.0..=1e8)?.unwrap_or(100.0) / 1e6);
    let rate = keys.float("rate_mbps", 0.001..=1e6)?.unwrap_or(1_000.0);
    keys.one_of("queue_packets", "queue_bdp")?;
    let queue = keys.count("queue_packets", 1..=u32::MAX)?.unwrap_or(100);
    let bdp = rate * 1e6 * rtt.as_secs_f64() / 8.0 / 1_500.0;
    let queue =
        keys.float("queue_bdp", 0.0..=1e3)?.map_or(queue, |times| (times * bdp).round().max(10.0) as u32);
    let mut network = Dumbbell::new(pairs, BitRate((rate * 1e6).round() as u64), rtt, queue);
    network.access = line(keys, "access", network.access)?;
    network.bottleneck = line(keys, "bottleneck", network.bottleneck)?;
    let topology = network.build();
    let links = |level| topology.links_at(level).collect();
    Ok(Network {
        hosts: vec![("all", 0..2 * pairs), ("left", 0..pairs), ("right", pairs..2 * pairs)],
        links: vec![("bottleneck", links(1)), ("access", links(0))],
        access: network.access.rate,
        topology,
    })
}
