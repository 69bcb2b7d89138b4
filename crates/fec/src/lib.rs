//! Erasure codes over symbols of different length.
//!
//! Three code blocks, the last one a stream of sources without end. A block has K *source symbols*
//! (any bytes, 0 to 65,535 of them) and any number of *repair symbols*, each of which can stand in
//! for a lost source symbol. All codes are systematic: source symbols travel as they are.
//!
//! | module            | repair symbols       | recovers                                   | used for             |
//! |-------------------|----------------------|--------------------------------------------|----------------------|
//! | [`xor`]           | one                  | one loss                                   | CoFUSO, M = 1        |
//! | [`reed_solomon`]  | 256 - K              | as many losses as there are repair symbols | CoFUSO, M > 1        |
//! | [`random_linear`] | 2^32                 | the same, almost always                    | CTCP                 |
//! | [`window`]        | any number           | as many as symbols cover them              | datagrams in time    |
//!
//! Repair symbol 0 of [`reed_solomon`] is that of [`xor`].
//!
//! # The virtual symbol
//! What is coded for a source is its *virtual symbol*: its length as 16 bits in network byte order,
//! its bytes, and zeros up to the longest source of the block. A repair symbol is therefore
//! [`PREFIX`] bytes longer than the longest source, and decoding returns sources with their exact
//! length. No source is ever copied to frame it.
//!
//! # What this crate never does
//! It knows no packets, acknowledgements or time, keeps nothing but what the caller's objects hold,
//! and never panics on input from the network: a decoder answers hostile symbols with an error. It
//! does not authenticate: a repair symbol that was changed on the way is noticed only by chance.
//!
//! Start with [`reed_solomon::encode`] and [`reed_solomon::decode`].
//!
//! ```
//! use mendpath_fec::{reed_solomon, symbol_len};
//!
//! let sources: [&[u8]; 3] = [b"any", b"three", b"packets"];
//! let mut repairs = vec![vec![0; symbol_len(&sources)]; 2];
//! for (index, repair) in (0..).zip(&mut repairs) {
//!     reed_solomon::encode(&sources, index, repair)?;
//! }
//!
//! let received = [None, Some(sources[1]), None];
//! let mut scratch = reed_solomon::DecodeScratch::new();
//! let rebuilt = reed_solomon::decode(&received, &[(0, &repairs[0]), (1, &repairs[1])], &mut scratch)?;
//! assert!(rebuilt.eq([(0, sources[0]), (2, sources[2])]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(clippy::missing_errors_doc)]

pub mod random_linear;
pub mod reed_solomon;
pub mod window;
pub mod xor;

mod error;
#[cfg(test)]
mod oracle;
mod symbol;

pub use error::{DecodeError, EncodeError};
pub use symbol::symbol_len;

/// The most symbols of a block, sources and repair symbols together: the elements of the field.
pub const MAX_BLOCK: usize = 256;

/// The most source symbols of a block; leaves room for one repair symbol.
pub const MAX_SOURCES: usize = MAX_BLOCK - 1;

/// The numbers of the sources of one symbol of a streaming code ([`window`]) lie less than this apart.
pub const WINDOW_SPAN: u64 = 192;

/// The longest source symbol in bytes.
pub const MAX_SOURCE_LEN: usize = u16::MAX as usize;

/// Bytes of a virtual symbol before those of its source: the 16-bit length.
pub const PREFIX: usize = 2;
