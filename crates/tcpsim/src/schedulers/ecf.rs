//! Earliest completion first (Lim, Nahum, Towsley, Gibbens: "ECF: An MPTCP Path Scheduler to Manage
//! Heterogeneous Paths", CoNEXT 2017, algorithm 1).
//!
//! While the fastest sub-flow has room it takes everything. When it has none, a slower one is used
//! only if what is left would not be there earlier by waiting for the fastest:
//!
//! | paper          | here                                             |
//! |----------------|--------------------------------------------------|
//! | x_f, x_s       | the fastest; that with room and the smallest RTT |
//! | k              | [`Unsent::segments`]                             |
//! | CWND, RTT, sigma | `window`, `rtt`, `rtt_variance`                |
//! | beta           | [`BETA`]: hysteresis of waiting                  |

use units::Instant;

use super::slow_and_fast;
use crate::own::{Scheduler, SubflowView, Unsent};

/// How much longer than at first it goes on waiting (section 4.2).
const BETA: f64 = 0.25;

#[derive(Default, Debug)]
pub(super) struct Ecf {
    waiting: bool,
}

impl Scheduler for Ecf {
    fn choose(&mut self, _now: Instant, unsent: Unsent, subflows: &[SubflowView]) -> Option<usize> {
        let (slow, fast) = slow_and_fast(subflows)?;
        let Some(fast) = fast else { return Some(slow.sub) };
        let left = f64::from(unsent.segments);
        let (fast_rtt, slow_rtt) = (fast.rtt.as_secs_f64(), slow.rtt.as_secs_f64());
        let margin = fast.rtt_variance.max(slow.rtt_variance).as_secs_f64();
        let rounds = 1.0 + left / f64::from(fast.window.max(1));
        let patience = if self.waiting { 1.0 + BETA } else { 1.0 };
        if rounds * fast_rtt >= patience * (slow_rtt + margin) {
            self.waiting = false;
            return Some(slow.sub);
        }
        if left / f64::from(slow.window.max(1)) * slow_rtt >= 2.0 * fast_rtt + margin {
            self.waiting = true;
            return None;
        }
        Some(slow.sub)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::flow, *};

    fn choose(ecf: &mut Ecf, segments: u32, subflows: &[SubflowView]) -> Option<usize> {
        ecf.choose(Instant::ORIGIN, Unsent { segments, allowed: 1_000 }, subflows)
    }

    #[test]
    fn it_waits_for_the_fast_one_if_that_is_earlier() {
        let ecf = &mut Ecf::default();
        assert_eq!(choose(ecf, 5, &[flow(0, 10, 3), flow(1, 100, 0)]), Some(0), "it has room");
        // Ten left take two rounds of 10 ms, less than 100 ms; 10/10 of 100 ms are more than 20 ms.
        let full = [flow(0, 10, 10), flow(1, 100, 0)];
        assert_eq!(choose(ecf, 10, &full), None);
        // So many that the fast one alone is later than the slow one's round trip.
        assert_eq!(choose(ecf, 200, &full), Some(1));
        // A single one: a tenth of a window on the slow one counts less than two fast rounds.
        assert_eq!(choose(ecf, 1, &full), Some(1));
    }

    #[test]
    fn waiting_goes_on_a_little_longer_than_it_begins() {
        let full = [flow(0, 10, 10), flow(1, 100, 0)];
        // 95 left: 10.5 rounds of 10 ms are more than 100 ms, but less than 125 ms.
        assert_eq!(choose(&mut Ecf::default(), 95, &full), Some(1));
        assert_eq!(choose(&mut Ecf { waiting: true }, 95, &full), None);
        assert_eq!(choose(&mut Ecf { waiting: true }, 120, &full), Some(1));
    }
}
