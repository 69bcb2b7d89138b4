//! Frames that start, stop, limit and unblock streams (RFC 9000 sections 19.4, 19.5, 19.9
//! to 19.14; draft-ietf-quic-reliable-stream-reset section 4).

use super::super::coding::{Reader, put_varint, varint_len};
use super::super::ids::{Dir, StreamId};
use super::super::varint::VarInt;
use super::field::varint_frame;
use super::{FrameProblem, frame_types};

varint_frame! {
    /// RESET_STREAM: the sender gives up its half of a stream.
    pub struct ResetStream = RESET_STREAM {
        /// The stream.
        pub id: StreamId,
        /// The application's error code.
        pub error_code: VarInt,
        /// Bytes that were sent on the stream in all.
        pub final_size: u64,
    }
}

varint_frame! {
    /// RESET_STREAM_AT: the sender gives up its half of a stream but for its beginning.
    pub struct ResetStreamAt = RESET_STREAM_AT {
        /// The stream.
        pub id: StreamId,
        /// The application's error code.
        pub error_code: VarInt,
        /// Bytes that were sent on the stream in all.
        pub final_size: u64,
        /// Bytes that are delivered nevertheless; at most `final_size`.
        pub reliable_size: u64,
    }
}

varint_frame! {
    /// STOP_SENDING: the receiver wants no more of a stream.
    pub struct StopSending = STOP_SENDING {
        /// The stream.
        pub id: StreamId,
        /// The application's error code.
        pub error_code: VarInt,
    }
}

varint_frame! {
    /// MAX_DATA: how many bytes all streams together may carry.
    pub struct MaxData = MAX_DATA {
        /// Bytes, counted from the start of the connection.
        pub maximum: u64,
    }
}

varint_frame! {
    /// MAX_STREAM_DATA: how many bytes one stream may carry.
    pub struct MaxStreamData = MAX_STREAM_DATA {
        /// The stream.
        pub id: StreamId,
        /// Bytes, counted from the start of the stream.
        pub maximum: u64,
    }
}

varint_frame! {
    /// DATA_BLOCKED: the connection's flow control holds data back.
    pub struct DataBlocked = DATA_BLOCKED {
        /// The limit that holds it back, in bytes.
        pub limit: u64,
    }
}

varint_frame! {
    /// STREAM_DATA_BLOCKED: a stream's flow control holds data back.
    pub struct StreamDataBlocked = STREAM_DATA_BLOCKED {
        /// The stream.
        pub id: StreamId,
        /// The limit that holds it back, in bytes.
        pub limit: u64,
    }
}

/// The largest number of streams of one kind, 2^60: a stream id must fit 62 bits.
const MAX_STREAM_COUNT: u64 = 1 << 60;

/// Declares a frame with one type for each [`Dir`] and a number of streams as its only field.
macro_rules! stream_count_frame {
    ($(#[$doc:meta])* $name:ident { $(#[$field_doc:meta])* $field:ident }, $bidi:ident, $uni:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            /// The kind of streams.
            pub dir: Dir,
            $(#[$field_doc])*
            pub $field: u64,
        }

        impl $name {
            pub(super) fn decode(frame_type: u64, reader: &mut Reader<'_>) -> Result<Self, FrameProblem> {
                let dir = if frame_type == frame_types::$bidi { Dir::Bi } else { Dir::Uni };
                let $field = reader.varint()?;
                if $field > MAX_STREAM_COUNT {
                    return Err(FrameProblem::Invalid("more than 2^60 streams"));
                }
                Ok(Self { dir, $field })
            }

            pub(super) const fn frame_type(&self) -> u64 {
                match self.dir {
                    Dir::Bi => frame_types::$bidi,
                    Dir::Uni => frame_types::$uni,
                }
            }

            /// Appends the frame.
            pub fn encode(&self, out: &mut Vec<u8>) {
                put_varint(out, self.frame_type());
                put_varint(out, self.$field);
            }

            /// Bytes that `encode` appends.
            pub const fn encoded_len(&self) -> usize {
                1 + varint_len(self.$field)
            }
        }
    };
}

stream_count_frame! {
    /// MAX_STREAMS: how many streams of a kind the peer may open.
    MaxStreams {
        /// Streams, counted from the start of the connection; at most 2^60.
        maximum
    }, MAX_STREAMS_BIDI, MAX_STREAMS_UNI
}

stream_count_frame! {
    /// STREAMS_BLOCKED: the peer's limit keeps a stream from being opened.
    StreamsBlocked {
        /// The limit that does; at most 2^60.
        limit
    }, STREAMS_BLOCKED_BIDI, STREAMS_BLOCKED_UNI
}
