//! Links as users type them: `rate=50mbit,delay=20ms,loss=1%,burst=3`.

use std::{path::Path, str::FromStr};

use units::{BitRate, Bytes, Duration, LossRate, ParseUnitError};

use super::{Change, LinkConfig, LossPoint, OutageKind, QueueSize};
use crate::{
    Loss,
    loss::{GilbertElliott, InvalidBurst, PRESETS, Preset, Recording, RecordingError},
};

const KEYS: &str = "rate, delay, jitter, reorder, loss, burst, gilbert, replay, drop, loss-at, queue, ecn, duplicate, outage, hold, \
                    rate@TIME, delay@TIME";

/// Text that does not describe a link.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ParseLinkError {
    /// No such key.
    #[error("`{key}` is no property of a link: use {KEYS}, as in `rate=50mbit,delay=20ms,loss=1%`")]
    UnknownKey {
        /// What was given.
        key: String,
    },
    /// A key that needs a value has none.
    #[error("`{key}` needs a value, as in `rate=50mbit,delay=20ms,loss=1%`")]
    MissingValue {
        /// The key.
        key: String,
    },
    /// A key that can be set once was given again.
    #[error("`{key}` is given twice: keep one")]
    Twice {
        /// The key.
        key: String,
    },
    /// A value has the wrong form or unit.
    #[error("{key}: {source}")]
    Unit {
        /// The key.
        key: String,
        /// What is wrong with the value.
        source: ParseUnitError,
    },
    /// A value has the wrong form.
    #[error("{key}: `{value}` is not {expected}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What was expected.
        expected: &'static str,
    },
    /// `burst` without a loss rate.
    #[error("`burst` needs a loss rate to go with it, as in `loss=1%,burst=3`")]
    BurstAlone,
    /// `drop` and `loss` exclude each other.
    #[error("`drop` names exactly which packets are lost: leave out `loss`")]
    DropAndLoss,
    /// `gilbert` and `loss` exclude each other.
    #[error("`gilbert` says all about loss: leave out `loss`")]
    GilbertAndLoss,
    /// `replay` and `loss` exclude each other.
    #[error("`replay` says which packets are lost: leave out `loss`")]
    ReplayAndLoss,
    /// A file is no recording of losses.
    #[error("replay: {0}")]
    Recording(#[from] RecordingError),
    /// Loss rate and burst do not fit together.
    #[error("burst: {0}")]
    Burst(#[from] InvalidBurst),
}

/// Parses comma-separated properties, each optional; text without any is a perfect wire. `delay` is
/// one way.
///
/// | key | value |
/// |---|---|
/// | `rate` | `50mbit` |
/// | `delay`, `jitter` | `20ms` |
/// | `reorder` | nothing, `yes` or `no`: whether jitter may reorder |
/// | `loss` | `1%`, or the name of a preset such as `wifi` |
/// | `burst` | mean burst in packets; makes the loss rate a Gilbert channel |
/// | `gilbert` | `0.01/0.3/1/0`: p, r, 1-h and 1-k of a Gilbert-Elliott channel |
/// | `replay` | the name of a file, which is read at once: which packets somebody's were lost, see [`Recording`] |
/// | `drop` | `3/17`: exactly these packets, counted from 0 |
/// | `loss-at` | `before` or `after` the rate |
/// | `queue`, `ecn` | `100kB` or `64p`: limit, and marking threshold |
/// | `duplicate` | `0.1%` |
/// | `outage`, `hold` | `2s-5s`, repeatable: drops everything, or holds it back |
/// | `rate@5s`, `delay@5s` | the new value at that time, repeatable |
impl FromStr for LinkConfig {
    type Err = ParseLinkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parser = Parser::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            parser.item(item)?;
        }
        parser.finish()
    }
}

#[derive(Default)]
struct Parser {
    config: LinkConfig,
    seen: Vec<String>,
    loss: Option<String>,
    burst: Option<f64>,
}

impl Parser {
    fn item(&mut self, item: &str) -> Result<(), ParseLinkError> {
        let (key, value) = match item.split_once('=') {
            Some((key, value)) => (key.trim(), value.trim()),
            None if item == "reorder" => (item, "yes"),
            None => (item, ""),
        };
        self.check_key(key)?;
        if value.is_empty() {
            return Err(ParseLinkError::MissingValue { key: key.to_owned() });
        }
        let wrong =
            |expected| ParseLinkError::Value { key: key.to_owned(), value: value.to_owned(), expected };
        let config = &mut self.config;
        match key {
            "rate" => config.rate = Some(rate(key, value)?),
            "delay" => config.delay = unit(key, value)?,
            "jitter" => config.jitter = unit(key, value)?,
            "reorder" => config.reorder = yes_or_no(value).ok_or_else(|| wrong("`yes` or `no`"))?,
            "loss" => self.loss = Some(value.to_owned()),
            "burst" => {
                self.burst = Some(value.parse().map_err(|_| wrong("a number of packets such as `3`"))?);
            }
            "drop" => {
                let indices: Result<_, _> =
                    value.split('/').map(|index| index.trim().parse::<u64>()).collect();
                config.loss = Loss::Nth(indices.map_err(|_| wrong("a list of packets such as `0/3/17`"))?);
            }
            "gilbert" => {
                let channel = gilbert_elliott(value);
                config.loss = channel
                    .map(Loss::GilbertElliott)
                    .ok_or_else(|| wrong("four probabilities such as `0.01/0.3/1/0`"))?;
            }
            "replay" => config.loss = Loss::Recorded(Recording::read(Path::new(value))?),
            "loss-at" => {
                config.loss_point =
                    loss_point(value).ok_or_else(|| wrong("`before` or `after` (the rate)"))?;
            }
            "queue" => config.queue = Some(queue_size(key, value)?),
            "ecn" => config.ecn_threshold = Some(queue_size(key, value)?),
            "duplicate" => config.duplicate = unit(key, value)?,
            "outage" | "hold" => {
                let kind = if key == "hold" { OutageKind::Hold } else { OutageKind::Drop };
                let (from, until) = range(value)
                    .ok_or_else(|| wrong("a range of time such as `2s-5s`, the earlier one first"))?;
                *config = std::mem::take(config).outage(from, until, kind);
            }
            _ => {
                let (name, after) = key.split_once('@').unwrap_or((key, ""));
                let change = match name {
                    "rate" => Change::Rate(Some(rate(key, value)?)),
                    _ => Change::Delay(unit(key, value)?),
                };
                config.schedule.push((unit(key, after)?, change));
            }
        }
        Ok(())
    }

    /// Whether there is such a key, and it may appear (again).
    fn check_key(&mut self, key: &str) -> Result<(), ParseLinkError> {
        let repeatable =
            matches!(key, "outage" | "hold") || key.starts_with("rate@") || key.starts_with("delay@");
        if !repeatable && !KEYS.split(", ").any(|known| known == key && !known.contains('@')) {
            return Err(ParseLinkError::UnknownKey { key: key.to_owned() });
        }
        if !repeatable && self.seen.iter().any(|seen| seen == key) {
            return Err(ParseLinkError::Twice { key: key.to_owned() });
        }
        self.seen.push(key.to_owned());
        Ok(())
    }

    /// Puts together what only makes sense together.
    fn finish(mut self) -> Result<LinkConfig, ParseLinkError> {
        let Some(text) = self.loss else {
            return if self.burst.is_some() { Err(ParseLinkError::BurstAlone) } else { Ok(self.config) };
        };
        if matches!(self.config.loss, Loss::Nth(_)) {
            return Err(ParseLinkError::DropAndLoss);
        }
        if matches!(self.config.loss, Loss::GilbertElliott(_)) {
            return Err(ParseLinkError::GilbertAndLoss);
        }
        if matches!(self.config.loss, Loss::Recorded(_)) {
            return Err(ParseLinkError::ReplayAndLoss);
        }
        self.config.loss = match (Preset::find(&text), self.burst) {
            (Some(_), Some(_)) => return Err(ParseLinkError::BurstAlone),
            (Some(preset), None) => Loss::GilbertElliott(preset.parameters()),
            (None, Some(burst)) => {
                Loss::GilbertElliott(GilbertElliott::from_stationary(loss_rate(&text)?, burst)?)
            }
            (None, None) => match loss_rate(&text)? {
                LossRate::ZERO => Loss::None,
                rate => Loss::Bernoulli(rate),
            },
        };
        Ok(self.config)
    }
}

fn unit<V: FromStr<Err = ParseUnitError>>(key: &str, value: &str) -> Result<V, ParseLinkError> {
    value.parse().map_err(|source| ParseLinkError::Unit { key: key.to_owned(), source })
}

fn rate(key: &str, value: &str) -> Result<BitRate, ParseLinkError> {
    let rate: BitRate = unit(key, value)?;
    let expected = "a rate above zero (for a pause use `hold=2s-5s`)";
    if rate == BitRate(0) {
        return Err(ParseLinkError::Value { key: key.to_owned(), value: value.to_owned(), expected });
    }
    Ok(rate)
}

fn loss_rate(value: &str) -> Result<LossRate, ParseLinkError> {
    if value.starts_with(|c: char| c.is_ascii_alphabetic()) {
        const EXPECTED: &str = "a loss rate such as `1%` or one of the presets wifi, wifi_lossy, cellular, satellite_geo, \
                                congested, inflight_low, inflight_high";
        debug_assert!(PRESETS.iter().all(|preset| EXPECTED.contains(preset.name)));
        return Err(ParseLinkError::Value {
            key: "loss".to_owned(),
            value: value.to_owned(),
            expected: EXPECTED,
        });
    }
    unit("loss", value)
}

fn queue_size(key: &str, value: &str) -> Result<QueueSize, ParseLinkError> {
    if let Some(Ok(packets)) = value.strip_suffix('p').map(|packets| packets.trim().parse()) {
        return Ok(QueueSize::Packets(packets));
    }
    value.parse::<Bytes>().map(QueueSize::Bytes).map_err(|_| ParseLinkError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        expected: "a size such as `100kB` or `64p` (packets)",
    })
}

fn gilbert_elliott(value: &str) -> Option<GilbertElliott> {
    let probabilities: Vec<LossRate> =
        value.split('/').map(|p| p.trim().parse().ok()).collect::<Option<_>>()?;
    let [good_to_bad, bad_to_good, loss_in_bad, loss_in_good] = probabilities[..] else { return None };
    Some(GilbertElliott { good_to_bad, bad_to_good, loss_in_bad, loss_in_good })
}

fn range(value: &str) -> Option<(Duration, Duration)> {
    let (from, until) = value.split_once('-')?;
    let range = (from.parse().ok()?, until.parse().ok()?);
    (range.0 < range.1).then_some(range)
}

fn yes_or_no(value: &str) -> Option<bool> {
    match value {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

fn loss_point(value: &str) -> Option<LossPoint> {
    match value {
        "before" => Some(LossPoint::BeforeRate),
        "after" => Some(LossPoint::AfterRate),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<LinkConfig, String> {
        text.parse().map_err(|error: ParseLinkError| error.to_string())
    }

    #[test]
    fn what_people_type() {
        let ms = Duration::from_millis;
        let percent = |n: f64| LossRate::new(n / 100.0).unwrap();
        assert_eq!(parse(""), Ok(LinkConfig::new()));
        assert_eq!(
            parse("rate=50mbit,delay=20ms, loss=1%,jitter=2ms,queue=100kB,burst=3"),
            Ok(LinkConfig::new()
                .rate(BitRate::from_mbps(50))
                .delay(ms(20))
                .jitter(ms(2))
                .queue(QueueSize::Bytes(Bytes(100_000)))
                .bursty_loss(percent(1.0), 3.0)
                .unwrap())
        );
        assert_eq!(
            parse("jitter=5ms,reorder,loss=2%,loss-at=after,queue=64p,ecn=20p,duplicate=0.5%"),
            Ok(LinkConfig::new()
                .jitter(ms(5))
                .reordering(true)
                .random_loss(percent(2.0))
                .loss_point(LossPoint::AfterRate)
                .queue(QueueSize::Packets(64))
                .ecn_threshold(QueueSize::Packets(20))
                .duplicate(percent(0.5)))
        );
        assert_eq!(
            parse("drop=3/17,outage=2s-5s,hold=100ms-200ms,rate@5s=10mbit,delay@6s=50ms"),
            Ok(LinkConfig::new()
                .loss(Loss::nth([3, 17]))
                .outage(ms(2_000), ms(5_000), OutageKind::Drop)
                .outage(ms(100), ms(200), OutageKind::Hold)
                .change(ms(5_000), Change::Rate(Some(BitRate::from_mbps(10))))
                .change(ms(6_000), Change::Delay(ms(50))))
        );
        let recording = Recording::read(Path::new("src/loss/recorded.txt")).unwrap();
        assert_eq!(
            parse("replay=src/loss/recorded.txt"),
            Ok(LinkConfig::new().loss(Loss::Recorded(recording)))
        );
        let wifi = Preset::find("wifi").unwrap().parameters();
        assert_eq!(parse("loss=wifi"), Ok(LinkConfig::new().loss(Loss::GilbertElliott(wifi))));
    }

    #[test]
    fn errors_teach() {
        let cases = [
            ("speed=1mbit", "`speed` is no property of a link: use rate, delay, jitter"),
            ("rate@=1mbit", "rate@: `` is not a time such as"),
            ("loss", "`loss` needs a value, as in `rate=50mbit"),
            ("delay=20", "delay: `20` is not a time such as `20ms`"),
            ("rate=0mbit", "rate: `0mbit` is not a rate above zero"),
            ("rate=1mbit,rate=2mbit", "`rate` is given twice"),
            ("loss=lte", "loss: `lte` is not a loss rate such as `1%` or one of the presets wifi,"),
            ("loss=120%", "loss: `120%` is not a loss rate"),
            ("burst=3", "`burst` needs a loss rate"),
            ("loss=90%,burst=3", "burst: a loss of 90% in bursts of 3 packets is impossible"),
            ("drop=1/x", "drop: `1/x` is not a list of packets"),
            ("gilbert=1/2", "gilbert: `1/2` is not four probabilities"),
            ("gilbert=0.1/0.5/1/0,loss=1%", "`gilbert` says all about loss"),
            ("drop=1,loss=1%", "`drop` names exactly which packets are lost"),
            ("replay=no/such.file", "replay: no/such.file cannot be read"),
            ("replay=Cargo.toml", "replay: Cargo.toml, line 1: `[` is neither 0,"),
            ("replay=src/loss/recorded.txt,loss=1%", "`replay` says which packets are lost"),
            ("outage=5s-2s", "outage: `5s-2s` is not a range of time"),
            ("queue=64 packets", "queue: `64 packets` is not a size such as `100kB` or `64p`"),
            ("reorder=maybe", "reorder: `maybe` is not `yes` or `no`"),
            ("rate@TIME=1mbit", "rate@TIME: `TIME` is not a time"),
        ];
        for (text, start) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(start), "{text}: {error}");
        }
    }
}
