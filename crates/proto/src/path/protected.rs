//! What recovery has done about a path's un-ACKed packets, and what the peer has rebuilt of them.

use std::collections::BTreeSet;

use super::{
    Path,
    sent::{Content, SentPacket},
};
use crate::spare_room::SpareRoom as _;

/// Records that are looked at for packets that were copied in vain. There are few unless much was moved to other
/// paths, and whoever sends nothing passes here with every packet.
const MAX_COPIED_RECORDS: usize = 64;

/// How far recovery has come in a path's packet numbers, and which of its packets may still turn
/// out to have been mended.
#[derive(Debug, Default)]
pub(super) struct Protection {
    /// Packets below this number are not protectable any more.
    protected_below: u64,
    /// No un-ACKed packet below this number can become a source symbol any more.
    coded_below: u64,
    /// Below this packet number everything has been copied, coded or delivered.
    exposed_below: u64,
    lost: LostProtected,
}

/// Numbers of protected packets that were declared lost lately: news of their copies or repair may
/// still come.
#[derive(Debug, Default)]
struct LostProtected(BTreeSet<u64>);

impl LostProtected {
    const LIMIT: usize = 1_024;

    fn push(&mut self, number: u64) {
        if self.0.len() == Self::LIMIT {
            self.0.pop_first();
        }
        self.0.insert(number);
    }

    /// Removes `number`; false if it is not there.
    fn take(&mut self, number: u64) -> bool {
        self.0.remove(&number)
    }
}

impl Protection {
    /// Nothing has happened for long.
    pub(super) fn rest(&mut self) {
        self.lost.0.give_back();
    }
}

/// Numbers of rebuilt packets that wait for a RECOVERED frame, ascending.
#[derive(Debug, Default)]
pub(super) struct Unreported(Vec<u64>);

impl Unreported {
    /// More are not reported: the peer then resends their data in vain, once.
    const LIMIT: usize = 1_024;
    /// Most packets of one frame. Scattered as they may be, it fits a packet of the smallest size
    /// beside a long ACK.
    const FRAME: usize = 64;

    /// Nothing has happened for long.
    pub(super) fn rest(&mut self) {
        self.0.shrink_to_fit();
    }

    pub(super) fn push(&mut self, number: u64) {
        if let Err(at) = self.0.binary_search(&number)
            && self.0.len() < Self::LIMIT
        {
            self.0.insert(at, number);
        }
    }

    /// What the next frame names.
    pub(super) fn next(&self) -> impl Iterator<Item = u64> + Clone + '_ {
        self.0.iter().copied().take(Self::FRAME)
    }

    /// The frame has been written; true if there is more for another.
    pub(super) fn on_reported(&mut self) -> bool {
        self.0.drain(..self.0.len().min(Self::FRAME));
        !self.0.is_empty()
    }
}

impl Path {
    /// Moves the marks below which nothing is left to protect: what cannot be resent or coded never
    /// can again, so every record is passed once, and not once for every packet of recovery.
    pub(crate) fn move_marks(&mut self) {
        let sent = &self.space.sent;
        let end = sent.next_number();
        self.protection.protected_below = self.oldest_protectable().unwrap_or(end);
        let mut codable = sent.iter_from(self.protection.coded_below).filter(|(_, p)| p.is_codable());
        let coded_below = codable.next().map_or(end, |(number, _)| number);
        let mut exposed = sent.iter_from(self.protection.exposed_below).filter(|(_, p)| p.is_exposed());
        let exposed_below = exposed.next().map_or(end, |(number, _)| number);
        (self.protection.coded_below, self.protection.exposed_below) = (coded_below, exposed_below);
    }

    /// The oldest un-ACKed packet that recovery may resend.
    pub(crate) fn oldest_protectable(&self) -> Option<u64> {
        let mut records = self.space.sent.iter_from(self.protection.protected_below);
        records.find(|(_, p)| p.is_protectable()).map(|(number, _)| number)
    }

    /// The oldest un-ACKed packet whose data nothing but this path may bring. Those that were copied are sought
    /// among the oldest of all.
    pub(crate) fn oldest_stuck(&mut self) -> Option<u64> {
        let stuck = self.space.sent.among_oldest(MAX_COPIED_RECORDS, SentPacket::is_stuck);
        stuck.into_iter().chain(self.oldest_protectable()).min()
    }

    /// Whether there may be such a packet, since the marks were moved.
    pub(super) fn is_protectable(&self) -> bool {
        self.protection.protected_below < self.space.sent.next_number()
    }

    /// Below this packet number no record can become a source symbol any more.
    pub(crate) fn coded_below(&self) -> u64 {
        self.protection.coded_below
    }

    /// Below this packet number every record is protected, or needs no protection.
    pub(crate) fn exposed_below(&self) -> u64 {
        self.protection.exposed_below
    }

    /// A packet of the path was lost. True if its data had already arrived otherwise; if recovery
    /// has protected it, the answer may still show that it was in time.
    pub(crate) fn note_lost_protected(&mut self, number: u64, packet: &SentPacket) -> bool {
        let mended = packet.content != Content::Awaited;
        if mended {
            self.recovery.counters.packets_mended += 1;
        } else if packet.is_coded() || packet.is_resent() {
            self.protection.lost.push(number);
        }
        mended
    }

    /// The data of a packet that is not on record has arrived. True if it was a loss that this
    /// mends.
    pub(crate) fn note_mended(&mut self, number: u64) -> bool {
        let mended = self.protection.lost.take(number);
        self.recovery.counters.packets_mended += u64::from(mended);
        mended
    }

    /// A packet of the peer was rebuilt: the next RECOVERED names it. False if it has arrived, or
    /// been rebuilt before.
    pub(crate) fn on_rebuilt(&mut self, number: u64) -> bool {
        if self.space.received.is_settled(number) {
            return false;
        }
        self.space.received.on_rebuilt(number);
        self.report_rebuilt(number);
        true
    }

    /// The next RECOVERED names a packet that was rebuilt.
    pub(crate) fn report_rebuilt(&mut self, number: u64) {
        self.unreported.push(number);
    }

    /// What the next RECOVERED names.
    pub(crate) fn next_report(&self) -> impl Iterator<Item = u64> + Clone + '_ {
        self.unreported.next()
    }

    /// The frame has been written; true if there is more for another.
    pub(crate) fn on_reported(&mut self) -> bool {
        self.unreported.on_reported()
    }
}
