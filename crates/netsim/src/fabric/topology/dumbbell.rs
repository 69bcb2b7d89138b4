//! Pairs of hosts on either side of one bottleneck: the first half of the hosts left, the other
//! half right.

use units::{BitRate, Duration};

use super::{Line, LinkId, Topology};

/// A dumbbell. Host `i` and host `pairs + i` are a pair; link 0 is the bottleneck, from left to
/// right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dumbbell {
    /// Pairs of hosts.
    pub pairs: u32,
    /// From each host to its router and back.
    pub access: Line,
    /// Between the routers.
    pub bottleneck: Line,
}

impl Dumbbell {
    /// The bottleneck.
    pub const BOTTLENECK: LinkId = LinkId(0);

    /// `pairs` pairs over a bottleneck of `rate` with a queue of `packets`, at a round-trip time of
    /// `rtt` without load and serialisation. The access links have ten times the rate, a tenth of
    /// the delay each, and roomy queues.
    pub fn new(pairs: u32, rate: BitRate, rtt: Duration, packets: u32) -> Self {
        let side = rtt / 20;
        let access = Line::new(BitRate(rate.bits_per_second().saturating_mul(10)), side, 10_000);
        Self { pairs, access, bottleneck: Line::new(rate, rtt / 2 - side * 2, packets) }
    }

    /// The topology.
    pub fn build(&self) -> Topology {
        let mut topology = Topology::new(2 * self.pairs, 2);
        topology.join(0, 1, self.bottleneck, 1);
        for host in 0..2 * self.pairs {
            topology.attach(host, u32::from(host >= self.pairs), self.access, self.access);
        }
        topology
    }
}
