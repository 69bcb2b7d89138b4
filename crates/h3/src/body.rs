//! The body of a request, for services.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use h3::{
    error::{Code, StreamError},
    server::RequestStream,
};
use http_body::Frame;
use tokio::time::{Instant, Sleep};

use crate::RecvStream;

/// The body of a request as it comes, with its trailers.
pub struct Body {
    stream: RequestStream<RecvStream, Bytes>,
    state: State,
    /// How long the client may say nothing while it is waited for.
    patience: Duration,
    /// Until when it is waited for, from the first time on that it was.
    silence: Option<Pin<Box<Sleep>>>,
    /// Whether it is waited for.
    waiting: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Data,
    Trailers,
    End,
}

/// Why the rest of a body will not come.
#[derive(Debug)]
#[non_exhaustive]
pub enum BodyError {
    /// The client gave up, or the connection has ended.
    Stream(StreamError),
    /// The client sent nothing for this long.
    Silent(Duration),
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => write!(f, "the body of the request broke off: {error}"),
            Self::Silent(time) => write!(f, "nothing more of the request's body came for {time:?}"),
        }
    }
}

impl std::error::Error for BodyError {}

impl Body {
    pub(crate) fn new(stream: RequestStream<RecvStream, Bytes>, patience: Duration) -> Self {
        Self { stream, state: State::Data, patience, silence: None, waiting: false }
    }

    fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame<Bytes>>, StreamError>> {
        if self.state == State::Data {
            if let Some(mut data) = ready!(self.stream.poll_recv_data(cx))? {
                return Poll::Ready(Ok(Some(Frame::data(data.copy_to_bytes(data.remaining())))));
            }
            self.state = State::Trailers;
        }
        if self.state == State::Trailers {
            let trailers = ready!(self.stream.poll_recv_trailers(cx))?;
            self.state = State::End;
            return Poll::Ready(Ok(trailers.map(Frame::trailers)));
        }
        Poll::Ready(Ok(None))
    }

    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = Instant::now() + self.patience;
        let silence = self.silence.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if !self.waiting {
            self.waiting = true;
            silence.as_mut().reset(until);
        }
        silence.as_mut().poll(cx)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = self.poll_stream(cx) {
            self.waiting = false;
            if frame.is_err() {
                self.state = State::End;
            }
            return Poll::Ready(frame.map_err(BodyError::Stream).transpose());
        }
        ready!(self.poll_silence(cx));
        self.state = State::End;
        self.stream.stop_sending(Code::H3_REQUEST_CANCELLED);
        Poll::Ready(Some(Err(BodyError::Silent(self.patience))))
    }

    fn is_end_stream(&self) -> bool {
        self.state == State::End
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("stream", &self.stream.id()).finish_non_exhaustive()
    }
}
