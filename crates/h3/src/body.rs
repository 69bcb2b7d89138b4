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
use http_body::{Frame, SizeHint};
use tokio::{sync::oneshot, time::Sleep};

use crate::{RecvStream, malformed::are_of_a_connection, patience::after};

/// The body of a request as it comes, with its trailers.
pub struct Body {
    stream: RequestStream<RecvStream, Bytes>,
    state: State,
    /// What is known of it already: what came with the fields, or that it is malformed.
    first: Option<Result<Frame<Bytes>, BodyError>>,
    /// Bytes that are still to come as the request says, if it does.
    left: Option<u64>,
    /// Who is told that there were more or fewer, or what must not be in trailers, as long as that may be.
    malformed: Option<oneshot::Sender<()>>,
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
    /// It is longer or shorter than the request said (RFC 9114 section 4.1.2), or its trailers speak of a
    /// connection (section 4.2).
    Malformed,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => write!(f, "the body of the request broke off: {error}"),
            Self::Malformed => {
                write!(f, "the body is not as long as the request says, or its trailers are of a connection")
            }
            Self::Silent(time) => write!(f, "nothing more of the request's body came for {time:?}"),
        }
    }
}

impl std::error::Error for BodyError {}

impl Body {
    /// The body of a request that says this length.
    pub(crate) fn new(
        stream: RequestStream<RecvStream, Bytes>,
        length: Option<u64>,
        patience: Duration,
    ) -> Self {
        let (first, malformed, silence, waiting) = (None, None, None, false);
        Self { stream, state: State::Data, first, left: length, malformed, patience, silence, waiting }
    }

    /// Takes what has come with the fields: a body of which that is the end is known to be empty. Returns what is
    /// told if it is malformed; `None` if it is over and is not, as most are.
    pub(crate) async fn look(&mut self) -> Option<oneshot::Receiver<()>> {
        let looked = std::future::poll_fn(|cx| Poll::Ready(self.poll_counted(cx))).await;
        if let Poll::Ready(frame) = looked {
            self.first = frame.transpose();
        }
        let is_malformed = matches!(self.first, Some(Err(BodyError::Malformed)));
        if self.state == State::End && !is_malformed {
            return None;
        }
        let (malformed, told) = oneshot::channel();
        if is_malformed {
            let _ = malformed.send(());
        } else {
            self.malformed = Some(malformed);
        }
        Some(told)
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

    /// The same, as long as it is what the request says.
    fn poll_counted(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame<Bytes>>, BodyError>> {
        let was_over = self.state == State::End;
        let frame = match ready!(self.poll_stream(cx)) {
            Ok(frame) => frame,
            Err(error) => {
                self.state = State::End;
                return Poll::Ready(Err(BodyError::Stream(error)));
            }
        };
        let came = frame.as_ref().and_then(Frame::data_ref).map_or(0, |data| data.len() as u64);
        let left = self.left.map(|left| left.checked_sub(came));
        let has_other_length = match left {
            Some(None) => true,
            Some(Some(left)) => self.state == State::End && !was_over && left > 0,
            None => false,
        };
        let trailers = frame.as_ref().and_then(Frame::trailers_ref);
        if has_other_length || trailers.is_some_and(are_of_a_connection) {
            self.state = State::End;
            self.stream.stop_sending(Code::H3_MESSAGE_ERROR);
            let _ = self.malformed.take().map(|malformed| malformed.send(()));
            // The stream is reset before the service can answer what it hears next.
            self.first = Some(Err(BodyError::Malformed));
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.left = left.flatten();
        Poll::Ready(Ok(frame))
    }

    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = after(self.patience);
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
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if let Poll::Ready(frame) = self.poll_counted(cx) {
            self.waiting = false;
            return Poll::Ready(frame.transpose());
        }
        ready!(self.poll_silence(cx));
        self.state = State::End;
        self.stream.stop_sending(Code::H3_REQUEST_CANCELLED);
        Poll::Ready(Some(Err(BodyError::Silent(self.patience))))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.state == State::End
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.as_ref().and_then(|first| first.as_ref().ok()?.data_ref());
        let first = first.map_or(0, |data| data.len() as u64);
        match (self.left, self.is_end_stream()) {
            (_, true) => SizeHint::with_exact(0),
            (Some(left), false) => SizeHint::with_exact(left + first),
            (None, false) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("stream", &self.stream.id()).finish_non_exhaustive()
    }
}
