//! How long a hole in a flow's order is worth waiting for: as long as packets have lately been
//! late, and no longer than a bound.

use units::{Duration, Instant};

/// The longest wait: beyond, TCP notices that somebody holds its packets.
pub(super) const LONGEST: Duration = Duration::from_millis(50);
/// For so long a packet that was late is remembered; and once more as long.
const MEMORY: Duration = Duration::from_secs(5);
/// Timers are no more precise.
pub(super) const GRANULARITY: Duration = Duration::from_millis(1);

/// The waits that would have been enough lately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spread {
    /// Between the paths' one-way delays, as far as round-trip times tell.
    paths: Duration,
    since: Option<Instant>,
    now: Duration,
    before: Duration,
}

impl Spread {
    /// What the paths' round-trip times say.
    pub(super) fn set_paths(&mut self, spread: Duration) {
        self.paths = spread.min(LONGEST);
    }

    /// A packet came `late` after one that was sent behind it. One that came too late to be waited
    /// for says nothing.
    pub(super) fn learn(&mut self, late: Duration, now: Instant) {
        self.roll(now);
        if late <= LONGEST {
            self.now = self.now.max(late);
        }
    }

    /// How long a hole is waited for; zero for not at all.
    pub(super) fn hold(&self) -> Duration {
        let late = self.paths.max(self.now).max(self.before);
        if late.is_zero() { late } else { (late.mul_f64(1.25) + GRANULARITY).min(LONGEST) }
    }

    /// Forgets what is long ago.
    pub(super) fn roll(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let age = now.saturating_duration_since(since);
        if age >= MEMORY {
            self.before = if age < MEMORY * 2 { self.now } else { Duration::ZERO };
            (self.now, self.since) = (Duration::ZERO, Some(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(n: u64) -> Instant {
        Instant::ORIGIN + ms(n)
    }

    #[test]
    fn the_wait_follows_what_was_late_and_forgets_it() {
        let mut spread = Spread::default();
        assert_eq!(spread.hold(), Duration::ZERO, "nobody was late");
        spread.learn(ms(8), at(0));
        spread.learn(ms(4), at(1));
        assert_eq!(spread.hold(), ms(11));
        spread.learn(ms(600), at(2));
        assert_eq!(spread.hold(), ms(11), "hopeless");
        spread.roll(at(5_000));
        assert_eq!(spread.hold(), ms(11));
        spread.roll(at(10_000));
        assert_eq!(spread.hold(), Duration::ZERO);
    }

    #[test]
    fn paths_that_differ_are_waited_for_from_the_start_up_to_the_bound() {
        let mut spread = Spread::default();
        spread.set_paths(ms(20));
        assert_eq!(spread.hold(), ms(26));
        spread.set_paths(ms(300));
        assert_eq!(spread.hold(), LONGEST);
    }
}
