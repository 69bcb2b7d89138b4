//! Plans, and what comes of running them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use experiments::{
    Campaign, CampaignError, Columns, Data, Keeper, Parts, Plan, Point, Progress, Row, Scale, Shard, Single,
    Summary, Tail, TailError, distributions_table, runs_table,
};
use pyo3::{
    exceptions::{PyKeyError, PyOSError, PyRuntimeError, PyValueError},
    prelude::*,
    types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple},
};
use toml::{Table, Value};

use crate::{
    attention::{beside, interruptible},
    parts::{self, Brought, Report, attributes},
};

/// A plan at one scale, checked, with the classes that it names.
#[pyclass(frozen, module = "mendpath._native")]
pub(crate) struct NativePlan {
    plan: Arc<Plan>,
    report: Report,
}

/// So many tables and lists may be within each other: far more than in any plan. A dictionary that is within
/// itself has no end.
const DEEPEST: usize = 64;

/// The rows of a plan.
#[pyclass(frozen, module = "mendpath._native")]
pub(crate) struct NativeResults {
    plan: Arc<Plan>,
    rows: Vec<Row>,
}

/// Flows, packets, and the schemes' trace hashes.
type Tables<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Vec<(String, String)>);

/// What is wrong with a plan: the words, and the line if there is one.
fn wrong(error: impl ToString, line: Option<usize>) -> PyErr {
    PyValueError::new_err((error.to_string(), line))
}

fn failed(error: CampaignError) -> PyErr {
    match error {
        CampaignError::Plan(error) => wrong(error, None),
        error @ CampaignError::TooMany { .. } => wrong(error, None),
        error @ (CampaignError::File { .. } | CampaignError::Taken { .. }) => {
            PyOSError::new_err(error.to_string())
        }
        error => PyRuntimeError::new_err(error.to_string()),
    }
}

fn runs_of(plan: &Plan) -> usize {
    Point::all(&plan.axes).len() * plan.schemes.len() * plan.seeds as usize
}

/// A dictionary as the table of a plan, in which so many may be within each other.
fn table(dict: &Bound<'_, PyDict>, depth: usize) -> PyResult<Table> {
    let named = |(key, of): (Bound<'_, PyAny>, Bound<'_, PyAny>)| -> PyResult<(String, Value)> {
        let name = key.extract::<String>().map_err(|_| strange(&key))?;
        Ok((name, value(&of, depth)?))
    };
    dict.iter().map(named).collect()
}

/// What a plan can hold, infinite numbers too, which JSON has not.
fn value(of: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    let within = depth.checked_sub(1);
    if let (Ok(dict), Some(depth)) = (of.cast::<PyDict>(), within) {
        return table(dict, depth).map(Value::Table);
    }
    let value = if of.is_instance_of::<PyBool>() {
        of.extract::<bool>().ok().map(Value::Boolean)
    } else if of.is_instance_of::<PyInt>() {
        of.extract::<i64>().ok().map(Value::Integer)
    } else if of.is_instance_of::<PyFloat>() {
        of.extract::<f64>().ok().map(Value::Float)
    } else if of.is_instance_of::<PyString>() {
        of.extract::<String>().ok().map(Value::String)
    } else if let Some(depth) = within
        && (of.is_instance_of::<PyList>() || of.is_instance_of::<PyTuple>())
    {
        let values: PyResult<Vec<Value>> = of.try_iter()?.map(|one| value(&one?, depth)).collect();
        Some(Value::Array(values?))
    } else {
        None
    };
    value.ok_or_else(|| strange(of))
}

/// Something that no plan has.
fn strange(what: &Bound<'_, PyAny>) -> PyErr {
    let told = what.repr().map_or_else(|_| "something".to_owned(), |text| text.to_string());
    wrong(format!("a plan has texts, numbers, true, false, and lists and tables of them, not {told}"), None)
}

fn scale_of(text: &str) -> PyResult<Scale> {
    text.parse().map_err(|error: experiments::UnknownScale| wrong(error, None))
}

#[pymethods]
impl NativePlan {
    /// Reads a file. `brought` are the classes that it may name, and a text that stands for what
    /// they do.
    #[staticmethod]
    fn load(py: Python<'_>, file: PathBuf, scale: &str, brought: Brought) -> PyResult<Self> {
        let scale = scale_of(scale)?;
        let read = |parts| Plan::load_with(&file, scale, parts).map_err(|error| wrong(&error, error.line));
        Self::with_parts(py, brought, read)
    }

    /// Reads a text in TOML.
    #[staticmethod]
    fn parse(py: Python<'_>, name: &str, text: &str, scale: &str, brought: Brought) -> PyResult<Self> {
        let scale = scale_of(scale)?;
        let read = |parts| Plan::parse_with(name, text, scale, parts).map_err(|error| wrong(error, None));
        Self::with_parts(py, brought, read)
    }

    /// Reads a dictionary with the same keys.
    #[staticmethod]
    fn from_dict(
        py: Python<'_>,
        name: &str,
        source: &Bound<'_, PyDict>,
        scale: &str,
        brought: Brought,
    ) -> PyResult<Self> {
        let text = toml::to_string(&table(source, DEEPEST)?).map_err(|error| wrong(error, None))?;
        Self::parse(py, name, &text, scale, brought)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.plan.name
    }

    #[getter]
    fn title(&self) -> &str {
        &self.plan.title
    }

    #[getter]
    fn claims(&self) -> Vec<String> {
        self.plan.claims.clone()
    }

    #[getter]
    fn scale(&self) -> &'static str {
        self.plan.scale.name()
    }

    #[getter]
    fn seeds(&self) -> u32 {
        self.plan.seeds
    }

    #[getter]
    fn schemes(&self) -> Vec<String> {
        self.plan.schemes.iter().map(|scheme| scheme.name.clone()).collect()
    }

    #[getter]
    fn metrics(&self) -> Vec<String> {
        self.plan.metrics.iter().map(|metric| metric.name.clone()).collect()
    }

    #[getter]
    fn axes(&self) -> Vec<String> {
        self.plan.axes.iter().map(|axis| axis.name.clone()).collect()
    }

    #[getter]
    fn figures(&self) -> Vec<String> {
        self.plan.figures.iter().map(|figure| figure.file.clone()).collect()
    }

    /// Runs of the whole plan.
    #[getter]
    fn runs(&self) -> usize {
        runs_of(&self.plan)
    }

    #[getter]
    fn hash(&self) -> String {
        self.plan.hash_text()
    }

    /// The plan at its scale in TOML, with the files that it names.
    fn text(&self) -> String {
        self.plan.text()
    }

    /// The same as a dictionary.
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let table: Table = self.plan.text().parse().map_err(|error| wrong(error, None))?;
        attributes(py, &table)
    }

    /// Runs it with rows kept in `folder`, or nowhere. `look` is called with runs done and runs in
    /// all. Answers with the rows, and what `look` or a signal raised, if they did.
    fn run(
        &self,
        py: Python<'_>,
        seeds: Option<u32>,
        jobs: usize,
        folder: Option<PathBuf>,
        shard: Option<&str>,
        look: &Bound<'_, PyAny>,
    ) -> PyResult<(NativeResults, Option<PyErr>)> {
        let plan = self.with(seeds.unwrap_or(self.plan.seeds));
        let shard = shard.map_or(Ok(Shard::WHOLE), |text| {
            text.parse().map_err(|error: experiments::NoShard| wrong(error, None))
        })?;
        let aside;
        let folder: &Path = match &folder {
            Some(folder) => folder,
            None => {
                aside = tempfile::tempdir()?;
                aside.path()
            }
        };
        self.report.begin();
        let campaign = Campaign::new(&plan, folder).map_err(failed)?.shard(shard);
        self.report.raised(py)?;
        let look = look.clone().unbind();
        let (rows, raised) = py.detach(|| watched(&campaign, jobs, (&look, &self.report)));
        self.report.raised(py)?;
        let rows = rows.map_err(failed)?;
        Ok((NativeResults { plan: Arc::new(plan), rows }, raised))
    }

    /// The same with so many seeds, prepared once for many batches of runs. Rows are kept in `folder`,
    /// if there is one.
    fn campaign(&self, py: Python<'_>, seeds: u32, folder: Option<PathBuf>) -> PyResult<NativeCampaign> {
        let plan = self.with(seeds);
        let (aside, folder) = match folder {
            Some(folder) => (None, folder),
            None => {
                let aside = tempfile::tempdir()?;
                let folder = aside.path().to_owned();
                (Some(aside), folder)
            }
        };
        self.report.begin();
        let campaign = py.detach(|| Campaign::owned(plan, &folder)).map_err(failed)?;
        self.report.raised(py)?;
        let report = self.report.clone();
        Ok(NativeCampaign { campaign, keeper: Mutex::new(None), report, _aside: aside })
    }

    /// A single simulation: its flows and packets as files of Parquet, and each scheme's trace hash.
    fn single<'py>(
        &self,
        py: Python<'py>,
        at: Vec<(String, String)>,
        scheme: Option<String>,
        seed: u64,
        watch: usize,
    ) -> PyResult<Tables<'py>> {
        let which = Tail { at, scheme, seed, ..Tail::new(watch) };
        self.report.begin();
        let single = interruptible(py, || self.report.stop(), || Single::run(&self.plan, &which))?;
        self.report.raised(py)?;
        let single = single.map_err(|error| match error {
            TailError::Scenario(error) => PyRuntimeError::new_err(error.to_string()),
            error => wrong(error, None),
        })?;
        let traces = single.traces.iter().map(|(scheme, trace)| (scheme.clone(), format!("{trace:016x}")));
        Ok((parquet(py, &single.flows)?, parquet(py, &single.packets)?, traces.collect()))
    }

    /// Rows as texts, of runs elsewhere, as results: of so many seeds, or as many more as there are.
    fn results(&self, rows: Vec<String>, seeds: u32) -> PyResult<NativeResults> {
        let rows = read(&rows)?;
        if let Some(strange) = rows.iter().find(|row| row.plan_hash != self.plan.hash_text()) {
            return Err(wrong(format!("a row is of another plan: {}", strange.plan_hash), None));
        }
        let rows = once_each(rows)?;
        let last = rows.iter().map(|row| u32::try_from(row.seed).unwrap_or(u32::MAX)).max().unwrap_or(0);
        Ok(NativeResults { plan: Arc::new(self.with(seeds.max(last))), rows })
    }
}

/// A plan that is prepared for batches of runs.
#[pyclass(frozen, module = "mendpath._native")]
pub(crate) struct NativeCampaign {
    campaign: Campaign<'static>,
    /// From the first batch that was kept on.
    keeper: Mutex<Option<Keeper>>,
    report: Report,
    _aside: Option<tempfile::TempDir>,
}

#[pymethods]
impl NativeCampaign {
    /// The numbers of the runs that are not kept yet.
    fn left(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        // Versions of rows are worked out for it, and with them what parts do.
        self.report.begin();
        let left = py.detach(|| self.campaign.left());
        self.report.raised(py)?;
        left.map_err(failed)
    }

    /// Does these runs, and answers with their rows as texts and the packet-hops of all.
    fn run_these(&self, py: Python<'_>, runs: Vec<usize>) -> PyResult<(Vec<String>, u64)> {
        self.report.begin();
        let rows = interruptible(py, || self.report.stop(), || self.campaign.run_these(&runs))?;
        self.report.raised(py)?;
        let rows = rows.map_err(failed)?;
        Ok((texts(&rows)?, rows.iter().map(|row| row.hops).sum()))
    }

    /// Keeps rows that were made elsewhere.
    fn keep(&self, py: Python<'_>, rows: Vec<String>) -> PyResult<()> {
        let rows = read(&rows)?;
        py.detach(|| {
            let mut place = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
            let keeper = match &mut *place {
                Some(keeper) => keeper,
                None => place.insert(self.campaign.keeper()?),
            };
            keeper.keep(&rows)
        })
        .map_err(failed)
    }
}

impl NativePlan {
    fn with_parts(
        py: Python<'_>,
        (classes, version): Brought,
        read: impl FnOnce(Parts) -> PyResult<Plan>,
    ) -> PyResult<Self> {
        let (parts, report) = parts::read(py, classes, version)?;
        Ok(Self { plan: Arc::new(read(parts)?), report })
    }

    fn with(&self, seeds: u32) -> Plan {
        let mut plan = Plan::clone(&self.plan);
        plan.seeds = seeds;
        plan
    }
}

fn texts(rows: &[Row]) -> PyResult<Vec<String>> {
    let text =
        |row: &Row| serde_json::to_string(row).map_err(|error| PyRuntimeError::new_err(error.to_string()));
    rows.iter().map(text).collect()
}

fn read(rows: &[String]) -> PyResult<Vec<Row>> {
    rows.iter().map(|text| serde_json::from_str(text).map_err(|error| wrong(error, None))).collect()
}

/// Every run once: parts may have runs in common, which would count as so many more seeds.
fn once_each(rows: Vec<Row>) -> PyResult<Vec<Row>> {
    let (mut places, mut kept) = (BTreeMap::new(), Vec::<Row>::new());
    for row in rows {
        let run = format!("{:?} {} {}", row.point, row.scheme, row.seed);
        match places.get(&run).map(|place: &usize| &kept[*place]) {
            Some(known) if *known == row => {}
            Some(_) => {
                let what = format!(
                    "the parts have different rows of {} with seed {}: \
                     they come of other versions, or two machines disagree",
                    row.scheme, row.seed
                );
                return Err(wrong(what, None));
            }
            None => {
                places.insert(run, kept.len());
                kept.push(row);
            }
        }
    }
    Ok(kept)
}

/// Runs on other threads, while this one sees to Python: what `look` or a signal raises ends the
/// runs.
fn watched(
    campaign: &Campaign<'_>,
    jobs: usize,
    (look, report): (&Py<PyAny>, &Report),
) -> (Result<Vec<Row>, CampaignError>, Option<PyErr>) {
    let (done, runs, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let go_on = |progress: Progress| {
        done.store(progress.done, Ordering::Relaxed);
        runs.store(progress.runs, Ordering::Relaxed);
        !stop.load(Ordering::Relaxed)
    };
    let tell = |over: bool| {
        Python::attach(|py| -> PyResult<()> {
            py.check_signals()?;
            let (done, runs) = (done.load(Ordering::Relaxed), runs.load(Ordering::Relaxed));
            if runs == 0 && !over {
                return Ok(()); // it is not known yet what is left
            }
            look.call1(py, (done, runs)).map(drop)
        })
    };
    let mut raised = None;
    let rows = beside(
        || campaign.run_while(jobs, &go_on),
        |over| {
            if raised.is_none()
                && let Err(error) = tell(over)
            {
                stop.store(true, Ordering::Relaxed);
                report.stop();
                raised = Some(error);
            }
        },
    );
    (rows, raised)
}

#[pymethods]
impl NativeResults {
    fn __len__(&self) -> usize {
        self.rows.len()
    }

    /// Runs of the whole plan, with as many seeds as were asked for.
    fn asked(&self) -> usize {
        runs_of(&self.plan)
    }

    /// Every run, as a file of Parquet.
    fn runs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        parquet(py, &runs_table(&self.plan, &self.rows))
    }

    /// Completion times, the same way.
    fn distributions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        parquet(py, &distributions_table(&self.plan, &self.rows))
    }

    /// Windows over time, the same way.
    fn timelines<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let all = || self.rows.iter().flat_map(|row| row.timeline.iter().map(move |step| (row, step)));
        let mut columns = Columns::default();
        columns.add("scheme", Data::Texts(all().map(|(row, _)| row.scheme.clone()).collect()));
        for (place, axis) in self.plan.axes.iter().enumerate() {
            let text = |row: &Row| row.point.get(place).map_or(String::new(), |(_, value)| value.to_string());
            columns.add(&axis.name, Data::Texts(all().map(|(row, _)| text(row)).collect()));
        }
        columns.add("seconds", Data::Numbers(all().map(|(_, step)| Some(step.0)).collect()));
        columns.add("connection", Data::Whole(all().map(|(_, step)| i64::from(step.1)).collect()));
        columns.add("window_segments", Data::Whole(all().map(|(_, step)| i64::from(step.2)).collect()));
        parquet(py, &columns)
    }

    /// Mean and interval of every metric, the same way.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let summary =
            py.detach(|| Summary::new(&self.plan, &self.rows)).map_err(|error| wrong(error, None))?;
        parquet(py, &summary.columns(&self.plan))
    }

    /// A figure of the plan as SVG.
    fn figure(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        let found = self.plan.figures.iter().find(|figure| figure.file == name);
        let Some(figure) = found else { return Err(PyKeyError::new_err(name.to_owned())) };
        let summary =
            py.detach(|| Summary::new(&self.plan, &self.rows)).map_err(|error| wrong(error, None))?;
        Ok(py.detach(|| figure.draw(&self.plan, &summary, &figure.curves(&self.plan, &self.rows))))
    }

    /// Each row as a text of its own.
    fn rows(&self) -> PyResult<Vec<String>> {
        texts(&self.rows)
    }
}

fn parquet<'py>(py: Python<'py>, columns: &Columns) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = py.detach(|| {
        let mut bytes = Vec::new();
        columns.parquet(&mut bytes, &[]).map(|()| bytes).map_err(|error| error.to_string())
    });
    Ok(PyBytes::new(py, &bytes.map_err(PyRuntimeError::new_err)?))
}
