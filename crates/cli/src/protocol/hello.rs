//! The first message of a client.

use super::{DecodeError, Reader};
use crate::token::{Service, TOKEN_BYTES, Token};

/// The version of this protocol.
pub const VERSION: u8 = 1;

/// Who the client is and what it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Which service the client expects here.
    pub service: Service,
    /// Its right to use it.
    pub token: Token,
}

impl Hello {
    /// The message's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, service_code(self.service)];
        out.extend(self.token.as_bytes());
        out
    }

    /// Reads a hello of version [`VERSION`].
    ///
    /// # Errors
    /// [`DecodeError::Unknown`] with `"version"` for another version, whose message may look
    /// different after its first byte.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        if reader.u8()? != VERSION {
            return Err(DecodeError::Unknown("version"));
        }
        let service = match reader.u8()? {
            1 => Service::Proxy,
            2 => Service::Files,
            _ => return Err(DecodeError::Unknown("service")),
        };
        let token = Token::try_from(reader.bytes(TOKEN_BYTES)?).map_err(|_| DecodeError::Short)?;
        reader.end()?;
        Ok(Self { service, token })
    }
}

fn service_code(service: Service) -> u8 {
    match service {
        Service::Proxy => 1,
        Service::Files => 2,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_back() {
        for service in [Service::Proxy, Service::Files] {
            let hello = Hello { service, token: Token::try_from([9; TOKEN_BYTES].as_slice()).unwrap() };
            assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        }
    }

    #[test]
    fn another_version_is_told_from_damage() {
        assert_eq!(Hello::decode(&[2]), Err(DecodeError::Unknown("version")));
        assert_eq!(Hello::decode(&[1, 1, 0]), Err(DecodeError::Short));
        assert_eq!(Hello::decode(&[1, 7]), Err(DecodeError::Unknown("service")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(hello) = Hello::decode(&bytes) {
                prop_assert_eq!(hello.encode(), bytes);
            }
        }
    }
}
