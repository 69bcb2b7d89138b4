//! The first message of every stream after the control stream.

use mendpath::{PathLimits, PathUse};
use units::BitRate;

use super::{Coding, DecodeError, Reader, decode_target, encode_target};
use crate::target::Target;

const CONNECT: u8 = 1;
const ASSOCIATE: u8 = 2;
const FILE: u8 = 3;
const LIMIT_PATH: u8 = 4;
const TUNNEL: u8 = 5;

/// What a stream is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A TCP connection; the stream then carries its bytes.
    Connect(Target),
    /// A UDP association; the stream then carries packets too large for a QUIC datagram, and its
    /// end ends the association.
    Associate {
        /// Chosen by the client, unused by its other associations; names the association in QUIC
        /// datagrams.
        id: u32,
    },
    /// A file; the stream then carries its bytes and their SHA-256.
    File {
        /// Its size in bytes.
        size: u64,
        /// Its name, as the sender has it; the receiver does not trust it.
        name: String,
    },
    /// What the server is to send on a path from now on; the stream carries nothing else.
    LimitPath {
        /// The path's id.
        path: u32,
        /// What it may carry.
        limits: PathLimits,
    },
    /// A tunnel of IP packets; the stream then carries the server's [`Assignment`], and packets too
    /// large for a QUIC datagram. Its end ends the tunnel.
    ///
    /// [`Assignment`]: super::Assignment
    Tunnel {
        /// As of [`Associate`](Self::Associate), of which it is another kind.
        id: u32,
        /// Tells the client from others of its account: whoever has the same name gets the same
        /// addresses, in the place of whoever had it before.
        name: [u8; 16],
        /// The place of the addresses that it had before; 0 for none.
        wanted: u32,
        /// How the server is to protect what it sends.
        coding: Coding,
    },
}

impl Request {
    /// The message's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Connect(target) => {
                out.push(CONNECT);
                encode_target(target, &mut out);
            }
            Self::Associate { id } => {
                out.push(ASSOCIATE);
                out.extend(id.to_be_bytes());
            }
            Self::File { size, name } => {
                out.push(FILE);
                out.extend(size.to_be_bytes());
                out.extend(name.as_bytes());
            }
            Self::LimitPath { path, limits } => {
                out.push(LIMIT_PATH);
                out.extend(path.to_be_bytes());
                out.push(match limits.carries {
                    PathUse::Regular => 0,
                    PathUse::Metered => 1,
                    PathUse::Paused => 2,
                });
                out.extend(limits.rate.map_or(0, |rate| rate.0).to_be_bytes());
            }
            Self::Tunnel { id, name, wanted, coding } => {
                out.push(TUNNEL);
                out.extend(id.to_be_bytes());
                out.extend(name);
                out.extend(wanted.to_be_bytes());
                out.push(coding.number());
            }
        }
        out
    }

    /// Reads a request.
    ///
    /// # Errors
    /// [`DecodeError::Unknown`] with `"request"` for a kind that this version does not know.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let request = match reader.u8()? {
            CONNECT => Self::Connect(decode_target(&mut reader)?),
            ASSOCIATE => Self::Associate { id: reader.u32()? },
            FILE => Self::File { size: reader.u64()?, name: reader.text()?.to_owned() },
            LIMIT_PATH => Self::LimitPath { path: reader.u32()?, limits: limits(&mut reader)? },
            TUNNEL => Self::Tunnel {
                id: reader.u32()?,
                name: reader.u128()?.to_be_bytes(),
                wanted: reader.u32()?,
                coding: Coding::from_number(reader.u8()?).ok_or(DecodeError::Unknown("coding"))?,
            },
            _ => return Err(DecodeError::Unknown("request")),
        };
        reader.end()?;
        Ok(request)
    }
}

fn limits(reader: &mut Reader<'_>) -> Result<PathLimits, DecodeError> {
    let carries = match reader.u8()? {
        0 => PathUse::Regular,
        1 => PathUse::Metered,
        2 => PathUse::Paused,
        _ => return Err(DecodeError::Unknown("use of a path")),
    };
    let rate = reader.u64()?;
    Ok(PathLimits { carries, rate: (rate > 0).then_some(BitRate(rate)) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_back() {
        let requests = [
            Request::Connect("example.org:443".parse().unwrap()),
            Request::Associate { id: 0xdead_beef },
            Request::File { size: 1 << 40, name: "Urlaub.jpg".into() },
            Request::Tunnel { id: 7, name: [9; 16], wanted: 300, coding: Coding::Auto },
        ];
        for request in requests {
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
    }

    #[test]
    fn damage_is_refused() {
        assert_eq!(Request::decode(&[]), Err(DecodeError::Short));
        assert_eq!(Request::decode(&[9]), Err(DecodeError::Unknown("request")));
        assert_eq!(Request::decode(&[2, 0, 0, 0, 1, 0]), Err(DecodeError::Trailing));
        assert_eq!(Request::decode(&[3, 0, 0, 0, 0, 0, 0, 0, 1, 0xff]), Err(DecodeError::Text));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert_eq!(request.encode(), bytes);
            }
        }
    }
}
