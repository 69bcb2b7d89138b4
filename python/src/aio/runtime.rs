//! The threads that connections run on, and what a process forgets when it forks.

use std::{
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use pyo3::{exceptions::PyRuntimeError, prelude::*};
use tokio::runtime::{Builder, Runtime};

/// Most threads that connections share.
const MOST_THREADS: usize = 4;

/// Never ended: its threads live as long as the process. Only locked with the interpreter's lock
/// held, and thus not while the process forks.
static RUNTIME: Mutex<Option<&'static Runtime>> = Mutex::new(None);

/// How often this process was forked from one that had the module.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The runtime, which starts with the first endpoint.
pub(super) fn runtime() -> io::Result<&'static Runtime> {
    let mut place = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = *place {
        return Ok(runtime);
    }
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let runtime =
        Builder::new_multi_thread().worker_threads(threads).thread_name("mendpath").enable_all().build()?;
    Ok(place.insert(Box::leak(Box::new(runtime))))
}

/// To be called in the child after a fork: its threads are gone, and what they held is not to be
/// touched.
#[pyfunction]
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    *RUNTIME.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Something that belongs to the process that made it. In a forked child it cannot be used, and is
/// not dropped either: a thread that is no more may hold its locks.
pub(super) struct Here<T> {
    made: u64,
    /// `None` only while it is dropped.
    thing: Option<T>,
}

impl<T> Here<T> {
    pub(super) fn new(thing: T) -> Self {
        Self { made: FORKS.load(Ordering::Relaxed), thing: Some(thing) }
    }

    /// # Errors
    /// In a forked child.
    pub(super) fn get(&self) -> PyResult<&T> {
        match &self.thing {
            Some(thing) if self.made == FORKS.load(Ordering::Relaxed) => Ok(thing),
            _ => Err(PyRuntimeError::new_err(
                "this belongs to the process before the fork: make another in the child",
            )),
        }
    }
}

impl<T> Drop for Here<T> {
    fn drop(&mut self) {
        if self.made != FORKS.load(Ordering::Relaxed) {
            std::mem::forget(self.thing.take());
        }
    }
}
