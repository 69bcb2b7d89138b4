//! CoFUSO's simulation network: ten routers between ten receivers and ten senders (section 6.2,
//! Fig. 12).
//!
//! The wiring is only in the paper's drawing (COF-A5), so both readings are here.

use units::{BitRate, Duration};

use super::{Line, LinkId, Topology};
use crate::fabric::QueueLimit;

/// How the ten routers are joined.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Wiring {
    /// R1 - {R2..R5} - {R6..R9} - R10 with a full mesh in the middle: 16 paths, five links per
    /// direction.
    #[default]
    Mesh4x4,
    /// R1 - {R2,R3} - {R4..R7} - {R8,R9} - R10, neighbouring layers fully meshed: 16 paths, six
    /// links per direction.
    Layers242,
}

/// Hosts 0-9 (H1-H10) on router 0 (R1), hosts 10-19 (H11-H20) on router 9 (R10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TenRouters {
    /// How the routers are joined.
    pub wiring: Wiring,
    /// Rate of every link, of those of hosts only if the routers have one of their own.
    pub rate: BitRate,
    /// Rate of the links between routers. Default [`rate`](Self::rate): then R1 and R10 carry less
    /// than the hosts behind them.
    pub between: Option<BitRate>,
    /// Queue of every port, in bytes.
    pub queue: u64,
    /// Base round-trip time between hosts on either side; every link has an equal part.
    pub rtt: Duration,
}

/// Level of the links between R2-R9, which may be lossy.
pub const CORE: u8 = 2;

impl TenRouters {
    /// The paper's: 300 Mbit/s, queues of three bandwidth-delay products (5,400 KB, COF-A9), 48 ms.
    pub fn cofuso(wiring: Wiring) -> Self {
        Self {
            wiring,
            rate: BitRate::from_mbps(300),
            between: None,
            queue: 5_400_000,
            rtt: Duration::from_millis(48),
        }
    }

    /// The links "between routers R2-R9", of which the paper makes four lossy.
    pub fn core_links(topology: &Topology) -> Vec<LinkId> {
        topology.links_at(CORE).collect()
    }

    /// The topology.
    pub fn build(&self) -> Topology {
        let links_per_direction = match self.wiring {
            Wiring::Mesh4x4 => 5,
            Wiring::Layers242 => 6,
        };
        let line = Line::new(self.rate, self.rtt / (2 * links_per_direction), 0);
        let line = line.with_queue(QueueLimit::Bytes(self.queue));
        let mut topology = Topology::new(20, 10);
        for host in 0..20 {
            topology.attach(host, if host < 10 { 0 } else { 9 }, line, line);
        }
        let between = Line { rate: self.between.unwrap_or(self.rate), ..line };
        let layers: &[std::ops::Range<u32>] = match self.wiring {
            Wiring::Mesh4x4 => &[0..1, 1..5, 5..9, 9..10],
            Wiring::Layers242 => &[0..1, 1..3, 3..7, 7..9, 9..10],
        };
        for pair in layers.windows(2) {
            let edge = pair[0].start == 0 || pair[1].start == 9;
            for left in pair[0].clone() {
                for right in pair[1].clone() {
                    topology.join(left, right, between, if edge { 1 } else { CORE });
                }
            }
        }
        topology
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_may_have_a_rate_of_their_own() {
        let network = TenRouters::cofuso(Wiring::Mesh4x4);
        let fast = TenRouters { between: Some(BitRate::from_mbps(1_500)), ..network };
        assert_ne!(fast.build(), network.build());
        assert_eq!(TenRouters { between: Some(network.rate), ..network }.build(), network.build());
    }
}
