//! Where header protection goes (RFC 9001 section 5.4). The mask itself is computed elsewhere.

use super::header::LONG;

/// Bytes of ciphertext that the mask is computed from.
pub const HEADER_SAMPLE_LEN: usize = 16;
/// The sample begins this far after the start of the packet number, however long that is.
pub(super) const SAMPLE_DISTANCE: usize = 4;

/// The key phase bit of a short header, which is protected.
pub(super) const KEY_PHASE: u8 = 0x04;
const PN_LEN: u8 = 0x03;

/// The parts of a packet that header protection reads and changes, borrowed at once: a cipher that
/// protects in place needs all three.
#[derive(Debug)]
pub struct HeaderParts<'a> {
    /// The first byte.
    pub first: &'a mut u8,
    /// The packet number and, if it is shorter than 4 bytes, some payload that stays as it is.
    pub packet_number: &'a mut [u8; SAMPLE_DISTANCE],
    /// What the mask is computed from.
    pub sample: &'a [u8; HEADER_SAMPLE_LEN],
}

impl<'a> HeaderParts<'a> {
    /// The parts of `packet`, whose packet number begins at `pn_offset`; `None` if the packet is
    /// too short or `pn_offset` is 0.
    pub fn of(packet: &'a mut [u8], pn_offset: usize) -> Option<Self> {
        let (first, rest) = packet.split_first_mut()?;
        let (packet_number, rest) = rest.get_mut(pn_offset.checked_sub(1)?..)?.split_first_chunk_mut()?;
        Some(Self { first, packet_number, sample: rest.first_chunk()? })
    }

    /// The bits of the first byte that are protected.
    fn protected_bits(&self) -> u8 {
        if *self.first & LONG == 0 { 0x1f } else { 0x0f }
    }

    fn mask_packet_number(&mut self, len: usize, mask: [u8; 5]) {
        for (byte, mask) in self.packet_number.iter_mut().zip(&mask[1..]).take(len) {
            *byte ^= mask;
        }
    }
}

/// What becomes readable when header protection is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketNumberField {
    /// The packet number's low bytes.
    pub truncated: u32,
    /// How many of its bytes were sent, 1 to 4. The payload begins right after them.
    pub len: usize,
    /// The key phase bit of a short header; false in long headers.
    pub key_phase: bool,
    /// Whether the reserved bits are 0. If not, and only once the packet has been authenticated,
    /// the connection fails with PROTOCOL_VIOLATION (RFC 9000 sections 17.2 and 17.3.1).
    pub reserved_bits_are_zero: bool,
}

impl PacketNumberField {
    /// Reads the field from a packet without header protection; `None` if the packet is too short.
    pub fn read(packet: &[u8], pn_offset: usize) -> Option<Self> {
        let first = *packet.first()?;
        let len = pn_len(first);
        let bytes = packet.get(pn_offset..)?.get(..len)?;
        let truncated = bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte));
        let (reserved, key_phase) =
            if first & LONG == 0 { (0x18, first & KEY_PHASE != 0) } else { (0x0c, false) };
        Some(Self { truncated, len, key_phase, reserved_bits_are_zero: first & reserved == 0 })
    }
}

/// Puts header protection on a sealed packet, in place. False, and nothing changed, if the packet
/// is too short to be sampled.
pub fn apply_header_protection(packet: &mut [u8], pn_offset: usize, mask: [u8; 5]) -> bool {
    let Some(mut parts) = HeaderParts::of(packet, pn_offset) else { return false };
    let len = pn_len(*parts.first);
    *parts.first ^= mask[0] & parts.protected_bits();
    parts.mask_packet_number(len, mask);
    true
}

/// Takes header protection off, in place; `None`, and nothing changed, if the packet is too short
/// to be sampled.
pub fn remove_header_protection(
    packet: &mut [u8],
    pn_offset: usize,
    mask: [u8; 5],
) -> Option<PacketNumberField> {
    let mut parts = HeaderParts::of(packet, pn_offset)?;
    *parts.first ^= mask[0] & parts.protected_bits();
    let len = pn_len(*parts.first);
    parts.mask_packet_number(len, mask);
    PacketNumberField::read(packet, pn_offset)
}

const fn pn_len(first: u8) -> usize {
    (first & PN_LEN) as usize + 1
}

/// The low bits of an unprotected first byte.
pub(super) const fn pn_len_bits(pn_len: usize) -> u8 {
    (pn_len as u8).wrapping_sub(1) & PN_LEN
}
