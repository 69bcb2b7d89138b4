//! What experiments say of each pair of paths: a sequential test of two hypotheses.
//!
//! | symbol  | here           |                                                          |
//! |---------|----------------|----------------------------------------------------------|
//! | H1      | [`Pair::shared`] | they share a bottleneck: d_B = d_A                     |
//! | H0      | not so         | they do not: d_B = 0                                     |
//! | Lambda  | `ratio`        | ln p(d_B given H1) - ln p(d_B given H0), both normal     |
//! | score   | [`Pair::score`] | sum of Lambda, each no more than [`MOST_WEIGHT`]        |
//!
//! With normal distributions of variance s^2, Lambda = d_A (2 d_B - d_A) / (2 s^2) (Wald's
//! sequential probability ratio test). s^2 is what both means vary by themselves, and a fifth of
//! d_A on top: a hold is no exact instrument.
//!
//! # Invariants
//! No single experiment decides. A decision is taken back only when the evidence for it is used
//! up.

use units::{Duration, Instant};

use super::watch::Falls;

/// The most that one experiment says: e^2 against 1.
const MOST_WEIGHT: f64 = 2.0;
/// Score from which on a bottleneck is shared, and the most there is.
const SHARED: f64 = 5.0;
const MOST: f64 = 6.0;
/// The least score there is, which says that it is not.
const LEAST: f64 = -4.0;
/// How inexact a hold is, as a share of the fall.
const INEXACT: f64 = 0.2;
/// What a result that says nothing takes from the score.
const DOUBT: f64 = 0.25;
/// Weight of one experiment in how far delays change apart.
const APART_GAIN: f64 = 0.25;
/// How long an experiment is evidence enough.
const LIFETIME: Duration = Duration::from_secs(60);

/// What is known of two paths.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// In order.
    paths: [u32; 2],
    score: f64,
    shared: bool,
    /// Variance of how far their delays change apart without a hold, in s^2.
    apart: f64,
    weighed_at: Instant,
}

impl Pair {
    fn is_settled(&self, now: Instant) -> bool {
        let clear = if self.shared { self.score >= SHARED } else { self.score <= LEAST };
        clear && now.saturating_duration_since(self.weighed_at) < LIFETIME
    }
}

/// Lambda for a fall of `other` where the held path's is `own`. What is twice that and more has
/// another reason, and says nothing.
fn ratio(own: f64, other: f64, variance: f64, apart: f64) -> f64 {
    if other.abs() >= 2.0 * own.abs() {
        return 0.0;
    }
    let inexact = INEXACT * INEXACT * own * own;
    let separate = other * other / variance.max(inexact);
    let shared = (other - own) * (other - own) / (apart + inexact).max(1e-12);
    ((separate - shared) / 2.0).clamp(-2.0 * MOST_WEIGHT, 2.0 * MOST_WEIGHT)
}

/// What is known of all pairs of paths that have been compared.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    pairs: Vec<Pair>,
}

impl Evidence {
    /// Weighs one experiment: by how much delays fell, the held path's first, and what the other's
    /// varies by itself, in s^2.
    pub(super) fn weigh(&mut self, now: Instant, paths: [u32; 2], falls: [Falls; 2], variance: f64) {
        let [own, other] = falls;
        let pair = self.pair(now, paths, variance * 2.0);
        let apart = other.control - own.control;
        pair.apart += (apart * apart - pair.apart) * APART_GAIN;
        let held = ratio(own.held, other.held, variance, pair.apart);
        let control = ratio(own.control, other.control, variance, pair.apart);
        let weight = (held - control - DOUBT).clamp(-MOST_WEIGHT, MOST_WEIGHT);
        pair.weighed_at = now;
        pair.score = (pair.score + weight).clamp(LEAST, MOST);
        pair.shared = if pair.shared { pair.score > 0.0 } else { pair.score >= SHARED };
    }

    fn pair(&mut self, now: Instant, [a, b]: [u32; 2], apart: f64) -> &mut Pair {
        let paths = [a.min(b), a.max(b)];
        let at = self.pairs.iter().position(|pair| pair.paths == paths).unwrap_or_else(|| {
            self.pairs.push(Pair { paths, score: 0.0, shared: false, apart, weighed_at: now });
            self.pairs.len() - 1
        });
        &mut self.pairs[at]
    }

    /// Whether all pairs of these paths are known about, and lately.
    pub(super) fn is_settled(&self, now: Instant, paths: impl Iterator<Item = u32>) -> bool {
        let paths: Vec<u32> = paths.collect();
        let settled = |a: u32, b: u32| {
            let wanted = [a.min(b), a.max(b)];
            self.pairs.iter().any(|pair| pair.paths == wanted && pair.is_settled(now))
        };
        paths.iter().enumerate().all(|(i, &a)| paths[..i].iter().all(|&b| settled(a, b)))
    }

    /// See [`Bottlenecks::group`](super::Bottlenecks::group).
    pub(super) fn group(&self, path: u32) -> Option<u32> {
        let shared = || self.pairs.iter().filter(|pair| pair.shared);
        if !shared().any(|pair| pair.paths.contains(&path)) {
            return None;
        }
        // Each round adds a path at least, or is the last.
        let mut group = vec![path];
        loop {
            let before = group.len();
            for pair in shared() {
                for (own, other) in [(0, 1), (1, 0)] {
                    if group.contains(&pair.paths[own]) && !group.contains(&pair.paths[other]) {
                        group.push(pair.paths[other]);
                    }
                }
            }
            if group.len() == before {
                return group.into_iter().min();
            }
        }
    }

    pub(super) fn forget(&mut self, path: u32) {
        self.pairs.retain(|pair| !pair.paths.contains(&path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Instant = Instant::ORIGIN;

    fn falls(control: f64, held: f64) -> Falls {
        Falls { control: control * 1e-3, held: held * 1e-3 }
    }

    /// Weighs an experiment on paths 0 and 1 several times, with falls in ms and a variance of
    /// 1 ms^2; the score.
    fn score(times: usize, own: Falls, other: Falls) -> f64 {
        let mut evidence = Evidence::default();
        (0..times).for_each(|_| evidence.weigh(AT, [1, 0], [own, other], 1e-6));
        evidence.pairs[0].score
    }

    #[test]
    fn worked_example() {
        // d_A = 4 ms, d_B = 4 ms against a deviation of 1 ms: Lambda is 8 for a perfect instrument,
        // and no experiment says more than 2.
        assert_eq!(score(1, falls(0.0, 4.0), falls(0.0, 4.0)), 2.0);
        assert_eq!(score(1, falls(0.0, 4.0), falls(0.0, 0.0)), -2.0);
        // d_B = 1 ms: 1/2 - 9 / (2 (1.5 + 0.64)), one tenth above the middle.
        assert!((-2.0..-1.8).contains(&score(1, falls(0.0, 4.0), falls(0.0, 1.0))));
        // Four times as much has another reason.
        assert_eq!(score(1, falls(0.0, 4.0), falls(0.0, 16.0)), -DOUBT);
    }

    #[test]
    fn what_the_control_shows_as_well_is_no_evidence() {
        // Delays rise and fall together all the time, as those of ACKs on one way back do.
        let both = falls(4.0, 4.0);
        assert_eq!(score(1, both, both), -DOUBT);
        assert_eq!(score(100, both, both), LEAST);
    }

    #[test]
    fn three_experiments_decide_and_three_take_it_back() {
        let mut evidence = Evidence::default();
        let (own, same, none) = (falls(0.0, 4.0), falls(0.0, 4.0), falls(0.0, 0.0));
        let shared = |evidence: &mut Evidence, other| {
            evidence.weigh(AT, [0, 1], [own, other], 1e-6);
            evidence.group(1) == Some(0)
        };
        assert_eq!([same; 3].map(|other| shared(&mut evidence, other)), [false, false, true]);
        assert_eq!([none; 3].map(|other| shared(&mut evidence, other)), [true, true, false]);
        (0..9).for_each(|_| _ = shared(&mut evidence, none));
        assert_eq!([same; 5].map(|other| shared(&mut evidence, other)), [false, false, false, false, true]);
    }

    #[test]
    fn groups_join_by_way_of_a_third_and_part_when_it_is_forgotten() {
        let mut evidence = Evidence::default();
        for pair in [[5, 3], [3, 8], [1, 2]] {
            (0..3).for_each(|_| evidence.weigh(AT, pair, [falls(0.0, 4.0); 2], 1e-6));
        }
        let groups = |evidence: &Evidence| [1, 2, 3, 4, 5, 8].map(|path| evidence.group(path));
        assert_eq!(groups(&evidence), [Some(1), Some(1), Some(3), None, Some(3), Some(3)]);
        evidence.forget(3);
        assert_eq!(groups(&evidence), [Some(1), Some(1), None, None, None, None]);
    }

    #[test]
    fn old_evidence_settles_nothing() {
        let mut evidence = Evidence::default();
        (0..3).for_each(|_| evidence.weigh(AT, [0, 1], [falls(0.0, 4.0); 2], 1e-6));
        assert!(evidence.is_settled(AT, [0, 1].into_iter()));
        assert!(!evidence.is_settled(AT, [0, 1, 2].into_iter()), "nothing is known of path 2");
        assert!(!evidence.is_settled(AT + LIFETIME, [0, 1].into_iter()));
        assert_eq!(evidence.group(1), Some(0), "yet it stands");
    }
}
