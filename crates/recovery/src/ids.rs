//! The names of paths and packets.

use core::fmt;

/// A path identifier (draft-ietf-quic-multipath-21 section 1.2), or the number of a sub-flow. It
/// enters the transport's AEAD nonce with 32 bits, so there are no larger ones.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

impl PathId {
    /// The path of the handshake.
    pub const ZERO: Self = Self(0);
    /// The largest path id.
    pub const MAX: Self = Self(u32::MAX);

    /// The id after this one, [`PathId::MAX`] if there is none.
    pub const fn saturating_next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PathId({})", self.0)
    }
}

/// The number of a packet on its path. Numbers count up per path; one names a packet only together
/// with its path.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketNumber(pub u64);

impl PacketNumber {
    /// The first packet of a path.
    pub const ZERO: Self = Self(0);
    /// Above every packet's number.
    pub const MAX: Self = Self(u64::MAX);

    /// The number after this one.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The number before this one; `None` for the first.
    pub const fn before(self) -> Option<Self> {
        match self.0.checked_sub(1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

impl fmt::Display for PacketNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for PacketNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PacketNumber({})", self.0)
    }
}
