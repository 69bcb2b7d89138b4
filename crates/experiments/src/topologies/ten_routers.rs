//! CoFUSO's simulation network (section 6.2, Fig. 12), `wiring` as in COF-A5. `routers_mbps` is the
//! rate of the links between routers, if it is not that of the hosts' (`rate_mbps`).
//!
//! Hosts: `receivers` (H1-H10), `senders` (H11-H20). Links: `core` (between R2-R9), `edge` (to R1
//! and R10), `access`.

use netsim::fabric::topology::{TenRouters, Wiring, ten_routers::CORE};
use plans::{Keys, PlanError};
use units::{BitRate, Duration};

use super::Network;

const WIRINGS: &[(&str, Wiring)] = &[("mesh-4x4", Wiring::Mesh4x4), ("layers-2-4-2", Wiring::Layers242)];

pub(super) fn build(keys: &mut Keys<'_>) -> Result<Network, PlanError> {
    let mut network = TenRouters::cofuso(keys.named("wiring", WIRINGS)?.unwrap_or_default());
    if let Some(rate) = keys.float("rate_mbps", 0.001..=1e6)? {
        network.rate = BitRate((rate * 1e6).round() as u64);
    }
    if let Some(rate) = keys.float("routers_mbps", 0.001..=1e6)? {
        network.between = Some(BitRate((rate * 1e6).round() as u64));
    }
    if let Some(bytes) = keys.int("queue_bytes", 0..=1 << 40)? {
        network.queue = bytes;
    }
    if let Some(rtt) = keys.float("rtt_ms", 0.0..=1e5)? {
        network.rtt = Duration::from_secs_f64(rtt / 1e3);
    }
    let topology = network.build();
    let links = |level| topology.links_at(level).collect();
    Ok(Network {
        hosts: vec![("all", 0..20), ("receivers", 0..10), ("senders", 10..20)],
        links: vec![("core", links(CORE)), ("edge", links(1)), ("access", links(0))],
        access: network.rate,
        topology,
    })
}
