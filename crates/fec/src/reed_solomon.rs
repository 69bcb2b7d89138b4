//! Systematic Reed-Solomon: of K + M symbols, any K give the block.
//!
//! CoFUSO sections 4.2 and 5.1 need a maximum distance separable code whose first parity is the
//! XOR; the authors left M > 1 as future work. This one is a Cauchy code over GF(2^8) with
//! polynomial 0x11d.
//!
//! # The code
//! Repair symbol j is the sum over all sources i of `c(j, i)` times the virtual symbol of source i,
//! with
//!
//! ```text
//! c(j, i) = (x(0) + y(i)) / (x(j) + y(i)),   x(j) = 255 - j,   y(i) = i
//! ```
//!
//! where bytes stand for field elements, and + is exclusive or. Then
//!
//! - `c(0, i) = 1`: repair symbol 0 is the XOR of the sources;
//! - every square submatrix is a Cauchy matrix with scaled columns, so it is invertible, and there
//!   is a formula for the inverse;
//! - coefficients depend neither on K nor on M, so a repair symbol can be begun before its block is
//!   complete.
//!
//! Source i and repair symbol j exclude each other when i + j = 255, hence K + M <= 256
//! ([`crate::MAX_BLOCK`]).
//!
//! # Cost
//! Encoding M symbols reads each source once for every [`gf256::Kernels::TILE`] of them. Decoding e
//! lost sources costs as much as encoding e symbols plus e x e products: known sources are
//! subtracted first, and only the e x e system of the lost ones is inverted.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use gf256::field;

pub use decode::{DecodeScratch, Recovered, decode};
pub use encode::{Accumulator, encode, encode_many};

/// The field element of repair symbol `j`.
const fn x(j: u8) -> u8 {
    255 - j
}

/// The field element of source `i`.
const fn y(i: u8) -> u8 {
    i
}

/// `COEFFICIENTS[j][i]` is c(j, i), for i + j < 255; the rest is unused.
static COEFFICIENTS: [[u8; 255]; 255] = {
    let mut inverse = [0; 256];
    let mut a = 1;
    while a < 256 {
        inverse[a] = field::inv(a as u8);
        a += 1;
    }
    let mut table = [[0; 255]; 255];
    let mut j = 0;
    while j < 255 {
        let mut i = 0;
        while i + j < 255 {
            let numerator = field::add(x(0), y(i as u8));
            let denominator = field::add(x(j as u8), y(i as u8));
            table[j][i] = field::mul(numerator, inverse[denominator as usize]);
            i += 1;
        }
        j += 1;
    }
    table
};

/// The coefficients of repair symbol `index` for `sources` sources; `None` if they are too many.
fn row(index: u8, sources: usize) -> Option<&'static [u8]> {
    (sources + usize::from(index) < crate::MAX_BLOCK).then(|| &COEFFICIENTS[usize::from(index)][..sources])
}
