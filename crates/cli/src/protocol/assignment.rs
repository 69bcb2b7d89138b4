//! The addresses that a server gives to a tunnel.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{DecodeError, Reader};

/// What a tunnel has, after its request was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Its place among the server's addresses, to ask for it again.
    pub index: u32,
    /// The client's address.
    pub v4: Ipv4Addr,
    /// The client's address.
    pub v6: Ipv6Addr,
    /// The largest packet that the server takes, in bytes.
    pub mtu: u16,
}

impl Assignment {
    /// The message's bytes. What later versions add comes behind.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.index.to_be_bytes().to_vec();
        out.extend(self.v4.octets());
        out.extend(self.v6.octets());
        out.extend(self.mtu.to_be_bytes());
        out
    }

    /// Reads an assignment.
    ///
    /// # Errors
    /// When it is cut short, or its addresses are no host's.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let index = reader.u32()?;
        let (v4, v6) = (Ipv4Addr::from_bits(reader.u32()?), Ipv6Addr::from_bits(reader.u128()?));
        let mtu = reader.u16()?;
        let strange = v4.is_unspecified() || v4.is_loopback() || v4.is_multicast() || v4.is_broadcast();
        if strange || v6.is_unspecified() || v6.is_loopback() || v6.is_multicast() {
            return Err(DecodeError::Unknown("address"));
        }
        Ok(Self { index, v4, v6, mtu })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_back_and_addresses_of_nobody_are_refused() {
        let (v4, v6) = ("198.19.0.7".parse().unwrap(), "fd00::7".parse().unwrap());
        let assignment = Assignment { index: 7, v4, v6, mtu: 1_500 };
        assert_eq!(Assignment::decode(&assignment.encode()), Ok(assignment));
        for cut in 0..26 {
            assert_eq!(Assignment::decode(&assignment.encode()[..cut]), Err(DecodeError::Short));
        }
        let loopback = Assignment { v4: Ipv4Addr::LOCALHOST, ..assignment };
        assert_eq!(Assignment::decode(&loopback.encode()), Err(DecodeError::Unknown("address")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(assignment) = Assignment::decode(&bytes) {
                prop_assert!(bytes.starts_with(&assignment.encode()));
            }
        }
    }
}
