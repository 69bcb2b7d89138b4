//! Round-trip time and retransmission timeout (RFC 6298).
//!
//! # Departures
//! - Whatever acknowledges something new takes back the backoff. Section 5 keeps the backed-off
//!   timeout until there is a new sample, which segments that were sent again do not give (without
//!   timestamps).

use congestion::Rtt;
use units::Duration;

use crate::Tcp;

/// The estimator of one sub-flow.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct RttEstimator {
    pub(crate) smoothed: Duration,
    pub(crate) variance: Duration,
    pub(crate) min: Duration,
    pub(crate) latest: Duration,
    backoff: u32,
}

impl RttEstimator {
    pub(crate) fn has_sample(&self) -> bool {
        !self.latest.is_zero()
    }

    /// As controllers see it.
    pub(crate) fn seen(&self) -> Rtt {
        Rtt { latest: self.latest, smoothed: self.smoothed, min: self.min, variance: self.variance }
    }

    /// Section 2, in whole ns.
    pub(crate) fn sample(&mut self, rtt: Duration) {
        let rtt = rtt.max(Duration::from_nanos(1));
        if self.has_sample() {
            self.variance = (self.variance * 3 + self.smoothed.abs_diff(rtt)) / 4;
            self.smoothed = (self.smoothed * 7 + rtt) / 8;
            self.min = self.min.min(rtt);
        } else {
            (self.smoothed, self.variance, self.min) = (rtt, rtt / 2, rtt);
        }
        self.latest = rtt;
    }

    /// The timeout, backed off.
    pub(crate) fn rto(&self, tcp: &Tcp) -> Duration {
        self.rto_or(tcp, tcp.initial_rto)
    }

    /// The same, where it is `first` before there is a sample.
    pub(crate) fn rto_or(&self, tcp: &Tcp, first: Duration) -> Duration {
        let base = if !self.has_sample() {
            first
        } else if tcp.rto_above_srtt {
            self.smoothed + (self.variance * 4).max(tcp.min_rto)
        } else {
            (self.smoothed + (self.variance * 4).max(tcp.clock)).max(tcp.min_rto)
        };
        Duration::from_nanos(base.as_nanos().saturating_mul(1 << self.backoff)).min(tcp.max_rto)
    }

    /// Section 5.5.
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
    }

    /// New data was acknowledged.
    pub(crate) fn reset_backoff(&mut self) {
        self.backoff = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_rfc_6298() {
        let tcp = Tcp { min_rto: Duration::ZERO, ..Tcp::default() };
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.rto(&tcp), Duration::from_secs(1));
        rtt.sample(Duration::from_millis(100));
        assert_eq!(rtt.rto(&tcp), Duration::from_millis(300)); // R + 4 R/2
        rtt.sample(Duration::from_millis(60));
        assert_eq!(rtt.smoothed, Duration::from_millis(95));
        assert_eq!(rtt.variance, Duration::from_nanos(47_500_000)); // 3/4 50 + 1/4 40
        rtt.back_off();
        assert_eq!(rtt.rto(&tcp), Duration::from_millis(570));
        (0..40).for_each(|_| rtt.back_off());
        assert_eq!(rtt.rto(&tcp), tcp.max_rto);
        rtt.reset_backoff();
        let floor = Tcp { min_rto: Duration::from_millis(400), ..tcp };
        assert_eq!(rtt.rto(&floor), Duration::from_millis(400));
        let linux = Tcp { rto_above_srtt: true, ..floor };
        assert_eq!(rtt.rto(&linux), Duration::from_millis(495));
    }
}
