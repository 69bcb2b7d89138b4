//! Another sender on the same radio channel: a microwave oven's pulses, or a station that does not
//! hear ours.
//!
//! CTCP sections 1 and 7 (Figs. 1, 9 and 10). A frame is lost if any of its time on the air meets
//! one of the other sender's, which comes as a series of bursts of equal length. What lies between
//! two of them varies a little or not at all (an oven that follows the mains), or is drawn from an
//! exponential distribution (a Poisson stream of packets).
//!
//! # Departures
//! - The paper does not say what its stations' link layers do. A frame has
//!   [`Interference::attempts`] tries, the second after [`Interference::backoff`] and each further
//!   one after twice the time before it; the default is one try. Further tries cost no capacity and
//!   no delay here, so that they are the best that a link layer could do.
//! - The other sender never waits for us.
//! - A period that never varies is a trap: timers of whole seconds are multiples of 20 ms, so that
//!   a retransmission meets the same part of a pulse as what it repeats, for ever. Real pulses vary
//!   (9 ms is a mean), so those of [`Interference::microwave`] do too.
//!
//! The bursts depend on the seed and the time alone, so that two runs that send different packets
//! meet the same ones.

use std::collections::VecDeque;

use units::{BitRate, Duration, Instant};

use super::{LossModel, PacketInfo};
use crate::{Rng, Seed};

/// What lies between the bursts of the other sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gap {
    /// Any time from `from` to `to`, all equally probable; the same two for a strict period.
    Uniform {
        /// The shortest.
        from: Duration,
        /// The longest.
        to: Duration,
    },
    /// A time drawn from the exponential distribution with this mean.
    Exponential(Duration),
}

/// Another sender on the channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interference {
    /// How long a burst is.
    pub burst: Duration,
    /// From the end of a burst to the start of the next.
    pub gap: Gap,
    /// The rate at which our frames are on the air.
    pub air_rate: BitRate,
    /// What goes before each of them at another rate: the preamble.
    pub preamble: Duration,
    /// Tries of the link layer, at least 1.
    pub attempts: u32,
    /// From the end of the first try to the second; every further wait is twice as long.
    pub backoff: Duration,
}

impl Interference {
    /// A microwave oven at 50 Hz: 9 ms of every 20 ms (Fig. 1), the gaps 1 ms shorter or longer.
    /// One try, no preamble.
    pub fn microwave(air_rate: BitRate) -> Self {
        Self {
            burst: Duration::from_millis(9),
            gap: Gap::Uniform { from: Duration::from_millis(10), to: Duration::from_millis(12) },
            air_rate,
            preamble: Duration::ZERO,
            attempts: 1,
            backoff: Duration::ZERO,
        }
    }

    /// How long a frame of `size` bytes is on the air.
    pub fn air_time(&self, size: u64) -> Duration {
        self.preamble + self.air_rate.time_to_send(size)
    }

    /// The share of a frame's first tries that are lost, in the long run: the burst and the frame
    /// before it, of all time.
    pub fn first_try_loss(&self, size: u64) -> f64 {
        let (burst, air) = (self.burst.as_secs_f64(), self.air_time(size).as_secs_f64());
        match self.gap {
            Gap::Uniform { from, to } => {
                let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
                // The mean of what is left of a gap: those shorter than the frame have no room for
                // it.
                let left = match (air.max(from), to - from) {
                    (longer, _) if longer >= to => (to - air).max(0.0),
                    (longer, spread) => ((to - air).powi(2) - (longer - air).powi(2)) / (2.0 * spread),
                };
                1.0 - left / (burst + (from + to) / 2.0).max(f64::MIN_POSITIVE)
            }
            Gap::Exponential(mean) => {
                let mean = mean.as_secs_f64().max(f64::MIN_POSITIVE);
                1.0 - mean / (burst + mean) * libm::exp(-air / mean)
            }
        }
    }

    /// The model.
    pub(super) fn model(self, seed: Seed) -> InterferenceLoss {
        InterferenceLoss {
            parameters: self,
            rng: seed.stream("interference"),
            known: VecDeque::new(),
            until: Instant::ORIGIN,
        }
    }
}

/// [`Interference`] at work. Packets come in the order of their times.
#[derive(Clone, Debug)]
pub struct InterferenceLoss {
    parameters: Interference,
    rng: Rng,
    /// Bursts that may still meet a frame, in order: start and end. Those before the present frame
    /// are forgotten, so that there are no more than one frame's tries can see.
    known: VecDeque<(Instant, Instant)>,
    /// The end of the last burst that was drawn.
    until: Instant,
}

impl InterferenceLoss {
    /// Draws bursts until one starts at `to` or later; what ended before `from` is not kept.
    fn draw(&mut self, from: Instant, to: Instant) {
        while self.known.back().is_none_or(|(start, _)| *start < to) {
            let gap = match self.parameters.gap {
                Gap::Uniform { from, to } => from + (to - from).mul_f64(self.rng.next_f64()),
                Gap::Exponential(mean) => mean.mul_f64(-libm::log(1.0 - self.rng.next_f64())),
            };
            // A gap of nothing and a burst of nothing would never get anywhere.
            let start = self.until + gap;
            self.until = start + self.parameters.burst.max(Duration::from_nanos(1));
            self.known.push_back((start, self.until));
            if self.until <= from {
                self.known.pop_back();
            }
        }
    }

    /// Whether a frame on the air in `from..to` meets a burst.
    fn meets(&mut self, from: Instant, to: Instant) -> bool {
        self.draw(from, to);
        self.known.iter().any(|(start, end)| *start < to && from < *end)
    }
}

impl LossModel for InterferenceLoss {
    fn lose(&mut self, packet: &PacketInfo) -> bool {
        while self.known.front().is_some_and(|(_, end)| *end <= packet.at) {
            self.known.pop_front();
        }
        let air = self.parameters.air_time(packet.size);
        let (mut from, mut wait) = (packet.at, self.parameters.backoff);
        for _ in 0..self.parameters.attempts.max(1) {
            if !self.meets(from, from + air) {
                return false;
            }
            from = from + air + wait;
            wait = wait * 2;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pulses of 9 ms, strictly every 20 ms.
    fn microwave(mbps: u64) -> Interference {
        let gap = Duration::from_millis(11);
        Interference { gap: Gap::Uniform { from: gap, to: gap }, ..oven(mbps) }
    }

    fn oven(mbps: u64) -> Interference {
        Interference::microwave(BitRate::from_mbps(mbps))
    }

    fn at(us: u64) -> Instant {
        Instant::ORIGIN + Duration::from_micros(us)
    }

    /// Which packets of 1,500 bytes that start at these times, in us, are lost.
    fn lost(model: Interference, times: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut model = model.model(Seed(3));
        let packet = |us| PacketInfo { index: 0, size: 1_500, at: at(us) };
        times.into_iter().filter(|us| model.lose(&packet(*us))).collect()
    }

    #[test]
    fn a_frame_is_lost_if_it_touches_a_pulse() {
        // 1 ms on the air at 12 Mbit/s; the first pulse is from 11 to 20 ms.
        let times = [0, 10_000, 10_001, 15_000, 19_999, 20_000, 30_000, 30_001];
        assert_eq!(lost(microwave(12), times), [10_001, 15_000, 19_999, 30_001]);
        // The preamble takes air as well.
        let slower = Interference { preamble: Duration::from_micros(500), ..microwave(12) };
        assert_eq!(lost(slower, [0, 9_500, 9_501]), [9_501]);
    }

    #[test]
    fn frames_longer_than_the_gap_are_always_lost() {
        assert_eq!(lost(microwave(1), (0..200).map(|n| n * 777)).len(), 200); // 12 ms
        assert_eq!(microwave(1).first_try_loss(1_500), 1.0);
    }

    #[test]
    fn the_share_lost_is_the_predicted_one() {
        let exponential = Gap::Exponential(Duration::from_millis(4));
        let poisson = Interference { burst: Duration::from_millis(1), gap: exponential, ..microwave(12) };
        for model in [
            microwave(12),
            oven(12),
            oven(54),
            poisson,
            Interference { preamble: Duration::from_millis(10), ..oven(12) },
        ] {
            let share = lost(model, (0..40_000).map(|n| n * 2_711)).len() as f64 / 40_000.0;
            let expected = model.first_try_loss(1_500);
            assert!((share - expected).abs() < 0.015, "{model:?}: {share}, not {expected}");
        }
    }

    #[test]
    fn a_further_try_comes_after_twice_the_wait() {
        let tries = |attempts| Interference { attempts, backoff: Duration::from_millis(2), ..microwave(12) };
        // Starts of the tries of a frame at 10.5 ms: 10.5, 13.5, 18.5, 27.5.
        assert_eq!(lost(tries(3), [10_500]), [10_500]);
        assert!(lost(tries(4), [10_500]).is_empty());
    }

    #[test]
    fn what_is_remembered_does_not_grow() {
        let mut model =
            Interference { attempts: 8, backoff: Duration::from_millis(1), ..microwave(54) }.model(Seed(1));
        let longest = (0..50_000).map(|n| {
            model.lose(&PacketInfo { index: n, size: 1_500, at: at(n * 311) });
            model.known.len()
        });
        assert!(longest.max().unwrap() < 20);
        // Nor after a long silence.
        model.lose(&PacketInfo { index: 0, size: 1_500, at: at(1 << 33) });
        assert!(model.known.len() < 20);
    }
}
