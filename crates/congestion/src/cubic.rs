//! CUBIC, RFC 9438, on the loss events of RFC 9002.
//!
//! | RFC 9438              | here                                     | unit         |
//! |-----------------------|------------------------------------------|--------------|
//! | C                     | `C`                                      | segments/s^3 |
//! | beta_cubic            | `BETA`                                   | none         |
//! | alpha_cubic           | `ALPHA`                                  | none         |
//! | cwnd, ssthresh        | `window`, `ssthresh`                     | bytes        |
//! | W_max, cwnd_prior     | `w_max`, `window_prior`                  | bytes        |
//! | t_epoch, K, W_est     | `Epoch::start`, `Epoch::k`, `Epoch::w_est` | time, s, bytes |
//! | W_cubic(t)            | `Epoch::w_cubic`                         | bytes        |
//! | segments_acked        | bytes acknowledged                       | bytes        |
//!
//! # Departures
//! - The window itself is reduced, not the bytes in flight (section 4.6 allows it for a sender that
//!   does not grow an unused window, and this one does not).
//! - In the Reno-friendly region the window is never lowered to W_est: it may be a little above,
//!   having followed W_cubic(t + RTT) until then.
//! - [`CubicRules::Linux`] is the kernel's CUBIC where it differs, for the simulator.
//! - Persistent congestion stands for the timeout of section 4.8, with RFC 9002's minimum window.
//!
//! # Invariants
//! The window is never below the minimum, falls at most once per recovery period, and never falls
//! on an ACK.

use units::{Duration, Instant};

use crate::{
    Ack, Config, Controller, ControllerKind, CubicRules, Loss, PathWindow, Phase, State, hystart::HyStart,
    original_hystart::OriginalHyStart, recovery_period::RecoveryPeriod,
};

/// Aggressiveness of the cubic function, in segments per cubic second (RFC 9438 section 5.1).
const C: f64 = 0.4;
/// What loss multiplies the window by (section 4.6).
pub(crate) const BETA: f64 = 0.7;
/// Additive increase that gives Reno's average window with [`BETA`] (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// [`CubicRules::Linux`]: the least growth before the first reduction, as a share of what is acknowledged.
const UNBOUNDED_GROWTH: f64 = 0.05;

/// RFC 9438's controller: the window follows a cubic function of the time since the last reduction.
#[derive(Clone, Debug)]
pub struct Cubic {
    config: Config,
    window: f64,
    ssthresh: Option<f64>,
    /// Where the last reduction began; `None` if congestion avoidance is (or will be) entered
    /// without one.
    w_max: Option<f64>,
    window_prior: f64,
    epoch: Option<Epoch>,
    recovery: RecoveryPeriod,
    hystart: Option<SlowStartWatch>,
    undo: Option<Undo>,
    /// Nothing has been acknowledged or lost yet, so that a new datagram size means a new initial
    /// window.
    fresh: bool,
}

/// What may end the first slow start without a loss.
#[derive(Clone, Debug)]
enum SlowStartWatch {
    PlusPlus(HyStart),
    Original(OriginalHyStart),
}

impl SlowStartWatch {
    fn new(config: &Config) -> Option<Self> {
        match config.cubic_rules {
            CubicRules::Linux => Some(Self::Original(OriginalHyStart::default())),
            CubicRules::Rfc9438 => config.hystart.then(|| Self::PlusPlus(HyStart::default())),
        }
    }

    /// Whether slow start ends with this acknowledgement, at a window of `window` segments.
    fn on_ack(&mut self, ack: &Ack, window: f64) -> bool {
        match self {
            Self::PlusPlus(hystart) => hystart.on_ack(ack),
            Self::Original(hystart) => hystart.on_ack(ack, window),
        }
    }

    fn growth_divisor(&self) -> f64 {
        if let Self::PlusPlus(hystart) = self { hystart.growth_divisor() } else { 1.0 }
    }
}

/// One stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Its start, moved forward by periods in which the window was not put to use.
    start: Instant,
    /// Seconds from the start until the window is back at `w_max`.
    k: f64,
    w_max: f64,
    /// No reduction has shown yet how large the window may become.
    unbounded: bool,
    /// Reno's window, for the Reno-friendly region.
    w_est: f64,
    last_ack: Instant,
    limited_since: Option<Instant>,
}

/// What a reduction overwrote (section 4.9).
#[derive(Clone, Copy, Debug)]
struct Undo {
    window: f64,
    ssthresh: Option<f64>,
    w_max: Option<f64>,
    window_prior: f64,
    epoch: Option<Epoch>,
    recovery: RecoveryPeriod,
}

impl Cubic {
    /// A controller in slow start with the initial window.
    pub fn new(config: &Config) -> Self {
        Self {
            config: *config,
            window: config.initial_window() as f64,
            ssthresh: None,
            w_max: None,
            window_prior: 0.0,
            epoch: None,
            recovery: RecoveryPeriod::default(),
            hystart: SlowStartWatch::new(config),
            undo: None,
            fresh: true,
        }
    }

    fn segment(&self) -> f64 {
        self.config.max_datagram_size as f64
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.ssthresh.is_none_or(|ssthresh| self.window < ssthresh)
    }

    /// Whether a loss of a packet sent at `sent_at` belongs to the reduction that was made last.
    pub(crate) fn covers(&self, sent_at: Instant) -> bool {
        self.recovery.covers(sent_at)
    }

    /// Goes on with slow start, without a threshold.
    pub(crate) fn resume_slow_start(&mut self) {
        self.ssthresh = None;
        self.epoch = None;
    }

    /// Multiplicative decrease and fast convergence, sections 4.6 and 4.7.
    fn congestion_event(&mut self, now: Instant, sent_at: Instant) {
        self.reduce(now, sent_at, BETA);
    }

    /// The same with another factor.
    pub(crate) fn reduce(&mut self, now: Instant, sent_at: Instant, factor: f64) {
        self.fresh = false;
        if self.recovery.covers(sent_at) {
            return;
        }
        self.undo = Some(Undo {
            window: self.window,
            ssthresh: self.ssthresh,
            w_max: self.w_max,
            window_prior: self.window_prior,
            epoch: self.epoch,
            recovery: self.recovery,
        });
        self.recovery.begin(now);
        self.window = self.counted(self.window);
        let yields = self.w_max.is_some_and(|w_max| self.window < w_max);
        self.w_max = Some(if yields { self.window * (1.0 + factor) / 2.0 } else { self.window });
        self.window_prior = self.window;
        self.window = self.counted(self.window * factor).max(self.config.minimum_window() as f64);
        self.ssthresh = Some(self.window);
        self.epoch = None;
    }

    /// The kernel counts its window in whole segments, and reduces it to two at least: at ten
    /// segments that is a tenth less on average.
    fn counted(&self, window: f64) -> f64 {
        match self.config.cubic_rules {
            CubicRules::Rfc9438 => window,
            CubicRules::Linux => (window / self.segment()).floor().max(2.0) * self.segment(),
        }
    }

    /// Slow start, with HyStart++ while the first one lasts. Returns the bytes that belong to
    /// congestion avoidance.
    fn slow_start(&mut self, ack: &Ack) -> f64 {
        let bytes = ack.bytes as f64;
        if let Some(ssthresh) = self.ssthresh {
            let used = bytes.min(ssthresh - self.window).max(0.0);
            self.window += used;
            return bytes - used;
        }
        let divisor = self.hystart.as_ref().map_or(1.0, SlowStartWatch::growth_divisor);
        self.window += bytes / divisor;
        0.0
    }

    /// Leaves the first slow start without a loss (RFC 9406; section 4.10).
    pub(crate) fn leave_first_slow_start(&mut self) {
        self.hystart = None;
        self.ssthresh = Some(self.window);
        self.window_prior = self.window;
    }

    /// Sections 4.2 to 4.5: the Reno-friendly, the concave and the convex region.
    fn congestion_avoidance(&mut self, ack: &Ack, bytes: f64) {
        let (segment, window, w_max) = (self.segment(), self.window, self.w_max);
        let epoch = self.epoch.get_or_insert_with(|| Epoch::new(ack.now, window, w_max, segment));
        epoch.resume(ack.now);
        epoch.last_ack = ack.now;
        self.w_max = Some(epoch.w_max);

        let linux = self.config.cubic_rules == CubicRules::Linux;
        let alpha = if epoch.w_est >= self.window_prior && !linux { 1.0 } else { ALPHA };
        epoch.w_est += alpha * segment * bytes / window;
        let elapsed = ack.now - epoch.start;
        if epoch.w_cubic(elapsed, segment) < epoch.w_est {
            self.window = window.max(epoch.w_est);
        } else {
            let target = epoch.w_cubic(elapsed + ack.rtt.smoothed, segment).clamp(window, 1.5 * window);
            self.window = window + (target - window) * (bytes / window).min(1.0);
        }
        if linux && epoch.unbounded {
            self.window = self.window.max(window + UNBOUNDED_GROWTH * bytes);
        }
    }
}

impl Epoch {
    /// Congestion avoidance starts with `window`. Without a larger `w_max` behind it, the plateau
    /// is right here (sections 4.8 and 4.10).
    fn new(now: Instant, window: f64, w_max: Option<f64>, segment: f64) -> Self {
        let (unbounded, w_max) = (w_max.is_none(), w_max.unwrap_or(window).max(window));
        let k = cube_root((w_max - window) / segment / C);
        Self { start: now, k, w_max, unbounded, w_est: window, last_ack: now, limited_since: None }
    }

    /// Equation 1, in bytes.
    fn w_cubic(&self, elapsed: Duration, segment: f64) -> f64 {
        let t = elapsed.as_secs_f64() - self.k;
        C * segment * t * t * t + self.w_max
    }

    /// Time stands still while the application does not fill the window (section 5.8).
    fn pause(&mut self, now: Instant) {
        self.limited_since.get_or_insert(now);
    }

    fn resume(&mut self, now: Instant) {
        if let Some(since) = self.limited_since.take() {
            self.start += now - since;
        }
    }
}

impl Controller for Cubic {
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        // The first packet after an idle period: the silence since the last ACK is no time of
        // congestion avoidance.
        if in_flight > bytes {
            return;
        }
        if let Some(epoch) = &mut self.epoch {
            epoch.pause(epoch.last_ack);
            epoch.resume(now);
            epoch.last_ack = now;
        }
    }

    fn on_ack(&mut self, ack: &Ack, _group: &[PathWindow]) {
        self.fresh = false;
        self.recovery.on_ack(ack.largest_sent_at);
        let segments = self.window / self.segment();
        let leaves = match &mut self.hystart {
            Some(hystart) if self.ssthresh.is_none() => hystart.on_ack(ack, segments),
            _ => false,
        };
        if leaves {
            self.leave_first_slow_start();
        }
        if ack.app_limited {
            if let Some(epoch) = &mut self.epoch {
                epoch.pause(ack.now);
                epoch.last_ack = ack.now;
            }
            return;
        }
        if self.recovery.covers(ack.largest_sent_at) {
            return;
        }
        let rest = if self.in_slow_start() { self.slow_start(ack) } else { ack.bytes as f64 };
        if rest > 0.0 {
            self.congestion_avoidance(ack, rest);
        }
    }

    fn on_loss(&mut self, loss: &Loss, _group: &[PathWindow]) {
        self.congestion_event(loss.now, loss.largest_sent_at);
    }

    fn on_persistent_congestion(&mut self, _now: Instant) {
        self.window = self.config.minimum_window() as f64;
        self.w_max = None;
        self.epoch = None;
        self.undo = None;
        self.recovery.clear();
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        let Some(undo) = self.undo.take() else { return };
        self.window = self.window.max(undo.window);
        self.ssthresh = undo.ssthresh;
        self.w_max = undo.w_max;
        self.window_prior = undo.window_prior;
        self.epoch = undo.epoch;
        self.recovery = undo.recovery;
    }

    fn on_ecn_ce(&mut self, now: Instant, largest_sent: Instant) {
        self.congestion_event(now, largest_sent);
        self.undo = None; // a mark is never a mistake, even if the losses beside it were
    }

    fn on_mtu(&mut self, max_datagram_size: u64) {
        self.config.max_datagram_size = max_datagram_size;
        if self.fresh {
            self.window = self.config.initial_window() as f64;
        } else {
            self.window = self.window.max(self.config.minimum_window() as f64);
        }
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn state(&self) -> State {
        let phase = if self.recovery.is_open() {
            Phase::Recovery
        } else if self.in_slow_start() {
            Phase::SlowStart
        } else {
            Phase::CongestionAvoidance
        };
        State { phase, ssthresh: self.ssthresh.map(|ssthresh| ssthresh as u64), window: self.window() }
    }

    fn kind(&self) -> ControllerKind {
        ControllerKind::Cubic
    }
}

/// Cube root of a non-negative number. The standard library's differs from platform to platform in
/// the last bit, which would make two runs of one scenario diverge.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    // A third of the exponent is within a few per cent of the root; each Newton step doubles the
    // correct digits.
    let mut root = f64::from_bits(x.to_bits() / 3 + 0x2a9f_7893_0000_0000);
    for _ in 0..5 {
        root -= (root - x / (root * root)) / 3.0;
    }
    root
}

#[cfg(test)]
mod tests;
