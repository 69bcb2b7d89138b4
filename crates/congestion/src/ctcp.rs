//! CTCP's controller: Reno that backs off by RTT_min / RTT, so that a loss without a queue costs
//! nothing.
//!
//! Kim et al., "Network Coded TCP (CTCP)", section 4.3 (Algorithm 2).
//!
//! | paper                | here                          | unit  |
//! |----------------------|-------------------------------|-------|
//! | tokens               | window / maximum datagram size | packets |
//! | RTT_min              | `BaseRtt::min`                | time  |
//! | RTT                  | `Queueing::delay`             | time  |
//! | beta                 | `Ctcp::backoff`               | none  |
//! | ss_threshold         | threshold of the window       | bytes |
//!
//! # Departures
//! - Tokens are a window: they change by Algorithm 2 only, and sending one packet uses one of them
//!   until it is acknowledged or lost (CTCP-A6). The initial number is the transport's initial
//!   window, not 8.
//! - A backoff at most once per round trip (CTCP-A8). Until the next one ACKs let the window grow
//!   as always: at 5 % loss every round trip has a gap.
//! - RTT is the smallest sample of the last round trips rather than that of the ACK (CTCP-A9), less
//!   what jitter explains; RTT_min expires. Both are ours:
//!   docs/decisions/0008-ctcp-delay-signal.md.
//! - Slow start ends when the queue holds more than a packet of the window, tokens x (1 - RTT_min /
//!   RTT) > 1 (CTCP-A14), not by a loss without a queue (CTCP-A18). If the round trip after that
//!   shows no queue, it was jitter, and slow start goes on. It also ends when three round trips in
//!   a row have not delivered a quarter more than the best before, because a link without a queue
//!   of its own, such as a policer, shows no delay.
//! - When backoffs prove RTT_min wrong, they are taken back, and slow start finds the new route's
//!   window.
//! - If a round trip loses more packets than it delivers, the window is halved whatever the delay
//!   is: nothing else would stop the window where there is no queue to see. It must be more than an
//!   initial window: of eight packets chance takes five now and then.
//! - Before the first sample, and by a CE mark, the window is halved: a mark says what delay could
//!   only suggest.
//! - Persistent congestion stands for the time-out of Algorithm 2, with RFC 9002's minimum window.
//!   RTT_min is forgotten then.
//!
//! # Invariants
//! The window is never below the minimum and is reduced at most once per recovery period. Without
//! jitter and with one bandwidth-delay product of queue, a loss halves.

use units::{Duration, Instant};

use crate::{
    Ack, Config, Controller, ControllerKind, Loss, PathWindow, Phase, State, aimd::Aimd, base_rtt::BaseRtt,
    queueing::Queueing, slow_start_rounds::SlowStartRounds,
};

/// The controller of CTCP.
#[derive(Clone, Debug)]
pub struct Ctcp {
    window: Aimd,
    base: BaseRtt,
    queueing: Queueing,
    rounds: SlowStartRounds,
}

impl Ctcp {
    /// A controller in slow start with the initial window.
    pub fn new(config: &Config) -> Self {
        Self {
            window: Aimd::new(config),
            base: BaseRtt::default(),
            queueing: Queueing::default(),
            rounds: SlowStartRounds::default(),
        }
    }

    /// beta: RTT_min / RTT for a delay, the part of which that may be jitter left out.
    fn backoff(&self, delay: Option<Duration>) -> Option<f64> {
        let min = self.base.min()?;
        let queue = self.queueing.queue(delay?, min);
        Some(min.as_secs_f64() / (min + queue).as_secs_f64())
    }

    /// Whether the queue holds no more than a packet of the window.
    fn is_empty_queue(&self, beta: f64) -> bool {
        self.window.window() * (1.0 - beta) <= self.window.segment()
    }

    /// Algorithm 2 for a gap. The acknowledgement that shows it may bring the `first` sample, which
    /// is RTT_min and RTT at once.
    fn on_gap(&mut self, now: Instant, sent_at: Instant, first: Duration) {
        if self.window.covers(sent_at) {
            return;
        }
        let is_first = self.base.min().is_none() && !first.is_zero();
        let beta = if is_first { 1.0 } else { self.backoff(self.queueing.delay()).unwrap_or(0.5) };
        if self.is_empty_queue(beta) {
            self.base.on_idle_loss();
            if self.window.in_slow_start() {
                return;
            }
        }
        if let Some(delay) = self.queueing.delay()
            && let Some(window) = self.base.on_backoff(now, self.window.window(), delay)
        {
            self.window.restore(window);
            self.rounds.forget_best();
            self.resume_slow_start();
            return;
        }
        self.window.reduce(now, sent_at, beta);
        // Until the link has been seen full, the round trip after slow start tells whether it is:
        // what the gap saw may be the burst that ended slow start, and where packets are lost by
        // chance there is a gap before that round trip is through.
        if self.rounds.has_filled() && !self.is_empty_queue(beta) {
            self.rounds.confirm();
        }
    }

    /// Slow start by `bytes`, and whether it should end.
    fn slow_start(&mut self, bytes: u64) {
        let rest = self.window.slow_start(bytes as f64);
        let beta = self.backoff(self.queueing.recent()).unwrap_or(1.0);
        if self.rounds.is_over(!self.is_empty_queue(beta)) {
            self.window.leave_slow_start();
            self.queueing.forget_rounds();
        }
        self.additive_increase(rest);
    }

    /// tokens + 1 / tokens for each packet of `bytes`.
    fn additive_increase(&mut self, bytes: f64) {
        self.window.add(bytes * self.window.segment() / self.window.window());
    }

    /// A round trip is over: was it one with hardly any deliveries, and is slow start still of use?
    fn end_round(&mut self, ack: &Ack) {
        if self.rounds.end(ack.now, ack.rtt.smoothed).is_mostly_lost(self.window.initial()) {
            self.window.reduce(ack.now, ack.largest_sent_at, 0.5);
            self.rounds.confirm();
        }
        if let Some(delay) = self.queueing.last_round() {
            self.base.on_round(delay);
        }
        self.confirm_exit();
    }

    /// Takes slow start up again if it was left for jitter.
    fn confirm_exit(&mut self) {
        let beta = self.backoff(self.queueing.last_round()).unwrap_or(1.0);
        if self.rounds.was_jitter(!self.is_empty_queue(beta)) {
            self.resume_slow_start();
        }
    }

    fn resume_slow_start(&mut self) {
        self.window.resume_slow_start();
        self.rounds.resume();
    }
}

impl Controller for Ctcp {
    fn on_ack(&mut self, ack: &Ack, _group: &[PathWindow]) {
        self.window.note_ack(ack);
        // Half a window in slow start would look like a link that is full.
        self.base.on_ack(ack, !ack.app_limited && !self.window.in_slow_start());
        let ended = self.queueing.on_ack(ack);
        self.rounds.on_ack(ack);
        if ended {
            self.end_round(ack);
        }
        if ack.app_limited || self.base.is_probing() {
            return;
        }
        if self.window.in_slow_start() {
            self.slow_start(ack.bytes);
        } else {
            self.additive_increase(ack.bytes as f64);
        }
    }

    fn on_loss(&mut self, loss: &Loss, _group: &[PathWindow]) {
        self.rounds.on_loss(loss);
        self.on_gap(loss.now, loss.largest_sent_at, loss.rtt.latest);
    }

    fn on_persistent_congestion(&mut self, _now: Instant) {
        self.window.collapse();
        self.base.forget();
        self.queueing = Queueing::default();
        self.rounds = SlowStartRounds::default();
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        self.window.undo();
        // The loss that never was may have ended slow start.
        self.rounds.doubt();
    }

    fn on_ecn_ce(&mut self, now: Instant, largest_sent: Instant) {
        self.window.reduce(now, largest_sent, 0.5);
        self.window.confirm();
        // What ended slow start was no jitter: the link says so.
        self.rounds.confirm();
    }

    fn on_mtu(&mut self, max_datagram_size: u64) {
        self.window.on_mtu(max_datagram_size);
    }

    fn set_window(&mut self, window: u64, ssthresh: Option<u64>) {
        self.window.set(window, ssthresh);
    }

    fn window(&self) -> u64 {
        let part = if self.base.is_probing() { 0.5 } else { 1.0 };
        (self.window.window() * part).max(self.window.floor()) as u64
    }

    fn state(&self) -> State {
        let state = self.window.state();
        let phase = if self.window.in_slow_start() { Phase::SlowStart } else { state.phase };
        State { phase, window: self.window(), ..state }
    }

    fn kind(&self) -> ControllerKind {
        ControllerKind::Ctcp
    }
}

#[cfg(test)]
mod tests;
