//! Transport parameters (RFC 9000 section 18, RFC 9221 section 3, draft-ietf-quic-multipath-21
//! section 2.1) and that of the repair extension.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use core::net::{SocketAddrV4, SocketAddrV6};

use units::Duration;

use super::frame::CodeScheme;
use super::ids::{ConnectionId, PathId, ResetToken};
use super::varint::VarInt;

/// Parameter ids.
mod ids {
    pub(super) const ORIGINAL_DESTINATION_CONNECTION_ID: u64 = 0x00;
    pub(super) const MAX_IDLE_TIMEOUT: u64 = 0x01;
    pub(super) const STATELESS_RESET_TOKEN: u64 = 0x02;
    pub(super) const MAX_UDP_PAYLOAD_SIZE: u64 = 0x03;
    pub(super) const INITIAL_MAX_DATA: u64 = 0x04;
    pub(super) const INITIAL_MAX_STREAM_DATA_BIDI_LOCAL: u64 = 0x05;
    pub(super) const INITIAL_MAX_STREAM_DATA_BIDI_REMOTE: u64 = 0x06;
    pub(super) const INITIAL_MAX_STREAM_DATA_UNI: u64 = 0x07;
    pub(super) const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;
    pub(super) const INITIAL_MAX_STREAMS_UNI: u64 = 0x09;
    pub(super) const ACK_DELAY_EXPONENT: u64 = 0x0a;
    pub(super) const MAX_ACK_DELAY: u64 = 0x0b;
    pub(super) const DISABLE_ACTIVE_MIGRATION: u64 = 0x0c;
    pub(super) const PREFERRED_ADDRESS: u64 = 0x0d;
    pub(super) const ACTIVE_CONNECTION_ID_LIMIT: u64 = 0x0e;
    pub(super) const INITIAL_SOURCE_CONNECTION_ID: u64 = 0x0f;
    pub(super) const RETRY_SOURCE_CONNECTION_ID: u64 = 0x10;
    pub(super) const RESET_STREAM_AT: u64 = 0x1d;
    pub(super) const MAX_DATAGRAM_FRAME_SIZE: u64 = 0x20;
    pub(super) const INITIAL_MAX_PATH_ID: u64 = 0x3e;
    pub(super) const REPAIR: u64 = 0x0d3e_4d00;
    /// As draft-ietf-quic-reliable-stream-reset-07 called it, and what was built before the last one does.
    pub(super) const RESET_STREAM_AT_DRAFT_07: u64 = 0x17_f758_6d2c_b571;
}

/// What an endpoint declares about itself in the handshake. The default is what RFC 9000 assumes of
/// a peer that says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportParameters {
    /// The destination of the client's first Initial. Servers only.
    pub original_destination_connection_id: Option<ConnectionId>,
    /// Idle time after which the connection is forgotten, in whole milliseconds; zero for never.
    pub max_idle_timeout: Duration,
    /// What a stateless reset for the handshake's connection id will bear. Servers only.
    pub stateless_reset_token: Option<ResetToken>,
    /// The largest UDP payload the endpoint receives, in bytes; at least 1200.
    pub max_udp_payload_size: VarInt,
    /// Bytes that all streams together may carry at first.
    pub initial_max_data: VarInt,
    /// Bytes that a bidirectional stream opened by the sender of this parameter may carry towards
    /// it at first.
    pub initial_max_stream_data_bidi_local: VarInt,
    /// Bytes that a bidirectional stream opened by the receiver of this parameter may carry at
    /// first.
    pub initial_max_stream_data_bidi_remote: VarInt,
    /// Bytes that a unidirectional stream opened by the receiver of this parameter may carry at
    /// first.
    pub initial_max_stream_data_uni: VarInt,
    /// Bidirectional streams that the receiver of this parameter may open at first; at most 2^60.
    pub initial_max_streams_bidi: VarInt,
    /// Unidirectional streams that the receiver of this parameter may open at first; at most 2^60.
    pub initial_max_streams_uni: VarInt,
    /// ACK delays are in microseconds times 2 to the power of this; at most 20.
    pub ack_delay_exponent: u8,
    /// The longest time by which the endpoint delays ACKs on purpose, in whole milliseconds; below
    /// 2^14 ms.
    pub max_ack_delay: Duration,
    /// Whether the address used in the handshake must not be migrated to or from.
    pub disable_active_migration: bool,
    /// Where the server would rather be reached. Servers only.
    pub preferred_address: Option<PreferredAddress>,
    /// Connection ids (per path, with multipath) that the endpoint keeps for its peer; at least 2.
    pub active_connection_id_limit: VarInt,
    /// The source connection id of the endpoint's first Initial. Always sent; required of the peer
    /// by the handshake.
    pub initial_source_connection_id: Option<ConnectionId>,
    /// The source connection id of the server's Retry. Servers only.
    pub retry_source_connection_id: Option<ConnectionId>,
    /// The largest DATAGRAM frame the endpoint receives, in bytes with its type and length; zero
    /// for none (RFC 9221).
    pub max_datagram_frame_size: VarInt,
    /// Whether the endpoint takes RESET_STREAM_AT (draft-ietf-quic-reliable-stream-reset section 3).
    pub reset_stream_at: bool,
    /// The largest path id the peer may use at first; `None` without multipath.
    pub initial_max_path_id: Option<PathId>,
    /// What the endpoint can decode; `None` without the repair extension, and for versions of it
    /// that we do not know.
    pub repair: Option<RepairParameters>,
}

impl Default for TransportParameters {
    /// RFC 9000 section 18.2.
    fn default() -> Self {
        Self {
            original_destination_connection_id: None,
            max_idle_timeout: Duration::ZERO,
            stateless_reset_token: None,
            max_udp_payload_size: VarInt::from_u32(65_527),
            initial_max_data: VarInt::from_u32(0),
            initial_max_stream_data_bidi_local: VarInt::from_u32(0),
            initial_max_stream_data_bidi_remote: VarInt::from_u32(0),
            initial_max_stream_data_uni: VarInt::from_u32(0),
            initial_max_streams_bidi: VarInt::from_u32(0),
            initial_max_streams_uni: VarInt::from_u32(0),
            ack_delay_exponent: 3,
            max_ack_delay: Duration::from_millis(25),
            disable_active_migration: false,
            preferred_address: None,
            active_connection_id_limit: VarInt::from_u32(2),
            initial_source_connection_id: None,
            retry_source_connection_id: None,
            max_datagram_frame_size: VarInt::from_u32(0),
            reset_stream_at: false,
            initial_max_path_id: None,
            repair: None,
        }
    }
}

/// Where a server would rather be reached, and with which connection id of path 0 (RFC 9000
/// section 9.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreferredAddress {
    /// The IPv4 address and port, if there is one.
    pub ipv4: Option<SocketAddrV4>,
    /// The IPv6 address and port, if there is one. Flow label and scope are 0.
    pub ipv6: Option<SocketAddrV6>,
    /// The connection id of sequence number 1; 1 to 20 bytes.
    pub connection_id: ConnectionId,
    /// What a stateless reset for it will bear.
    pub reset_token: ResetToken,
}

/// What the decoder of an endpoint can do: the parameter 0x0d3e4d00 of the repair extension,
/// version 1.
///
/// ```text
/// Repair Parameter {
///   Version (i) = 1,
///   Schemes (i),           bit 0 Reed-Solomon, bit 1 random linear, bit 2 windows, others ignored
///   Largest Block (i),     most source symbols (K) in a block, at least 1
///   Decoder Memory (i),    bytes
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairParameters {
    /// The schemes it decodes.
    pub schemes: CodeSchemes,
    /// The most source symbols (K) in a block; at least 1.
    pub max_block: VarInt,
    /// The memory in which it keeps received payloads and repair symbols, in bytes: older ones are
    /// forgotten.
    pub decoder_memory: VarInt,
}

impl RepairParameters {
    /// The version of the extension that we speak.
    pub const VERSION: u64 = 1;
}

/// A set of [`CodeScheme`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeSchemes {
    bits: u64,
}

impl CodeSchemes {
    /// No scheme.
    pub const NONE: Self = Self { bits: 0 };
    /// Every scheme that we know.
    pub const ALL: Self =
        Self::NONE.with(CodeScheme::ReedSolomon).with(CodeScheme::RandomLinear).with(CodeScheme::Window);

    /// This set and `scheme`.
    #[must_use]
    pub const fn with(self, scheme: CodeScheme) -> Self {
        Self { bits: self.bits | Self::bit(scheme) }
    }

    /// Whether `scheme` is in the set.
    pub const fn contains(self, scheme: CodeScheme) -> bool {
        self.bits & Self::bit(scheme) != 0
    }

    /// The schemes in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self { bits: self.bits & other.bits }
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.bits == 0
    }

    const fn bit(scheme: CodeScheme) -> u64 {
        1 << (scheme.number() - 1)
    }

    /// The set that a bitmap stands for, without the schemes that we do not know.
    const fn from_bitmap(bits: u64) -> Self {
        Self { bits: bits & Self::ALL.bits }
    }
}
