//! Making repair symbols, of a whole block or source by source.

use arrayvec::ArrayVec;

use super::{coefficient, coefficients};
use crate::{EncodeError, MAX_SOURCE_LEN, MAX_SOURCES, symbol};

/// Writes repair symbol `index` of a block with `seed` to `out`. What `out` has beyond [`crate::symbol_len`] becomes
/// zero.
///
/// # Errors
/// Any [`EncodeError`] about the sources, or an output that is too short.
pub fn encode(sources: &[&[u8]], seed: u32, index: u32, out: &mut [u8]) -> Result<(), EncodeError> {
    let outs = &mut [out];
    symbol::check_encode(sources, outs)?;
    let row: ArrayVec<u8, MAX_SOURCES> = coefficients(seed, index, 0..sources.len()).collect();
    symbol::combine(outs, &[], &[&row], sources);
    Ok(())
}

/// One repair symbol in the making: sources are added as they come, and need not be kept.
#[derive(Clone, Debug)]
pub struct Accumulator {
    seed: u32,
    index: u32,
    sources: usize,
    symbol: Vec<u8>,
}

impl Accumulator {
    /// Begins repair symbol `index` of a block with `seed`, without sources.
    pub fn new(seed: u32, index: u32) -> Self {
        Self { seed, index, sources: 0, symbol: Vec::new() }
    }

    /// Begins another repair symbol; keeps the memory.
    pub fn reset(&mut self, seed: u32, index: u32) {
        (self.seed, self.index, self.sources) = (seed, index, 0);
        self.symbol.clear();
    }

    /// Adds the block's next source.
    ///
    /// # Errors
    /// [`EncodeError::SourceTooLong`], or [`EncodeError::SourceCount`] if the block is full; then nothing has changed.
    pub fn push(&mut self, source: &[u8]) -> Result<(), EncodeError> {
        if source.len() > MAX_SOURCE_LEN {
            return Err(EncodeError::SourceTooLong { source_index: self.sources, len: source.len() });
        }
        if self.sources == MAX_SOURCES {
            return Err(EncodeError::SourceCount { sources: MAX_SOURCES + 1 });
        }
        let c = coefficient(self.seed, self.index, self.sources as u8);
        symbol::accumulate(&mut self.symbol, source, c);
        self.sources += 1;
        Ok(())
    }

    /// Sources added so far.
    pub fn sources(&self) -> usize {
        self.sources
    }

    /// The repair symbol of the sources so far; empty as long as there are none. Where other symbols of the block are
    /// longer, because they saw longer sources, it is continued by zeros.
    pub fn symbol(&self) -> &[u8] {
        &self.symbol
    }
}
