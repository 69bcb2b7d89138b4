//! Which paths datagrams leave out that suffer from each loss
//! ([`DatagramOptions::steady`](crate::DatagramOptions::steady)).
//!
//! A path that loses packets by chance is left out if a TCP inside, over all paths, would have no
//! more than the others carry: what the loss leaves it is `MSS / RTT * sqrt(3 / 2p)` (Mathis, Semke,
//! Mahdavi and Ott 1997, equation 3). Others that are more than twice as far do not count: short
//! exchanges would wait for them.

use units::Duration;

use crate::PathSnapshot;

/// The least loss rate of a path that is not steady: two packets in 500.
const LEAST: f64 = 0.004;

/// Whether `path` is left out, of these.
pub(crate) fn is_left_out(path: &PathSnapshot, paths: &[PathSnapshot]) -> bool {
    let near = |s: &&PathSnapshot| s.usable && s.steady && s.rtt / 2 <= path.rtt;
    let others = paths.iter().filter(near).map(|s| per_second(s.window, s.rtt));
    let loss = path.history.observed().max(LEAST);
    !path.steady && others.sum::<f64>() >= per_second(path.mtu, path.rtt) * (1.5 / loss).sqrt()
}

fn per_second(bytes: u64, rtt: Duration) -> f64 {
    bytes as f64 / rtt.as_secs_f64().max(1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathId;

    /// A path of this round-trip time whose window holds so many packets.
    fn path(id: u32, rtt_ms: u64, packets: u64) -> PathSnapshot {
        let path = PathSnapshot::new(PathId(id), Duration::from_millis(rtt_ms), 1_400);
        PathSnapshot { window: packets * 1_400, ..path }
    }

    fn unsteady(path: PathSnapshot) -> PathSnapshot {
        PathSnapshot { steady: false, ..path }
    }

    #[test]
    fn a_path_that_loses_is_left_out_where_the_others_carry_more_than_a_tcp_would_have() {
        let lossy = unsteady(path(1, 50, 400));
        // sqrt(1.5 / 0.004) = 19.4 packets per round trip.
        assert!(is_left_out(&lossy, &[path(0, 50, 20), lossy]));
        assert!(!is_left_out(&lossy, &[path(0, 50, 19), lossy]));
        assert!(is_left_out(&lossy, &[path(0, 50, 10), path(2, 50, 10), lossy]));
        assert!(!is_left_out(&path(1, 50, 400), &[path(0, 50, 20), lossy]), "it loses nothing");
    }

    #[test]
    fn nobody_goes_far_or_over_a_backup_for_it() {
        let lossy = unsteady(path(1, 50, 400));
        assert!(is_left_out(&lossy, &[path(0, 100, 400), lossy]));
        assert!(!is_left_out(&lossy, &[path(0, 110, 400), lossy]));
        let backup = PathSnapshot { usable: false, ..path(0, 50, 400) };
        assert!(!is_left_out(&lossy, &[backup, lossy]));
        assert!(!is_left_out(&lossy, &[lossy]));
    }
}
