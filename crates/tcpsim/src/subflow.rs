//! One TCP connection's state machine, or one sub-flow's of MPTCP: loss detection, recovery,
//! timers. It decides; the connection sends.
//!
//! # Departures
//! - Losses and marks of one window reduce it once each, where RFC 3168 section 6.1.2 has one
//!   reduction for both: what loss reduces says no CWR, so that a mark which is still echoed when
//!   recovery ends counts once more.
//! - Without SACK duplicate acknowledgements of exactly what the last recovery was about may begin
//!   another; RFC 6582 section 3.2 (step 2) asks for more to be acknowledged than that, since they
//!   may be those of needless retransmissions.

use congestion::PathWindow;
use units::{Duration, Instant};

use crate::{
    Tcp,
    control::Control,
    own::Acked,
    prr::Prr,
    rack::Rack,
    receiver::Receiver,
    rtt::RttEstimator,
    scoreboard::{EVER_RESENT, Scoreboard, Taken},
    segment::{DSACK, ECE, REPAIRED, Segment},
    transport::Alarm,
};

/// What the sender is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Waits for the answer to its opening.
    Opening,
    /// Nothing is known to be lost.
    Open,
    /// Fast recovery, until everything sent before is acknowledged.
    Recovery,
    /// The retransmission timer ran out; likewise.
    Loss,
}

/// What an acknowledgement brought.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Outcome {
    pub(crate) acked: u32,
    pub(crate) newly_sacked: u32,
    /// Fast recovery began: the first lost segment is sent again whatever the window says.
    pub(crate) entered: bool,
    /// Without SACK: a part of what recovery is about was acknowledged, the next missing segment is
    /// sent again at once (RFC 6582 section 3.2).
    pub(crate) partial: bool,
}

/// Both ends of a sub-flow.
#[derive(Debug)]
pub(crate) struct Subflow {
    pub(crate) phase: Phase,
    pub(crate) board: Scoreboard,
    pub(crate) control: Control,
    pub(crate) rtt: RttEstimator,
    /// Recovery ends when everything below is acknowledged.
    pub(crate) point: u32,
    /// The rescue retransmission of this recovery was used (RFC 6675 rule 4).
    pub(crate) rescued: bool,
    /// Retransmission timer.
    pub(crate) rto_at: Instant,
    /// Tail loss probe.
    pub(crate) probe_at: Instant,
    /// RACK's reordering timer.
    pub(crate) reorder_at: Instant,
    /// For the first of all these.
    pub(crate) alarm: Alarm,
    pub(crate) last_sent: Instant,
    /// Segments of the window that a scheme has taken for itself (SLP's duplicate).
    pub(crate) reserved: u32,
    /// The window was full when the sub-flow last tried to send.
    pub(crate) limited: bool,
    /// The next data segment says CWR.
    pub(crate) say_cwr: bool,
    /// Marks are answered again once this is acknowledged.
    cwr_point: u32,
    /// Number after the probe, and whether it was a retransmission (RFC 8985 section 7).
    probe: Option<(u32, bool)>,
    rack: Option<Box<Rack>>,
    /// Of the current fast recovery.
    prr: Option<Box<Prr>>,
    initial_window: u32,
    pub(crate) receiver: Receiver,
    /// No segment below could be proactively resent.
    pub(crate) resend_from: u32,
    /// Segments sent in all, data and retransmissions: zero means never used.
    pub(crate) transmitted: u64,
}

impl Subflow {
    pub(crate) fn new(tcp: &Tcp, window: u32) -> Self {
        Self {
            phase: if tcp.handshake { Phase::Opening } else { Phase::Open },
            board: Scoreboard::default(),
            control: Control::new(tcp, window),
            rtt: RttEstimator::default(),
            point: 0,
            rescued: false,
            rto_at: Instant::MAX,
            probe_at: Instant::MAX,
            reorder_at: Instant::MAX,
            alarm: Alarm::default(),
            last_sent: Instant::ORIGIN,
            reserved: 0,
            limited: false,
            say_cwr: false,
            cwr_point: 0,
            probe: None,
            rack: tcp.rack.then(Box::default),
            prr: None,
            initial_window: window,
            receiver: Receiver::new(),
            resend_from: 0,
            transmitted: 0,
        }
    }

    /// Room in the window, in segments.
    #[inline]
    pub(crate) fn room(&self, tcp: &Tcp) -> u32 {
        let pipe = if tcp.limited_transmit || self.phase != Phase::Open {
            self.board.pipe()
        } else {
            self.board.flight()
        };
        // With nothing in flight one segment may always leave (SLP-A8).
        let window = self.prr.as_ref().map_or_else(|| self.control.window(), |prr| prr.window);
        let taken = if pipe == 0 { self.reserved.min(window - 1) } else { self.reserved };
        window.saturating_sub(pipe + taken)
    }

    /// Whether it may take new data now. While lost segments wait, they go first.
    #[inline]
    pub(crate) fn takes_data(&mut self, tcp: &Tcp) -> bool {
        self.phase != Phase::Opening && self.room(tcp) > 0 && self.board.next_lost().is_none()
    }

    /// DupThresh, or less at the end of what there is to send (RFC 5827 section 3.2).
    fn threshold(&self, tcp: &Tcp, more_data: bool) -> u32 {
        let outstanding = self.board.flight();
        if tcp.early_retransmit && !more_data && (2..=tcp.dup_thresh).contains(&outstanding) {
            outstanding - 1
        } else {
            tcp.dup_thresh
        }
    }

    /// The next deadline.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Instant {
        self.rto_at.min(self.probe_at).min(self.reorder_at).min(self.receiver.ack_at)
    }

    /// An acknowledgement arrived. `more_data`: there is something new to send.
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        tcp: &Tcp,
        now: Instant,
        ack: &Segment,
        more_data: bool,
        group: &[PathWindow],
    ) -> Outcome {
        if ack.seq > self.board.nxt {
            return Outcome::default();
        }
        let (flight, delivered, lost) = (self.board.flight(), self.board.delivered(), self.board.lost());
        let (taken, newly_sacked, sacked_from) = self.take_in(tcp, now, ack);
        let mut outcome = Outcome { acked: taken.segments, newly_sacked, ..Outcome::default() };
        if !tcp.sack {
            let (is_duplicate, partial) = self.count_duplicates(tcp, &taken, more_data);
            outcome.newly_sacked += u32::from(is_duplicate);
            outcome.partial = partial;
        } else if ack.sacks > 0 || self.board.sacked() > 0 || self.board.resent() > 0 {
            self.detect(tcp, now, more_data);
        }
        self.on_probe_acked(now, ack, group);
        let acked = Acked {
            now,
            segments: taken.segments,
            sent_at: taken.sent_at,
            flight,
            limited: self.limited,
            in_recovery: self.phase == Phase::Recovery,
            marked: ack.has(ECE),
        };
        outcome.entered = self.change_phase(tcp, now, group);
        if let Some(prr) = &mut self.prr {
            let (newly, board) = (self.board.delivered() - delivered, &self.board);
            prr.on_ack(newly, board.pipe(), self.transmitted, taken.segments > 0 && board.lost() <= lost);
        }
        if taken.segments > 0 && !outcome.entered {
            self.control.on_ack(&acked, &self.rtt, group);
        }
        if ack.has(ECE | REPAIRED) {
            self.on_echo(now);
        }
        let of_before_the_head =
            |sent_at| self.board.segment(self.board.una).is_none_or(|head| sent_at < head.at);
        let restarts = taken.segments > 0 || sacked_from.is_some_and(of_before_the_head);
        self.rearm(tcp, now, restarts);
        outcome
    }

    /// NewReno without SACK (RFC 6582): whether this was a duplicate acknowledgement, and whether it
    /// was a partial one. After a timeout neither counts until what was outstanding is through.
    fn count_duplicates(&mut self, tcp: &Tcp, taken: &Taken, more_data: bool) -> (bool, bool) {
        let is_duplicate = taken.segments == 0 && self.board.flight() > 0 && self.phase != Phase::Loss;
        if is_duplicate {
            let count = self.board.on_duplicate();
            if self.phase == Phase::Open && count >= self.threshold(tcp, more_data) {
                self.board.mark_lost(self.board.una);
            }
        } else if self.phase == Phase::Recovery && self.board.una < self.point {
            self.board.on_partial(taken.segments);
            return (false, true);
        } else {
            self.board.forget_duplicates();
        }
        (is_duplicate, false)
    }

    /// Takes out what arrived, with the samples of the round-trip time. Besides what was taken out,
    /// how many segments are newly SACKed, and when the first of them was sent if the SACKs' timing
    /// counts.
    #[inline]
    fn take_in(&mut self, tcp: &Tcp, now: Instant, ack: &Segment) -> (Taken, u32, Option<Instant>) {
        let taken = self.board.acknowledge(ack.seq);
        if let Some(sent_at) = taken.sample_from {
            self.rtt.sample(now - sent_at);
        }
        if taken.segments > 0 {
            self.rtt.reset_backoff();
        }
        if let Some(rack) = &mut self.rack {
            rack.on_acked(now, &taken, &self.rtt);
        }
        let (newly, first) = if ack.sacks > 0 { self.on_sack(now, ack) } else { (0, None) };
        let first = if tcp.sack_timing && taken.segments == 0 { first } else { None };
        if let Some(sent_at) = first {
            self.rtt.sample(now - sent_at);
        }
        (taken, newly, first)
    }

    /// How many segments are newly SACKed, and when the first of those was sent that were sent only
    /// once.
    fn on_sack(&mut self, now: Instant, ack: &Segment) -> (u32, Option<Instant>) {
        let (mut fresh, mut first) = (0, None::<Instant>);
        for (from, to) in ack.sack_blocks() {
            let (rack, rtt, high) = (&mut self.rack, &self.rtt, self.board.high_sacked());
            fresh += self.board.sack(from, to, |seq, sent| {
                if !sent.has(EVER_RESENT) {
                    first = Some(first.map_or(sent.at, |first| first.min(sent.at)));
                }
                if let Some(rack) = rack {
                    rack.on_sacked(now, seq, sent, seq < high, rtt);
                }
            });
        }
        (fresh, first)
    }

    /// RFC 6675's and RACK's rules.
    fn detect(&mut self, tcp: &Tcp, now: Instant, more_data: bool) {
        let threshold = self.threshold(tcp, more_data);
        self.board.detect_losses(threshold, tcp.fack);
        if let Some(rack) = &self.rack {
            let recovering = self.phase != Phase::Open || self.board.sacked() >= tcp.dup_thresh;
            self.reorder_at = rack.detect(&mut self.board, now, recovering, &self.rtt);
        }
    }

    /// RACK's timer: what was too early to be called lost may be lost now. True if fast recovery
    /// begins.
    pub(crate) fn on_reorder_timer(
        &mut self,
        tcp: &Tcp,
        now: Instant,
        more_data: bool,
        group: &[PathWindow],
    ) -> bool {
        self.reorder_at = Instant::MAX;
        self.detect(tcp, now, more_data);
        let begins = self.change_phase(tcp, now, group);
        if let Some(prr) = &mut self.prr
            && begins
        {
            prr.on_ack(1, self.board.pipe(), self.transmitted, false); // as Linux does; nothing was delivered
        }
        begins
    }

    /// Leaves a recovery that is complete, and enters one if something is lost. True if one begins.
    #[inline]
    fn change_phase(&mut self, tcp: &Tcp, now: Instant, group: &[PathWindow]) -> bool {
        if matches!(self.phase, Phase::Recovery | Phase::Loss) && self.board.una >= self.point {
            self.phase = Phase::Open;
            self.prr = None;
        }
        if self.phase != Phase::Open || self.board.lost() == 0 {
            return false;
        }
        self.phase = Phase::Recovery;
        self.point = self.board.nxt;
        self.board.high_rxt = self.board.una;
        self.rescued = false;
        let before = self.control.window();
        self.control.on_loss(now, self.board.flight(), &self.rtt, group);
        self.prr = tcp.prr.then(|| Box::new(Prr::new(before, self.control.window(), self.transmitted)));
        true
    }

    /// A mark, or a repaired loss, was echoed: one reduction per window (RFC 3168 section 6.1.2).
    fn on_echo(&mut self, now: Instant) {
        if self.phase != Phase::Open || self.board.una <= self.cwr_point {
            return;
        }
        self.control.on_mark(now, self.board.flight());
        self.cwr_point = self.board.nxt;
        self.say_cwr = true;
    }

    /// RFC 8985 section 7.4: a probe that repaired a loss hid it from congestion control.
    fn on_probe_acked(&mut self, now: Instant, ack: &Segment, group: &[PathWindow]) {
        let Some((end, again)) = self.probe else { return };
        if ack.has(DSACK) && ack.seq >= end {
            self.probe = None;
        } else if ack.seq > end {
            self.probe = None;
            if again && self.phase == Phase::Open {
                self.control.on_loss(now, self.board.flight(), &self.rtt, group);
            }
        } else if ack.seq == end && !again {
            self.probe = None;
        }
    }

    /// Timers after an acknowledgement (RFC 6298 section 5).
    #[inline]
    fn rearm(&mut self, tcp: &Tcp, now: Instant, advanced: bool) {
        if self.board.flight() == 0 {
            (self.rto_at, self.probe_at, self.reorder_at) = (Instant::MAX, Instant::MAX, Instant::MAX);
        } else if advanced {
            self.rto_at = now + self.rtt.rto(tcp);
        }
        self.arm_probe(tcp, now);
    }

    /// RFC 8985 section 7.2.
    fn arm_probe(&mut self, tcp: &Tcp, now: Instant) {
        let Some(tlp) = tcp.tlp else { return };
        let quiet = self.phase == Phase::Open && self.board.flight() > 0 && self.board.sacked() == 0;
        if !quiet || self.probe.is_some() || !self.rtt.has_sample() {
            self.probe_at = Instant::MAX;
            return;
        }
        let extra = if self.board.flight() == 1 { tlp.ack_delay } else { Duration::ZERO };
        let wait = (self.rtt.smoothed * 2 + extra).max(tlp.min);
        self.probe_at = (now + wait).min(self.rto_at);
    }

    /// A probe was sent: new data, or the last segment `again`.
    pub(crate) fn on_probe_sent(&mut self, tcp: &Tcp, now: Instant, again: bool) {
        self.probe = Some((self.board.nxt, again));
        self.probe_at = Instant::MAX;
        self.rto_at = now + self.rtt.rto(tcp);
    }

    /// A segment left; `first` if it is the lowest outstanding one.
    #[inline]
    pub(crate) fn on_sent(&mut self, tcp: &Tcp, now: Instant, first: bool) {
        self.last_sent = now;
        self.transmitted += 1;
        self.control.on_sent(now, self.board.pipe());
        if self.rto_at == Instant::MAX || first {
            self.rto_at = now + self.rtt.rto(tcp);
        }
        if tcp.tlp.is_some() {
            self.arm_probe(tcp, now);
        }
    }

    /// The retransmission timer ran out: everything outstanding is taken for lost, the window is
    /// one segment.
    pub(crate) fn on_timeout(&mut self, tcp: &Tcp, now: Instant) {
        let first = self.phase != Phase::Loss || self.board.una >= self.point;
        self.control.on_timeout(now, self.board.flight(), first, &self.rtt);
        self.phase = Phase::Loss;
        self.prr = None;
        self.point = self.board.nxt;
        self.board.mark_all_lost();
        self.board.forget_duplicates();
        self.rtt.back_off();
        self.rto_at = now + self.rtt.rto(tcp);
        (self.probe_at, self.reorder_at, self.probe) = (Instant::MAX, Instant::MAX, None);
    }

    /// About to send after a pause: the window shrinks if it was longer than an RTO (RFC 5681
    /// section 4.1).
    #[inline]
    pub(crate) fn restart_if_idle(&mut self, tcp: &Tcp, now: Instant) {
        if self.board.flight() > 0 || self.transmitted == 0 || !tcp.restart_after_idle {
            return;
        }
        let idle = now - self.last_sent;
        if idle > self.rtt.rto(tcp) {
            self.control.restart(tcp, self.initial_window, idle);
        }
    }

    /// What a coupled controller sees of it.
    pub(crate) fn path_window(&self, index: usize, mss: u16) -> PathWindow {
        PathWindow {
            path: index as u32,
            window: u64::from(self.control.window()) * u64::from(mss),
            in_flight: u64::from(self.board.pipe()) * u64::from(mss),
            smoothed_rtt: self.rtt.smoothed,
            slow_start: self.control.in_slow_start(),
            is_self: false,
            inter_loss: self.control.inter_loss(),
            ..PathWindow::default()
        }
    }
}
