//! Which retransmissions are timeouts to the paper's method: the clustering that is used, and what
//! is done when it finds no two groups.

use serde::Serialize;
use units::Duration;

use crate::{
    bars::{bar, edge},
    clusters::{LEAST_SAMPLES, Scale, Split, Usable, two_means},
    counted::counted,
    options::Options,
    positions::share,
    retransmission::Retransmission,
    segment::TcpFlags,
};

/// Intervals from here on are timeouts when there are no two groups: the least retransmission
/// timeout of Linux, which adds it to the round-trip time.
const FALLBACK: Duration = Duration::from_millis(200);
/// A fast retransmission takes one or two round trips: a short group whose mean is more is none.
const FAST_ROUND_TRIPS: f64 = 3.0;
/// Not all holes of a window are filled in the first round trip: a boundary below two splits the
/// fast retransmissions.
const LEAST_THRESHOLD_ROUND_TRIPS: f64 = 2.0;
/// From this share of retransmissions with a known round trip on, round trips are clustered.
const KNOWN_ROUND_TRIPS: f64 = 0.9;
/// A split with more of its intervals near the threshold is not sharp.
const SHARP: f64 = 0.05;

/// How the paper's method tells timeouts from fast retransmissions.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Grouping {
    /// `clustering`, `fixed` (there were no two groups) or `given` by the user.
    pub by: &'static str,
    /// What was clustered; `null` unless `by` is `clustering`.
    pub scale: Option<Scale>,
    /// Longer intervals are timeouts. If `by` is `fixed`, the connection's round-trip time, if
    /// known, is added; if round trips were clustered, this is for connections whose round-trip
    /// time is not known.
    pub threshold_ms: f64,
    /// Intervals of more round trips are timeouts; `null` unless round trips were clustered.
    pub threshold_round_trips: Option<f64>,
    /// The split on each scale, used or not; `null` without intervals.
    pub splits: [Option<Split>; 3],
    /// Retransmissions that came within half a round trip, left out of what is clustered: a third
    /// group, which answers no loss of the packet before.
    pub too_soon: u64,
    /// Share of the retransmissions that the paper's linear and logarithmic scales group
    /// differently.
    pub scales_differ: Option<f64>,
    /// What was clustered (intervals in ms if nothing was): `[from, to, count]` of bars that are
    /// equally wide on the logarithmic scale.
    pub histogram: Vec<(f64, f64, u64)>,
}

impl Grouping {
    pub(crate) fn new(
        options: &Options,
        retransmissions: &[Retransmission],
        warnings: &mut Vec<String>,
    ) -> Self {
        let answers: Vec<&Retransmission> =
            retransmissions.iter().filter(|packet| !packet.is_too_soon()).collect();
        let too_soon = (retransmissions.len() - answers.len()) as u64;
        let intervals: Vec<f64> = answers.iter().map(|packet| packet.interval.as_millis_f64()).collect();
        // A SYN waits its second however near the other end is, so in round trips it would be a
        // third group.
        let behind_syn = || answers.iter().copied().filter(|packet| !packet.flags.has(TcpFlags::SYN));
        let round_trips: Vec<f64> = behind_syn().filter_map(Retransmission::round_trips).collect();
        let splits = Scale::ALL.map(|scale| match scale {
            Scale::RoundTrips => two_means(&round_trips, scale),
            _ => two_means(&intervals, scale),
        });
        let known = !round_trips.is_empty()
            && round_trips.len() as f64 >= KNOWN_ROUND_TRIPS * behind_syn().count() as f64;
        let chosen = choose(options, &splits, &answers, known);
        warnings.extend(too_soon_warning(too_soon, retransmissions.len()));
        warnings.extend(warning(options, &splits, chosen));
        let fallback = FALLBACK.as_millis_f64();
        let (threshold_ms, threshold_round_trips) = match (options.timeout_at, chosen) {
            (Some(given), _) => (given.as_millis_f64(), None),
            (None, Some(Split { scale: Scale::RoundTrips, threshold, .. })) => (fallback, Some(threshold)),
            (None, Some(split)) => (split.threshold, None),
            (None, None) => (fallback, None),
        };
        let by = match (options.timeout_at, chosen) {
            (Some(_), _) => "given",
            (None, Some(_)) => "clustering",
            (None, None) => "fixed",
        };
        let clustered = if threshold_round_trips.is_some() { &round_trips } else { &intervals };
        Self {
            by,
            scale: chosen.map(|split| split.scale),
            threshold_ms,
            threshold_round_trips,
            splits,
            too_soon,
            scales_differ: scales_differ(&splits, &intervals),
            histogram: histogram(clustered),
        }
    }

    /// Whether the packet is a timeout to the paper's method.
    pub fn is_timeout(&self, packet: &Retransmission) -> bool {
        let interval = packet.interval.as_millis_f64();
        match (self.threshold_round_trips, packet.round_trips()) {
            (Some(threshold), Some(round_trips)) => round_trips > threshold,
            (None, _) if self.by == "fixed" => {
                interval > self.threshold_ms + packet.round_trip.unwrap_or_default().as_millis_f64()
            }
            _ => interval > self.threshold_ms,
        }
    }
}

/// The split to be used; `None` if no one is usable, or the user knows better. `known` if round
/// trips are.
fn choose(
    options: &Options,
    splits: &[Option<Split>; 3],
    answers: &[&Retransmission],
    known: bool,
) -> Option<Split> {
    let usable = |scale: Scale| splits[scale as usize].filter(|split| split.usable == Usable::TwoGroups);
    let plausible = |split: &Split| !known || is_fast(split, answers);
    match (options.timeout_at, options.scale) {
        (Some(_), _) => None,
        (None, Some(scale)) => usable(scale),
        (None, None) => {
            let round_trips = usable(Scale::RoundTrips).filter(|split| known && plausible(split));
            round_trips.or(usable(Scale::Log10).filter(plausible))
        }
    }
}

/// Whether the short group of `split` can be fast retransmissions, by its round trips.
fn is_fast(split: &Split, answers: &[&Retransmission]) -> bool {
    if split.scale == Scale::RoundTrips {
        return split.means[0] < FAST_ROUND_TRIPS && split.threshold >= LEAST_THRESHOLD_ROUND_TRIPS;
    }
    let short = answers.iter().filter(|packet| packet.interval.as_millis_f64() <= split.threshold);
    let logarithms: Vec<f64> = short.filter_map(|packet| packet.round_trips()).map(f64::ln).collect();
    let mean = logarithms.iter().sum::<f64>() / (logarithms.len() as f64).max(1.0);
    mean.exp() < FAST_ROUND_TRIPS
}

fn warning(options: &Options, splits: &[Option<Split>; 3], chosen: Option<Split>) -> Option<String> {
    let any = splits[Scale::Log10 as usize]?;
    let fallback = FALLBACK.as_millis();
    if options.timeout_at.is_some() {
        return None;
    }
    let Some(split) = chosen else {
        let why = match any.usable {
            Usable::TooFew => {
                format!("There are fewer than {LEAST_SAMPLES} retransmissions, too few to cluster")
            }
            _ => "The intervals form no two groups".to_owned(),
        };
        return Some(format!("{why}: those above {fallback} ms and a round trip are taken for timeouts"));
    };
    if split.near > SHARP {
        return Some(format!(
            "{:.0} % of the intervals are within a factor of 1.25 of the threshold: the split between timeouts and fast \
             retransmissions is not sharp",
            split.near * 100.0
        ));
    }
    (split.scale != Scale::RoundTrips && split.means[1] < FALLBACK.as_millis_f64()).then(|| {
        format!(
            "The long group's mean is {:.0} ms, below the least retransmission timeout of Linux ({fallback} ms): unless these \
             hosts use a shorter one, both groups are fast retransmissions, of near and of far connections. --timeout-at sets the \
             boundary",
            split.means[1]
        )
    })
}

/// From this share of the retransmissions on, those that came too soon are worth a word.
const TOO_SOON_NOTED: f64 = 0.02;

fn too_soon_warning(too_soon: u64, all: usize) -> Option<String> {
    (too_soon as f64 > TOO_SOON_NOTED * all as f64).then(|| {
        format!(
            "{too_soon} of {} came within half a round trip of the packet before, too soon to answer its loss: they \
             count as fast ones, but are left out of the clusters",
            counted(all as u64, "retransmission")
        )
    })
}

fn scales_differ(splits: &[Option<Split>; 3], intervals: &[f64]) -> Option<f64> {
    let [Some(linear), Some(log), _] = splits else { return None };
    let differ = intervals.iter().filter(|&&ms| (ms > linear.threshold) != (ms > log.threshold)).count();
    share(differ as u64, intervals.len() as u64)
}

/// Counts in bars of a tenth of a decade.
fn histogram(values: &[f64]) -> Vec<(f64, f64, u64)> {
    let mut bars: std::collections::BTreeMap<i32, u64> = std::collections::BTreeMap::new();
    for &value in values {
        *bars.entry(bar(value)).or_default() += 1;
    }
    bars.into_iter().map(|(bar, count)| (edge(bar), edge(bar + 1), count)).collect()
}
