//! Sizes, rates and probabilities.

use core::fmt;

use crate::Duration;

/// A number of bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Bytes(pub u64);

impl Bytes {
    /// The plain number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000_000 => write!(f, "{:.2} GB", n as f64 / 1e9),
            n if n >= 1_000_000 => write!(f, "{:.2} MB", n as f64 / 1e6),
            n if n >= 1_000 => write!(f, "{:.1} kB", n as f64 / 1e3),
            n => write!(f, "{n} B"),
        }
    }
}

/// A rate in bits per second.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BitRate(pub u64);

impl BitRate {
    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// The rate of `n` megabits (10^6) per second.
    pub const fn from_mbps(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// Time for `bytes` to pass at this rate, rounded up to a nanosecond; [`Duration::MAX`] at rate
    /// zero.
    pub fn time_to_send(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let nanos = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Bytes that pass in `d`, rounded down.
    pub fn bytes_in(self, d: Duration) -> u64 {
        let bytes = u128::from(self.0) * u128::from(d.as_nanos()) / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000_000 => write!(f, "{:.2} Gbit/s", n as f64 / 1e9),
            n if n >= 1_000_000 => write!(f, "{:.2} Mbit/s", n as f64 / 1e6),
            n if n >= 1_000 => write!(f, "{:.1} kbit/s", n as f64 / 1e3),
            n => write!(f, "{n} bit/s"),
        }
    }
}

/// A probability of loss, from 0 to 1.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd, Debug)]
pub struct LossRate(f64);

impl LossRate {
    /// Nothing is lost.
    pub const ZERO: Self = Self(0.0);

    /// `p` as a loss rate; `None` unless `0 <= p <= 1`.
    pub fn new(p: f64) -> Option<Self> {
        (0.0..=1.0).contains(&p).then_some(Self(p))
    }

    /// The probability.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for LossRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0 * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialisation_time_is_exact() {
        assert_eq!(BitRate::from_mbps(100).time_to_send(1_250), Duration::from_micros(100));
        assert_eq!(BitRate(3).time_to_send(1), Duration::from_nanos(2_666_666_667));
        assert_eq!(BitRate(0).time_to_send(1), Duration::MAX);
        assert_eq!(BitRate::from_mbps(8).bytes_in(Duration::from_millis(1)), 1_000);
    }

    #[test]
    fn loss_rate_is_a_probability() {
        assert!(LossRate::new(1.01).is_none());
        assert!(LossRate::new(-0.01).is_none());
        assert!(LossRate::new(f64::NAN).is_none());
        assert_eq!(LossRate::new(0.02).unwrap().to_string(), "2%");
    }
}
