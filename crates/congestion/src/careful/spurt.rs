//! What leaves a path that was at rest, until the first of it is acknowledged.

use units::{BitRate, Duration, Instant};

use crate::{Ack, Loss};

/// Bytes that must have left after the first burst for a spurt to say anything about its rate, and
/// the time.
const LEAST_PACED: u64 = 8 * 1_200;
const LEAST_TIME: Duration = Duration::from_millis(1);
/// Bytes that chance may take of a spurt, however short it is.
const LEAST_LOST: u64 = 8 * 1_200;
/// Packets of a round of loss detection that count at most where no queue is seen: chance takes many
/// in a row, a queue that is too short to be seen lets some through between those it drops.
const RUN: u64 = 2;

/// One spurt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spurt {
    /// When its first packet left.
    began: Instant,
    /// When its last packet left, as far as it is known.
    pub(super) last: Instant,
    /// Its bytes.
    sent: u64,
    /// Those that left with the first packet.
    burst: u32,
    /// Microseconds that the newest of its packets took which has arrived; zero if none has.
    delay: u32,
    /// What was acknowledged since it began: `PipeSize`.
    pub(super) pipe: u64,
    /// What was lost since then, [`RUN`] packets of each round of loss detection if no queue
    /// is seen.
    lost: u64,
    /// The window that it began with; none unless it was then raised.
    pub(super) raised_from: Option<u64>,
}

impl Spurt {
    pub(super) fn new(began: Instant) -> Self {
        Self { began, last: began, sent: 0, burst: 0, delay: 0, pipe: 0, lost: 0, raised_from: None }
    }

    /// One with a window that was raised from so much.
    pub(super) fn raised(began: Instant, from: u64) -> Self {
        Self { raised_from: Some(from), ..Self::new(began) }
    }

    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.sent = self.sent.saturating_add(bytes);
        self.last = now;
        if now == self.began {
            self.burst = self.burst.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
    }

    pub(super) fn on_ack(&mut self, ack: &Ack) {
        self.pipe = self.pipe.saturating_add(ack.bytes);
        if ack.largest_sent_at <= self.last && !ack.adjusted_rtt.is_zero() {
            self.delay = ack.adjusted_rtt.saturating_micros();
        }
    }

    /// The round-trip time when what was lost left. By what it was found is told that, unless it left more than a round
    /// trip later, as the probe of a timeout does: a queue has emptied by then.
    pub(super) fn delay_at(&self, loss: &Loss) -> Duration {
        let (found_by, latest) = (loss.now - loss.rtt.latest, loss.rtt.latest);
        if found_by <= loss.largest_sent_at + loss.rtt.min { latest } else { latest.max(self.delay()) }
    }

    fn delay(&self) -> Duration {
        Duration::from_micros(self.delay.into())
    }

    /// Packets were lost, where there is a queue or none.
    pub(super) fn on_loss(&mut self, loss: &Loss, queue: bool) {
        let packets = u64::from(loss.packets.max(1));
        let counted = if queue { packets } else { packets.min(RUN) };
        self.lost = self.lost.saturating_add(loss.bytes / packets * counted);
    }

    /// Whether a packet that left at `sent_at` is part of it.
    pub(super) fn includes(&self, sent_at: Instant) -> bool {
        sent_at >= self.began
    }

    /// Whether the fate of its last packet is known with that of one that left at `sent_at`.
    pub(super) fn is_over(&self, sent_at: Instant) -> bool {
        sent_at >= self.last
    }

    /// Whether less than half has arrived of a spurt that was long enough to say so: the path
    /// carries much less than it did.
    pub(super) fn is_mostly_lost(&self, initial_window: u64) -> bool {
        self.sent > initial_window.saturating_mul(4) && self.pipe < self.sent / 2
    }

    /// Whether more than a quarter of what is known the fate of was lost, and more than a few
    /// packets: too much to be chance, whatever else is thought of it.
    pub(super) fn overflows(&self) -> bool {
        self.lost > LEAST_LOST && self.lost > self.pipe.saturating_add(self.lost) / 4
    }

    /// The rate at which the next spurt may leave, which `pace` is now: where the last packet of
    /// this one met no queue, twice its rate; else the rate at which the path has taken it. `pace`
    /// if it says nothing. Where its end was lost, and a probe has found that, it says no more than a queue before that.
    pub(super) fn next_pace(&self, ack: &Ack, pace: Option<BitRate>) -> Option<BitRate> {
        let (paced, time) = (self.sent.saturating_sub(self.burst.into()), self.last - self.began);
        if paced < LEAST_PACED || time < LEAST_TIME {
            return pace;
        }
        let is_probe = ack.largest_sent_at > self.last + ack.rtt.min;
        let delay = if is_probe { self.delay() } else { ack.adjusted_rtt };
        let queue = delay.saturating_sub(ack.rtt.min);
        if queue <= (ack.rtt.min / 32).max(LEAST_TIME) {
            if is_probe {
                return pace;
            }
            let twice = rate(paced.saturating_mul(2), time);
            return Some(pace.map_or(twice, |pace| pace.max(twice)));
        }
        Some(rate(paced, time + queue))
    }
}

fn rate(bytes: u64, time: Duration) -> BitRate {
    let bits = u128::from(bytes) * 8 * 1_000_000_000;
    BitRate(u64::try_from(bits / u128::from(time.as_nanos().max(1))).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rtt;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    /// Ten packets at once, 40 more in 20 ms: 2.4 MB/s.
    fn spurt() -> Spurt {
        let mut spurt = Spurt::new(at(0));
        (0..10).for_each(|_| spurt.on_sent(at(0), 1_200));
        (1..=40).for_each(|n| spurt.on_sent(at(0) + Duration::from_micros(500) * n, 1_200));
        spurt
    }

    fn last_ack(queue_ms: u64) -> Ack {
        let ms = Duration::from_millis;
        let rtt = Rtt { min: ms(50), ..Rtt::default() };
        Ack { adjusted_rtt: ms(50 + queue_ms), rtt, ..Ack::default() }
    }

    #[test]
    fn a_spurt_that_met_no_queue_doubles_the_pace() {
        let next = spurt().next_pace(&last_ack(1), None).unwrap();
        assert_eq!(next, BitRate(2 * 2_400_000 * 8));
        assert_eq!(
            spurt().next_pace(&last_ack(0), Some(BitRate::from_mbps(90))),
            Some(BitRate::from_mbps(90))
        );
    }

    #[test]
    fn one_that_met_a_queue_shows_what_the_path_takes() {
        let next = spurt().next_pace(&last_ack(20), Some(BitRate::from_mbps(90))).unwrap();
        assert_eq!(next, BitRate(1_200_000 * 8));
    }

    #[test]
    fn a_spurt_whose_end_was_lost_does_not_double_it() {
        let pace = Some(BitRate::from_mbps(9));
        let probe = Ack { largest_sent_at: at(170), ..last_ack(0) };
        let mut spurt = spurt();
        assert_eq!(spurt.next_pace(&probe, pace), pace, "the queue that took it has emptied");
        spurt.on_ack(&Ack { largest_sent_at: at(15), ..last_ack(20) });
        assert_eq!(spurt.next_pace(&probe, None), Some(BitRate(1_200_000 * 8)));
    }

    #[test]
    fn a_run_of_losses_counts_whole_only_where_a_queue_is_seen() {
        let lose = |packets: u32, rounds: u32, queue| {
            let mut spurt = Spurt { pipe: 60 * 1_200, ..spurt() };
            let loss = Loss { bytes: u64::from(packets) * 1_200, packets, ..Loss::default() };
            (0..rounds).for_each(|_| spurt.on_loss(&loss, queue));
            spurt.overflows()
        };
        assert!(lose(30, 1, true) && !lose(30, 1, false));
        assert!(lose(2, 15, false), "where some come through between them it is too much all the same");
    }

    #[test]
    fn a_single_burst_says_nothing() {
        let mut burst = Spurt::new(at(0));
        (0..10).for_each(|_| burst.on_sent(at(0), 1_200));
        assert_eq!(burst.next_pace(&last_ack(0), None), None);
    }
}
