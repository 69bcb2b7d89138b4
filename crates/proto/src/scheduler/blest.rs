//! Blocking estimation (Ferlin, Alay, Mehani, Boreli: "BLEST: Blocking Estimation-based MPTCP
//! Scheduler for Heterogeneous Networks", IFIP Networking 2016, section III).
//!
//! A slower path is left alone if what it has in flight would block the send window while the
//! fastest one could send: X, what the fastest one sends in the slower one's round trip, must fit
//! beside it.
//!
//! | paper   | here                                                                       |
//! |---------|----------------------------------------------------------------------------|
//! | rtts    | the slower one's round trip in those of the fastest                        |
//! | X       | (window + MSS (rtts - 1)/2) * rtts, in bytes                               |
//! | \|M\|   | what is in flight on all paths and what waits: QUIC's flow control is a matter of the streams, whose waiting bytes are what a late packet holds up |
//! | lambda  | 1; its adaptation to what was misjudged is left out                        |

use units::Instant;

use super::{Scheduler, slow_and_fast};
use crate::{PathSnapshot, wire::PathId};

#[derive(Debug, Default)]
pub(super) struct Blest;

impl Scheduler for Blest {
    fn select(&mut self, _now: Instant, paths: &[PathSnapshot], queued: u64) -> Option<PathId> {
        let (slow, fast) = slow_and_fast(paths)?;
        let Some(fast) = fast else { return Some(slow.id) };
        let rtts = slow.rtt.as_secs_f64() / fast.rtt.as_secs_f64().max(1e-6);
        let sent_meanwhile = (fast.window as f64 + fast.mtu as f64 * (rtts - 1.0) / 2.0) * rtts;
        let in_flight: u64 = paths.iter().map(|p| p.in_flight).sum();
        let window = (in_flight + queued) as f64;
        let blocks = sent_meanwhile > window - (slow.in_flight + slow.mtu) as f64;
        (!blocks).then_some(slow.id)
    }
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;

    #[test]
    fn a_slow_one_is_left_alone_if_it_would_block_the_fast_one() {
        let path = |id, rtt, in_flight: u64| {
            let mut path = PathSnapshot::new(PathId(id), Duration::from_millis(rtt), 1_200);
            path.in_flight = in_flight * 1_200;
            path
        };
        // Five fast round trips in a slow one: (10 + 2) * 5 = 60 packets.
        let full = [path(0, 10, 10), path(1, 50, 0)];
        let choose = |packets: u64, paths: &[PathSnapshot]| {
            Blest.select(Instant::ORIGIN, paths, packets * 1_200).map(|id| id.0)
        };
        assert_eq!(choose(50, &full), None, "60 beside 1 do not fit into 60");
        assert_eq!(choose(51, &full), Some(1));
        assert_eq!(choose(1, &[path(0, 10, 9), path(1, 50, 0)]), Some(0), "it has room");
    }
}
