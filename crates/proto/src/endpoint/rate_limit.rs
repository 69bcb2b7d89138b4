//! How often an endpoint answers strangers.

use units::Instant;

/// A bucket that holds one second's worth of answers.
#[derive(Debug)]
pub(super) struct RateLimit {
    per_second: u64,
    /// In nano-answers, so that slow refills are not rounded away.
    available: u64,
    refilled: Instant,
}

const ONE: u64 = 1_000_000_000;

impl RateLimit {
    /// A full bucket. `per_second` is below 2^32.
    pub(super) fn new(per_second: u32) -> Self {
        let per_second = u64::from(per_second);
        Self { per_second, available: per_second * ONE, refilled: Instant::ORIGIN }
    }

    /// Takes one answer; false if none is left.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let elapsed = (now - self.refilled).as_nanos();
        self.refilled = self.refilled.max(now);
        let refill = elapsed.saturating_mul(self.per_second);
        self.available = self.available.saturating_add(refill).min(self.per_second * ONE);
        let left = self.available.checked_sub(ONE);
        self.available = left.unwrap_or(self.available);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    #[test]
    fn a_second_holds_no_more_than_its_answers() {
        let mut limit = RateLimit::new(10);
        let start = Instant::ORIGIN + Duration::from_secs(100);
        assert_eq!((0..50).map(|_| u32::from(limit.take(start))).sum::<u32>(), 10);
        let taken = (0..1_000).filter(|ms| limit.take(start + Duration::from_millis(*ms))).count();
        assert_eq!(taken, 9, "the tenth comes when the second is over");
        assert!(limit.take(start + Duration::from_secs(1)));
        assert!(!limit.take(Instant::ORIGIN), "a clock that jumps back gives nothing");
    }
}
