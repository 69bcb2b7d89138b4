//! Where receiving tasks leave datagrams for a connection's driver.

use std::{collections::VecDeque, sync::Mutex, task::Waker};

use proto::{Datagram, Ecn, NetworkPath};
use tracing::trace;

use crate::lock::lock;

/// Bytes that may wait for a connection's driver, unused ends of buffers included; more are
/// dropped, as a full socket buffer would.
const MAX_WAITING: usize = 8 << 20;

/// The same for a client that is not let in: it may not make us fall behind for it. Four receive
/// buffers.
const STRANGERS_WAITING: usize = 256 << 10;

/// Bytes that a batch counts for at least: what it takes in memory beside its datagrams is more than the
/// smallest of those.
const LEAST: usize = 256;

/// Runs that fill less than this part of a receive buffer are copied out of it.
const WORTH_KEEPING: usize = 4;

/// Receive buffers kept for reuse.
const MAX_SPARE: usize = 64;

/// Datagrams of one connection that arrived together: same addresses, same ECN mark, equally long
/// except for the last.
pub(crate) struct Batch {
    path: NetworkPath,
    ecn: Option<Ecn>,
    /// Length of every datagram but the last, bytes.
    stride: usize,
    len: usize,
    bytes: Vec<u8>,
}

impl Batch {
    /// Copies a run of datagrams.
    pub(crate) fn copied(path: NetworkPath, ecn: Option<Ecn>, stride: usize, run: &[u8]) -> Self {
        Self { path, ecn, stride: stride.max(1), len: run.len(), bytes: run.to_vec() }
    }

    /// Takes over a whole receive buffer whose first `len` bytes are datagrams; a small run is
    /// copied instead.
    pub(crate) fn taken(
        path: NetworkPath,
        ecn: Option<Ecn>,
        stride: usize,
        len: usize,
        buffer: &mut Vec<u8>,
        spares: &Spares,
    ) -> Self {
        if len < buffer.len() / WORTH_KEEPING {
            return Self::copied(path, ecn, stride, &buffer[..len]);
        }
        let fresh = spares.take(buffer.len());
        Self { path, ecn, stride: stride.max(1), len, bytes: std::mem::replace(buffer, fresh) }
    }

    /// The datagrams in order.
    pub(crate) fn datagrams(&mut self) -> impl Iterator<Item = Datagram<'_>> {
        let (path, ecn) = (self.path, self.ecn);
        self.bytes[..self.len].chunks_mut(self.stride).map(move |data| Datagram { path, ecn, data })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.len.div_ceil(self.stride)
    }
}

/// Receive buffers that wait to be used again.
#[derive(Default)]
pub(crate) struct Spares(Mutex<Vec<Vec<u8>>>);

impl Spares {
    /// A buffer of `size` bytes.
    pub(crate) fn take(&self, size: usize) -> Vec<u8> {
        lock(&self.0).pop().filter(|buffer| buffer.len() == size).unwrap_or_else(|| vec![0; size])
    }

    /// Gives the buffers of handled batches back.
    pub(crate) fn give(&self, batches: impl Iterator<Item = Batch>, size: usize) {
        let mut spares = lock(&self.0);
        let room = MAX_SPARE.saturating_sub(spares.len());
        spares.extend(batches.map(|batch| batch.bytes).filter(|bytes| bytes.len() == size).take(room));
    }
}

/// Batches that wait for a driver, and how to wake it.
#[derive(Default)]
pub(crate) struct Inbox(Mutex<State>);

#[derive(Default)]
struct State {
    batches: VecDeque<Batch>,
    /// Bytes of memory that `batches` take.
    waiting: usize,
    /// The peer is not let in.
    stranger: bool,
    driver: Option<Waker>,
    /// The driver gives way to others and looks again by itself.
    gives_way: bool,
    /// What comes next may gather before it is taken out of the socket.
    patient: bool,
}

impl Inbox {
    /// Whether the peer is a stranger, for whom less waits.
    pub(crate) fn set_stranger(&self, stranger: bool) {
        lock(&self.0).stranger = stranger;
    }

    /// Says whether what comes next may gather before it is taken out of the socket.
    pub(crate) fn set_patient(&self, patient: bool) {
        lock(&self.0).patient = patient;
    }

    /// Hands a batch over and wakes the driver; drops it if too much waits already. Returns whether
    /// what comes next may gather before it is taken out of the socket.
    pub(crate) fn deliver(&self, batch: Batch) -> bool {
        let mut state = lock(&self.0);
        let limit = if state.stranger { STRANGERS_WAITING } else { MAX_WAITING };
        let size = batch.bytes.len().max(LEAST);
        if state.waiting + size > limit {
            trace!(dropped = batch.count(), "the connection falls behind");
        } else {
            state.waiting += size;
            state.batches.push_back(batch);
        }
        state.wake();
        state.patient
    }

    /// Lets the driver look at the connection again, soon or when it has given way: something changed.
    pub(crate) fn wake(&self) {
        let state = lock(&self.0);
        if !state.gives_way {
            state.wake();
        }
    }

    /// Called by the driver before it gives way: until it collects again only what arrives wakes it.
    pub(crate) fn give_way(&self) {
        lock(&self.0).gives_way = true;
    }

    /// Called by the driver: remembers how to wake it, and swaps its empty queue for what has
    /// arrived, which may be nothing.
    pub(crate) fn collect(&self, driver: &Waker, backlog: &mut VecDeque<Batch>) {
        let mut state = lock(&self.0);
        state.gives_way = false;
        match &mut state.driver {
            Some(known) => known.clone_from(driver),
            unknown => *unknown = Some(driver.clone()),
        }
        if backlog.is_empty() {
            std::mem::swap(&mut state.batches, backlog);
            state.waiting = 0;
        }
    }

    /// Takes what has arrived, as far as the driver has not.
    pub(crate) fn take(&self) -> VecDeque<Batch> {
        let mut state = lock(&self.0);
        state.waiting = 0;
        std::mem::take(&mut state.batches)
    }
}

impl State {
    fn wake(&self) {
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::Wake,
    };

    use super::*;

    const SIZE: usize = 1_000;

    /// How often a task was woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn path() -> NetworkPath {
        let address = "127.0.0.1:1".parse().expect("an address");
        NetworkPath { local: address, remote: address }
    }

    #[test]
    fn a_full_buffer_is_handed_over_and_comes_back() {
        let spares = Spares::default();
        let mut buffer = vec![7; SIZE];
        let full = Batch::taken(path(), None, 300, SIZE, &mut buffer, &spares);
        assert_eq!((buffer.len(), full.count()), (SIZE, 4));
        assert_eq!(buffer[0], 0, "the batch has the old buffer");
        let mut small = Batch::taken(path(), None, 100, 150, &mut buffer, &spares);
        assert_eq!(small.datagrams().map(|d| d.data.len()).collect::<Vec<_>>(), [100, 50]);
        spares.give([full, small].into_iter(), SIZE);
        assert_eq!(lock(&spares.0).len(), 1, "copies are not kept");
        assert_eq!(spares.take(SIZE)[0], 7);
    }

    #[test]
    fn a_driver_that_gives_way_is_woken_by_what_arrives() {
        let woken = Arc::new(Woken::default());
        let (inbox, driver) = (Inbox::default(), Waker::from(woken.clone()));
        let collect = || inbox.collect(&driver, &mut VecDeque::new());
        let times = || woken.0.load(Ordering::Relaxed);
        collect();
        inbox.wake();
        assert_eq!(times(), 1);
        inbox.give_way();
        inbox.wake();
        assert_eq!(times(), 1);
        inbox.deliver(Batch::copied(path(), None, 1_000, &[1]));
        assert_eq!(times(), 2);
        collect();
        inbox.wake();
        assert_eq!(times(), 3);
    }

    #[test]
    fn what_comes_next_may_gather_if_the_driver_says_so() {
        let inbox = Inbox::default();
        let deliver = || inbox.deliver(Batch::copied(path(), None, 1_000, &[1]));
        assert!(!deliver());
        inbox.set_patient(true);
        assert!(deliver());
        inbox.set_patient(false);
        assert!(!deliver());
    }

    #[test]
    fn small_datagrams_count_for_what_they_take() {
        let inbox = Inbox::default();
        inbox.set_stranger(true);
        for _ in 0..STRANGERS_WAITING / 20 {
            inbox.deliver(Batch::copied(path(), None, 20, &[1; 20]));
        }
        let mut backlog = VecDeque::new();
        inbox.collect(Waker::noop(), &mut backlog);
        let memory = backlog.capacity() * size_of::<Batch>() + backlog.len() * 20;
        assert!(backlog.len() > 500 && memory <= STRANGERS_WAITING, "{} take {memory} bytes", backlog.len());
    }

    #[test]
    fn what_waits_is_bounded_and_the_driver_takes_it_all() {
        let inbox = Inbox::default();
        let each = 1 << 20;
        for _ in 0..12 {
            inbox.deliver(Batch::copied(path(), None, 1_000, &vec![1; each]));
        }
        let mut backlog = VecDeque::new();
        inbox.collect(Waker::noop(), &mut backlog);
        assert_eq!(backlog.len(), MAX_WAITING / each);
        inbox.deliver(Batch::copied(path(), None, 1_000, &[1]));
        backlog.clear();
        inbox.collect(Waker::noop(), &mut backlog);
        assert_eq!(backlog.len(), 1);
        inbox.set_stranger(true);
        for _ in 0..12 {
            inbox.deliver(Batch::copied(path(), None, 1_000, &vec![1; 64 << 10]));
        }
        backlog.clear();
        inbox.collect(Waker::noop(), &mut backlog);
        assert_eq!(backlog.len(), 4, "for a client that is not let in");
    }
}
