//! News about paths.

use std::sync::Arc;

use mendpath::{PathEvent, PathUpdate, PathUpdates};
use pyo3::prelude::*;
use tokio::sync::Mutex;

use super::{
    bridge::{Operation, Outcome},
    runtime::Here,
};

/// A bounded queue of news.
#[pyclass(frozen, module = "mendpath._native")]
pub(crate) struct NativeUpdates(Here<Arc<Mutex<PathUpdates>>>);

impl NativeUpdates {
    pub(super) fn new(updates: PathUpdates) -> Self {
        Self(Here::new(Arc::new(Mutex::new(updates))))
    }
}

/// Kind, path, and words; or `None` at the end.
type News = Option<(&'static str, Option<u32>, String)>;

fn news(update: Option<PathUpdate>) -> News {
    Some(match update? {
        PathUpdate::Event(event) => match event {
            PathEvent::Validated(path) => ("validated", Some(path.0), String::new()),
            PathEvent::Suspect(path) => ("suspect", Some(path.0), String::new()),
            PathEvent::Resumed(path) => ("resumed", Some(path.0), String::new()),
            PathEvent::Moved(path) => ("moved", Some(path.0), String::new()),
            PathEvent::Closed { path, .. } => ("closed", Some(path.0), format!("{event:?}")),
            other => ("other", None, format!("{other:?}")),
        },
        PathUpdate::LocalFailure { local, reason } => ("local_failure", None, format!("{local}: {reason}")),
        PathUpdate::LocalRecovery { local } => ("local_recovery", None, local.to_string()),
        PathUpdate::Missed(missed) => ("missed", None, missed.to_string()),
        other => ("other", None, format!("{other:?}")),
    })
}

#[pymethods]
impl NativeUpdates {
    fn next(&self) -> PyResult<Operation> {
        let updates = self.0.get()?.clone();
        Ok(Operation::new(async move {
            let next = news(updates.lock().await.next().await);
            Box::new(move |py: Python<'_>| Ok(next.into_pyobject(py)?.unbind())) as Outcome
        }))
    }
}
