//! Three layers in pods: FUSO's large simulation (section VI-C, Fig. 10).

use units::{BitRate, Duration};

use super::{Line, Topology};
use crate::fabric::{Mark, QueueLimit};

/// Pods of ToRs and aggregation switches; aggregation switch `j` of every pod is joined to the
/// `j`-th group of spines.
///
/// Switches are numbered ToRs first (by pod), then aggregation switches (by pod), then spines.
/// Levels: 0 host-ToR, 1 ToR-Agg, 2 Agg-Spine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FatTree {
    /// Pods.
    pub pods: u32,
    /// ToR switches of each pod.
    pub tors_per_pod: u32,
    /// Aggregation switches of each pod.
    pub aggs_per_pod: u32,
    /// Spine switches in all: a multiple of `aggs_per_pod`; what is left over stays unused.
    pub spines: u32,
    /// Hosts under each ToR.
    pub hosts_per_tor: u32,
    /// From a host up to its ToR: the queue is the host's own.
    pub up: Line,
    /// From a ToR down to a host.
    pub down: Line,
    /// Between switches.
    pub fabric: Line,
}

impl FatTree {
    /// FUSO's: 4 spines, 4 pods of 2 + 2 switches, 64 hosts of 10 Gbit/s, fabric ports of 40
    /// Gbit/s, 1 MB per port, marks from 300 KB (hosts' ports) and 1,200 KB (fabric ports; above
    /// the queue, so it never marks there) on, base round-trip time 240 us between pods: 20 us per
    /// link.
    pub fn fuso() -> Self {
        let line = |mbps| Line::new(BitRate::from_mbps(mbps), Duration::from_micros(20), 10_000);
        let switch =
            |mbps, mark| line(mbps).with_queue(QueueLimit::Bytes(1_000_000)).with_mark(Mark::Bytes(mark));
        Self {
            pods: 4,
            tors_per_pod: 2,
            aggs_per_pod: 2,
            spines: 4,
            hosts_per_tor: 8,
            up: line(10_000),
            down: switch(10_000, 300_000),
            fabric: switch(40_000, 1_200_000),
        }
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> u32 {
        self.pods * self.tors_per_pod * self.hosts_per_tor
    }

    /// The topology.
    pub fn build(&self) -> Topology {
        let (tors, aggs) = (self.pods * self.tors_per_pod, self.pods * self.aggs_per_pod);
        let mut topology = Topology::new(self.hosts(), tors + aggs + self.spines);
        for host in 0..self.hosts() {
            topology.attach(host, host / self.hosts_per_tor, self.up, self.down);
        }
        for tor in 0..tors {
            let pod = tor / self.tors_per_pod;
            for agg in 0..self.aggs_per_pod {
                topology.join(tor, tors + pod * self.aggs_per_pod + agg, self.fabric, 1);
            }
        }
        let group = self.spines / self.aggs_per_pod.max(1);
        for agg in 0..aggs {
            let first = (agg % self.aggs_per_pod) * group;
            for spine in first..first + group {
                topology.join(tors + agg, tors + aggs + spine, self.fabric, 2);
            }
        }
        topology
    }
}
