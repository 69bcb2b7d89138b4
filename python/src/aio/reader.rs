//! The receiving side of a stream.

use std::{
    collections::VecDeque,
    future::Future as _,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bytes::{Buf as _, Bytes, BytesMut};
use mendpath::{ReadError, RecvStream, VarInt};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBytes, PyTuple},
};

use super::{bridge::Ring, errors, runtime::Here};

/// Most pieces that are taken out of the transport at a time.
const PIECES: usize = 256;
/// Bytes of a piece, about: what a packet carries.
const PIECE: usize = 1_200;

/// What was taken out of the transport, and was not read yet. Whoever waits for more than there is
/// and gives up finds it here the next time.
struct State {
    stream: RecvStream,
    pieces: VecDeque<Bytes>,
    held: usize,
    end: Option<Result<(), ReadError>>,
    /// What was looked for without success, and where the search for it goes on.
    searched: (Vec<u8>, usize),
}

impl State {
    /// Takes out of the transport what is there, until `wanted` bytes are held. Whether `least` are,
    /// or the stream has ended; if not, `waker` is woken when there is more.
    fn fill(&mut self, least: usize, wanted: usize, waker: &Waker) -> bool {
        let mut scratch = [const { Bytes::new() }; PIECES];
        while self.held < wanted && self.end.is_none() {
            let room = ((wanted - self.held) / PIECE + 1).min(PIECES);
            // Whoever has enough is not woken for more.
            let waker = if self.held >= least { Waker::noop() } else { waker };
            let polled = {
                let read = pin!(self.stream.read_chunks(&mut scratch[..room]));
                read.poll(&mut Context::from_waker(waker))
            };
            match polled {
                Poll::Pending => return self.held >= least,
                Poll::Ready(Ok(Some(filled))) => {
                    let pieces = scratch[..filled].iter_mut().map(std::mem::take);
                    for piece in pieces {
                        self.held += piece.len();
                        self.pieces.push_back(piece);
                    }
                }
                Poll::Ready(Ok(None)) => self.end = Some(Ok(())),
                Poll::Ready(Err(error)) => self.end = Some(Err(error)),
            }
        }
        true
    }

    /// The first `length` bytes, which are held. They are copied once.
    fn give<'py>(&mut self, py: Python<'py>, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        self.searched.1 = 0;
        self.held -= length;
        PyBytes::new_with(py, length, |mut to| {
            while !to.is_empty() {
                let Some(first) = self.pieces.front_mut() else { break };
                let part = first.len().min(to.len());
                let (now, later) = to.split_at_mut(part);
                first.copy_to_slice(now);
                if first.is_empty() {
                    self.pieces.pop_front();
                }
                to = later;
            }
            Ok(())
        })
    }

    /// All that is held, in one piece.
    fn joined(&mut self) -> &[u8] {
        if self.pieces.len() > 1 {
            let mut all = BytesMut::with_capacity(self.held);
            for piece in self.pieces.drain(..) {
                all.extend_from_slice(&piece);
            }
            self.pieces.push_back(all.freeze());
        }
        self.pieces.front().map_or(&[], |all| all)
    }

    /// What an empty read says: nothing at the end, or why there is none.
    fn ended<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        match &self.end {
            Some(Err(error)) => Err(errors::reading(py, error)),
            _ => Ok(PyBytes::new(py, b"")),
        }
    }
}

/// The receiving side of a stream. Each `None` says: not yet, and the ring rings when there is more.
#[pyclass(frozen, module = "mendpath._native")]
pub(crate) struct NativeReader {
    id: u64,
    state: Here<Mutex<State>>,
}

impl NativeReader {
    pub(super) fn new(stream: RecvStream) -> Self {
        let id = stream.id().0;
        let state = State { stream, pieces: VecDeque::new(), held: 0, end: None, searched: (Vec::new(), 0) };
        Self { id, state: Here::new(Mutex::new(state)) }
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, State>> {
        Ok(self.state.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes from the transport with the interpreter's lock released: whoever has the connection's
    /// lock may work for a while.
    fn fill(&self, py: Python<'_>, least: usize, wanted: usize, ring: &Ring) -> PyResult<bool> {
        let (state, waker) = (self.state.get()?, ring.waker()?);
        Ok(py.detach(|| state.lock().unwrap_or_else(PoisonError::into_inner).fill(least, wanted, waker)))
    }
}

#[pymethods]
impl NativeReader {
    #[getter]
    fn id(&self) -> u64 {
        self.id
    }

    /// At least one byte and at most so many; none at the end.
    fn read<'py>(&self, py: Python<'py>, most: usize, ring: &Ring) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.fill(py, 1, most, ring)?;
        let mut state = self.lock()?;
        let length = state.held.min(most);
        if length > 0 || most == 0 {
            return state.give(py, length).map(Some);
        }
        state.end.is_some().then(|| state.ended(py)).transpose()
    }

    /// So many bytes; fewer if the stream has ended before them.
    fn read_exactly<'py>(
        &self,
        py: Python<'py>,
        length: usize,
        ring: &Ring,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        if !self.fill(py, length, length, ring)? {
            return Ok(None);
        }
        let mut state = self.lock()?;
        if state.held < length
            && let Some(Err(error)) = &state.end
        {
            return Err(errors::reading(py, error));
        }
        let length = state.held.min(length);
        state.give(py, length).map(Some)
    }

    /// Up to and with the separator, and whether it was found: it was not if the stream has ended
    /// before (then the rest), or there were more than `limit` bytes without it (then none, and how
    /// many there are).
    fn read_until<'py>(
        &self,
        py: Python<'py>,
        separator: &[u8],
        limit: usize,
        ring: &Ring,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        if separator.is_empty() {
            return Err(PyValueError::new_err("the separator has at least one byte"));
        }
        loop {
            let mut state = self.lock()?;
            if state.searched.0 != separator {
                state.searched = (separator.to_vec(), 0);
            }
            let from = state.searched.1;
            let all = state.joined();
            let found = all[from..].windows(separator.len()).position(|window| window == separator);
            match found.map(|at| from + at + separator.len()) {
                Some(length) if length <= limit => {
                    let line = state.give(py, length)?;
                    return PyTuple::new(
                        py,
                        [line.into_any(), true.into_pyobject(py)?.to_owned().into_any()],
                    )
                    .map(Some);
                }
                Some(_) => break,
                None => state.searched.1 = state.held.saturating_sub(separator.len() - 1),
            }
            if state.held > limit {
                break;
            }
            if state.end.is_some() {
                if let Some(Err(error)) = &state.end {
                    return Err(errors::reading(py, error));
                }
                let length = state.held;
                let rest = state.give(py, length)?;
                return PyTuple::new(py, [rest.into_any(), false.into_pyobject(py)?.to_owned().into_any()])
                    .map(Some);
            }
            let wanted = state.held + 1;
            drop(state);
            if !self.fill(py, wanted, wanted, ring)? {
                return Ok(None);
            }
        }
        let held = self.lock()?.held.into_pyobject(py)?.into_any();
        PyTuple::new(py, [py.None().into_bound(py), held]).map(Some)
    }

    /// Whether the end was read.
    fn at_end(&self) -> PyResult<bool> {
        let state = self.lock()?;
        Ok(state.held == 0 && state.end.is_some())
    }

    /// Tells the peer that no more is wanted, and forgets what was not read.
    fn stop(&self, code: u64) -> PyResult<()> {
        let code = VarInt::try_from(code).map_err(errors::wrong)?;
        let mut state = self.lock()?;
        // Whoever has heard the end needs not say so.
        if state.end.is_none() && state.stream.stop(code).is_ok() {
            state.end = Some(Err(ReadError::ClosedStream));
        }
        state.pieces.clear();
        (state.held, state.searched.1) = (0, 0);
        Ok(())
    }
}
