//! Every poll ends, and no timer runs without a reason.

use proto::{PathState, PathStats, StreamsStats};
use units::{Duration, Instant};

use super::Broken;

/// Datagrams of one connection at one instant that no window of a test explains.
const MAX_AT_ONCE: u64 = 20_000;
/// Timer calls without a datagram that may fall into one period.
const MAX_IDLE_WAKES: u32 = 200;
/// The period.
const PERIOD: Duration = Duration::from_millis(1);
/// Timer calls at one and the same instant.
const MAX_SAME_INSTANT: u32 = 8;

/// What is under way must be looked after within this, or a few round trips of the slowest path if
/// that is longer.
const ATTENTION: Duration = Duration::from_secs(10);
const ROUND_TRIPS: u64 = 10;

/// Whether a deadline comes soon enough for whatever may be under way: then nothing more needs to
/// be known.
pub(super) fn is_soon(now: Instant, next: Option<Instant>) -> bool {
    next.is_some_and(|next| next <= now + ATTENTION)
}

/// Whatever waits for an acknowledgement, or for a packet to leave, has a deadline. Bytes that a
/// stream took from the application may be sent (flow control stops them before), so they wait for
/// nothing but windows and pacing.
pub(super) fn attended(
    now: Instant,
    next: Option<Instant>,
    paths: &[PathStats],
    streams: &StreamsStats,
) -> Result<(), Broken> {
    // What validates a path waits for leave to send more, which only the peer can give (RFC 9000
    // section 8.1).
    let carries = |p: &&PathStats| !matches!(p.state, PathState::Closing | PathState::Validating);
    let in_flight: u64 = paths.iter().filter(carries).map(|p| p.in_flight).sum();
    if in_flight == 0 && streams.send_buffered == 0 {
        return Ok(());
    }
    let slowest =
        paths.iter().map(|p| Duration::from(p.rtt + p.rtt_variance * 4)).max().unwrap_or(Duration::ZERO);
    if next.is_some_and(|next| next <= now + ATTENTION.max(slowest * ROUND_TRIPS)) {
        return Ok(());
    }
    Err(Broken::Asleep { next, what: format!("{in_flight} bytes in flight, {streams:?}, {paths:?}") })
}

#[derive(Default, Debug)]
pub(super) struct Liveness {
    instant: Instant,
    sent_at_instant: u64,
    wakes_at_instant: u32,
    period_from: Instant,
    idle_wakes: u32,
}

impl Liveness {
    pub(super) fn on_transmit(&mut self, now: Instant, datagrams: u64) -> Result<(), Broken> {
        self.enter(now);
        self.sent_at_instant += datagrams;
        if self.sent_at_instant > MAX_AT_ONCE { Err(Broken::Livelock(self.sent_at_instant)) } else { Ok(()) }
    }

    /// Something from outside: the same instant may need its timers again.
    pub(super) fn on_arrival(&mut self) {
        self.wakes_at_instant = 0;
    }

    pub(super) fn after_timeout(
        &mut self,
        now: Instant,
        next: Option<Instant>,
        sent: u64,
    ) -> Result<(), Broken> {
        self.enter(now);
        self.wakes_at_instant += 1;
        if now - self.period_from > PERIOD {
            (self.period_from, self.idle_wakes) = (now, 0);
        }
        self.idle_wakes += u32::from(sent == 0);
        let in_the_past = next.is_some_and(|next| next <= now);
        if in_the_past && self.wakes_at_instant > MAX_SAME_INSTANT {
            return Err(Broken::BusyLoop { wakes: self.wakes_at_instant, next });
        }
        if self.idle_wakes > MAX_IDLE_WAKES {
            return Err(Broken::BusyLoop { wakes: self.idle_wakes, next });
        }
        Ok(())
    }

    fn enter(&mut self, now: Instant) {
        if now != self.instant {
            (self.instant, self.sent_at_instant, self.wakes_at_instant) = (now, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::paths;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    #[test]
    fn packets_and_data_without_a_deadline_are_seen() {
        let (mut paths, idle) = (paths(), StreamsStats::default());
        paths.iter_mut().for_each(|p| p.in_flight = 0);
        assert_eq!(attended(at(0), None, &paths, &idle), Ok(()), "nothing is under way");
        let waiting = StreamsStats { send_buffered: 1, ..idle };
        assert!(attended(at(0), None, &paths, &waiting).is_err());
        assert!(
            attended(at(0), Some(at(200_000)), &paths, &waiting).is_err(),
            "the idle timeout helps nobody"
        );
        assert_eq!(attended(at(0), Some(at(4_000)), &paths, &waiting), Ok(()));
        paths[1].in_flight = 1_200;
        assert!(attended(at(0), None, &paths, &idle).is_err());
        paths[1].state = PathState::Closing;
        assert_eq!(attended(at(0), None, &paths, &idle), Ok(()), "given up with its path");
    }

    #[test]
    fn busy_loops_and_floods_are_seen() {
        let mut liveness = Liveness::default();
        let past = Some(at(5));
        for _ in 0..MAX_SAME_INSTANT {
            assert_eq!(liveness.after_timeout(at(5), past, 0), Ok(()));
        }
        assert!(liveness.after_timeout(at(5), past, 0).is_err(), "the deadline stays in the past");
        let mut liveness = Liveness::default();
        let quick = |n: u32| Instant::ORIGIN + Duration::from_micros(u64::from(n));
        let mut wakes = (0..1_000).map(|n| liveness.after_timeout(quick(n), Some(quick(n + 1)), 0));
        assert!(wakes.any(|result| result.is_err()), "a deadline per microsecond, and nothing is sent");
        assert!(Liveness::default().on_transmit(at(1), MAX_AT_ONCE + 1).is_err());
    }
}
