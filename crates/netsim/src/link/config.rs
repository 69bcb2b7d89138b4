//! What a link is like: plain data.

use units::{BitRate, Bytes, Duration, LossRate};

use crate::{
    Loss,
    loss::{GilbertElliott, InvalidBurst},
};

/// Properties of a [`Link`](super::Link), one direction. The default is a perfect wire: no limit,
/// no delay, no loss.
///
/// Also parsed from the form that users type, see [`FromStr`](#impl-FromStr-for-LinkConfig).
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct LinkConfig {
    /// Rate of the transmitter; `None` is unlimited, zero holds everything back.
    pub rate: Option<BitRate>,
    /// Propagation delay, one way.
    pub delay: Duration,
    /// Largest deviation from the delay, uniform to both sides.
    pub jitter: Duration,
    /// Whether jitter may reorder packets; otherwise an early packet waits for its predecessor.
    pub reorder: bool,
    /// Which packets are lost.
    pub loss: Loss,
    /// Where they are lost.
    pub loss_point: LossPoint,
    /// How much may wait for the transmitter; `None` takes a value that suits rate and delay, see
    /// [`queue_size`](Self::queue_size).
    pub queue: Option<QueueSize>,
    /// Packets that find more than this waiting are marked; `None` marks nothing.
    pub ecn_threshold: Option<QueueSize>,
    /// Probability that a packet arrives twice.
    pub duplicate: LossRate,
    /// Most bytes inside the link, waiting and travelling: bounds memory when there is no rate to
    /// do it.
    pub capacity: Bytes,
    /// Changes and outages, each with its time after the link's start.
    pub schedule: Vec<(Duration, Change)>,
}

/// Where a link loses packets.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub enum LossPoint {
    /// Before the queue: a lost packet takes none of the rate, and the n-th packet offered is the
    /// n-th draw (as in CTCP's testbed).
    #[default]
    BeforeRate,
    /// After the transmitter: a lost packet takes its share of the rate, like on a radio link.
    AfterRate,
}

/// What an outage does to packets. Ordered by severity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OutageKind {
    /// Packets wait in the queue until the outage is over.
    Hold,
    /// Packets that wait or are offered are lost.
    Drop,
}

/// A change of a link at a given time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A new rate, from the next packet on.
    Rate(Option<BitRate>),
    /// A new propagation delay, for packets not yet sent.
    Delay(Duration),
    /// An outage begins.
    OutageBegins(OutageKind),
    /// An outage of this kind ends.
    OutageEnds(OutageKind),
}

/// An amount of waiting packets. The packet being sent does not count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QueueSize {
    /// So many packets, whatever their size.
    Packets(u64),
    /// So many bytes.
    Bytes(Bytes),
}

impl QueueSize {
    pub(super) fn is_exceeded_by(self, packets: u64, bytes: u64) -> bool {
        match self {
            Self::Packets(limit) => packets > limit,
            Self::Bytes(limit) => bytes > limit.get(),
        }
    }
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            rate: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            reorder: false,
            loss: Loss::None,
            loss_point: LossPoint::BeforeRate,
            queue: None,
            ecn_threshold: None,
            duplicate: LossRate::ZERO,
            capacity: Bytes(256 << 20),
            schedule: Vec::new(),
        }
    }
}

impl LinkConfig {
    /// A perfect wire.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the rate.
    pub fn rate(mut self, rate: BitRate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Sets the one-way propagation delay.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the jitter: each packet's delay is longer or shorter by up to this much, never negative.
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// Whether a packet may overtake another through jitter; else those behind it wait.
    pub fn reordering(mut self, reorder: bool) -> Self {
        self.reorder = reorder;
        self
    }

    /// Sets the loss model.
    pub fn loss(mut self, loss: Loss) -> Self {
        self.loss = loss;
        self
    }

    /// Loses packets independently with this probability.
    pub fn random_loss(self, rate: LossRate) -> Self {
        self.loss(Loss::Bernoulli(rate))
    }

    /// Loses this share of packets in bursts of `mean_burst` packets on average.
    ///
    /// # Errors
    /// See [`GilbertElliott::from_stationary`].
    pub fn bursty_loss(self, rate: LossRate, mean_burst: f64) -> Result<Self, InvalidBurst> {
        GilbertElliott::from_stationary(rate, mean_burst)
            .map(|channel| self.loss(Loss::GilbertElliott(channel)))
    }

    /// Sets where packets are lost.
    pub fn loss_point(mut self, point: LossPoint) -> Self {
        self.loss_point = point;
        self
    }

    /// Sets how much may wait.
    pub fn queue(mut self, size: QueueSize) -> Self {
        self.queue = Some(size);
        self
    }

    /// Sets the ECN marking threshold.
    pub fn ecn_threshold(mut self, size: QueueSize) -> Self {
        self.ecn_threshold = Some(size);
        self
    }

    /// Sets the probability that a packet arrives twice.
    pub fn duplicate(mut self, probability: LossRate) -> Self {
        self.duplicate = probability;
        self
    }

    /// Adds an outage between two times after the link's start; none where it does not end later than
    /// it begins.
    pub fn outage(mut self, from: Duration, until: Duration, kind: OutageKind) -> Self {
        if from < until {
            self.schedule.push((from, Change::OutageBegins(kind)));
            self.schedule.push((until, Change::OutageEnds(kind)));
        }
        self
    }

    /// Adds a change at a time after the link's start.
    pub fn change(mut self, after: Duration, change: Change) -> Self {
        self.schedule.push((after, change));
        self
    }

    /// How much may wait. Unless set, what the rate carries in one round trip (twice the delay),
    /// but never less than 32 full packets; and a megabyte without a rate, where packets wait only
    /// through outages.
    pub fn queue_size(&self) -> QueueSize {
        const LEAST: u64 = 32 * 1_500;
        const WITHOUT_RATE: u64 = 1_000_000;
        self.queue.unwrap_or_else(|| {
            let bytes = self.rate.map_or(WITHOUT_RATE, |rate| rate.bytes_in(self.delay * 2));
            QueueSize::Bytes(Bytes(bytes.max(LEAST)))
        })
    }
}
