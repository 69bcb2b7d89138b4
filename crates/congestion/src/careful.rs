//! Careful Resume, RFC 9959: a path that was seen to carry much begins with half of that, and takes
//! it back at the first sign that it was too much. It stands around a controller, whichever it is.
//!
//! | RFC 9959              | here                                                    |
//! |-----------------------|---------------------------------------------------------|
//! | saved_cwnd, saved_rtt | [`Carried::window`], [`Carried::min_rtt`]               |
//! | Reconnaissance        | [`Phase::Settled`] while `armed`                        |
//! | Unvalidated           | [`Phase::Unvalidated`], of a spurt that was raised      |
//! | Validating            | [`Phase::Validating`], likewise                         |
//! | Safe Retreat          | [`Phase::Retreat`]                                      |
//! | Normal                | [`Phase::Settled`]                                      |
//! | jump_cwnd             | half of [`Carried::window`]                             |
//! | PipeSize              | `Spurt::pipe`                                           |
//!
//! # Beyond it
//! - Paths at rest begin with *spurts*, whether the window was raised or not. What was learnt of
//!   their pace, from delay, lets the next one leave faster than a window per round trip (RFC 9002
//!   section 7.7 allows it where the path is known to bear it), and one that mostly gets lost
//!   leaves no more of the window than what arrived.
//! - A window that is not put to use is kept for five minutes and halved for each five, down to the
//!   initial one, after RFC 7661. What an initial window would have let go is no use: packets that
//!   only keep a connection alive would else keep its window for ever.
//!
//! # Departures
//! - A jump that slow start would catch up with within a round trip is none.
//! - Where a queue stands there is no jump: the round-trip time must lie within a quarter above the
//!   saved one, not within ten times.
//! - One round-trip time sample of the connection is reconnaissance enough: a handshake does not
//!   fill an initial window.
//! - What is congestion is for the controller to say: loss that it takes for chance is no retreat, as
//!   long as it is no more than a quarter. Nor is one of what is being validated that it answers, but
//!   may take back: where no queue is seen, its answer has to do until it is sure.
//!
//! # Invariants
//! The window never rises by more than to half of what was carried. A retreat leaves at most half
//! of what arrived, and what is known is then forgotten.

mod spurt;

use units::{BitRate, Duration, Instant};

use self::spurt::Spurt;
use crate::{
    Ack, Carried, Config, Controller, ControllerKind, Loss, PathWindow, Precedents, Resumption, Rtt, State,
    carried::{Rounds, learn},
};

/// What is left of what arrived once a retreat is over.
const BETA: f64 = 0.7;
/// How long a window is kept without use, and then between two halvings (RFC 7661).
const KEPT: Duration = Duration::from_secs(300);
/// For how long a round-trip time sample tells of queues on a path without traffic.
const SAMPLE_FRESH: Duration = Duration::from_secs(10);

/// A controller that resumes carefully.
#[derive(Debug)]
pub struct Careful {
    inner: Box<dyn Controller>,
    config: Config,
    known: Option<Carried>,
    rounds: Rounds,
    phase: Phase,
    /// The window may be raised to half of what is known, once the path has answered.
    armed: bool,
    /// The controller has answered a loss of what is being validated that may have been chance.
    in_doubt: bool,
    /// The smallest round-trip time since the path was last at rest, or of the spurt before.
    recent: Option<(Duration, Instant)>,
    /// When the window was last put to use, or a halving of it was due since; `None` before the first
    /// packet.
    used: Option<Instant>,
    jumps: u64,
    retreats: u64,
}

/// What a path that was at rest is doing.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The controller's window is what it would be without us.
    Settled,
    /// A spurt of which nothing has been acknowledged.
    Unvalidated(Spurt),
    /// A spurt whose beginning has arrived.
    Validating(Spurt),
    /// A spurt that was too much. What is left of it is awaited.
    Retreat(Spurt),
}

impl Careful {
    /// A controller of `kind` that knows nothing of its path yet.
    pub fn new(kind: ControllerKind, config: &Config) -> Self {
        Self {
            inner: kind.build(config),
            config: *config,
            known: None,
            rounds: Rounds::default(),
            phase: Phase::Settled,
            armed: false,
            in_doubt: false,
            recent: None,
            used: None,
            jumps: 0,
            retreats: 0,
        }
    }

    /// Halves the window for each [`KEPT`] in which it was not put to use, down to the initial one. A path need
    /// not be at rest for that: a call always has a few packets under way.
    fn age(&mut self, now: Instant) {
        let used = *self.used.get_or_insert(now);
        let periods = now.saturating_duration_since(used).as_nanos() / KEPT.as_nanos();
        if periods == 0 {
            return;
        }
        self.used = Some(used + KEPT * periods);
        let window = self.inner.window();
        let kept = (window >> periods.min(63)).max(self.config.initial_window());
        if kept < window {
            let ssthresh = self.inner.state().ssthresh.map(|ssthresh| ssthresh.max(window - window / 4));
            self.inner.set_window(kept, ssthresh);
        }
    }

    /// A packet leaves a path that was at rest.
    fn begin(&mut self, now: Instant) {
        self.phase = Phase::Unvalidated(Spurt::new(now));
        (self.armed, self.in_doubt) = (self.known.is_some(), false);
    }

    /// Raises the window to half of what is known, if the path looks the same and slow start would
    /// take longer: what is tried does not grow for a round trip.
    fn try_raise(&mut self, now: Instant) {
        let (true, Some(known), Some((rtt, seen))) = (self.armed, self.known, self.recent) else { return };
        let jump = known.window / 2;
        if now.saturating_duration_since(seen) > SAMPLE_FRESH {
            return;
        }
        self.armed = false;
        let from = self.inner.window();
        if jump < from.saturating_mul(2) || !known.is_fresh(now) || !known.is_free_at(rtt) {
            return;
        }
        self.inner.set_window(jump, None);
        self.in_doubt = false;
        self.jumps += 1;
        self.phase = Phase::Unvalidated(Spurt::raised(now, from));
    }

    /// Takes a round-trip time sample. The first after a rest is the first that says anything of
    /// queues now; half of what was known shows another path (RFC 9959).
    fn note_rtt(&mut self, ack: &Ack) {
        if ack.adjusted_rtt.is_zero() {
            return;
        }
        let least = match (self.phase, self.recent) {
            (Phase::Unvalidated(_), _) | (_, None) => ack.adjusted_rtt,
            (_, Some((least, _))) => least.min(ack.adjusted_rtt),
        };
        self.recent = Some((least, ack.now));
        if self.known.is_some_and(|known| least <= known.min_rtt / 2 || !known.is_fresh(ack.now)) {
            self.forget();
        }
    }

    /// Moves on with a spurt, of which something was acknowledged.
    fn advance(&mut self, ack: &Ack) {
        match &mut self.phase {
            Phase::Unvalidated(spurt) if spurt.includes(ack.largest_sent_at) => {
                spurt.on_ack(ack);
                let spurt = *spurt;
                if let Some(from) = spurt.raised_from {
                    // What was not used has not been tried.
                    self.inner.set_window(ack.in_flight_before.max(from), None);
                }
                self.phase = Phase::Validating(spurt);
            }
            Phase::Validating(spurt) | Phase::Retreat(spurt) => spurt.on_ack(ack),
            Phase::Unvalidated(_) | Phase::Settled => {}
        }
        if let Phase::Validating(spurt) = self.phase
            && spurt.is_over(ack.largest_sent_at)
        {
            self.phase = Phase::Settled;
            if let Some(known) = &mut self.known {
                known.pace = spurt.next_pace(ack, known.pace);
            }
        }
        self.end_retreat(ack.largest_sent_at);
    }

    /// Counts what was lost since a spurt began. What was raised needs no controller's word for it.
    fn count_lost(&mut self, loss: &Loss) {
        let (Phase::Unvalidated(spurt) | Phase::Validating(spurt)) = &mut self.phase else { return };
        let queue = self.known.is_some_and(|known| !known.is_free_at(spurt.delay_at(loss)));
        spurt.on_loss(loss, queue);
        if spurt.raised_from.is_some() && spurt.overflows() {
            self.retreat();
        }
    }

    /// The controller has heard of a loss, and may have answered it. Its answer is enough where that was chance for
    /// all that it knows: half of what had arrived so far is next to nothing if it was among the first, and what is
    /// known of the path would be gone for connections that come later, too.
    fn weigh(&mut self, loss: &Loss, answered: bool) {
        if !answered && !self.in_doubt {
            return;
        }
        self.armed = false;
        self.in_doubt = self.may_be_chance(loss);
        if !self.in_doubt {
            self.retreat();
        }
    }

    fn may_be_chance(&self, loss: &Loss) -> bool {
        let Phase::Validating(spurt) = self.phase else { return false };
        let free = self.known.is_some_and(|known| known.is_free_at(spurt.delay_at(loss)));
        // What it has answered for another reason than the delays at losses is beyond doubt.
        let suspected = self.in_doubt || self.inner.suspects_load();
        spurt.raised_from.is_some() && free && suspected && self.inner.is_in_doubt()
    }

    /// The controller has taken something for congestion, or too much was lost.
    fn retreat(&mut self) {
        let (Phase::Unvalidated(spurt) | Phase::Validating(spurt)) = self.phase else { return };
        if let Some(known) = &mut self.known {
            known.pace = None;
        }
        if spurt.raised_from.is_some() {
            let left = (spurt.pipe / 2).max(self.config.minimum_window()).min(self.inner.window());
            self.inner.set_window(left, Some(left));
            self.forget();
            self.retreats += 1;
        }
        self.phase = Phase::Retreat(spurt);
    }

    /// Once nothing of the spurt is on its way any more, what arrived of it is what the path takes.
    fn end_retreat(&mut self, sent_at: Instant) {
        let Phase::Retreat(spurt) = self.phase else { return };
        if !spurt.is_over(sent_at) {
            return;
        }
        self.phase = Phase::Settled;
        let takes = ((spurt.pipe as f64 * BETA) as u64).max(self.config.minimum_window());
        if spurt.raised_from.is_some() {
            // Slow start finds the rest.
            let window = self.inner.window();
            self.inner.set_window(window, Some(takes.max(window)));
        } else if spurt.is_mostly_lost(self.config.initial_window()) && takes < self.inner.window() {
            self.inner.set_window(takes, Some(takes));
            self.forget();
            self.retreats += 1;
        }
    }

    fn forget(&mut self) {
        (self.known, self.armed, self.rounds) = (None, false, Rounds::default());
    }

    /// Tells the controller of something that may be congestion to it.
    fn judge(&mut self, tell: impl FnOnce(&mut dyn Controller)) {
        let before = self.inner.window();
        tell(&mut *self.inner);
        if self.inner.window() < before {
            self.armed = false;
            self.retreat();
        }
    }
}

impl Controller for Careful {
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        self.age(now);
        if in_flight <= bytes {
            self.begin(now);
        }
        self.try_raise(now);
        if let Phase::Unvalidated(spurt) = &mut self.phase {
            spurt.on_sent(now, bytes);
        }
        if in_flight >= self.config.initial_window() {
            self.used = Some(now);
        }
        self.inner.on_sent(now, bytes, in_flight);
    }

    fn on_ack(&mut self, ack: &Ack, group: &[PathWindow]) {
        self.note_rtt(ack);
        if let Some((carried, full)) = self.rounds.on_ack(ack) {
            let settled = self.inner.state().phase == crate::Phase::CongestionAvoidance;
            self.known = Some(learn(self.known, carried, full && settled, ack));
        }
        // As long as it is not known whether so much is right, there is nothing to add.
        let raised = match self.phase {
            Phase::Unvalidated(spurt) | Phase::Validating(spurt) => spurt.raised_from.is_some(),
            Phase::Settled | Phase::Retreat(_) => false,
        };
        self.advance(ack);
        let ack = Ack { app_limited: ack.app_limited || raised, ..*ack };
        // `auto` takes its time over some losses.
        self.judge(|inner| inner.on_ack(&ack, group));
    }

    fn on_loss(&mut self, loss: &Loss, group: &[PathWindow]) {
        let before = self.inner.window();
        self.inner.on_loss(loss, group);
        self.weigh(loss, self.inner.window() < before);
        self.count_lost(loss);
        self.end_retreat(loss.largest_sent_at);
    }

    fn on_persistent_congestion(&mut self, now: Instant) {
        self.inner.on_persistent_congestion(now);
        self.phase = Phase::Settled;
        self.forget();
    }

    fn on_spurious_loss(&mut self, now: Instant) {
        self.inner.on_spurious_loss(now);
    }

    fn on_ecn_ce(&mut self, now: Instant, largest_sent: Instant) {
        self.judge(|inner| inner.on_ecn_ce(now, largest_sent));
    }

    fn on_mtu(&mut self, max_datagram_size: u64) {
        self.config.max_datagram_size = max_datagram_size;
        self.inner.on_mtu(max_datagram_size);
    }

    fn set_window(&mut self, window: u64, ssthresh: Option<u64>) {
        self.inner.set_window(window, ssthresh);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn inter_loss(&self) -> u64 {
        self.inner.inter_loss()
    }

    fn congested_at(&self) -> Option<Instant> {
        self.inner.congested_at()
    }

    fn load_evidence(&self) -> f32 {
        self.inner.load_evidence()
    }

    fn is_in_doubt(&self) -> bool {
        self.inner.is_in_doubt()
    }

    fn recall(&mut self, precedents: &Precedents) {
        self.inner.recall(precedents);
    }

    fn is_steady(&self) -> bool {
        matches!(self.phase, Phase::Settled) && self.inner.is_steady()
    }

    fn hold(&mut self, window: u64, until: Instant) {
        self.inner.hold(window, until);
    }

    fn resume_from(&mut self, carried: Carried) {
        (self.known, self.armed) = (Some(carried), true);
    }

    fn resumption(&self) -> Resumption {
        let carried = self
            .known
            .map(|known| Carried { window: known.window.max(self.rounds.carried(known.min_rtt)), ..known });
        Resumption { carried, jumps: self.jumps, retreats: self.retreats }
    }

    fn pacing_rate(&self, rtt: &Rtt) -> BitRate {
        let rate = self.inner.pacing_rate(rtt);
        match self.phase {
            // What is tried is spread over the round trip.
            Phase::Unvalidated(Spurt { raised_from: Some(_), .. }) if !rtt.smoothed.is_zero() => {
                let bits = u128::from(self.window()) * 8 * 1_000_000_000;
                let even = bits / u128::from(rtt.smoothed.as_nanos());
                rate.min(BitRate(u64::try_from(even).unwrap_or(u64::MAX).max(1)))
            }
            Phase::Unvalidated(spurt) => {
                let pace = self.known.filter(|known| known.is_fresh(spurt.last)).and_then(|k| k.pace);
                pace.map_or(rate, |pace| pace.max(rate))
            }
            Phase::Settled | Phase::Validating(_) | Phase::Retreat(_) => rate,
        }
    }

    fn state(&self) -> State {
        self.inner.state()
    }

    fn kind(&self) -> ControllerKind {
        self.inner.kind()
    }
}

#[cfg(test)]
mod tests;
