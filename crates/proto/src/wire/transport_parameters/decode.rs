//! Reading a peer's transport parameters.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use core::ops::RangeInclusive;

use units::Duration;

use super::super::coding::{MAX_VARINT, Reader, Truncated};
use super::super::error::TransportError;
use super::super::ids::{ConnectionId, PathId, ResetToken, Side};
use super::super::varint::VarInt;
use super::{CodeSchemes, PreferredAddress, RepairParameters, TransportParameters, ids};

/// Unknown parameters among which duplicates are looked for: far more than an honest peer sends.
const MAX_UNKNOWN: usize = 32;

/// What is wrong with one parameter.
struct Malformed(&'static str);

impl From<Truncated> for Malformed {
    fn from(Truncated: Truncated) -> Self {
        Self("ends too early")
    }
}

impl TransportParameters {
    /// Reads the parameters that `from` sent. Unknown ones are ignored.
    ///
    /// # Errors
    /// TRANSPORT_PARAMETER_ERROR if the bytes cannot be read, a known parameter stands there twice
    /// or has a value out of its range, or a client sent what only servers may (RFC 9000
    /// sections 7.4 and 18.2). Of unknown parameters, the first 32 are compared: more would need
    /// memory in proportion to their number.
    pub fn decode(bytes: &[u8], from: Side) -> Result<Self, TransportError> {
        let mut reader = Reader::new(bytes);
        let mut parameters = Self::default();
        let (mut seen, mut unknown) = (Vec::new(), 0);
        while !reader.is_empty() {
            let truncated =
                |Truncated| TransportError::transport_parameter_error("the parameters end too early");
            let id = reader.varint().map_err(truncated)?;
            let value = reader.varint_prefixed().map_err(truncated)?;
            let blame = |Malformed(what)| {
                TransportError::transport_parameter_error(format!("transport parameter {id:#x}: {what}"))
            };
            if from.is_client() && is_for_servers_only(id) {
                return Err(blame(Malformed("sent by a client")));
            }
            if seen.contains(&id) {
                return Err(blame(Malformed("given twice")));
            }
            let mut value = Reader::new(value);
            if !parameters.read_one(id, &mut value).map_err(blame)? {
                if unknown < MAX_UNKNOWN {
                    seen.push(id);
                }
                unknown += 1;
                continue;
            }
            seen.push(id);
            if !value.is_empty() {
                return Err(blame(Malformed("longer than it should be")));
            }
        }
        Ok(parameters)
    }

    /// Reads the value of one parameter; false if the id is unknown.
    fn read_one(&mut self, id: u64, value: &mut Reader<'_>) -> Result<bool, Malformed> {
        let stream_count = 0..=1 << 60;
        match id {
            ids::ORIGINAL_DESTINATION_CONNECTION_ID => {
                self.original_destination_connection_id = Some(connection_id(value)?);
            }
            ids::MAX_IDLE_TIMEOUT => self.max_idle_timeout = Duration::from_millis(value.varint()?),
            ids::STATELESS_RESET_TOKEN => self.stateless_reset_token = Some(ResetToken(value.array()?)),
            ids::MAX_UDP_PAYLOAD_SIZE => self.max_udp_payload_size = within(1200..=MAX_VARINT, value)?,
            ids::INITIAL_MAX_DATA => self.initial_max_data = limit(value)?,
            ids::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL => {
                self.initial_max_stream_data_bidi_local = limit(value)?;
            }
            ids::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE => {
                self.initial_max_stream_data_bidi_remote = limit(value)?;
            }
            ids::INITIAL_MAX_STREAM_DATA_UNI => self.initial_max_stream_data_uni = limit(value)?,
            ids::INITIAL_MAX_STREAMS_BIDI => self.initial_max_streams_bidi = within(stream_count, value)?,
            ids::INITIAL_MAX_STREAMS_UNI => self.initial_max_streams_uni = within(stream_count, value)?,
            ids::ACK_DELAY_EXPONENT => self.ack_delay_exponent = within(0..=20, value)?.into_inner() as u8,
            ids::MAX_ACK_DELAY => {
                self.max_ack_delay = Duration::from_millis(within(0..=(1 << 14) - 1, value)?.into_inner());
            }
            ids::DISABLE_ACTIVE_MIGRATION => self.disable_active_migration = true,
            ids::PREFERRED_ADDRESS => self.preferred_address = Some(preferred_address(value)?),
            ids::ACTIVE_CONNECTION_ID_LIMIT => {
                self.active_connection_id_limit = within(2..=MAX_VARINT, value)?
            }
            ids::INITIAL_SOURCE_CONNECTION_ID => {
                self.initial_source_connection_id = Some(connection_id(value)?);
            }
            ids::RETRY_SOURCE_CONNECTION_ID => self.retry_source_connection_id = Some(connection_id(value)?),
            ids::MAX_DATAGRAM_FRAME_SIZE => self.max_datagram_frame_size = limit(value)?,
            ids::INITIAL_MAX_PATH_ID => {
                let id = within(0..=u64::from(u32::MAX), value)?;
                self.initial_max_path_id = Some(PathId(id.into_inner() as u32));
            }
            ids::RESET_STREAM_AT | ids::RESET_STREAM_AT_DRAFT_07 => self.reset_stream_at = true,
            ids::REPAIR => self.repair = repair(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

const fn is_for_servers_only(id: u64) -> bool {
    matches!(
        id,
        ids::ORIGINAL_DESTINATION_CONNECTION_ID
            | ids::STATELESS_RESET_TOKEN
            | ids::PREFERRED_ADDRESS
            | ids::RETRY_SOURCE_CONNECTION_ID
    )
}

fn limit(value: &mut Reader<'_>) -> Result<VarInt, Malformed> {
    Ok(VarInt::saturating(value.varint()?))
}

fn within(range: RangeInclusive<u64>, value: &mut Reader<'_>) -> Result<VarInt, Malformed> {
    let value = limit(value)?;
    if range.contains(&value.into_inner()) { Ok(value) } else { Err(Malformed("value out of range")) }
}

fn connection_id(value: &mut Reader<'_>) -> Result<ConnectionId, Malformed> {
    ConnectionId::new(value.rest()).ok_or(Malformed("connection id of more than 20 bytes"))
}

fn preferred_address(value: &mut Reader<'_>) -> Result<PreferredAddress, Malformed> {
    let ipv4 = SocketAddrV4::new(Ipv4Addr::from(value.array::<4>()?), value.u16()?);
    let ipv6 = SocketAddrV6::new(Ipv6Addr::from(value.array::<16>()?), value.u16()?, 0, 0);
    let id = value.u8_prefixed()?;
    let connection_id = ConnectionId::new(id).filter(|id| !id.is_empty());
    Ok(PreferredAddress {
        // An address of all zeros, port included, stands for none (RFC 9000 section 18.2).
        ipv4: Some(ipv4).filter(|&addr| addr != SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
        ipv6: Some(ipv6).filter(|&addr| addr != SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0)),
        connection_id: connection_id.ok_or(Malformed("connection id not of 1 to 20 bytes"))?,
        reset_token: ResetToken(value.array()?),
    })
}

/// A version that we do not know may look like anything: its sender is taken to lack the extension.
fn repair(value: &mut Reader<'_>) -> Result<Option<RepairParameters>, Malformed> {
    if value.varint()? != RepairParameters::VERSION {
        value.rest();
        return Ok(None);
    }
    Ok(Some(RepairParameters {
        schemes: CodeSchemes::from_bitmap(value.varint()?),
        max_block: within(1..=MAX_VARINT, value)?,
        decoder_memory: limit(value)?,
    }))
}
