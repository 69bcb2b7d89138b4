//! The sending side of a stream.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use mendpath::{SendStream, StoppedError, VarInt, WriteError};
use pyo3::{prelude::*, pybacked::PyBackedBytes};

use super::{
    bridge::{Operation, Outcome, Ring},
    errors,
    runtime::Here,
};

/// What the transport had no room for yet. Objects of Python as they are, not copied.
struct State {
    stream: SendStream,
    waiting: VecDeque<PyBackedBytes>,
    /// Bytes of the first of them that the transport has.
    taken: usize,
    /// Bytes that wait, all together.
    held: usize,
    /// Whether the end follows what waits.
    ending: bool,
    failed: Option<WriteError>,
}

impl State {
    /// Hands over what there is room for. If something is left, `waker` is woken when there is more.
    /// What has been handed over altogether is put aside, for the thread of Python to drop.
    fn flush(&mut self, waker: &Waker, over: &mut Vec<PyBackedBytes>) {
        while self.failed.is_none()
            && let Some(first) = self.waiting.front()
        {
            let rest = &first[self.taken..];
            if rest.is_empty() {
                self.taken = 0;
                over.extend(self.waiting.pop_front());
                continue;
            }
            match self.stream.poll_write(&mut Context::from_waker(waker), rest) {
                Poll::Pending => return,
                Poll::Ready(Ok(taken)) => {
                    self.taken += taken;
                    self.held -= taken;
                }
                Poll::Ready(Err(error)) => self.fail(error, over),
            }
        }
        if self.ending && self.waiting.is_empty() && self.failed.is_none() {
            self.ending = false;
            // A peer that has stopped the stream needs no end.
            let _ = self.stream.finish();
        }
    }

    /// Whether the end has been said and waits behind what was written before it. Once the transport has it, it
    /// is the transport that refuses what follows.
    fn is_ending(&self) -> bool {
        self.ending && self.failed.is_none()
    }

    fn fail(&mut self, error: WriteError, over: &mut Vec<PyBackedBytes>) {
        over.extend(self.waiting.drain(..));
        (self.taken, self.held) = (0, 0);
        self.failed = Some(error);
    }
}

/// The sending side of a stream.
#[pyclass(frozen, module = "mendpath._native")]
pub(crate) struct NativeWriter {
    id: u64,
    state: Here<Mutex<State>>,
}

impl NativeWriter {
    pub(super) fn new(stream: SendStream) -> Self {
        let id = stream.id().0;
        let state =
            State { stream, waiting: VecDeque::new(), taken: 0, held: 0, ending: false, failed: None };
        Self { id, state: Here::new(Mutex::new(state)) }
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, State>> {
        Ok(self.state.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the state and hands over what there is room for, with the interpreter's lock released.
    fn change(&self, py: Python<'_>, ring: &Ring, how: impl FnOnce(&mut State) + Send) -> PyResult<usize> {
        let (state, waker) = (self.state.get()?, ring.waker()?);
        let mut over = Vec::new();
        let (held, failed) = py.detach(|| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            how(&mut state);
            state.flush(waker, &mut over);
            (state.held, state.failed.clone())
        });
        failed.map_or(Ok(held), |error| Err(errors::writing(py, &error)))
    }
}

#[pymethods]
impl NativeWriter {
    #[getter]
    fn id(&self) -> u64 {
        self.id
    }

    /// Takes all of it. How many bytes wait for room now; if there are any, the ring rings when there
    /// is some.
    fn write(&self, py: Python<'_>, data: PyBackedBytes, ring: &Ring) -> PyResult<usize> {
        if self.lock()?.is_ending() {
            return Err(errors::writing(py, &WriteError::ClosedStream));
        }
        self.change(py, ring, |state| {
            if state.failed.is_none() && !data.is_empty() {
                state.held += data.len();
                state.waiting.push_back(data);
            }
        })
    }

    /// Hands over what waits. How many bytes still do.
    fn flush(&self, py: Python<'_>, ring: &Ring) -> PyResult<usize> {
        self.change(py, ring, |_| ())
    }

    /// The end follows what waits. How many bytes do.
    fn finish(&self, py: Python<'_>, ring: &Ring) -> PyResult<usize> {
        self.change(py, ring, |state| state.ending = true)
    }

    /// Bytes that wait.
    fn held(&self) -> PyResult<usize> {
        Ok(self.lock()?.held)
    }

    /// Gives the stream up.
    fn reset(&self, code: u64) -> PyResult<()> {
        let code = VarInt::try_from(code).map_err(errors::wrong)?;
        let mut state = self.lock()?;
        // Refused if everything has arrived, which is as well.
        let _ = state.stream.reset(code);
        let mut over = Vec::new();
        state.fail(WriteError::ClosedStream, &mut over);
        drop(state);
        Ok(())
    }

    fn set_priority(&self, priority: i32) -> PyResult<()> {
        self.lock()?.stream.set_priority(priority);
        Ok(())
    }

    /// Promises what the transport has.
    fn set_reliable_boundary(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.lock()?;
        if state.stream.set_reliable_boundary().is_ok() {
            return Ok(());
        }
        // To write nothing never waits, and says why nothing can follow.
        let why = match state.stream.poll_write(&mut Context::from_waker(Waker::noop()), &[]) {
            Poll::Ready(Err(error)) => error,
            _ => WriteError::ClosedStream,
        };
        drop(state);
        Err(errors::writing(py, &why))
    }

    /// Waits until the peer's transport has acknowledged everything, or has stopped the stream, whose
    /// code it gives then.
    fn ended(&self) -> PyResult<Operation> {
        let stopped = self.lock()?.stream.stopped();
        Ok(Operation::new(async move {
            let result = stopped.await;
            Box::new(move |py: Python<'_>| match result {
                Ok(code) => Ok(code.map(VarInt::into_inner).into_pyobject(py)?.unbind()),
                Err(StoppedError::ConnectionLost(error)) => Err(errors::lost(py, &error)),
                Err(error) => Err(errors::wrong(error)),
            }) as Outcome
        }))
    }
}
