//! `auto`: how much repair a block needs, in what form, and how much of it may be spent.
//!
//! Ours. The papers send K x L repair symbols (CoFUSO) or as many as replace the mean loss (CTCP);
//! neither asks how probable it is that this is not enough. Here the probability that the block
//! stays incomplete is the measure:
//!
//! ```text
//! P(incomplete) = sum over j of P(j repairs arrive) * P(more than j sources are missing)
//! ```
//!
//! with losses among the sources after the Gilbert model of their path
//! ([`LossHistory`](crate::loss_history::LossHistory)), and independent losses among the repair
//! symbols, which leave spread out or on other paths. What is in flight already counts as a repair
//! that has not been sent again.
//!
//! # When the same bytes again are better than a symbol
//! - If everything that is un-ACKed fits into one packet ([`Protection::Again`]; a single packet
//!   always does): as long as a symbol, needs no decoder and no kept payloads, and stands in
//!   for *all* of it.
//! - If the peer cannot decode ([`Protection::Copies`]).
//!
//! Otherwise a symbol stands in for any packet of the block, a copy for one: symbols are never
//! worse.
//!
//! # Invariants
//! More repair never makes a block less probable to complete; more is asked for if loss, burst
//! length or the size of the block is larger or if less is in flight; never more than is
//! affordable.

use crate::gilbert::Gilbert;

/// Most repair symbols of a block, those in flight included, that are looked at.
pub const MAX_REPAIRS: u16 = 64;

/// What of a block is not known to have arrived.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Exposure {
    /// Source packets in flight: neither acknowledged nor declared lost.
    pub in_flight: u16,
    /// Source packets declared lost, and not sent again.
    pub lost: u16,
    /// How the path of the sources loses.
    pub loss: Gilbert,
    /// Repair symbols of the block in flight, or acknowledged.
    pub repairs: u16,
    /// The loss rate of repair symbols, those in flight and those to come.
    pub repair_loss: f64,
}

impl Exposure {
    /// The probability that the block stays incomplete if `more` repair symbols are sent.
    pub fn incomplete(&self, more: u16) -> f64 {
        let repairs = self.repairs.saturating_add(more).min(MAX_REPAIRS);
        let tails = self.loss.tails(self.in_flight, repairs as u8);
        let arrives = 1.0 - self.repair_loss.clamp(0.0, 1.0);
        let mut arrived = vec![0.0; usize::from(repairs) + 1];
        arrived[0] = 1.0;
        for sent in 1..=usize::from(repairs) {
            for n in (0..=sent).rev() {
                let fewer = n.checked_sub(1).map_or(0.0, |n| arrived[n]);
                arrived[n] = arrived[n] * (1.0 - arrives) + fewer * arrives;
            }
        }
        let lost = usize::from(self.lost);
        let missing = |j: usize| j.checked_sub(lost).map_or(1.0, |spare| tails[spare]);
        arrived.iter().enumerate().map(|(j, p)| p * missing(j)).sum::<f64>().min(1.0)
    }

    /// The fewest further repair symbols, up to `limit`, with which the block stays incomplete with
    /// probability `target` at most. `None` if `limit` is not enough.
    pub fn repairs_needed(&self, target: f64, limit: u16) -> Option<u16> {
        let limit = limit.min(MAX_REPAIRS.saturating_sub(self.repairs));
        (0..=limit).find(|&more| self.incomplete(more) <= target)
    }
}

/// What to do for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// Nothing: it is probable enough to complete as it is, or nothing is affordable.
    Nothing,
    /// All that is un-ACKed, in one packet, this many times.
    Again(u16),
    /// This many single copies, of the oldest un-ACKed packets.
    Copies(u16),
    /// This many further repair symbols.
    Symbols(u16),
}

/// What protection has to do with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Means {
    /// Whether the peer decodes blocks.
    pub decodes: bool,
    /// Bytes of all un-ACKed packets of the block together.
    pub bytes: u64,
    /// Bytes that fit into one packet.
    pub packet: u64,
    /// How many packets window and budget allow now.
    pub affordable: u16,
}

/// The protection with which the block stays incomplete with probability `target` at most, or the
/// best that is affordable.
pub fn plan(exposure: &Exposure, means: &Means, target: f64) -> Protection {
    let unacked = exposure.in_flight.saturating_add(exposure.lost);
    if unacked == 0 || means.affordable == 0 || exposure.incomplete(0) <= target {
        return Protection::Nothing;
    }
    if unacked == 1 || means.bytes <= means.packet {
        return again(exposure, means.affordable, target);
    }
    if !means.decodes {
        // A copy costs a packet and saves one: each of them has to be worth it.
        if exposure.incomplete(0) <= target * f64::from(unacked) {
            return Protection::Nothing;
        }
        return Protection::Copies(unacked.min(means.affordable));
    }
    let enough = exposure.repairs_needed(target, means.affordable);
    Protection::Symbols(enough.unwrap_or(means.affordable))
}

/// Everything in one packet: incomplete only if something of the sources and every one of these is
/// lost.
fn again(exposure: &Exposure, affordable: u16, target: f64) -> Protection {
    let mut incomplete = exposure.incomplete(0);
    let mut times = 0;
    while incomplete > target && times < affordable && exposure.repair_loss < 1.0 {
        incomplete *= exposure.repair_loss.max(0.0);
        times += 1;
    }
    if times == 0 { Protection::Nothing } else { Protection::Again(times) }
}

#[cfg(test)]
mod tests;
