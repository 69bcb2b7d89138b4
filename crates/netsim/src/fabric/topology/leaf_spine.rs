//! Leaves with hosts, each joined to every spine.

use units::{BitRate, Duration};

use super::{Line, Topology};

/// Host `n` hangs on leaf `n / hosts_per_leaf`; leaves are switches `0..leaves`, spines follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeafSpine {
    /// Leaf switches.
    pub leaves: u32,
    /// Spine switches.
    pub spines: u32,
    /// Hosts on each leaf.
    pub hosts_per_leaf: u32,
    /// From a host up to its leaf: the queue is the host's own.
    pub up: Line,
    /// From a leaf down to a host.
    pub down: Line,
    /// Between leaf and spine.
    pub fabric: Line,
    /// Between the leaves and the first spine, if that differs (HTPC Fig. 12).
    pub first_spine: Option<Line>,
}

impl LeafSpine {
    /// Any size with one rate for hosts and one for the fabric, 5 us per link, switch queues of
    /// `packets`.
    pub fn new(
        leaves: u32,
        spines: u32,
        hosts_per_leaf: u32,
        rates: (BitRate, BitRate),
        packets: u32,
    ) -> Self {
        let line = |rate, packets| Line::new(rate, Duration::from_micros(5), packets);
        let (up, down, fabric) = (line(rates.0, 10_000), line(rates.0, packets), line(rates.1, packets));
        Self { leaves, spines, hosts_per_leaf, up, down, fabric, first_spine: None }
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> u32 {
        self.leaves * self.hosts_per_leaf
    }

    /// The topology. Host links come first (level 0), then those of the fabric (level 1).
    pub fn build(&self) -> Topology {
        let mut topology = Topology::new(self.hosts(), self.leaves + self.spines);
        for host in 0..self.hosts() {
            topology.attach(host, host / self.hosts_per_leaf, self.up, self.down);
        }
        for leaf in 0..self.leaves {
            for spine in 0..self.spines {
                let first = if spine == 0 { self.first_spine } else { None };
                let line = first.unwrap_or(self.fabric);
                topology.join(leaf, self.leaves + spine, line, 1);
            }
        }
        topology
    }
}
