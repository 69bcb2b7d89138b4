//! One repair symbol: the sum of all source symbols. Recovers one loss.
//!
//! CoFUSO section 5 (M_max = 1 on the testbed). It is repair symbol 0 of [`crate::reed_solomon`],
//! so a receiver of either code reads it.

use crate::{
    DecodeError, EncodeError,
    reed_solomon::{self, DecodeScratch, Recovered},
};

/// Writes the repair symbol of a block of 1 to [`crate::MAX_SOURCES`] sources to `out`. What `out`
/// has beyond [`crate::symbol_len`] becomes zero.
///
/// # Errors
/// Any [`EncodeError`] about the sources, or an output that is too short.
pub fn encode(sources: &[&[u8]], out: &mut [u8]) -> Result<(), EncodeError> {
    reed_solomon::encode(sources, 0, out)
}

/// Recovers the lost source, `None` in `sources`, from all others and the repair symbol.
///
/// # Errors
/// As [`reed_solomon::decode`].
pub fn decode<'s>(
    sources: &[Option<&[u8]>],
    repair: &[u8],
    scratch: &'s mut DecodeScratch,
) -> Result<Recovered<'s>, DecodeError> {
    reed_solomon::decode(sources, &[(0, repair)], scratch)
}
