//! What the application is told when an operation on a stream cannot be done.

use core::fmt;

use bytes::Bytes;

use crate::wire::VarInt;

/// Why [`Connection::write`](crate::Connection::write) took no byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteError {
    /// Flow control or the send buffer lets no byte in now; a `Writable` event follows.
    Blocked,
    /// The peer asked to stop, with this application error code; nothing more will be delivered.
    Stopped(VarInt),
    /// The application has finished or reset the stream.
    Closed,
    /// No such stream, none that can be written to, or one that has been forgotten.
    Unknown,
}

/// Why [`Connection::finish`](crate::Connection::finish) could not end the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FinishError {
    /// The peer asked to stop, with this application error code.
    Stopped(VarInt),
    /// The application has finished or reset the stream before.
    Closed,
    /// No such stream, none that can be written to, or one that has been forgotten.
    Unknown,
}

/// Why [`Connection::reset`](crate::Connection::reset) or
/// [`Connection::stop`](crate::Connection::stop) did nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseError {
    /// The application has reset (or stopped) the stream before.
    Closed,
    /// No such stream, none with this direction, or one that has been forgotten.
    Unknown,
}

/// Outcome of a [`Connection::read`](crate::Connection::read) that did not fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// So many bytes, in order, were copied; zero only for an empty buffer.
    Data(usize),
    /// Every byte has been read and the peer ended the stream. Said once: the receive half is then
    /// forgotten.
    Finished,
}

/// Bytes of a stream as they follow each other, and where in the stream they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// Where the bytes begin: so many came before them.
    pub offset: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// Outcome of a [`Connection::read_chunk`](crate::Connection::read_chunk) that did not fail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadChunk {
    /// The next bytes.
    Data(Chunk),
    /// As [`Read::Finished`].
    Finished,
}

/// What has arrived of the end of a stream, as
/// [`Connection::receive_end`](crate::Connection::receive_end) tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveEnd {
    /// The peer reset the stream, with this application error code, and what the reset promises is here;
    /// the rest will not come.
    Reset(VarInt),
    /// All of it is here, read or not.
    Complete,
}

/// Why [`Connection::read`](crate::Connection::read) has nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// The next byte has not arrived; a `Readable` event follows.
    Blocked,
    /// The peer reset the stream with this application error code. Said once: the receive half is
    /// then forgotten.
    Reset(VarInt),
    /// The application has stopped the stream.
    Closed,
    /// No such stream, none that can be read from, or one that has been forgotten.
    Unknown,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocked => f.write_str("the stream takes no data now"),
            Self::Stopped(code) => write!(f, "the peer stopped the stream (code {code})"),
            Self::Closed => f.write_str("the stream was finished or reset before"),
            Self::Unknown => f.write_str("there is no such stream to write to"),
        }
    }
}

impl fmt::Display for FinishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(code) => write!(f, "the peer stopped the stream (code {code})"),
            Self::Closed => f.write_str("the stream was finished or reset before"),
            Self::Unknown => f.write_str("there is no such stream to finish"),
        }
    }
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the stream was closed before",
            Self::Unknown => "there is no such stream to close",
        })
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocked => f.write_str("the stream has no data now"),
            Self::Reset(code) => write!(f, "the peer reset the stream (code {code})"),
            Self::Closed => f.write_str("the stream was stopped before"),
            Self::Unknown => f.write_str("there is no such stream to read from"),
        }
    }
}

impl std::error::Error for WriteError {}
impl std::error::Error for FinishError {}
impl std::error::Error for CloseError {}
impl std::error::Error for ReadError {}
