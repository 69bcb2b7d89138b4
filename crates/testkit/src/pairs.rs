//! Two paths against either alone: pairs, named or drawn from a seed, and transfers over them.
//!
//! What is compared is the time from the request to the last byte of the response, under the same
//! settings and losses.

use core::fmt;

use netsim::{LinkConfig, Loss, Rng, Seed, link::QueueSize};
use proto::TransportConfig;
use units::{BitRate, Bytes, Duration, LossRate};

use crate::{
    forgetful::forgetful,
    response::{Exchange, Incomplete, PathPlan, Response},
};

/// Longest virtual time that a transfer may take: the worst path that is drawn, under a controller
/// that suffers from loss, needs many minutes for 20 MiB.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// Smallest queue, in full packets: less than that no device has.
const SMALLEST_QUEUE: u64 = 16 * 1_500;

/// One path, the same in both directions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quality {
    /// Rate of its bottleneck.
    pub rate: BitRate,
    /// Round-trip time without queue.
    pub rtt: Duration,
    /// Each direction's delay deviates by up to this much to both sides; packets stay in order.
    pub jitter: Duration,
    /// Random loss of each direction.
    pub loss: f64,
    /// Queue in bandwidth-delay products, at least 16 packets.
    pub buffer: f64,
}

impl Quality {
    /// A path without jitter and loss, and with a queue of one bandwidth-delay product.
    pub fn new(mbps: u64, rtt_ms: u64) -> Self {
        Self {
            rate: BitRate::from_mbps(mbps),
            rtt: Duration::from_millis(rtt_ms),
            jitter: Duration::ZERO,
            loss: 0.0,
            buffer: 1.0,
        }
    }

    /// With jitter in ms and loss.
    pub fn rough(self, jitter_ms: u64, loss: f64) -> Self {
        Self { jitter: Duration::from_millis(jitter_ms), loss, ..self }
    }

    /// What the links of this path are like.
    pub fn plan(&self) -> PathPlan {
        let queue = (self.rate.bytes_in(self.rtt) as f64 * self.buffer) as u64;
        let link = LinkConfig::new()
            .rate(self.rate)
            .delay(self.rtt / 2)
            .jitter(self.jitter)
            .queue(QueueSize::Bytes(Bytes(queue.max(SMALLEST_QUEUE))));
        let loss = LossRate::new(self.loss).map_or(Loss::None, Loss::Bernoulli);
        let loss = if self.loss > 0.0 { loss } else { Loss::None };
        PathPlan { up: link.clone().loss(loss.clone()), down: link, loss }
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}/{:.0}", self.rate.bits_per_second() as f64 / 1e6, self.rtt.as_millis_f64())?;
        if !self.jitter.is_zero() {
            write!(f, "~{:.0}", self.jitter.as_millis_f64())?;
        }
        if self.loss > 0.0 {
            write!(f, "-{:.1}%", self.loss * 100.0)?;
        }
        if self.buffer != 1.0 {
            write!(f, " q{:.2}", self.buffer)?;
        }
        Ok(())
    }
}

/// Two paths.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pair(pub Quality, pub Quality);

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} + {}", self.0, self.1)
    }
}

impl Pair {
    /// Pairs that differ in nothing, delay, rate, both, and in jitter and loss besides.
    pub fn named() -> Vec<Self> {
        let q = Quality::new;
        vec![
            Self(q(50, 20), q(50, 20)),
            Self(q(50, 20), q(50, 120)),
            Self(q(50, 20), q(12, 20)),
            Self(q(100, 20), q(10, 20)),
            Self(q(40, 30).rough(5, 0.005), q(25, 45).rough(8, 0.005)),
            Self(q(300, 8), q(30, 40).rough(8, 0.005)),
        ]
    }

    /// The `n`-th pair of `seed`: 5 to 300 Mbit/s and 5 to 200 ms, evenly in the logarithm, half of
    /// the paths with up to 3 % of loss, half with jitter of up to a fifth of the round-trip time,
    /// and queues of a quarter to four bandwidth-delay products.
    pub fn random(seed: Seed, n: u64) -> Self {
        let mut rng = Rng::new(seed.child("pair", n));
        Self(random_quality(&mut rng), random_quality(&mut rng))
    }

    /// The same with the order of the paths changed.
    pub fn swapped(self) -> Self {
        Self(self.1, self.0)
    }
}

fn random_quality(rng: &mut Rng) -> Quality {
    let mut between = |low: f64, high: f64| low * (high / low).powf(rng.next_f64());
    let (rate, rtt, buffer) = (between(5e6, 300e6), between(0.005, 0.2), between(0.25, 4.0));
    let (loss, jitter) = (rng.next_f64() * 0.06 - 0.03, rng.next_f64() * 0.4 - 0.2);
    Quality {
        rate: BitRate(rate as u64),
        rtt: Duration::from_secs_f64(rtt),
        jitter: Duration::from_secs_f64(rtt * jitter.max(0.0)),
        loss: loss.max(0.0),
        buffer,
    }
}

/// How long a response took over both paths and over either alone.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Over both.
    pub both: Response,
    /// Over each alone.
    pub alone: [Duration; 2],
}

impl Comparison {
    /// Time of the faster path alone over time of both: 1 is as fast, more is faster.
    pub fn to_best(&self) -> f64 {
        let [a, b] = self.alone;
        a.min(b).as_secs_f64() / self.both.completion.as_secs_f64()
    }

    /// Goodput over both, relative to the sum of what each gave alone.
    pub fn to_sum(&self) -> f64 {
        let [a, b] = self.alone.map(Duration::as_secs_f64);
        a * b / (a + b) / self.both.completion.as_secs_f64()
    }
}

/// Requests `size` bytes over the paths, with new connections; the n-th packet of a path meets the
/// same fate in each.
///
/// # Errors
/// [`Incomplete`] if the response is not there after an hour.
pub fn transfer(
    seed: Seed,
    paths: &[Quality],
    transport: &TransportConfig,
    size: usize,
) -> Result<Response, Incomplete> {
    let plans: Vec<PathPlan> = paths.iter().map(Quality::plan).collect();
    let mut exchange = Exchange::establish(seed, &plans, &forgetful(transport));
    exchange.limit = PATIENCE;
    exchange.request(size, &plans)
}

/// One response over both paths of a pair, and one over each alone.
///
/// # Errors
/// [`Incomplete`] if one is not there after an hour.
pub fn compare(
    seed: Seed,
    pair: Pair,
    transport: &TransportConfig,
    size: usize,
) -> Result<Comparison, Incomplete> {
    let alone = |path: Quality| transfer(seed, &[path], transport, size).map(|r| r.completion);
    let alone = [alone(pair.0)?, alone(pair.1)?];
    Ok(Comparison { both: transfer(seed, &[pair.0, pair.1], transport, size)?, alone })
}
