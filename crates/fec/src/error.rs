//! What can be wrong with a block.

use crate::{MAX_BLOCK, MAX_SOURCE_LEN, MAX_SOURCES, PREFIX, WINDOW_SPAN};

/// Why no repair symbol was made. Always the caller's mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A block has 1 to [`MAX_SOURCES`] sources.
    #[error("a block has 1 to {MAX_SOURCES} source symbols, not {sources}")]
    SourceCount {
        /// The sources given.
        sources: usize,
    },
    /// Reed-Solomon has no repair symbol of this index for so many sources.
    #[error(
        "repair symbol {index} does not exist for {sources} sources: they are {MAX_BLOCK} symbols at most"
    )]
    BlockTooLarge {
        /// The sources of the block.
        sources: usize,
        /// The repair symbol asked for.
        index: u8,
    },
    /// The source's length does not fit into 16 bits.
    #[error("source symbol {source_index} has {len} bytes, more than {MAX_SOURCE_LEN}")]
    SourceTooLong {
        /// Which source.
        source_index: usize,
        /// Its length in bytes.
        len: usize,
    },
    /// The buffer cannot hold the repair symbol.
    #[error("a repair symbol needs {needed} bytes, but the output has {given}")]
    OutputTooShort {
        /// Length of the repair symbol in bytes.
        needed: usize,
        /// Length of the output in bytes.
        given: usize,
    },
    /// Outputs made together have one length.
    #[error("an output has {given} bytes, the one before it {expected}")]
    UnequalOutputs {
        /// Length of the output before it in bytes.
        expected: usize,
        /// Length of the output in bytes.
        given: usize,
    },
    /// The numbers of a window ascend, and lie less than [`WINDOW_SPAN`] apart.
    #[error("the sources of a window ascend, within {WINDOW_SPAN} numbers")]
    WindowTooWide,
    /// There must be one output for each index.
    #[error("{outputs} outputs for {indices} repair symbols")]
    OutputCount {
        /// The indices given.
        indices: usize,
        /// The outputs given.
        outputs: usize,
    },
}

/// Why a block could not be decoded. All of these can be caused by a hostile peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A block has 1 to [`MAX_SOURCES`] sources.
    #[error("a block has 1 to {MAX_SOURCES} source symbols, not {sources}")]
    SourceCount {
        /// The sources of the block.
        sources: usize,
    },
    /// Reed-Solomon has no repair symbol of this index for so many sources.
    #[error(
        "repair symbol {index} does not exist for {sources} sources: they are {MAX_BLOCK} symbols at most"
    )]
    BlockTooLarge {
        /// The sources of the block.
        sources: usize,
        /// The repair symbol given.
        index: u8,
    },
    /// More sources are lost than there are repair symbols. Not a defect of the block: more may
    /// come.
    #[error("{lost} sources are lost, but there are {repairs} repair symbols")]
    TooFewSymbols {
        /// Sources lost.
        lost: usize,
        /// Repair symbols given.
        repairs: usize,
    },
    /// The same repair symbol was given twice.
    #[error("repair symbol {index} was given twice")]
    RepeatedRepair {
        /// Its index.
        index: u8,
    },
    /// The repair symbols of a block have one length.
    #[error("a repair symbol has {given} bytes, another of its block {expected}")]
    UnequalRepairs {
        /// Length of the other one in bytes.
        expected: usize,
        /// Length of this one in bytes.
        given: usize,
    },
    /// The numbers of a window ascend, and lie less than [`WINDOW_SPAN`] apart.
    #[error("the sources of a window ascend, within {WINDOW_SPAN} numbers")]
    WindowTooWide,
    /// A repair symbol has [`PREFIX`] to [`PREFIX`] + [`MAX_SOURCE_LEN`] bytes.
    #[error("a repair symbol has {PREFIX} to {} bytes, not {given}", PREFIX + MAX_SOURCE_LEN)]
    RepairLength {
        /// Its length in bytes.
        given: usize,
    },
    /// The block has no source of this index.
    #[error("the block has {sources} sources, and so none of index {source_index}")]
    SourceIndex {
        /// The index given.
        source_index: usize,
        /// The sources of the block.
        sources: usize,
    },
    /// The source is longer than the repair symbols of its block allow.
    #[error("source symbol {source_index} has {len} bytes, but the block's repair symbols allow {max}")]
    SourceTooLong {
        /// Which source; of a window, its number.
        source_index: usize,
        /// Its length in bytes.
        len: usize,
        /// The longest possible source of the block in bytes.
        max: usize,
    },
    /// A source that was said to be there is not.
    #[error("source symbol {source_index} is neither missing nor at hand")]
    SourceGone {
        /// Which source.
        source_index: usize,
    },
    /// What was rebuilt is no virtual symbol: a symbol was changed, or does not belong to the
    /// block.
    #[error("rebuilt source symbol {source_index} is corrupt")]
    Corrupt {
        /// The source that was to be rebuilt; of a window, its number.
        source_index: usize,
    },
}
