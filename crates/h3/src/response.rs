//! What a server says of a response beside `h3`.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use bytes::Bytes;
use h3::error::Code;
use http::{Response, response::Parts};
use mendpath::{StreamId, VarInt};

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
    /// What goes with the next frame of `h3`.
    fields: Mutex<Option<Fields>>,
    shared: Arc<Shared>,
    /// Where it goes.
    id: StreamId,
    /// The stream, once nothing more goes into it.
    ended: Mutex<Option<mendpath::SendStream>>,
}

/// A frame with the fields of a response.
#[derive(Debug)]
pub(crate) struct Fields {
    pub(crate) frame: Bytes,
    /// Whether the frame of `h3` is of the body, and goes behind it; otherwise it goes instead.
    pub(crate) has_body: bool,
}

impl Beside {
    /// What is sent is whole until [the end of it is told](Self::tells_of_its_end).
    pub(crate) fn new(shared: Arc<Shared>, id: StreamId) -> Self {
        let (whole, begun) = (AtomicBool::new(true), AtomicBool::new(false));
        let (taken, fields, ended) = (AtomicU64::new(0), Mutex::default(), Mutex::default());
        Self { whole, begun, taken, fields, shared, id, ended }
    }

    /// The stream that it goes through.
    pub(crate) fn id(&self) -> StreamId {
        self.id
    }

    /// Nothing more goes into the stream, of which the client may not have all.
    pub(crate) fn keep(&self, ended: mendpath::SendStream) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
    }

    /// Nobody waits any longer until the client has what is left of it.
    pub(crate) fn give_up(&self) {
        if let Some(stream) = &mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner) {
            // Refused once everything is acknowledged, which is as well.
            let _ = stream.reset(VarInt::saturating(Code::H3_REQUEST_CANCELLED.value()));
        }
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

    /// Whether there was some of the response's body to send, and room for what goes before it.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire) && self.taken.load(Ordering::Relaxed) > 0
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

    /// Encodes the fields of a response, without those of connections. Returns what `h3` is to send nevertheless:
    /// a frame in whose place they go, unless they go before the first of the body, which is at hand.
    pub(crate) fn encode_fields(&self, mut response: Parts, has_body: bool) -> Option<Response<()>> {
        let Some(frame) = fields::encode(response.status, &response.headers, self.shared.limit.get()) else {
            // They are too large for the peer, and for `h3` to refuse (RFC 9114 section 4.2.2).
            OF_CONNECTIONS.iter().for_each(|name| _ = response.headers.remove(name));
            return Some(Response::from_parts(response, ()));
        };
        *self.fields.lock().unwrap_or_else(PoisonError::into_inner) = Some(Fields { frame, has_body });
        if has_body {
            return None;
        }
        response.headers.clear();
        Some(Response::from_parts(response, ()))
    }

    /// What goes with the frame that `h3` hands over, once.
    pub(crate) fn take_fields(&self) -> Option<Fields> {
        self.fields.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
