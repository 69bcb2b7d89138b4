//! Time as unsigned nanoseconds.

use core::{fmt, num::NonZeroU64, ops};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A length of time in whole nanoseconds, at most about 584 years. Arithmetic saturates.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest representable time; also used for "never".
    pub const MAX: Self = Self(u64::MAX);

    /// `n` nanoseconds.
    pub const fn from_nanos(n: u64) -> Self {
        Self(n)
    }

    /// `n` microseconds.
    pub const fn from_micros(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(NANOS_PER_SEC))
    }

    /// `s` seconds, rounded to nanoseconds; negative and NaN give zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * NANOS_PER_SEC as f64).round() as u64)
    }

    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole microseconds in half of the memory; `u32::MAX` for what is longer, above an hour.
    pub const fn saturating_micros(self) -> u32 {
        let micros = self.as_micros();
        if micros < u32::MAX as u64 { micros as u32 } else { u32::MAX }
    }

    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }

    /// Milliseconds with fraction, for people and JSON.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Whether this is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// `self - other`, zero if that would be negative.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The difference of two durations, whichever is longer.
    pub const fn abs_diff(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }

    /// `self * factor`, rounded; negative and NaN factors give zero.
    pub fn mul_f64(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).round() as u64)
    }
}

impl ops::Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl ops::AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl ops::Sub for Duration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl ops::Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl ops::Div<u64> for Duration {
    type Output = Self;
    fn div(self, divisor: u64) -> Self {
        Self(self.0 / divisor)
    }
}

impl From<core::time::Duration> for Duration {
    fn from(d: core::time::Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Duration> for core::time::Duration {
    fn from(d: Duration) -> Self {
        Self::from_nanos(d.0)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u64::MAX => f.write_str("never"),
            n if n >= NANOS_PER_SEC => write!(f, "{:.3}s", n as f64 / 1e9),
            n if n >= 1_000_000 => write!(f, "{:.3}ms", n as f64 / 1e6),
            n if n >= 1_000 => write!(f, "{:.3}us", n as f64 / 1e3),
            n => write!(f, "{n}ns"),
        }
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A moment, in nanoseconds after an origin that its producer chose. Arithmetic saturates.
///
/// An `Option` of it is no larger: connections keep dozens of moments that may be none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(
    /// One more than the nanoseconds, which leaves zero for "none" and costs sums and differences
    /// nothing.
    NonZeroU64,
);

impl Instant {
    /// The origin.
    pub const ORIGIN: Self = Self(NonZeroU64::MIN);
    /// The last representable moment, 2^64 - 2 ns; also used for "never".
    pub const MAX: Self = Self(NonZeroU64::MAX);

    /// The moment `n` nanoseconds after the origin.
    pub const fn from_nanos(n: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(n))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// Time since `earlier`, zero if `earlier` is later.
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration(self.0.get().saturating_sub(earlier.0.get()))
    }
}

impl Default for Instant {
    fn default() -> Self {
        Self::ORIGIN
    }
}

impl ops::Add<Duration> for Instant {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl ops::AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl ops::Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, d: Duration) -> Self {
        Self(NonZeroU64::new(self.0.get().saturating_sub(d.0)).unwrap_or(NonZeroU64::MIN))
    }
}

impl ops::Sub for Instant {
    type Output = Duration;
    /// Saturating: an earlier left side gives zero.
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", Duration(self.as_nanos()))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Instant::ORIGIN - Duration::from_secs(1), Instant::ORIGIN);
        assert_eq!(Instant::MAX + Duration::from_secs(1), Instant::MAX);
        assert_eq!(Duration::MAX * 2, Duration::MAX);
        assert_eq!(Duration::from_millis(3) - Duration::from_millis(5), Duration::ZERO);
        assert_eq!(Duration::from_millis(4).mul_f64(-1.0), Duration::ZERO);
        assert_eq!(Duration::from_nanos(2_999).saturating_micros(), 2);
        assert_eq!(Duration::from_secs(4_294).saturating_micros(), 4_294_000_000);
        assert_eq!(Duration::from_secs(4_295).saturating_micros(), u32::MAX);
    }

    #[test]
    fn a_moment_that_may_be_none_is_no_larger() {
        assert_eq!(size_of::<Option<Instant>>(), size_of::<u64>());
        assert_eq!(Instant::from_nanos(u64::MAX), Instant::MAX);
        assert_eq!(Instant::from_nanos(7).as_nanos(), 7);
        assert_eq!(Instant::from_nanos(9) - Duration::from_nanos(9), Instant::ORIGIN);
        assert!(None < Some(Instant::ORIGIN) && Instant::ORIGIN < Instant::from_nanos(1));
    }

    #[test]
    fn conversions_agree() {
        assert_eq!(Duration::from_secs_f64(0.0015), Duration::from_micros(1_500));
        assert_eq!(Duration::from(core::time::Duration::from_millis(7)), Duration::from_millis(7));
        assert_eq!(Duration::from_millis(1_500).as_millis_f64(), 1_500.0);
        assert_eq!(Duration::from_millis(1_500).to_string(), "1.500s");
    }
}
