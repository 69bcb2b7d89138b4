//! CoFUSO: at FUSO's opportunities, parities over many un-ACKed packets first, copies of single
//! packets after.
//!
//! CoFUSO section 4.2 (Algorithm 2) and section 4.4.
//!
//! | paper                | here                                     | unit        |
//! |----------------------|------------------------------------------|-------------|
//! | M_max, K_max         | [`BlockParameters`]                      | packets     |
//! | N_uc                 | [`UnackedView::source_run`] above `highest_coded` | packets |
//! | L                    | `loss`                                   | probability |
//! | K, M                 | [`BlockSize`], [`Block`]                 | packets     |
//! | i, P_Index           | `index` of [`Step::Parity`]              | count from 0|
//! | S_SN, E_SN           | [`Block::first`], [`Block::last`]        | packet      |
//! | GENERATE_RECOVERY_PACKET | [`BlockProgress::step`]              |             |
//!
//! # Departures
//! - M is rounded up and lies between 1 and M_max (COF-A6); L = 0 gives the largest block and one
//!   parity (COF-A7).
//! - K + M is at most 256, the length of a Reed-Solomon code over GF(256) (COF-A3).
//! - N_uc is counted from the highest coded packet, and all state is per path (COF-A10).
//! - A block need not be contiguous in packet numbers: it is what the view calls a run (COF-A11).
//! - An unfinished block whose packets were all ACKed (or declared lost, which hands them to
//!   retransmission) is given up.
//!
//! # Invariants
//! `1 <= m <= m_max`, `k <= k_max`, `k + m <= 256`; the indices of a block are 0, 1, ..., m - 1; no
//! packet is in two blocks.

use crate::{PacketNumber, PathId, UnackedView};

/// Most source and repair symbols that one block may have together (COF-A3).
pub const MAX_BLOCK: u16 = 256;
/// What counts as rounding noise of products and quotients of small numbers.
const NOISE: f64 = 1e-9;

/// How K x L becomes a whole number of parities (COF-A6).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Rounding {
    /// Up.
    #[default]
    Ceil,
    /// To the nearest, halves up.
    Nearest,
}

/// The limits of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockParameters {
    /// M_max: most parities of a block, 1 to 255. Default 3 (CoFUSO section 6.2).
    pub m_max: u16,
    /// K_max: most packets of a block, 1 to 255. Default 255 (COF-A3).
    pub k_max: u16,
    /// How the count of parities is rounded. Default up.
    pub rounding: Rounding,
}

impl BlockParameters {
    /// CoFUSO's testbed (section 5.2): one XOR parity over at most 30 packets.
    pub const fn testbed() -> Self {
        Self { m_max: 1, k_max: 30, rounding: Rounding::Ceil }
    }

    /// CoFUSO's simulation (section 6.2): three parities over as many packets as the code allows.
    pub const fn simulation() -> Self {
        Self { m_max: 3, k_max: 255, rounding: Rounding::Ceil }
    }

    /// K and M for `uncoded` un-ACKed, uncoded packets on a path with loss estimate `loss`. Both
    /// are 0 without packets.
    pub fn block_size(&self, uncoded: u32, loss: f64) -> BlockSize {
        let (m_max, k_max) = (self.m_max.clamp(1, MAX_BLOCK - 1), self.k_max.clamp(1, MAX_BLOCK - 1));
        let available = k_max.min(u16::try_from(uncoded).unwrap_or(u16::MAX));
        if available == 0 {
            return BlockSize { k: 0, m: 0 };
        }
        let by_loss = if loss > 0.0 { f64::from(m_max) / loss + NOISE } else { f64::INFINITY };
        let k = (by_loss as u16).max(1).min(available); // the cast rounds down and saturates
        let parities = f64::from(k) * loss.max(0.0);
        let parities = match self.rounding {
            Rounding::Ceil => (parities - NOISE).ceil(),
            Rounding::Nearest => (parities + 0.5 + NOISE).floor(),
        };
        let m = (parities as u16).clamp(1, m_max);
        BlockSize { k: k.min(MAX_BLOCK - m), m }
    }
}

impl Default for BlockParameters {
    fn default() -> Self {
        Self::simulation()
    }
}

/// The size of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSize {
    /// K: source packets.
    pub k: u16,
    /// M: parities.
    pub m: u16,
}

/// A block of one path's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Lowest packet number.
    pub first: PacketNumber,
    /// Highest packet number.
    pub last: PacketNumber,
    /// K: source packets in `first..=last`.
    pub k: u16,
    /// M: parities that may be sent for them.
    pub m: u16,
}

/// What to send at an opportunity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Parity number `index` of `block`.
    Parity {
        /// The block that it protects.
        block: Block,
        /// Which parity, from 0 to `block.m - 1`.
        index: u16,
    },
    /// A copy of one packet, as FUSO does: everything un-ACKed is coded.
    Resend {
        /// The packet's number.
        packet: PacketNumber,
    },
    /// Nothing: every un-ACKed packet has been coded and resent.
    Nothing,
}

/// Where the coding of one path's packets stands.
///
/// [`step`](Self::step) only asks; [`on_sent`](Self::on_sent) tells that the answer was carried
/// out. So a step that could not be sent, because new data came first, is simply asked for again
/// later (section 4.4).
///
/// Whoever builds parities must be able to do so for the whole block until its last parity is sent,
/// although some of its packets are ACKed meanwhile; [`abandon`](Self::abandon) ends a block whose
/// packets are gone.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct BlockProgress {
    /// The block with parities left, and the next parity's index.
    open: Option<(Block, u16)>,
    highest_coded: Option<PacketNumber>,
}

impl BlockProgress {
    /// Nothing coded yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The block that has parities left to send.
    pub fn open_block(&self) -> Option<Block> {
        self.open.map(|(block, _)| block)
    }

    /// The highest packet number that any block has covered.
    pub fn highest_coded(&self) -> Option<PacketNumber> {
        self.highest_coded
    }

    /// What to send for `path`, the worst path, whose loss estimate is `loss`.
    pub fn step(
        &self,
        parameters: &BlockParameters,
        loss: f64,
        path: PathId,
        view: &dyn UnackedView,
    ) -> Step {
        if let Some((block, index)) = self.open
            && view.any_unacked(path, block.first, block.last)
        {
            return Step::Parity { block, index };
        }
        if let Some(block) = self.new_block(parameters, loss, path, view) {
            return Step::Parity { block, index: 0 };
        }
        view.oldest_resendable(path).map_or(Step::Nothing, |packet| Step::Resend { packet })
    }

    /// A block over the oldest un-ACKed packets that no block has covered.
    fn new_block(
        &self,
        parameters: &BlockParameters,
        loss: f64,
        path: PathId,
        view: &dyn UnackedView,
    ) -> Option<Block> {
        let run = |limit: u16| view.source_run(path, self.highest_coded, u32::from(limit));
        let uncoded = run(parameters.k_max.clamp(1, MAX_BLOCK - 1))?.packets;
        let size = parameters.block_size(uncoded, loss);
        let run = run(size.k)?;
        Some(Block { first: run.first, last: run.last, k: size.k, m: size.m })
    }

    /// `step` was carried out. Resent packets are the caller's to mark.
    pub fn on_sent(&mut self, step: &Step) {
        if let Step::Parity { block, index } = *step {
            self.highest_coded = self.highest_coded.max(Some(block.last));
            let next = index + 1;
            self.open = (next < block.m).then_some((block, next));
        }
    }

    /// Gives up the open block: its remaining parities cannot be built any more.
    pub fn abandon(&mut self) {
        self.open = None;
    }
}

#[cfg(test)]
mod tests;
