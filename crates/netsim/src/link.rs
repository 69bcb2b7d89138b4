//! One direction of a path: loss, queue, rate, delay.
//!
//! ```text
//! offer -> loss model -> outage? -> drop-tail queue -> rate -> (loss model) -> delay + jitter -> deliver
//! ```
//!
//! A packet that finds the link idle is sent at once; others wait in the queue. Every step happens
//! at its exact time in nanoseconds, however rarely the link is asked, so that virtual and real
//! time give the same result.

mod config;
mod display;
mod flight;
mod parse;
mod queue;
mod schedule;
mod stats;
#[cfg(test)]
mod tests;

use units::{BitRate, Duration, Instant};

pub use config::{Change, LinkConfig, LossPoint, OutageKind, QueueSize};
pub use parse::ParseLinkError;
pub use stats::LinkStats;

use crate::{Loss, LossModel, Rng, Seed, loss::PacketInfo};
use flight::{Flight, InFlight};
use queue::{Queue, Waiting};
use schedule::Schedule;

/// What became of an offered packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Offered {
    /// It is on its way: waiting, being sent or travelling. With [`LossPoint::AfterRate`] it may
    /// still be lost.
    Accepted,
    /// The loss model took it.
    Lost,
    /// The queue was full.
    QueueFull,
    /// The link is cut.
    Outage,
}

/// A packet that has arrived at the far end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivered<T> {
    /// The packet.
    pub packet: T,
    /// Size as it was offered, in bytes.
    pub size: u64,
    /// When exactly it arrived, which may be earlier than the call that fetched it.
    pub at: Instant,
    /// Whether the queue was above the ECN threshold when the packet joined it. The caller sets CE
    /// if the packet is ECN-capable.
    pub ce: bool,
}

/// One direction of a path on any clock. See the [module](self) for the order of its parts.
///
/// The caller's loop is: [`offer`](Self::offer) what is sent; at
/// [`next_delivery`](Self::next_delivery) call [`deliver`](Self::deliver) until it returns `None`.
/// Time never runs backwards: a `now` earlier than one seen before counts as that one.
pub struct Link<T> {
    clock: Instant,
    seed: Seed,
    loss: Loss,
    model: Box<dyn LossModel + Send>,
    asked: u64,
    loss_point: LossPoint,
    queue: Queue<T>,
    /// When the transmitter can start the next packet.
    free_at: Instant,
    rate: Option<BitRate>,
    delay: Duration,
    jitter: Duration,
    jitter_rng: Rng,
    duplicate: f64,
    duplicate_rng: Rng,
    flight: Flight<T>,
    schedule: Schedule,
    /// Rate and delay before anything has changed them.
    at_first: (Option<BitRate>, Duration),
    /// Set by hand, on top of what the schedule says.
    cut: Option<OutageKind>,
    /// Most bytes inside the link, waiting and travelling.
    capacity: u64,
    stats: LinkStats,
}

impl<T: Clone> Link<T> {
    /// An idle link whose scheduled changes count from `start`.
    pub fn new(config: &LinkConfig, seed: Seed, start: Instant) -> Self {
        Self {
            clock: start,
            seed,
            loss: config.loss.clone(),
            model: config.loss.model(seed),
            asked: 0,
            loss_point: config.loss_point,
            queue: Queue::new(config.queue_size(), config.ecn_threshold),
            free_at: start,
            rate: config.rate,
            delay: config.delay,
            jitter: config.jitter,
            jitter_rng: seed.stream("jitter"),
            duplicate: config.duplicate.get(),
            duplicate_rng: seed.stream("duplicate"),
            flight: Flight::new(config.reorder),
            schedule: Schedule::new(&config.schedule, start),
            at_first: (config.rate, config.delay),
            cut: None,
            capacity: config.capacity.get(),
            stats: LinkStats::default(),
        }
    }

    /// Sends `packet` into the link, where it counts for `size` bytes.
    pub fn offer(&mut self, now: Instant, packet: T, size: u64) -> Offered {
        self.advance(now);
        self.stats.offered += 1;
        self.stats.offered_bytes = self.stats.offered_bytes.saturating_add(size);
        // Drawn before anything else may drop the packet, so that the n-th packet's fate depends on
        // n alone.
        let lost = self.loss_point == LossPoint::BeforeRate && self.lose(size, self.clock);
        let fate = if self.outage() == Some(OutageKind::Drop) {
            Offered::Outage
        } else if lost {
            Offered::Lost
        } else {
            self.admit(packet, size)
        };
        self.stats.count(fate);
        fate
    }

    /// The next arrival, if [`deliver`](Self::deliver) is worth calling at all: `None` while the
    /// link is empty, or holds packets until it is restored by hand.
    ///
    /// With reordering, or around an outage, the moment may turn out to be an inner step of the
    /// link: `deliver` then returns `None`, and this function a later moment.
    pub fn next_delivery(&self) -> Option<Instant> {
        let arrival = self.flight.next_arrival();
        // Without reordering nothing that waits can overtake what travels.
        if self.queue.is_empty() || (arrival.is_some() && !self.flight.reorders()) {
            return arrival;
        }
        let step = match self.next_start() {
            Some(start) => Some(start),
            None => self.schedule.next_change(),
        };
        match (arrival, step) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The next packet that has arrived by `now`, in order of arrival; call until `None`.
    pub fn deliver(&mut self, now: Instant) -> Option<Delivered<T>> {
        self.advance(now);
        let InFlight { at, packet, size, ce, .. } = self.flight.pop(self.clock)?;
        self.stats.delivered += 1;
        self.stats.delivered_bytes = self.stats.delivered_bytes.saturating_add(size);
        Some(Delivered { packet, size, at, ce })
    }

    /// Cuts the link by hand until [`restore`](Self::restore), in addition to any scheduled outage.
    ///
    /// [`OutageKind::Drop`] loses what waits and what is offered, [`OutageKind::Hold`] keeps it
    /// waiting while the queue has room. Either way, what is travelling arrives.
    pub fn cut(&mut self, now: Instant, kind: OutageKind) {
        self.advance(now);
        self.cut = Some(kind);
        self.drop_waiting_if_cut();
    }

    /// Ends [`cut`](Self::cut).
    pub fn restore(&mut self, now: Instant) {
        self.advance(now);
        self.cut = None;
        self.resume(self.clock);
    }

    /// Whether an outage is in force, by hand or by schedule, and which.
    pub fn outage(&self) -> Option<OutageKind> {
        self.cut.max(self.schedule.outage())
    }

    /// Changes the rate from the next packet on; `None` is unlimited, zero holds everything back.
    pub fn set_rate(&mut self, now: Instant, rate: Option<BitRate>) {
        self.advance(now);
        self.apply(Change::Rate(rate), self.clock);
    }

    /// Changes the propagation delay for packets not yet sent. Without reordering, they still do
    /// not overtake.
    pub fn set_delay(&mut self, now: Instant, delay: Duration) {
        self.advance(now);
        self.apply(Change::Delay(delay), self.clock);
    }

    /// Replaces the loss model and starts its pattern from packet 0.
    pub fn set_loss(&mut self, now: Instant, loss: Loss) {
        self.advance(now);
        self.set_loss_model(loss.model(self.seed));
        self.loss = loss;
    }

    /// Replaces the loss model by one of the caller's. It lasts until [`set_loss`](Self::set_loss)
    /// or [`reseed`](Self::reseed).
    pub fn set_loss_model(&mut self, model: Box<dyn LossModel + Send>) {
        self.model = model;
        self.asked = 0;
    }

    /// Starts all randomness afresh from `seed`, the loss pattern from packet 0. Packets inside
    /// stay.
    pub fn reseed(&mut self, now: Instant, seed: Seed) {
        self.advance(now);
        self.seed = seed;
        self.set_loss_model(self.loss.model(seed));
        self.jitter_rng = seed.stream("jitter");
        self.duplicate_rng = seed.stream("duplicate");
    }

    /// Starts the schedule afresh, as if the link were new at `now`, with the rate and the delay of the start. Packets
    /// inside stay, and so does what was [cut](Self::cut) by hand; randomness goes on, until
    /// [`reseed`](Self::reseed).
    pub fn restart(&mut self, now: Instant) {
        self.advance(now);
        self.schedule.restart(self.clock);
        (self.rate, self.delay) = self.at_first;
        self.resume(self.clock);
    }

    /// What has happened so far.
    pub fn stats(&self) -> LinkStats {
        self.stats
    }

    /// Packets inside: waiting, being sent or travelling.
    pub fn in_link(&self) -> usize {
        self.queue.len() + self.flight.len()
    }

    /// Packets waiting to be sent, as of the last call that took a time.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Queues the packet, or sends it at once if nothing waits.
    fn admit(&mut self, packet: T, size: u64) -> Offered {
        let inside = self.queue.bytes().saturating_add(self.flight.bytes());
        if inside.checked_add(size).is_none_or(|bytes| bytes > self.capacity) {
            return Offered::QueueFull;
        }
        let idle = self.queue.is_empty() && self.free_at <= self.clock && self.sending();
        if idle {
            self.transmit(Waiting { packet, size, ce: false }, self.clock);
            return Offered::Accepted;
        }
        if !self.queue.push(packet, size) {
            return Offered::QueueFull;
        }
        self.stats.max_queue_packets = self.stats.max_queue_packets.max(self.queue.len() as u64);
        self.stats.max_queue_bytes = self.stats.max_queue_bytes.max(self.queue.bytes());
        Offered::Accepted
    }

    /// Carries out everything that happens up to `now`, each step at its own time.
    fn advance(&mut self, now: Instant) {
        self.clock = self.clock.max(now);
        loop {
            let start = self.next_start().filter(|start| *start <= self.clock);
            let change = self.schedule.next_change().filter(|at| *at <= self.clock);
            match (change, start) {
                (Some(at), start) if start.is_none_or(|start| at <= start) => {
                    if let Some(change) = self.schedule.pop() {
                        self.apply(change, at);
                    }
                }
                (_, Some(start)) => {
                    if let Some(waiting) = self.queue.pop() {
                        self.transmit(waiting, start);
                    }
                }
                (_, None) => break,
            }
        }
    }

    /// When the first waiting packet is sent, as far as is known now.
    fn next_start(&self) -> Option<Instant> {
        (!self.queue.is_empty() && self.sending()).then_some(self.free_at)
    }

    /// Whether the transmitter may start packets.
    fn sending(&self) -> bool {
        self.outage().is_none() && self.rate != Some(BitRate(0))
    }

    /// Puts a packet on the wire at `start`.
    fn transmit(&mut self, waiting: Waiting<T>, start: Instant) {
        let Waiting { packet, size, ce } = waiting;
        let sent = start + self.rate.map_or(Duration::ZERO, |rate| rate.time_to_send(size));
        self.free_at = sent;
        if self.loss_point == LossPoint::AfterRate && self.lose(size, sent) {
            self.stats.lost += 1;
            return;
        }
        self.stats.marked += u64::from(ce);
        let copy =
            (self.duplicate > 0.0 && self.duplicate_rng.chance(self.duplicate)).then(|| packet.clone());
        let at = sent + self.travel_time();
        self.flight.push(at, packet, size, ce);
        if let Some(packet) = copy {
            self.stats.duplicated += 1;
            let at = sent + self.travel_time();
            self.flight.push(at, packet, size, ce);
        }
    }

    /// Propagation delay of one packet: uniform within the jitter around the delay, never negative.
    fn travel_time(&mut self) -> Duration {
        if self.jitter.is_zero() {
            return self.delay;
        }
        let span = self.jitter.as_nanos().saturating_mul(2).saturating_add(1);
        self.delay + Duration::from_nanos(self.jitter_rng.below(span)) - self.jitter
    }

    fn lose(&mut self, size: u64, at: Instant) -> bool {
        let index = self.asked;
        self.asked += 1;
        self.model.lose(&PacketInfo { index, size, at })
    }

    fn apply(&mut self, change: Change, at: Instant) {
        match change {
            Change::Rate(rate) => self.rate = rate,
            Change::Delay(delay) => self.delay = delay,
            Change::OutageBegins(_) | Change::OutageEnds(_) => self.drop_waiting_if_cut(),
        }
        self.resume(at);
    }

    /// What waited through an outage or a zero rate is not sent before the moment this ended.
    fn resume(&mut self, at: Instant) {
        self.free_at = self.free_at.max(at);
    }

    fn drop_waiting_if_cut(&mut self) {
        if self.outage() == Some(OutageKind::Drop) {
            self.stats.dropped_outage += self.queue.clear() as u64;
        }
    }
}

impl<T> std::fmt::Debug for Link<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("clock", &self.clock)
            .field("rate", &self.rate)
            .field("delay", &self.delay)
            .field("waiting", &self.queue.len())
            .field("travelling", &self.flight.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
