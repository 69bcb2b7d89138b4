//! One path's delays during an experiment.

use units::{Duration, Instant};

use super::Load;
use crate::Ack;

/// Samples that a span needs for its mean to count.
const LEAST_SAMPLES: u32 = 4;
/// Weight of one cycle in the variance of means.
const NOISE_GAIN: f64 = 0.25;
/// What means vary by before anything is known, as a share of the smallest round-trip time.
const FIRST_NOISE: f64 = 1.0 / 16.0;
/// The least that they vary by, in seconds: timers and batches of packets.
const LEAST_NOISE: f64 = 0.0002;
/// What of the queue a hold takes out, and the most and the least of the window.
const TAKEN: f64 = 0.75;
const MOST: f64 = 0.5;
const LEAST: f64 = 0.04;
/// Least share of what it takes out that a held path's own queue is taken to fall by.
const LEAST_PART: f64 = 0.2;
/// The least fall that is worth a hold, in seconds.
const LEAST_FALL: f64 = 0.0004;
/// What of its window another path must have kept: less explains a shorter queue.
const KEPT: f64 = 0.95;

/// The spans of a cycle in which delays are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    /// Well before the hold, to see what changes by itself.
    Earlier,
    /// Right before the hold.
    Before,
    /// In the hold, once it shows.
    During,
}

/// By how much a path's mean delay fell, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Falls {
    /// From span to span without a hold.
    pub(super) control: f64,
    /// In the hold.
    pub(super) held: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    seconds: f64,
    samples: u32,
}

impl Mean {
    fn get(&self) -> Option<f64> {
        (self.samples >= LEAST_SAMPLES).then(|| self.seconds / f64::from(self.samples))
    }
}

/// What is known of a path.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub(super) path: u32,
    heard_at: Instant,
    smoothed: Duration,
    min: Duration,
    /// Mean deviation of the round-trip time.
    variance: Duration,
    load: Option<Load>,
    /// Window when the hold began.
    window: u64,
    /// The path's share of what the queue held, as the last hold of it showed.
    part: f64,
    /// How much less than its window it was held to last.
    taken: Duration,
    held_at: Option<Instant>,
    /// Nothing can be told of it in this cycle.
    spoilt: bool,
    /// When the cycle began it could.
    began_well: bool,
    means: [Mean; 3],
    /// Variance of means, in s^2.
    noise: Option<f64>,
}

impl Watch {
    pub(super) fn new(path: u32) -> Self {
        Self {
            path,
            heard_at: Instant::ORIGIN,
            smoothed: Duration::ZERO,
            min: Duration::ZERO,
            variance: Duration::ZERO,
            load: None,
            window: 0,
            part: 1.0,
            taken: Duration::ZERO,
            held_at: None,
            spoilt: true,
            began_well: false,
            means: [Mean::default(); 3],
            noise: None,
        }
    }

    /// Takes an ACK, whose sample belongs to `span`.
    pub(super) fn on_ack(&mut self, ack: &Ack, load: Load, span: Option<Span>) {
        self.heard_at = ack.now;
        (self.smoothed, self.min, self.variance) = (ack.rtt.smoothed, ack.rtt.min, ack.rtt.variance);
        self.spoilt |= !load.steady || (load.window as f64) < KEPT * self.window as f64;
        self.load = Some(load);
        if let Some(span) = span
            && !ack.adjusted_rtt.is_zero()
        {
            let mean = &mut self.means[span as usize];
            mean.seconds += ack.adjusted_rtt.as_secs_f64();
            mean.samples += 1;
        }
    }

    pub(super) fn is_heard(&self, now: Instant, silence: Duration) -> bool {
        now.saturating_duration_since(self.heard_at) <= silence.max(self.smoothed * 4)
    }

    pub(super) fn is_steady(&self) -> bool {
        self.load.is_some_and(|load| load.steady)
    }

    pub(super) fn smoothed(&self) -> Duration {
        self.smoothed
    }

    pub(super) fn held_at(&self) -> Option<Instant> {
        self.held_at
    }

    /// A cycle begins.
    pub(super) fn begin(&mut self) {
        self.means = [Mean::default(); 3];
        self.began_well = self.is_steady();
        self.spoilt = !self.began_well;
        self.note_window();
    }

    /// The hold of some path begins.
    pub(super) fn note_window(&mut self) {
        self.window = self.load.map_or(0, |load| load.window);
    }

    /// What of the round-trip time is queue, and not jitter.
    fn queue(&self) -> Duration {
        self.smoothed.saturating_sub(self.min).saturating_sub(self.variance * 2)
    }

    /// The share of its window that takes out most of the queue that it sees: more where others
    /// are known to stand in it.
    fn share_to_take(&self) -> f64 {
        let share = self.queue().as_secs_f64() / self.smoothed.as_secs_f64().max(1e-6);
        (TAKEN * share / self.part).min(MOST)
    }

    /// Whether a hold of it would show.
    pub(super) fn may_be_held(&self) -> bool {
        let expected = TAKEN * self.queue().as_secs_f64() * self.part;
        !self.spoilt && self.share_to_take() >= LEAST && expected >= LEAST_FALL
    }

    /// It is held from now on; to how much.
    pub(super) fn hold(&mut self, now: Instant) -> u64 {
        let share = self.share_to_take();
        self.held_at = Some(now);
        self.taken = self.smoothed.mul_f64(share);
        let window = self.load.map_or(0, |load| load.window);
        // Less is what is asked for.
        self.window = 0;
        (window as f64 * (1.0 - share)) as u64
    }

    /// Whether nothing can be told of it in this cycle.
    pub(super) fn is_spoilt(&self) -> bool {
        self.spoilt
    }

    fn mean(&self, span: Span) -> Option<f64> {
        self.means[span as usize].get()
    }

    /// By how much the mean delay fell without and with the hold, in seconds, if both can be told.
    pub(super) fn falls(&self) -> Option<Falls> {
        if self.spoilt {
            return None;
        }
        let (earlier, before) = (self.mean(Span::Earlier)?, self.mean(Span::Before)?);
        Some(Falls { control: earlier - before, held: before - self.mean(Span::During)? })
    }

    /// Whether it can be compared with others in this cycle.
    pub(super) fn is_compared(&self) -> bool {
        self.falls().is_some()
    }

    /// Whether something is to be found out about it: it can be compared, or could, had nothing
    /// happened to its window meanwhile.
    pub(super) fn is_in_question(&self) -> bool {
        self.is_compared() || (self.began_well && self.spoilt)
    }

    /// Takes into account by how much the mean changed without a hold.
    pub(super) fn learn_noise(&mut self) {
        if let Some(falls) = self.falls() {
            let known = self.noise();
            self.noise = Some(known + (falls.control * falls.control - known) * NOISE_GAIN);
        }
    }

    /// Variance of a fall without a hold, in s^2.
    pub(super) fn noise(&self) -> f64 {
        let first = self.min.as_secs_f64() * FIRST_NOISE;
        self.noise.unwrap_or(first * first).max(LEAST_NOISE * LEAST_NOISE)
    }

    /// The same of the path that was held, if it is clear that the hold was felt. Learns which part
    /// of the queue was its own.
    pub(super) fn own_falls(&mut self) -> Option<Falls> {
        let falls = self.falls()?;
        let part = falls.held / self.taken.as_secs_f64().max(1e-6);
        self.part = (self.part + (part - self.part) / 2.0).clamp(LEAST_PART, 1.0);
        (falls.held > 0.0 && falls.held * falls.held >= self.noise()).then_some(falls)
    }
}
