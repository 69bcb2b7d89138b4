//! What a link has done.

use super::Offered;

/// Counters of one link since it was made.
///
/// Every packet is accounted for:
/// `offered + duplicated = lost + dropped_queue + dropped_outage + delivered` + the packets still
/// inside.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct LinkStats {
    /// Packets offered.
    pub offered: u64,
    /// Bytes offered.
    pub offered_bytes: u64,
    /// Packets that the loss model took.
    pub lost: u64,
    /// Packets that found the queue (or the whole link) full.
    pub dropped_queue: u64,
    /// Packets offered, or waiting, while the link was cut.
    pub dropped_outage: u64,
    /// Copies made by the link.
    pub duplicated: u64,
    /// Packets marked because the queue was above the ECN threshold.
    pub marked: u64,
    /// Packets delivered, copies included.
    pub delivered: u64,
    /// Bytes delivered, copies included.
    pub delivered_bytes: u64,
    /// Most packets that ever waited; the one being sent does not wait.
    pub max_queue_packets: u64,
    /// Most bytes that ever waited.
    pub max_queue_bytes: u64,
}

impl LinkStats {
    /// Packets that went in and will never come out: by the loss model, the queue or an outage.
    pub fn gone(&self) -> u64 {
        self.lost + self.dropped_queue + self.dropped_outage
    }

    pub(super) fn count(&mut self, fate: Offered) {
        match fate {
            Offered::Accepted => {}
            Offered::Lost => self.lost += 1,
            Offered::QueueFull => self.dropped_queue += 1,
            Offered::Outage => self.dropped_outage += 1,
        }
    }
}
