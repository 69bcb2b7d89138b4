//! The share of packets that a path loses whatever the load: what round trips without a queue have lost.
//!
//! Counts in packets. The memory is a few windows, so that it follows the path; a pseudo-count stands for what has not been seen yet.
//!
//! # Invariants
//! `0 < share < 1`.

/// Least number of packets that are remembered.
const LEAST_MEMORY: f64 = 300.0;
/// Windows that are remembered, if that is more.
const MEMORY_WINDOWS: f64 = 4.0;
/// What counts as seen before anything has been: a share that the first losses soon outweigh.
const PRIOR_LOST: f64 = 0.1;
const PRIOR_ALL: f64 = 50.0;
/// Standard deviations by which chance alone may exceed what is expected.
const DEVIATIONS: f64 = 4.0;
/// Lost packets in a round trip that prove nothing, beyond that: losses come in small bursts.
const BURST: f64 = 2.0;

/// Whether losing `lost` packets is more than chance makes of `expected`, small bursts allowed for.
pub(crate) fn is_more_than_chance(lost: f64, expected: f64) -> bool {
    lost > expected + DEVIATIONS * expected.sqrt() + BURST
}

/// Lost packets among all packets, in round trips without a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossFloor {
    lost: f64,
    all: f64,
}

impl LossFloor {
    /// A round trip without a queue has delivered and lost so many packets; `window` packets are in flight.
    pub(crate) fn on_quiet_round(&mut self, delivered: f64, lost: f64, window: f64) {
        self.lost += lost;
        self.all += delivered + lost;
        let memory = LEAST_MEMORY.max(MEMORY_WINDOWS * window);
        if self.all > memory {
            self.lost *= memory / self.all;
            self.all = memory;
        }
    }

    /// Packets lost and all packets, of those that are remembered.
    pub(crate) fn remembered(&self) -> (f64, f64) {
        (self.lost, self.all)
    }

    /// What was remembered was the load's doing: the path itself loses `share`.
    pub(crate) fn correct(&mut self, share: f64) {
        self.lost = self.lost.min(share * self.all);
    }

    /// The share that is lost whatever the load, 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        (self.lost + PRIOR_LOST) / (self.all + PRIOR_ALL)
    }

    /// Whether losing `lost` of `packets` is more than the floor and some chance explain, where no queue was seen.
    pub(crate) fn is_exceeded(&self, lost: f64, packets: f64) -> bool {
        is_more_than_chance(lost, self.share() * packets)
    }

    /// The same where a full queue suggests that the losses are its.
    pub(crate) fn is_exceeded_with_queue(&self, lost: f64, packets: f64) -> bool {
        let expected = self.share() * packets;
        lost > expected + DEVIATIONS * expected.sqrt()
    }

    /// Whether losses without a queue are known of.
    pub(crate) fn is_lossy(&self) -> bool {
        self.lost >= 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_losses_any_loss_with_a_queue_is_congestion() {
        let mut floor = LossFloor::default();
        for _ in 0..100 {
            floor.on_quiet_round(50.0, 0.0, 50.0);
        }
        assert!(floor.is_exceeded_with_queue(1.0, 50.0) && !floor.is_lossy());
        assert!(!floor.is_exceeded(2.0, 50.0) && floor.is_exceeded(5.0, 50.0));
    }

    #[test]
    fn what_is_lost_at_any_load_proves_nothing() {
        let mut floor = LossFloor::default();
        for _ in 0..20 {
            floor.on_quiet_round(90.0, 10.0, 100.0);
        }
        assert!((0.08..0.1).contains(&floor.share()), "{}", floor.share());
        assert!(!floor.is_exceeded_with_queue(10.0, 100.0) && !floor.is_exceeded(15.0, 100.0));
        assert!(floor.is_exceeded(40.0, 100.0));
    }

    #[test]
    fn follows_the_path_within_a_few_windows() {
        let mut floor = LossFloor::default();
        (0..100).for_each(|_| floor.on_quiet_round(100.0, 0.0, 100.0));
        (0..5).for_each(|_| floor.on_quiet_round(90.0, 10.0, 100.0));
        assert!(floor.share() > 0.03, "{}", floor.share());
    }
}
