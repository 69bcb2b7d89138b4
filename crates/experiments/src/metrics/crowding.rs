//! What many flows do to a bottleneck and to each other.

use units::{Duration, percentile};

use super::View;
use crate::outcome::Measured;

/// Flows whose 99th percentile is looked at together, in the order of their starts.
const TOGETHER: usize = 200;

/// Packets that queues dropped, of all that hosts sent.
pub(super) fn dropped(view: View<'_>) -> Option<f64> {
    let outcome = view.outcome;
    (outcome.sent > 0).then(|| outcome.dropped as f64 / outcome.sent as f64)
}

/// 99th percentile of the completion times of the flows of a group.
fn p99(group: &[&Measured]) -> Option<Duration> {
    let mut times: Vec<Duration> = group.iter().map(|flow| flow.time.unwrap_or(Duration::MAX)).collect();
    times.sort_unstable();
    percentile(&times, 0.99)
}

/// How long after the end of the surge it takes until [`TOGETHER`] flows in a row have a 99th
/// percentile as before: at or below the largest of such groups before the surge. The time is that
/// of the last flow's start of the first such group. `None` if that does not come, or there were
/// not enough flows before.
pub(super) fn settled(view: View<'_>) -> Option<f64> {
    let surge = view.outcome.surge?;
    let mut flows: Vec<&Measured> = view.flows.iter().collect();
    flows.sort_by_key(|flow| flow.started);
    let (before, rest): (Vec<&Measured>, Vec<&Measured>) = flows
        .into_iter()
        .filter(|flow| flow.started < surge.from || flow.started >= surge.until)
        .partition(|flow| flow.started < surge.from);
    let usual = before.chunks_exact(TOGETHER).filter_map(p99).max()?;
    let calm = rest.windows(TOGETHER).find(|group| p99(group).is_some_and(|time| time <= usual))?;
    let last = calm.last()?.started;
    Some(last.saturating_duration_since(surge.until).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use tcpsim::FlowId;
    use units::Instant;

    use super::*;
    use crate::outcome::{Outcome, Surge};

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    /// A flow every 10 ms, all of 50 ms but those of the surge from 10 to 12 s and of so many ms
    /// behind it, which take a second.
    fn flows(slow_for: u64) -> Vec<Measured> {
        let flow = |n: u64| Measured {
            flow: FlowId(n as u32),
            request: None,
            bytes: 1,
            started: at(10 * n),
            time: Some(Duration::from_millis(if (10_000..12_000 + slow_for).contains(&(10 * n)) {
                1_000
            } else {
                50
            })),
            background: false,
            timeouts: 0,
            retransmissions: 0,
            extra: 0,
            repaired: 0,
            packets: 1,
            fifth_extra: None,
            before_hit: 0,
            sent_before_hit: 0,
            chances: [0; 3],
        };
        (0..3_000).map(flow).collect()
    }

    fn settled_after(slow_for: u64) -> Option<f64> {
        let flows = flows(slow_for);
        let outcome =
            Outcome { surge: Some(Surge { from: at(10_000), until: at(12_000) }), ..Outcome::default() };
        settled(View { flows: &flows, outcome: &outcome })
    }

    /// The 99th percentile of 200 is the 198th: two may be slow. The first group with two begins two
    /// flows before the last slow one, and its last is 199 flows later.
    #[test]
    fn it_is_settled_when_two_hundred_flows_are_as_fast_as_before() {
        assert_eq!(settled_after(0), Some(1.99));
        assert_eq!(settled_after(500), Some(2.47));
        assert_eq!(settled_after(18_000), None);
    }
}
