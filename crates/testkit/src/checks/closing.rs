//! A closed connection is gone within three probe timeouts (RFC 9000 section 10.2).

use proto::{Connection, PathState, PathStats};
use units::{Duration, Instant};

use super::Broken;

/// The least variation that a probe timeout counts with (RFC 9002 section 6.1.2).
const GRANULARITY: Duration = Duration::from_millis(1);
/// The most that ACKs are delayed (RFC 9000 section 18.2: the default).
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// A peer whose last path is silent probes it twice within this.
const PROBES_OF_A_PEER: Duration = Duration::from_secs(8);

/// How far the end of a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    /// Neither side has closed it.
    Open,
    /// One has, and it still answers what comes late.
    Closed,
    /// It is gone.
    Drained,
}

impl Ending {
    /// What the connection says of itself.
    pub(super) fn of(connection: &Connection) -> Self {
        match (connection.is_closed(), connection.is_drained()) {
            (false, _) => Self::Open,
            (true, false) => Self::Closed,
            (true, true) => Self::Drained,
        }
    }
}

/// When the connection was closed by either side, and by when it must be drained.
#[derive(Debug, Default)]
pub(super) struct Closing {
    closed: Option<(Instant, Instant)>,
    /// The host stands still until then: nobody can expect anything of it before.
    asleep: Instant,
}

impl Closing {
    /// What the connection says of itself at `now`; `paths` are asked for once, when it closes.
    pub(super) fn check(
        &mut self,
        now: Instant,
        ending: Ending,
        paths: impl FnOnce() -> Vec<PathStats>,
    ) -> Result<(), Broken> {
        if ending == Ending::Open {
            return Ok(());
        }
        let (at, until) = *self.closed.get_or_insert_with(|| (now, now + longest_period(&paths())));
        if ending == Ending::Drained || now <= until.max(self.asleep) {
            Ok(())
        } else {
            Err(Broken::NotDrained { closed: at, until })
        }
    }

    /// The host stands still until then.
    pub(super) fn on_sleep(&mut self, until: Instant) {
        self.asleep = self.asleep.max(until);
    }
}

/// Three probe timeouts; without a path, long enough to answer one of the peer's probes.
fn longest_period(paths: &[PathStats]) -> Duration {
    let stranded = paths.iter().all(|p| matches!(p.state, PathState::Closing | PathState::Validating));
    let least = if stranded { PROBES_OF_A_PEER } else { Duration::ZERO };
    (slowest_probe(paths) * 3).max(least)
}

fn slowest_probe(paths: &[PathStats]) -> Duration {
    let probe = |p: &PathStats| {
        Duration::from(p.rtt) + Duration::from(p.rtt_variance * 4).max(GRANULARITY) + MAX_ACK_DELAY
    };
    paths.iter().map(probe).max().unwrap_or(Duration::from_millis(100))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::paths;

    #[test]
    fn a_connection_that_lingers_is_seen() {
        let mut closing = Closing::default();
        let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
        let slow = || {
            let mut paths = paths();
            (paths[0].rtt, paths[0].rtt_variance) =
                (Duration::from_millis(65).into(), Duration::from_millis(10).into());
            (paths[1].rtt, paths[1].rtt_variance) = (Duration::from_millis(5).into(), Duration::ZERO.into());
            paths
        };
        assert_eq!(closing.check(at(10_000), Ending::Open, slow), Ok(()));
        assert_eq!(closing.check(at(20_000), Ending::Closed, slow), Ok(()));
        assert_eq!(closing.check(at(20_390), Ending::Closed, slow), Ok(()));
        assert!(closing.check(at(20_391), Ending::Closed, slow).is_err());
        assert_eq!(closing.check(at(20_391), Ending::Drained, slow), Ok(()));
        closing.on_sleep(at(21_000));
        assert_eq!(closing.check(at(21_000), Ending::Closed, slow), Ok(()));
        assert!(closing.check(at(21_001), Ending::Closed, slow).is_err());
    }

    #[test]
    fn a_host_that_was_asleep_when_it_was_closed_drains_when_it_wakes() {
        let mut closing = Closing::default();
        let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
        closing.on_sleep(at(9_000));
        assert_eq!(closing.check(at(1_000), Ending::Closed, paths), Ok(()));
        assert_eq!(closing.check(at(9_000), Ending::Closed, paths), Ok(()));
        assert!(closing.check(at(9_001), Ending::Closed, paths).is_err());
    }
}
