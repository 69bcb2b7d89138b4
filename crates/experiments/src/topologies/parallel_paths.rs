//! Two racks with several links between them (FUSO section VI-A). Lines: `up`, `down`, `between`.
//!
//! Hosts: `first` and `second` rack. Links: `paths` (P1 is number 0), `access`, `access-first`,
//! `access-second`.

use netsim::fabric::{LinkId, topology::ParallelPaths};
use plans::{Keys, PlanError};

use super::{Network, line};

pub(super) fn build(keys: &mut Keys<'_>) -> Result<Network, PlanError> {
    let fuso = ParallelPaths::fuso();
    let paths = keys.count("paths", 1..=1_024)?.unwrap_or(fuso.paths);
    let per_rack = keys.count("per_rack", 1..=10_000)?.unwrap_or(fuso.per_rack);
    let network = ParallelPaths {
        paths,
        per_rack,
        up: line(keys, "up", fuso.up)?,
        down: line(keys, "down", fuso.down)?,
        between: line(keys, "between", fuso.between)?,
    };
    let access = |hosts: std::ops::Range<u32>| hosts.map(|host| network.access(host)).collect();
    Ok(Network {
        topology: network.build(),
        hosts: vec![("all", 0..2 * per_rack), ("first", 0..per_rack), ("second", per_rack..2 * per_rack)],
        links: vec![
            ("paths", (0..paths).map(LinkId).collect()),
            ("access", access(0..2 * per_rack)),
            ("access-first", access(0..per_rack)),
            ("access-second", access(per_rack..2 * per_rack)),
        ],
        access: network.down.rate,
    })
}
