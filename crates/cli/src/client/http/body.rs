//! Bodies on their way: nothing is kept, each side waits for the other.

use std::{
    future::Future as _,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::{
    sync::oneshot,
    time::{Instant, Sleep, sleep_until},
};

use super::{origin::Lease, visit::Turn};
use crate::status::{Outcome, Timed};

/// For an origin server to say whether it wants a body, before it gets it unasked (RFC 9110
/// section 10.1.1).
const EXPECTATION: Duration = Duration::from_secs(1);

/// A request's body on its way to the origin server.
pub(super) struct Upload {
    /// `None` if there is none.
    from: Option<Incoming>,
    /// Told to go ahead, or not to.
    permission: Option<Permission>,
    complete: Arc<AtomicBool>,
}

/// What `Expect: 100-continue` waits for. As long as nobody reads the body, hyper does not ask the
/// program for it either.
struct Permission {
    /// `None` once the final answer came without it: the body is not wanted.
    granted: Option<oneshot::Receiver<()>>,
    unasked: Pin<Box<Sleep>>,
}

/// Whether the origin server is to get the body.
#[derive(PartialEq, Eq)]
enum Wanted {
    Now,
    Never,
}

impl Upload {
    pub(super) fn new(from: Incoming, granted: Option<oneshot::Receiver<()>>) -> Self {
        let complete = Arc::new(AtomicBool::new(from.is_end_stream()));
        let unasked = || Box::pin(sleep_until(Instant::now() + EXPECTATION));
        let permission = granted.map(|granted| Permission { granted: Some(granted), unasked: unasked() });
        Self { from: Some(from), permission, complete }
    }

    /// For a request that is made once more.
    pub(super) fn none() -> Self {
        Self { from: None, permission: None, complete: Arc::new(AtomicBool::new(true)) }
    }

    /// Becomes true once all of it was read.
    pub(super) fn complete(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.complete)
    }
}

impl Permission {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Wanted> {
        let Some(granted) = &mut self.granted else { return Poll::Pending };
        match Pin::new(granted).poll(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(Wanted::Now),
            Poll::Ready(Err(_)) => {
                // Hyper asks again with each read of the answer, and what is spent must not be polled.
                self.granted = None;
                Poll::Ready(Wanted::Never)
            }
            Poll::Pending => self.unasked.as_mut().poll(cx).map(|()| Wanted::Now),
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        if let Some(permission) = &mut this.permission {
            if ready!(permission.poll(cx)) == Wanted::Never {
                // The program's connection need not wait until it is read. Here it has no end either,
                // which an origin server would take for the request's.
                this.from = None;
                return Poll::Pending;
            }
            this.permission = None;
        }
        let Some(from) = &mut this.from else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(&mut *from).poll_frame(cx));
        if is_last(frame.as_ref(), from) {
            this.complete.store(true, Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.from.as_ref().map_or(self.permission.is_none(), Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.from.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

/// Whether a body ends with this. Behind its trailers hyper does not ask for more.
fn is_last(frame: Option<&Result<Frame<Bytes>, hyper::Error>>, from: &Incoming) -> bool {
    match frame {
        Some(Ok(frame)) => frame.is_trailers() || from.is_end_stream(),
        Some(Err(_)) => false,
        None => true,
    }
}

/// A response's body on its way to the program. The turn ends with it.
pub(super) struct Download {
    content: Content,
    timed: Option<Timed>,
    _turn: Option<Turn>,
}

enum Content {
    /// Words of our own.
    Words(Full<Bytes>),
    /// What the origin server says. Its connection may serve another request afterwards.
    Relayed { from: Incoming, _lease: Lease },
}

impl Download {
    pub(super) fn words(text: impl Into<Bytes>, turn: Option<Turn>) -> Self {
        Self { content: Content::Words(Full::new(text.into())), timed: None, _turn: turn }
    }

    /// `timed` runs until the last byte.
    pub(super) fn relayed(from: Incoming, lease: Lease, turn: Turn, mut timed: Timed) -> Self {
        if from.is_end_stream() {
            timed.ends(Outcome::Complete);
        }
        Self { content: Content::Relayed { from, _lease: lease }, timed: Some(timed), _turn: Some(turn) }
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        match &mut this.content {
            Content::Words(words) => Pin::new(words).poll_frame(cx).map_err(|never| match never {}),
            Content::Relayed { from, .. } => {
                let frame = ready!(Pin::new(&mut *from).poll_frame(cx));
                if is_last(frame.as_ref(), from)
                    && let Some(timed) = &mut this.timed
                {
                    timed.ends(Outcome::Complete);
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Words(words) => words.is_end_stream(),
            Content::Relayed { from, .. } => from.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Words(words) => words.size_hint(),
            Content::Relayed { from, .. } => from.size_hint(),
        }
    }
}
