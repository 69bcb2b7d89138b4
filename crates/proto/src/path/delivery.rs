//! The rate at which a path delivers, and what round-trip time to expect of it.

use units::{BitRate, Duration, Instant};

use super::{Path, sent::SentPacket};

/// A round-trip time this much above the minimum shows a standing queue.
const QUEUE_SIGN: f64 = 1.25;
/// Bytes that a delivery rate sample must span: fewer say more about the sender than about the
/// path.
const MIN_SAMPLE: u64 = 8 * 1_200;

/// Bytes acknowledged on a path, and how fast.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivery {
    /// Bytes acknowledged so far.
    bytes: u64,
    /// Bytes acknowledged while the newest acknowledged packet was on its way, and how long that
    /// was.
    sample: Option<(u64, Duration)>,
}

impl Delivery {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn on_acked(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Takes a sample from the newest packet that an ACK acknowledged, once its bytes are counted.
    pub(super) fn sample(&mut self, now: Instant, newest: &SentPacket) {
        self.sample = Some((self.bytes - newest.delivered_before, now - newest.sent_at));
    }

    pub(super) fn forget_sample(&mut self) {
        self.sample = None;
    }

    /// The last sample, if it spans enough.
    fn rate_sample(&self) -> Option<(u64, Duration)> {
        self.sample.filter(|(bytes, time)| *bytes >= MIN_SAMPLE && !time.is_zero())
    }
}

impl Path {
    /// Round-trip time to expect of a packet sent next. On a path whose queue builds up it follows
    /// from what is in flight and the rate at which the path delivers (Little's law), since
    /// smoothed samples lag by the queue that was added after they were sent. Until the path has
    /// shown its rate, it is trusted with the rate of slow start's pacer, a window in half a round
    /// trip: on a thin path the tenth packet of the first burst arrives long after the first.
    pub(crate) fn expected_rtt(&self) -> Duration {
        let measured = &self.recovery.measured;
        let (rtt, in_flight) = (&measured.rtt, measured.in_flight as f64);
        let smoothed = rtt.smoothed();
        let Some((bytes, time)) = self.recovery.delivery.rate_sample() else {
            let part = in_flight / measured.controller.window().max(1) as f64;
            return smoothed + (smoothed / 2).mul_f64(part.min(1.0));
        };
        if rtt.latest_adjusted() > rtt.min().mul_f64(QUEUE_SIGN) {
            return time.mul_f64(in_flight / bytes as f64).max(smoothed);
        }
        smoothed
    }

    /// How long what leaves now waits in a queue of the network: nothing if the last round trip shows
    /// none, and no longer than it took that, nor than what is in flight takes to be delivered.
    pub(crate) fn queue(&self) -> Duration {
        let measured = &self.recovery.measured;
        let rtt = &measured.rtt;
        let Some((bytes, time)) = self.recovery.delivery.rate_sample() else { return Duration::ZERO };
        if !rtt.shows_queue() {
            return Duration::ZERO;
        }
        let drained = time.mul_f64(measured.in_flight as f64 / bytes as f64);
        drained.min(rtt.latest_adjusted()).saturating_sub(rtt.min())
    }

    /// The rate at which the path has delivered lately.
    pub(super) fn delivery_rate(&self) -> Option<BitRate> {
        let (bytes, time) = self.recovery.delivery.rate_sample()?;
        Some(BitRate((bytes as f64 * 8.0 / time.as_secs_f64()) as u64))
    }
}
