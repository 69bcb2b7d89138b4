//! The picture of a run.

use figures::{Axis, Chart, Layer, Sheet, whole};
use tokio::time::Instant;

use super::{
    growth::Sample,
    ledger::{Kind, Ledger},
    stage::Role,
};
use crate::soak::Args;

/// Points in a line: more would not be seen.
const POINTS: usize = 600;
/// Slices of time over which throughput is averaged, in minutes.
const SLICE: f64 = 0.5;
/// A download counts as small up to this many bytes.
const SMALL: u64 = 60_000;

/// The figure of a run that began then, as SVG.
pub fn draw(args: &Args, began: Instant, samples: &[Sample], ledger: &Ledger) -> String {
    let minutes = args.minutes as f64;
    let time = || Axis::new("time (min)", 0.0, minutes);

    let memory = both(samples, |sample, role| sample.mib(role));
    let memory = chart("Resident memory", time(), "resident memory (MiB)", memory);
    let descriptors = both(samples, |sample, role| sample.ends[role as usize].descriptors as f64);
    let descriptors = chart("Open descriptors", time(), "open descriptors", descriptors);

    let minute = |ended: Instant| ended.saturating_duration_since(began).as_secs_f64() / 60.0;
    let slices = (minutes / SLICE) as usize;
    let mut carried = [vec![0.0; slices + 1], vec![0.0; slices + 1]];
    let mut small = Vec::new();
    for (ended, kind, bytes, took) in &ledger.successes() {
        let at = minute(*ended);
        let series = match kind {
            Kind::Download => 0,
            Kind::Upload => 1,
            Kind::Association | Kind::Unread => continue,
        };
        carried[series][((at / SLICE) as usize).min(slices)] += *bytes as f64 * 8.0 / 1e6 / (SLICE * 60.0);
        // What was under way at the end is beyond the axis.
        if *kind == Kind::Download && *bytes <= SMALL && at <= minutes {
            small.push((at, took.as_secs_f64() * 1e3));
        }
    }
    let lines = (0..).zip(carried).map(|(series, values)| {
        let points = values.iter().take(slices).enumerate();
        let points = points.map(|(at, value)| ((at as f64 + 0.5) * SLICE, *value)).collect();
        Layer::Line { series: series + 2, points }
    });
    let throughput = chart("Throughput", time(), "bytes that arrived whole (Mbit/s)", lines.collect());
    let slowest = small.iter().map(|(_, ms)| *ms).fold(1_000.0, f64::max);
    let times = Chart {
        label: "Times of small downloads",
        x: time(),
        y: Axis::new("time of downloads up to 60 kB (ms)", 10.0, slowest).log(),
        layers: vec![Layer::Dots { series: 4, points: small }],
    };
    let conditions = format!(
        "Two paths of {} and {} round trip, each losing {} in each direction; one or the other cut now and then; each end killed and started again four times. Seed {}.",
        args.rate, args.rtt, args.loss, args.seed
    );
    Sheet {
        title: "Mixed load for a long time",
        notes: &[&conditions],
        panels: &[
            ("(a) memory", &memory),
            ("(b) descriptors", &descriptors),
            ("(c) throughput", &throughput),
            ("(d) small downloads", &times),
        ],
        key: &["server", "client", "downloads", "uploads", "a download"],
    }
    .svg()
}

/// A line for each end.
fn both(samples: &[Sample], value: impl Fn(&Sample, Role) -> f64) -> Vec<Layer> {
    let step = samples.len().div_ceil(POINTS).max(1);
    let line = |role: Role| {
        let points = samples.iter().step_by(step);
        let points = points.map(|sample| (sample.at.as_secs_f64() / 60.0, value(sample, role))).collect();
        Layer::Line { series: role as usize, points }
    };
    Role::BOTH.map(line).to_vec()
}

/// A chart from 0 to a little more than its highest point.
fn chart<'a>(label: &'a str, x: Axis<'a>, title: &'a str, layers: Vec<Layer>) -> Chart<'a> {
    let highest = layers.iter().flat_map(|layer| match layer {
        Layer::Line { points, .. } => points.iter().map(|(_, y)| *y).collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let top = highest.fold(1.0, f64::max) * 1.1;
    Chart { label, x, y: Axis::new(title, 0.0, top).labelled(whole), layers }
}
