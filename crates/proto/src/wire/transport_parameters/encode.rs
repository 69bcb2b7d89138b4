//! Writing our transport parameters.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use super::super::coding::{put_varint, varint_len};
use super::{PreferredAddress, RepairParameters, TransportParameters, ids};

impl TransportParameters {
    /// The parameters as the TLS extension carries them. What equals its default is left out.
    /// Values out of their documented ranges are bugs of the caller.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        self.put_ids(&mut out);
        self.put_integers(&mut out);
        if self.disable_active_migration {
            put(&mut out, ids::DISABLE_ACTIVE_MIGRATION, &[]);
        }
        if self.reset_stream_at {
            put(&mut out, ids::RESET_STREAM_AT, &[]);
            put(&mut out, ids::RESET_STREAM_AT_DRAFT_07, &[]);
        }
        if let Some(address) = &self.preferred_address {
            put(&mut out, ids::PREFERRED_ADDRESS, &preferred_address(address));
        }
        if let Some(path) = self.initial_max_path_id {
            put_integer(&mut out, ids::INITIAL_MAX_PATH_ID, u64::from(path.0));
        }
        if let Some(repair) = self.repair {
            put(&mut out, ids::REPAIR, &repair_parameters(repair));
        }
        out
    }

    fn put_ids(&self, out: &mut Vec<u8>) {
        let connection_ids = [
            (ids::ORIGINAL_DESTINATION_CONNECTION_ID, self.original_destination_connection_id),
            (ids::INITIAL_SOURCE_CONNECTION_ID, self.initial_source_connection_id),
            (ids::RETRY_SOURCE_CONNECTION_ID, self.retry_source_connection_id),
        ];
        for (parameter, id) in connection_ids {
            if let Some(id) = id {
                put(out, parameter, &id);
            }
        }
        if let Some(token) = self.stateless_reset_token {
            put(out, ids::STATELESS_RESET_TOKEN, &token.0);
        }
    }

    fn put_integers(&self, out: &mut Vec<u8>) {
        for ((id, value), (_, default)) in self.integers().into_iter().zip(Self::default().integers()) {
            if value != default {
                put_integer(out, id, value);
            }
        }
    }

    fn integers(&self) -> [(u64, u64); 12] {
        [
            (ids::MAX_IDLE_TIMEOUT, self.max_idle_timeout.as_millis()),
            (ids::MAX_UDP_PAYLOAD_SIZE, self.max_udp_payload_size.into_inner()),
            (ids::INITIAL_MAX_DATA, self.initial_max_data.into_inner()),
            (ids::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL, self.initial_max_stream_data_bidi_local.into_inner()),
            (ids::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE, self.initial_max_stream_data_bidi_remote.into_inner()),
            (ids::INITIAL_MAX_STREAM_DATA_UNI, self.initial_max_stream_data_uni.into_inner()),
            (ids::INITIAL_MAX_STREAMS_BIDI, self.initial_max_streams_bidi.into_inner()),
            (ids::INITIAL_MAX_STREAMS_UNI, self.initial_max_streams_uni.into_inner()),
            (ids::ACK_DELAY_EXPONENT, self.ack_delay_exponent.into()),
            (ids::MAX_ACK_DELAY, self.max_ack_delay.as_millis()),
            (ids::ACTIVE_CONNECTION_ID_LIMIT, self.active_connection_id_limit.into_inner()),
            (ids::MAX_DATAGRAM_FRAME_SIZE, self.max_datagram_frame_size.into_inner()),
        ]
    }
}

fn put(out: &mut Vec<u8>, id: u64, value: &[u8]) {
    put_varint(out, id);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn put_integer(out: &mut Vec<u8>, id: u64, value: u64) {
    put_varint(out, id);
    put_varint(out, varint_len(value) as u64);
    put_varint(out, value);
}

fn preferred_address(address: &PreferredAddress) -> Vec<u8> {
    let ipv4 = address.ipv4.unwrap_or(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    let ipv6 = address.ipv6.unwrap_or(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0));
    let mut value = Vec::new();
    value.extend(ipv4.ip().octets());
    value.extend(ipv4.port().to_be_bytes());
    value.extend(ipv6.ip().octets());
    value.extend(ipv6.port().to_be_bytes());
    value.push(address.connection_id.len() as u8);
    value.extend_from_slice(&address.connection_id);
    value.extend(address.reset_token.0);
    value
}

fn repair_parameters(repair: RepairParameters) -> Vec<u8> {
    let mut value = Vec::new();
    let RepairParameters { schemes, max_block, decoder_memory } = repair;
    for field in
        [RepairParameters::VERSION, schemes.bits, max_block.into_inner(), decoder_memory.into_inner()]
    {
        put_varint(&mut value, field);
    }
    value
}
