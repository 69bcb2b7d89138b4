//! The receiving side of a stream.

use std::{
    fmt,
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use proto::{Read, StreamId, VarInt};
use tokio::io::{AsyncRead, ReadBuf};

use crate::{ClosedStream, Connection, ReadError, ReadToEndError, SendStream, shared::Shared};

/// By how much [`RecvStream::read_to_end`] extends its buffer, bytes.
const READ_STEP: usize = 16 << 10;

/// The receiving side of a stream.
///
/// Dropped before its end was read, it stops with the code [`DROPPED`](crate::SendStream::DROPPED): the peer need not send the rest.
pub struct RecvStream {
    connection: Connection,
    id: StreamId,
    /// Opened by a client before its handshake was complete.
    early: bool,
    /// How it ended, as later reads tell again.
    end: Option<Result<(), ReadError>>,
}

impl RecvStream {
    pub(crate) fn new(connection: Connection, id: StreamId, early: bool) -> Self {
        let mut state = connection.shared().lock();
        if !state.is_void(early) {
            state.receivers.insert(id, None);
        }
        drop(state);
        Self { connection, id, early, end: None }
    }

    /// Whether a client may have sent bytes of this stream in 0-RTT packets. What is read before the handshake is complete may then
    /// be a replay; see [`Connecting::into_0rtt`](crate::Connecting::into_0rtt).
    pub fn is_0rtt(&self) -> bool {
        self.shared().lock().proto.is_early(self.id)
    }

    /// The stream's id, the same at the peer.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Reads what is there, waiting for the first byte, and returns how many bytes; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// If the peer reset the stream, it was stopped, or the connection has ended and what had arrived was read.
    pub async fn read(&mut self, buf: &mut [u8]) -> Result<Option<usize>, ReadError> {
        poll_fn(|cx| self.poll_some(cx, buf)).await
    }

    /// Reads up to the end. Not cancel safe: what was read would be lost.
    ///
    /// # Errors
    /// If the stream is longer than `limit` bytes, or as [`read`](Self::read).
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Vec<u8>, ReadToEndError> {
        let mut data = Vec::new();
        let mut length = 0;
        loop {
            if length == data.len() {
                data.resize(length + READ_STEP.max(length / 2), 0);
            }
            match self.read(&mut data[length..]).await? {
                Some(read) => length += read,
                None => break,
            }
            if length > limit {
                return Err(ReadToEndError::TooLong { limit });
            }
        }
        data.truncate(length);
        Ok(data)
    }

    /// Tells the peer with a code of the application that no more is wanted (STOP_SENDING).
    ///
    /// # Errors
    /// If it was stopped, or has ended, before.
    pub fn stop(&mut self, code: VarInt) -> Result<(), ClosedStream> {
        if self.end.is_some() {
            return Err(ClosedStream);
        }
        self.end = Some(Err(ReadError::ClosedStream));
        let mut state = self.shared().lock();
        let stopped = !state.is_void(self.early) && state.proto.stop(self.id, code).is_ok();
        drop(state);
        self.shared().wake_driver();
        if stopped { Ok(()) } else { Err(ClosedStream) }
    }

    fn shared(&self) -> &Shared {
        self.connection.shared()
    }

    fn poll_some(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<Result<Option<usize>, ReadError>> {
        if let Some(end) = &self.end {
            return Poll::Ready(end.clone().map(|()| None));
        }
        if buf.is_empty() {
            return Poll::Ready(Ok(Some(0)));
        }
        let mut state = self.shared().lock();
        if state.is_void(self.early) {
            return Poll::Ready(Err(ReadError::ZeroRttRejected));
        }
        let end = match state.proto.read(self.id, buf) {
            Ok(Read::Data(read)) => {
                drop(state);
                // Flow control credit may have to be sent.
                self.shared().wake_driver();
                return Poll::Ready(Ok(Some(read)));
            }
            Err(proto::ReadError::Blocked) => {
                state.alive()?;
                state.receivers.insert(self.id, Some(cx.waker().clone()));
                return Poll::Pending;
            }
            Ok(Read::Finished) => Ok(()),
            Err(proto::ReadError::Reset(code)) => Err(ReadError::Reset(code)),
            Err(proto::ReadError::Closed | proto::ReadError::Unknown) => {
                Err(state.alive().err().map_or(ReadError::ClosedStream, Into::into))
            }
        };
        drop(state);
        self.shared().wake_driver();
        self.end = Some(end.clone());
        Poll::Ready(end.map(|()| None))
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let mut state = self.shared().lock();
        if state.is_void(self.early) {
            return;
        }
        state.receivers.remove(&self.id);
        if self.end.is_none() && state.error.is_none() {
            // Refused if the stream has come to its end already.
            let _ = state.proto.stop(self.id, SendStream::DROPPED);
        }
        drop(state);
        self.shared().wake_driver();
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(self.poll_some(cx, buf.initialize_unfilled()))?;
        buf.advance(read.unwrap_or(0));
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for RecvStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvStream").field("id", &self.id).finish_non_exhaustive()
    }
}
