//! Deadlines: each belongs to what it drives, and `poll_timeout` is their minimum.

use units::{Duration, Instant};

use super::{Connection, close::State};
use crate::{
    crypto::Level,
    path::Path,
    wire::{PathId, Side},
};

/// How long the connection may be idle (RFC 9000 section 10.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleTimer {
    /// `None`: for ever.
    pub(super) timeout: Option<Duration>,
    deadline: Option<Instant>,
    /// An ack-eliciting packet has been sent since the last one was received.
    pub(super) sent_since_heard: bool,
}

impl IdleTimer {
    /// The timer of a connection that has just begun on a path with this probe timeout; a timeout of
    /// zero stands for none.
    pub(super) fn new(now: Instant, timeout: Duration, pto: Duration) -> Self {
        let timeout = Some(timeout).filter(|d| !d.is_zero());
        let mut timer = Self { timeout, deadline: None, sent_since_heard: false };
        timer.restart(now, pto);
        timer
    }

    /// No shorter than three probe timeouts, so that a lost packet alone does not end the connection.
    fn restart(&mut self, now: Instant, pto: Duration) {
        self.deadline = self.timeout.map(|timeout| now + timeout.max(pto * 3));
    }
}

impl Connection {
    /// When [`handle_timeout`](Self::handle_timeout) must be called at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Closing(closing) => Some(closing.until),
            State::Draining { until } => Some(*until),
            State::Drained => None,
            State::Open => {
                let paths = self.paths.values().filter_map(|path| self.path_deadline(path));
                let others = [self.idle.deadline, self.handshake_deadline, self.key_deadline()];
                let others = others.into_iter().chain([self.next_duty(), self.rest.due()]);
                paths.chain(others.flatten()).min()
            }
        }
    }

    /// The deadline of what is under way or waits to be sent: all but those for the case that
    /// nothing happens any more.
    pub(super) fn next_duty(&self) -> Option<Instant> {
        let paths = self.paths.values().filter_map(|path| self.path_duty(path));
        paths.chain(self.handshake_deadline()).chain(self.repair.deadline()).min()
    }

    /// Acts on every deadline that has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        let ends = match &self.state {
            State::Closing(closing) => Some(closing.until),
            State::Draining { until } => Some(*until),
            State::Drained => return,
            State::Open => None,
        };
        if let Some(until) = ends {
            if until <= now {
                self.drain();
            }
            return;
        }
        let overdue = |deadline: Option<Instant>| deadline.is_some_and(|t| t <= now);
        if overdue(self.idle.deadline) || overdue(self.handshake_deadline) {
            return self.time_out();
        }
        self.handshake_timeouts(now);
        self.key_timeout(now);
        self.repair.on_deadline(now);
        let ids: smallvec::SmallVec<[PathId; 8]> = self.paths.keys().copied().collect();
        for id in ids {
            self.path_timeouts(now, id);
        }
        self.rest_if_due(now);
    }

    /// When a path's connection needs a packet, or the path is to be forgotten.
    fn path_deadline(&self, path: &Path) -> Option<Instant> {
        if path.is_closing() {
            return path.forget_at();
        }
        [self.keep_alive_deadline(path), self.silence_deadline(path)].into_iter().flatten().min()
    }

    fn path_duty(&self, path: &Path) -> Option<Instant> {
        if path.is_closing() {
            return None;
        }
        let may_ack = self.may_send_one_rtt() && path.may_ack();
        let ack = if may_ack { path.received().ack_deadline() } else { None };
        let packets = [ack, path.space().loss_time(), self.probe_deadline(path), path.paced_until()];
        let addresses = [path.challenge_deadline(), path.move_deadline()];
        packets.into_iter().chain(addresses).flatten().min()
    }

    /// When the path's un-ACKed packets are probed (RFC 9002 section 6.2.1).
    fn probe_deadline(&self, path: &Path) -> Option<Instant> {
        if !self.handshake.is_confirmed() || !path.awaits_ack() {
            return None;
        }
        path.probe_deadline(self.peer_max_ack_delay(), self.company_of(path.id()), self.urgency_of(path))
    }

    fn keep_alive_deadline(&self, path: &Path) -> Option<Instant> {
        let interval = Duration::from(self.config.keep_alive.filter(|interval| !interval.is_zero())?);
        if self.handshake.is_complete() { path.keep_alive_deadline(interval) } else { None }
    }

    fn path_timeouts(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get(&id) else { return };
        let due = |deadline: Option<Instant>| deadline.is_some_and(|t| t <= now);
        if path.is_closing() {
            if due(path.forget_at()) {
                self.remove_closed_path(id);
            }
            return;
        }
        let (lost, probe) = (due(path.space().loss_time()), due(self.probe_deadline(path)));
        let keep_alive = due(self.keep_alive_deadline(path));
        let silent = due(self.silence_deadline(path));
        let challenge = due(path.challenge_deadline());
        if lost {
            self.on_loss_timeout(now, Level::OneRtt, id);
        } else if probe {
            self.on_probe_timeout(now, id);
        }
        if challenge {
            self.repeat_challenge(now, id);
        }
        if self.paths.get_mut(&id).is_some_and(|p| p.on_move_timeout(now)) {
            self.settle_move(id);
        }
        if silent {
            self.on_silence(now, id);
        }
        let Some(path) = self.paths.get_mut(&id) else { return };
        if due(path.paced_until()) {
            path.forget_pacer();
        }
        if keep_alive {
            path.ask_for_probe();
            path.touch(now);
        }
    }

    /// The earliest deadline of Initial and Handshake packets: loss by age, or a probe.
    fn handshake_deadline(&self) -> Option<Instant> {
        let lost = self.handshake.spaces().filter_map(|s| s.space.loss_time()).min();
        lost.into_iter().chain(self.handshake_probe_deadline()).min()
    }

    /// Probe timeout of the handshake, shared by its two spaces. A client probes even with nothing
    /// in flight, because the server may be out of amplification budget (RFC 9002 section 6.2.2.1).
    fn handshake_probe_deadline(&self) -> Option<Instant> {
        if self.handshake.is_confirmed() || self.handshake.spaces().any(|s| s.probe_due) {
            return None;
        }
        let path = self.paths.of_handshake()?;
        let interval = self.handshake_probe_interval(path.rtt().pto_base(), path.pto_count());
        let in_flight = self.handshake.spaces().filter(|s| s.space.has_ack_eliciting_in_flight());
        let last = in_flight.filter_map(|s| s.space.last_ack_eliciting_at()).max();
        // A server that has acknowledged Finished can read what follows; HANDSHAKE_DONE may never
        // come by itself.
        let awaits_done = self.side == Side::Client
            && self.handshake.is_complete()
            && path.space().has_ack_eliciting_in_flight();
        let last = if awaits_done { last.or(path.space().last_ack_eliciting_at()) } else { last };
        let unanswered_client = self.side == Side::Client && !self.handshake.is_complete();
        let blocked_server = path.amplification_budget() == 0;
        match last {
            Some(last) if !blocked_server => Some(last + interval),
            None if unanswered_client => Some(path.last_activity() + interval),
            _ => None,
        }
    }

    fn handshake_timeouts(&mut self, now: Instant) {
        for level in [Level::Initial, Level::Handshake] {
            let lost = self.handshake.space(level).and_then(|s| s.space.loss_time());
            if lost.is_some_and(|t| t <= now) {
                self.on_loss_timeout(now, level, PathId::ZERO);
            }
        }
        self.copy_flight_if_due(now);
        if self.handshake_probe_deadline().is_some_and(|t| t <= now) {
            self.on_handshake_probe_timeout(now);
        }
    }

    /// Starts the idle period again (RFC 9000 section 10.1).
    pub(super) fn restart_idle_timer(&mut self, now: Instant) {
        let pto = |p: &Path| p.rtt().pto_base() + self.peer_max_ack_delay();
        let slowest = self.paths.values().map(pto).max().unwrap_or(Duration::ZERO);
        self.idle.restart(now, slowest);
        self.rest.put_off(now, slowest);
    }
}
