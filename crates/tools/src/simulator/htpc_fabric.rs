//! HTPC's simulated data centre: what `htpc` and `critical_path` run.

use clap::{Args, builder::PossibleValuesParser};
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

/// 8 leaves, 8 spines, 32 hosts per leaf, 1 Gbit/s, 100 us, 100 packets (HTPC, "Simulation
/// evaluation").
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

/// What to run. No group of its own: whoever takes these has one.
#[derive(Args)]
#[group(skip)]
pub struct Arguments {
    /// Share of the capacity of all links between leaves and spines.
    #[arg(default_value_t = 0.8)]
    pub load: f64,
    /// Flows of all sizes.
    flows: Option<usize>,
    /// Only this scheme.
    #[arg(value_parser = PossibleValuesParser::new(schemes().into_iter().map(|(name, ..)| name)))]
    scheme: Option<String>,
}

impl Arguments {
    /// The flows that were asked for, or `usual`.
    pub fn flows(&self, usual: usize) -> usize {
        self.flows.unwrap_or(usual)
    }

    /// The scheme that was asked for, or all.
    pub fn schemes(&self) -> Vec<Scheme> {
        let wanted = |name| self.scheme.as_deref().is_none_or(|wanted| wanted == name);
        schemes().into_iter().filter(|(name, ..)| wanted(*name)).collect()
    }
}
