use proptest::prelude::*;

use super::super::coding::put_varint;
use super::super::ids::ConnectionId;
use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn id(text: &str) -> ConnectionId {
    ConnectionId::new(&hex(text)).unwrap()
}

/// RFC 9001 appendix A.2: the client's Initial, its header protection and its length field.
#[test]
fn client_initial() {
    let mut packet = Vec::new();
    let header = LongHeader {
        kind: PacketKind::Initial,
        token: &[],
        dcid: id("8394c8f03e515708"),
        scid: ConnectionId::EMPTY,
    };
    let positions = header.encode(2, 4, &mut packet);
    packet.resize(packet.len() + 1162, 0);
    positions.patch_length(&mut packet, 16);
    assert_eq!(packet[..22], hex("c300000001088394c8f03e5157080000449e00000002"));
    assert_eq!((positions.pn_offset, positions.payload), (18, 22));

    packet.resize(1200, 0);
    packet[22..38].copy_from_slice(&hex("d1b1c98dd7689fb8ec11d242b123dc9b"));
    let parts = HeaderParts::of(&mut packet, 18).unwrap();
    assert_eq!(parts.sample[..], hex("d1b1c98dd7689fb8ec11d242b123dc9b"));
    assert!(apply_header_protection(&mut packet, 18, [0x43, 0x7b, 0x9a, 0xec, 0x36]));
    assert_eq!(packet[..22], hex("c000000001088394c8f03e5157080000449e7b9aec34"));

    let header = ProtectedHeader::decode(&packet, 8).unwrap();
    assert_eq!(header.kind, HeaderKind::Initial { token: &[] });
    assert_eq!((header.version, header.pn_offset, header.len), (VERSION_1, 18, 1200));
    assert_eq!((header.dcid, header.scid), (id("8394c8f03e515708"), ConnectionId::EMPTY));
    let field = remove_header_protection(&mut packet, 18, [0x43, 0x7b, 0x9a, 0xec, 0x36]).unwrap();
    let plain = PacketNumberField { truncated: 2, len: 4, key_phase: false, reserved_bits_are_zero: true };
    assert_eq!(field, plain);
    assert_eq!(packet[0], 0xc3);
}

/// RFC 9001 appendix A.3: the server's Initial, with a packet number of two bytes.
#[test]
fn server_initial() {
    let mut packet = hex(
        "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf7\
         3c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84022f8ef4cdd93795d77d06edbb7aaf2f\
         58891850abbdca3d20398c276456cbc42158407dd074ee",
    );
    let header = ProtectedHeader::decode(&packet, 8).unwrap();
    assert_eq!((header.pn_offset, header.len), (18, packet.len()));
    assert_eq!((header.dcid, header.scid), (ConnectionId::EMPTY, id("f067a5502a4262b5")));
    let mask = [0x2e, 0xc0, 0xd8, 0x35, 0x6a];
    let sample = HeaderParts::of(&mut packet, 18).unwrap().sample.to_vec();
    assert_eq!(sample, hex("2cd0991cd25b0aac406a5816b6394100"));
    let field = remove_header_protection(&mut packet, 18, mask).unwrap();
    assert_eq!((field.truncated, field.len, field.reserved_bits_are_zero), (1, 2, true));
    assert_eq!(packet[..20], hex("c1000000010008f067a5502a4262b50040750001"));
}

/// RFC 9001 appendix A.4: a Retry and what its tag covers.
#[test]
fn retry() {
    let packet = hex("ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba");
    let header = ProtectedHeader::decode(&packet, 8).unwrap();
    let tag = packet[packet.len() - 16..].try_into().unwrap();
    assert_eq!(header.kind, HeaderKind::Retry { token: b"token", integrity_tag: tag });
    assert_eq!((header.pn_offset, header.len), (packet.len(), packet.len()));

    let mut ours = Vec::new();
    encode_retry(&ConnectionId::EMPTY, &id("f067a5502a4262b5"), b"token", &mut ours);
    // The four low bits are unused and arbitrary; the example sets them.
    assert_eq!(ours[0] | 0x0f, packet[0]);
    assert_eq!(ours[1..], packet[1..packet.len() - 16]);
    let pseudo = retry_pseudo_packet(&id("8394c8f03e515708"), &packet[..packet.len() - 16]);
    assert_eq!(pseudo, hex("088394c8f03e515708ff000000010008f067a5502a4262b5746f6b656e"));

    for end in 0..packet.len() {
        let cut = ProtectedHeader::decode(&packet[..end], 8);
        // A cut within the token and tag cannot be seen while both can be there.
        assert!(cut.is_err() || end > packet.len() - 5, "{end}");
    }
}

/// RFC 9001 section 5.4.1: four bits of a long header's first byte, five of a short one's.
#[test]
fn protected_bits_of_the_first_byte() {
    for (first, masked) in [(0x40, 0x5f), (0xc0, 0xcf)] {
        let mut packet = [0; 21];
        packet[0] = first;
        assert!(apply_header_protection(&mut packet, 1, [0xff; 5]));
        assert_eq!((packet[0], &packet[1..3]), (masked, &[0xff, 0][..]));
    }
}

/// RFC 9001 appendix A.5: a short header with a packet number of three bytes.
#[test]
fn short_header() {
    let mut packet = hex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb");
    let header = ProtectedHeader::decode(&packet, 0).unwrap();
    assert_eq!((header.kind, header.pn_offset, header.len), (HeaderKind::Short, 1, packet.len()));
    let mask = [0xae, 0xfe, 0xfe, 0x7d, 0x03];
    let field = remove_header_protection(&mut packet, 1, mask).unwrap();
    assert_eq!((field.truncated, field.len, field.key_phase), (0x00_bff4, 3, false));
    assert!(field.reserved_bits_are_zero);

    let mut ours = Vec::new();
    let header = ShortHeader { dcid: ConnectionId::EMPTY, spin: false, key_phase: false };
    let positions = header.encode(654_360_564, 3, &mut ours);
    assert_eq!(ours, hex("4200bff4"));
    assert_eq!((positions.pn_offset, positions.payload, header.len(3)), (1, 4, 4));
    assert_eq!(super::super::expand_packet_number(field.truncated, 3, 654_360_564), 654_360_564);
}

#[test]
fn short_headers_carry_the_id_we_chose() {
    let mut packet = Vec::new();
    let header = ShortHeader { dcid: id("0102030405060708"), spin: true, key_phase: true };
    header.encode(9, 1, &mut packet);
    packet.resize(9 + 20, 0);
    let read = ProtectedHeader::decode(&packet, 8).unwrap();
    assert_eq!((read.dcid, read.pn_offset), (header.dcid, 9));
    assert!(PacketNumberField::read(&packet, 9).unwrap().key_phase);
    assert_eq!(ProtectedHeader::decode(&packet[..28], 8), Err(HeaderError::Truncated));
    assert_eq!(ProtectedHeader::decode(&packet, 21), Err(HeaderError::ConnectionIdTooLong { len: 21 }));
}

#[test]
fn reserved_bits_are_reported() {
    for (first, clean) in
        [(0x40, true), (0x48, false), (0x50, false), (0xc0, true), (0xc4, false), (0xc8, false)]
    {
        assert_eq!(
            PacketNumberField::read(&[first, 0], 1).unwrap().reserved_bits_are_zero,
            clean,
            "{first:#x}"
        );
    }
}

#[test]
fn coalesced_packets_follow_each_other() {
    let mut datagram = Vec::new();
    for kind in [PacketKind::Initial, PacketKind::ZeroRtt, PacketKind::Handshake] {
        let mut packet = Vec::new();
        let header = LongHeader { kind, token: b"abc", dcid: id("aa"), scid: id("bb") };
        let positions = header.encode(0, 1, &mut packet);
        packet.resize(packet.len() + 30, 0);
        positions.patch_length(&mut packet, 16);
        packet.resize(packet.len() + 16, 0);
        datagram.extend(packet);
    }
    let mut kinds = Vec::new();
    let mut rest = &datagram[..];
    while !rest.is_empty() {
        let header = ProtectedHeader::decode(rest, 0).unwrap();
        assert_eq!((header.dcid, header.scid), (id("aa"), id("bb")));
        if let HeaderKind::Initial { token } = header.kind {
            assert_eq!(token, b"abc");
        }
        kinds.extend(header.kind.packet_kind());
        rest = &rest[header.len..];
    }
    assert_eq!(kinds, [PacketKind::Initial, PacketKind::ZeroRtt, PacketKind::Handshake]);
}

#[test]
fn version_negotiation() {
    let mut packet = Vec::new();
    encode_version_negotiation(0x2a, &[1; 20], &[2], &[VERSION_1, 0x0a0a_0a0a], &mut packet);
    assert_eq!(packet[0], 0xea);
    let header = ProtectedHeader::decode(&packet, 8).unwrap();
    let HeaderKind::VersionNegotiation { versions } = header.kind else { panic!("{:?}", header.kind) };
    assert_eq!(versions.iter().collect::<Vec<_>>(), [VERSION_1, 0x0a0a_0a0a]);
    assert_eq!((header.version, header.dcid, header.scid), (0, id(&"01".repeat(20)), id("02")));
    assert_eq!(ProtectedHeader::decode(&packet[..packet.len() - 1], 8), Err(HeaderError::Malformed));
    assert_eq!(ProtectedHeader::decode(&packet[..packet.len() - 8], 8), Err(HeaderError::Malformed));
}

/// Of an unknown version only RFC 8999 holds: no fixed bit, long connection ids, no length.
#[test]
fn unknown_versions() {
    let mut packet = vec![0x80, 0xfa, 0xce, 0xb0, 0x0c, 255];
    packet.extend([7; 255]);
    packet.extend([1, 9, 0xff]);
    let header = ProtectedHeader::decode(&packet, 8).unwrap();
    assert_eq!(header.kind, HeaderKind::UnknownVersion { dcid: &[7; 255], scid: &[9] });
    assert_eq!((header.version, header.len), (0xface_b00c, packet.len()));
    assert_eq!(header.kind.packet_kind(), None);
}

#[test]
fn refusals() {
    let decode = |text: &str| ProtectedHeader::decode(&hex(text), 0).unwrap_err();
    assert_eq!(decode(&"00".repeat(40)), HeaderError::FixedBitZero);
    assert_eq!(decode("8300000001 00 00 00 4020"), HeaderError::FixedBitZero);
    assert_eq!(decode("c300000001 15"), HeaderError::Truncated);
    let long_id = format!("c300000001 15 {} 00 00 14 {}", "00".repeat(21), "00".repeat(20));
    assert_eq!(decode(&long_id), HeaderError::ConnectionIdTooLong { len: 21 });
    // Retry with a tag but no token.
    assert_eq!(decode(&format!("f000000001 00 00 {}", "00".repeat(16))), HeaderError::Malformed);
    // A Length too small for a sample, and one beyond the datagram.
    assert_eq!(decode(&format!("e300000001 00 00 13 {}", "00".repeat(40))), HeaderError::Truncated);
    assert_eq!(decode(&format!("e300000001 00 00 29 {}", "00".repeat(40))), HeaderError::Truncated);
    let mut claim = hex("e300000001 00 00");
    put_varint(&mut claim, super::super::MAX_VARINT);
    claim.resize(60, 0);
    assert_eq!(ProtectedHeader::decode(&claim, 0), Err(HeaderError::Truncated));
}

#[test]
fn packets_too_short_to_sample_stay_untouched() {
    let mut packet = [0x43; 20];
    assert!(!apply_header_protection(&mut packet, 1, [0xff; 5]));
    assert_eq!(remove_header_protection(&mut packet, 1, [0xff; 5]), None);
    assert_eq!(packet, [0x43; 20]);
    assert!(!apply_header_protection(&mut [0x43; 40], 0, [0xff; 5]));
    assert!(!apply_header_protection(&mut [0x43; 40], usize::MAX, [0xff; 5]));
}

fn ids() -> impl Strategy<Value = ConnectionId> {
    prop::collection::vec(any::<u8>(), 0..=20).prop_map(|bytes| ConnectionId::new(&bytes).unwrap())
}

proptest! {
    #[test]
    fn long_headers_round_trip(
        kind in prop_oneof![Just(PacketKind::Initial), Just(PacketKind::ZeroRtt), Just(PacketKind::Handshake)],
        token in prop::collection::vec(any::<u8>(), 0..100),
        (dcid, scid) in (ids(), ids()),
        (number, pn_len) in (any::<u32>(), 1..=4_usize),
        payload in 4..1200_usize,
        mask in any::<[u8; 5]>(),
    ) {
        let mut packet = Vec::new();
        let header = LongHeader { kind, token: &token, dcid, scid };
        let positions = header.encode(u64::from(number), pn_len, &mut packet);
        packet.resize(packet.len() + payload, 0);
        positions.patch_length(&mut packet, 16);
        packet.resize(packet.len() + 16, 0);
        let plain = packet.clone();
        prop_assert!(apply_header_protection(&mut packet, positions.pn_offset, mask));

        let header = ProtectedHeader::decode(&packet, 0).unwrap();
        prop_assert_eq!(header.kind.packet_kind(), Some(kind));
        if let HeaderKind::Initial { token: read } = header.kind {
            prop_assert_eq!(read, &token[..]);
        }
        prop_assert_eq!((header.dcid, header.scid), (dcid, scid));
        prop_assert_eq!((header.pn_offset, header.len), (positions.pn_offset, packet.len()));
        for end in 0..packet.len() {
            prop_assert_eq!(ProtectedHeader::decode(&packet[..end], 0), Err(HeaderError::Truncated));
        }

        let field = remove_header_protection(&mut packet, positions.pn_offset, mask).unwrap();
        prop_assert_eq!(field.truncated, number & u32::MAX >> (32 - 8 * pn_len as u32));
        prop_assert_eq!(field.len, pn_len);
        prop_assert_eq!(packet, plain);
    }

    #[test]
    fn random_bytes_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..100),
        short in 0..25_usize,
        v1: bool,
    ) {
        if v1 && bytes.len() > 5 {
            bytes[0] |= 0xc0;
            bytes[1..5].copy_from_slice(&VERSION_1.to_be_bytes());
        }
        if let Ok(header) = ProtectedHeader::decode(&bytes, short) {
            prop_assert!(header.len > 0 && header.len <= bytes.len());
            prop_assert!(header.pn_offset <= header.len);
            let (len, offset) = (header.len, header.pn_offset);
            if header.kind.packet_kind().is_some() {
                let packet = &mut bytes[..len];
                prop_assert!(remove_header_protection(packet, offset, [0x5a; 5]).is_some());
            }
        }
    }
}
