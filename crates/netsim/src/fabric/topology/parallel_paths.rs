//! Two racks with several equal links between them: FUSO's testbed (section VI-A, Fig. 5).

use units::{BitRate, Duration};

use super::{Line, LinkId, Topology};
use crate::fabric::{Mark, QueueLimit};

/// Hosts `0..per_rack` under the first switch, the others under the second; links `0..paths` join
/// the switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParallelPaths {
    /// Links between the switches: P1, P2, ...
    pub paths: u32,
    /// Hosts of each rack.
    pub per_rack: u32,
    /// From a host up to its switch: the queue is the host's own.
    pub up: Line,
    /// From a switch down to a host.
    pub down: Line,
    /// Between the switches.
    pub between: Line,
}

impl ParallelPaths {
    /// FUSO's testbed: three hosts per rack, three paths, 1 Gbit/s everywhere, 128 KB per switch
    /// port with marks from 32 KB on (1,024 bytes per KB), and delays of 46.67 us per link that
    /// make a base round-trip time of 280 us.
    pub fn fuso() -> Self {
        let line = Line::new(BitRate::from_mbps(1_000), Duration::from_nanos(280_000 / 6), 10_000);
        let switch = line.with_queue(QueueLimit::Bytes(128 * 1_024)).with_mark(Mark::Bytes(32 * 1_024));
        Self { paths: 3, per_rack: 3, up: line, down: switch, between: switch }
    }

    /// Path `n`, from 0.
    pub const fn path(n: u32) -> LinkId {
        LinkId(n)
    }

    /// The link of host `n`.
    pub const fn access(&self, n: u32) -> LinkId {
        LinkId(self.paths + n)
    }

    /// The topology.
    pub fn build(&self) -> Topology {
        let mut topology = Topology::new(2 * self.per_rack, 2);
        for _ in 0..self.paths {
            topology.join(0, 1, self.between, 1);
        }
        for host in 0..2 * self.per_rack {
            topology.attach(host, u32::from(host >= self.per_rack), self.up, self.down);
        }
        topology
    }
}
