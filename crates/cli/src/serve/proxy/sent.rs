//! A request's body on its way to the server behind.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::{
    StatusCode,
    body::{Body, Frame, SizeHint},
};
use mendpath_h3::BodyError;
use tokio::time::Instant;

use crate::serve::{
    site::{BoxError, SiteBody},
    tcp::Silent,
};

/// How far a request's body has come.
pub(super) struct Progress(Mutex<Books>);

struct Books {
    /// When the last of it was handed on.
    last: Instant,
    /// What the client is answered if the rest did not come.
    fault: Option<StatusCode>,
}

impl Default for Progress {
    fn default() -> Self {
        Self(Mutex::new(Books { last: Instant::now(), fault: None }))
    }
}

impl Progress {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When something of it was handed on last, or its end.
    pub(super) fn last(&self) -> Instant {
        self.books().last
    }

    /// What the client is answered if it sent no whole body.
    pub(super) fn fault(&self) -> Option<StatusCode> {
        self.books().fault
    }

    fn on_handed_on(&self, frame: Option<&Result<Frame<Bytes>, BoxError>>) {
        let mut books = self.books();
        books.last = Instant::now();
        if let Some(Err(error)) = frame {
            let is_silence =
                error.is::<Silent>() || matches!(error.downcast_ref(), Some(BodyError::Silent(_)));
            let fault = if is_silence { StatusCode::REQUEST_TIMEOUT } else { StatusCode::BAD_REQUEST };
            books.fault = Some(fault);
        }
    }
}

/// A request's body, whose progress is noted.
pub(super) struct Sent {
    body: SiteBody,
    progress: Arc<Progress>,
    /// What was waited for before the rest.
    first: Option<Result<Frame<Bytes>, BoxError>>,
    is_over: bool,
}

impl Sent {
    pub(super) fn new(body: SiteBody, progress: Arc<Progress>) -> Self {
        Self { body, progress, first: None, is_over: false }
    }

    /// Waits until something of it is there, or its end.
    pub(super) async fn begin(&mut self) {
        self.first = self.body.frame().await;
        self.is_over = self.first.is_none();
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let frame = match this.first.take() {
            Some(first) => Some(first),
            None if this.is_over => None,
            None => ready!(Pin::new(&mut this.body).poll_frame(cx)),
        };
        this.progress.on_handed_on(frame.as_ref());
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && (self.is_over || self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        if self.first.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }
}
