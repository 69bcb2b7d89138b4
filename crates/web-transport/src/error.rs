//! What can go wrong.

use mendpath::{ConnectionError, ReadError, SendDatagramError, StoppedError, VarInt, WriteError};
use thiserror::Error;

use crate::codes::Codes;

/// Why a session has ended, or takes no datagram.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The peer's application closed it.
    #[error("the peer closed the session with code {code}: {reason}")]
    Closed {
        /// Its code.
        code: u32,
        /// Its words, as far as they are text.
        reason: String,
    },
    /// The peer broke a rule of HTTP/3 or WebTransport, for which the connection was closed.
    #[error("the peer broke the protocol: {0}")]
    Violation(&'static str),
    /// The connection below has ended: this side closed it, or the transport did.
    #[error(transparent)]
    Connection(ConnectionError),
    /// A datagram was not taken.
    #[error(transparent)]
    Datagram(SendDatagramError),
}

impl SessionError {
    pub(crate) fn of_connection(error: ConnectionError, codes: Codes) -> Self {
        match error {
            ConnectionError::ApplicationClosed { code, reason } => match codes.decode_end(code) {
                Some(code) => Self::Closed { code, reason: String::from_utf8_lossy(&reason).into_owned() },
                None => Self::Connection(ConnectionError::ApplicationClosed { code, reason }),
            },
            other => Self::Connection(other),
        }
    }

    fn application(&self) -> Option<(u32, String)> {
        match self {
            Self::Closed { code, reason } => Some((*code, reason.clone())),
            _ => None,
        }
    }
}

/// Why a stream takes or gives nothing more.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The peer wants no more of it.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u32),
    /// The peer gave it up.
    #[error("the peer reset the stream with code {0}")]
    Reset(u32),
    /// The peer stopped or reset it with a code that no session of this kind sends.
    #[error("the peer ended the stream with {0}, which is no code of a session")]
    Foreign(VarInt),
    /// It was finished, reset or stopped on this side.
    #[error("the stream was ended on this side")]
    Ended,
    /// It was opened before the handshake was complete, and the server took nothing of that.
    #[error("the server rejected early data")]
    EarlyDataRejected,
    /// The session has ended.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl StreamError {
    fn application(&self) -> Option<(u32, String)> {
        match self {
            Self::Session(error) => error.application(),
            _ => None,
        }
    }

    fn code(&self) -> Option<u32> {
        match self {
            Self::Stopped(code) | Self::Reset(code) => Some(*code),
            _ => None,
        }
    }
}

/// What an error of the transport means to a stream; `lost` says what the end of the connection
/// means.
pub(crate) fn write(
    error: WriteError,
    codes: Codes,
    lost: impl Fn(ConnectionError) -> SessionError,
) -> StreamError {
    match error {
        WriteError::Stopped(code) => stopped(code, codes),
        WriteError::ZeroRttRejected => StreamError::EarlyDataRejected,
        WriteError::ConnectionLost(error) => lost(error).into(),
        // Those to come included.
        _ => StreamError::Ended,
    }
}

pub(crate) fn read(
    error: ReadError,
    codes: Codes,
    lost: impl Fn(ConnectionError) -> SessionError,
) -> StreamError {
    match error {
        ReadError::Reset(code) => codes.decode(code).map_or(StreamError::Foreign(code), StreamError::Reset),
        ReadError::ZeroRttRejected => StreamError::EarlyDataRejected,
        ReadError::ConnectionLost(error) => lost(error).into(),
        _ => StreamError::Ended,
    }
}

pub(crate) fn ending(error: StoppedError, lost: impl Fn(ConnectionError) -> SessionError) -> StreamError {
    match error {
        StoppedError::ConnectionLost(error) => lost(error).into(),
        _ => StreamError::EarlyDataRejected,
    }
}

pub(crate) fn stopped(code: VarInt, codes: Codes) -> StreamError {
    codes.decode(code).map_or(StreamError::Foreign(code), StreamError::Stopped)
}

/// Both versions of the trait ask the same.
macro_rules! errors {
    ($traits:path) => {
        const _: () = {
            use $traits as traits;

            impl traits::Error for SessionError {
                fn session_error(&self) -> Option<(u32, String)> {
                    self.application()
                }
            }

            impl traits::Error for StreamError {
                fn session_error(&self) -> Option<(u32, String)> {
                    self.application()
                }

                fn stream_error(&self) -> Option<u32> {
                    self.code()
                }
            }
        };
    };
}

errors!(web_transport_trait);
#[cfg(feature = "trait-0-4")]
errors!(trait_0_4);
