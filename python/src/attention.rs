//! Long work that Ctrl-C ends.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use pyo3::prelude::*;

/// How often who waits looks around.
const LOOK: Duration = Duration::from_millis(100);

/// Does `work` on another thread, while this one calls `look` now and then, and once more when it is over.
pub(crate) fn beside<T: Send>(work: impl FnOnce() -> T + Send, mut look: impl FnMut(bool)) -> T {
    let (ended, news) = (Mutex::new(false), Condvar::new());
    thread::scope(|scope| {
        let work = scope.spawn(|| {
            let done = work();
            *ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
            news.notify_all();
            done
        });
        let mut over = false;
        while !over {
            let state = ended.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = news.wait_timeout_while(state, LOOK, |ended| !*ended);
            // Work that panics says nothing; its thread is over all the same.
            over = *waited.unwrap_or_else(PoisonError::into_inner).0 || work.is_finished();
            look(over);
        }
        work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Does `work` with the interpreter's lock released. `stop` is called when a signal raises something, which
/// is raised here once the work has ended.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    stop: impl Fn() + Send,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    py.detach(move || {
        let mut raised = None;
        let done = beside(work, |_| {
            if raised.is_none()
                && let Err(error) = Python::attach(|py| py.check_signals())
            {
                stop();
                raised = Some(error);
            }
        });
        raised.map_or(Ok(done), Err)
    })
}
