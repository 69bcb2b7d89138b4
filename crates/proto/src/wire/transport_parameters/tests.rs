use proptest::prelude::*;

use super::super::coding::{MAX_VARINT, put_varint, varint_len};
use super::super::error::TransportErrorCode;
use super::super::ids::Side;
use super::super::varint::VarInt;
use super::*;

fn put(out: &mut Vec<u8>, id: u64, value: &[u8]) {
    put_varint(out, id);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn integer(id: u64, value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, value);
    let mut out = Vec::new();
    put(&mut out, id, &bytes);
    out
}

fn refusal(bytes: &[u8], from: Side) -> String {
    let error = TransportParameters::decode(bytes, from).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::TRANSPORT_PARAMETER_ERROR);
    error.reason.into_owned()
}

#[test]
fn silence_means_the_defaults() {
    let parameters = TransportParameters::decode(&[], Side::Client).unwrap();
    assert_eq!(parameters, TransportParameters::default());
    assert_eq!(parameters.max_udp_payload_size, VarInt::from_u32(65_527));
    assert_eq!(parameters.ack_delay_exponent, 3);
    assert_eq!(parameters.max_ack_delay, Duration::from_millis(25));
    assert_eq!(parameters.active_connection_id_limit, VarInt::from_u32(2));
    assert_eq!(TransportParameters::default().encode(), []);
}

/// The layout of the repair parameter, by hand.
#[test]
fn repair_parameter_layout() {
    let repair = RepairParameters {
        schemes: CodeSchemes::ALL,
        max_block: VarInt::from_u32(32),
        decoder_memory: VarInt::from_u32(1 << 20),
    };
    let bytes = [0x8d, 0x3e, 0x4d, 0x00, 7, 1, 7, 32, 0x80, 0x10, 0, 0];
    let parameters = TransportParameters { repair: Some(repair), ..Default::default() };
    assert_eq!(parameters.encode(), bytes);
    assert_eq!(TransportParameters::decode(&bytes, Side::Client), Ok(parameters));
}

#[test]
fn repair_schemes_and_versions_of_the_future() {
    let decode = |value: &[u8]| {
        let mut bytes = Vec::new();
        put(&mut bytes, ids::REPAIR, value);
        TransportParameters::decode(&bytes, Side::Server).map(|parameters| parameters.repair)
    };
    assert_eq!(decode(&[2, 0xff, 0xff]), Ok(None));
    let known = decode(&[1, 0x39, 1, 0]).unwrap().unwrap().schemes;
    assert_eq!(known, CodeSchemes::NONE.with(CodeScheme::ReedSolomon));
    assert!(known.contains(CodeScheme::ReedSolomon) && !known.contains(CodeScheme::RandomLinear));
    assert!(known.intersection(CodeSchemes::NONE.with(CodeScheme::RandomLinear)).is_empty());
    for bad in [&[][..], &[1, 3, 0, 0], &[1, 3, 1], &[1, 3, 1, 0, 0]] {
        assert!(decode(bad).is_err(), "{bad:?}");
    }
}

/// RFC 9000 section 18.2 and the drafts: the last good and the first bad value.
#[test]
fn ranges() {
    let cases = [
        (ids::MAX_UDP_PAYLOAD_SIZE, 1200, 1199),
        (ids::INITIAL_MAX_STREAMS_BIDI, 1 << 60, (1 << 60) + 1),
        (ids::INITIAL_MAX_STREAMS_UNI, 1 << 60, (1 << 60) + 1),
        (ids::ACK_DELAY_EXPONENT, 20, 21),
        (ids::MAX_ACK_DELAY, 16_383, 16_384),
        (ids::ACTIVE_CONNECTION_ID_LIMIT, 2, 1),
        (ids::INITIAL_MAX_PATH_ID, 0xffff_ffff, 0x1_0000_0000),
    ];
    for (id, good, bad) in cases {
        assert!(TransportParameters::decode(&integer(id, good), Side::Client).is_ok(), "{id:#x}");
        let reason = refusal(&integer(id, bad), Side::Client);
        assert_eq!(reason, format!("transport parameter {id:#x}: value out of range"));
    }
}

#[test]
fn duplicates_are_refused() {
    let twice = [integer(ids::INITIAL_MAX_DATA, 5), integer(ids::INITIAL_MAX_DATA, 5)].concat();
    assert_eq!(refusal(&twice, Side::Client), "transport parameter 0x4: given twice");
    let flag = [ids::DISABLE_ACTIVE_MIGRATION as u8, 0];
    assert_eq!(refusal(&flag.repeat(2), Side::Client), "transport parameter 0xc: given twice");
    let unknown = [integer(0x1b, 0), integer(0x3a, 0), integer(0x1b, 1)].concat();
    assert_eq!(refusal(&unknown, Side::Client), "transport parameter 0x1b: given twice");
}

/// The memory for it is bounded; known parameters are told apart however many unknown ones come
/// first.
#[test]
fn duplicates_behind_many_unknown_parameters() {
    let many: Vec<u8> = (0..40).flat_map(|n| integer(31 * n + 27, n)).collect();
    let late = integer(31 * 39 + 27, 0);
    assert!(TransportParameters::decode(&[&many[..], &late].concat(), Side::Client).is_ok());
    let twice = [integer(ids::INITIAL_MAX_DATA, 5), integer(ids::INITIAL_MAX_DATA, 5)].concat();
    assert_eq!(refusal(&[many, twice].concat(), Side::Client), "transport parameter 0x4: given twice");
}

#[test]
fn clients_must_not_send_what_servers_may() {
    let server = TransportParameters {
        original_destination_connection_id: ConnectionId::new(&[1; 8]),
        ..TransportParameters::default()
    };
    let token = TransportParameters {
        stateless_reset_token: Some(ResetToken([1; 16])),
        ..TransportParameters::default()
    };
    let retry = TransportParameters {
        retry_source_connection_id: ConnectionId::new(&[1; 8]),
        ..TransportParameters::default()
    };
    let preferred = TransportParameters {
        preferred_address: Some(PreferredAddress {
            ipv4: None,
            ipv6: None,
            connection_id: ConnectionId::new(&[1]).unwrap(),
            reset_token: ResetToken([0; 16]),
        }),
        ..TransportParameters::default()
    };
    for parameters in [server, token, retry, preferred] {
        let bytes = parameters.encode();
        assert!(refusal(&bytes, Side::Client).ends_with("sent by a client"));
        assert_eq!(TransportParameters::decode(&bytes, Side::Server), Ok(parameters));
    }
}

#[test]
fn values_of_the_wrong_length() {
    let with = |id, value: &[u8]| {
        let mut out = Vec::new();
        put(&mut out, id, value);
        out
    };
    for (id, value) in [
        (ids::DISABLE_ACTIVE_MIGRATION, &[0][..]),
        (ids::INITIAL_MAX_DATA, &[1, 2]),
        (ids::INITIAL_MAX_DATA, &[]),
        (ids::INITIAL_MAX_DATA, &[0x40]),
        (ids::STATELESS_RESET_TOKEN, &[0; 15]),
        (ids::STATELESS_RESET_TOKEN, &[0; 17]),
        (ids::INITIAL_SOURCE_CONNECTION_ID, &[0; 21]),
        // A preferred address without a connection id.
        (ids::PREFERRED_ADDRESS, &[0; 41]),
    ] {
        refusal(&with(id, value), Side::Server);
    }
}

/// reset_stream_at by the name of draft-ietf-quic-reliable-stream-reset-07.
const DRAFT_07: [u8; 9] = [0xc0, 0x17, 0xf7, 0x58, 0x6d, 0x2c, 0xb5, 0x71, 0];

/// Whoever was built before the last draft says and knows the old name alone.
#[test]
fn reset_stream_at_goes_by_two_names() {
    let parameters = TransportParameters { reset_stream_at: true, ..Default::default() };
    let both = [&[0x1d, 0], &DRAFT_07[..]].concat();
    assert_eq!(parameters.encode(), both);
    for bytes in [&[0x1d, 0], &DRAFT_07[..], &both] {
        assert_eq!(TransportParameters::decode(bytes, Side::Client), Ok(parameters.clone()));
    }
    assert!(refusal(&[0x1d, 1, 0], Side::Client).contains("longer than it should be"));
}

#[test]
fn unknown_parameters_are_ignored() {
    let mut bytes = Vec::new();
    put(&mut bytes, 31 * 7 + 27, b"grease");
    put(&mut bytes, 0x2ab2, b"");
    put(&mut bytes, MAX_VARINT, &[0xff; 70]);
    bytes.extend(integer(ids::INITIAL_MAX_DATA, 9));
    let parameters = TransportParameters::decode(&bytes, Side::Client).unwrap();
    assert_eq!(
        parameters,
        TransportParameters { initial_max_data: VarInt::from_u32(9), ..Default::default() }
    );
}

fn varint() -> impl Strategy<Value = VarInt> {
    (0..=MAX_VARINT, 0..62_u32).prop_map(|(value, shift)| VarInt::saturating(value >> shift))
}

fn connection_id(min: usize) -> impl Strategy<Value = ConnectionId> {
    prop::collection::vec(any::<u8>(), min..=20).prop_map(|bytes| ConnectionId::new(&bytes).unwrap())
}

prop_compose! {
    fn preferred_address()(
        ipv4: Option<(u32, u16)>,
        ipv6: Option<(u128, u16)>,
        connection_id in connection_id(1),
        token: [u8; 16],
    ) -> PreferredAddress {
        PreferredAddress {
            ipv4: ipv4.filter(|&v4| v4 != (0, 0)).map(|(ip, port)| SocketAddrV4::new(ip.into(), port)),
            ipv6: ipv6.filter(|&v6| v6 != (0, 0)).map(|(ip, port)| SocketAddrV6::new(ip.into(), port, 0, 0)),
            connection_id,
            reset_token: ResetToken(token),
        }
    }
}

prop_compose! {
    fn repair()(known in 0..4_u64, max_block in varint(), decoder_memory in varint()) -> RepairParameters {
        RepairParameters { schemes: CodeSchemes::from_bitmap(known), max_block: max_block.max(1u8.into()), decoder_memory }
    }
}

prop_compose! {
    fn server_only()(
        original in prop::option::of(connection_id(0)),
        retry in prop::option::of(connection_id(0)),
        token: Option<[u8; 16]>,
        preferred in prop::option::of(preferred_address()),
    ) -> TransportParameters {
        TransportParameters {
            original_destination_connection_id: original,
            retry_source_connection_id: retry,
            stateless_reset_token: token.map(ResetToken),
            preferred_address: preferred,
            ..TransportParameters::default()
        }
    }
}

prop_compose! {
    fn any_parameters()(
        base in server_only(),
        (idle, payload, ack_delay) in (0..1_u64 << 40, varint(), 0..1_u64 << 14),
        (data, local, remote, uni) in (varint(), varint(), varint(), varint()),
        (streams_bidi, streams_uni, exponent) in (0..=1_u64 << 60, 0..=1_u64 << 60, 0..=20_u8),
        (no_migration, limit, source) in (any::<bool>(), varint(), prop::option::of(connection_id(0))),
        (datagram, reset_stream_at) in (varint(), any::<bool>()),
        (path, repair) in (any::<Option<u32>>(), prop::option::of(repair())),
    ) -> TransportParameters {
        TransportParameters {
            max_idle_timeout: Duration::from_millis(idle),
            max_udp_payload_size: payload.max(1200u16.into()),
            max_ack_delay: Duration::from_millis(ack_delay),
            initial_max_data: data,
            initial_max_stream_data_bidi_local: local,
            initial_max_stream_data_bidi_remote: remote,
            initial_max_stream_data_uni: uni,
            initial_max_streams_bidi: VarInt::saturating(streams_bidi),
            initial_max_streams_uni: VarInt::saturating(streams_uni),
            ack_delay_exponent: exponent,
            disable_active_migration: no_migration,
            active_connection_id_limit: limit.max(2u8.into()),
            initial_source_connection_id: source,
            max_datagram_frame_size: datagram,
            reset_stream_at,
            initial_max_path_id: path.map(PathId),
            repair,
            ..base
        }
    }
}

proptest! {
    #[test]
    fn round_trip(parameters in any_parameters()) {
        let bytes = parameters.encode();
        prop_assert_eq!(TransportParameters::decode(&bytes, Side::Server), Ok(parameters.clone()));
        for end in 0..bytes.len() {
            // A cut between two parameters loses the rest; any other is seen.
            if let Ok(fewer) = TransportParameters::decode(&bytes[..end], Side::Server) {
                if fewer.reset_stream_at && bytes[end..].starts_with(&DRAFT_07) {
                    continue; // The other name tells nothing new.
                }
                prop_assert_ne!(&fewer, &parameters);
                prop_assert!(fewer.encode().len() == end);
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), client: bool) {
        let from = if client { Side::Client } else { Side::Server };
        let _ = TransportParameters::decode(&bytes, from);
    }

    #[test]
    fn random_values_never_panic(id in 0..0x40_u64, value in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut bytes = Vec::new();
        put(&mut bytes, id, &value);
        prop_assert_eq!(bytes.len(), varint_len(id) + varint_len(value.len() as u64) + value.len());
        let _ = TransportParameters::decode(&bytes, Side::Server);
    }
}
