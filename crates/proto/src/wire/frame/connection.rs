//! Frames about the connection as a whole: tokens, connection ids, path validation and the end (RFC
//! 9000 sections 19.7 and 19.15 to 19.19, draft-ietf-quic-multipath-21 sections 4.4 and 4.5).

use super::super::coding::{Reader, put_varint, varint_len};
use super::super::error::{TransportError, TransportErrorCode};
use super::super::ids::{ConnectionId, PathId, ResetToken};
use super::super::varint::VarInt;
use super::field::Field;
use super::{FrameProblem, frame_types};

/// NEW_TOKEN: a token for the Initial packets of a later connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewToken<'a> {
    /// The token, at least one byte.
    pub token: &'a [u8],
}

impl<'a> NewToken<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, FrameProblem> {
        match reader.varint_prefixed()? {
            [] => Err(FrameProblem::Invalid("empty token")),
            token => Ok(Self { token }),
        }
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, frame_types::NEW_TOKEN);
        put_prefixed(out, self.token);
    }

    /// Bytes that `encode` appends.
    pub const fn encoded_len(&self) -> usize {
        1 + prefixed_len(self.token)
    }
}

/// NEW_CONNECTION_ID, or PATH_NEW_CONNECTION_ID if it names a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewConnectionId {
    /// The path the id is for; `None` in a NEW_CONNECTION_ID, which is about path 0.
    pub path: Option<PathId>,
    /// The number of the id among those of its path.
    pub sequence: u64,
    /// Ids of this path with smaller numbers must be retired; at most `sequence`.
    pub retire_prior_to: u64,
    /// The id, 1 to 20 bytes.
    pub id: ConnectionId,
    /// The token that a stateless reset for this id will bear.
    pub reset_token: ResetToken,
}

impl NewConnectionId {
    pub(super) fn decode(frame_type: u64, reader: &mut Reader<'_>) -> Result<Self, FrameProblem> {
        let path = read_path(frame_type == frame_types::PATH_NEW_CONNECTION_ID, reader)?;
        let sequence = reader.varint()?;
        let retire_prior_to = reader.varint()?;
        if retire_prior_to > sequence {
            return Err(FrameProblem::Invalid("retire prior to exceeds the sequence number"));
        }
        let id_len = reader.u8()?;
        if !(1..=ConnectionId::MAX_LEN).contains(&usize::from(id_len)) {
            return Err(FrameProblem::Invalid("connection id not of 1 to 20 bytes"));
        }
        let id = ConnectionId::new(reader.bytes(usize::from(id_len))?).unwrap_or_default();
        let reset_token = ResetToken(reader.array()?);
        Ok(Self { path, sequence, retire_prior_to, id, reset_token })
    }

    pub(super) const fn frame_type(&self) -> u64 {
        if self.path.is_some() { frame_types::PATH_NEW_CONNECTION_ID } else { frame_types::NEW_CONNECTION_ID }
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_type_and_path(out, self.frame_type(), self.path);
        put_varint(out, self.sequence);
        put_varint(out, self.retire_prior_to);
        out.push(self.id.len() as u8);
        out.extend_from_slice(&self.id);
        out.extend_from_slice(&self.reset_token.0);
    }

    /// Bytes that `encode` appends.
    pub fn encoded_len(&self) -> usize {
        type_and_path_len(self.frame_type(), self.path)
            + varint_len(self.sequence)
            + varint_len(self.retire_prior_to)
            + 1
            + self.id.len()
            + ResetToken::LEN
    }
}

/// RETIRE_CONNECTION_ID, or PATH_RETIRE_CONNECTION_ID if it names a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetireConnectionId {
    /// The path the id was for; `None` in a RETIRE_CONNECTION_ID, which is about path 0.
    pub path: Option<PathId>,
    /// The number of the id among those of its path.
    pub sequence: u64,
}

impl RetireConnectionId {
    pub(super) fn decode(frame_type: u64, reader: &mut Reader<'_>) -> Result<Self, FrameProblem> {
        let path = read_path(frame_type == frame_types::PATH_RETIRE_CONNECTION_ID, reader)?;
        Ok(Self { path, sequence: reader.varint()? })
    }

    pub(super) const fn frame_type(&self) -> u64 {
        if self.path.is_some() {
            frame_types::PATH_RETIRE_CONNECTION_ID
        } else {
            frame_types::RETIRE_CONNECTION_ID
        }
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_type_and_path(out, self.frame_type(), self.path);
        put_varint(out, self.sequence);
    }

    /// Bytes that `encode` appends.
    pub fn encoded_len(&self) -> usize {
        type_and_path_len(self.frame_type(), self.path) + varint_len(self.sequence)
    }
}

/// PATH_CHALLENGE: asks for a PATH_RESPONSE with the same data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathChallenge(pub [u8; 8]);

/// PATH_RESPONSE: answers a PATH_CHALLENGE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathResponse(pub [u8; 8]);

impl PathChallenge {
    /// Bytes of every encoded PATH_CHALLENGE.
    pub const LEN: usize = 9;

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, frame_types::PATH_CHALLENGE);
        out.extend_from_slice(&self.0);
    }
}

impl PathResponse {
    /// Bytes of every encoded PATH_RESPONSE.
    pub const LEN: usize = 9;

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, frame_types::PATH_RESPONSE);
        out.extend_from_slice(&self.0);
    }
}

/// CONNECTION_CLOSE: the connection ends now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionClose<'a> {
    /// Type 0x1c: the transport ends it.
    Transport {
        /// Why.
        error_code: TransportErrorCode,
        /// The type of the frame that was to blame; `None` (0 on the wire) if unknown.
        frame_type: Option<u64>,
        /// For people; UTF-8 by convention only.
        reason: &'a [u8],
    },
    /// Type 0x1d: the application ends it.
    Application {
        /// The application's error code.
        error_code: VarInt,
        /// For people; UTF-8 by convention only.
        reason: &'a [u8],
    },
}

impl<'a> ConnectionClose<'a> {
    pub(super) fn decode(frame_type: u64, reader: &mut Reader<'a>) -> Result<Self, FrameProblem> {
        let error_code = VarInt::read(reader)?;
        Ok(if frame_type == frame_types::CONNECTION_CLOSE {
            let frame_type = Some(reader.varint()?).filter(|&frame_type| frame_type != 0);
            let reason = reader.varint_prefixed()?;
            Self::Transport { error_code: TransportErrorCode(error_code), frame_type, reason }
        } else {
            Self::Application { error_code, reason: reader.varint_prefixed()? }
        })
    }

    pub(super) const fn frame_type(&self) -> u64 {
        match self {
            Self::Transport { .. } => frame_types::CONNECTION_CLOSE,
            Self::Application { .. } => frame_types::CONNECTION_CLOSE_APPLICATION,
        }
    }

    /// The reason phrase as sent.
    pub const fn reason(&self) -> &'a [u8] {
        match self {
            Self::Transport { reason, .. } | Self::Application { reason, .. } => reason,
        }
    }

    /// The same frame with its reason cut, at a character boundary if it is UTF-8, so that it takes
    /// at most `limit` bytes where that is possible. A `limit` of 18 or more always is.
    #[must_use]
    pub fn fitted(mut self, limit: usize) -> Self {
        let excess = self.encoded_len().saturating_sub(limit);
        let (Self::Transport { reason, .. } | Self::Application { reason, .. }) = &mut self;
        let mut keep = reason.len().saturating_sub(excess);
        while keep > 0 && reason.get(keep).is_some_and(|byte| byte & 0xc0 == 0x80) {
            keep -= 1;
        }
        *reason = &reason[..keep];
        self
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.frame_type());
        match self {
            Self::Transport { error_code, frame_type, .. } => {
                error_code.put(out);
                put_varint(out, frame_type.unwrap_or(0));
            }
            Self::Application { error_code, .. } => error_code.put(out),
        }
        put_prefixed(out, self.reason());
    }

    /// Bytes that `encode` appends.
    pub fn encoded_len(&self) -> usize {
        let codes = match self {
            Self::Transport { error_code, frame_type, .. } => {
                varint_len(error_code.to_varint()) + varint_len(frame_type.unwrap_or(0))
            }
            Self::Application { error_code, .. } => varint_len(error_code.to_varint()),
        };
        1 + codes + prefixed_len(self.reason())
    }
}

impl<'a> From<&'a TransportError> for ConnectionClose<'a> {
    fn from(error: &'a TransportError) -> Self {
        Self::Transport { error_code: error.code, frame_type: error.frame, reason: error.reason.as_bytes() }
    }
}

fn read_path(present: bool, reader: &mut Reader<'_>) -> Result<Option<PathId>, FrameProblem> {
    if present { PathId::read(reader).map(Some) } else { Ok(None) }
}

fn put_type_and_path(out: &mut Vec<u8>, frame_type: u64, path: Option<PathId>) {
    put_varint(out, frame_type);
    if let Some(path) = path {
        path.put(out);
    }
}

fn type_and_path_len(frame_type: u64, path: Option<PathId>) -> usize {
    varint_len(frame_type) + path.map_or(0, |path| varint_len(path.to_varint()))
}

fn put_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

const fn prefixed_len(bytes: &[u8]) -> usize {
    varint_len(bytes.len() as u64) + bytes.len()
}
