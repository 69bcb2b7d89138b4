//! When data in flight on one path is worth sending again on another: when the copy is predicted to
//! arrive first.
//!
//! The counterpart of what [`EarliestDelivery`](super::earliest_delivery) asks of new data, for
//! what has been sent already and whose path has turned out slower than it was predicted to be, or
//! has died. It is asked only when nothing new is to be sent, or may be: MPTCP calls this
//! opportunistic retransmission.
//!
//! # Invariants
//! Nothing is late on a path as fast as the other one that answers in time.

use units::Duration;

use crate::{GRANULARITY, PathSnapshot};

/// What is to become of a packet that was sent some time ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A copy would arrive first.
    Copy,
    /// It should arrive in time; if it has not been acknowledged after this time, ask again.
    Wait(Duration),
}

/// Judges a packet that has been in flight on `of` for `age` and could be sent again on `on`.
pub(crate) fn judge(of: &PathSnapshot, age: Duration, on: &PathSnapshot) -> Verdict {
    let copy = on.pacing_wait + one_way(on);
    let margin = (of.rtt / 8).max(GRANULARITY);
    // An ACK that is overdue by more than chance: the packet may be lost, which takes its path a
    // round trip to mend, or it is dead.
    let patience = of.expected_rtt + spread(of) + of.rtt / 8;
    if age >= patience {
        return if copy < of.rtt { Verdict::Copy } else { Verdict::Wait(of.rtt) };
    }
    let original = one_way(of).saturating_sub(age);
    if copy + margin < original { Verdict::Copy } else { Verdict::Wait(patience - age) }
}

/// By how much an ACK may come later than expected, by chance. The variation begins with half of the first sample (RFC
/// 9002 section 5.3), four of which would be two round trips that nothing has shown.
fn spread(of: &PathSnapshot) -> Duration {
    let most = of.rtt / 2 + of.ack_delay;
    (of.rtt_variance * 4).min(most).max(GRANULARITY)
}

fn one_way(path: &PathSnapshot) -> Duration {
    path.expected_rtt - path.rtt / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PathId;

    fn path(id: u32, rtt_ms: u64, variance_ms: u64) -> PathSnapshot {
        PathSnapshot {
            rtt_variance: Duration::from_millis(variance_ms),
            ..PathSnapshot::new(PathId(id), Duration::from_millis(rtt_ms), 1_200)
        }
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_faster_path_overtakes_a_packet_that_has_just_left() {
        let (slow, fast) = (path(0, 200, 5), path(1, 20, 1));
        assert_eq!(judge(&slow, ms(10), &fast), Verdict::Copy);
        assert!(matches!(judge(&slow, ms(90), &fast), Verdict::Wait(_)), "arrives as early by itself");
        assert!(matches!(judge(&fast, ms(0), &slow), Verdict::Wait(_)));
    }

    #[test]
    fn equal_paths_wait_until_the_acknowledgement_is_overdue() {
        let (a, b) = (path(0, 40, 2), path(1, 40, 2));
        assert_eq!(judge(&a, ms(20), &b), Verdict::Wait(ms(33)), "40 + 4 x 2 + 40 / 8 - 20");
        assert_eq!(judge(&a, ms(53), &b), Verdict::Copy);
    }

    #[test]
    fn a_first_sample_says_little_of_how_they_vary() {
        // RFC 9002 section 5.3: the variation begins with half of it.
        let young = PathSnapshot { ack_delay: ms(25), ..path(0, 80, 40) };
        let other = path(1, 80, 40);
        assert_eq!(judge(&young, ms(20), &other), Verdict::Wait(ms(135)), "80 + 80 / 2 + 25 + 80 / 8 - 20");
        assert_eq!(judge(&young, ms(155), &other), Verdict::Copy);
    }

    #[test]
    fn a_path_that_is_much_slower_does_not_help_an_overdue_packet() {
        let (fast, slow) = (path(0, 20, 1), path(1, 200, 1));
        assert_eq!(judge(&fast, ms(60), &slow), Verdict::Wait(ms(20)));
    }
}
