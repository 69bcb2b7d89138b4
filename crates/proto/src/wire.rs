//! Wire images: everything that turns bytes into values and back, and nothing else.
//!
//! QUIC version 1 (RFC 9000, RFC 9001 section 5.4, RFC 9221), draft-ietf-quic-multipath-21, and the
//! repair extension (REPAIR, RECOVERED and their transport parameter). This module never encrypts,
//! never keeps state between calls, never panics on input and never allocates in proportion to a
//! number that a peer claims: decoded frames borrow from the packet, and sets of packet numbers are
//! walked lazily after one validation pass.
//!
//! Start with [`ProtectedHeader::decode`] for a datagram, [`Frames`] for a decrypted payload and
//! [`TransportParameters`] for the handshake.

mod coding;
mod error;
mod frame;
mod ids;
mod packet;
mod packet_number;
mod ranges;
mod transport_parameters;
mod varint;

pub use coding::{MAX_VARINT, Reader, Truncated, put_varint, varint_len};
pub use error::{TransportError, TransportErrorCode};
pub use frame::*;
pub use ids::{ConnectionId, Dir, PathId, ResetToken, Side, StreamId};
pub use packet::*;
pub use packet_number::{expand_packet_number, packet_number_len};
pub use ranges::{PacketRanges, RangeLimits, RangesError, Runs, encode_packet_ranges, packet_ranges_len};
pub use transport_parameters::{CodeSchemes, PreferredAddress, RepairParameters, TransportParameters};
pub use varint::{VarInt, VarIntBoundsExceeded};
