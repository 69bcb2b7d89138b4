//! What the controllers of Reno's family and CUBIC share: a window with a slow start threshold, one
//! reduction per recovery period, and its undoing. How much to add and by what to multiply is
//! theirs.
//!
//! # Invariants
//! The window is never below the minimum, and is reduced at most once per recovery period.

use units::Instant;

use crate::{Ack, Config, Phase, State, recovery_period::RecoveryPeriod};

/// The largest initial window that datagrams larger than Ethernet's make, unless it is two of them
/// (RFC 9002 section 7.2).
const LARGEST_INITIAL: u64 = 14_720;

/// A congestion window in bytes, with fractions.
#[derive(Clone, Debug)]
pub(crate) struct Aimd {
    config: Config,
    window: f64,
    ssthresh: Option<f64>,
    recovery: RecoveryPeriod,
    /// Boxed, since most paths have none.
    undo: Option<Box<Undo>>,
    /// The window has only grown since it was the initial one, and nothing has said that it is
    /// enough: a new datagram size means another initial window.
    only_grown: bool,
}

/// What a reduction overwrote.
#[derive(Clone, Copy, Debug)]
struct Undo {
    window: f64,
    ssthresh: Option<f64>,
    recovery: RecoveryPeriod,
}

impl Aimd {
    /// The initial window, in slow start.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            config: *config,
            window: config.initial_window() as f64,
            ssthresh: None,
            recovery: RecoveryPeriod::default(),
            undo: None,
            only_grown: true,
        }
    }

    /// Takes an ACK of Reno's kind: slow start up to the threshold. Returns the bytes that
    /// congestion avoidance may grow by: none in the recovery period, or while the window is not
    /// put to use.
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> f64 {
        self.note_ack(ack);
        if ack.app_limited || self.recovery.covers(ack.largest_sent_at) {
            return 0.0;
        }
        self.slow_start(ack.bytes as f64)
    }

    /// Notes an ACK without growing.
    pub(crate) fn note_ack(&mut self, ack: &Ack) {
        self.recovery.on_ack(ack.largest_sent_at);
    }

    /// Slow start: grows by `bytes`, at most up to the threshold. Returns what is left over.
    pub(crate) fn slow_start(&mut self, bytes: f64) -> f64 {
        let room = self.ssthresh.map_or(f64::INFINITY, |ssthresh| (ssthresh - self.window).max(0.0));
        let used = bytes.min(room);
        self.window += used;
        bytes - used
    }

    /// Changes the window by `bytes`, of either sign.
    pub(crate) fn add(&mut self, bytes: f64) {
        self.window = (self.window + bytes).max(self.config.minimum_window() as f64);
    }

    /// Grows to `window` bytes, if that is more.
    pub(crate) fn raise(&mut self, window: f64) {
        self.window = self.window.max(window);
    }

    /// Whether a loss of a packet sent at `sent_at` belongs to the reduction that was made last.
    pub(crate) fn covers(&self, sent_at: Instant) -> bool {
        self.recovery.covers(sent_at)
    }

    /// Multiplies the window by `factor`, because of a packet sent at `sent_at`. Returns whether it
    /// did: within a recovery period it does not.
    pub(crate) fn reduce(&mut self, now: Instant, sent_at: Instant, factor: f64) -> bool {
        self.reduce_to(now, sent_at, self.window * factor)
    }

    /// The same, to `window` bytes.
    pub(crate) fn reduce_to(&mut self, now: Instant, sent_at: Instant, window: f64) -> bool {
        self.only_grown = false;
        if self.recovery.covers(sent_at) {
            return false;
        }
        let undo = Undo { window: self.window, ssthresh: self.ssthresh, recovery: self.recovery };
        self.undo = Some(Box::new(undo));
        self.recovery.begin(now);
        self.ssthresh = Some(window);
        self.window = window.max(self.floor());
        true
    }

    /// Leaves slow start here and now.
    pub(crate) fn leave_slow_start(&mut self) {
        self.only_grown = false;
        self.ssthresh = Some(self.window);
    }

    /// Goes on with slow start, without a threshold.
    pub(crate) fn resume_slow_start(&mut self) {
        self.ssthresh = None;
    }

    /// Sets window and threshold to `window` bytes, as when reductions turn out to have been
    /// mistakes.
    pub(crate) fn restore(&mut self, window: f64) {
        self.window = self.window.max(window);
        self.ssthresh = Some(self.window);
        self.undo = None;
    }

    /// Sets window and threshold from outside.
    pub(crate) fn set(&mut self, window: u64, ssthresh: Option<u64>) {
        self.only_grown = false;
        self.window = (window as f64).max(self.floor());
        self.ssthresh = ssthresh.map(|ssthresh| ssthresh as f64);
        self.undo = None;
    }

    /// Persistent congestion: the smallest window (RFC 9002 section 7.6.2).
    pub(crate) fn collapse(&mut self) {
        self.only_grown = false;
        self.window = self.config.minimum_window() as f64;
        self.undo = None;
        self.recovery.clear();
    }

    /// Takes the latest reduction back.
    pub(crate) fn undo(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        self.window = self.window.max(undo.window);
        self.ssthresh = undo.ssthresh;
        self.recovery = undo.recovery;
    }

    /// The latest reduction was no mistake, whatever becomes of the packets that were declared
    /// lost.
    pub(crate) fn confirm(&mut self) {
        self.undo = None;
    }

    /// The maximum datagram size has changed, and with it the initial window (RFC 9002 section 7.2);
    /// what has been added to that stays. Else the first round trips of a connection, which begins
    /// with packets of 1,200 bytes, would carry a sixth less than those of TCP.
    pub(crate) fn on_mtu(&mut self, max_datagram_size: u64) {
        let before = self.initial_by_rfc();
        self.config.max_datagram_size = max_datagram_size;
        let shift = if self.only_grown { self.initial_by_rfc() - before } else { 0.0 };
        self.add(shift);
    }

    /// The initial window within the limit for large datagrams.
    fn initial_by_rfc(&self) -> f64 {
        self.config.initial_window().min(LARGEST_INITIAL.max(self.config.minimum_window())) as f64
    }

    /// The window in bytes.
    pub(crate) fn window(&self) -> f64 {
        self.window
    }

    /// What the window was made with, for datagrams of the present size.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The smallest window in bytes.
    pub(crate) fn floor(&self) -> f64 {
        self.config.minimum_window() as f64
    }

    /// The initial window in bytes.
    pub(crate) fn initial(&self) -> u64 {
        self.config.initial_window()
    }

    /// One packet in bytes.
    pub(crate) fn segment(&self) -> f64 {
        self.config.max_datagram_size as f64
    }

    /// Whether slow start has ended before, so that it has a threshold now.
    pub(crate) fn has_threshold(&self) -> bool {
        self.ssthresh.is_some()
    }

    /// Whether the window is below the threshold.
    pub(crate) fn in_slow_start(&self) -> bool {
        self.ssthresh.is_none_or(|ssthresh| self.window < ssthresh)
    }

    /// The state, for statistics.
    pub(crate) fn state(&self) -> State {
        let phase = if self.recovery.is_open() {
            Phase::Recovery
        } else if self.in_slow_start() {
            Phase::SlowStart
        } else {
            Phase::CongestionAvoidance
        };
        State { phase, ssthresh: self.ssthresh.map(|ssthresh| ssthresh as u64), window: self.window as u64 }
    }
}
