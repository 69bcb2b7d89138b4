//! A path as users describe it: `rate=50mbit,delay=20ms,loss=1%`.

use std::{fmt, path::Path, str::FromStr};

use netsim::{
    LinkConfig, Loss,
    link::QueueSize,
    loss::{InvalidBurst, Recording, RecordingError},
};
use units::{BitRate, Bytes, Duration, LossRate, ParseUnitError};

const KEYS: &str = "rate, delay, loss, loss-up, burst, replay, jitter, queue";

/// One emulated path, both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct PathSpec {
    /// Rate of each direction.
    pub rate: BitRate,
    /// Round-trip time without queues: half of it in each direction.
    pub rtt: Duration,
    /// Loss from server to client.
    pub loss: LossRate,
    /// Loss from client to server.
    pub loss_up: LossRate,
    /// Mean length of a burst of losses in packets; `None` loses each packet independently.
    pub burst: Option<f64>,
    /// Which packets from server to client are lost, as somebody has recorded it; `loss` is its share then.
    pub replay: Option<Recording>,
    /// Deviation of the one-way delay to both sides, without reordering.
    pub jitter: Duration,
    /// What may wait before the link; `None` takes one round trip's worth.
    pub queue: Option<Bytes>,
}

/// Text that describes no path.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParseSpecError {
    /// A part is not `key=value`, or the key is unknown.
    #[error("`{0}` is no property of a path: use {KEYS}, as in rate=50mbit,delay=20ms,loss=1%")]
    Key(String),
    /// A key is given twice.
    #[error("`{0}` is given twice: keep one")]
    Twice(String),
    /// A value has the wrong form.
    #[error("{key}: {source}")]
    Value {
        /// The key.
        key: String,
        /// What is wrong.
        source: ParseUnitError,
    },
    /// A burst length that is no number from 1 on, or does not fit the loss.
    #[error("burst: {0}")]
    Burst(String),
    /// A file is no recording of losses.
    #[error("replay: {0}")]
    Replay(#[from] RecordingError),
    /// Losses are both recorded and drawn.
    #[error("`replay` says which packets are lost: leave out `loss` and `burst`")]
    ReplayAndLoss,
    /// Nothing gets through.
    #[error("a path needs a rate above zero, a delay of at most 10 s, and a loss of at most 50 %")]
    Unusable,
}

impl PathSpec {
    /// A path without loss or jitter.
    pub fn new(rate: BitRate, rtt: Duration) -> Self {
        Self {
            rate,
            rtt,
            loss: LossRate::ZERO,
            loss_up: LossRate::ZERO,
            burst: None,
            replay: None,
            jitter: Duration::ZERO,
            queue: None,
        }
    }

    /// The same path without loss.
    #[must_use]
    pub fn without_loss(&self) -> Self {
        Self { loss: LossRate::ZERO, loss_up: LossRate::ZERO, burst: None, replay: None, ..self.clone() }
    }

    /// Whether it loses anything.
    pub fn is_lossy(&self) -> bool {
        self.loss.get() > 0.0 || self.loss_up.get() > 0.0
    }

    /// The links from client to server and back.
    ///
    /// # Errors
    /// When the burst length does not fit the loss.
    pub fn links(&self) -> Result<(LinkConfig, LinkConfig), InvalidBurst> {
        let (up, mut down) = (self.link(self.loss_up)?, self.link(self.loss)?);
        if let Some(recording) = &self.replay {
            down.loss = Loss::Recorded(recording.clone());
        }
        Ok((up, down))
    }

    /// The same links before the request, when nothing is lost, and what they lose from then on.
    ///
    /// # Errors
    /// When the burst length does not fit the loss.
    pub(super) fn links_and_losses(&self) -> Result<[(LinkConfig, Loss); 2], InvalidBurst> {
        let (up, down) = self.links()?;
        Ok([up, down].map(|link| (link.clone().random_loss(LossRate::ZERO), link.loss)))
    }

    fn link(&self, loss: LossRate) -> Result<LinkConfig, InvalidBurst> {
        let mut link = LinkConfig::new().rate(self.rate).delay(self.rtt / 2).jitter(self.jitter);
        if let Some(queue) = self.queue {
            link = link.queue(QueueSize::Bytes(queue));
        }
        match self.burst {
            Some(burst) if loss.get() > 0.0 => link.bursty_loss(loss, burst),
            _ => Ok(link.random_loss(loss)),
        }
    }
}

impl FromStr for PathSpec {
    type Err = ParseSpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut spec = Self::new(BitRate::from_mbps(100), Duration::from_millis(50));
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split(',') {
            let (key, value) =
                part.split_once('=').ok_or_else(|| ParseSpecError::Key(part.trim().to_owned()))?;
            let (key, value) = (key.trim(), value.trim());
            if seen.contains(&key) {
                return Err(ParseSpecError::Twice(key.to_owned()));
            }
            seen.push(key);
            let wrong = |source| ParseSpecError::Value { key: key.to_owned(), source };
            match key {
                "rate" => spec.rate = value.parse().map_err(wrong)?,
                "delay" => spec.rtt = value.parse().map_err(wrong)?,
                "loss" => spec.loss = value.parse().map_err(wrong)?,
                "loss-up" => spec.loss_up = value.parse().map_err(wrong)?,
                "jitter" => spec.jitter = value.parse().map_err(wrong)?,
                "queue" => spec.queue = Some(value.parse().map_err(wrong)?),
                "burst" => spec.burst = Some(parse_burst(value)?),
                "replay" => {
                    let recording = Recording::read(Path::new(value))?;
                    (spec.loss, spec.replay) = (recording.loss(), Some(recording));
                }
                _ => return Err(ParseSpecError::Key(key.to_owned())),
            }
        }
        if spec.replay.is_some() && ["loss", "burst"].iter().any(|key| seen.contains(key)) {
            return Err(ParseSpecError::ReplayAndLoss);
        }
        spec.check()
    }
}

fn parse_burst(value: &str) -> Result<f64, ParseSpecError> {
    let burst = value.parse::<f64>().ok().filter(|burst| burst.is_finite() && *burst >= 1.0);
    burst.ok_or_else(|| ParseSpecError::Burst(format!("`{value}` is not a number of packets from 1 on")))
}

impl PathSpec {
    fn check(self) -> Result<Self, ParseSpecError> {
        let usable = self.rate.bits_per_second() > 0
            && self.rtt <= Duration::from_secs(10)
            && self.loss.get() <= 0.5
            && self.loss_up.get() <= 0.5;
        if !usable {
            return Err(ParseSpecError::Unusable);
        }
        self.links().map_err(|error| ParseSpecError::Burst(error.to_string()))?;
        Ok(self)
    }
}

impl fmt::Display for PathSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} Mbit/s, {} ms RTT",
            number(self.rate.bits_per_second() as f64 / 1e6),
            number(self.rtt.as_millis_f64())
        )?;
        if self.jitter > Duration::ZERO {
            write!(f, ", jitter {} ms", number(self.jitter.as_millis_f64()))?;
        }
        if self.loss.get() > 0.0 {
            write!(f, ", loses {} % towards the client", number(self.loss.get() * 100.0))?;
        }
        if let Some(recording) = &self.replay {
            write!(f, " as in {}", recording.file())?;
        }
        if self.loss_up.get() > 0.0 {
            write!(f, ", loses {} % towards the server", number(self.loss_up.get() * 100.0))?;
        }
        if let Some(burst) = self.burst {
            write!(f, " in bursts of {}", number(burst))?;
        }
        Ok(())
    }
}

/// Up to three decimals, without zeros at the end.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_people_type() {
        let spec: PathSpec = "rate=50mbit,delay=20ms,loss=1%".parse().unwrap();
        assert_eq!(spec.to_string(), "50 Mbit/s, 20 ms RTT, loses 1 % towards the client");
        let (up, down) = spec.links().unwrap();
        assert_eq!((up.delay, down.delay), (Duration::from_millis(10), Duration::from_millis(10)));
        let spec: PathSpec =
            "rate=8mbit, delay=100ms, jitter=5ms, queue=64kB, loss=0.5%, burst=3, loss-up=1%"
                .parse()
                .unwrap();
        assert_eq!(spec.queue, Some(Bytes(64_000)));
        assert_eq!(
            spec.to_string(),
            "8 Mbit/s, 100 ms RTT, jitter 5 ms, loses 0.5 % towards the client, loses 1 % towards the server in bursts of 3"
        );
        assert!(spec.is_lossy() && !spec.without_loss().is_lossy());
    }

    #[test]
    fn a_recording_says_which_packets_are_lost() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("losses.txt");
        std::fs::write(&file, "0001\n0000\n").unwrap();
        let replay = format!("replay={}", file.display());
        let spec: PathSpec = format!("rate=50mbit,delay=20ms,{replay}").parse().unwrap();
        let text = format!("50 Mbit/s, 20 ms RTT, loses 12.5 % towards the client as in {}", file.display());
        assert_eq!(spec.to_string(), text);
        let (up, down) = spec.links().unwrap();
        assert_eq!([up.loss, down.loss].map(|loss| loss.stationary().get()), [0.0, 0.125]);
        assert!(spec.is_lossy() && !spec.without_loss().is_lossy());
        assert_eq!(spec.without_loss().links().unwrap().1.loss.stationary(), LossRate::ZERO);
        for more in ["loss=1%", "burst=2"] {
            let error = format!("{replay},{more}").parse::<PathSpec>().unwrap_err().to_string();
            assert!(error.contains("leave out `loss`"), "{error}");
        }
        let missing = "replay=no/such.file".parse::<PathSpec>().unwrap_err().to_string();
        assert!(missing.starts_with("replay: no/such.file cannot be read"), "{missing}");
    }

    #[test]
    fn errors_teach() {
        let error = |text: &str| text.parse::<PathSpec>().unwrap_err().to_string();
        assert!(error("speed=1").contains("use rate, delay, loss"));
        assert!(error("").contains("use rate, delay, loss"));
        assert!(error("delay=20").starts_with("delay: `20` is not a time such as"));
        assert!(error("loss=1%,loss=2%").contains("twice"));
        assert!(error("burst=0.5").contains("from 1 on"));
        assert!(error("rate=0bit").contains("above zero"));
        assert!(error("loss=60%").contains("at most 50 %"));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "((rate|delay|loss|burst|queue)=)?.{0,40}") {
            let _ = text.parse::<PathSpec>();
        }
    }
}
