//! Addresses on the wire, coded as SOCKS5 does (RFC 1928 section 5): a type byte, the address, the
//! port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{DecodeError, Reader};
use crate::target::{Host, Target, is_name};

const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Appends `target` to `out`; at most 257 bytes.
pub fn encode_target(target: &Target, out: &mut Vec<u8>) {
    match &target.host {
        Host::Ip(IpAddr::V4(ip)) => {
            out.push(IPV4);
            out.extend(ip.octets());
        }
        Host::Ip(IpAddr::V6(ip)) => {
            out.push(IPV6);
            out.extend(ip.octets());
        }
        Host::Name(name) => {
            debug_assert!(is_name(name), "a Host holds checked names");
            out.push(NAME);
            out.push(name.len() as u8);
            out.extend(name.as_bytes());
        }
    }
    out.extend(target.port.to_be_bytes());
}

/// Reads a target.
///
/// # Errors
/// When it is cut short, of unknown type, or its name is not one.
pub fn decode_target(reader: &mut Reader<'_>) -> Result<Target, DecodeError> {
    let host = match reader.u8()? {
        IPV4 => Host::Ip(Ipv4Addr::from_bits(reader.u32()?).into()),
        IPV6 => Host::Ip(Ipv6Addr::from_bits(reader.u128()?).into()),
        NAME => {
            let length = reader.u8()?.into();
            let name = str::from_utf8(reader.bytes(length)?).map_err(|_| DecodeError::Text)?;
            if !is_name(name) {
                return Err(DecodeError::Text);
            }
            Host::Name(name.to_owned())
        }
        _ => return Err(DecodeError::Unknown("address type")),
    };
    Ok(Target { host, port: reader.u16()? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn layout() {
        let mut out = Vec::new();
        encode_target(&"192.0.2.1:258".parse().unwrap(), &mut out);
        encode_target(&"a.b:1".parse().unwrap(), &mut out);
        assert_eq!(out, [1, 192, 0, 2, 1, 1, 2, 3, 3, b'a', b'.', b'b', 0, 1]);
    }

    #[test]
    fn a_longest_name_fits() {
        let target = Target { host: Host::Name("x".repeat(crate::target::MAX_NAME)), port: 9 };
        let mut out = Vec::new();
        encode_target(&target, &mut out);
        assert_eq!(out.len(), 257);
        assert_eq!(decode_target(&mut Reader::new(&out)), Ok(target));
    }

    #[test]
    fn names_are_checked() {
        assert_eq!(decode_target(&mut Reader::new(&[3, 0, 0, 1])), Err(DecodeError::Text));
        assert_eq!(decode_target(&mut Reader::new(&[3, 2, b'a', b'\n', 0, 1])), Err(DecodeError::Text));
        assert_eq!(decode_target(&mut Reader::new(&[9, 0, 0])), Err(DecodeError::Unknown("address type")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(target) = decode_target(&mut Reader::new(&bytes)) {
                let mut out = Vec::new();
                encode_target(&target, &mut out);
                prop_assert!(bytes.starts_with(&out));
            }
        }
    }
}
