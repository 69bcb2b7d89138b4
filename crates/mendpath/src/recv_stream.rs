//! The receiving side of a stream.

use std::{
    fmt,
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use proto::{Chunk, Read, ReadChunk, ReceiveEnd, StreamId, VarInt};
use tokio::io::{AsyncRead, ReadBuf};

use crate::{
    ClosedStream, ReadError, ReadToEndError, SendStream,
    engine::{Handle, Shared},
};

/// By how much [`RecvStream::read_to_end`] extends its buffer, bytes.
const READ_STEP: usize = 16 << 10;

/// The receiving side of a stream.
///
/// Dropped before its end was read, it stops with the code [`DROPPED`](crate::SendStream::DROPPED):
/// the peer need not send the rest.
pub struct RecvStream {
    handle: Handle,
    id: StreamId,
    /// Opened by a client before its handshake was complete.
    early: bool,
    /// How it ended, as later reads tell again.
    end: Option<Result<(), ReadError>>,
}

impl RecvStream {
    pub(crate) fn new(handle: Handle, id: StreamId, early: bool) -> Self {
        let mut state = handle.shared().lock();
        if !state.is_void(early) {
            state.receivers.insert(id, None);
        }
        drop(state);
        Self { handle, id, early, end: None }
    }

    /// Whether a client may have sent bytes of this stream in 0-RTT packets. What is read before
    /// the handshake is complete may then be a replay; see
    /// [`Connecting::into_0rtt`](crate::Connecting::into_0rtt).
    pub fn is_0rtt(&self) -> bool {
        self.shared().lock().proto.is_early(self.id)
    }

    /// The stream's id, the same at the peer.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Reads what is there, waiting for the first byte, and returns how many bytes; `None` at the
    /// end. Cancel safe.
    ///
    /// # Errors
    /// If the peer reset the stream, it was stopped, or the connection has ended and what had
    /// arrived was read.
    pub async fn read(&mut self, buf: &mut [u8]) -> Result<Option<usize>, ReadError> {
        poll_fn(|cx| self.poll_some(cx, buf)).await
    }

    /// The poll form of [`read`](Self::read). The task of the last poll is woken when there is
    /// more.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<Result<Option<usize>, ReadError>> {
        self.poll_some(cx, buf)
    }

    /// Reads the next bytes in order, waiting for the first, without a buffer of the caller's;
    /// `None` at the end. At most `max` bytes, and at least one. Most are not copied once more.
    /// Cancel safe.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_chunk(&mut self, max: usize) -> Result<Option<Chunk>, ReadError> {
        poll_fn(|cx| self.poll_read_chunk(cx, max)).await
    }

    /// The poll form of [`read_chunk`](Self::read_chunk). The task of the last poll is woken when
    /// there is more.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn poll_read_chunk(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Chunk>, ReadError>> {
        self.poll_with(cx, |proto, id| {
            Ok(match proto.read_chunk(id, max.max(1))? {
                ReadChunk::Data(chunk) => Some(chunk),
                ReadChunk::Finished => None,
            })
        })
    }

    /// Fills `chunks` from the front with the next bytes in order, as far as they are there,
    /// waiting for the first; returns how many were filled, or `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_chunks(&mut self, chunks: &mut [Bytes]) -> Result<Option<usize>, ReadError> {
        if chunks.is_empty() {
            return Ok(Some(0));
        }
        poll_fn(|cx| self.poll_read_chunks(cx, chunks)).await
    }

    fn poll_read_chunks(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<Option<usize>, ReadError>> {
        // What comes after the first chunk and is none is for the next call to tell.
        let mut end = None;
        let polled = self.poll_with(cx, |proto, id| {
            let mut filled = 0;
            for slot in chunks {
                match proto.read_chunk(id, usize::MAX) {
                    Ok(ReadChunk::Data(chunk)) => *slot = chunk.bytes,
                    Err(proto::ReadError::Blocked) if filled > 0 => break,
                    told if filled > 0 => {
                        end = Some(told);
                        break;
                    }
                    Ok(ReadChunk::Finished) => return Ok(None),
                    Err(error) => return Err(error),
                }
                filled += 1;
            }
            Ok(Some(filled))
        });
        self.end = match end {
            None => return polled,
            Some(Err(proto::ReadError::Reset(code))) => Some(Err(ReadError::Reset(code))),
            Some(Err(_)) => Some(Err(ReadError::ClosedStream)),
            Some(Ok(_)) => Some(Ok(())),
        };
        polled
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

    /// Waits until the peer has reset the stream, and what that promises has arrived
    /// ([`SendStream::set_reliable_boundary`](crate::SendStream::set_reliable_boundary)), and returns its
    /// code; `None` if all of it has arrived instead, read or not, or it was stopped on this side. Reads
    /// nothing. Cancel safe.
    ///
    /// # Errors
    /// If the server rejected early data, or the connection ended before.
    pub async fn received_reset(&mut self) -> Result<Option<VarInt>, ReadError> {
        poll_fn(|cx| self.poll_received_reset(cx)).await
    }

    /// The poll form of [`received_reset`](Self::received_reset). The task of the last poll is
    /// woken, be it of this or of a read.
    ///
    /// # Errors
    /// As [`received_reset`](Self::received_reset).
    pub fn poll_received_reset(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<VarInt>, ReadError>> {
        match &self.end {
            Some(Ok(()) | Err(ReadError::ClosedStream)) => return Poll::Ready(Ok(None)),
            Some(Err(ReadError::Reset(code))) => return Poll::Ready(Ok(Some(*code))),
            Some(Err(error)) => return Poll::Ready(Err(error.clone())),
            None => {}
        }
        let mut state = self.shared().lock();
        if state.is_void(self.early) {
            return Poll::Ready(Err(ReadError::ZeroRttRejected));
        }
        match state.proto.receive_end(self.id) {
            Ok(Some(ReceiveEnd::Reset(code))) => Poll::Ready(Ok(Some(code))),
            Ok(Some(ReceiveEnd::Complete)) => Poll::Ready(Ok(None)),
            Err(_) => Poll::Ready(state.alive().map(|()| None).map_err(Into::into)),
            Ok(None) => {
                state.alive()?;
                state.receivers.insert(self.id, Some(cx.waker().clone()));
                Poll::Pending
            }
        }
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
        self.handle.shared()
    }

    fn poll_some(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<Result<Option<usize>, ReadError>> {
        if buf.is_empty() && self.end.is_none() {
            return Poll::Ready(Ok(Some(0)));
        }
        self.poll_with(cx, |proto, id| {
            Ok(match proto.read(id, buf)? {
                Read::Data(read) => Some(read),
                Read::Finished => None,
            })
        })
    }

    /// Gives what `read` gives, once it is not blocked; `None` at the end.
    fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut proto::Connection, StreamId) -> Result<Option<T>, proto::ReadError>,
    ) -> Poll<Result<Option<T>, ReadError>> {
        if let Some(end) = &self.end {
            return Poll::Ready(end.clone().map(|()| None));
        }
        let mut state = self.shared().lock();
        if state.is_void(self.early) {
            return Poll::Ready(Err(ReadError::ZeroRttRejected));
        }
        let end = match read(&mut state.proto, self.id) {
            Ok(Some(data)) => {
                drop(state);
                // Flow control credit may have to be sent.
                self.shared().wake_driver();
                return Poll::Ready(Ok(Some(data)));
            }
            Err(proto::ReadError::Blocked) => {
                state.alive()?;
                state.receivers.insert(self.id, Some(cx.waker().clone()));
                return Poll::Pending;
            }
            Ok(None) => Ok(()),
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
        let is_stopped = self.end.is_none() && state.error.is_none();
        if is_stopped {
            // Refused if the stream has come to its end already.
            let _ = state.proto.stop(self.id, SendStream::DROPPED);
        }
        drop(state);
        // Of a stream that has ended nothing is left to say.
        if is_stopped {
            self.shared().wake_driver();
        }
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
