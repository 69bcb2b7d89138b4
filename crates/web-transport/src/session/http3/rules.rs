//! What a peer must not do: the connection is closed with a code, and the session with it, as there
//! is no other on the connection (RFC 9114 section 8).

use mendpath::VarInt;

/// H3_STREAM_CREATION_ERROR (RFC 9114 section 8.1, as those that follow).
pub(crate) const STREAM_CREATION_ERROR: VarInt = VarInt::from_u32(0x103);
/// H3_CLOSED_CRITICAL_STREAM.
pub(crate) const CLOSED_CRITICAL_STREAM: VarInt = VarInt::from_u32(0x104);
/// H3_FRAME_UNEXPECTED.
pub(crate) const FRAME_UNEXPECTED: VarInt = VarInt::from_u32(0x105);
/// H3_FRAME_ERROR.
pub(crate) const FRAME_ERROR: VarInt = VarInt::from_u32(0x106);
/// H3_EXCESSIVE_LOAD.
pub(crate) const EXCESSIVE_LOAD: VarInt = VarInt::from_u32(0x107);
/// H3_ID_ERROR.
pub(crate) const ID_ERROR: VarInt = VarInt::from_u32(0x108);
/// H3_MISSING_SETTINGS.
pub(crate) const MISSING_SETTINGS: VarInt = VarInt::from_u32(0x10a);
/// H3_MESSAGE_ERROR.
pub(crate) const MESSAGE_ERROR: VarInt = VarInt::from_u32(0x10e);
/// H3_DATAGRAM_ERROR (RFC 9297 section 2.1).
pub(crate) const DATAGRAM_ERROR: VarInt = VarInt::from_u32(0x33);

/// What the peer did: the code for it, and words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken(pub(crate) VarInt, pub(crate) &'static str);
