//! Arithmetic of single field elements.
//!
//! An element is a byte: bit k is the coefficient of x^k of a polynomial over GF(2), modulo
//! [`POLYNOMIAL`]. Addition is exclusive or, and is its own inverse. Every function is `const`.

use crate::tables::{EXP, LOG};
pub use crate::tables::{GENERATOR, POLYNOMIAL};

/// `a + b`, which is also `a - b`.
#[inline]
pub const fn add(a: u8, b: u8) -> u8 {
    a ^ b
}

/// `a * b`.
#[inline]
pub const fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { EXP[LOG[a as usize] as usize + LOG[b as usize] as usize] }
}

/// `a / b`.
///
/// # Panics
/// If `b` is zero, like integer division.
#[inline]
pub const fn div(a: u8, b: u8) -> u8 {
    mul(a, inv(b))
}

/// The inverse of `a`: `a * inv(a) == 1`.
///
/// # Panics
/// If `a` is zero.
#[inline]
pub const fn inv(a: u8) -> u8 {
    EXP[255 - log(a) as usize]
}

/// `a` to the power `n`; `pow(0, 0)` is 1.
#[inline]
pub const fn pow(a: u8, n: u32) -> u8 {
    match (a, n) {
        (_, 0) => 1,
        (0, _) => 0,
        _ => EXP[(LOG[a as usize] as u64 * n as u64 % 255) as usize],
    }
}

/// The power of [`GENERATOR`] that gives `a`, from 0 to 254.
///
/// # Panics
/// If `a` is zero, which is no power of anything else.
#[inline]
pub const fn log(a: u8) -> u8 {
    assert!(a != 0, "zero has neither logarithm nor inverse");
    LOG[a as usize]
}

/// [`GENERATOR`] to the power `n`; the inverse of [`log`]. The powers repeat after 255.
#[inline]
pub const fn exp(n: u8) -> u8 {
    EXP[n as usize]
}
