//! Frames that carry bytes: STREAM, CRYPTO and DATAGRAM (RFC 9000 sections 19.6 and 19.8, RFC 9221
//! section 4).

use super::super::coding::{MAX_VARINT, Reader, put_varint, varint_len};
use super::super::ids::StreamId;
use super::{FrameProblem, frame_types};

/// Bits of the STREAM frame's type.
const OFF: u64 = 0x04;
const LEN: u64 = 0x02;
const FIN: u64 = 0x01;

/// STREAM: a piece of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream<'a> {
    /// The stream.
    pub id: StreamId,
    /// Where `data` begins in the stream; `offset + data.len()` is at most 2^62 - 1.
    pub offset: u64,
    /// Whether the stream ends with this piece.
    pub fin: bool,
    /// The piece.
    pub data: &'a [u8],
}

impl<'a> Stream<'a> {
    pub(super) fn decode(frame_type: u64, reader: &mut Reader<'a>) -> Result<Self, FrameProblem> {
        let id = StreamId(reader.varint()?);
        let offset = if frame_type & OFF != 0 { reader.varint()? } else { 0 };
        let data = if frame_type & LEN != 0 { reader.varint_prefixed()? } else { reader.rest() };
        check_end(offset, data)?;
        Ok(Self { id, offset, fin: frame_type & FIN != 0, data })
    }

    pub(super) const fn header(&self) -> StreamHeader {
        let Self { id, offset, fin, data } = *self;
        StreamHeader { id, offset, fin, data_len: Some(data.len()) }
    }

    /// Appends the frame with a length field.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.header().encode(out);
        out.extend_from_slice(self.data);
    }

    /// Bytes that `encode` appends.
    pub fn encoded_len(&self) -> usize {
        StreamHeader::len(self.id, self.offset, self.data.len(), true) + self.data.len()
    }
}

/// What stands in front of the data of a STREAM frame. The caller appends the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamHeader {
    /// The stream.
    pub id: StreamId,
    /// Where the data begins in the stream.
    pub offset: u64,
    /// Whether the stream ends with the data.
    pub fin: bool,
    /// Bytes of data; `None` writes no length field, and the data runs to the end of the packet.
    pub data_len: Option<usize>,
}

impl StreamHeader {
    pub(super) const fn frame_type(&self) -> u64 {
        frame_types::STREAM
            | if self.offset > 0 { OFF } else { 0 }
            | if self.data_len.is_some() { LEN } else { 0 }
            | if self.fin { FIN } else { 0 }
    }

    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.frame_type());
        put_varint(out, self.id.0);
        if self.offset > 0 {
            put_varint(out, self.offset);
        }
        if let Some(len) = self.data_len {
            put_varint(out, len as u64);
        }
    }

    /// Bytes of a header for `data_len` bytes of data, with or without a length field.
    pub const fn len(id: StreamId, offset: u64, data_len: usize, explicit_length: bool) -> usize {
        1 + varint_len(id.0)
            + if offset > 0 { varint_len(offset) } else { 0 }
            + if explicit_length { varint_len(data_len as u64) } else { 0 }
    }

    /// The most data that fits `space` bytes together with its header; `None` if not even the
    /// header fits.
    pub fn max_data(id: StreamId, offset: u64, space: usize, explicit_length: bool) -> Option<usize> {
        let room = space.checked_sub(Self::len(id, offset, 0, false))?;
        if explicit_length { max_prefixed(room) } else { Some(room) }
    }
}

/// CRYPTO: a piece of the TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crypto<'a> {
    /// Where `data` begins in the handshake of this packet number space; `offset + data.len()` is
    /// at most 2^62 - 1.
    pub offset: u64,
    /// The piece.
    pub data: &'a [u8],
}

impl<'a> Crypto<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, FrameProblem> {
        let offset = reader.varint()?;
        let data = reader.varint_prefixed()?;
        check_end(offset, data)?;
        Ok(Self { offset, data })
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        CryptoHeader { offset: self.offset, data_len: self.data.len() }.encode(out);
        out.extend_from_slice(self.data);
    }

    /// Bytes that `encode` appends.
    pub const fn encoded_len(&self) -> usize {
        CryptoHeader::len(self.offset, self.data.len()) + self.data.len()
    }
}

/// What stands in front of the data of a CRYPTO frame. The caller appends the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CryptoHeader {
    /// Where the data begins in the handshake of this packet number space.
    pub offset: u64,
    /// Bytes of data.
    pub data_len: usize,
}

impl CryptoHeader {
    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, frame_types::CRYPTO);
        put_varint(out, self.offset);
        put_varint(out, self.data_len as u64);
    }

    /// Bytes of a header for `data_len` bytes of data.
    pub const fn len(offset: u64, data_len: usize) -> usize {
        1 + varint_len(offset) + varint_len(data_len as u64)
    }

    /// The most data that fits `space` bytes together with its header; `None` if not even the
    /// header fits.
    pub fn max_data(offset: u64, space: usize) -> Option<usize> {
        max_prefixed(space.checked_sub(1 + varint_len(offset))?)
    }
}

/// DATAGRAM: a message that is never retransmitted (RFC 9221).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The message.
    pub data: &'a [u8],
}

impl<'a> Datagram<'a> {
    pub(super) fn decode(frame_type: u64, reader: &mut Reader<'a>) -> Result<Self, FrameProblem> {
        let explicit = frame_type == frame_types::DATAGRAM_WITH_LENGTH;
        Ok(Self { data: if explicit { reader.varint_prefixed()? } else { reader.rest() } })
    }

    /// Appends the frame with a length field.
    pub fn encode(&self, out: &mut Vec<u8>) {
        DatagramHeader { data_len: Some(self.data.len()) }.encode(out);
        out.extend_from_slice(self.data);
    }

    /// Bytes that `encode` appends.
    pub const fn encoded_len(&self) -> usize {
        DatagramHeader::len(self.data.len(), true) + self.data.len()
    }
}

/// What stands in front of the data of a DATAGRAM frame. The caller appends the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    /// Bytes of data; `None` writes no length field, and the data runs to the end of the packet.
    pub data_len: Option<usize>,
}

impl DatagramHeader {
    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self.data_len {
            Some(len) => {
                put_varint(out, frame_types::DATAGRAM_WITH_LENGTH);
                put_varint(out, len as u64);
            }
            None => put_varint(out, frame_types::DATAGRAM),
        }
    }

    /// Bytes of a header for `data_len` bytes of data, with or without a length field.
    pub const fn len(data_len: usize, explicit_length: bool) -> usize {
        1 + if explicit_length { varint_len(data_len as u64) } else { 0 }
    }
}

/// No byte of a stream lies beyond 2^62 - 1 (RFC 9000 sections 19.6 and 19.8).
fn check_end(offset: u64, data: &[u8]) -> Result<(), FrameProblem> {
    if offset + data.len() as u64 > MAX_VARINT {
        return Err(FrameProblem::Invalid("data beyond offset 2^62 - 1"));
    }
    Ok(())
}

/// The most bytes that fit `room` together with a length field in front of them.
pub(super) fn max_prefixed(room: usize) -> Option<usize> {
    let with_length_of = |len: usize, largest: usize| Some(room.checked_sub(len)?.min(largest));
    [with_length_of(1, 0x3f), with_length_of(2, 0x3fff), with_length_of(4, 0x3fff_ffff)]
        .into_iter()
        .flatten()
        .max()
}
