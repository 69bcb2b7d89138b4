//! Blocking estimation (Ferlin, Alay, Mehani, Boreli: "BLEST: Blocking Estimation-based MPTCP
//! Scheduler for Heterogeneous Networks", IFIP Networking 2016, section III).
//!
//! A slower sub-flow is left alone if what it has in flight would block the receive window while
//! the fastest one could send: X, what the fastest one sends in the slower one's round trip, must fit
//! beside it.
//!
//! | paper     | here                                                                |
//! |-----------|---------------------------------------------------------------------|
//! | rtts      | the slower one's round trip in those of the fastest                 |
//! | X         | (window + (rtts - 1)/2) * rtts, in segments                         |
//! | \|M\|     | what the receive window holds: in flight on all, and still allowed  |
//! | lambda    | 1; its adaptation to what was misjudged is left out                 |

use units::Instant;

use super::slow_and_fast;
use crate::own::{Scheduler, SubflowView, Unsent};

#[derive(Debug)]
pub(super) struct Blest;

impl Scheduler for Blest {
    fn choose(&mut self, _now: Instant, unsent: Unsent, subflows: &[SubflowView]) -> Option<usize> {
        let (slow, fast) = slow_and_fast(subflows)?;
        let Some(fast) = fast else { return Some(slow.sub) };
        let rtts = slow.rtt.as_secs_f64() / fast.rtt.as_secs_f64();
        let sent_meanwhile = (f64::from(fast.window) + (rtts - 1.0) / 2.0) * rtts;
        let in_flight: u32 = subflows.iter().map(|flow| flow.in_flight).sum();
        let window = f64::from(in_flight) + f64::from(unsent.allowed);
        let blocks = sent_meanwhile > window - (f64::from(slow.in_flight) + 1.0);
        (!blocks).then_some(slow.sub)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::flow, *};

    #[test]
    fn a_slow_one_is_left_alone_if_it_would_block_the_fast_one() {
        // Five fast round trips in a slow one: (10 + 2) * 5 = 60 segments.
        let full = [flow(0, 10, 10), flow(1, 50, 0)];
        let choose = |allowed, flows: &[SubflowView]| {
            Blest.choose(Instant::ORIGIN, Unsent { segments: 500, allowed }, flows)
        };
        assert_eq!(choose(50, &full), None, "60 beside 1 do not fit into 60");
        assert_eq!(choose(51, &full), Some(1));
        assert_eq!(choose(1, &[flow(0, 10, 9), flow(1, 50, 0)]), Some(0), "it has room");
    }
}
