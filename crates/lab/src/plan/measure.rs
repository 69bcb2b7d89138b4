//! The kinds of measurement.

use std::{fmt, str::FromStr};

use netsim::{Rng, Seed};
use serde::{Deserialize, Deserializer, de::Error};
use units::{Bytes, Duration};

use super::{
    Scale,
    text::{maybe, pairs, text, texts},
};
use crate::Contender;

/// Most fetches at once, and transfers beside them: the lab has a thread for each.
pub const MOST_AT_ONCE: u32 = 1_000;
/// Largest response or transfer.
const MAX_SIZE: u64 = 1 << 40;

/// Single responses, one at a time: how long each takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// What it is called; made from the rest if empty.
    #[serde(default)]
    pub name: String,
    /// Every response has this size ...
    #[serde(default, deserialize_with = "maybe")]
    pub size: Option<Bytes>,
    /// ... or each of these sizes is a measurement ...
    #[serde(default, deserialize_with = "texts")]
    pub sizes: Vec<Bytes>,
    /// ... or sizes are drawn from a distribution, the same for every contender.
    pub lognormal: Option<LogNormal>,
    /// Fetches per contender.
    #[serde(default = "two_hundred")]
    pub count: u32,
    /// Fetches per contender at the quick scale; a tenth of `count` unless given, but at least
    /// five.
    pub quick: Option<u32>,
    /// Whether each fetch has a connection of its own (the default) or all use one.
    #[serde(default)]
    pub connection: Connection,
    /// Whether the time to connect is part of the result.
    #[serde(default)]
    pub setup: SetUp,
    /// Bytes to fetch first on a kept connection, not counted.
    #[serde(default, deserialize_with = "maybe")]
    pub warm_up: Option<Bytes>,
    /// How long to wait before each fetch.
    #[serde(default, deserialize_with = "text")]
    pub idle: Duration,
    /// When to give up on one, which then counts as having taken this long.
    #[serde(default = "a_minute", deserialize_with = "text")]
    pub limit: Duration,
    /// Exactly one packet of each fetch is lost.
    pub drop: Option<DropEach>,
    /// How many fetches are made at once, each over a connection of its own.
    #[serde(default = "one")]
    pub at_once: u32,
    /// So many long transfers go on meanwhile.
    #[serde(default)]
    pub beside: u32,
}

/// Sizes from a log-normal distribution, cut at both ends.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogNormal {
    /// The median.
    #[serde(deserialize_with = "text")]
    pub median: Bytes,
    /// Standard deviation of the natural logarithm.
    pub sigma: f64,
    /// The smallest size.
    #[serde(default = "a_kilobyte", deserialize_with = "text")]
    pub least: Bytes,
    /// The largest size, in standard deviations of the logarithm above the median; 3.29 is
    /// the 99.95th percentile.
    #[serde(default = "nearly_all")]
    pub cut: f64,
}

/// The sizes of one measurement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sizes {
    /// All alike.
    One(Bytes),
    /// Drawn.
    LogNormal(LogNormal),
}

/// What a fetch is made over.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connection {
    /// A TCP connection for each. Contenders that are proxies keep their own connection, but for
    /// `mendpath-new`.
    #[default]
    New,
    /// One TCP connection for all.
    Kept,
}

/// Whether setting up a new connection counts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SetUp {
    /// From the request to the last byte; the time to connect is in the JSON.
    #[default]
    Apart,
    /// From before connecting to the last byte.
    Counted,
}

/// One lost packet per fetch (CoFUSO section 6.1.1).
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DropEach {
    /// On which paths, from server to client.
    pub paths: Vec<usize>,
    /// Among the first so many packets larger than [`SMALL_PACKET`](crate::SMALL_PACKET) that the
    /// server sends there.
    pub first: u32,
    /// Which of them.
    pub order: DropOrder,
}

/// The order in which packets are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DropOrder {
    /// Fetch n loses packet n modulo their count.
    Each,
    /// Each fetch loses one drawn at random.
    Random,
}

/// Long transfers: how much arrives per second.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    /// What it is called; made from the rest if empty.
    #[serde(default)]
    pub name: String,
    /// How much is transferred.
    #[serde(deserialize_with = "text")]
    pub size: Bytes,
    /// Transfers per contender.
    #[serde(default = "one")]
    pub count: u32,
    /// Transfers per contender at the quick scale; one unless given.
    pub quick: Option<u32>,
    /// When to stop one; the goodput is then what arrived until then.
    #[serde(default = "a_minute", deserialize_with = "text")]
    pub limit: Duration,
    /// The same at the quick scale.
    #[serde(default, deserialize_with = "maybe")]
    pub quick_limit: Option<Duration>,
    /// A path is cut meanwhile.
    pub cut: Option<Cut>,
}

/// A path that is cut for a while during a transfer, in both directions.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// Which.
    pub path: PathOrEach,
    /// When, after the transfer's start: drawn from this range, the same for every contender.
    pub after: TimeRange,
    /// For how long.
    #[serde(deserialize_with = "text")]
    pub time: Duration,
    /// Whether packets wait in the queue meanwhile instead of being lost.
    #[serde(default)]
    pub hold: bool,
}

/// A path, or each in turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathOrEach {
    /// This one.
    One(usize),
    /// The n-th transfer loses path n modulo their count.
    Each,
}

/// A range of time, such as `0.3s-1.5s`, or a single time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeRange {
    /// From here ...
    pub from: Duration,
    /// ... to here.
    pub until: Duration,
}

/// Two contenders at once over the same links.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// What it is called; made from the rest if empty.
    #[serde(default)]
    pub name: String,
    /// Who shares with whom; the second begins `stagger` later.
    #[serde(deserialize_with = "pairs")]
    pub pairs: Vec<[Contender; 2]>,
    /// How long both send.
    #[serde(deserialize_with = "text")]
    pub time: Duration,
    /// The same at the quick scale; a quarter unless given.
    #[serde(default, deserialize_with = "maybe")]
    pub quick_time: Option<Duration>,
    /// How much later the second begins.
    #[serde(default, deserialize_with = "text")]
    pub stagger: Duration,
}

pub(super) fn one() -> u32 {
    1
}

fn two_hundred() -> u32 {
    200
}

pub(super) fn a_minute() -> Duration {
    Duration::from_secs(60)
}

fn a_kilobyte() -> Bytes {
    Bytes(1_000)
}

fn nearly_all() -> f64 {
    3.29
}

impl Sizes {
    /// The size of the `n`-th response: the same for whoever asks.
    pub fn nth(&self, seed: Seed, n: u64) -> Bytes {
        match self {
            Self::One(size) => *size,
            Self::LogNormal(LogNormal { median, sigma, least, cut }) => {
                let mut rng = Rng::new(seed.child("size", n));
                let normal = loop {
                    // Box and Muller, "A note on the generation of random normal deviates" (1958).
                    let radius = (-2.0 * (1.0 - rng.next_f64()).ln()).sqrt();
                    let normal = radius * (std::f64::consts::TAU * rng.next_f64()).cos();
                    if normal <= *cut {
                        break normal;
                    }
                };
                let size = median.get() as f64 * (sigma * normal).exp();
                Bytes((size.round() as u64).max(least.get()))
            }
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(size) => size.fmt(f),
            Self::LogNormal(it) => write!(f, "log-normal sizes, median {}, sigma {}", it.median, it.sigma),
        }
    }
}

impl Fetch {
    /// A measurement of responses of one size, everything else as in a plan that says no more.
    pub fn of(size: Bytes, count: u32) -> Self {
        Self {
            name: String::new(),
            size: Some(size),
            sizes: Vec::new(),
            lognormal: None,
            count,
            quick: None,
            connection: Connection::New,
            setup: SetUp::Apart,
            warm_up: None,
            idle: Duration::ZERO,
            limit: a_minute(),
            drop: None,
            at_once: 1,
            beside: 0,
        }
    }

    /// Fetches per contender.
    pub fn count(&self, scale: Scale) -> u32 {
        repetitions(scale, self.count, self.quick)
    }

    /// One measurement for each.
    pub fn measurements(&self) -> Vec<Sizes> {
        let sizes = self.size.iter().chain(&self.sizes).copied().map(Sizes::One);
        sizes.chain(self.lognormal.map(Sizes::LogNormal)).collect()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let measurements = self.measurements();
        if measurements.is_empty() {
            return Err("a [[fetch]] needs `size`, `sizes` or `lognormal`".to_owned());
        }
        for sizes in measurements {
            match sizes {
                Sizes::One(size) => check_size(size)?,
                Sizes::LogNormal(LogNormal { median, sigma, least, cut }) => {
                    check_size(median)?;
                    check_size(least)?;
                    if !(0.0..=3.0).contains(&sigma) || !(1.0..=6.0).contains(&cut) {
                        return Err(
                            "lognormal needs a sigma of 0 to 3, and a `cut` of 1 to 6 sigmas".to_owned()
                        );
                    }
                }
            }
        }
        let is_crowd = self.at_once != 1 || self.beside != 0;
        if is_crowd && (self.connection == Connection::Kept || self.drop.is_some()) {
            return Err("`at_once` and `beside` are for new connections without `drop`".to_owned());
        }
        if !(1..=MOST_AT_ONCE).contains(&self.at_once) || self.beside > MOST_AT_ONCE {
            return Err(format!("1 to {MOST_AT_ONCE} fetches can be made at once, beside as many transfers"));
        }
        if self.drop.as_ref().is_some_and(|drop| drop.paths.is_empty() || drop.first == 0) {
            return Err("`drop` needs at least one path and one packet".to_owned());
        }
        check_count(self.count.min(self.count(Scale::Quick)), self.limit)
    }
}

impl Bulk {
    /// A transfer of this size, everything else as in a plan that says no more.
    pub fn of(size: Bytes, count: u32) -> Self {
        Self {
            name: String::new(),
            size,
            count,
            quick: None,
            limit: a_minute(),
            quick_limit: None,
            cut: None,
        }
    }

    /// Transfers per contender.
    pub fn count(&self, scale: Scale) -> u32 {
        if scale == Scale::Quick { self.quick.unwrap_or(1) } else { self.count }
    }

    /// When to stop one.
    pub fn limit(&self, scale: Scale) -> Duration {
        if scale == Scale::Quick { self.quick_limit.unwrap_or(self.limit) } else { self.limit }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        check_size(self.size)?;
        check_count(self.count.min(self.count(Scale::Quick)), self.limit.min(self.limit(Scale::Quick)))
    }
}

impl Share {
    /// How long both send.
    pub fn time(&self, scale: Scale) -> Duration {
        if scale == Scale::Quick { self.quick_time.unwrap_or(self.time / 4) } else { self.time }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.pairs.is_empty() {
            return Err("a [[share]] needs pairs".to_owned());
        }
        check_count(1, self.time(Scale::Quick))
    }
}

/// How often something is measured of which a plan wants `count`: at the quick scale what it says of
/// that, or a tenth, but at least five.
pub(super) fn repetitions(scale: Scale, count: u32, quick: Option<u32>) -> u32 {
    match scale {
        Scale::Medium | Scale::Paper => count,
        Scale::Quick => quick.unwrap_or_else(|| (count / 10).max(5)).min(count),
    }
}

fn check_size(size: Bytes) -> Result<(), String> {
    if (1..=MAX_SIZE).contains(&size.get()) {
        Ok(())
    } else {
        Err("sizes are from 1 byte to 1 TiB".to_owned())
    }
}

pub(super) fn check_count(count: u32, time: Duration) -> Result<(), String> {
    if count == 0 || time < Duration::from_millis(10) {
        return Err("counts begin at 1, and limits and times at 10 ms".to_owned());
    }
    Ok(())
}

impl<'de> Deserialize<'de> for PathOrEach {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(usize),
            Word(String),
        }
        match Either::deserialize(from)? {
            Either::Number(path) => Ok(Self::One(path)),
            Either::Word(word) if word == "each" => Ok(Self::Each),
            Either::Word(word) => {
                Err(D::Error::custom(format!("`{word}` is neither a path's number nor \"each\"")))
            }
        }
    }
}

impl FromStr for TimeRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (from, until) = text.split_once('-').unwrap_or((text, text));
        let parse = |text: &str| text.parse::<Duration>().map_err(|error| error.to_string());
        let (from, until) = (parse(from)?, parse(until)?);
        if until < from {
            return Err(format!("`{text}` is no range of time such as 0.3s-1.5s, the earlier one first"));
        }
        Ok(Self { from, until })
    }
}

impl<'de> Deserialize<'de> for TimeRange {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_sizes_follow_the_distribution_and_are_the_same_for_everybody() {
        let sizes =
            Sizes::LogNormal(LogNormal { median: Bytes(30_000), sigma: 0.9, least: Bytes(1_000), cut: 3.29 });
        let draw = |n| sizes.nth(Seed(1), n).get();
        let mut drawn: Vec<u64> = (0..4_000).map(draw).collect();
        assert_eq!(drawn[17], draw(17));
        drawn.sort_unstable();
        let largest = 30_000.0 * (0.9f64 * 3.29).exp();
        assert!(drawn[0] >= 1_000 && drawn[3_999] as f64 <= largest + 1.0);
        assert!((28_000..32_000).contains(&drawn[2_000]), "{}", drawn[2_000]);
        // 90th percentile: median * exp(0.9 * 1.2816) = 95.1 kB.
        assert!((89_000..101_000).contains(&drawn[3_600]), "{}", drawn[3_600]);
    }

    #[test]
    fn times_are_single_or_ranges() {
        let range: TimeRange = "0.3s-1.5s".parse().unwrap();
        assert_eq!((range.from, range.until), (Duration::from_millis(300), Duration::from_millis(1_500)));
        assert!("2s".parse::<TimeRange>().is_ok_and(|range| range.from == range.until));
        assert!("1s-".parse::<TimeRange>().is_err());
    }
}
