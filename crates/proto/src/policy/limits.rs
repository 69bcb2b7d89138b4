//! Limits that schemes keep to.

/// Limits of the repair extension (docs/wire-format.md).
#[derive(Clone, Debug)]
pub struct RepairConfig {
    /// Whether to tell the peer that we decode repair symbols. Default true.
    pub accept: bool,
    /// M_max: most repair symbols of one block, 1 to 32 (CoFUSO section 4.2). Default 3.
    pub m_max: u8,
    /// K_max: most source symbols of one block, 1 to 255 (COF-A3). Default 128.
    pub k_max: u8,
    /// Source symbols of a block of random linear combinations, 1 to 255, and no more than `k_max`
    /// (CTCP section 4.4). Default 32.
    pub block_size: u8,
    /// Most such blocks under way at once, at least 1 (CTCP's numblks, CTCP-A14). Default 100.
    pub max_blocks: u16,
    /// Bytes of received payloads and repair symbols kept for decoding, per connection. Default 4
    /// MiB.
    pub decoder_memory: u64,
    /// Bytes of sent payloads kept for coding, per connection, where the streams do not hold them
    /// anyway; packets beyond it are not protected. Default 4 MiB.
    pub source_memory: u64,
}

impl Default for RepairConfig {
    fn default() -> Self {
        Self {
            accept: true,
            m_max: 3,
            k_max: 128,
            block_size: 32,
            max_blocks: 100,
            decoder_memory: 4 << 20,
            source_memory: 4 << 20,
        }
    }
}
