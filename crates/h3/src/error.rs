//! What the transport's errors mean to HTTP/3.

use std::sync::Arc;

use h3::quic::{ConnectionErrorIncoming, StreamErrorIncoming};
use mendpath::{ConnectionError, ReadError, WriteError};

/// Only what the peer's application said has a meaning in HTTP/3.
pub(crate) fn connection(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed { code, .. } => {
            ConnectionErrorIncoming::ApplicationClose { error_code: code.into_inner() }
        }
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        other => ConnectionErrorIncoming::Undefined(Arc::new(other)),
    }
}

/// The connection's end as streams tell it.
pub(crate) fn lost(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: connection(error) }
}

/// STOP_SENDING carries a code of HTTP/3.
pub(crate) fn write(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() },
        WriteError::ConnectionLost(error) => lost(error),
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}

/// RESET_STREAM carries a code of HTTP/3.
pub(crate) fn read(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() },
        ReadError::ConnectionLost(error) => lost(error),
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}

#[cfg(test)]
mod tests {
    use mendpath::VarInt;

    use super::*;

    #[test]
    fn codes_of_the_peer_are_kept_and_others_have_none() {
        let code = VarInt::from_u32(0x10c);
        let closed = connection(ConnectionError::ApplicationClosed { code, reason: Vec::new() });
        assert!(matches!(closed, ConnectionErrorIncoming::ApplicationClose { error_code: 0x10c }));
        assert!(matches!(connection(ConnectionError::TimedOut), ConnectionErrorIncoming::Timeout));
        for other in [ConnectionError::LocallyClosed, ConnectionError::Reset, ConnectionError::EndpointGone] {
            assert!(matches!(connection(other), ConnectionErrorIncoming::Undefined(_)));
        }
        let terminated = |error| matches!(error, StreamErrorIncoming::StreamTerminated { error_code: 0x10c });
        assert!(terminated(write(WriteError::Stopped(code))));
        assert!(terminated(read(ReadError::Reset(code))));
        assert!(matches!(read(ReadError::ClosedStream), StreamErrorIncoming::Unknown(_)));
        assert!(matches!(
            write(WriteError::ConnectionLost(ConnectionError::TimedOut)),
            StreamErrorIncoming::ConnectionErrorIncoming {
                connection_error: ConnectionErrorIncoming::Timeout
            }
        ));
    }
}
