//! How an event loop learns that something may be done.

use std::{
    future::Future,
    io::{ErrorKind, Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use pyo3::{exceptions::PyRuntimeError, prelude::*, types::PyTuple};

use super::runtime::{Here, runtime};

/// What has become ready and was not told yet: at most each ring once.
struct Ready {
    rings: Mutex<Vec<Arc<Bell>>>,
    bell: UnixStream,
}

/// One that waits. Rung many times before it is told, it is told once.
struct Bell {
    ready: Arc<Ready>,
    key: u64,
    queued: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let ready = self.ready.clone();
        let mut rings = ready.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let first = rings.is_empty();
        rings.push(self);
        drop(rings);
        if first {
            // One byte is under way at a time, so that there is room; and if the loop is gone, so is
            // its end, and nobody is to be told.
            let _ = (&ready.bell).write(&[1]);
        }
    }
}

/// What tells an event loop that something may be done: a file to watch, and a list of keys.
#[pyclass(frozen, module = "mendpath._native")]
pub(crate) struct Bridge {
    ready: Arc<Ready>,
    answer: UnixStream,
}

#[pymethods]
impl Bridge {
    #[new]
    fn new() -> PyResult<Self> {
        let (answer, bell) = UnixStream::pair()?;
        answer.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        Ok(Self { ready: Arc::new(Ready { rings: Mutex::default(), bell }), answer })
    }

    /// The file that can be read when `take` has something.
    fn fileno(&self) -> i32 {
        self.answer.as_raw_fd()
    }

    /// Something to wait with, known by its key.
    fn ring(&self, key: u64) -> Ring {
        let bell = Arc::new(Bell { ready: self.ready.clone(), key, queued: AtomicBool::new(false) });
        Ring(Here::new(Waker::from(bell)))
    }

    /// The keys that were rung since the last time.
    fn take(&self) -> PyResult<Vec<u64>> {
        match (&self.answer).read(&mut [0; 8]) {
            Ok(_) => (),
            Err(error) if error.kind() == ErrorKind::WouldBlock => (),
            Err(error) => return Err(error.into()),
        }
        let rings = std::mem::take(&mut *self.ready.rings.lock().unwrap_or_else(PoisonError::into_inner));
        let key = |bell: Arc<Bell>| {
            bell.queued.store(false, Ordering::Release);
            bell.key
        };
        Ok(rings.into_iter().map(key).collect())
    }
}

/// Something to wait with.
#[pyclass(frozen, module = "mendpath._native")]
pub(crate) struct Ring(Here<Waker>);

impl Ring {
    pub(super) fn waker(&self) -> PyResult<&Waker> {
        self.0.get()
    }
}

/// What comes of an operation, made when Python has its lock.
pub(super) type Outcome = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Something that takes time, and happens only while it is polled.
#[pyclass(frozen, module = "mendpath._native")]
pub(crate) struct Operation(Here<Mutex<Option<Work>>>);

impl Operation {
    pub(super) fn new(work: impl Future<Output = Outcome> + Send + 'static) -> Self {
        Self(Here::new(Mutex::new(Some(Box::pin(work)))))
    }
}

#[pymethods]
impl Operation {
    /// `None` if it is not done, in which case the ring rings when it may be; else its outcome, alone
    /// in a tuple.
    fn poll<'py>(&self, py: Python<'py>, ring: &Ring) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let (work, waker) = (self.0.get()?, ring.waker()?);
        let tokio = runtime()?;
        let polled = py.detach(|| {
            let _entered = tokio.enter();
            let mut place = work.lock().unwrap_or_else(PoisonError::into_inner);
            let polled = place.as_mut()?.as_mut().poll(&mut Context::from_waker(waker));
            if polled.is_ready() {
                *place = None;
            }
            Some(polled)
        });
        match polled {
            Some(Poll::Pending) => Ok(None),
            Some(Poll::Ready(outcome)) => PyTuple::new(py, [outcome(py)?]).map(Some),
            None => Err(PyRuntimeError::new_err("the operation was done or given up before")),
        }
    }

    /// Gives it up.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        let work = self.0.get()?;
        py.detach(|| *work.lock().unwrap_or_else(PoisonError::into_inner) = None);
        Ok(())
    }
}
