//! What a server says of a response beside `h3`.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use bytes::Bytes;
use http::response::Parts;
use mendpath::StreamId;

use crate::{fields, malformed::OF_CONNECTIONS, settings::Shared};

/// What both a server and the stream of a response know.
#[derive(Debug)]
pub(crate) struct Beside {
    /// As long as it is set, what was sent is whole when the stream is dropped: `h3` answers 431 by
    /// itself and does not say that this is all.
    whole: AtomicBool,
    /// There was some of its body to send.
    begun: AtomicBool,
    /// Bytes that the transport has taken.
    taken: AtomicU64,
    /// What goes instead of the next frame of `h3`.
    fields: Mutex<Option<Bytes>>,
    shared: Arc<Shared>,
    /// Where it goes.
    id: StreamId,
}

impl Beside {
    /// What is sent is whole until [the end of it is told](Self::tells_of_its_end).
    pub(crate) fn new(shared: Arc<Shared>, id: StreamId) -> Self {
        let (whole, begun) = (AtomicBool::new(true), AtomicBool::new(false));
        Self { whole, begun, taken: AtomicU64::new(0), fields: Mutex::default(), shared, id }
    }

    /// From here on the end of what is sent is said.
    pub(crate) fn tells_of_its_end(&self) {
        self.whole.store(false, Ordering::Release);
    }

    /// Whether what was sent is whole when the stream is dropped.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }

    /// There is some of the response's body to send.
    pub(crate) fn begins(&self) {
        self.begun.store(true, Ordering::Release);
    }

    /// Whether there was some of the response's body to send.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// The transport has taken so many bytes.
    pub(crate) fn on_taken(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// What changes as the client takes the response: the bytes that the transport had room for, and those
    /// that are on their way.
    pub(crate) fn progress(&self) -> [u64; 2] {
        [self.taken.load(Ordering::Relaxed), self.shared.connection.undelivered(self.id)]
    }

    /// Encodes the fields of a response, which `h3` need not do then; those of connections are left out. Those
    /// that are too large for the peer are left for `h3` to refuse (RFC 9114 section 4.2.2).
    pub(crate) fn encode_fields(&self, response: &mut Parts) {
        let encoded = fields::encode(response.status, &response.headers, self.shared.limit.get());
        if encoded.is_none() {
            OF_CONNECTIONS.iter().for_each(|name| _ = response.headers.remove(name));
            return;
        }
        *self.fields.lock().unwrap_or_else(PoisonError::into_inner) = encoded;
        response.headers.clear();
    }

    /// What goes instead of the frame that `h3` hands over, once.
    pub(crate) fn take_fields(&self) -> Option<Bytes> {
        self.fields.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
