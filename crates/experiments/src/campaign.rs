//! All runs of a plan: over the cores, each kept when it is finished, none done twice.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use netsim::{Seed, TraceHash};
use plans::PlanError;
use thiserror::Error;

use crate::{
    journal::Journal,
    plan::Plan,
    point::{Point, Setting},
    row::Row,
    run::{Scenario, ScenarioError},
    shard::Shard,
    yardstick,
};

/// Most runs of a plan.
const MOST_RUNS: usize = 10_000_000;

/// Why an experiment ended.
#[derive(Debug, Error)]
pub enum CampaignError {
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// More than ten million runs.
    #[error("{runs} runs are too many: at most {MOST_RUNS}")]
    TooMany {
        /// How many the plan asks for.
        runs: usize,
    },
    /// A run.
    #[error("{scheme}, seed {seed}: {error}")]
    Scenario {
        /// The scheme's name.
        scheme: String,
        /// The seed.
        seed: u64,
        /// What went wrong.
        error: ScenarioError,
    },
    /// Somebody else does what is left of it.
    #[error("another run is adding to {}", file.display())]
    Taken {
        /// The file of its rows.
        file: PathBuf,
    },
    /// A file.
    #[error("{}: {error}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
}

impl CampaignError {
    /// Whether a run was ended in its midst.
    fn is_stopped(&self) -> bool {
        matches!(self, Self::Scenario { error: ScenarioError::Stopped, .. })
    }
}

/// How an experiment stands.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Runs done, those of earlier times included.
    pub done: usize,
    /// Runs in all.
    pub runs: usize,
}

/// One run to be done.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) point: usize,
    pub(crate) scheme: usize,
    pub(crate) seed: u64,
}

/// Where in the plan the run of a row is.
pub(crate) struct Places {
    runs: BTreeMap<String, usize>,
    metrics: Vec<String>,
}

impl Places {
    /// `None` if the plan does not ask for it, or a value is missing: somebody may have edited the file.
    pub(crate) fn of(&self, row: &Row) -> Option<usize> {
        let whole = row.metrics.iter().map(|(name, _)| name).eq(&self.metrics);
        let place = *self.runs.get(&key(&row.point, &row.scheme, &row.version, row.seed))?;
        whole.then_some(place)
    }
}

/// What tells a run from every other.
fn key(point: &[(String, Setting)], scheme: &str, version: &str, seed: u64) -> String {
    format!("{point:?} {scheme} {version} {seed}")
}

/// Appends rows that were made elsewhere to the file of a campaign's rows.
pub struct Keeper {
    journal: Journal,
    places: Places,
    plan_hash: String,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("journal", &self.journal).finish_non_exhaustive()
    }
}

impl Keeper {
    /// Keeps a batch.
    ///
    /// # Errors
    /// If a row is of a run that the plan does not have, or of another version, or the file cannot
    /// be written; in the former cases nothing is kept.
    pub fn keep(&mut self, rows: &[Row]) -> Result<(), CampaignError> {
        let file = self.journal.path().to_owned();
        let is_strange = |row: &&Row| row.plan_hash != self.plan_hash || self.places.of(row).is_none();
        if let Some(stranger) = rows.iter().find(is_strange) {
            let error = format!(
                "a row of {}, {}, is of no run of this plan and version",
                stranger.plan, stranger.version
            );
            return Err(CampaignError::File { file, error: io::Error::other(error) });
        }
        let failed = |error| CampaignError::File { file: file.clone(), error };
        rows.iter().try_for_each(|row| self.journal.add(row)).map_err(failed)
    }
}

/// A plan and where its rows are kept.
#[derive(Debug)]
pub struct Campaign<'a> {
    pub(crate) plan: Cow<'a, Plan>,
    points: Vec<Point>,
    scenarios: Vec<Vec<Scenario>>,
    /// Of each point and scheme, worked out when it is asked for.
    versions: Vec<Vec<OnceLock<String>>>,
    /// What else is a part of those, of each point.
    surroundings: Vec<OnceLock<u64>>,
    folder: PathBuf,
    pub(crate) journal: PathBuf,
    shard: Shard,
}

impl<'a> Campaign<'a> {
    /// Prepares a plan whose rows are kept in `folder`, which is made.
    ///
    /// # Errors
    /// If the plan is too large, or the folder cannot be made.
    pub fn new(plan: &'a Plan, folder: &Path) -> Result<Self, CampaignError> {
        Self::of(Cow::Borrowed(plan), folder)
    }

    /// The same with a plan of its own.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn owned(plan: Plan, folder: &Path) -> Result<Campaign<'static>, CampaignError> {
        Campaign::of(Cow::Owned(plan), folder)
    }

    fn of(plan: Cow<'a, Plan>, folder: &Path) -> Result<Self, CampaignError> {
        let points = Point::all(&plan.axes);
        let runs = points.len().saturating_mul(plan.schemes.len()).saturating_mul(plan.seeds as usize);
        if runs > MOST_RUNS {
            return Err(CampaignError::TooMany { runs });
        }
        let scenario = |point: &Point, scheme| plan.scenario(point, scheme, &mut Vec::new());
        let of_point = |point| (0..plan.schemes.len()).map(|scheme| scenario(point, scheme)).collect();
        let scenarios: Vec<Vec<Scenario>> = points.iter().map(of_point).collect::<Result<_, PlanError>>()?;
        let of_schemes = |_: &Point| plan.schemes.iter().map(|_| OnceLock::new()).collect();
        let versions: Vec<Vec<OnceLock<String>>> = points.iter().map(of_schemes).collect();
        let surroundings = points.iter().map(|_| OnceLock::new()).collect();
        std::fs::create_dir_all(folder)
            .map_err(|error| CampaignError::File { file: folder.to_owned(), error })?;
        let (folder, journal) = (folder.to_owned(), PathBuf::new());
        let shard = Shard::WHOLE;
        let whole = Self { plan, points, scenarios, versions, surroundings, folder, journal, shard };
        Ok(whole.shard(Shard::WHOLE))
    }

    /// Only this part of the runs, in a file of its own.
    #[must_use]
    pub fn shard(mut self, shard: Shard) -> Self {
        self.journal = self.folder.join(format!("rows-{}{}.jsonl", self.plan.hash_text(), shard.suffix()));
        self.shard = shard;
        self
    }

    /// The version of a point's rows of a scheme.
    fn version(&self, point: usize, scheme: usize) -> &str {
        let around = || {
            let mut hash = TraceHash::new();
            let words = [self.scenarios[point][0].surroundings(), yardstick::hash(&self.plan)];
            words.into_iter().for_each(|word| hash.record(word));
            hash.get()
        };
        self.versions[point][scheme].get_or_init(|| {
            let around = *self.surroundings[point].get_or_init(around);
            format!("{}.{around:016x}", self.scenarios[point][scheme].version())
        })
    }

    /// The file of the rows.
    pub fn journal(&self) -> &Path {
        &self.journal
    }

    /// The runs of the shard, in the order of the plan.
    pub(crate) fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for point in 0..self.points.len() {
            for scheme in 0..self.plan.schemes.len() {
                jobs.extend((1..=u64::from(self.plan.seeds)).map(|seed| Job { point, scheme, seed }));
            }
        }
        let mut place = 0..;
        jobs.retain(|_| place.next().is_some_and(|place| self.shard.has(place)));
        jobs
    }

    pub(crate) fn places(&self, jobs: &[Job]) -> Places {
        let key = |job: &Job| {
            let (point, version) = (&self.points[job.point], self.version(job.point, job.scheme));
            key(&point.values, &self.plan.schemes[job.scheme].name, version, job.seed)
        };
        let metrics = self.plan.metrics.iter().map(|metric| metric.name.clone()).collect();
        Places { runs: jobs.iter().map(key).zip(0..).collect(), metrics }
    }

    /// The rows that are known, each at the place of its job.
    fn in_place(&self, known: Vec<Row>, jobs: &[Job]) -> Vec<Option<Row>> {
        let mut rows: Vec<Option<Row>> = jobs.iter().map(|_| None).collect();
        let places = self.places(jobs);
        for row in known {
            if let Some(place) = places.of(&row) {
                rows[place] = Some(row);
            }
        }
        rows
    }

    /// Does what is left to do with `threads` threads and answers with all rows (of the shard), in
    /// the order of the plan. `look` sees every step; it may be called from any thread.
    ///
    /// # Errors
    /// At the first run or file that fails; what was finished is kept.
    pub fn run(&self, threads: usize, look: &(dyn Fn(Progress) + Sync)) -> Result<Vec<Row>, CampaignError> {
        self.run_while(threads, &|progress| {
            look(progress);
            true
        })
    }

    /// The same, but no run is begun after `go_on` has answered a step with false: then the rows are
    /// those that were finished, and the next time goes on from there. Runs under way are finished,
    /// unless the plan's [`Stop`](crate::Stop) ends them too.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_while(
        &self,
        threads: usize,
        go_on: &(dyn Fn(Progress) -> bool + Sync),
    ) -> Result<Vec<Row>, CampaignError> {
        let failed = |error| CampaignError::File { file: self.journal.clone(), error };
        let (journal, known) = Journal::open_alone(&self.journal).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => CampaignError::Taken { file: self.journal.clone() },
            _ => failed(error),
        })?;
        let jobs = self.jobs();
        let rows = self.in_place(known, &jobs);
        let todo: Vec<usize> = (0..jobs.len()).filter(|place| rows[*place].is_none()).collect();
        let state = Mutex::new((journal, rows, None));
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let done = AtomicUsize::new(jobs.len() - todo.len());
        let report = || {
            if !go_on(Progress { done: done.load(Ordering::Relaxed), runs: jobs.len() }) {
                stop.store(true, Ordering::Relaxed);
            }
            stop.load(Ordering::Relaxed)
        };
        report();
        let work = || {
            while !stop.load(Ordering::Relaxed)
                && let Some(&place) = todo.get(next.fetch_add(1, Ordering::Relaxed))
            {
                let found = self.row(&jobs[place]);
                if found.as_ref().is_err_and(CampaignError::is_stopped) && report() {
                    break; // as was asked for: what finished before counts
                }
                let mut state = state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let (journal, rows, first_error) = &mut *state;
                let kept = found.and_then(|row| journal.add(&row).map(|()| row).map_err(failed));
                match kept {
                    Ok(row) => rows[place] = Some(row),
                    Err(error) => {
                        stop.store(true, Ordering::Relaxed);
                        first_error.get_or_insert(error);
                    }
                }
                done.fetch_add(1, Ordering::Relaxed);
                report();
            }
        };
        std::thread::scope(|scope| {
            (0..threads.clamp(1, 1_024).min(todo.len().max(1))).for_each(|_| _ = scope.spawn(work));
        });
        let (_, rows, error) = state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        error.map_or_else(|| Ok(rows.into_iter().flatten().collect()), Err)
    }

    /// The numbers of the runs that are still to be done, in the order of the plan.
    ///
    /// # Errors
    /// If the file of the rows cannot be read.
    pub fn left(&self) -> Result<Vec<usize>, CampaignError> {
        let (_, known) = self.open()?;
        let jobs = self.jobs();
        let places = self.places(&jobs);
        let done: BTreeSet<usize> = known.iter().filter_map(|row| places.of(row)).collect();
        Ok((0..jobs.len()).filter(|place| !done.contains(place)).collect())
    }

    /// Does these runs and keeps nothing: somebody else [`keep`](Self::keep)s their rows. Numbers
    /// that the plan does not have are left out.
    ///
    /// # Errors
    /// At the first run that fails.
    pub fn run_these(&self, runs: &[usize]) -> Result<Vec<Row>, CampaignError> {
        let jobs = self.jobs();
        runs.iter().filter_map(|run| jobs.get(*run)).map(|job| self.row(job)).collect()
    }

    /// Keeps rows that were made elsewhere. Whoever keeps often has a [`keeper`](Self::keeper).
    ///
    /// # Errors
    /// If one is of a run that the plan does not have, or of another version, or the file cannot be
    /// written; then nothing is kept.
    pub fn keep(&self, rows: &[Row]) -> Result<(), CampaignError> {
        self.keeper()?.keep(rows)
    }

    /// What keeps rows that were made elsewhere, one batch after the other: reads the file of the
    /// rows once.
    ///
    /// # Errors
    /// If the file of the rows cannot be opened.
    pub fn keeper(&self) -> Result<Keeper, CampaignError> {
        let (journal, _) = self.open()?;
        Ok(Keeper { journal, places: self.places(&self.jobs()), plan_hash: self.plan.hash_text() })
    }

    fn open(&self) -> Result<(Journal, Vec<Row>), CampaignError> {
        let failed = |error| CampaignError::File { file: self.journal.clone(), error };
        Journal::open(&self.journal).map_err(failed)
    }

    fn row(&self, job: &Job) -> Result<Row, CampaignError> {
        let (point, entry) = (&self.points[job.point], &self.plan.schemes[job.scheme]);
        let scheme = &entry.name;
        let wrap = |error| CampaignError::Scenario { scheme: scheme.clone(), seed: job.seed, error };
        let outcome = self.scenarios[job.point][job.scheme].run(Seed(job.seed)).map_err(wrap)?;
        let metric = |metric: &crate::metrics::MetricUse| {
            let value = if entry.counts(point, metric) { metric.compute(&outcome) } else { None };
            (metric.name.clone(), value)
        };
        Ok(Row {
            plan: self.plan.name.clone(),
            plan_hash: self.plan.hash_text(),
            version: self.version(job.point, job.scheme).to_owned(),
            scheme: scheme.clone(),
            point: point.values.clone(),
            seed: job.seed,
            flows: outcome.flows.len() as u64,
            unfinished: outcome.unfinished(),
            trace: format!("{:016x}", outcome.trace),
            hops: outcome.hops,
            simulated_s: outcome.seconds,
            metrics: self.plan.metrics.iter().map(metric).collect(),
            distribution: if self.plan.distributions {
                crate::metrics::distribution(&outcome)
            } else {
                Vec::new()
            },
            counts: self.plan.counts(&outcome),
            times: self.plan.times(&outcome),
            timeline: if job.seed == 1 { outcome.timeline } else { Vec::new() },
            followed: if job.seed == 1 { outcome.followed } else { Vec::new() },
        })
    }
}

#[cfg(test)]
mod tests {
    use plans::Scale;

    use super::*;

    const PLAN: &str = r#"
        title = "One scheme"
        metrics = ["fct_mean_ms", "timeout_share"]
        topology = { kind = "parallel-paths", paths = 1, between = { rate_mbps = 10, queue_packets = 20 } }
        fault = [{ links = "paths", index = 0, loss = 0.1 }]
        workload = { kind = "spaced", from = "first", to = "second", flows = 20, apart_ms = 5, bytes = 90_000 }
        scheme = [{ kind = "tcp" }]
    "#;

    fn version(plan: &str) -> String {
        let plan = Plan::parse("p", plan, Scale::Quick).unwrap();
        let folder = tempfile::tempdir().unwrap();
        Campaign::new(&plan, folder.path()).unwrap().version(0, 0).to_owned()
    }

    /// What a plan changes here, a change of the simulator might. Rows of before must not be taken for those
    /// of after.
    #[test]
    fn queues_traffic_faults_and_metrics_are_a_part_of_a_rows_version() {
        let mut versions = BTreeSet::from([version(PLAN)]);
        for (from, to) in [
            ("queue_packets = 20", "queue_packets = 19"),
            (
                "queue_packets = 20",
                "queue_packets = 20, codel = true, codel_target_ms = 1, codel_interval_ms = 2",
            ),
            ("loss = 0.1", "loss = 0.2"),
            ("apart_ms = 5", "apart_ms = 6"),
            ("flows = 20", "flows = 21"),
            ("fct_mean_ms", "fct_p50_ms"),
        ] {
            let changed = PLAN.replace(from, to);
            assert!(changed != PLAN && versions.insert(version(&changed)), "{to}");
        }
        assert!(!versions.insert(version(PLAN)), "the same each time");
    }
}
