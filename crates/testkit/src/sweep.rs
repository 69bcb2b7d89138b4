//! Many seeds on all cores: what failed, and what was exercised.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use proto::{ConnectionStats, PathStats};

use crate::{
    Failure, Outcome, Scenario,
    run::{run, run_twice},
    shrink::shrink,
};

/// Runs that a failing scenario is made smaller with.
const SHRINK_BUDGET: u32 = 600;

/// Which seeds are run, and how.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The seeds.
    pub seeds: Range<u64>,
    /// Threads; 0 takes one per core.
    pub jobs: usize,
    /// Every so many seeds one is run twice, and both runs must be the same; 0 never.
    pub twice_every: u64,
    /// No further seed is begun after so many failures.
    pub max_failures: usize,
}

/// A scenario that failed.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Its seed.
    pub seed: u64,
    /// How.
    pub failure: Failure,
    /// The smallest scenario that fails likewise.
    pub shrunk: Scenario,
}

/// What a sweep found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Failures, in order of their seeds.
    pub failed: Vec<Failed>,
    /// How many scenarios ran.
    pub runs: u64,
    /// Every seed below this one has been run.
    pub next_seed: u64,
    /// In how many scenarios each operation and each event was seen.
    pub seen: BTreeMap<&'static str, u64>,
}

impl Sweep {
    /// Runs the seeds. `progress` is told how many are done, from any thread.
    pub fn run(&self, progress: impl Fn(u64) + Sync) -> Report {
        let (next, done) = (AtomicU64::new(self.seeds.start), AtomicU64::new(0));
        let enough = AtomicBool::new(false);
        let report = Mutex::new(Report::default());
        let jobs = match self.jobs {
            0 => thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    let mut seen = BTreeMap::new();
                    while !enough.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= self.seeds.end {
                            break;
                        }
                        if let Some(failed) = self.run_seed(seed, &mut seen) {
                            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                            report.failed.push(failed);
                            enough.fetch_or(report.failed.len() >= self.max_failures, Ordering::Relaxed);
                        }
                        progress(done.fetch_add(1, Ordering::Relaxed) + 1);
                    }
                    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                    seen.into_iter().for_each(|(what, n)| *report.seen.entry(what).or_default() += n);
                });
            }
        });
        let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.failed.sort_by_key(|failed| failed.seed);
        report.runs = done.into_inner();
        // Seeds are begun in order, and whatever was begun is finished.
        report.next_seed = next.into_inner().min(self.seeds.end);
        report
    }

    fn run_seed(&self, seed: u64, seen: &mut BTreeMap<&'static str, u64>) -> Option<Failed> {
        let scenario = Scenario::generate(seed);
        let twice = self.twice_every > 0 && seed.is_multiple_of(self.twice_every);
        let result = if twice { run_twice(&scenario) } else { run(&scenario) };
        match result {
            Ok(outcome) => {
                note(&scenario, &outcome, seen);
                None
            }
            Err(failure) => {
                let shrunk = shrink_failure(&scenario, &failure);
                Some(Failed { seed, failure, shrunk })
            }
        }
    }
}

/// The smallest scenario that fails like `failure`.
pub fn shrink_failure(scenario: &Scenario, failure: &Failure) -> Scenario {
    let again = if matches!(failure, Failure::Differs { .. }) { run_twice } else { run };
    shrink(scenario, SHRINK_BUDGET, |candidate| {
        again(candidate).is_err_and(|other| other.kind() == failure.kind())
    })
}

/// Counts what a scenario asked for and what happened.
fn note(scenario: &Scenario, outcome: &Outcome, seen: &mut BTreeMap<&'static str, u64>) {
    let mut names: Vec<_> = scenario.operations.iter().map(|(_, operation)| operation.name()).collect();
    names.extend(outcome.seen.iter().copied());
    names.extend(EVENTS.iter().filter(|event| outcome.stats.iter().any(event.1)).map(|event| event.0));
    let paths = || outcome.paths.iter().flatten();
    names.extend(PATH_EVENTS.iter().filter(|event| paths().any(event.1)).map(|event| event.0));
    names.sort_unstable();
    names.dedup();
    names.into_iter().for_each(|name| *seen.entry(name).or_default() += 1);
}

/// Something that may have happened, and how statistics show it.
type Event<T> = (&'static str, fn(&T) -> bool);

/// What statistics at the end tell of a run.
const EVENTS: &[Event<ConnectionStats>] = &[
    ("~ packet lost", |s| s.packets_lost > 0),
    ("~ copy sent", |s| s.copies_sent > 0),
    ("~ copy behind the probes of a timeout", |s| s.reasons.after_silence > 0),
    ("~ repair symbol sent", |s| s.repair_symbols_sent > 0),
    ("~ packet rebuilt by the decoder", |s| s.packets_rebuilt > 0),
    ("~ loss mended before it was noticed", |s| s.packets_mended > 0),
    ("~ repair symbol wasted", |s| s.repair_symbols_wasted > 0),
    ("~ keys updated", |s| s.key_updates > 0),
    ("~ datagram dropped unread", |s| s.datagrams_dropped > 0),
    ("~ malformed packet received", |s| s.malformed_packets > 0),
];

const PATH_EVENTS: &[Event<PathStats>] = &[
    ("~ packet unprotected for want of memory", |p| p.packets_unprotected > 0),
    ("~ several paths", |p| p.id.0 > 0),
    ("~ four paths or more opened", |p| p.id.0 > 3),
    ("~ congestion marks used", |p| p.ecn == proto::EcnState::Capable),
    ("~ congestion marks failed validation", |p| p.ecn == proto::EcnState::Failed),
    ("~ CE marks reported", |p| p.ecn_ce > 0),
    ("~ MTU raised", |p| p.mtu > 1_200),
    ("~ MTU beyond Ethernet's", |p| p.mtu > 1_500),
];
