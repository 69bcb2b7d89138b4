//! Streaming code: each repair symbol is a combination of a window of the latest sources, and the
//! windows overlap.
//!
//! A block code repairs a block by its own symbols; a burst that takes a block and its symbols is
//! too much for it, however many symbols the next block has to spare. Here there are no blocks:
//! sources are numbered, a symbol covers whatever sources its sender names, and all symbols are
//! equations over the same unknowns. What comes after a burst helps against it as long as its window
//! reaches back, and so many losses are made up for as symbols arrive that cover them. The idea to
//! spread parity over the frames that follow is that of streaming codes (Martinian and Sundberg 2004;
//! Tambur, NSDI 2023); theirs fix the length of bursts in advance, this one does not.
//!
//! # The code
//! Symbol j is the sum over all sources n of its window of `c(j, n)` times the virtual symbol of
//! source n, with
//!
//! ```text
//! c(j, n) = 1 / ((192 + (j mod 64)) + (n mod 192))
//! ```
//!
//! where bytes stand for field elements, and + is exclusive or. The numbers of a window lie less than
//! [`SPAN`] apart, so that no two of its sources share an element.
//!
//! # What it promises
//! If any e sources are lost, and e symbols of which no two are 64 or more apart arrive whose windows
//! all have the same lost sources in them, these e, then all of them are rebuilt: the equations are a
//! square part of a Cauchy matrix. So every burst is made up for by as many symbols after it as it took
//! sources, if their windows still reach back to it. Where windows cover different parts of what was
//! lost, the equations are independent but for one case in some 255.
//!
//! # Departures
//! - Windows need not be contiguous, nor grow or move in any order: each symbol says what it covers.

mod decode;
#[cfg(test)]
mod tests;

use arrayvec::ArrayVec;
use gf256::field;

pub use crate::WINDOW_SPAN as SPAN;
use crate::{EncodeError, MAX_SOURCES, symbol};
pub use decode::Decoder;

/// So many symbols in a row have different coefficients.
pub const DISTINCT: u64 = 64;

/// `COEFFICIENTS[j][n]` is c(j, n).
static COEFFICIENTS: [[u8; SPAN as usize]; DISTINCT as usize] = {
    let mut table = [[0; SPAN as usize]; DISTINCT as usize];
    let mut j = 0;
    while j < DISTINCT as usize {
        let mut n = 0;
        while n < SPAN as usize {
            table[j][n] = field::inv(field::add((SPAN as usize + j) as u8, n as u8));
            n += 1;
        }
        j += 1;
    }
    table
};

/// The coefficient of source `number` in repair symbol `symbol`: 1 to 255.
pub fn coefficient(symbol: u64, number: u64) -> u8 {
    COEFFICIENTS[(symbol % DISTINCT) as usize][(number % SPAN) as usize]
}

/// Writes repair symbol `symbol` over the numbered sources, in ascending order, to `out`, which may
/// be longer than [`symbol_len`](crate::symbol_len) says.
///
/// # Errors
/// [`EncodeError::SourceCount`], [`EncodeError::SourceTooLong`], [`EncodeError::OutputTooShort`], and
/// [`EncodeError::WindowTooWide`] if numbers lie [`SPAN`] or more apart or do not ascend. `out` is
/// then unchanged.
pub fn encode(sources: &[(u64, &[u8])], symbol: u64, out: &mut [u8]) -> Result<(), EncodeError> {
    let bytes: ArrayVec<&[u8], MAX_SOURCES> =
        sources.iter().map(|(_, bytes)| *bytes).take(MAX_SOURCES).collect();
    let first = sources.first().map_or(0, |(number, _)| *number);
    let ascend = sources.windows(2).all(|pair| pair[0].0 < pair[1].0);
    if !ascend || sources.last().is_some_and(|(last, _)| last - first >= SPAN) {
        return Err(EncodeError::WindowTooWide);
    }
    if sources.len() > MAX_SOURCES {
        return Err(EncodeError::SourceCount { sources: sources.len() });
    }
    symbol::check_encode(&bytes, &[&mut *out])?;
    let row: ArrayVec<u8, MAX_SOURCES> =
        sources.iter().map(|(number, _)| coefficient(symbol, *number)).collect();
    symbol::combine(&mut [out], &[], &[&row], &bytes);
    Ok(())
}
