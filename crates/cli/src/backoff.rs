//! How long to wait before trying again: twice as long each time, with jitter, up to a limit.

use std::time::Duration;

use ring::rand::SecureRandom as _;

/// Waiting times of one kind of attempt.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    limit: Duration,
    attempts: u32,
}

impl Backoff {
    /// Begins with `first` and never waits longer than `limit`.
    pub fn new(first: Duration, limit: Duration) -> Self {
        Self { first, limit, attempts: 0 }
    }

    /// How long to wait now: between half and all of the doubling time, so that many clients do not
    /// come back at once.
    pub fn next_wait(&mut self) -> Duration {
        self.wait(random_share())
    }

    fn wait(&mut self, share: f64) -> Duration {
        let full = self.first.saturating_mul(1 << self.attempts.min(20)).min(self.limit);
        self.attempts = self.attempts.saturating_add(1);
        full.mul_f64(0.5 + share / 2.0)
    }
}

/// From 0 to 1.
fn random_share() -> f64 {
    let mut bytes = [0; 4];
    match ring::rand::SystemRandom::new().fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 1.0,
    }
}

/// Waits. Only for time itself; whoever waits for an event waits for the event.
pub async fn pause(time: Duration) {
    tokio::time::sleep_until(tokio::time::Instant::now() + time).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_limit() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
        let waits: Vec<_> = (0..6).map(|_| backoff.wait(1.0).as_millis()).collect();
        assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
        assert_eq!(backoff.wait(0.0), Duration::from_millis(500));
        for _ in 0..100 {
            assert!(backoff.next_wait() <= Duration::from_secs(10));
        }
    }
}
