//! How fast an account's bytes may pass, in one direction: all its connections share one rate.
//!
//! Time is booked rather than bytes: whatever passes takes the time that it needs at the account's
//! rate, behind what was booked before. Streams wait until theirs is over, so that they take turns
//! and none is dropped; packets that come too fast are dropped, as by any narrow link, and book
//! time as well, so that both together keep to the rate.

use std::time::Duration;

use tokio::time::Instant;
use units::BitRate;

/// What may pass at once after silence, as time at the rate.
const BURST: Duration = Duration::from_millis(50);

/// The booked time of one direction.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Until when everything is booked, streams and packets.
    all: Option<Instant>,
    /// The same for packets alone: streams that wait keep none of them out.
    packets: Option<Instant>,
}

impl Pace {
    /// Books `bytes` of a stream, and returns for how long it must wait before its next.
    pub(super) fn stream(&mut self, bytes: usize, rate: BitRate, now: Instant) -> Duration {
        book(&mut self.all, bytes, rate, now).saturating_duration_since(now)
    }

    /// Books a packet if it may pass.
    pub(super) fn packet(&mut self, bytes: usize, rate: BitRate, now: Instant) -> bool {
        if self.packets.is_some_and(|until| until > now) {
            return false;
        }
        book(&mut self.packets, bytes, rate, now);
        book(&mut self.all, bytes, rate, now);
        true
    }
}

fn book(until: &mut Option<Instant>, bytes: usize, rate: BitRate, now: Instant) -> Instant {
    let takes = Duration::from(rate.time_to_send(bytes as u64)).min(LONGEST);
    let earliest = now.checked_sub(BURST).unwrap_or(now);
    let begins = until.map_or(earliest, |until| until.max(earliest));
    *until.insert(begins + takes)
}

/// No single piece takes longer, however small the rate.
const LONGEST: Duration = Duration::from_secs(60);

/// How much of a stream may pass in one piece: so little that turns are short, and so much that
/// fast ones are not slowed by it.
pub(super) fn piece(rate: BitRate) -> usize {
    (rate.bytes_in(BURST.into()) as usize).clamp(1_024, 16 * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: BitRate = BitRate(8_000_000);

    fn start() -> Instant {
        Instant::now() + Duration::from_secs(1_000)
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let (mut pace, now) = (Pace::default(), start());
        // 50 ms at 1 MB/s.
        assert_eq!(pace.stream(50_000, RATE, now), Duration::ZERO);
        assert_eq!(pace.stream(10_000, RATE, now), Duration::from_millis(10));
        assert_eq!(pace.stream(10_000, RATE, now), Duration::from_millis(20), "behind the other");
        let later = now + Duration::from_secs(10);
        assert_eq!(pace.stream(60_000, RATE, later), Duration::from_millis(10), "no more than a burst");
    }

    #[test]
    fn packets_pass_at_the_rate_beside_streams_that_wait() {
        let (mut pace, start) = (Pace::default(), start());
        pace.stream(10_000_000, RATE, start);
        let mut passed = 0;
        for ms in 0..1_000 {
            let now = start + Duration::from_millis(ms);
            passed += (0..5).map(|_| u32::from(pace.packet(1_000, RATE, now))).sum::<u32>();
        }
        assert!((1_000..=1_052).contains(&passed), "{passed} of 5,000 packets, 1,000 a second");
        let waits = pace.stream(0, RATE, start + Duration::from_secs(1));
        assert!(waits > Duration::from_millis(9_900), "streams wait for them: {waits:?}");
    }

    #[test]
    fn slow_accounts_pass_small_pieces() {
        assert_eq!(piece(BitRate(8_000)), 1_024);
        assert_eq!(piece(BitRate(1_600_000)), 10_000);
        assert_eq!(piece(BitRate::from_mbps(1_000)), 16_384);
        let mut pace = Pace::default();
        assert_eq!(pace.stream(1_000, BitRate(0), start()), LONGEST - BURST, "rate 0 is as slow as any");
    }
}
