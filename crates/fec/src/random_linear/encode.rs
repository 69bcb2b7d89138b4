//! Making repair symbols, of a whole block or source by source.

use arrayvec::ArrayVec;

use super::{coefficient, coefficients};
use crate::{EncodeError, MAX_SOURCE_LEN, MAX_SOURCES, PREFIX, symbol};

/// Writes repair symbol `index` of a block with `seed` to `out`. What `out` has beyond
/// [`crate::symbol_len`] becomes zero.
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
    /// [`EncodeError::SourceTooLong`], or [`EncodeError::SourceCount`] if the block is full; then
    /// nothing has changed.
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

    /// The repair symbol of the sources so far; empty as long as there are none. Where other
    /// symbols of the block are longer, because they saw longer sources, it is continued by zeros.
    pub fn symbol(&self) -> &[u8] {
        &self.symbol
    }
}

/// The sources of a block as they come, and any repair symbol over those that are there: what
/// CTCP's sender needs, which cannot know how many combinations a block will take.
///
/// Holds a copy of every source in one buffer.
#[derive(Clone, Debug)]
pub struct Encoder {
    seed: u32,
    buffer: Vec<u8>,
    /// Where each source ends in the buffer.
    ends: ArrayVec<usize, MAX_SOURCES>,
    longest: usize,
}

impl Encoder {
    /// A block with `seed`, without sources.
    pub fn new(seed: u32) -> Self {
        Self { seed, buffer: Vec::new(), ends: ArrayVec::new(), longest: 0 }
    }

    /// Begins another block; keeps the memory.
    pub fn reset(&mut self, seed: u32) {
        (self.seed, self.longest) = (seed, 0);
        self.buffer.clear();
        self.ends.clear();
    }

    /// Adds the block's next source. Symbols made before do not cover it: whoever decodes must be
    /// told how many sources a symbol is over, so it is simplest to make none before the block is
    /// closed.
    ///
    /// # Errors
    /// [`EncodeError::SourceTooLong`], or [`EncodeError::SourceCount`] if the block is full; then
    /// nothing has changed.
    pub fn push(&mut self, source: &[u8]) -> Result<(), EncodeError> {
        if source.len() > MAX_SOURCE_LEN {
            return Err(EncodeError::SourceTooLong { source_index: self.ends.len(), len: source.len() });
        }
        if self.ends.is_full() {
            return Err(EncodeError::SourceCount { sources: MAX_SOURCES + 1 });
        }
        self.buffer.extend_from_slice(source);
        self.ends.push(self.buffer.len());
        self.longest = self.longest.max(source.len());
        Ok(())
    }

    /// Sources added so far.
    pub fn sources(&self) -> usize {
        self.ends.len()
    }

    /// Length in bytes of a repair symbol over the sources so far.
    pub fn symbol_len(&self) -> usize {
        PREFIX + self.longest
    }

    /// Writes repair symbol `index` over the sources so far to `out`. What `out` has beyond
    /// [`symbol_len`](Self::symbol_len) becomes zero.
    ///
    /// # Errors
    /// [`EncodeError::SourceCount`] without sources, [`EncodeError::OutputTooShort`].
    pub fn write(&self, index: u32, out: &mut [u8]) -> Result<(), EncodeError> {
        let mut start = 0;
        let slice = |&end: &usize| &self.buffer[core::mem::replace(&mut start, end)..end];
        let sources: ArrayVec<&[u8], MAX_SOURCES> = self.ends.iter().map(slice).collect();
        encode(&sources, self.seed, index, out)
    }
}
