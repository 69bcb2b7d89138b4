//! What decoding has done and cost, of both codes together.

/// What the decoder has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) received: u64,
    pub(crate) used: u64,
    pub(crate) wasted: u64,
    pub(crate) rebuilt: u64,
    /// Symbols that nothing was done about, because more had come than the peer's bytes pay for.
    pub(crate) refused: u64,
    /// Bytes that were multiplied and added, and [`LOOKUP`](super::credit::LOOKUP) for each packet looked up: what
    /// decoding has cost, counted where it is done.
    pub(crate) work: u64,
    pub(crate) memory_peak: u64,
}
