//! Whether a path loses packets by chance often enough that what suffers from each loss had better
//! leave it out: a TCP inside of datagrams, whose window each loss shrinks.
//!
//! Losses to full queues do not count, as in [`LossHistory`](recovery::loss_history::LossHistory),
//! and losses in a row count once: TCP, too, answers them once.
//!
//! A path that is left out shows nothing of itself, so it is tried again after a while, and each
//! time that this was too early after twice as long.

use units::{Duration, Instant};

/// Two losses among so many packets are too many. A CUBIC over 50 ms that loses one packet of these
/// has 14 Mbit/s (RFC 9438 section 5.2).
const WINDOW: u32 = 500;
/// Losses within [`WINDOW`] that may be bad luck.
const BAD_LUCK: u32 = 1;
/// How long a path is left out at first, and at most.
const PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(480);

/// What one path has shown lately.
#[derive(Debug)]
pub(super) struct Steadiness {
    /// Packets and bursts of losses in the present window.
    sent: u32,
    bursts: u32,
    last_lost: Option<u64>,
    unsteady_until: Option<Instant>,
    pause: Duration,
}

impl Default for Steadiness {
    fn default() -> Self {
        Self { sent: 0, bursts: 0, last_lost: None, unsteady_until: None, pause: PAUSE }
    }
}

impl Steadiness {
    /// A packet was sent.
    pub(super) fn on_sent(&mut self, now: Instant) {
        if !self.is_steady(now) {
            return;
        }
        self.sent += 1;
        if self.sent == WINDOW {
            if self.bursts <= BAD_LUCK {
                self.pause = PAUSE;
            }
            (self.sent, self.bursts) = (0, 0);
        }
    }

    /// Packet `number` was lost by chance. Call in ascending order within one round of loss
    /// detection.
    pub(super) fn on_lost(&mut self, now: Instant, number: u64) {
        let goes_on = self.last_lost.is_some_and(|last| number == last + 1);
        self.last_lost = Some(number);
        if goes_on || !self.is_steady(now) {
            return;
        }
        self.bursts += 1;
        if self.bursts <= BAD_LUCK {
            return;
        }
        if self.unsteady_until.is_some() {
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        self.unsteady_until = Some(now + self.pause);
        (self.sent, self.bursts) = (0, 0);
    }

    /// A packet that was declared lost has arrived after all.
    pub(super) fn on_spurious(&mut self) {
        self.bursts = self.bursts.saturating_sub(1);
        self.unsteady_until = None;
    }

    /// Whether what suffers from each loss may use it.
    pub(super) fn is_steady(&self, now: Instant) -> bool {
        self.unsteady_until.is_none_or(|until| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(s)
    }

    /// Sends `packets` of which those are lost.
    fn send(path: &mut Steadiness, now: Instant, packets: u64, lost: &[u64]) {
        for number in 0..packets {
            path.on_sent(now);
            if lost.contains(&number) {
                path.on_lost(now, number);
            }
        }
    }

    #[test]
    fn one_loss_is_bad_luck_and_a_burst_is_one_loss() {
        let mut path = Steadiness::default();
        send(&mut path, at(0), 500, &[100, 101, 102]);
        send(&mut path, at(0), 500, &[1]);
        assert!(path.is_steady(at(0)));
        send(&mut path, at(0), 400, &[7, 300]);
        assert!(!path.is_steady(at(0)) && !path.is_steady(at(29)) && path.is_steady(at(30)));
    }

    #[test]
    fn each_try_that_was_too_early_makes_the_next_one_later() {
        let mut path = Steadiness::default();
        let mut now = 0;
        let mut pauses = Vec::new();
        for _ in 0..6 {
            send(&mut path, at(now), 50, &[10, 20, 30, 40]);
            let began = now;
            while !path.is_steady(at(now)) {
                now += 1;
            }
            pauses.push(now - began);
        }
        assert_eq!(pauses, [30, 60, 120, 240, 480, 480]);
        send(&mut path, at(now), 500, &[]);
        send(&mut path, at(now), 50, &[10, 20]);
        assert!(path.is_steady(at(now + 60)), "it has been well meanwhile");
    }

    #[test]
    fn what_arrived_after_all_was_not_lost() {
        let mut path = Steadiness::default();
        send(&mut path, at(0), 50, &[10, 20]);
        path.on_spurious();
        assert!(path.is_steady(at(0)));
    }
}
