//! A loss without a queue is tried: does the same load lose packets again?
//!
//! A load that a path does not carry loses packets for as long as it lasts, whether somebody sees
//! the queue or not. A burst by chance is over. So the window is kept as it is until one round trip
//! of packets sent after the loss was noticed is through, and what of those is lost tells.
//!
//! Counts in packets.
//!
//! # Invariants
//! A trial ends with the first ACK of a packet that was sent when the first packet of the trial had
//! been acknowledged.

use units::Instant;

use crate::{Ack, dispersion::Dispersion};

/// Standard deviations by which what is lost in a trial may exceed what is expected. No small burst
/// is allowed for.
const DEVIATIONS: f64 = 4.0;
/// The least that is lost at once and worth a trial: what a queue overflows by comes packet by
/// packet.
pub(crate) const LEAST_BURST: f64 = 6.0;

/// What was suspicious.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Charge {
    /// More was lost than the share that is lost at any load explains.
    Excess {
        /// That share.
        share: f64,
    },
    /// More was lost than delivered.
    MostlyLost,
}

/// A trial under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    charge: Charge,
    since: Instant,
    /// When the first packet sent after `since` was acknowledged.
    until: Option<Instant>,
    /// What of the packets sent after `since` was lost.
    lost: f64,
    /// What the round trips meanwhile have delivered and lost, that of the loss among them.
    pub(crate) meanwhile: Dispersion,
}

impl Trial {
    /// A trial that begins.
    pub(crate) fn new(now: Instant, charge: Charge) -> Self {
        Self { charge, since: now, until: None, lost: 0.0, meanwhile: Dispersion::default() }
    }

    /// Packets were lost, the last of which was sent at `sent_at`.
    pub(crate) fn on_loss(&mut self, sent_at: Instant, lost: f64) {
        if sent_at > self.since {
            self.lost += lost;
        }
    }

    /// Takes an ACK. Returns whether it ends the trial.
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> bool {
        if ack.largest_sent_at <= self.since {
            return false;
        }
        ack.largest_sent_at > *self.until.get_or_insert(ack.now)
    }

    /// Whether what went on meanwhile says what chance does. Who loses a good part of a trial for
    /// having lost more than that has not been found guilty, but is not innocent either.
    pub(crate) fn teaches(&self, packets: f64) -> bool {
        self.charge != Charge::MostlyLost || self.lost <= packets / 4.0
    }

    /// What the window is multiplied by if the load was the reason; `None` if it was not. The trial
    /// was one of `packets` packets, and bursts by chance have the index `index`.
    pub(crate) fn verdict(&self, packets: f64, index: f64) -> Option<f64> {
        match self.charge {
            Charge::Excess { share } => {
                let expected = share * packets / index;
                (self.lost / index > expected + DEVIATIONS * expected.sqrt()).then_some(crate::cubic::BETA)
            }
            Charge::MostlyLost => (2.0 * self.lost > packets).then_some(0.5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn ack(now: u64, sent: u64) -> Ack {
        Ack { now: at(now), largest_sent_at: at(sent), ..Ack::default() }
    }

    #[test]
    fn lasts_for_a_round_trip_of_packets_sent_after_it_began() {
        let mut trial = Trial::new(at(100), Charge::MostlyLost);
        for (now, sent, ends) in
            [(120, 80, false), (140, 100, false), (141, 101, false), (181, 141, false), (182, 142, true)]
        {
            assert_eq!(trial.on_ack(&ack(now, sent)), ends, "{now}");
        }
    }

    #[test]
    fn a_load_that_loses_again_is_the_reason() {
        let mut trial = Trial::new(at(100), Charge::Excess { share: 0.002 });
        trial.on_loss(at(100), 20.0);
        assert_eq!(trial.verdict(100.0, 1.0), None);
        trial.on_loss(at(120), 3.0);
        assert_eq!(trial.verdict(100.0, 1.0), Some(0.7));
        assert_eq!(trial.verdict(100.0, 10.0), None, "bursts of ten are known of");
    }

    #[test]
    fn who_loses_nearly_as_much_again_proves_nothing() {
        let mut trial = Trial::new(at(100), Charge::MostlyLost);
        trial.on_loss(at(120), 5.0);
        assert!(trial.teaches(20.0));
        trial.on_loss(at(121), 1.0);
        assert!(!trial.teaches(20.0) && trial.verdict(20.0, 1.0).is_none());
    }

    #[test]
    fn who_loses_most_once_more_is_halved() {
        let mut trial = Trial::new(at(100), Charge::MostlyLost);
        trial.on_loss(at(120), 10.0);
        assert_eq!(trial.verdict(20.0, 1.0), None);
        trial.on_loss(at(121), 1.0);
        assert_eq!(trial.verdict(20.0, 1.0), Some(0.5));
    }
}
