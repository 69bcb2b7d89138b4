//! [`VarInt`]: the integers that QUIC can carry (RFC 9000 section 16).

use core::fmt;

use super::coding::MAX_VARINT;

/// An integer from 0 to 2^62 - 1: what a variable-length integer can carry (RFC 9000 section 16).
///
/// Application error codes are such integers, and so are the limits that transport parameters
/// declare. Those of up to 32 bits convert with `from`, larger ones with `try_from`.
///
/// ```
/// use mendpath_proto::VarInt;
///
/// assert_eq!(VarInt::from(7u32), VarInt::from_u32(7));
/// assert!(VarInt::try_from(1u64 << 62).is_err());
/// assert_eq!(VarInt::saturating(u64::MAX), VarInt::MAX);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VarInt(u64);

/// The integer is 2^62 or more: QUIC cannot carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} does not fit a variable-length integer: it is 2^62 or more")]
pub struct VarIntBoundsExceeded(pub u64);

impl VarInt {
    /// The largest: 2^62 - 1.
    pub const MAX: Self = Self(MAX_VARINT);

    /// `value`, which always fits.
    pub const fn from_u32(value: u32) -> Self {
        Self(value as u64)
    }

    /// `value`, if it fits.
    ///
    /// # Errors
    /// [`VarIntBoundsExceeded`] if it is 2^62 or more.
    pub const fn from_u64(value: u64) -> Result<Self, VarIntBoundsExceeded> {
        if value <= MAX_VARINT { Ok(Self(value)) } else { Err(VarIntBoundsExceeded(value)) }
    }

    /// `value`, or [`VarInt::MAX`] if that is less: for limits, of which the largest is as good as
    /// none.
    pub const fn saturating(value: u64) -> Self {
        if value <= MAX_VARINT { Self(value) } else { Self::MAX }
    }

    /// The integer itself.
    pub const fn into_inner(self) -> u64 {
        self.0
    }
}

impl From<u8> for VarInt {
    fn from(value: u8) -> Self {
        Self(value.into())
    }
}

impl From<u16> for VarInt {
    fn from(value: u16) -> Self {
        Self(value.into())
    }
}

impl From<u32> for VarInt {
    fn from(value: u32) -> Self {
        Self::from_u32(value)
    }
}

impl TryFrom<u64> for VarInt {
    type Error = VarIntBoundsExceeded;

    fn try_from(value: u64) -> Result<Self, Self::Error> {
        Self::from_u64(value)
    }
}

impl TryFrom<usize> for VarInt {
    type Error = VarIntBoundsExceeded;

    fn try_from(value: usize) -> Result<Self, Self::Error> {
        Self::from_u64(value as u64)
    }
}

impl From<VarInt> for u64 {
    fn from(value: VarInt) -> Self {
        value.0
    }
}

impl fmt::Display for VarInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::LowerHex for VarInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

impl fmt::Debug for VarInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_cannot_be_made() {
        assert_eq!(VarInt::from_u64(MAX_VARINT), Ok(VarInt::MAX));
        assert_eq!(VarInt::from_u64(1 << 62), Err(VarIntBoundsExceeded(1 << 62)));
        assert!(VarInt::try_from(u64::MAX).is_err());
        assert_eq!(VarInt::saturating(1 << 62), VarInt::MAX);
        assert_eq!(u64::from(VarInt::from_u32(u32::MAX)), u64::from(u32::MAX));
        assert_eq!(
            (VarInt::from(9u8).to_string(), format!("{:#x}", VarInt::from(9u16))),
            ("9".into(), "0x9".into())
        );
    }
}
