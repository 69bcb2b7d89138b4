//! Writing headers.

use super::super::coding::put_varint;
use super::super::ids::ConnectionId;
use super::header::{FIXED, LONG};
use super::kind::{PacketKind, VERSION_1};
use super::protection::{KEY_PHASE, pn_len_bits};

/// The spin bit of a short header, which is not protected.
const SPIN: u8 = 0x20;

/// Where the parts of a packet are in the buffer it is being written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderPositions {
    /// Where the packet begins.
    pub start: usize,
    /// Where the 2-byte Length field is, in long headers.
    pub length_offset: Option<usize>,
    /// Where the packet number begins.
    pub pn_offset: usize,
    /// Where the payload begins.
    pub payload: usize,
}

impl HeaderPositions {
    /// The largest value that the 2-byte Length field holds.
    pub const MAX_LENGTH: usize = 0x3fff;

    /// Sets the Length field, once the whole plaintext payload stands at the end of `out` and
    /// `tag_len` bytes of AEAD tag are still to come. Does nothing to a short header. A packet
    /// above [`HeaderPositions::MAX_LENGTH`] is a bug of the caller.
    pub fn patch_length(&self, out: &mut [u8], tag_len: usize) {
        let Some(at) = self.length_offset else { return };
        let length = out.len() - self.pn_offset + tag_len;
        debug_assert!(length <= Self::MAX_LENGTH, "packet of {length} bytes");
        let field = (length.min(Self::MAX_LENGTH) as u16 | 0x4000).to_be_bytes();
        out[at..at + 2].copy_from_slice(&field);
    }
}

/// The header of an Initial, 0-RTT or Handshake packet of version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongHeader<'a> {
    /// Which of the three; [`PacketKind::OneRtt`] has a [`ShortHeader`].
    pub kind: PacketKind,
    /// The token of an Initial; not written for the other kinds.
    pub token: &'a [u8],
    /// Where the packet goes.
    pub dcid: ConnectionId,
    /// Where it comes from.
    pub scid: ConnectionId,
}

impl LongHeader<'_> {
    /// Appends the header, with a Length of 0 that [`HeaderPositions::patch_length`] sets later,
    /// and the last `pn_len` (1 to 4) bytes of the packet number.
    pub fn encode(&self, packet_number: u64, pn_len: usize, out: &mut Vec<u8>) -> HeaderPositions {
        let start = out.len();
        let type_bits = match self.kind {
            PacketKind::Initial => 0,
            PacketKind::ZeroRtt => 1,
            PacketKind::Handshake => 2,
            PacketKind::OneRtt => {
                debug_assert!(false, "1-RTT packets have a short header");
                3
            }
        };
        out.push(LONG | FIXED | type_bits << 4 | pn_len_bits(pn_len));
        put_version_and_ids(out, VERSION_1, &self.dcid, &self.scid);
        if self.kind == PacketKind::Initial {
            put_varint(out, self.token.len() as u64);
            out.extend_from_slice(self.token);
        }
        let length_offset = Some(out.len());
        out.extend_from_slice(&[0x40, 0]);
        let pn_offset = out.len();
        put_packet_number(out, packet_number, pn_len);
        HeaderPositions { start, length_offset, pn_offset, payload: out.len() }
    }
}

/// The header of a 1-RTT packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortHeader {
    /// Where the packet goes.
    pub dcid: ConnectionId,
    /// The latency spin bit (RFC 9000 section 17.4).
    pub spin: bool,
    /// Which of two successive 1-RTT keys protects the packet.
    pub key_phase: bool,
}

impl ShortHeader {
    /// Appends the header and the last `pn_len` (1 to 4) bytes of the packet number.
    pub fn encode(&self, packet_number: u64, pn_len: usize, out: &mut Vec<u8>) -> HeaderPositions {
        let start = out.len();
        out.push(self.first_byte(pn_len));
        out.extend_from_slice(&self.dcid);
        let pn_offset = out.len();
        put_packet_number(out, packet_number, pn_len);
        HeaderPositions { start, length_offset: None, pn_offset, payload: out.len() }
    }

    /// The first byte before it is protected.
    const fn first_byte(&self, pn_len: usize) -> u8 {
        let spin = if self.spin { SPIN } else { 0 };
        let key_phase = if self.key_phase { KEY_PHASE } else { 0 };
        FIXED | spin | key_phase | pn_len_bits(pn_len)
    }

    /// Bytes of the header with its packet number.
    pub fn len(&self, pn_len: usize) -> usize {
        1 + self.dcid.len() + pn_len
    }
}

/// Appends a Retry packet of version 1 except for its integrity tag, 16 bytes that the caller
/// computes over [`retry_pseudo_packet`] and appends (RFC 9000 section 17.2.5). `token` must not be
/// empty.
pub fn encode_retry(dcid: &ConnectionId, scid: &ConnectionId, token: &[u8], out: &mut Vec<u8>) {
    out.push(LONG | FIXED | 3 << 4);
    put_version_and_ids(out, VERSION_1, dcid, scid);
    out.extend_from_slice(token);
}

/// What the integrity tag of a Retry packet is computed over (RFC 9001 section 5.8): the
/// destination connection id of the client's first Initial, then the packet without its tag.
pub fn retry_pseudo_packet(original_dcid: &ConnectionId, retry_without_tag: &[u8]) -> Vec<u8> {
    let mut pseudo = Vec::with_capacity(1 + original_dcid.len() + retry_without_tag.len());
    put_id(&mut pseudo, original_dcid);
    pseudo.extend_from_slice(retry_without_tag);
    pseudo
}

/// Appends a Version Negotiation packet (RFC 9000 section 17.2.1) that answers one of an unknown
/// version: `dcid` is that packet's source, `scid` its destination, either up to 255 bytes (longer
/// ones are a bug of the caller and are cut). The low 7 bits of `random` go into the first byte,
/// except that the fixed bit is set.
pub fn encode_version_negotiation(random: u8, dcid: &[u8], scid: &[u8], versions: &[u32], out: &mut Vec<u8>) {
    out.push(LONG | FIXED | random);
    put_version_and_ids(out, 0, dcid, scid);
    out.extend(versions.iter().flat_map(|version| version.to_be_bytes()));
}

fn put_version_and_ids(out: &mut Vec<u8>, version: u32, dcid: &[u8], scid: &[u8]) {
    out.extend_from_slice(&version.to_be_bytes());
    put_id(out, dcid);
    put_id(out, scid);
}

fn put_id(out: &mut Vec<u8>, id: &[u8]) {
    debug_assert!(id.len() <= 255, "connection id of {} bytes", id.len());
    let id = &id[..id.len().min(255)];
    out.push(id.len() as u8);
    out.extend_from_slice(id);
}

fn put_packet_number(out: &mut Vec<u8>, packet_number: u64, len: usize) {
    debug_assert!((1..=4).contains(&len), "packet number of {len} bytes");
    let len = len.clamp(1, 4);
    out.extend_from_slice(&packet_number.to_be_bytes()[8 - len..]);
}
