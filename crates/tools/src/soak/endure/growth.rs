//! Whether memory grows while an end lives.
//!
//! A process that starts takes what it needs; what counts is what comes after. So the first quarter
//! of every life is left out, a line is laid through the rest of each (least squares), and the
//! lives are compared: their slopes are independent of each other, which samples a second apart are
//! not, so that their spread says how sure the mean is.

use std::time::Duration;

use super::{
    LIVES,
    stage::{Look, Role},
};
use crate::soak::print;

/// What was seen at some time.
pub struct Sample {
    /// Since the beginning.
    pub at: Duration,
    /// In the order of [`Role::BOTH`].
    pub ends: [Look; 2],
}

impl Sample {
    /// Resident memory of an end in MiB.
    pub fn mib(&self, role: Role) -> f64 {
        self.ends[role as usize].memory.get() as f64 / f64::from(1 << 20)
    }
}

/// Samples that a life must have after its first quarter for its slope to count.
const ENOUGH: usize = 10;

/// Quantiles of Student's distribution, 97.5 %, for 1 to 7 degrees of freedom.
const STUDENT: [f64; 7] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365];

/// How an end's memory went.
pub struct Growth {
    /// MiB per hour, of each life.
    slopes: Vec<f64>,
    /// MiB at 10 %, 50 % and 100 % of the time.
    at: [f64; 3],
}

impl Growth {
    /// Of the samples of one end.
    pub fn of(samples: &[Sample], role: Role) -> Self {
        let lives = (0..LIVES).map(|life| {
            let of_life = samples.iter().filter(|sample| sample.ends[role as usize].life == life);
            let points: Vec<_> =
                of_life.map(|sample| (sample.at.as_secs_f64() / 3_600.0, sample.mib(role))).collect();
            let later = points.split_off_quarter();
            (later.len() >= ENOUGH).then(|| slope(&later))
        });
        let place = |share: f64| {
            let index = ((samples.len().saturating_sub(1)) as f64 * share) as usize;
            samples.get(index).map_or(f64::NAN, |sample| sample.mib(role))
        };
        Self { slopes: lives.flatten().collect(), at: [0.1, 0.5, 1.0].map(place) }
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
        print(format_args!(
            "{}: {early:.1} MiB at 10 % of the time, {middle:.1} at 50 %, {late:.1} at the end; grows by {mean:+.1} +- {half:.1} MiB an hour (95 %, {} lives)",
            role.name(),
            self.slopes.len()
        ));
    }
}

trait Later {
    /// What comes after the first quarter.
    fn split_off_quarter(self) -> Self;
}

impl Later for Vec<(f64, f64)> {
    fn split_off_quarter(mut self) -> Self {
        self.split_off(self.len() / 4)
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
