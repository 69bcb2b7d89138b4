//! What a connection's streams may take up, and what of it the peer is told.

use crate::wire::{Dir, MAX_VARINT, TransportParameters, VarInt};

/// Most streams of a kind that a peer may have open, whatever the configuration says: opening the
/// last one creates all before it, so that one frame must not cost unbounded memory.
const MAX_CONCURRENT: u64 = 65_536;

/// Limits of one connection. All are in bytes or counts, and all may be as small as 0 (which
/// forbids the thing).
#[derive(Clone, Debug)]
pub struct StreamsConfig {
    /// Bytes the peer may send ahead of what the application has read, over all streams:
    /// initial_max_data, and the bound on receive memory.
    pub receive_window: u64,
    /// The most that this may become for a single stream, however fast it is read.
    pub stream_receive_window: u64,
    /// What it is for a stream from the start, read or not: initial_max_stream_data_*.
    pub initial_stream_window: u64,
    /// Bytes written and not yet acknowledged that are kept, over all streams.
    pub send_buffer: u64,
    /// Bidirectional streams the peer may have open at once: initial_max_streams_bidi. At most
    /// 65,536 count.
    pub max_concurrent_bidi: u64,
    /// Unidirectional streams the peer may have open at once: initial_max_streams_uni. At most
    /// 65,536 count.
    pub max_concurrent_uni: u64,
}

impl Default for StreamsConfig {
    /// Windows for 100 Mbit/s at 500 ms round trip on the connection and 200 ms on one stream, and
    /// 128 streams.
    fn default() -> Self {
        Self {
            receive_window: 6 << 20,
            stream_receive_window: 5 << 19,
            initial_stream_window: 5 << 19,
            send_buffer: 6 << 20,
            max_concurrent_bidi: 128,
            max_concurrent_uni: 128,
        }
    }
}

/// What the peer may send us or open, as it can be raised while the connection lives. Units as in
/// `StreamsConfig`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveLimits {
    /// Bytes ahead of what the application has read, over all streams.
    pub receive_window: u64,
    /// The most that this may become for a single stream.
    pub stream_receive_window: u64,
    /// Bidirectional streams the peer may have open at once; at most 65,536 count.
    pub max_concurrent_bidi: u64,
    /// Unidirectional streams the peer may have open at once; at most 65,536 count.
    pub max_concurrent_uni: u64,
}

impl StreamsConfig {
    /// Streams of a kind that the peer may have open at once.
    pub(super) fn max_concurrent(&self, dir: Dir) -> u64 {
        let configured = match dir {
            Dir::Bi => self.max_concurrent_bidi,
            Dir::Uni => self.max_concurrent_uni,
        };
        configured.min(MAX_CONCURRENT)
    }

    /// What a stream may receive from the start.
    pub fn first_window(&self) -> u64 {
        self.initial_stream_window.min(self.stream_receive_window).min(MAX_VARINT)
    }

    /// Writes these limits into the transport parameters that are sent to the peer.
    pub fn apply(&self, parameters: &mut TransportParameters) {
        parameters.initial_max_data = VarInt::saturating(self.receive_window);
        let stream = VarInt::saturating(self.first_window());
        parameters.initial_max_stream_data_bidi_local = stream;
        parameters.initial_max_stream_data_bidi_remote = stream;
        parameters.initial_max_stream_data_uni = stream;
        parameters.initial_max_streams_bidi = VarInt::saturating(self.max_concurrent(Dir::Bi));
        parameters.initial_max_streams_uni = VarInt::saturating(self.max_concurrent(Dir::Uni));
    }
}
