//! The field GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d), as one-byte arithmetic
//! and as kernels over byte slices.
//!
//! [`field`] holds the arithmetic of single elements. [`Kernels`] holds the slice operations,
//! written once over a small vector trait and instantiated for every instruction set in [`Isa`];
//! which one runs never changes a result. [`Kernels::product`] is the one that erasure codes live
//! on: it makes up to [`Kernels::TILE`] linear combinations of all sources in one pass over memory.
//!
//! This crate never allocates, knows nothing of codes or packets, and is the only one of the
//! workspace with `unsafe`: all of it is in the private modules `generic` and `isa`, behind types
//! whose existence proves that the processor has the instructions.
//!
//! Start with [`Kernels::detect`] and [`field::mul`].
//!
//! ```
//! use mendpath_gf256::{Kernels, field};
//!
//! let kernels = Kernels::detect();
//! let mut data = [1, 2, 3];
//! kernels.mul_add(&mut data, &[5, 6, 7], 9);
//! assert_eq!(data[0], field::add(1, field::mul(9, 5)));
//! ```

#![warn(clippy::missing_errors_doc)]

pub mod field;
#[allow(unsafe_code, reason = "vector loads and stores; see the crate documentation")]
mod generic;
#[allow(unsafe_code, reason = "vector intrinsics; see the crate documentation")]
mod isa;
mod kernels;
mod tables;
#[cfg(test)]
mod tests;

pub use kernels::{Isa, Kernels, UnsupportedIsa};
