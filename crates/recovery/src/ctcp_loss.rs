//! CTCP's short-term loss rate, from the gaps in the numbers that ACKs name.
//!
//! CTCP section 4.1 (Algorithm 1, steps 4 and 5).
//!
//! | paper        | here                          | unit        |
//! |--------------|-------------------------------|-------------|
//! | mu           | [`ShortTermLoss::new`]        | none        |
//! | p            | [`ShortTermLoss::estimate`]   | probability |
//! | seqno_una    | [`ShortTermLoss::expected`]   | transmission number |
//! | ack_seqno    | `number`                      | transmission number |
//! | losses       | [`Acked::gap`]                | packets     |
//!
//! # Departures
//! - The number expected next is not a loss: losses = ack_seqno - seqno_una, and p is updated by
//!   gap-free ACKs too (CTCP-A2).
//! - The gap is found once, before seqno_una moves, and given to congestion control as well
//!   (CTCP-A3).
//! - seqno_una never moves back; a late or repeated ACK changes nothing (CTCP-A4).
//! - Algorithm 1's degrees of freedom are kept by [`ctcp_schedule`](crate::ctcp_schedule)
//!   (CTCP-A5).
//! - After a time-out nothing is expected any more, and p starts over from 0 (CTCP-A7).
//!
//! # Invariants
//! `0 <= estimate <= 1`; `expected` never falls. Every transmission counts once, as lost or as
//! delivered.

/// The default mu (CTCP-A14).
pub const MU: f64 = 1.0 / 128.0;

/// What an ACK said about the order of delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acked {
    /// The number expected next.
    InOrder,
    /// A later one: this many (at least 1) before it are taken as lost. Congestion avoidance backs
    /// off.
    Gap(u64),
    /// An earlier one: reordered or repeated. Neither loss nor growth.
    Late,
}

impl Acked {
    /// Packets taken as lost.
    pub const fn gap(self) -> u64 {
        match self {
            Self::Gap(losses) => losses,
            Self::InOrder | Self::Late => 0,
        }
    }
}

/// An exponential average over a series of ones (lost) and zeros (delivered).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ShortTermLoss {
    mu: f64,
    p: f64,
    expected: u64,
}

impl ShortTermLoss {
    /// No loss yet; `expected` is the first transmission's number, `mu` (0 to 1) the weight of one
    /// packet.
    pub fn new(mu: f64, expected: u64) -> Self {
        Self { mu: mu.clamp(0.0, 1.0), p: 0.0, expected }
    }

    /// p: the share of packets lost lately.
    pub fn estimate(&self) -> f64 {
        self.p
    }

    /// seqno_una: the lowest transmission number that is neither acknowledged nor taken as lost.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// The transmission `number` was acknowledged.
    pub fn on_ack(&mut self, number: u64) -> Acked {
        let Some(losses) = number.checked_sub(self.expected) else { return Acked::Late };
        let kept = power(1.0 - self.mu, losses);
        self.p = self.p * kept * (1.0 - self.mu) + (1.0 - kept);
        self.expected = number.saturating_add(1);
        if losses == 0 { Acked::InOrder } else { Acked::Gap(losses) }
    }

    /// A time-out: everything below `next`, the number of the next transmission, is given up, and p
    /// is forgotten.
    pub fn on_timeout(&mut self, next: u64) {
        self.p = 0.0;
        self.expected = self.expected.max(next);
    }
}

impl Default for ShortTermLoss {
    fn default() -> Self {
        Self::new(MU, 0)
    }
}

/// `base` to the power of `n`, by products only: the same bits on every platform.
fn power(mut base: f64, mut n: u64) -> f64 {
    let mut product = 1.0;
    while n > 0 {
        if n % 2 == 1 {
            product *= base;
        }
        base *= base;
        n /= 2;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example() {
        for (before, expected) in [
            (0.0, [0.0, 0.0078125, 0.015563965, 0.023254871]),
            (0.05, [0.049609375, 0.057034302, 0.064401221, 0.071710587]),
        ] {
            for (losses, p) in expected.into_iter().enumerate() {
                let mut loss = ShortTermLoss { p: before, ..ShortTermLoss::new(MU, 100) };
                let acked = loss.on_ack(100 + losses as u64);
                assert_eq!(acked.gap(), losses as u64);
                assert!((loss.estimate() - p).abs() < 5e-10, "{before} {losses}: {}", loss.estimate());
                assert_eq!(loss.expected(), 101 + losses as u64);
            }
        }
    }

    #[test]
    fn is_the_average_of_single_samples() {
        let mut loss = ShortTermLoss { p: 0.3, ..ShortTermLoss::default() };
        loss.on_ack(5);
        let sample = |p: f64, lost: f64| p * (1.0 - MU) + MU * lost;
        let one_by_one = (0..5).fold(sample(0.3, 0.0), |p, _| sample(p, 1.0));
        assert!((loss.estimate() - one_by_one).abs() < 1e-12);
    }

    #[test]
    fn late_acks_change_nothing() {
        let mut loss = ShortTermLoss::default();
        assert_eq!(loss.on_ack(3), Acked::Gap(3));
        let before = loss;
        assert_eq!((loss.on_ack(1), loss.on_ack(3)), (Acked::Late, Acked::Late));
        assert_eq!(loss, before);
        assert_eq!(loss.on_ack(4), Acked::InOrder);
    }

    #[test]
    fn a_timeout_forgets() {
        let mut loss = ShortTermLoss::default();
        loss.on_ack(9);
        loss.on_timeout(50);
        assert_eq!((loss.estimate(), loss.expected()), (0.0, 50));
        assert_eq!(loss.on_ack(50), Acked::InOrder);
    }

    #[test]
    fn converges_to_the_true_rate_and_stays_a_probability() {
        let mut loss = ShortTermLoss::default();
        for number in (0..20_000).filter(|n| n % 10 != 0) {
            loss.on_ack(number);
            assert!((0.0..=1.0).contains(&loss.estimate()));
        }
        assert!((loss.estimate() - 0.1).abs() < 0.01, "{}", loss.estimate());
        loss.on_ack(u64::MAX);
        assert!(loss.estimate() <= 1.0);
    }
}
