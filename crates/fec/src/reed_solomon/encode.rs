//! Making repair symbols, of a whole block or source by source.

use arrayvec::ArrayVec;
use gf256::Kernels;

use super::row;
use crate::{EncodeError, MAX_SOURCE_LEN, symbol};

/// Writes repair symbol `index` of a block to `out`. What `out` has beyond [`crate::symbol_len`]
/// becomes zero.
///
/// # Errors
/// Any [`EncodeError`] about the sources, the index or the output.
pub fn encode(sources: &[&[u8]], index: u8, out: &mut [u8]) -> Result<(), EncodeError> {
    encode_many(sources, &[index], &mut [out])
}

/// Writes the repair symbols `indices` of a block to `outs`, all of one length, in one pass over
/// the sources for every [`Kernels::TILE`] of them. Asking for index 0 first is faster.
///
/// # Errors
/// Any [`EncodeError`]; the outputs are then unchanged.
pub fn encode_many(sources: &[&[u8]], indices: &[u8], outs: &mut [&mut [u8]]) -> Result<(), EncodeError> {
    if indices.len() != outs.len() {
        return Err(EncodeError::OutputCount { indices: indices.len(), outputs: outs.len() });
    }
    symbol::check_encode(sources, outs)?;
    for &index in indices {
        row(index, sources.len()).ok_or(EncodeError::BlockTooLarge { sources: sources.len(), index })?;
    }
    for (indices, outs) in indices.chunks(Kernels::TILE).zip(outs.chunks_mut(Kernels::TILE)) {
        let rows: ArrayVec<&[u8], { Kernels::TILE }> =
            indices.iter().filter_map(|&index| row(index, sources.len())).collect();
        symbol::combine(outs, &[], &rows, sources);
    }
    Ok(())
}

/// One repair symbol in the making: sources are added as they come, and need not be kept.
///
/// For M > 1 symbols of a block that is still at hand, [`encode_many`] is much faster.
#[derive(Clone, Debug)]
pub struct Accumulator {
    index: u8,
    sources: usize,
    symbol: Vec<u8>,
}

impl Accumulator {
    /// Begins repair symbol `index`, without sources.
    pub fn new(index: u8) -> Self {
        Self { index, sources: 0, symbol: Vec::new() }
    }

    /// Begins repair symbol `index` of another block; keeps the memory.
    pub fn reset(&mut self, index: u8) {
        self.index = index;
        self.sources = 0;
        self.symbol.clear();
    }

    /// Adds the block's next source.
    ///
    /// # Errors
    /// [`EncodeError::SourceTooLong`], or [`EncodeError::BlockTooLarge`] if the code has no room
    /// for it; then nothing has changed.
    pub fn push(&mut self, source: &[u8]) -> Result<(), EncodeError> {
        if source.len() > MAX_SOURCE_LEN {
            return Err(EncodeError::SourceTooLong { source_index: self.sources, len: source.len() });
        }
        let sources = self.sources + 1;
        let row =
            row(self.index, sources).ok_or(EncodeError::BlockTooLarge { sources, index: self.index })?;
        symbol::accumulate(&mut self.symbol, source, row[self.sources]);
        self.sources = sources;
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
