//! Links whose capacity was recorded: mahimahi's traces.
//!
//! A trace is a text with one line for each delivery opportunity, the time in whole milliseconds
//! since its start, in order; several lines of one time are several opportunities. At each, up to
//! 1,500 bytes leave; what is not used then is lost. After the last one the trace begins anew, as
//! mahimahi's `mm-link` has it (Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP",
//! USENIX ATC 2015).
//!
//! # Departures
//! `mm-link` counts the four bytes before a packet that TUN devices put there, and has 1,504 for
//! each opportunity; packets here have none.

use std::{fmt, str::FromStr, sync::Arc};

use thiserror::Error;

/// Bytes that leave at an opportunity.
pub const OPPORTUNITY_BYTES: u64 = 1_500;

/// Most opportunities of a trace: four minutes at 1 Gbit/s, 80 MB.
pub const MOST_OPPORTUNITIES: usize = 20_000_000;

/// Latest time of a trace, in ms: eleven days.
const LATEST_MS: u64 = 1_000_000_000;

const NANOS_PER_MS: u64 = 1_000_000;

/// When something may leave a link, over and over.
#[derive(Clone, PartialEq)]
pub struct CapacityTrace {
    /// Milliseconds, in order.
    times: Arc<[u32]>,
}

/// Why a text is no trace.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("line {line}: {what}")]
pub struct CapacityTraceError {
    /// The line, from 1 on.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

impl CapacityTrace {
    /// How long it is before it begins anew, ms.
    pub fn period_ms(&self) -> u64 {
        self.times.last().map_or(0, |last| u64::from(*last))
    }

    /// How many opportunities there are in a period.
    pub fn opportunities(&self) -> usize {
        self.times.len()
    }

    /// Bits per second that it lets through on average.
    pub fn mean_rate(&self) -> f64 {
        self.times.len() as f64 * OPPORTUNITY_BYTES as f64 * 8e3 / self.period_ms() as f64
    }

    /// When opportunity `n` is, in ns.
    fn at(&self, n: u64) -> u64 {
        let count = self.times.len() as u64;
        let (round, place) = (n / count, n % count);
        let ms = round.saturating_mul(self.period_ms()) + u64::from(self.times[place as usize]);
        ms.saturating_mul(NANOS_PER_MS)
    }

    /// The first opportunity at `time` or later, ns.
    fn first_at(&self, time: u64) -> u64 {
        let count = self.times.len() as u64;
        let ms = time.div_ceil(NANOS_PER_MS);
        // The last opportunity of a round and those of the next at 0 ms are at one time: the former
        // come first.
        let round = ms.saturating_sub(1) / self.period_ms();
        let within = ms - round * self.period_ms();
        round * count + self.times.partition_point(|at| u64::from(*at) < within) as u64
    }
}

impl FromStr for CapacityTrace {
    type Err = CapacityTraceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |line, what: String| Err(CapacityTraceError { line, what });
        let mut times = Vec::new();
        let (mut before, mut lines) = (0, 0);
        for (line, text) in (1..).zip(text.lines()) {
            lines = line;
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            let time = match text.parse::<u64>() {
                Ok(time) if time <= LATEST_MS => time,
                Ok(time) => return error(line, format!("{time} ms is later than {LATEST_MS} ms")),
                Err(_) => {
                    let text: String = text.chars().take(40).collect();
                    return error(line, format!("`{text}` is no time in whole milliseconds"));
                }
            };
            if time < before {
                return error(line, format!("{time} ms comes after {before} ms: times are in order"));
            }
            if times.len() == MOST_OPPORTUNITIES {
                return error(line, format!("more than {MOST_OPPORTUNITIES} opportunities"));
            }
            before = time;
            times.push(time as u32);
        }
        if before == 0 {
            return error(lines.max(1), "the trace has to last longer than 0 ms".into());
        }
        Ok(Self { times: times.into() })
    }
}

impl fmt::Debug for CapacityTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapacityTrace")
            .field("opportunities", &self.opportunities())
            .field("period_ms", &self.period_ms())
            .finish()
    }
}

/// A trace that a port is at.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    trace: CapacityTrace,
    /// The opportunity in use, and what it has left.
    place: u64,
    left: u64,
}

impl Capacity {
    pub(super) fn new(trace: CapacityTrace) -> Self {
        Self { trace, place: 0, left: OPPORTUNITY_BYTES }
    }

    /// When the last bit of a packet leaves that is first in line from `starts` on, ns. To be asked
    /// about packets in order.
    pub(super) fn leaves(&mut self, starts: u64, size: u64) -> u64 {
        if self.trace.at(self.place) < starts {
            (self.place, self.left) = (self.trace.first_at(starts), OPPORTUNITY_BYTES);
        }
        let mut rest = size;
        while rest > self.left {
            rest -= self.left;
            (self.place, self.left) = (self.place + 1, OPPORTUNITY_BYTES);
        }
        self.left -= rest;
        self.trace.at(self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = NANOS_PER_MS;

    fn trace(text: &str) -> CapacityTrace {
        text.parse().unwrap()
    }

    #[test]
    fn each_line_is_fifteen_hundred_bytes() {
        let mut link = Capacity::new(trace("1\n1\n4\n"));
        // Two at 1 ms, one at 4 ms, and from there on anew: 5, 5, 8 ms.
        let times: Vec<u64> = (0..6).map(|_| link.leaves(0, 1_500) / MS).collect();
        assert_eq!(times, [1, 1, 4, 5, 5, 8]);
    }

    #[test]
    fn small_packets_share_an_opportunity_and_large_ones_take_several() {
        let mut link = Capacity::new(trace("2\n4\n6\n"));
        assert_eq!(link.leaves(0, 700), 2 * MS);
        assert_eq!(link.leaves(2 * MS, 800), 2 * MS);
        assert_eq!(link.leaves(2 * MS, 1), 4 * MS);
        // 1,499 bytes are left at 4 ms, 1,500 at 6 ms, and the last byte goes in the next round.
        assert_eq!(link.leaves(4 * MS, 3_000), 8 * MS);
    }

    #[test]
    fn what_nobody_uses_is_lost() {
        let mut link = Capacity::new(trace("0\n1\n2\n10\n"));
        assert_eq!(link.leaves(2 * MS + 1, 1), 10 * MS);
        // In the third round; the last opportunity of the second is at its very beginning.
        assert_eq!(link.leaves(20 * MS, 1_500), 20 * MS);
        assert_eq!(link.leaves(20 * MS, 1_500), 20 * MS);
        assert_eq!(link.leaves(20 * MS, 1_500), 21 * MS);
        // A year later.
        let year = 365 * 86_400_000 * MS;
        assert_eq!(link.leaves(year + 3 * MS, 1_500), year + 10 * MS);
    }

    #[test]
    fn it_lets_through_what_it_says() {
        let trace = trace("1\n2\n3\n4\n");
        assert_eq!((trace.period_ms(), trace.opportunities()), (4, 4));
        assert!((trace.mean_rate() - 12e6).abs() < 1.0);
        let mut link = Capacity::new(trace);
        assert_eq!((0..1_000).map(|_| link.leaves(0, 1_500)).last(), Some(1_000 * MS));
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        let cases = [
            ("", 1, "longer than 0 ms"),
            ("0\n0\n", 2, "longer than 0 ms"),
            ("1\n\nx\n", 3, "`x` is no time"),
            ("5\n4\n", 2, "in order"),
            ("-1\n", 1, "no time"),
            ("9999999999\n", 1, "later than"),
            ("1.5", 1, "no time"),
        ];
        for (text, line, words) in cases {
            let error = text.parse::<CapacityTrace>().unwrap_err();
            assert_eq!(error.line, line, "{text:?}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
