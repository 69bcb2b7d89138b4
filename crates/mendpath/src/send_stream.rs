//! The sending side of a stream.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use proto::StreamId;
use tokio::io::AsyncWrite;

use crate::{ClosedStream, WriteError};

/// The sending side of a stream.
///
/// Dropped without [`finish`](Self::finish) or [`reset`](Self::reset), it finishes: what was written still arrives. As
/// [`AsyncWrite`], shutdown finishes, and flush does nothing, since data never waits for more.
#[derive(Debug)]
pub struct SendStream {}

impl SendStream {
    /// The stream's id, the same at the peer.
    pub fn id(&self) -> StreamId {
        todo!()
    }

    /// Takes some of `data`, as soon as there is room, and returns how many bytes. Cancel safe.
    ///
    /// # Errors
    /// If the peer stopped the stream, it is finished or reset, or the connection has ended.
    pub async fn write(&mut self, _data: &[u8]) -> Result<usize, WriteError> {
        todo!()
    }

    /// Takes all of `data`. Not cancel safe: a part may have been taken.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn write_all(&mut self, _data: &[u8]) -> Result<(), WriteError> {
        todo!()
    }

    /// No more data follows. Does not wait: see [`finished`](Self::finished).
    ///
    /// # Errors
    /// If it was finished or reset before.
    pub fn finish(&mut self) -> Result<(), ClosedStream> {
        todo!()
    }

    /// Waits until the peer's transport has acknowledged everything, the end included; call [`finish`](Self::finish)
    /// first. Cancel safe.
    ///
    /// # Errors
    /// If the peer stopped the stream, it was reset, or the connection ended before.
    pub async fn finished(&mut self) -> Result<(), WriteError> {
        todo!()
    }

    /// Gives the stream up, with a code for the peer; what was not acknowledged may never arrive.
    ///
    /// # Errors
    /// If it was finished and acknowledged, or reset, before.
    pub fn reset(&mut self, _code: u64) -> Result<(), ClosedStream> {
        todo!()
    }

    /// Waits until the peer has stopped the stream, and returns its code; `None` if everything was acknowledged instead.
    /// Cancel safe.
    ///
    /// # Errors
    /// If the connection ended before.
    pub async fn stopped(&mut self) -> Result<Option<u64>, WriteError> {
        todo!()
    }

    /// Streams of higher priority are sent first; 0 is the default.
    ///
    /// # Errors
    /// If it was finished and acknowledged, or reset, before.
    pub fn set_priority(&self, _priority: i32) -> Result<(), ClosedStream> {
        todo!()
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, _cx: &mut Context<'_>, _data: &[u8]) -> Poll<io::Result<usize>> {
        todo!()
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        todo!()
    }
}
