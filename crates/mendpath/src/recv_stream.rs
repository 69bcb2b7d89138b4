//! The receiving side of a stream.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use proto::StreamId;
use tokio::io::{AsyncRead, ReadBuf};

use crate::{ClosedStream, ReadError, ReadToEndError};

/// The receiving side of a stream.
///
/// Dropped before its end was read, it stops: the peer need not send the rest.
#[derive(Debug)]
pub struct RecvStream {}

impl RecvStream {
    /// The stream's id, the same at the peer.
    pub fn id(&self) -> StreamId {
        todo!()
    }

    /// Reads what is there, waiting for the first byte, and returns how many bytes; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// If the peer reset the stream, it was stopped, or the connection has ended.
    pub async fn read(&mut self, _buf: &mut [u8]) -> Result<Option<usize>, ReadError> {
        todo!()
    }

    /// Reads up to the end. Not cancel safe: what was read would be lost.
    ///
    /// # Errors
    /// If the stream is longer than `limit` bytes, or as [`read`](Self::read).
    pub async fn read_to_end(&mut self, _limit: usize) -> Result<Vec<u8>, ReadToEndError> {
        todo!()
    }

    /// Tells the peer with a code of the application that no more is wanted (STOP_SENDING).
    ///
    /// # Errors
    /// If it was stopped, or has ended, before.
    pub fn stop(&mut self, _code: u64) -> Result<(), ClosedStream> {
        todo!()
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        _buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        todo!()
    }
}
