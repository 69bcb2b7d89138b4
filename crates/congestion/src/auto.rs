//! CUBIC that asks of every loss whether it is congestion: on a loss-free path it is CUBIC, on a
//! lossy one it keeps the path full.
//!
//! Ours; built from RFC 9438 and from what CTCP (Kim et al., section 4.3) backs off by. A loss is
//! taken for
//!
//! - *congestion* if there is a queue and more is lost than round trips without one lose, or if far
//!   more is lost than that even though no queue is seen and the same load goes on losing: the
//!   window is multiplied by CUBIC's 0.7;
//! - congestion, too, if losses come when delays are longest, whether or not a queue is known of;
//! - congestion, too, if round trips with half the window, which are made now and then on a lossy
//!   path, do not lose as much;
//! - *chance* otherwise: the window is multiplied by RTT_min / RTT, which is 1 without a queue, and
//!   never less than 0.7. So the queue is drained for the sake of others, and that is all.
//!
//! Losses are counted in bursts, as far as the path is known to lose in bursts by chance. What was
//! given up without a queue comes back once losses have turned out to be chance.
//!
//! docs/decisions/0011-auto-congestion.md, 0014-bursty-loss.md, 0027-losses-come-with-delay.md and
//! 0036-reductions-taken-back.md have what else was tried, and the figures.
//!
//! | symbol            | here                 | unit    |
//! |-------------------|----------------------|---------|
//! | RTT_min           | `BaseRtt::min`       | time    |
//! | RTT               | `Queueing::delay`    | time    |
//! | share lost at any load | `LossFloor`     | none    |
//! | beta              | `Auto::backoff`      | none    |
//!
//! # Invariants
//! The window is never below the minimum and is reduced at most once per recovery period. Where
//! every loss comes with a queue and nothing else is lost, reductions and growth are those of
//! `cubic`.

use units::{Duration, Instant};

use crate::{
    Ack, Config, Controller, ControllerKind, Cubic, Loss, PathWindow, Phase, Precedents, State,
    appeal::{Appeal, Former},
    base_rtt::BaseRtt,
    chance::Chance,
    cubic::BETA,
    delay_at_loss::{self, DelayAtLoss},
    group::Group,
    half_load::HalfLoad,
    loss_floor::LossFloor,
    queueing::Queueing,
    slow_start_rounds::{Round, SlowStartRounds},
    trial::{Charge, LEAST_BURST, Trial},
};

/// Part of the longest queue seen up to which a queue counts as none.
const LITTLE: u64 = 4;
/// What is left of the longest queue seen after a round trip with a shorter one.
const PEAK_DECAY: f64 = 0.995;
/// Initial windows that one burst may be as long as. Slow start that such a loss has ended goes on
/// if the next round trips show no queue, [`PARDONS`] times.
const SMALL_WINDOWS: u64 = 2;
const PARDONS: u8 = 3;
/// Initial windows up to which jitter passes for a queue.
const FEW_WINDOWS: u64 = 5;
/// Initial windows in a round trip of slow start that tell as much as a probe does.
const MUCH_WINDOWS: u64 = 16;
/// Packets of which less than one is lost there. Who comes to a full queue in slow start loses more, unless it has but a
/// small part of the link.
const FEW_LOST: u64 = 20;
/// Packets in the queue that are no queue: bursts leave as many.
const BURST: f64 = 2.0;

/// The controller that tells losses by congestion from others.
#[derive(Clone, Debug)]
pub struct Auto {
    cubic: Cubic,
    base: BaseRtt,
    queueing: Queueing,
    floor: LossFloor,
    half: HalfLoad,
    chance: Chance,
    delays: DelayAtLoss,
    /// Slow start was ended by losses that came with delay or what looked like a queue, or before there was anything
    /// to compare with. It goes on at a loss without a queue once the evidence is below this.
    ended_in_doubt: Option<f32>,
    /// Boxed, as is what else is seldom there: every path of every connection has a controller.
    trial: Option<Box<Trial>>,
    /// What was given up without a queue.
    appeal: Appeal,
    /// How often slow start may still go on although a small window was lost twice.
    pardons: u8,
    /// The most that was in flight in the last round trip and in the current one, in bytes: what
    /// the window is worth.
    flight: [u64; 2],
    /// The longest queue of the last hundreds of round trips, in time.
    peak: Duration,
    rounds: SlowStartRounds,
    group: Group,
    /// What an experiment keeps the window at, and until when.
    held: Option<(u64, Instant)>,
}

impl Auto {
    /// A controller in slow start with the initial window.
    pub fn new(config: &Config) -> Self {
        Self {
            cubic: Cubic::new(&Config { hystart: false, ..*config }),
            base: BaseRtt::default(),
            queueing: Queueing::default(),
            floor: LossFloor::default(),
            half: HalfLoad::default(),
            chance: Chance::default(),
            delays: DelayAtLoss::default(),
            ended_in_doubt: None,
            trial: None,
            appeal: Appeal::default(),
            pardons: PARDONS,
            flight: [0; 2],
            peak: Duration::ZERO,
            rounds: SlowStartRounds::default(),
            group: Group::default(),
            held: None,
        }
    }

    /// Congestion: the window is multiplied by `factor`, once per recovery period.
    fn answer(&mut self, now: Instant, sent_at: Instant, factor: f64) {
        if !self.cubic.covers(sent_at) {
            self.group.on_answered(now);
            let former = Former { window: self.cubic.window(), slow_start: self.cubic.in_slow_start() };
            self.appeal.on_answer(former, !self.is_clear());
        }
        self.cubic.reduce(now, sent_at, factor);
    }

    /// Grows as the part of its group that it is, and answers what another path of it has found.
    fn couple(&mut self, now: Instant, group: &[PathWindow]) {
        if self.group.joins(group) {
            // Others have had too little for as long as it took to find out.
            self.answer(now, now, BETA);
            self.appeal.settle();
            self.cubic.forget_plateau();
        }
        if let Some(at) = self.group.look(now, group) {
            if !self.cubic.covers(at) {
                self.cubic.reduce(now, now, BETA);
                self.appeal.settle();
                self.rounds.confirm();
            }
            self.group.on_answered(at);
        }
        let part = Group::part(group);
        if Group::is_other(self.cubic.part(), part) {
            self.cubic.set_part(part);
        }
    }

    fn packets(&self, bytes: u64) -> f64 {
        bytes as f64 / self.cubic.config().max_datagram_size as f64
    }

    /// The queue that `delay` shows; `None` before any sample.
    fn queue(&self, delay: Option<Duration>) -> Option<Duration> {
        Some(self.queueing.queue(delay?, self.base.min()?))
    }

    /// The delay by which losses are judged. In slow start the queue of a round trip's first
    /// packets says nothing about its last ones.
    fn longest(&self) -> Option<Duration> {
        let delay = self.queueing.delay();
        if self.cubic.in_slow_start() { delay.max(self.queueing.recent()) } else { delay }
    }

    /// RTT_min / RTT for a queue.
    fn backoff(&self, queue: Duration) -> f64 {
        let min = self.base.min().unwrap_or(Duration::ZERO).as_secs_f64();
        if min > 0.0 { min / (min + queue.as_secs_f64()) } else { 1.0 }
    }

    /// Packets of ours that a queue may hold.
    fn queued(&self, queue: Duration) -> f64 {
        self.packets(self.cubic.window()) * (1.0 - self.backoff(queue))
    }

    /// Whether a queue is long enough to say that the link is full.
    fn fills(&self, queue: Duration) -> bool {
        self.base.min().is_some_and(|min| queue >= Queueing::threshold(min))
    }

    /// Whether a queue is so short that it counts as none.
    fn is_quiet(&self, queue: Duration) -> bool {
        self.queued(queue) <= BURST || queue <= self.peak / LITTLE
    }

    /// Whether it is known that there is no queue.
    fn is_clear(&self) -> bool {
        self.queue(self.longest()).is_some_and(|queue| self.is_quiet(queue))
    }

    /// Whether there is no queue even if none of the delay is jitter.
    fn is_bare(&self) -> bool {
        let delay = self.longest().zip(self.base.min());
        delay.is_some_and(|(delay, min)| self.is_quiet(delay.saturating_sub(min)))
    }

    /// Whether what this round trip has lost is congestion where the queue is `queue`.
    fn is_congestion(&self, queue: Duration) -> bool {
        let lost = self.packets(self.rounds.lost());
        let packets = self.packets(self.cubic.window());
        if !self.is_quiet(queue) {
            return self.floor.is_exceeded_with_queue(lost, packets, &self.chance);
        }
        !self.cubic.in_slow_start() && self.floor.is_exceeded(lost, packets, &self.chance)
    }

    /// Whether a loss without a queue is not to be believed before it has been tried. A few packets
    /// more than usual are what a queue that nobody sees overflows by, unless bursts are known of.
    fn needs_trial(&self, queue: Duration) -> bool {
        self.is_quiet(queue)
            && (self.chance.is_established() || self.packets(self.rounds.lost()) >= LEAST_BURST)
    }

    /// Tries whether the load is the reason of a loss, unless the load is so low that it cannot be.
    fn charge(&mut self, now: Instant, charge: Charge) {
        if self.trial.is_none() && !self.chance.is_low(self.packets(self.cubic.window())) {
            self.trial = Some(Box::new(Trial::new(now, charge)));
        }
    }

    /// Whether more than the window keeps the load down. A trial is one of the same load, and a probe is none of the
    /// load at all.
    fn is_limited(&self, ack: &Ack) -> bool {
        ack.app_limited || self.base.is_probing() || self.trial.is_some()
    }

    /// Ends a trial that is through.
    fn try_load(&mut self, ack: &Ack) {
        let Some(trial) = self.trial.take_if(|trial| trial.on_ack(ack)) else { return };
        let packets = self.packets(self.cubic.window());
        match trial.verdict(packets, self.chance.index()) {
            Some(beta) => {
                let young = self.cubic.in_slow_start()
                    && self.cubic.window() <= SMALL_WINDOWS * self.cubic.config().initial_window();
                self.answer(ack.now, ack.largest_sent_at, beta);
                if young && self.pardons > 0 {
                    self.pardons -= 1;
                    self.rounds.doubt();
                } else {
                    self.rounds.confirm();
                }
            }
            None if trial.teaches(packets) => self.chance.on_acquitted(&trial.meanwhile),
            None => {}
        }
    }

    fn on_gap(&mut self, now: Instant, sent_at: Instant, by_load: bool) {
        if self.cubic.covers(sent_at) {
            return;
        }
        let delay = self.queueing.delay();
        let Some(queue) = self.queue(self.longest()) else {
            // Nothing has been measured that could tell. Losses that follow may.
            self.note_end(delay_at_loss::FAR_FROM_LOAD);
            return self.answer(now, sent_at, BETA);
        };
        if by_load {
            self.note_end(delay_at_loss::SURELY_CHANCE);
            self.rounds.confirm();
            return self.answer(now, sent_at, BETA);
        }
        if self.is_congestion(queue) {
            if self.needs_trial(queue) {
                self.base.on_idle_loss();
                let share = self.floor.share().max(self.chance.share());
                return self.charge(now, Charge::Excess { share });
            }
            self.note_end_by_queue();
            self.rounds.confirm();
            return self.answer(now, sent_at, BETA);
        }
        let beta = self.queue(delay).map_or(1.0, |queue| self.backoff(queue));
        if self.queued(queue) <= 1.0 || self.cubic.in_slow_start() {
            self.base.on_idle_loss();
            return;
        }
        if let Some(delay) = delay
            && self.base.on_backoff(now, self.cubic.window() as f64, delay).is_some()
        {
            // A new route: what the old one delivered is no measure.
            self.rounds.forget_best();
            self.appeal.forget();
            self.resume_slow_start();
            return;
        }
        if self.fills(queue) {
            // What is given up now will not be seen by the round trips to come, which is no sign that it was jitter.
            self.note_end_by_queue();
            self.rounds.confirm();
        }
        self.cubic.reduce(now, sent_at, beta.max(BETA));
    }

    /// If it is slow start that ends, evidence below `bound` says that it should not have.
    fn note_end(&mut self, bound: f32) {
        if self.cubic.in_slow_start() {
            self.ended_in_doubt = Some(bound);
        } else {
            self.note_end_by_queue();
        }
    }

    /// What looks like a queue ends slow start, or has ended it and was to be confirmed. Behind few packets it may be
    /// jitter.
    fn note_end_by_queue(&mut self) {
        let few_windows = self.cubic.config().initial_window().saturating_mul(FEW_WINDOWS);
        let few = self.cubic.window() <= few_windows;
        if few && (self.cubic.in_slow_start() || self.rounds.is_doubted()) {
            self.ended_in_doubt = Some(delay_at_loss::DESPITE_A_QUEUE);
        }
    }

    /// Takes back what was given up for losses that have turned out to be chance, as another one
    /// without a queue shows under a lower load.
    fn take_back(&mut self) {
        if !self.delays.is_chance() || self.trial.is_some() || !self.is_bare() {
            return;
        }
        let Some(former) = self.appeal.on_chance(self.cubic.window()) else { return };
        self.cubic.set_window(former.window, Some(former.window));
        if former.slow_start && !self.rounds.has_filled() {
            // It goes on if the next round trips show no queue.
            self.rounds.doubt();
        }
    }

    /// Ends slow start when there is a queue, or nothing more to be had.
    fn watch_slow_start(&mut self) {
        let queue = self.queue(self.queueing.recent()).unwrap_or(Duration::ZERO);
        if self.rounds.is_over(self.fills(queue)) {
            self.cubic.leave_first_slow_start();
            self.queueing.forget_rounds();
        }
    }

    /// A round trip is over: what it says about losses, and whether slow start is still of use.
    fn end_round(&mut self, ack: &Ack) {
        let ended = self.rounds.end(ack.now, ack.rtt.smoothed);
        if !self.base.is_probing() {
            self.flight = [self.flight[1], 0];
        }
        if ended.is_mostly_lost(self.cubic.config().minimum_window()) {
            self.on_mostly_lost(ack);
        }
        if let Some(delay) = self.queueing.last_round() {
            self.base.on_round(delay);
            self.note_clear_round(ended, delay);
            if !self.base.is_probing()
                && let Some(queue) = self.queue(Some(delay))
            {
                self.appeal.on_round(ended.delivered, self.backoff(queue));
            }
        }
        self.learn(ended);
        self.notice_rise(ack);
        self.doubt(ack);
        self.confirm_exit();
    }

    /// A round trip of slow start that shows a long route with much under way, no queue and few losses is what half of a
    /// later window would show.
    fn note_clear_round(&mut self, ended: Round, delay: Duration) {
        let has_grown = self.rounds.has_grown(self.cubic.in_slow_start());
        let is_much = ended.delivered >= self.cubic.config().initial_window().saturating_mul(MUCH_WINDOWS);
        let are_few = ended.lost.saturating_mul(FEW_LOST) < ended.delivered;
        if has_grown && self.base.is_long() && self.base.is_near(delay) && is_much && are_few {
            self.half.on_clear_round(self.packets(ended.delivered), self.packets(ended.lost));
        }
    }

    fn on_mostly_lost(&mut self, ack: &Ack) {
        if self.is_clear() {
            self.charge(ack.now, Charge::MostlyLost);
        } else {
            self.answer(ack.now, ack.largest_sent_at, 0.5);
            self.rounds.confirm();
        }
    }

    /// Takes what a round trip has lost into account, if no queue explains it.
    fn learn(&mut self, ended: Round) {
        let Some(queue) = self.queue(self.longest()) else { return };
        self.peak = self.peak.mul_f64(PEAK_DECAY).max(queue);
        if !self.is_quiet(queue) || self.delays.is_load() {
            return;
        }
        let (delivered, lost) = (self.packets(ended.delivered), self.packets(ended.lost));
        let window = self.packets(self.cubic.window());
        self.floor.on_quiet_round(delivered, lost, window);
        if self.cubic.in_slow_start() {
            self.chance.on_young_round(delivered, lost);
        } else if let Some(trial) = &mut self.trial {
            self.chance.carry(delivered);
            trial.meanwhile.on_round(delivered, lost);
        } else {
            self.chance.on_round(delivered, lost, window);
        }
    }

    /// Losses without a queue that have become many more are answered once.
    fn notice_rise(&mut self, ack: &Ack) {
        if !self.cubic.in_slow_start() && self.trial.is_none() && self.floor.has_risen(self.chance.index()) {
            self.answer(ack.now, ack.largest_sent_at, BETA);
        }
    }

    /// Losses that the path does not have with half the window are congestion, whatever hides the
    /// queue. Once found out, they are answered, forgotten, and measured again.
    fn doubt(&mut self, ack: &Ack) {
        let (lost, all) = self.floor.remembered();
        let index = self.chance.low_index().max(self.floor.dispersion(self.chance.index()));
        if !self.half.is_exceeded(lost, all, index) {
            return;
        }
        let Some(share) = self.half.share(index) else { return };
        self.floor.correct(share);
        self.chance.take_back();
        self.base.probe_soon(ack.now);
        self.rounds.confirm();
        self.answer(ack.now, ack.largest_sent_at, BETA);
    }

    /// Takes slow start up again if it was left for jitter.
    fn confirm_exit(&mut self) {
        let queue = self.queue(self.queueing.last_round()).unwrap_or(Duration::ZERO);
        if self.rounds.was_jitter(self.fills(queue)) {
            self.resume_slow_start();
        }
    }

    fn resume_slow_start(&mut self) {
        self.cubic.resume_slow_start();
        self.rounds.resume();
    }
}

impl Controller for Auto {
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        self.held = self.held.filter(|(_, until)| now < *until);
        self.flight[1] = self.flight[1].max(in_flight);
        self.base.on_sent(now);
        self.cubic.on_sent(now, bytes, in_flight);
    }

    fn on_ack(&mut self, ack: &Ack, group: &[PathWindow]) {
        self.held = self.held.filter(|(_, until)| ack.now < *until);
        self.couple(ack.now, group);
        // What is held lacks data as far as everything else is concerned.
        let ack = &Ack { app_limited: ack.app_limited || self.held.is_some(), ..*ack };
        // Who has less to send than the window allows, or has never filled the path, holds no queue
        // that would hide the route's delay.
        let slow_start = self.cubic.in_slow_start() || self.rounds.is_doubted();
        // Where a nearer host's round trip is RTT_min, or that of an earlier route, every delay looks like a queue, so
        // that no loss is known to come without one.
        let is_too_small = self.base.is_hearsay(ack.now) || self.base.is_outlived(ack.rtt.min);
        let is_time = !slow_start && !self.base.is_young(ack.now);
        let may_probe = (self.floor.is_lossy() || is_too_small) && is_time && !ack.app_limited;
        if may_probe && self.base.is_first_due(ack.now) && self.half.covers(self.packets(self.window())) {
            self.base.leave_out(ack.now);
            self.half.settle(ack.now);
        }
        self.base.on_ack(ack, may_probe);
        self.half.watch(ack.now, self.base.is_halving(), self.packets(self.window()));
        self.half.count(ack.largest_sent_at, self.packets(ack.bytes), 0.0);
        self.delays.on_ack(ack);
        let ended = self.queueing.on_ack(ack);
        self.rounds.on_ack(&Ack { app_limited: self.is_limited(ack), ..*ack });
        if ended {
            self.end_round(ack);
        }
        self.try_load(ack);
        let app_limited = self.is_limited(ack);
        self.cubic.on_ack(&Ack { app_limited, ..*ack }, group);
        if self.cubic.in_slow_start() && !app_limited {
            self.watch_slow_start();
        }
    }

    fn on_loss(&mut self, loss: &Loss, group: &[PathWindow]) {
        self.couple(loss.now, group);
        self.half.count(loss.largest_sent_at, 0.0, self.packets(loss.bytes));
        self.rounds.on_loss(loss);
        let by_load = self.delays.on_loss(loss.largest_sent_at);
        let is_clear = self.queue(self.longest()).is_some_and(|queue| queue.is_zero());
        if self.ended_in_doubt.take_if(|bound| is_clear && self.delays.evidence() < *bound).is_some() {
            // Slow start goes on if the next round trips show no queue.
            self.rounds.doubt();
        }
        let lost = self.packets(loss.bytes);
        if let Some(trial) = &mut self.trial {
            trial.on_loss(loss.largest_sent_at, lost);
        }
        self.on_gap(loss.now, loss.largest_sent_at, by_load);
        self.take_back();
    }

    fn on_persistent_congestion(&mut self, now: Instant) {
        self.cubic.on_persistent_congestion(now);
        self.base.forget();
        self.queueing = Queueing::default();
        (self.floor, self.half, self.peak) = (LossFloor::default(), HalfLoad::default(), Duration::ZERO);
        (self.chance, self.trial) = (Chance::default(), None);
        (self.delays, self.ended_in_doubt) = (DelayAtLoss::default(), None);
        self.appeal.forget();
        self.rounds = SlowStartRounds::default();
    }

    fn on_spurious_loss(&mut self, now: Instant) {
        self.cubic.on_spurious_loss(now);
        self.trial = None;
        // The loss that never was may have kept slow start from going on.
        self.rounds.doubt();
    }

    fn on_ecn_ce(&mut self, now: Instant, largest_sent: Instant) {
        if !self.cubic.covers(largest_sent) {
            self.group.on_answered(now);
        }
        self.appeal.settle();
        // What ended slow start was no jitter: the link says so.
        self.rounds.confirm();
        self.ended_in_doubt = None;
        self.cubic.on_ecn_ce(now, largest_sent);
    }

    fn on_mtu(&mut self, max_datagram_size: u64) {
        self.cubic.on_mtu(max_datagram_size);
    }

    fn set_window(&mut self, window: u64, ssthresh: Option<u64>) {
        self.cubic.set_window(window, ssthresh);
        self.trial = None;
        self.appeal.settle();
        self.rounds = SlowStartRounds::default();
    }

    fn window(&self) -> u64 {
        let window = self.cubic.window();
        if let Some((held, _)) = self.held {
            return window.min(held.max(self.cubic.config().minimum_window()));
        }
        if !self.base.is_halving() {
            return window;
        }
        // A window that is larger than what the sender ever has in flight would not be felt, not
        // even half of it.
        let used = window.min(self.flight[0].max(self.flight[1]));
        (used / 2).max(self.cubic.config().minimum_window())
    }

    fn congested_at(&self) -> Option<Instant> {
        self.group.congested_at()
    }

    fn load_evidence(&self) -> f32 {
        self.delays.evidence()
    }

    fn is_in_doubt(&self) -> bool {
        self.is_clear() && !self.blames_load()
    }

    fn recall(&mut self, precedents: &Precedents) {
        self.delays.recall(precedents);
        self.base.recall(precedents.base_rtt());
    }

    fn is_steady(&self) -> bool {
        !self.cubic.in_slow_start() && !self.base.is_probing() && self.trial.is_none()
    }

    fn hold(&mut self, window: u64, until: Instant) {
        self.held = Some((window, until));
    }

    fn state(&self) -> State {
        let state = self.cubic.state();
        let phase = if self.cubic.in_slow_start() && state.phase != Phase::Recovery {
            Phase::SlowStart
        } else {
            state.phase
        };
        State { phase, window: self.window(), ..state }
    }

    fn kind(&self) -> ControllerKind {
        ControllerKind::Auto
    }
}
