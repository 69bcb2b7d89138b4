//! The server's direction of a stream that it may still refuse.

use std::{
    future::{Future, poll_fn},
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use mendpath::RecvStream;
use tokio::io::{AsyncRead, ReadBuf};

use crate::{
    protocol::{Reply, StreamCode},
    splice::{Abort, FarEnd, ReadPieces},
};

/// Reads what follows the server's answer, so that the other direction need not wait for it. A
/// refusal is an error, and is kept.
pub(super) enum Early {
    /// The answer has not come.
    Waiting(Pin<Box<dyn Future<Output = Result<RecvStream, Reply>> + Send>>),
    /// The request was granted.
    Granted(RecvStream),
    /// It was not.
    Refused(Reply),
}

impl Early {
    pub(super) fn new(granted: impl Future<Output = Result<RecvStream, Reply>> + Send + 'static) -> Self {
        Self::Waiting(Box::pin(granted))
    }

    /// Whether the request was granted.
    pub(super) fn is_granted(&self) -> bool {
        matches!(self, Self::Granted(_))
    }

    /// Waits for the answer.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Self::Waiting(answer) = self {
            *self = match ready!(answer.as_mut().poll(cx)) {
                Ok(receive) => Self::Granted(receive),
                Err(reply) => Self::Refused(reply),
            };
        }
        Poll::Ready(())
    }

    /// The stream behind the answer, if the request was granted.
    fn stream(&mut self) -> io::Result<&mut RecvStream> {
        match self {
            Self::Waiting(_) => Err(io::ErrorKind::WouldBlock.into()),
            Self::Granted(receive) => Ok(receive),
            Self::Refused(reply) => Err(io::Error::other(Refusal(reply.clone()))),
        }
    }

    /// Why the request was refused, if it was. Waits for the answer: when a server refuses, that it
    /// takes no more may arrive before it says why.
    pub(super) async fn refusal(self) -> Option<Reply> {
        match self {
            Self::Waiting(answer) => answer.await.err(),
            Self::Granted(_) => None,
            Self::Refused(reply) => Some(reply),
        }
    }
}

/// Why nothing can be read: the server's answer.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.text)]
pub(super) struct Refusal(pub(super) Reply);

impl AsyncRead for Early {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_answer(cx));
        Pin::new(self.stream()?).poll_read(cx, buf)
    }
}

impl ReadPieces for &mut Early {
    async fn read_pieces(&mut self, pieces: &mut [Bytes]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_answer(cx)).await;
        self.stream()?.read_pieces(pieces).await
    }

    async fn far_end(&mut self) -> Option<FarEnd> {
        match self {
            Early::Granted(receive) => receive.far_end().await,
            Early::Waiting(_) | Early::Refused(_) => None,
        }
    }
}

impl Abort for &mut Early {
    /// Before the answer there is nothing to give up: the stream is stopped when it is dropped.
    fn abort(&mut self, code: StreamCode) {
        if let Early::Granted(receive) = self {
            receive.abort(code);
        }
    }
}
