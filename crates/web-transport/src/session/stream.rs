//! The sides of a stream.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use bytes::{BufMut, Bytes};
use mendpath::{StoppedError, VarInt};

use crate::{
    StreamError, error,
    session::{Link, Wait},
};

type Ending = Pin<Box<dyn Future<Output = Result<Option<VarInt>, StoppedError>> + Send + Sync>>;

/// The sending side of a stream. Dropped without `finish`, it is reset with code 0. What tells the peer
/// whose stream it is arrives nevertheless.
pub struct SendStream {
    /// Kept from poll to poll; goes before the stream, which looks whether somebody waits.
    ending: Option<Ending>,
    stream: mendpath::SendStream,
    /// Finished or reset by us.
    over: bool,
    wait: Wait,
    link: Arc<Link>,
}

impl SendStream {
    pub(crate) fn new(stream: mendpath::SendStream, link: Arc<Link>) -> Self {
        Self { ending: None, stream, over: false, wait: Wait::default(), link }
    }

    /// The stream below.
    pub fn get_ref(&self) -> &mendpath::SendStream {
        &self.stream
    }

    /// Promises that what was written so far is delivered even if the stream is reset later, or dropped:
    /// [`mendpath::SendStream::set_reliable_boundary`].
    ///
    /// # Errors
    /// If it was finished or reset, or the peer stopped it, before.
    pub fn set_reliable_boundary(&mut self) -> Result<(), StreamError> {
        self.stream.set_reliable_boundary().map_err(|_| self.why_over())
    }

    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, StreamError>> {
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.link.open()?;
        let taken = self.stream.poll_write(cx, data);
        let taken =
            taken.map_err(|error| error::write(error, self.link.codes(), |lost| self.link.lost(lost)));
        self.link.or_end(&mut self.wait, cx, taken)
    }

    pub(crate) fn order(&self, order: i32) {
        self.stream.set_priority(order);
    }

    pub(crate) fn finish(&mut self) -> Result<(), StreamError> {
        self.stream.finish().map_err(|_| self.why_over())?;
        self.over = true;
        Ok(())
    }

    /// Why nothing can follow: who stopped the stream has a code.
    fn why_over(&mut self) -> StreamError {
        // To write nothing never waits.
        match self.stream.poll_write(&mut Context::from_waker(Waker::noop()), &[]) {
            Poll::Ready(Err(error)) => error::write(error, self.link.codes(), |lost| self.link.lost(lost)),
            _ => StreamError::Ended,
        }
    }

    pub(crate) fn reset(&mut self, code: u32) {
        self.over = true;
        // Refused once all of it was acknowledged, or it was reset before.
        let _ = self.stream.reset(self.link.codes().encode(code));
    }

    pub(crate) fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        let ending = self.ending.get_or_insert_with(|| Box::pin(self.stream.stopped()));
        let end = ready!(ending.as_mut().poll(cx));
        self.ending = None;
        Poll::Ready(match end {
            Ok(None) => Ok(()),
            Ok(Some(code)) => Err(error::stopped(code, self.link.codes())),
            Err(error) => Err(error::ending(error, |lost| self.link.lost(lost))),
        })
    }
}

impl Drop for SendStream {
    /// The stream below would say QUIC's 0, which over HTTP/3 is no code of a session.
    fn drop(&mut self) {
        if !self.over {
            self.reset(0);
        }
    }
}

impl fmt::Debug for SendStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendStream").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// The receiving side of a stream. Dropped before its end was read, it stops with code 0.
pub struct RecvStream {
    stream: mendpath::RecvStream,
    wait: Wait,
    link: Arc<Link>,
}

impl RecvStream {
    pub(crate) fn new(stream: mendpath::RecvStream, link: Arc<Link>) -> Self {
        Self { stream, wait: Wait::default(), link }
    }

    /// The stream below.
    pub fn get_ref(&self) -> &mendpath::RecvStream {
        &self.stream
    }

    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<Option<usize>, StreamError>> {
        self.link.open()?;
        let read = self.stream.poll_read(cx, buffer).map_err(|error| self.error(error));
        self.link.or_end(&mut self.wait, cx, read)
    }

    pub(crate) fn poll_read_buf<B: BufMut>(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut B,
    ) -> Poll<Result<Option<usize>, StreamError>> {
        let chunk = ready!(self.poll_read_chunk(cx, buffer.remaining_mut()))?;
        Poll::Ready(Ok(chunk.map(|bytes| {
            let length = bytes.len();
            buffer.put(bytes);
            length
        })))
    }

    /// Asking for nothing is not the end.
    pub(crate) fn poll_read_chunk(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Bytes>, StreamError>> {
        if max == 0 {
            return Poll::Ready(Ok(Some(Bytes::new())));
        }
        self.link.open()?;
        let chunk = self.stream.poll_read_chunk(cx, max);
        let chunk = chunk.map_ok(|chunk| chunk.map(|chunk| chunk.bytes)).map_err(|error| self.error(error));
        self.link.or_end(&mut self.wait, cx, chunk)
    }

    pub(crate) fn stop(&mut self, code: u32) {
        // Refused once it has come to its end.
        let _ = self.stream.stop(self.link.codes().encode(code));
    }

    /// Also once all has arrived and is yet to be read: after that, nothing can close it.
    pub(crate) fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        match ready!(self.stream.poll_received_reset(cx)) {
            Ok(None) => Poll::Ready(Ok(())),
            Ok(Some(code)) => Poll::Ready(Err(self.error(mendpath::ReadError::Reset(code)))),
            Err(error) => Poll::Ready(Err(self.error(error))),
        }
    }

    fn error(&self, error: mendpath::ReadError) -> StreamError {
        error::read(error, self.link.codes(), |lost| self.link.lost(lost))
    }
}

impl Drop for RecvStream {
    /// As of [`SendStream`]; refused once it has come to its end.
    fn drop(&mut self) {
        self.stop(0);
    }
}

impl fmt::Debug for RecvStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvStream").field("stream", &self.stream).finish_non_exhaustive()
    }
}
