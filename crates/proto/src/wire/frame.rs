//! Frames: the contents of a packet's payload (RFC 9000 section 19, RFC 9221,
//! draft-ietf-quic-multipath-21 section 4, and the repair extension).
//!
//! [`Frames`] walks a payload; every frame borrows from it. Each frame type also writes itself with
//! `encode`, except that frames that carry bulk data have a separate header ([`StreamHeader`],
//! [`CryptoHeader`], [`DatagramHeader`], [`RepairHeader`], [`CombinationHeader`]), after which the
//! caller appends the data without a copy in between.

mod ack;
mod combination;
mod connection;
mod data;
mod field;
mod flow;
/// Frame types by name, as they stand in front of a frame.
pub mod frame_types;
mod multipath;
mod repair;
#[cfg(test)]
mod tests;

pub use ack::{Ack, EcnCounts, encode_ack};
pub use combination::{BlockMembers, Combination, CombinationHeader, block_seed};
pub use connection::{
    ConnectionClose, NewConnectionId, NewToken, PathChallenge, PathResponse, RetireConnectionId,
};
pub use data::{Crypto, CryptoHeader, Datagram, DatagramHeader, Stream, StreamHeader};
pub use flow::{
    DataBlocked, MaxData, MaxStreamData, MaxStreams, ResetStream, ResetStreamAt, StopSending,
    StreamDataBlocked, StreamsBlocked,
};
pub use multipath::{MaxPathId, PathAbandon, PathCidsBlocked, PathStatus, PathsBlocked};
pub use repair::{CodeScheme, Recovered, Repair, RepairHeader, encode_recovered, recovered_len};

use super::coding::{Reader, Truncated, put_varint, varint_len};
use super::error::{TransportError, TransportErrorCode};
use super::ids::PathId;
use super::packet::PacketKind;
use super::ranges::RangeLimits;

/// One frame of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A run of PADDING frames.
    Padding {
        /// How many there are in a row, at least 1; each is a byte.
        len: usize,
    },
    /// PING.
    Ping,
    /// ACK, or PATH_ACK if it names a path.
    Ack(Ack<'a>),
    /// RESET_STREAM.
    ResetStream(ResetStream),
    /// RESET_STREAM_AT.
    ResetStreamAt(ResetStreamAt),
    /// STOP_SENDING.
    StopSending(StopSending),
    /// CRYPTO.
    Crypto(Crypto<'a>),
    /// NEW_TOKEN.
    NewToken(NewToken<'a>),
    /// STREAM.
    Stream(Stream<'a>),
    /// MAX_DATA.
    MaxData(MaxData),
    /// MAX_STREAM_DATA.
    MaxStreamData(MaxStreamData),
    /// MAX_STREAMS.
    MaxStreams(MaxStreams),
    /// DATA_BLOCKED.
    DataBlocked(DataBlocked),
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked(StreamDataBlocked),
    /// STREAMS_BLOCKED.
    StreamsBlocked(StreamsBlocked),
    /// NEW_CONNECTION_ID, or PATH_NEW_CONNECTION_ID if it names a path.
    NewConnectionId(NewConnectionId),
    /// RETIRE_CONNECTION_ID, or PATH_RETIRE_CONNECTION_ID if it names a path.
    RetireConnectionId(RetireConnectionId),
    /// PATH_CHALLENGE.
    PathChallenge(PathChallenge),
    /// PATH_RESPONSE.
    PathResponse(PathResponse),
    /// CONNECTION_CLOSE of either type.
    ConnectionClose(ConnectionClose<'a>),
    /// HANDSHAKE_DONE.
    HandshakeDone,
    /// DATAGRAM.
    Datagram(Datagram<'a>),
    /// PATH_ABANDON.
    PathAbandon(PathAbandon),
    /// PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP.
    PathStatus(PathStatus),
    /// MAX_PATH_ID.
    MaxPathId(MaxPathId),
    /// PATHS_BLOCKED.
    PathsBlocked(PathsBlocked),
    /// PATH_CIDS_BLOCKED.
    PathCidsBlocked(PathCidsBlocked),
    /// REPAIR of the repair extension.
    Repair(Repair<'a>),
    /// RECOVERED of the repair extension.
    Recovered(Recovered<'a>),
    /// COMBINATION of the repair extension.
    Combination(Combination<'a>),
}

/// What must have been negotiated before a frame may appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// max_datagram_frame_size (RFC 9221).
    Datagram,
    /// initial_max_path_id (draft-ietf-quic-multipath-21).
    Multipath,
    /// The repair extension's parameter.
    Repair,
    /// reset_stream_at (draft-ietf-quic-reliable-stream-reset), which allows its peer the frame.
    ResetStreamAt,
}

impl<'a> Frame<'a> {
    /// Reads one frame.
    fn decode(reader: &mut Reader<'a>, limits: RangeLimits) -> Result<Self, FrameError> {
        let at = reader.position();
        let frame_type = reader.varint().map_err(|Truncated| FrameProblem::Truncated.in_frame(None))?;
        if reader.position() - at != varint_len(frame_type) {
            return Err(FrameProblem::TypeNotMinimal.in_frame(Some(frame_type)));
        }
        Self::decode_body(frame_type, reader, limits).map_err(|problem| problem.in_frame(Some(frame_type)))
    }

    /// Reads what follows the frame's type.
    fn decode_body(
        frame_type: u64,
        reader: &mut Reader<'a>,
        limits: RangeLimits,
    ) -> Result<Self, FrameProblem> {
        Ok(match frame_type {
            frame_types::PADDING => Self::Padding { len: 1 + reader.skip_run(0) },
            frame_types::PING => Self::Ping,
            frame_types::ACK | frame_types::ACK_ECN | frame_types::PATH_ACK | frame_types::PATH_ACK_ECN => {
                Self::Ack(Ack::decode(frame_type, reader)?)
            }
            frame_types::RESET_STREAM => Self::ResetStream(ResetStream::decode(reader)?),
            frame_types::RESET_STREAM_AT => Self::ResetStreamAt(ResetStreamAt::decode(reader)?),
            frame_types::STOP_SENDING => Self::StopSending(StopSending::decode(reader)?),
            frame_types::CRYPTO => Self::Crypto(Crypto::decode(reader)?),
            frame_types::NEW_TOKEN => Self::NewToken(NewToken::decode(reader)?),
            frame_types::STREAM..=frame_types::STREAM_LAST => {
                Self::Stream(Stream::decode(frame_type, reader)?)
            }
            frame_types::MAX_DATA => Self::MaxData(MaxData::decode(reader)?),
            frame_types::MAX_STREAM_DATA => Self::MaxStreamData(MaxStreamData::decode(reader)?),
            frame_types::MAX_STREAMS_BIDI | frame_types::MAX_STREAMS_UNI => {
                Self::MaxStreams(MaxStreams::decode(frame_type, reader)?)
            }
            frame_types::DATA_BLOCKED => Self::DataBlocked(DataBlocked::decode(reader)?),
            frame_types::STREAM_DATA_BLOCKED => Self::StreamDataBlocked(StreamDataBlocked::decode(reader)?),
            frame_types::STREAMS_BLOCKED_BIDI | frame_types::STREAMS_BLOCKED_UNI => {
                Self::StreamsBlocked(StreamsBlocked::decode(frame_type, reader)?)
            }
            frame_types::NEW_CONNECTION_ID | frame_types::PATH_NEW_CONNECTION_ID => {
                Self::NewConnectionId(NewConnectionId::decode(frame_type, reader)?)
            }
            frame_types::RETIRE_CONNECTION_ID | frame_types::PATH_RETIRE_CONNECTION_ID => {
                Self::RetireConnectionId(RetireConnectionId::decode(frame_type, reader)?)
            }
            frame_types::PATH_CHALLENGE => Self::PathChallenge(PathChallenge(reader.array()?)),
            frame_types::PATH_RESPONSE => Self::PathResponse(PathResponse(reader.array()?)),
            frame_types::CONNECTION_CLOSE | frame_types::CONNECTION_CLOSE_APPLICATION => {
                Self::ConnectionClose(ConnectionClose::decode(frame_type, reader)?)
            }
            frame_types::HANDSHAKE_DONE => Self::HandshakeDone,
            frame_types::DATAGRAM | frame_types::DATAGRAM_WITH_LENGTH => {
                Self::Datagram(Datagram::decode(frame_type, reader)?)
            }
            frame_types::PATH_ABANDON => Self::PathAbandon(PathAbandon::decode(reader)?),
            frame_types::PATH_STATUS_BACKUP | frame_types::PATH_STATUS_AVAILABLE => {
                Self::PathStatus(PathStatus::decode(frame_type, reader)?)
            }
            frame_types::MAX_PATH_ID => Self::MaxPathId(MaxPathId::decode(reader)?),
            frame_types::PATHS_BLOCKED => Self::PathsBlocked(PathsBlocked::decode(reader)?),
            frame_types::PATH_CIDS_BLOCKED => Self::PathCidsBlocked(PathCidsBlocked::decode(reader)?),
            frame_types::REPAIR => Self::Repair(Repair::decode(reader, limits)?),
            frame_types::RECOVERED => Self::Recovered(Recovered::decode(reader, limits)?),
            frame_types::COMBINATION => Self::Combination(Combination::decode(reader, limits)?),
            _ => return Err(FrameProblem::UnknownType),
        })
    }

    /// Appends the frame. STREAM and DATAGRAM frames are written with their length field.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Padding { len } => out.resize(out.len() + len, 0),
            Self::Ping | Self::HandshakeDone => put_varint(out, self.frame_type()),
            Self::Ack(frame) => frame.encode(out),
            Self::ResetStream(frame) => frame.encode(out),
            Self::ResetStreamAt(frame) => frame.encode(out),
            Self::StopSending(frame) => frame.encode(out),
            Self::Crypto(frame) => frame.encode(out),
            Self::NewToken(frame) => frame.encode(out),
            Self::Stream(frame) => frame.encode(out),
            Self::MaxData(frame) => frame.encode(out),
            Self::MaxStreamData(frame) => frame.encode(out),
            Self::MaxStreams(frame) => frame.encode(out),
            Self::DataBlocked(frame) => frame.encode(out),
            Self::StreamDataBlocked(frame) => frame.encode(out),
            Self::StreamsBlocked(frame) => frame.encode(out),
            Self::NewConnectionId(frame) => frame.encode(out),
            Self::RetireConnectionId(frame) => frame.encode(out),
            Self::PathChallenge(frame) => frame.encode(out),
            Self::PathResponse(frame) => frame.encode(out),
            Self::ConnectionClose(frame) => frame.encode(out),
            Self::Datagram(frame) => frame.encode(out),
            Self::PathAbandon(frame) => frame.encode(out),
            Self::PathStatus(frame) => frame.encode(out),
            Self::MaxPathId(frame) => frame.encode(out),
            Self::PathsBlocked(frame) => frame.encode(out),
            Self::PathCidsBlocked(frame) => frame.encode(out),
            Self::Repair(frame) => frame.encode(out),
            Self::Recovered(frame) => frame.encode(out),
            Self::Combination(frame) => frame.encode(out),
        }
    }

    /// The type in front of the frame as [`Frame::encode`] writes it. A received STREAM or DATAGRAM
    /// may have come without a length field, under its other type.
    pub fn frame_type(&self) -> u64 {
        match self {
            Self::Padding { .. } => frame_types::PADDING,
            Self::Ping => frame_types::PING,
            Self::Ack(frame) => frame.frame_type(),
            Self::ResetStream(_) => frame_types::RESET_STREAM,
            Self::ResetStreamAt(_) => frame_types::RESET_STREAM_AT,
            Self::StopSending(_) => frame_types::STOP_SENDING,
            Self::Crypto(_) => frame_types::CRYPTO,
            Self::NewToken(_) => frame_types::NEW_TOKEN,
            Self::Stream(frame) => frame.header().frame_type(),
            Self::MaxData(_) => frame_types::MAX_DATA,
            Self::MaxStreamData(_) => frame_types::MAX_STREAM_DATA,
            Self::MaxStreams(frame) => frame.frame_type(),
            Self::DataBlocked(_) => frame_types::DATA_BLOCKED,
            Self::StreamDataBlocked(_) => frame_types::STREAM_DATA_BLOCKED,
            Self::StreamsBlocked(frame) => frame.frame_type(),
            Self::NewConnectionId(frame) => frame.frame_type(),
            Self::RetireConnectionId(frame) => frame.frame_type(),
            Self::PathChallenge(_) => frame_types::PATH_CHALLENGE,
            Self::PathResponse(_) => frame_types::PATH_RESPONSE,
            Self::ConnectionClose(frame) => frame.frame_type(),
            Self::HandshakeDone => frame_types::HANDSHAKE_DONE,
            Self::Datagram(_) => frame_types::DATAGRAM_WITH_LENGTH,
            Self::PathAbandon(_) => frame_types::PATH_ABANDON,
            Self::PathStatus(frame) => frame.frame_type(),
            Self::MaxPathId(_) => frame_types::MAX_PATH_ID,
            Self::PathsBlocked(_) => frame_types::PATHS_BLOCKED,
            Self::PathCidsBlocked(_) => frame_types::PATH_CIDS_BLOCKED,
            Self::Repair(_) => frame_types::REPAIR,
            Self::Recovered(_) => frame_types::RECOVERED,
            Self::Combination(_) => frame_types::COMBINATION,
        }
    }

    /// Whether a packet with this frame must be acknowledged (RFC 9002 section 2). Frames of
    /// extensions always are (RFC 9000 section 19.21), except for PATH_ACK.
    pub const fn is_ack_eliciting(&self) -> bool {
        !matches!(self, Self::Padding { .. } | Self::Ack(_) | Self::ConnectionClose(_))
    }

    /// Whether rebuilding a packet for this frame would be of use: it says something that is still
    /// news when it comes late, and is not a repair symbol itself.
    pub(crate) const fn is_worth_rebuilding(&self) -> bool {
        self.is_ack_eliciting()
            && !matches!(
                self,
                Self::Ping
                    | Self::PathChallenge(_)
                    | Self::PathResponse(_)
                    | Self::Repair(_)
                    | Self::Combination(_)
            )
    }

    /// Whether the frame leaves a packet a probing one (RFC 9000 section 9.1), which does not make
    /// the peer migrate. PATH_NEW_CONNECTION_ID counts like NEW_CONNECTION_ID, which it extends.
    pub const fn is_probing(&self) -> bool {
        matches!(
            self,
            Self::Padding { .. } | Self::PathChallenge(_) | Self::PathResponse(_) | Self::NewConnectionId(_)
        )
    }

    /// Whether the frame may stand in a packet of `kind` (RFC 9000 section 12.4, table 3); if not,
    /// the connection fails with PROTOCOL_VIOLATION.
    ///
    /// RETIRE_CONNECTION_ID is refused in 0-RTT, where RFC 9000 section 12.5 says that it cannot be
    /// sent. Multipath and repair frames are for 1-RTT packets only.
    pub const fn is_allowed_in(&self, kind: PacketKind) -> bool {
        use PacketKind::{Handshake, Initial, OneRtt, ZeroRtt};
        match self {
            Self::Padding { .. } | Self::Ping | Self::ConnectionClose(ConnectionClose::Transport { .. }) => {
                true
            }
            Self::Ack(Ack { path: None, .. }) | Self::Crypto(_) => {
                matches!(kind, Initial | Handshake | OneRtt)
            }
            Self::NewConnectionId(NewConnectionId { path: None, .. })
            | Self::ResetStream(_)
            | Self::ResetStreamAt(_)
            | Self::StopSending(_)
            | Self::Stream(_)
            | Self::MaxData(_)
            | Self::MaxStreamData(_)
            | Self::MaxStreams(_)
            | Self::DataBlocked(_)
            | Self::StreamDataBlocked(_)
            | Self::StreamsBlocked(_)
            | Self::PathChallenge(_)
            | Self::ConnectionClose(ConnectionClose::Application { .. })
            | Self::Datagram(_) => matches!(kind, ZeroRtt | OneRtt),
            Self::NewToken(_)
            | Self::RetireConnectionId(_)
            | Self::PathResponse(_)
            | Self::HandshakeDone
            | Self::Ack(_)
            | Self::NewConnectionId(_)
            | Self::PathAbandon(_)
            | Self::PathStatus(_)
            | Self::MaxPathId(_)
            | Self::PathsBlocked(_)
            | Self::PathCidsBlocked(_)
            | Self::Repair(_)
            | Self::Recovered(_)
            | Self::Combination(_) => matches!(kind, OneRtt),
        }
    }

    /// The path that a multipath frame names, or the limit of paths in PATHS_BLOCKED. MAX_PATH_ID
    /// names none.
    pub const fn path_id(&self) -> Option<PathId> {
        match self {
            Self::Ack(frame) => frame.path,
            Self::NewConnectionId(frame) => frame.path,
            Self::RetireConnectionId(frame) => frame.path,
            Self::PathAbandon(frame) => Some(frame.path),
            Self::PathStatus(frame) => Some(frame.path),
            Self::PathsBlocked(frame) => Some(frame.maximum),
            Self::PathCidsBlocked(frame) => Some(frame.path),
            _ => None,
        }
    }

    /// The extension that must have been negotiated for this frame; `None` for those of RFC 9000.
    pub const fn extension(&self) -> Option<Extension> {
        match self {
            Self::Datagram(_) => Some(Extension::Datagram),
            Self::ResetStreamAt(_) => Some(Extension::ResetStreamAt),
            Self::Ack(Ack { path: Some(_), .. })
            | Self::NewConnectionId(NewConnectionId { path: Some(_), .. })
            | Self::RetireConnectionId(RetireConnectionId { path: Some(_), .. })
            | Self::PathAbandon(_)
            | Self::PathStatus(_)
            | Self::MaxPathId(_)
            | Self::PathsBlocked(_)
            | Self::PathCidsBlocked(_) => Some(Extension::Multipath),
            Self::Repair(_) | Self::Recovered(_) | Self::Combination(_) => Some(Extension::Repair),
            _ => None,
        }
    }
}

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameProblem {
    /// The payload has no frames at all.
    #[error("a packet without frames")]
    EmptyPayload,
    /// The payload ends inside the frame.
    #[error("the payload ends inside the frame")]
    Truncated,
    /// Nobody has defined this type, as far as we know.
    #[error("unknown frame type")]
    UnknownType,
    /// The type is not in its shortest encoding (RFC 9000 section 12.4).
    #[error("frame type not in its shortest encoding")]
    TypeNotMinimal,
    /// A path id above 2^32 - 1.
    #[error("path id above 2^32 - 1")]
    PathIdTooLarge,
    /// A field has a value that the frame does not permit.
    #[error("{0}")]
    Invalid(&'static str),
}

impl FrameProblem {
    const fn in_frame(self, frame_type: Option<u64>) -> FrameError {
        FrameError { frame_type, problem: self }
    }
}

impl From<Truncated> for FrameProblem {
    fn from(Truncated: Truncated) -> Self {
        Self::Truncated
    }
}

/// A payload that cannot be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameError {
    /// The type of the frame, `None` if it could not be read either.
    pub frame_type: Option<u64>,
    /// What is wrong.
    pub problem: FrameProblem,
}

impl core::fmt::Display for FrameError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.frame_type {
            Some(frame_type) => write!(f, "frame {frame_type:#x}: {}", self.problem),
            None => self.problem.fmt(f),
        }
    }
}

impl std::error::Error for FrameError {}

impl From<FrameError> for TransportError {
    fn from(error: FrameError) -> Self {
        let code = match error.problem {
            // RFC 9000 section 12.4; draft-ietf-quic-multipath-21 section 4.
            FrameProblem::EmptyPayload | FrameProblem::TypeNotMinimal | FrameProblem::PathIdTooLarge => {
                TransportErrorCode::PROTOCOL_VIOLATION
            }
            FrameProblem::Truncated | FrameProblem::UnknownType | FrameProblem::Invalid(_) => {
                TransportErrorCode::FRAME_ENCODING_ERROR
            }
        };
        Self { frame: error.frame_type, ..Self::new(code, error.problem.to_string()) }
    }
}

/// The frames of a decrypted payload, in order. After the first error it ends. An empty payload is
/// an error (RFC 9000 section 12.4).
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    reader: Reader<'a>,
    limits: RangeLimits,
    done: bool,
}

impl<'a> Frames<'a> {
    /// The frames of `payload`, with the default [`RangeLimits`] for REPAIR and RECOVERED.
    pub fn new(payload: &'a [u8]) -> Self {
        Self::with_limits(payload, RangeLimits::default())
    }

    /// The frames of `payload`; a REPAIR or RECOVERED beyond `limits` is an error.
    pub fn with_limits(payload: &'a [u8], limits: RangeLimits) -> Self {
        Self { reader: Reader::new(payload), limits, done: false }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        let at_start = self.reader.position() == 0;
        if self.done || (self.reader.is_empty() && !at_start) {
            return None;
        }
        let frame = if self.reader.is_empty() {
            Err(FrameProblem::EmptyPayload.in_frame(None))
        } else {
            Frame::decode(&mut self.reader, self.limits)
        };
        self.done = frame.is_err();
        Some(frame)
    }
}
