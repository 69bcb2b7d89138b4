//! HTPC's simulated data centre: what `htpc` and `critical_path` run.

use netsim::{
    Seed,
    fabric::{
        Balancing,
        topology::LeafSpine,
        workload::{FlowSpec, Pairs, Poisson, SizeTable},
    },
};
use tcpsim::{
    SchemeKind,
    shims::{
        Caps, Htpc, PerWindow, ShimKind,
        coding_layer::{Common, Delivery},
    },
};
use units::{BitRate, Duration, Instant};

/// A scheme by its name, and what it asks of the switches.
pub type Scheme = (&'static str, SchemeKind, Balancing);

fn schemes() -> Vec<Scheme> {
    let shim = |name, shim: ShimKind| (name, SchemeKind::Shim(shim), shim.balancing());
    let in_order = Common { delivery: Delivery::InOrder, ..Common::default() };
    vec![
        ("ecmp", SchemeKind::None, Balancing::FlowHash),
        ("rps", SchemeKind::None, Balancing::Spray),
        shim("corrective", ShimKind::Corrective(PerWindow::default())),
        shim("caps", ShimKind::Caps(Caps::default())),
        shim("htpc", ShimKind::Htpc(Htpc::default())),
        shim("htpc-in-order", ShimKind::Htpc(Htpc { common: in_order, ..Htpc::default() })),
    ]
}

/// 8 leaves, 8 spines, 32 hosts per leaf, 1 Gbit/s, 100 us, 100 packets (HTPC, "Simulation evaluation").
pub fn network() -> LeafSpine {
    let rate = BitRate::from_mbps(1_000);
    let mut network = LeafSpine::new(8, 8, 32, (rate, rate), 100);
    // Round-trip propagation between leaves is 8 links.
    for line in [&mut network.up, &mut network.down, &mut network.fabric] {
        line.delay = Duration::from_nanos(12_500);
    }
    network
}

/// Web-search flows between any hosts, at a load of all links between leaves and spines (HTPC-A15).
pub fn traffic(network: &LeafSpine, load: f64, flows: usize) -> Vec<FlowSpec> {
    let poisson = Poisson {
        load,
        capacity: BitRate(8 * 8 * network.fabric.rate.bits_per_second()),
        flows,
        sizes: SizeTable::named("websearch_dctcp").expect("a known table"),
        pairs: Pairs::Any(0..network.hosts()),
        start: Instant::ORIGIN,
    };
    poisson.flows(Seed(1))
}

/// The command line of `program`: `[LOAD [FLOWS [SCHEME]]]`, 0.8 and `flows` otherwise. Load, flows, and the schemes asked for; an error says what may stand there.
pub fn arguments(program: &str, flows: usize) -> Result<(f64, usize, Vec<Scheme>), String> {
    let known = schemes();
    let names: Vec<&str> = known.iter().map(|(name, ..)| *name).collect();
    let usage = || format!("usage: {program} [LOAD [FLOWS [SCHEME]]], schemes: {}", names.join(", "));
    let mut words = std::env::args().skip(1);
    let load = words.next().map_or(Some(0.8), |word| word.parse().ok()).ok_or_else(usage)?;
    let flows = words.next().map_or(Some(flows), |word| word.parse().ok()).ok_or_else(usage)?;
    let wanted = words.next();
    let chosen: Vec<Scheme> = known
        .iter()
        .filter(|(name, ..)| wanted.as_deref().is_none_or(|wanted| wanted == *name))
        .cloned()
        .collect();
    if chosen.is_empty() { Err(usage()) } else { Ok((load, flows, chosen)) }
}
