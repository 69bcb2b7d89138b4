//! Leaves and spines. Lines: `up`, `down`, `fabric`. Links: `access`, `fabric`. `slow_path_rtt`:
//! the propagation delay there and back over the first spine, in those of the other spines
//! (HTPC-A14). Hosts: `all`, and those of the `first` and of the `second` leaf.

use netsim::fabric::{Line, topology::LeafSpine};
use plans::{Keys, PlanError};
use units::{BitRate, Duration};

use super::{Network, line};

pub(super) fn build(keys: &mut Keys<'_>) -> Result<Network, PlanError> {
    let mut count = |key, default| Ok(keys.count(key, 1..=10_000)?.unwrap_or(default));
    let (leaves, spines, hosts) = (count("leaves", 4)?, count("spines", 4)?, count("hosts_per_leaf", 16)?);
    let queue = count("queue_packets", 256)?;
    let rates = (BitRate::from_mbps(1_000), BitRate::from_mbps(1_000));
    let mut network = LeafSpine::new(leaves, spines, hosts, rates, queue);
    network.up = line(keys, "up", network.up)?;
    network.down = line(keys, "down", network.down)?;
    network.fabric = line(keys, "fabric", network.fabric)?;
    if let Some(slower) = keys.float("slow_path_rtt", 1.0..=1_000.0)? {
        // All of what is longer lies on the spine's own links, of which a round trip has four.
        let one_way = network.up.delay + network.fabric.delay * 2 + network.down.delay;
        let more = Duration::from_secs_f64(one_way.as_secs_f64() * (slower - 1.0) / 2.0);
        network.first_spine = Some(Line { delay: network.fabric.delay + more, ..network.fabric });
    }
    let topology = network.build();
    let links = |level| topology.links_at(level).collect();
    Ok(Network {
        hosts: vec![
            ("all", 0..network.hosts()),
            ("first", 0..hosts),
            ("second", hosts.min(network.hosts())..(2 * hosts).min(network.hosts())),
        ],
        links: vec![("access", links(0)), ("fabric", links(1))],
        access: network.down.rate,
        topology,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_path_has_twice_the_round_trip() {
        let lines = "up = { delay_us = 10 }\ndown = { delay_us = 20 }\nfabric = { delay_us = 30 }";
        let table = format!("{lines}\nleaves = 2\nspines = 3\nslow_path_rtt = 2").parse().unwrap();
        let rates = (BitRate::from_mbps(1_000), BitRate::from_mbps(1_000));
        let mut network = LeafSpine::new(2, 3, 16, rates, 256);
        for (line, us) in [(&mut network.up, 10), (&mut network.down, 20), (&mut network.fabric, 30)] {
            line.delay = Duration::from_micros(us);
        }
        // There and back: 180 us over most spines, 360 us over the first.
        network.first_spine = Some(Line { delay: Duration::from_micros(75), ..network.fabric });
        assert_eq!(build(&mut Keys::new(&table, "")).unwrap().topology, network.build());
    }

    /// Flows between such hosts would have nobody to begin at.
    #[test]
    fn one_leaf_has_no_hosts_of_a_second() {
        let network = build(&mut Keys::new(&"leaves = 1".parse().unwrap(), "")).unwrap();
        let table = "from = 'first'\nto = 'second'".parse().unwrap();
        let mut keys = Keys::new(&table, "workload");
        assert_eq!(network.group(&mut keys, "from"), Ok(Some(0..16)));
        let error = network.group(&mut keys, "to").unwrap_err().to_string();
        assert_eq!(error, "`workload.to` is `second`: it must be one of all, first");
    }
}
