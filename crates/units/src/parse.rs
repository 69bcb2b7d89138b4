//! Units as people type them: `50mbit`, `20ms`, `1%`, `60kB`, `1GiB`.

use core::{fmt, str::FromStr};

use crate::{BitRate, Bytes, Duration, LossRate};

/// Text that is not a number with a known unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseUnitError {
    text: String,
    expected: &'static str,
}

impl fmt::Display for ParseUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.text, self.expected)
    }
}

impl std::error::Error for ParseUnitError {}

/// Splits `text` into a non-negative number and its lower-cased unit, then scales it by the unit's
/// factor.
fn scaled(text: &str, units: &[(&str, f64)], expected: &'static str) -> Result<f64, ParseUnitError> {
    let error = || ParseUnitError { text: text.to_owned(), expected };
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| error())?;
    let unit = unit.trim().to_ascii_lowercase();
    let factor = units.iter().find(|(name, _)| *name == unit).ok_or_else(error)?.1;
    Ok(number * factor)
}

impl FromStr for Duration {
    type Err = ParseUnitError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let units = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0)];
        scaled(s, &units, "a time such as `20ms`, `1.5s` or `300us`").map(Self::from_secs_f64)
    }
}

impl FromStr for BitRate {
    type Err = ParseUnitError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let units = [
            ("bit", 1.0),
            ("kbit", 1e3),
            ("mbit", 1e6),
            ("gbit", 1e9),
            ("bit/s", 1.0),
            ("kbit/s", 1e3),
            ("mbit/s", 1e6),
            ("gbit/s", 1e9),
        ];
        scaled(s, &units, "a rate such as `50mbit` or `1gbit`").map(|n| Self(n.round() as u64))
    }
}

impl FromStr for LossRate {
    type Err = ParseUnitError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let expected = "a loss rate such as `2%` or `0.02`, from 0 to 100 %";
        let p = scaled(s, &[("%", 0.01), ("", 1.0)], expected)?;
        Self::new(p).ok_or_else(|| ParseUnitError { text: s.to_owned(), expected })
    }
}

impl FromStr for Bytes {
    type Err = ParseUnitError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let units = [
            ("", 1.0),
            ("b", 1.0),
            ("kb", 1e3),
            ("mb", 1e6),
            ("gb", 1e9),
            ("tb", 1e12),
            ("kib", 1024.0),
            ("mib", 1024.0 * 1024.0),
            ("gib", 1024.0 * 1024.0 * 1024.0),
            ("tib", 1024.0 * 1024.0 * 1024.0 * 1024.0),
        ];
        scaled(s, &units, "a size such as `60kB`, `20MiB` or `1500`").map(|n| Self(n.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type() {
        assert_eq!("20ms".parse(), Ok(Duration::from_millis(20)));
        assert_eq!("1.5s".parse(), Ok(Duration::from_millis(1_500)));
        assert_eq!("50mbit".parse(), Ok(BitRate::from_mbps(50)));
        assert_eq!("1%".parse(), Ok(LossRate::new(0.01).unwrap()));
        assert_eq!("0.02".parse(), Ok(LossRate::new(0.02).unwrap()));
        assert_eq!("60kB".parse(), Ok(Bytes(60_000)));
        assert_eq!("1GiB".parse(), Ok(Bytes(1 << 30)));
        assert_eq!("1.5TB".parse(), Ok(Bytes(1_500_000_000_000)));
    }

    #[test]
    fn errors_teach() {
        for bad in ["", "ms", "-1ms", "20", "20 parsecs", "1.2.3s"] {
            assert!(bad.parse::<Duration>().is_err(), "{bad}");
        }
        let error = "101%".parse::<LossRate>().unwrap_err().to_string();
        assert_eq!(error, "`101%` is not a loss rate such as `2%` or `0.02`, from 0 to 100 %");
    }
}
