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
    Ack, Config, Controller, ControllerKind, CubicRules, Loss, PathWindow, State, aimd::Aimd,
    hystart::HyStart, original_hystart::OriginalHyStart,
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
    window: Aimd,
    curve: Curve,
    /// What the latest reduction overwrote of the curve (section 4.9).
    undo: Option<Box<Curve>>,
    hystart: Option<Box<SlowStartWatch>>,
    /// The part of a whole flow that this window is, above 0; 1 where nothing is coupled.
    part: f64,
}

/// What the cubic function grows from.
#[derive(Clone, Copy, Default, Debug)]
struct Curve {
    /// Where the last reduction began; `None` if congestion avoidance is (or will be) entered
    /// without one.
    w_max: Option<f64>,
    window_prior: f64,
    epoch: Option<Epoch>,
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

impl Cubic {
    /// A controller in slow start with the initial window.
    pub fn new(config: &Config) -> Self {
        Self {
            window: Aimd::new(config),
            curve: Curve::default(),
            undo: None,
            hystart: SlowStartWatch::new(config).map(Box::new),
            part: 1.0,
        }
    }

    /// What it was made with, for datagrams of the present size.
    pub(crate) fn config(&self) -> &Config {
        self.window.config()
    }

    /// The window is this part of a flow's, the rest of which grows elsewhere: with segments that
    /// are smaller by as much, all parts together grow as the curve of their sum does.
    pub(crate) fn set_part(&mut self, part: f64) {
        self.part = part;
        self.curve.epoch = None;
    }

    /// Where the window was before the last reduction is no aim any more.
    pub(crate) fn forget_plateau(&mut self) {
        self.curve = Curve { w_max: None, window_prior: self.window.window(), epoch: None };
        self.undo = None;
    }

    pub(crate) fn part(&self) -> f64 {
        self.part
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.window.in_slow_start()
    }

    /// Whether a loss of a packet sent at `sent_at` belongs to the reduction that was made last.
    pub(crate) fn covers(&self, sent_at: Instant) -> bool {
        self.window.covers(sent_at)
    }

    /// Goes on with slow start, without a threshold.
    pub(crate) fn resume_slow_start(&mut self) {
        self.window.resume_slow_start();
        self.curve.epoch = None;
    }

    /// Multiplicative decrease and fast convergence, sections 4.6 and 4.7.
    fn congestion_event(&mut self, now: Instant, sent_at: Instant) {
        self.reduce(now, sent_at, BETA);
    }

    /// The same with another factor.
    pub(crate) fn reduce(&mut self, now: Instant, sent_at: Instant, factor: f64) {
        let window = self.counted(self.window.window());
        let reduced = self.counted(window * factor).max(self.window.floor());
        if !self.window.reduce_to(now, sent_at, reduced) {
            return;
        }
        self.undo = Some(Box::new(self.curve));
        let yields = self.curve.w_max.is_some_and(|w_max| window < w_max);
        let w_max = if yields { window * (1.0 + factor) / 2.0 } else { window };
        self.curve = Curve { w_max: Some(w_max), window_prior: window, epoch: None };
    }

    /// The kernel counts its window in whole segments, and reduces it to two at least: at ten
    /// segments that is a tenth less on average.
    fn counted(&self, window: f64) -> f64 {
        match self.config().cubic_rules {
            CubicRules::Rfc9438 => window,
            CubicRules::Linux => (window / self.window.segment()).floor().max(2.0) * self.window.segment(),
        }
    }

    /// Slow start, with HyStart++ while the first one lasts. Returns the bytes that belong to
    /// congestion avoidance.
    fn slow_start(&mut self, bytes: f64) -> f64 {
        if self.window.has_threshold() {
            return self.window.slow_start(bytes);
        }
        let divisor = self.hystart.as_ref().map_or(1.0, |hystart| hystart.growth_divisor());
        self.window.slow_start(bytes / divisor)
    }

    /// Leaves the first slow start without a loss (RFC 9406; section 4.10).
    pub(crate) fn leave_first_slow_start(&mut self) {
        self.hystart = None;
        self.window.leave_slow_start();
        self.curve.window_prior = self.window.window();
    }

    /// Sections 4.2 to 4.5: the Reno-friendly, the concave and the convex region.
    fn congestion_avoidance(&mut self, ack: &Ack, bytes: f64) {
        let (segment, window) = (self.window.segment() * self.part, self.window.window());
        let Curve { w_max, window_prior, epoch } = &mut self.curve;
        let epoch = epoch.get_or_insert_with(|| Epoch::new(ack.now, window, *w_max, segment));
        epoch.resume(ack.now);
        epoch.last_ack = ack.now;
        *w_max = Some(epoch.w_max);

        let linux = self.window.config().cubic_rules == CubicRules::Linux;
        let alpha = if epoch.w_est >= *window_prior && !linux { 1.0 } else { ALPHA };
        epoch.w_est += alpha * segment * bytes / window;
        let elapsed = ack.now - epoch.start;
        if epoch.w_cubic(elapsed, segment) < epoch.w_est {
            self.window.raise(epoch.w_est);
        } else {
            let target = epoch.w_cubic(elapsed + ack.rtt.smoothed, segment).clamp(window, 1.5 * window);
            self.window.raise(window + (target - window) * (bytes / window).min(1.0));
        }
        if linux && epoch.unbounded {
            self.window.raise(window + UNBOUNDED_GROWTH * bytes);
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
        if let Some(epoch) = &mut self.curve.epoch {
            epoch.pause(epoch.last_ack);
            epoch.resume(now);
            epoch.last_ack = now;
        }
    }

    fn on_ack(&mut self, ack: &Ack, _group: &[PathWindow]) {
        self.window.note_ack(ack);
        let segments = self.window.window() / self.window.segment();
        let leaves = match &mut self.hystart {
            Some(hystart) if !self.window.has_threshold() => hystart.on_ack(ack, segments),
            _ => false,
        };
        if leaves {
            self.leave_first_slow_start();
        }
        if ack.app_limited {
            if let Some(epoch) = &mut self.curve.epoch {
                epoch.pause(ack.now);
                epoch.last_ack = ack.now;
            }
            return;
        }
        if self.window.covers(ack.largest_sent_at) {
            return;
        }
        let rest = self.slow_start(ack.bytes as f64);
        if rest > 0.0 {
            self.congestion_avoidance(ack, rest);
        }
    }

    fn on_loss(&mut self, loss: &Loss, _group: &[PathWindow]) {
        self.congestion_event(loss.now, loss.largest_sent_at);
    }

    fn on_persistent_congestion(&mut self, _now: Instant) {
        self.window.collapse();
        self.curve = Curve { w_max: None, epoch: None, ..self.curve };
        self.undo = None;
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        let Some(curve) = self.undo.take() else { return };
        self.window.undo();
        self.curve = *curve;
    }

    fn on_ecn_ce(&mut self, now: Instant, largest_sent: Instant) {
        self.congestion_event(now, largest_sent);
        self.window.confirm();
        self.undo = None;
    }

    fn on_mtu(&mut self, max_datagram_size: u64) {
        self.window.on_mtu(max_datagram_size);
    }

    fn set_window(&mut self, window: u64, ssthresh: Option<u64>) {
        self.window.set(window, ssthresh);
        self.curve = Curve { window_prior: self.window.window(), ..Curve::default() };
        self.undo = None;
    }

    fn window(&self) -> u64 {
        self.window.window() as u64
    }

    fn state(&self) -> State {
        self.window.state()
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
