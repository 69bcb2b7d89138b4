//! SLP's arbiter: is this packet worth a duplicate?
//!
//! SLP section II-C1. Duplicate if and only if the expected gain, p q RTO, is at least the expected
//! cost, (1-p) pkt_size / bw.
//!
//! | paper       | here                     | unit        |
//! |-------------|--------------------------|-------------|
//! | p           | [`Conditions::loss`]     | probability |
//! | bw          | [`Conditions::bandwidth`]| bit/s       |
//! | RTO         | [`Conditions::timeout`]  | time        |
//! | q           | [`TimeoutOdds`]          | probability |
//! | pkt_size    | `bytes`                  | bytes       |
//! | SYN, PSH, FIN | [`Marks`]              |             |
//!
//! # Departures
//! - The formula is used with consistent units. The paper's example thresholds (3.35 and 7.16
//!   Mbit/s) do not follow from it: they should be 27.44 kbit/s and 5.88 Mbit/s (SLP-A1).
//! - Before there are measurements, the defaults decide alone (SLP-A4). q of packets that the paper
//!   leaves open is 0 (SLP-A5); of several marks the largest q counts (SLP-A6). Retransmissions and
//!   pure ACKs are for the caller to leave out (SLP-A7).
//!
//! # Invariants
//! Equality duplicates. More loss, more bandwidth, a longer timeout or a smaller packet never turn
//! a yes into a no.

use units::{BitRate, Duration};

/// What is special about a packet.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Marks {
    /// It opens the connection: SYN, SYN/ACK, the first flight of a handshake.
    pub handshake: bool,
    /// It ends what the application wrote in one go.
    pub push: bool,
    /// It ends a stream.
    pub fin: bool,
}

/// q: how probably the loss of a packet leads to a timeout.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TimeoutOdds {
    /// For packets of the handshake. Default 1 (prototype).
    pub handshake: f64,
    /// For packets that end a write. Default 0.1 (prototype).
    pub push: f64,
    /// For packets that end a stream. Default 0 (SLP-A5).
    pub fin: f64,
    /// For all others. Default 0 (SLP-A5).
    pub plain: f64,
}

impl Default for TimeoutOdds {
    fn default() -> Self {
        Self { handshake: 1.0, push: 0.1, fin: 0.0, plain: 0.0 }
    }
}

impl TimeoutOdds {
    /// q of a packet with `marks`: the largest that applies.
    pub fn of(&self, marks: Marks) -> f64 {
        let kinds = [(marks.handshake, self.handshake), (marks.push, self.push), (marks.fin, self.fin)];
        kinds.into_iter().filter(|(applies, _)| *applies).fold(self.plain, |q, (_, odds)| q.max(odds))
    }
}

/// What is known of the path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Conditions {
    /// p: the loss rate. Default 2 % (prototype).
    pub loss: f64,
    /// bw: the available bandwidth. Default 10 Mbit/s (SLP-A4).
    pub bandwidth: BitRate,
    /// RTO: what a timeout costs. Default 1 s (SLP-A4).
    pub timeout: Duration,
}

impl Default for Conditions {
    fn default() -> Self {
        Self { loss: 0.02, bandwidth: BitRate::from_mbps(10), timeout: Duration::from_secs(1) }
    }
}

impl Conditions {
    /// t1 = p q RTO: seconds that a duplicate is expected to save.
    pub fn gain(&self, odds: f64) -> f64 {
        self.loss * odds * self.timeout.as_secs_f64()
    }

    /// t2 = (1-p) pkt_size / bw: seconds that a duplicate is expected to cost. Infinite without
    /// bandwidth.
    pub fn cost(&self, bytes: u64) -> f64 {
        (1.0 - self.loss) * bytes as f64 * 8.0 / self.bandwidth.bits_per_second() as f64
    }

    /// Whether a packet of `bytes` whose loss leads to a timeout with probability `odds` is worth a
    /// duplicate. Without any gain it never is.
    pub fn worth_duplicating(&self, bytes: u64, odds: f64) -> bool {
        let gain = self.gain(odds);
        // Equality duplicates, and rounding must not decide about it.
        gain > 0.0 && gain * (1.0 + 1e-12) >= self.cost(bytes)
    }

    /// The bandwidth from which on a duplicate is worth it; `None` if none is enough.
    pub fn bandwidth_needed(&self, bytes: u64, odds: f64) -> Option<BitRate> {
        let gain = self.gain(odds);
        let bits = (1.0 - self.loss) * bytes as f64 * 8.0;
        (gain > 0.0).then(|| BitRate((bits / gain - 1e-6).ceil() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example_of_bandwidth_thresholds() {
        for (bytes, odds, timeout, threshold) in [
            (70, 1.0, "1s", 27_440),
            (70, 1.0, "200ms", 137_200),
            (1500, 0.1, "1s", 5_880_000),
            (1500, 0.1, "200ms", 29_400_000),
            (400, 0.1, "200ms", 7_840_000),
        ] {
            let at = |bandwidth| Conditions { loss: 0.02, bandwidth, timeout: timeout.parse().unwrap() };
            let needed = at(BitRate(1)).bandwidth_needed(bytes, odds);
            assert_eq!(needed, Some(BitRate(threshold)));
            assert!(at(BitRate(threshold)).worth_duplicating(bytes, odds), "{threshold}");
            assert!(!at(BitRate(threshold - 1)).worth_duplicating(bytes, odds), "{threshold}");
        }
    }

    #[test]
    fn largest_odds_count() {
        let odds = TimeoutOdds { fin: 0.5, ..TimeoutOdds::default() };
        let marks = Marks { push: true, ..Marks::default() };
        assert_eq!(odds.of(Marks::default()), 0.0);
        assert_eq!(odds.of(marks), 0.1);
        assert_eq!(odds.of(Marks { fin: true, ..marks }), 0.5);
        assert_eq!(odds.of(Marks { handshake: true, ..marks }), 1.0);
    }

    #[test]
    fn nothing_to_gain_means_no_duplicate() {
        let conditions = Conditions::default();
        assert!(conditions.worth_duplicating(1_500, 1.0));
        assert!(!conditions.worth_duplicating(0, 0.0));
        assert!(!Conditions { bandwidth: BitRate(0), ..conditions }.worth_duplicating(1, 1.0));
        assert!(!Conditions { loss: 0.0, ..conditions }.worth_duplicating(1, 1.0));
        assert_eq!(conditions.bandwidth_needed(100, 0.0), None);
    }
}
