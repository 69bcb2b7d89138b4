//! Whether memory grows while both ends live.
//!
//! A process that starts takes what it needs, and one whose peer has died holds the dead connection
//! beside the new one for a while; what counts is what comes after. So time is cut where either end
//! died, the first quarter of each stretch is left out, a line is laid through the rest (least
//! squares), and the stretches are compared: their slopes are independent of each other, which
//! samples a second apart are not, so that their spread says how sure the mean is.

use std::time::Duration;

use super::stage::{Look, Role};
use crate::soak::print;

/// What was seen at some time.
pub struct Sample {
    /// Since the beginning.
    pub at: Duration,
    /// In the order of [`Role::BOTH`].
    pub ends: [Look; 2],
}

impl Sample {
    /// How often each end had been started.
    fn lives(&self) -> [u32; 2] {
        self.ends.each_ref().map(|look| look.life)
    }

    /// Resident memory of an end in MiB.
    pub fn mib(&self, role: Role) -> f64 {
        self.ends[role as usize].memory.get() as f64 / f64::from(1 << 20)
    }
}

/// Samples that a stretch must have after its first quarter for its slope to count.
const ENOUGH: usize = 10;

/// Quantiles of Student's distribution, 97.5 %, for 1 to 8 degrees of freedom: two ends that die
/// four times each leave nine stretches.
const STUDENT: [f64; 8] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306];

/// How an end's memory went.
pub struct Growth {
    /// MiB per hour, of each stretch.
    slopes: Vec<f64>,
    /// MiB at 10 %, 50 % and 100 % of the time.
    at: [f64; 3],
}

impl Growth {
    /// Of the samples of one end.
    pub fn of(samples: &[Sample], role: Role) -> Self {
        let stretches = samples.chunk_by(|a, b| a.lives() == b.lives());
        let slopes = stretches.filter_map(|stretch| {
            let later = &stretch[stretch.len() / 4..];
            let point = |sample: &Sample| (sample.at.as_secs_f64() / 3_600.0, sample.mib(role));
            (later.len() >= ENOUGH).then(|| slope(&later.iter().map(point).collect::<Vec<_>>()))
        });
        let place = |share: f64| {
            let index = ((samples.len().saturating_sub(1)) as f64 * share) as usize;
            samples.get(index).map_or(f64::NAN, |sample| sample.mib(role))
        };
        Self { slopes: slopes.collect(), at: [0.1, 0.5, 1.0].map(place) }
    }

    /// The mean slope in MiB per hour, and half the width of its 95 % interval.
    fn estimate(&self) -> (f64, f64) {
        let n = self.slopes.len() as f64;
        let mean = self.slopes.iter().sum::<f64>() / n;
        let squares: f64 = self.slopes.iter().map(|slope| (slope - mean).powi(2)).sum();
        let Some(quantile) = self.slopes.len().checked_sub(2).and_then(|at| STUDENT.get(at)) else {
            return (mean, f64::INFINITY);
        };
        (mean, quantile * (squares / (n - 1.0) / n).sqrt())
    }

    /// Whether memory certainly grows faster than `limit` MiB per hour.
    pub fn exceeds(&self, limit: f64) -> bool {
        let (mean, half) = self.estimate();
        mean - half > limit
    }

    /// One line.
    pub fn print(&self, role: Role) {
        let [early, middle, late] = self.at;
        let (mean, half) = self.estimate();
        let growth = match self.slopes.len() {
            0 | 1 => "too short to tell whether it grows".to_owned(),
            stretches => {
                format!("grows by {mean:+.1} +- {half:.1} MiB an hour (95 %, {stretches} stretches)")
            }
        };
        print(format_args!(
            "{}: {early:.1} MiB at 10 % of the time, {middle:.1} at 50 %, {late:.1} at the end; {growth}",
            role.name()
        ));
    }
}

/// The slope of the line through the points with the least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let (x_mean, y_mean) =
        (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let above: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let below: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    above / below
}
