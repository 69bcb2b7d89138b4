//! Spreads a window over a round trip (RFC 9002 section 7.7) as a token bucket.

use units::{BitRate, Duration, Instant};

/// Timers of the endpoints we know fire up to this late.
const TIMER_GRANULARITY: Duration = Duration::from_millis(1);

/// A token bucket in bytes: refilled at the controller's pacing rate, it lets bursts of at most its
/// capacity go.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    /// The burst in packets.
    packets: u64,
    capacity: u64,
    tokens: f64,
    refilled_at: Instant,
}

impl Pacer {
    /// A full bucket that holds so many packets of `size` bytes (RFC 9002 section 7.7 allows the
    /// initial window), and one at least: of fewer it would never let any go.
    pub(crate) fn new(now: Instant, packets: u64, size: u64) -> Self {
        let packets = packets.max(1);
        let burst = packets * size;
        Self { packets, capacity: burst, tokens: burst as f64, refilled_at: now }
    }

    /// Adds what `rate` gave since the last call.
    pub(crate) fn refill(&mut self, now: Instant, rate: BitRate) {
        let elapsed = now - self.refilled_at;
        self.refilled_at = self.refilled_at.max(now);
        let earned = elapsed.as_secs_f64() * rate.bits_per_second() as f64 / 8.0;
        // Coarse timers must not cost throughput: the bucket always holds two milliseconds of the
        // rate.
        let capacity = (self.capacity as f64).max(rate.bits_per_second() as f64 / 8.0 * 0.002);
        self.tokens = (self.tokens + earned).min(capacity);
    }

    /// Packets have another size from now on.
    pub(crate) fn on_mtu(&mut self, size: u64) {
        let burst = self.packets * size;
        self.tokens += burst.saturating_sub(self.capacity) as f64;
        self.capacity = burst;
    }

    /// How long until `bytes` may leave; zero now. A wait too short for a timer counts as none: the
    /// debt is paid by the next packet.
    pub(crate) fn wait(&self, bytes: u64, rate: BitRate) -> Duration {
        let missing = bytes as f64 - self.tokens;
        if missing <= 0.0 {
            return Duration::ZERO;
        }
        let wait = rate.time_to_send(missing.ceil() as u64);
        if wait < TIMER_GRANULARITY { Duration::ZERO } else { wait }
    }

    /// Takes `bytes` out; may overdraw, since ACK-only packets and probes are not held back.
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.tokens -= bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let rate = BitRate::from_mbps(8); // one byte per microsecond
        let mut pacer = Pacer::new(Instant::ORIGIN, 10, 1_200);
        pacer.on_sent(12_000);
        assert_eq!(pacer.wait(1_200, rate), Duration::from_micros(1_200));
        let later = Instant::ORIGIN + Duration::from_micros(1_200);
        pacer.refill(later, rate);
        assert_eq!(pacer.wait(1_200, rate), Duration::ZERO);
    }

    /// Whatever the initial window is configured to be, the controller's is two packets at least.
    #[test]
    fn a_bucket_for_no_packet_lets_one_go_at_a_time() {
        let rate = BitRate(800_000); // 200 bytes in the two milliseconds that it always holds
        let mut pacer = Pacer::new(Instant::ORIGIN, 0, 1_200);
        for second in 0..3 {
            pacer.refill(Instant::ORIGIN + Duration::from_secs(second), rate);
            assert_eq!(pacer.wait(1_200, rate), Duration::ZERO, "after {second} s");
            pacer.on_sent(1_200);
            assert_eq!(pacer.wait(1_200, rate), Duration::from_millis(12));
        }
        pacer.on_mtu(1_452);
        pacer.refill(Instant::ORIGIN + Duration::from_secs(10), rate);
        assert_eq!(pacer.wait(1_452, rate), Duration::ZERO);
    }

    #[test]
    fn the_bucket_never_holds_more_than_the_burst() {
        let rate = BitRate::from_mbps(8);
        let mut pacer = Pacer::new(Instant::ORIGIN, 3, 1_000);
        pacer.refill(Instant::ORIGIN + Duration::from_secs(10), rate);
        pacer.on_sent(3_000);
        assert_eq!(pacer.wait(1_000, rate), Duration::from_millis(1));
    }
}
