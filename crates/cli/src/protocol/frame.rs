//! Frames: two bytes of length, big-endian, then that many bytes.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The longest hello, request or reply, in bytes.
pub const MAX_MESSAGE: usize = 1_024;
/// The longest frame of a packet, in bytes: its address and a whole UDP datagram never fill more.
pub const MAX_PACKET: usize = 65_535;

/// Why no frame could be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream failed, or ended inside a frame.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The frame is longer than the reader takes.
    #[error("a frame of {length} bytes where at most {limit} are allowed")]
    TooLong {
        /// What the peer announced, in bytes.
        length: usize,
        /// What is allowed, in bytes.
        limit: usize,
    },
}

/// Reads one frame of at most `limit` bytes; `None` when the stream ends before its first byte.
///
/// # Errors
/// When the stream fails or ends inside the frame, or the frame is too long (nothing of it is read
/// then).
pub async fn read_frame<R: AsyncRead + Unpin>(
    stream: &mut R,
    limit: usize,
) -> Result<Option<Vec<u8>>, FrameError> {
    let mut head = [0; 2];
    if stream.read(&mut head[..1]).await? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut head[1..]).await?;
    let length = usize::from(u16::from_be_bytes(head));
    if length > limit {
        return Err(FrameError::TooLong { length, limit });
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(body))
}

/// Writes `body` as one frame.
///
/// # Errors
/// When the stream fails.
///
/// # Panics
/// When `body` is longer than 65,535 bytes, which no message is.
pub async fn write_frame<W: AsyncWrite + Unpin>(stream: &mut W, body: &[u8]) -> io::Result<()> {
    let length = u16::try_from(body.len()).expect("messages are shorter than 64 KiB");
    let mut frame = Vec::with_capacity(2 + body.len());
    frame.extend(length.to_be_bytes());
    frame.extend(body);
    // One write, so that a short message is one packet.
    stream.write_all(&frame).await?;
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_read_back_until_the_end() {
        let mut wire = Vec::new();
        write_frame(&mut wire, b"one").await.unwrap();
        write_frame(&mut wire, b"").await.unwrap();
        assert_eq!(wire, b"\0\x03one\0\0");
        let mut rest = wire.as_slice();
        assert_eq!(read_frame(&mut rest, 3).await.unwrap().unwrap(), b"one");
        assert_eq!(read_frame(&mut rest, 3).await.unwrap().unwrap(), b"");
        assert!(read_frame(&mut rest, 3).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn long_and_cut_frames_are_errors() {
        let error = read_frame(&mut b"\x04\x01x".as_slice(), MAX_MESSAGE).await.unwrap_err();
        assert!(matches!(error, FrameError::TooLong { length: 1_025, limit: MAX_MESSAGE }));
        for cut in [b"\0".as_slice(), b"\0\x03on"] {
            assert!(matches!(read_frame(&mut &cut[..], 9).await, Err(FrameError::Io(_))));
        }
    }
}
