//! The rate at which a path delivers, and what round-trip time to expect of it.

use units::{BitRate, Duration, Instant};

use super::{Path, rtt::RttEstimator};

/// A round-trip time this much above the minimum shows a standing queue.
const QUEUE_SIGN: f64 = 1.25;
/// Bytes that a train of ACKs must span to tell a rate.
const MIN_SAMPLE: u32 = 8 * 1_200;

/// The rate of a path that has brought trains, and none of them waited.
const NO_QUEUE: u32 = u32::MAX;

/// Bytes acknowledged on a path, and how fast.
///
/// Packets that wait for one another are acknowledged at the distance that the bottleneck gives
/// them. A train is of ACKs whose packets took no less time than its first one's. If the time grew
/// by half of the train's length, the packets left at twice the path's rate, or faster, and if the
/// first one had to wait already, the bottleneck was never idle: then the train has the path's
/// rate. Any other of half a round trip has the sender's, which the path has at least; as long as there are
/// only such ones, the path is one without a queue.
///
/// A train lasts for a round trip, or for as long as packets are acknowledged that were all in flight when it began: on
/// a thin path with a short round trip eight packets take longer than one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivery {
    /// Bytes acknowledged since the train began.
    bytes: u32,
    train: Train,
    /// Kilobits per second; zero: not known yet, or [`NO_QUEUE`].
    rate: u32,
}

/// Where a train begins.
#[derive(Clone, Copy, Debug, Default)]
struct Train {
    begun: Instant,
    /// Microseconds from then to the latest ACK.
    latest: u32,
    /// Microseconds that its first packet took.
    rtt: u32,
}

impl Train {
    /// Whether an ACK belongs to it that comes more than a round trip after its beginning, for a packet of `sent_at`.
    /// Not if it has come so long after the one before that something else than the rate has held it back.
    fn goes_on(&self, now: Instant, sent_at: Instant) -> bool {
        let gap = (now - self.begun).saturating_sub(Duration::from_micros(self.latest.into()));
        sent_at <= self.begun && gap * 2 <= now - sent_at
    }
}

impl Delivery {
    /// An ACK for `bytes`, the newest packet of which left at `sent_at`.
    pub(super) fn on_acked(&mut self, now: Instant, bytes: u64, sent_at: Instant, path: &RttEstimator) {
        let (time, rtt) = (now - self.train.begun, now - sent_at);
        let first = Duration::from_micros(self.train.rtt.into());
        if rtt < first || (time > path.smoothed() && !self.train.goes_on(now, sent_at)) {
            self.train = Train { begun: now, latest: 0, rtt: rtt.saturating_micros() };
            self.bytes = 0;
            return;
        }
        self.bytes = self.bytes.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.train.latest = time.saturating_micros();
        if self.bytes < MIN_SAMPLE || time.is_zero() {
            return;
        }
        let rate = (f64::from(self.bytes) * 8e-3 / time.as_secs_f64()).round() as u32;
        let busy = (rtt - first) * 2 >= time || first > path.min().mul_f64(QUEUE_SIGN);
        if busy {
            self.rate = rate.min(NO_QUEUE - 1);
        } else if self.rate == 0 {
            self.rate = NO_QUEUE;
        } else if time >= path.smoothed() / 2 {
            self.rate = self.rate.max(rate);
        }
    }

    /// Another network path: what the last one carried says nothing.
    pub(super) fn forget_rate(&mut self) {
        *self = Self::default();
    }

    /// At least so fast is the path; `None` before its first train.
    fn rate(&self) -> Option<BitRate> {
        (self.rate > 0).then_some(BitRate(u64::from(self.rate) * 1_000))
    }

    /// So fast it is.
    fn bottleneck(&self) -> Option<BitRate> {
        if self.rate == NO_QUEUE { None } else { self.rate() }
    }
}

impl Path {
    /// Round-trip time to expect of a packet sent next: the smoothed one, which lags, or more if
    /// what is in flight takes longer. What left within a round trip and has not had the time to
    /// pass the bottleneck waits there; in a steady flow that is Little's law.
    ///
    /// Until the path has shown its rate, it is trusted with that of slow start's pacer, a window in
    /// half a round trip: on a thin path the tenth packet of the first burst arrives long after the
    /// first.
    pub(crate) fn expected_rtt(&self, now: Instant) -> Duration {
        let measured = &self.recovery.measured;
        let rtt = &measured.rtt;
        let smoothed = rtt.smoothed();
        let Some(rate) = self.recovery.delivery.rate() else {
            let part = measured.in_flight as f64 / measured.controller.window().max(1) as f64;
            return smoothed + (smoothed / 2).mul_f64(part.min(1.0));
        };
        let passing = rate.time_to_send(measured.in_flight);
        let oldest = self.space.oldest_sent_at();
        if oldest.is_some_and(|sent_at| now - sent_at > passing + smoothed) {
            // Whatever is not acknowledged yet has passed, or is lost.
            return smoothed;
        }
        let since = self.space.last_ack_eliciting_at.map_or(Duration::ZERO, |newest| now - newest);
        let passed = self.ack_spread().min(rtt.min()) + since;
        smoothed.max(rtt.min() + passing.saturating_sub(passed))
    }

    /// Time between the sending of the oldest and the newest packet in flight.
    pub(super) fn ack_spread(&self) -> Duration {
        self.space
            .oldest_sent_at()
            .zip(self.space.last_ack_eliciting_at)
            .map_or(Duration::ZERO, |(a, b)| b - a)
    }

    /// How long what leaves now waits in a queue of the network: nothing if the last round trip shows
    /// none, and no longer than it took that, nor than what is in flight takes to be delivered.
    pub(crate) fn queue(&self) -> Duration {
        let measured = &self.recovery.measured;
        let rtt = &measured.rtt;
        let Some(rate) = self.recovery.delivery.rate() else { return Duration::ZERO };
        if !rtt.shows_queue() {
            return Duration::ZERO;
        }
        rate.time_to_send(measured.in_flight).min(rtt.latest_adjusted()).saturating_sub(rtt.min())
    }

    /// The rate of the path's bottleneck, if it has shown one.
    pub(super) fn delivery_rate(&self) -> Option<BitRate> {
        self.recovery.delivery.bottleneck()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        NetworkPath, TransportConfig,
        path::{sent::SentPacket, space::test_support::at},
        wire::PathId,
    };

    /// What a path of 8 Mbit/s and 50 ms, a byte per microsecond, lets a sender know whose packets of
    /// 1,000 bytes leave at these milliseconds.
    fn shown(delivery: &mut Delivery, sent: impl IntoIterator<Item = u64>) -> Option<BitRate> {
        shown_behind(0, delivery, sent)
    }

    /// The same, where a queue of the path is empty at this millisecond without them.
    fn shown_behind(
        queue: u64,
        delivery: &mut Delivery,
        sent: impl IntoIterator<Item = u64>,
    ) -> Option<BitRate> {
        let mut rtt = RttEstimator::new(Duration::from_millis(100));
        rtt.update(at(0), Duration::from_millis(50), Duration::ZERO);
        let mut free = queue;
        for sent in sent {
            free = free.max(sent) + 1;
            let acked = at(free + 49);
            rtt.update(acked, acked - at(sent), Duration::ZERO);
            delivery.on_acked(acked, 1_000, at(sent), &rtt);
        }
        delivery.bottleneck()
    }

    const MBPS: fn(u64) -> Option<BitRate> = |rate| Some(BitRate::from_mbps(rate));

    #[test]
    fn packets_that_leave_together_show_the_bottleneck() {
        let delivery = &mut Delivery::default();
        assert_eq!(shown(delivery, [0; 9]), None, "too few");
        assert_eq!(shown(delivery, [1_000; 20]), MBPS(8));
        assert_eq!(shown(delivery, [2_000, 3_000, 4_000]), MBPS(8), "a lone packet takes nothing back");
        delivery.forget_rate();
        assert_eq!(delivery.rate(), None);
    }

    #[test]
    fn packets_that_left_at_a_distance_show_the_sender() {
        let delivery = &mut Delivery::default();
        assert_eq!(delivery.rate(), None);
        let every_two = (0..200).map(|n| n * 2);
        assert_eq!(shown(delivery, every_two.clone()), None, "half of the path's rate");
        let frames = (0..20).flat_map(|frame| [1_000 + frame * 33; 7]);
        assert_eq!(shown(delivery, frames), None, "small bursts after pauses");
        assert!(delivery.rate() > MBPS(1_000), "no queue");
        assert_eq!(shown(delivery, [5_000; 20]), MBPS(8));
        assert_eq!(shown(delivery, every_two.map(|at| at + 10_000)), MBPS(8), "it has that much at least");
    }

    #[test]
    fn a_standing_queue_shows_the_bottleneck_and_that_it_has_become_slower() {
        let delivery = &mut Delivery { rate: 100_000, ..Delivery::default() };
        assert_eq!(shown_behind(1_040, delivery, 1_000..1_200), MBPS(8));
    }

    #[test]
    fn a_queue_that_runs_empty_shows_nothing() {
        let delivery = &mut Delivery::default();
        let every_three = (0..60).map(|n| 1_000 + n * 3);
        assert_eq!(shown_behind(1_014, delivery, every_three), None);
    }

    /// What a path of 20 ms lets a sender know whose packets of 1,000 bytes, twelve together, come so many milliseconds
    /// `apart`, all but the first after another `held_up`.
    fn shown_by_a_burst(apart: u64, held_up: u64) -> Option<BitRate> {
        let (mut delivery, mut rtt) = (Delivery::default(), RttEstimator::new(Duration::from_millis(100)));
        rtt.update(at(0), Duration::from_millis(20), Duration::ZERO);
        for n in 0..12 {
            let acked = at(1_020 + apart * (n + 1) + if n > 0 { held_up } else { 0 });
            rtt.update(acked, acked - at(1_000), Duration::ZERO);
            delivery.on_acked(acked, 1_000, at(1_000), &rtt);
        }
        delivery.bottleneck()
    }

    #[test]
    fn a_thin_path_shows_itself_though_a_burst_takes_longer_than_a_round_trip() {
        assert_eq!(shown_by_a_burst(10, 0), Some(BitRate(800_000)));
        assert_eq!(shown_by_a_burst(1, 100), MBPS(8), "what has held up all of them at once is no rate");
    }

    /// What is expected at a millisecond of a path of 50 ms, 51 lately, that delivers so fast, if packets of 1,000 bytes
    /// have left at these ones and are in flight.
    fn expected(rate: u32, sent: impl IntoIterator<Item = u64>, now: u64) -> Duration {
        let end = |port: u16| ([127, 0, 0, 1], port).into();
        let network = NetworkPath { local: end(1), remote: end(2) };
        let mut path = Path::new(PathId::ZERO, network, &TransportConfig::default(), at(0));
        path.recovery.delivery.rate = rate;
        let measured = &mut path.recovery.measured;
        for sample in [50, 58] {
            measured.rtt.update(at(0), Duration::from_millis(sample), Duration::ZERO);
        }
        for (number, sent) in sent.into_iter().enumerate() {
            measured.in_flight += 1_000;
            path.space.on_sent(number as u64, Some(SentPacket::for_test(at(sent))));
        }
        path.expected_rtt(at(now))
    }

    #[test]
    fn what_left_together_waits_for_one_another_and_what_left_long_ago_for_nothing() {
        let ms = Duration::from_millis;
        const MBPS_8: u32 = 8_000;
        assert_eq!(expected(MBPS_8, [], 1_000), ms(51));
        assert_eq!(expected(MBPS_8, [1_000; 30], 1_000), ms(80), "a burst after a pause");
        assert_eq!(expected(MBPS_8, [1_000; 30], 1_020), ms(60), "it has passed in part");
        assert_eq!(expected(MBPS_8, [1_000; 30], 2_000), ms(51), "silence");
        let probed = [1_000; 80].into_iter().chain([2_000]);
        assert_eq!(expected(MBPS_8, probed, 2_000), ms(51), "a probe after silence");
        let steady = (1_000..1_040).chain([1_040; 40]).chain(1_041..1_061);
        assert_eq!(expected(MBPS_8, steady, 1_060), ms(100), "Little's law: 100 packets, one a millisecond");
        assert!(expected(NO_QUEUE, [1_000; 30], 1_000) < ms(52));
        assert!(expected(0, [1_000; 30], 1_000) > ms(70), "nothing is known");
    }
}
