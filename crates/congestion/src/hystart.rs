//! HyStart++, RFC 9406: leave slow start when the round-trip time rises, before the queue
//! overflows.
//!
//! # Departures
//! - Rounds are told apart by send times, not by sequence numbers: a round ends when something sent
//!   after its start is acknowledged.
//! - L is infinite, as section 4.3 recommends for senders that pace.

use units::{Duration, Instant};

use crate::Ack;

/// MIN_RTT_THRESH.
const MIN_RTT_THRESHOLD: Duration = Duration::from_millis(4);
/// MAX_RTT_THRESH.
const MAX_RTT_THRESHOLD: Duration = Duration::from_millis(16);
/// MIN_RTT_DIVISOR.
const MIN_RTT_DIVISOR: u64 = 8;
/// N_RTT_SAMPLE.
const RTT_SAMPLES: u32 = 8;
/// CSS_GROWTH_DIVISOR.
const CSS_GROWTH_DIVISOR: f64 = 4.0;
/// CSS_ROUNDS.
const CSS_ROUNDS: u32 = 5;

/// Watches the first slow start.
#[derive(Clone, Debug, Default)]
pub(crate) struct HyStart {
    /// Start of the current round; `None` before the first ACK.
    round_start: Option<Instant>,
    samples: u32,
    current_min: Option<Duration>,
    last_min: Option<Duration>,
    css: Option<ConservativeSlowStart>,
}

#[derive(Clone, Debug)]
struct ConservativeSlowStart {
    baseline: Duration,
    rounds: u32,
}

impl HyStart {
    /// What the growth of slow start is divided by now.
    pub(crate) fn growth_divisor(&self) -> f64 {
        if self.css.is_some() { CSS_GROWTH_DIVISOR } else { 1.0 }
    }

    /// Takes one RTT sample. Returns whether slow start ends.
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> bool {
        let ended = self.round_start.is_none_or(|start| ack.largest_sent_at >= start);
        if ended && self.end_round(ack.now) {
            return true;
        }
        if ack.rtt.latest.is_zero() {
            return false;
        }
        let current = self.current_min.map_or(ack.rtt.latest, |min| min.min(ack.rtt.latest));
        self.current_min = Some(current);
        self.samples += 1;
        if self.samples >= RTT_SAMPLES {
            self.judge(current);
        }
        false
    }

    /// Starts the next round. Returns whether the conservative rounds are used up.
    fn end_round(&mut self, now: Instant) -> bool {
        self.round_start = Some(now);
        self.last_min = self.current_min.take();
        self.samples = 0;
        self.css.as_mut().is_some_and(|css| {
            css.rounds += 1;
            css.rounds >= CSS_ROUNDS
        })
    }

    /// Enters conservative slow start when the RTT has risen, and leaves it again when that was a
    /// false alarm.
    fn judge(&mut self, current: Duration) {
        match (&self.css, self.last_min) {
            (Some(css), _) if current < css.baseline => self.css = None,
            (None, Some(last)) => {
                let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESHOLD, MAX_RTT_THRESHOLD);
                if current >= last + threshold {
                    self.css = Some(ConservativeSlowStart { baseline: current, rounds: 0 });
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rtt;

    /// One round of `acks` samples of `rtt_ms`. Returns whether slow start ended in it.
    fn round(hystart: &mut HyStart, number: u64, acks: u32, rtt_ms: u64) -> bool {
        let at = |n| Instant::ORIGIN + Duration::from_millis(n);
        let now = at(number * 100);
        let rtt = Rtt { latest: Duration::from_millis(rtt_ms), ..Rtt::default() };
        let ack = Ack { now, largest_sent_at: at((number * 100).saturating_sub(100)), rtt, ..Ack::default() };
        (0..acks).fold(false, |left, _| left | hystart.on_ack(&ack))
    }

    #[test]
    fn rising_rtt_ends_slow_start_after_five_conservative_rounds() {
        let mut hystart = HyStart::default();
        assert!(!round(&mut hystart, 1, 8, 50));
        assert!(!round(&mut hystart, 2, 8, 56)); // threshold is 50 / 8 = 6.25 ms
        assert_eq!(hystart.growth_divisor(), 1.0);
        assert!(!round(&mut hystart, 3, 7, 63)); // seven samples are not enough
        assert_eq!(hystart.growth_divisor(), 1.0);
        assert!(!hystart.on_ack(&Ack {
            largest_sent_at: Instant::ORIGIN,
            rtt: Rtt { latest: Duration::from_millis(63), ..Rtt::default() },
            ..Ack::default()
        }));
        assert_eq!(hystart.growth_divisor(), 4.0);
        for number in 4..8 {
            assert!(!round(&mut hystart, number, 8, 63));
        }
        assert!(round(&mut hystart, 8, 8, 63));
    }

    #[test]
    fn false_alarm_resumes_slow_start() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 1, 8, 20);
        round(&mut hystart, 2, 8, 24);
        assert_eq!(hystart.growth_divisor(), 4.0);
        round(&mut hystart, 3, 8, 23);
        assert_eq!(hystart.growth_divisor(), 1.0);
    }
}
