//! What befalls single packets between a host and its link: the n-th is dropped, copied, delayed,
//! damaged, or copied by a stranger.

use std::{collections::BTreeMap, net::SocketAddr};

use netsim::Rng;
use units::Duration;

use crate::scenario::Fault;

/// Faults that may wait for their packets at once; further ones are ignored.
const MAX_ARMED: usize = 1_024;

/// A fault and the packets that it waits for.
#[derive(Clone, Copy, Debug)]
pub struct Armed {
    /// Packets that pass before.
    pub skip: u32,
    /// Packets that are hit.
    pub count: u32,
    /// What happens to each.
    pub what: Fault,
}

/// What becomes of one packet.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    /// It vanishes.
    pub(crate) dropped: bool,
    /// It enters its link so much later.
    pub(crate) late: Option<Duration>,
    /// Copies enter the link so much later.
    pub(crate) copies: Vec<Duration>,
    /// A stranger sends copies so much later.
    pub(crate) replays: Vec<Duration>,
}

/// Most bits that sustained corruption inverts in a packet.
const MAX_CORRUPTED: u64 = 8;

/// The faults of all links, and the randomness that says which bits they hit.
pub(crate) struct Faults {
    armed: BTreeMap<(SocketAddr, SocketAddr), Vec<Armed>>,
    /// The share of packets that arrives damaged.
    corrupting: BTreeMap<(SocketAddr, SocketAddr), f64>,
    rng: Rng,
}

impl Faults {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { armed: BTreeMap::new(), corrupting: BTreeMap::new(), rng }
    }

    pub(crate) fn arm(&mut self, from: SocketAddr, to: SocketAddr, armed: Armed) {
        let list = self.armed.entry((from, to)).or_default();
        if list.len() < MAX_ARMED {
            list.push(armed);
        }
    }

    /// Damages such a share of the packets from now on.
    pub(crate) fn corrupt(&mut self, from: SocketAddr, to: SocketAddr, share: f64) {
        self.corrupting.insert((from, to), share);
    }

    pub(crate) fn clear(&mut self) {
        self.armed.clear();
        self.corrupting.clear();
    }

    /// Packets that faults still wait for.
    pub(crate) fn left(&self) -> u64 {
        self.armed.values().flatten().map(|armed| u64::from(armed.skip) + u64::from(armed.count)).sum()
    }

    /// Decides about the next packet of a link, and damages it; `None` if nothing waits for it.
    pub(crate) fn hit(&mut self, from: SocketAddr, to: SocketAddr, packet: &mut Vec<u8>) -> Option<Fate> {
        if let Some(share) = self.corrupting.get(&(from, to))
            && self.rng.chance(*share)
        {
            let bits = 1 + self.rng.below(MAX_CORRUPTED) as u32;
            flip(&mut self.rng, packet, bits);
        }
        let list = self.armed.get_mut(&(from, to)).filter(|list| !list.is_empty())?;
        let mut fate = Fate::default();
        for armed in list.iter_mut() {
            if armed.skip > 0 {
                armed.skip -= 1;
                continue;
            }
            armed.count -= u32::from(armed.count > 0);
            match armed.what {
                Fault::Drop => fate.dropped = true,
                Fault::Duplicate(after) => fate.copies.push(after),
                Fault::Detour(time) => fate.late = Some(time),
                Fault::Replay(after) => fate.replays.push(after),
                Fault::Flip(bits) => flip(&mut self.rng, packet, bits),
                Fault::Truncate(len) => packet.truncate(len.max(1) as usize),
                Fault::Append(len) => {
                    packet.extend((0..len).map(|_| self.rng.next_u64() as u8));
                }
            }
        }
        list.retain(|armed| armed.count > 0);
        Some(fate)
    }
}

/// Where a long header has the length of its destination connection id (RFC 8999 section 5.1).
const DESTINATION_CID_LENGTH: usize = 5;

/// Inverts bits, but never the one that tells long headers from short ones, nor those of the length
/// of a long header's destination connection id: what a packet says when it is read otherwise
/// depends on TLS's randomness, and so would the answer. (Of an unknown version, it repeats as much
/// as the source connection id then seems to have.)
fn flip(rng: &mut Rng, packet: &mut [u8], bits: u32) {
    for _ in 0..bits {
        let at = rng.below(packet.len() as u64 * 8) as usize;
        if at != 7 && at / 8 != DESTINATION_CID_LENGTH {
            packet[at / 8] ^= 1 << (at % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corruption_hits_its_share_until_it_ends() {
        let (a, b) = (SocketAddr::from(([1, 1, 1, 1], 1)), SocketAddr::from(([2, 2, 2, 2], 2)));
        let mut faults = Faults::new(Rng::new(netsim::Seed(1)));
        let damaged = |faults: &mut Faults| {
            let hit = |_: &usize| {
                let mut packet = vec![0; 100];
                assert!(faults.hit(a, b, &mut packet).is_none(), "damaged or not, it goes its way");
                packet.iter().any(|byte| *byte != 0)
            };
            (0..1_000).filter(hit).count()
        };
        faults.corrupt(a, b, 0.1);
        assert!((60..140).contains(&damaged(&mut faults)));
        faults.clear();
        assert_eq!(damaged(&mut faults), 0);
    }

    #[test]
    fn the_packets_meant_are_hit_and_no_others() {
        let (a, b) = (SocketAddr::from(([1, 1, 1, 1], 1)), SocketAddr::from(([2, 2, 2, 2], 2)));
        let mut faults = Faults::new(Rng::new(netsim::Seed(1)));
        faults.arm(a, b, Armed { skip: 1, count: 2, what: Fault::Drop });
        assert_eq!(faults.left(), 3);
        faults.arm(a, b, Armed { skip: 3, count: 1, what: Fault::Truncate(5) });
        faults.arm(a, b, Armed { skip: 4, count: 1, what: Fault::Flip(1) });
        assert!(faults.hit(b, a, &mut vec![0; 9]).is_none(), "the other way");
        let mut seen = Vec::new();
        for _ in 0..5 {
            let mut packet = vec![0; 9];
            let fate = faults.hit(a, b, &mut packet).unwrap();
            let ones: u32 = packet.iter().map(|byte| byte.count_ones()).sum();
            seen.push((fate.dropped, packet.len(), ones));
        }
        let expected = [(false, 9, 0), (true, 9, 0), (true, 9, 0), (false, 5, 0), (false, 9, 1)];
        assert_eq!(seen, expected);
        assert!(faults.hit(a, b, &mut vec![0; 9]).is_none(), "all have had their packets");
    }
}
