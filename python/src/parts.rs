//! Parts of a simulation that are classes of Python: schemes, controllers, schedulers, loss models.
//!
//! The simulator calls them from its own threads, each call with the interpreter's lock. What raises
//! or answers nonsense is remembered once, every run of the plan ends soon after, and the caller of
//! the run raises it.

mod controller;
mod loss;
mod path;
mod scheduler;
mod scheme;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use experiments::{Part, Parts, Stop};
use pyo3::{
    exceptions::{PyException, PyTypeError, PyValueError},
    prelude::*,
    types::{PyDict, PyList, PyType},
};
use tcpsim::schemes::Mptcp;
use toml::{Table, Value};
use units::Instant;

pub(crate) use self::{
    controller::Acked,
    loss::Packet,
    path::Path,
    scheduler::Unsent,
    scheme::{Copy, Wait},
};

/// Classes, each with its kind (`scheme`, `controller`, `scheduler` or `loss`) and its name; and a
/// text that stands for what they do.
pub(crate) type Brought = (Vec<(String, String, Py<PyType>)>, String);

/// What went wrong first.
#[derive(Debug)]
struct Broken {
    error: PyErr,
    hook: String,
    at: Instant,
}

/// Where what goes wrong is told. Clones are the same one.
#[derive(Clone, Default, Debug)]
pub(crate) struct Report {
    stop: Stop,
    first: Arc<Mutex<Option<Broken>>>,
}

impl Report {
    fn tell(&self, broken: Broken) {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(broken);
        self.stop.set();
    }

    /// Ends the runs that are under way.
    pub(crate) fn stop(&self) {
        self.stop.set();
    }

    /// Forgets, as another run begins.
    pub(crate) fn begin(&self) {
        *self.first.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.stop.clear();
    }

    /// What went wrong since then, as the exception `PartError` whose cause it is.
    pub(crate) fn raised(&self, py: Python<'_>) -> PyResult<()> {
        let Some(broken) = self.first.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        if !broken.error.is_instance_of::<PyException>(py) {
            return Err(broken.error); // Ctrl-C
        }
        let seconds = seconds(broken.at);
        let class = py.import("mendpath.sim")?.getattr("PartError")?;
        let error = PyErr::from_value(class.call1((broken.hook, seconds, broken.error.value(py)))?);
        error.set_cause(py, Some(broken.error));
        Err(error)
    }
}

/// A time, as Python sees it.
fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

/// An object of a class, and where it tells what goes wrong.
#[derive(Debug)]
struct Object {
    /// Missing if it could not be made.
    object: Option<Py<PyAny>>,
    class: Arc<str>,
    report: Report,
}

impl Object {
    /// Calls it at a time; `None` if it cannot go on, now or since earlier.
    fn call<R>(
        &self,
        hook: &str,
        at: Instant,
        call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<R>,
    ) -> Option<R> {
        let object = self.object.as_ref()?;
        if self.report.stop.is_set() {
            return None;
        }
        Python::attach(|py| match call(object.bind(py)) {
            Ok(result) => Some(result),
            Err(error) => {
                self.report.tell(Broken { error, hook: format!("{}.{hook}", self.class), at });
                None
            }
        })
    }

    /// Whether its class has a hook of its own.
    fn has(&self, hook: &str) -> bool {
        let Some(object) = &self.object else { return false };
        Python::attach(|py| {
            let hook = object.bind(py).getattr(hook);
            hook.is_ok_and(|hook| !hook.hasattr("_is_default").unwrap_or(false))
        })
    }
}

/// What makes objects of a class with the parameters that a plan gives.
#[derive(Debug)]
struct Class {
    class: Py<PyType>,
    name: Arc<str>,
    parameters: Table,
    report: Report,
}

impl Class {
    /// Reads a plan's parameters, which the class knows.
    fn read(class: &Py<PyType>, name: &str, given: &Table, report: &Report) -> Result<Self, String> {
        Python::attach(|py| {
            let class = class.bind(py);
            class.call_method1("_check", (attributes(py, given)?,)).map(drop)
        })
        .map_err(|error: PyErr| Python::attach(|py| error.value(py).to_string()))?;
        let class = Python::attach(|py| class.clone_ref(py));
        Ok(Self { class, name: name.into(), parameters: given.clone(), report: report.clone() })
    }

    /// An object with these attributes beside the parameters.
    fn make(&self, given: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>) -> Object {
        let class = self.name.clone();
        let nothing = Object { object: None, class, report: self.report.clone() };
        if self.report.stop.is_set() {
            return nothing;
        }
        let made = Python::attach(|py| {
            let attributes = attributes(py, &self.parameters)?;
            given(&attributes)?;
            Ok(self.class.bind(py).call((), Some(&attributes))?.unbind())
        });
        match made {
            Ok(object) => Object { object: Some(object), ..nothing },
            Err(error) => {
                let hook = format!("{}.__init__", self.name);
                self.report.tell(Broken { error, hook, at: Instant::ORIGIN });
                nothing
            }
        }
    }
}

/// A plan's table as a dictionary.
pub(crate) fn attributes<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    table.iter().try_for_each(|(name, value)| dict.set_item(name, object(py, value)?))?;
    Ok(dict)
}

/// A plan's value, infinite numbers too.
fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::String(text) => text.as_str().into_pyobject(py)?.into_any(),
        Value::Integer(number) => (*number).into_pyobject(py)?.into_any(),
        Value::Float(number) => (*number).into_pyobject(py)?.into_any(),
        Value::Boolean(flag) => (*flag).into_pyobject(py)?.to_owned().into_any(),
        Value::Datetime(time) => time.to_string().into_pyobject(py)?.into_any(),
        Value::Array(values) => {
            let list = PyList::empty(py);
            values.iter().try_for_each(|value| list.append(object(py, value)?))?;
            list.into_any()
        }
        Value::Table(table) => attributes(py, table)?.into_any(),
    })
}

/// An answer that cannot be.
fn nonsense(what: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(what.to_string())
}

/// The parts of a plan, and where they tell what goes wrong.
pub(crate) fn read(
    py: Python<'_>,
    classes: Vec<(String, String, Py<PyType>)>,
    version: String,
) -> PyResult<(Parts, Report)> {
    let report = Report::default();
    let mut parts = Parts { version, stop: report.stop.clone(), ..Parts::default() };
    for (kind, name, class) in classes {
        match kind.as_str() {
            "scheme" => {
                let base = sub_flows(class.bind(py))?;
                parts.schemes.insert(name.clone(), (base, part(class, name, &report, scheme::own)));
            }
            "controller" => insert(&mut parts.controllers, class, name, &report, controller::own),
            "scheduler" => insert(&mut parts.schedulers, class, name, &report, scheduler::own),
            "loss" => insert(&mut parts.losses, class, name, &report, loss::own),
            other => return Err(PyTypeError::new_err(format!("no kind of part: {other}"))),
        }
    }
    Ok((parts, report))
}

fn insert<T: 'static>(
    into: &mut BTreeMap<String, Part<T>>,
    class: Py<PyType>,
    name: String,
    report: &Report,
    own: fn(Class) -> T,
) {
    into.insert(name.clone(), part(class, name, report, own));
}

fn part<T: 'static>(class: Py<PyType>, name: String, report: &Report, own: fn(Class) -> T) -> Part<T> {
    let report = report.clone();
    Part::new(move |given| Class::read(&class, &name, given, &report).map(own))
}

/// The sub-flows that a scheme's class asks for.
fn sub_flows(class: &Bound<'_, PyType>) -> PyResult<Mptcp> {
    let subflows = class.getattr("subflows")?.extract()?;
    let early_delivery = class.getattr("early_delivery")?.extract()?;
    Ok(Mptcp { early_delivery, ..Mptcp::new(subflows) })
}
