//! UDP packets of an association: in a QUIC datagram when they fit, else as a frame on the
//! association's stream.

use super::{DecodeError, Reader, decode_target, encode_target};
use crate::target::Target;

/// A UDP packet with its other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its destination towards the server, its source towards the client.
    pub peer: Target,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Packet {
    /// As the body of a frame on the association's stream.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.payload.len() + 24);
        encode_target(&self.peer, &mut out);
        out.extend(&self.payload);
        out
    }

    /// As a QUIC datagram.
    pub fn encode_datagram(&self, association: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.payload.len() + 24);
        out.extend(association.to_be_bytes());
        encode_target(&self.peer, &mut out);
        out.extend(&self.payload);
        out
    }

    /// Reads a frame's body.
    ///
    /// # Errors
    /// When its address is cut short or unknown.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let peer = decode_target(&mut reader)?;
        Ok(Self { peer, payload: reader.rest().to_vec() })
    }

    /// Reads a QUIC datagram: the association and its packet.
    ///
    /// # Errors
    /// When its id or address is cut short or unknown.
    pub fn decode_datagram(datagram: &[u8]) -> Result<(u32, Self), DecodeError> {
        let mut reader = Reader::new(datagram);
        let association = reader.u32()?;
        Ok((association, Self::decode(reader.rest())?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_forms_read_back() {
        let packet = Packet { peer: "[2001:db8::1]:53".parse().unwrap(), payload: b"query".to_vec() };
        assert_eq!(Packet::decode(&packet.encode()), Ok(packet.clone()));
        assert_eq!(Packet::decode_datagram(&packet.encode_datagram(7)), Ok((7, packet)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok((association, packet)) = Packet::decode_datagram(&bytes) {
                prop_assert_eq!(packet.encode_datagram(association), bytes);
            }
        }
    }
}
