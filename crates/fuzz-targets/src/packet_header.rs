//! Packet headers of a whole datagram, coalesced packets included.

use proto::{
    CID_LEN,
    wire::{
        HeaderKind, LongHeader, PacketKind, ProtectedHeader, VERSION_1, encode_retry,
        encode_version_negotiation, retry_pseudo_packet,
    },
};

/// The first byte chooses the length of our connection ids; the rest is a datagram.
pub fn run(data: &[u8]) {
    let Some((&choice, datagram)) = data.split_first() else { return };
    let cid_len = match choice {
        0..=20 => usize::from(choice),
        _ => CID_LEN,
    };
    let mut rest = datagram;
    while !rest.is_empty() {
        let Ok(header) = ProtectedHeader::decode(rest, cid_len) else { return };
        assert!(header.len <= rest.len(), "a packet ends within its datagram");
        assert!(header.len > 0, "progress");
        assert!(header.pn_offset <= header.len);
        if header.kind.packet_kind().is_some() {
            assert!(header.pn_offset + 4 + 16 <= header.len, "there is a sample");
        }
        reads_back(&header, &rest[..header.len]);
        rest = &rest[header.len..];
    }
}

fn reads_back(header: &ProtectedHeader<'_>, packet: &[u8]) {
    let mut wire = Vec::new();
    match header.kind {
        HeaderKind::Initial { token } => long(header, PacketKind::Initial, token, packet, &mut wire),
        HeaderKind::ZeroRtt => long(header, PacketKind::ZeroRtt, &[], packet, &mut wire),
        HeaderKind::Handshake => long(header, PacketKind::Handshake, &[], packet, &mut wire),
        HeaderKind::Short => {
            assert_eq!(header.pn_offset, 1 + header.dcid.len());
            return;
        }
        HeaderKind::Retry { token, integrity_tag } => {
            encode_retry(&header.dcid, &header.scid, token, &mut wire);
            assert!(retry_pseudo_packet(&header.dcid, &wire).ends_with(&wire));
            wire.extend(integrity_tag);
        }
        HeaderKind::VersionNegotiation { versions } => {
            let versions: Vec<u32> = versions.iter().collect();
            assert!(!versions.is_empty());
            encode_version_negotiation(0, &header.dcid, &header.scid, &versions, &mut wire);
        }
        HeaderKind::UnknownVersion { dcid, scid } => {
            assert!(header.version != 0 && header.version != VERSION_1);
            // Our answer; its ids may be longer than those that version 1 reads.
            encode_version_negotiation(packet[0] & 0x7f, scid, dcid, &[VERSION_1], &mut wire);
            assert!(wire.len() <= packet.len() + 4);
            return;
        }
    }
    if wire.is_empty() {
        return;
    }
    let again = ProtectedHeader::decode(&wire, 0).expect("what we write can be read");
    assert_eq!((again.kind, again.dcid, again.scid), (header.kind, header.dcid, header.scid));
}

/// Writes the header with the packet's own payload length, if our 2-byte Length field holds it.
fn long(header: &ProtectedHeader<'_>, kind: PacketKind, token: &[u8], packet: &[u8], wire: &mut Vec<u8>) {
    let at = LongHeader { kind, token, dcid: header.dcid, scid: header.scid }.encode(0, 1, wire);
    wire.extend_from_slice(&packet[header.pn_offset + 1..]);
    if wire.len() - at.pn_offset > 0x3fff {
        return wire.clear();
    }
    at.patch_length(wire, 0);
}
