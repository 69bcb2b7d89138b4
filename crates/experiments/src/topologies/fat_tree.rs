//! Three layers in pods (FUSO section VI-C). Lines: `up`, `down`, `fabric`. Links: `access`,
//! `tor-agg`, `agg-spine`, `fabric`. Hosts: `all`, the `first` and the `second` half.

use netsim::fabric::topology::FatTree;
use plans::{Keys, PlanError};

use super::{Network, line};

pub(super) fn build(keys: &mut Keys<'_>) -> Result<Network, PlanError> {
    let fuso = FatTree::fuso();
    let mut count = |key, default| Ok(keys.count(key, 1..=10_000)?.unwrap_or(default));
    let mut network = FatTree {
        pods: count("pods", fuso.pods)?,
        tors_per_pod: count("tors_per_pod", fuso.tors_per_pod)?,
        aggs_per_pod: count("aggs_per_pod", fuso.aggs_per_pod)?,
        spines: count("spines", fuso.spines)?,
        hosts_per_tor: count("hosts_per_tor", fuso.hosts_per_tor)?,
        ..fuso
    };
    network.up = line(keys, "up", network.up)?;
    network.down = line(keys, "down", network.down)?;
    network.fabric = line(keys, "fabric", network.fabric)?;
    let topology = network.build();
    let links = |level| topology.links_at(level).collect::<Vec<_>>();
    Ok(Network {
        hosts: vec![
            ("all", 0..network.hosts()),
            ("first", 0..network.hosts() / 2),
            ("second", network.hosts() / 2..network.hosts()),
        ],
        links: vec![
            ("access", links(0)),
            ("tor-agg", links(1)),
            ("agg-spine", links(2)),
            ("fabric", [links(1), links(2)].concat()),
        ],
        access: network.down.rate,
        topology,
    })
}
