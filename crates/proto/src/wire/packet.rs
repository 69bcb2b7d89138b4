//! Packets and their headers (RFC 9000 section 17, RFC 8999).

mod header;
mod kind;
mod protection;
#[cfg(test)]
mod tests;
mod writing;

pub use header::{HeaderError, HeaderKind, ProtectedHeader, Versions};
pub use kind::{PacketKind, VERSION_1};
pub use protection::{
    HEADER_SAMPLE_LEN, HeaderParts, PacketNumberField, apply_header_protection, remove_header_protection,
};
pub use writing::{
    HeaderPositions, LongHeader, ShortHeader, encode_retry, encode_version_negotiation, retry_pseudo_packet,
};
