//! A connection of which is known how much the client's side has taken.

use std::{
    future::Future,
    io::{IoSlice, Result},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::timeout,
};

use super::{MAX_REQUESTS, UNSENT};

/// What a response has of the connection at its turn, in bytes (RFC 9113 section 4.2).
const FRAME: u64 = 16 << 10;
/// Within so many bytes all responses had a turn, whatever of them waits to leave.
const TURNS: u64 = MAX_REQUESTS as u64 * UNSENT as u64;

/// How many bytes the system has taken, which has room for no more than what the client leaves it.
#[derive(Clone, Default)]
pub(super) struct Taken(Arc<AtomicU64>);

impl Taken {
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Whether it is a frame's worth more than `before`, which is what it is now from then on: what the
    /// connection says of itself is less.
    pub(super) fn goes_on(&self, before: &mut u64) -> bool {
        let now = self.bytes();
        now - std::mem::replace(before, now) >= FRAME
    }

    fn count(&self, written: Poll<Result<usize>>) -> Poll<Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.0.fetch_add(*bytes as u64, Relaxed);
        }
        written
    }
}

/// How long the client may take nothing of a response.
#[derive(Clone)]
pub(super) struct Patience {
    pub(super) time: Duration,
    /// Of all responses of the connection.
    pub(super) taken: Taken,
}

impl Patience {
    /// Waits until there is more room for one of the responses, as long as the client takes others: behind a
    /// slow network the next turn of each may be minutes away. `None` if it takes too little, or each has
    /// had a turn.
    pub(super) async fn wait<T>(&self, mut room: impl Future<Output = T> + Unpin) -> Option<T> {
        let begun = self.taken.bytes();
        let mut before = begun;
        loop {
            if let Ok(room) = timeout(self.time, &mut room).await {
                return Some(room);
            }
            if !self.taken.goes_on(&mut before) || before - begun > TURNS {
                return None;
            }
        }
    }
}

/// The connection.
pub(super) struct Counted<T> {
    pub(super) io: T,
    pub(super) taken: Taken,
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, out)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, data);
        self.taken.count(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, data);
        self.taken.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
