//! Frames of draft-ietf-quic-multipath-21 section 4 that have no counterpart in RFC 9000. PATH_ACK,
//! PATH_NEW_CONNECTION_ID and PATH_RETIRE_CONNECTION_ID share the types of the frames they extend.

use super::super::coding::{Reader, put_varint, varint_len};
use super::super::error::TransportErrorCode;
use super::super::ids::PathId;
use super::field::{Field, varint_frame};
use super::{FrameProblem, frame_types};

varint_frame! {
    /// PATH_ABANDON: the sender will not use the path any more and asks the peer to do likewise.
    pub struct PathAbandon = PATH_ABANDON {
        /// The path.
        pub path: PathId,
        /// Why.
        pub error_code: TransportErrorCode,
    }
}

varint_frame! {
    /// MAX_PATH_ID: the largest path id that the peer may use.
    pub struct MaxPathId = MAX_PATH_ID {
        /// That path id.
        pub maximum: PathId,
    }
}

varint_frame! {
    /// PATHS_BLOCKED: the limit on path ids keeps a path from being opened.
    pub struct PathsBlocked = PATHS_BLOCKED {
        /// The limit that does.
        pub maximum: PathId,
    }
}

varint_frame! {
    /// PATH_CIDS_BLOCKED: the lack of an unused connection id keeps a path from being opened or
    /// from changing its id.
    pub struct PathCidsBlocked = PATH_CIDS_BLOCKED {
        /// The path.
        pub path: PathId,
        /// The sequence number of the connection id that the peer would have to issue next.
        pub next_sequence: u64,
    }
}

/// PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP: the sender's wish about the use of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStatus {
    /// The path.
    pub path: PathId,
    /// Orders the status frames of this path, whichever type they have: only the largest number
    /// counts.
    pub sequence: u64,
    /// True for PATH_STATUS_BACKUP: please do not send here while an available path works.
    pub backup: bool,
}

impl PathStatus {
    pub(super) fn decode(frame_type: u64, reader: &mut Reader<'_>) -> Result<Self, FrameProblem> {
        let backup = frame_type == frame_types::PATH_STATUS_BACKUP;
        Ok(Self { path: Field::read(reader)?, sequence: reader.varint()?, backup })
    }

    pub(super) const fn frame_type(&self) -> u64 {
        if self.backup { frame_types::PATH_STATUS_BACKUP } else { frame_types::PATH_STATUS_AVAILABLE }
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.frame_type());
        self.path.put(out);
        put_varint(out, self.sequence);
    }

    /// Bytes that `encode` appends.
    pub fn encoded_len(&self) -> usize {
        varint_len(self.frame_type()) + varint_len(self.path.to_varint()) + varint_len(self.sequence)
    }
}
