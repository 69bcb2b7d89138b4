//! What a packet carried for the streams: enough to act on its acknowledgement or loss, and no
//! bytes.

use smallvec::SmallVec;
use thin_vec::ThinVec;

use crate::wire::{Dir, StreamId};

/// A run of stream bytes that one STREAM frame carried (RFC 9000 section 19.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamRange {
    /// The stream.
    pub id: StreamId,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes; zero only with `fin`.
    pub len: u32,
    /// Whether the frame ended the stream.
    pub fin: bool,
    /// Whether another packet answers for these bytes, so that losing this one asks for nothing.
    /// Every byte in flight has exactly one range without this mark, which is why a loss is never
    /// queued twice.
    pub copy: bool,
}

impl StreamRange {
    /// Offset after the last byte.
    pub const fn end(&self) -> u64 {
        self.offset + self.len as u64
    }
}

/// A frame about streams or flow control that one packet carried, with the value it announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamControl {
    /// MAX_DATA (RFC 9000 section 19.9).
    MaxData(u64),
    /// MAX_STREAM_DATA (section 19.10).
    MaxStreamData {
        /// The stream.
        id: StreamId,
        /// The announced offset.
        limit: u64,
    },
    /// MAX_STREAMS (section 19.11).
    MaxStreams {
        /// The kind of stream.
        dir: Dir,
        /// The announced count.
        limit: u64,
    },
    /// RESET_STREAM (section 19.4), or RESET_STREAM_AT if something is delivered nevertheless.
    ResetStream {
        /// The stream.
        id: StreamId,
        /// How much of it is.
        reliable_size: u64,
    },
    /// STOP_SENDING (section 19.5).
    StopSending(StreamId),
    /// DATA_BLOCKED (section 19.12).
    DataBlocked(u64),
    /// STREAM_DATA_BLOCKED (section 19.13).
    StreamDataBlocked {
        /// The stream.
        id: StreamId,
        /// The offset at which it is blocked.
        limit: u64,
    },
    /// STREAMS_BLOCKED (section 19.14).
    StreamsBlocked {
        /// The kind of stream.
        dir: Dir,
        /// The count at which opening is blocked.
        limit: u64,
    },
}

/// Everything one packet carried for the streams; kept in the packet's record until it is
/// acknowledged or lost.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct SentStreamFrames {
    /// The stream data.
    pub ranges: SmallVec<[StreamRange; 1]>,
    /// The control frames.
    pub control: ThinVec<StreamControl>,
    /// Whether some of the data was sent for the first time.
    pub fresh: bool,
    /// Whether new data in it was all that the application had written to its stream so far.
    pub ends_write: bool,
    /// Whether it told the end of a stream for the first time.
    pub ends_stream: bool,
    /// Whether `Streams::on_lost` has dealt with this record.
    pub(super) requeued: bool,
}

impl SentStreamFrames {
    /// A record of stream data alone.
    pub fn of_ranges(ranges: SmallVec<[StreamRange; 1]>) -> Self {
        Self { ranges, ..Self::default() }
    }

    /// Whether the packet carried nothing for the streams.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.control.is_empty()
    }

    /// Stream bytes in the packet, copies included.
    #[cfg(test)]
    pub fn data_len(&self) -> u64 {
        self.ranges.iter().map(|range| u64::from(range.len)).sum()
    }
}
