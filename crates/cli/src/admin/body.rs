//! What is sent as the body of an answer: a text, or events without end.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, sleep_until};

use crate::status::Viewer;

pub(super) enum Body {
    /// `None` once it is sent, or when there is none.
    Text(Option<Bytes>),
    /// Server-sent events, one for each snapshot.
    Events(Viewer, Watch),
}

/// Notices when nobody reads any more.
#[derive(Clone)]
pub(super) struct Watch {
    patience: Duration,
    /// When more was last asked for.
    asked: Arc<Mutex<Instant>>,
}

impl Watch {
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, asked: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Returns once nothing was asked for in a while.
    pub(super) async fn stalled(&self) {
        loop {
            let until = self.asked() + self.patience;
            if Instant::now() >= until {
                return;
            }
            sleep_until(until).await;
        }
    }

    fn asked(&self) -> Instant {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room is there for more.
    fn on_asked(&self) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match self.get_mut() {
            Self::Text(text) => text.take(),
            Self::Events(viewer, watch) => {
                watch.on_asked();
                let line = ready!(viewer.poll_line(cx));
                Some(Bytes::from(format!("data: {line}\n\n")))
            }
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Text(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Self::Events(..) => SizeHint::default(),
        }
    }
}
