//! Reading a header while header protection is still on.

use super::super::coding::{Reader, Truncated};
use super::super::ids::ConnectionId;
use super::kind::{PacketKind, VERSION_1};
use super::protection::{HEADER_SAMPLE_LEN, SAMPLE_DISTANCE};

pub(super) const LONG: u8 = 0x80;
pub(super) const FIXED: u8 = 0x40;
/// The AEAD tag at the end of a Retry packet (RFC 9001 section 5.8).
pub(super) const RETRY_TAG_LEN: usize = 16;

/// Why a packet must be dropped without a trace: nothing in it is authenticated yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The datagram ends inside the header, before the packet does, or before the sample for header
    /// protection.
    #[error("the datagram ends inside the packet")]
    Truncated,
    /// The fixed bit is 0 (RFC 9000 section 17.2).
    #[error("fixed bit is zero")]
    FixedBitZero,
    /// A connection id longer than version 1 permits.
    #[error("connection id of {len} bytes")]
    ConnectionIdTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// A Retry without a token (RFC 9000 section 17.2.5.2), or a Version Negotiation without a
    /// version or with part of one.
    #[error("malformed Retry or Version Negotiation packet")]
    Malformed,
}

impl From<Truncated> for HeaderError {
    fn from(Truncated: Truncated) -> Self {
        Self::Truncated
    }
}

/// What kind of packet this is, and what only that kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderKind<'a> {
    /// Initial.
    Initial {
        /// The token of a Retry or NEW_TOKEN; often empty.
        token: &'a [u8],
    },
    /// 0-RTT.
    ZeroRtt,
    /// Handshake.
    Handshake,
    /// 1-RTT, the only one with a short header.
    Short,
    /// Retry; it takes the rest of the datagram.
    Retry {
        /// What the client must send back; not empty.
        token: &'a [u8],
        /// The integrity tag, not verified yet.
        integrity_tag: [u8; RETRY_TAG_LEN],
    },
    /// Version Negotiation; it takes the rest of the datagram.
    VersionNegotiation {
        /// What the server speaks; not empty.
        versions: Versions<'a>,
    },
    /// A long header of a version we do not speak: only RFC 8999 holds, and the packet takes the
    /// rest of the datagram.
    UnknownVersion {
        /// Where the packet goes, up to 255 bytes.
        dcid: &'a [u8],
        /// Where it comes from, up to 255 bytes.
        scid: &'a [u8],
    },
}

impl HeaderKind<'_> {
    /// The kind of packet, `None` if it carries no frames that we can read.
    pub const fn packet_kind(&self) -> Option<PacketKind> {
        match self {
            Self::Initial { .. } => Some(PacketKind::Initial),
            Self::ZeroRtt => Some(PacketKind::ZeroRtt),
            Self::Handshake => Some(PacketKind::Handshake),
            Self::Short => Some(PacketKind::OneRtt),
            Self::Retry { .. } | Self::VersionNegotiation { .. } | Self::UnknownVersion { .. } => None,
        }
    }
}

/// The versions in a Version Negotiation packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions<'a>(&'a [[u8; 4]]);

impl<'a> Versions<'a> {
    /// The versions, in the order of the packet.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.0.iter().map(|&version| u32::from_be_bytes(version))
    }
}

/// A header as it arrives. What header protection covers is not here: the low bits of the first
/// byte and the packet number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectedHeader<'a> {
    /// What kind of packet this is.
    pub kind: HeaderKind<'a>,
    /// The version field of a long header, 0 in Version Negotiation; [`VERSION_1`] for a short
    /// header, which has none.
    pub version: u32,
    /// Where the packet goes; empty if the version is unknown.
    pub dcid: ConnectionId,
    /// Where a long header comes from; empty if the version is unknown.
    pub scid: ConnectionId,
    /// Where the packet number begins. In packets without one it equals `len`.
    pub pn_offset: usize,
    /// Bytes of the whole packet; the rest of the datagram holds further, coalesced packets.
    pub len: usize,
}

impl<'a> ProtectedHeader<'a> {
    /// Reads the first packet of `datagram`. Short headers do not tell the length of their
    /// connection id: it is `short_cid_len`.
    ///
    /// For packets that carry frames, success means that a sample for header protection exists and
    /// that the packet ends within the datagram.
    ///
    /// # Errors
    /// [`HeaderError`] if it is cut short, or no packet that QUIC could have sent.
    pub fn decode(datagram: &'a [u8], short_cid_len: usize) -> Result<Self, HeaderError> {
        let mut reader = Reader::new(datagram);
        let first = reader.u8()?;
        let header = if first & LONG == 0 {
            require_fixed_bit(first)?;
            Self {
                kind: HeaderKind::Short,
                version: VERSION_1,
                dcid: version_1_id(reader.bytes(short_cid_len)?)?,
                scid: ConnectionId::EMPTY,
                pn_offset: reader.position(),
                len: datagram.len(),
            }
        } else {
            Self::decode_long(first, datagram.len(), &mut reader)?
        };
        let sampled = header.kind.packet_kind().is_some();
        if sampled && header.len < header.pn_offset + SAMPLE_DISTANCE + HEADER_SAMPLE_LEN {
            return Err(HeaderError::Truncated);
        }
        Ok(header)
    }

    /// Reads what every version has (RFC 8999 section 5.1), then what this one adds.
    fn decode_long(first: u8, len: usize, reader: &mut Reader<'a>) -> Result<Self, HeaderError> {
        let version = reader.u32()?;
        let (dcid, scid) = (reader.u8_prefixed()?, reader.u8_prefixed()?);
        let whole_datagram = Self {
            kind: HeaderKind::UnknownVersion { dcid, scid },
            version,
            dcid: ConnectionId::EMPTY,
            scid: ConnectionId::EMPTY,
            pn_offset: len,
            len,
        };
        if version != VERSION_1 && version != 0 {
            return Ok(whole_datagram);
        }
        let with_ids = Self { dcid: version_1_id(dcid)?, scid: version_1_id(scid)?, ..whole_datagram };
        if version == 0 {
            let (versions, []) = reader.rest().as_chunks() else { return Err(HeaderError::Malformed) };
            if versions.is_empty() {
                return Err(HeaderError::Malformed);
            }
            return Ok(Self {
                kind: HeaderKind::VersionNegotiation { versions: Versions(versions) },
                ..with_ids
            });
        }
        require_fixed_bit(first)?;
        let kind = match first >> 4 & 0b11 {
            0 => HeaderKind::Initial { token: reader.varint_prefixed()? },
            1 => HeaderKind::ZeroRtt,
            2 => HeaderKind::Handshake,
            _ => return Ok(Self { kind: retry(reader.rest())?, ..with_ids }),
        };
        let rest = reader.varint()?;
        let pn_offset = reader.position();
        let rest = usize::try_from(rest).ok().filter(|&rest| rest <= reader.remaining());
        Ok(Self { kind, pn_offset, len: pn_offset + rest.ok_or(HeaderError::Truncated)?, ..with_ids })
    }
}

fn require_fixed_bit(first: u8) -> Result<(), HeaderError> {
    if first & FIXED == 0 { Err(HeaderError::FixedBitZero) } else { Ok(()) }
}

fn version_1_id(id: &[u8]) -> Result<ConnectionId, HeaderError> {
    ConnectionId::new(id).ok_or(HeaderError::ConnectionIdTooLong { len: id.len() })
}

/// A Retry packet's token and tag.
fn retry(rest: &[u8]) -> Result<HeaderKind<'_>, HeaderError> {
    match rest.split_last_chunk() {
        Some(([], _)) => Err(HeaderError::Malformed),
        Some((token, tag)) => Ok(HeaderKind::Retry { token, integrity_tag: *tag }),
        None => Err(HeaderError::Truncated),
    }
}
