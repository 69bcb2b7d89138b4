//! Names on the wire: connections, streams, paths, and who speaks.

use core::{fmt, hint, ops};

pub use recovery::PathId;

/// One of the two endpoints of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The endpoint that opened the connection.
    Client,
    /// The endpoint that accepted it.
    Server,
}

impl Side {
    /// The other endpoint.
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Whether this is the client.
    pub const fn is_client(self) -> bool {
        matches!(self, Self::Client)
    }
}

/// Whether data flows in both directions of a stream or only from its initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dir {
    /// Bidirectional.
    Bi,
    /// Unidirectional.
    Uni,
}

/// A stream identifier, 62 bits (RFC 9000 section 2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    /// The `index`-th stream (from 0, below 2^60) of a kind.
    pub const fn new(initiator: Side, dir: Dir, index: u64) -> Self {
        Self(index << 2 | (dir as u64) << 1 | initiator as u64)
    }

    /// Who opened the stream.
    pub const fn initiator(self) -> Side {
        if self.0 & 1 == 0 { Side::Client } else { Side::Server }
    }

    /// Which way its data flows.
    pub const fn dir(self) -> Dir {
        if self.0 & 2 == 0 { Dir::Bi } else { Dir::Uni }
    }

    /// Its number among the streams with the same initiator and direction, from 0.
    pub const fn index(self) -> u64 {
        self.0 >> 2
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.initiator().is_client() { "client" } else { "server" };
        let dir = if self.dir() == Dir::Bi { "bi" } else { "uni" };
        write!(f, "{side} {dir} {}", self.index())
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamId({self})")
    }
}

/// A connection id of QUIC version 1: 0 to 20 bytes, held inline (RFC 9000 section 17.2).
///
/// The order is that of a map key (by length, then by bytes) and has no other meaning.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    len: u8,
    /// Zero beyond `len`, so that the derived comparisons hold.
    bytes: [u8; Self::MAX_LEN],
}

impl ConnectionId {
    /// The longest connection id of QUIC version 1, in bytes.
    pub const MAX_LEN: usize = 20;
    /// The connection id of no bytes.
    pub const EMPTY: Self = Self { len: 0, bytes: [0; Self::MAX_LEN] };

    /// `id` as a connection id; `None` if it is longer than [`ConnectionId::MAX_LEN`].
    pub fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::MAX_LEN];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self { len: id.len() as u8, bytes })
    }
}

impl ops::Deref for ConnectionId {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionId({self})")
    }
}

/// A stateless reset token (RFC 9000 section 10.3). It is a secret until used: comparison takes the
/// same time wherever the first difference is, and `Debug` does not show it.
#[derive(Clone, Copy)]
pub struct ResetToken(pub [u8; 16]);

impl ResetToken {
    /// Length in bytes.
    pub const LEN: usize = 16;
}

impl PartialEq for ResetToken {
    fn eq(&self, other: &Self) -> bool {
        let differences = self.0.iter().zip(&other.0).fold(0, |acc, (a, b)| hint::black_box(acc | (a ^ b)));
        differences == 0
    }
}

impl Eq for ResetToken {}

impl fmt::Debug for ResetToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetToken(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000 table 1.
    #[test]
    fn stream_id_bits() {
        let kinds = [
            (Side::Client, Dir::Bi),
            (Side::Server, Dir::Bi),
            (Side::Client, Dir::Uni),
            (Side::Server, Dir::Uni),
        ];
        for (bits, (side, dir)) in kinds.into_iter().enumerate() {
            let id = StreamId::new(side, dir, 7);
            assert_eq!(id, StreamId(28 + bits as u64));
            assert_eq!((id.initiator(), id.dir(), id.index()), (side, dir, 7));
        }
        assert_eq!(StreamId(7).to_string(), "server uni 1");
    }

    #[test]
    fn connection_ids_hold_up_to_twenty_bytes() {
        assert_eq!(ConnectionId::new(&[]), Some(ConnectionId::EMPTY));
        assert_eq!(&*ConnectionId::new(&[7; 20]).unwrap(), &[7; 20]);
        assert_eq!(ConnectionId::new(&[7; 21]), None);
        assert_ne!(ConnectionId::new(&[0]), ConnectionId::new(&[0, 0]));
        assert_eq!(ConnectionId::new(&[0xab, 1]).unwrap().to_string(), "ab01");
    }

    #[test]
    fn reset_tokens_compare_whole_and_stay_secret() {
        let token = ResetToken([9; 16]);
        for i in 0..16 {
            let mut other = token;
            other.0[i] ^= 0x80;
            assert_ne!(token, other);
        }
        assert_eq!(token, ResetToken([9; 16]));
        assert!(!format!("{token:?}").contains('9'));
    }
}
