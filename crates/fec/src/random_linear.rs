//! Systematic random linear code: every repair symbol is a random combination of all sources of its
//! block.
//!
//! CTCP sections 4.4 and 5.1 (papers' Algorithm 3 decides when to send one). Repair symbols have no
//! fixed number, and any K different symbols give the block with high probability. The coefficients
//! come from a seed, so a repair symbol on the wire names only the seed of its block and its own
//! index.
//!
//! # The coefficients
//! Part of the wire format. Of repair symbol `index` (32 bits) in a block with `seed` (32 bits),
//! the coefficient of source i is made from byte i mod 8, counted from the least significant one,
//! of output i div 8 of SplitMix64 started at state `seed * 2^32 + index`. A byte b gives the
//! coefficient `1 + floor(b * 255 / 256)`. Output n of SplitMix64 from state s is, modulo 2^64,
//!
//! ```text
//! z = s + (n + 1) * 0x9e3779b97f4a7c15
//! z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
//! z = (z ^ (z >> 27)) * 0x94d049bb133111eb
//! output = z ^ (z >> 31)
//! ```
//!
//! # Departures
//! - `CTCP-A17`: coefficients are 1 to 255, never zero, so that every repair symbol repairs any
//!   single loss. (1 is twice as likely as any other: the price of a coefficient that can be
//!   computed without those before it.)

//! # Which type
//!
//! | who                                        | keeps                          | type                |
//! |--------------------------------------------|--------------------------------|---------------------|
//! | sender that keeps its packets anyway       | nothing                        | [`encode`]          |
//! | sender of a block that grows               | the sources, in one buffer     | [`Encoder`]         |
//! | sender of a number of symbols known before | those symbols                  | [`Accumulator`]     |
//! | receiver that keeps what it received       | equations for what is missing  | [`MissingDecoder`]  |
//! | receiver that keeps nothing                | the whole block                | [`Decoder`]         |

mod decode;
mod encode;
mod missing;
#[cfg(test)]
mod tests;

pub use decode::{Decoder, Innovation};
pub use encode::{Accumulator, Encoder, encode};
pub use missing::MissingDecoder;

/// The coefficient of source `source` in repair symbol `index` of a block with `seed`: 1 to 255.
pub fn coefficient(seed: u32, index: u32, source: u8) -> u8 {
    coefficients(seed, index, usize::from(source)..usize::from(source) + 1).next().unwrap_or(1)
}

/// The coefficients of a range of sources.
fn coefficients(seed: u32, index: u32, sources: std::ops::Range<usize>) -> impl Iterator<Item = u8> {
    let state = (u64::from(seed) << 32) | u64::from(index);
    let (mut word, mut at) = (0, usize::MAX);
    sources.map(move |i| {
        if i / 8 != at {
            at = i / 8;
            word = split_mix(state, at as u64);
        }
        let byte = word.to_le_bytes()[i % 8];
        1 + ((u16::from(byte) * 255) >> 8) as u8
    })
}

/// Output `n` of SplitMix64.
fn split_mix(state: u64, n: u64) -> u64 {
    let z = state.wrapping_add((n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
