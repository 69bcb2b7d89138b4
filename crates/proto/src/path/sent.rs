//! The un-ACKed packets of one packet number space, in number order.
//!
//! A record says what the packet carried ([`SentFrames`]), so that an ACK, a loss, a probe timeout
//! and a reinjection are all answered from it. What its plaintext is made of is kept beside it only
//! while a coding scheme may need it as a source symbol; see docs/decisions/0001-transport-core.md.

use std::collections::VecDeque;

use recovery::slp_arbiter::Marks;
use thin_vec::ThinVec;
use units::Instant;

use super::{received::Told, resent::Resent, source::Source};
use crate::{Ecn, PacketPurpose, crypto::CryptoRange, streams::SentStreamFrames, wire::PathId};

/// Numbers the networks that a path has run over. Packets of another epoch say nothing about the
/// present one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch(u32);

impl Epoch {
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Whether a code protects an un-ACKed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    None,
    /// It is, or was, a source symbol of a block.
    Coded,
    /// It is a source of this block of random linear combinations: its stream ranges belong to
    /// that.
    InBlock(u64),
}

/// Whether what an un-ACKed packet carried has arrived otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content {
    /// Not that we know.
    Awaited,
    /// A copy of its stream data has been acknowledged.
    CopyArrived,
    /// The peer said that it rebuilt the packet (RECOVERED): nothing is left to deliver.
    Rebuilt,
}

/// A frame outside of streams that must reach the peer, as a reference to the state it was made
/// from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlFrame {
    HandshakeDone,
    NewToken,
    NewConnectionId {
        path: PathId,
        sequence: u64,
        /// It has left before and was lost: the peer may know of it all the same.
        again: bool,
    },
    RetireConnectionId {
        path: PathId,
        sequence: u64,
    },
    PathAbandon {
        path: PathId,
    },
    PathStatus {
        path: PathId,
    },
    MaxPathId,
    PathsBlocked,
    PathCidsBlocked {
        path: PathId,
    },
    /// RECOVERED for what waits in the path's `unreported`.
    Recovered {
        path: PathId,
    },
}

/// Everything retransmittable that a packet carried. What few packets carry takes a pointer in the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct SentFrames {
    pub(crate) streams: SentStreamFrames,
    pub(crate) crypto: ThinVec<CryptoRange>,
    pub(crate) control: ThinVec<ControlFrame>,
    /// What the ACK in this packet told, and of which path.
    pub(crate) told: Option<(PathId, Told)>,
    /// The packet that this one is a recovery copy of.
    pub(crate) copy_of: Option<(PathId, u64)>,
    /// It had no room for all of that: the copy's path carries less.
    pub(crate) copies_part: bool,
    /// Whether the packet carried a DATAGRAM frame (never retransmitted, but worth coding).
    pub(crate) datagram: bool,
    /// Whether it carried datagrams that are followed until their deadlines.
    pub(crate) timed: bool,
}

impl SentFrames {
    /// Whether it carried what a block of random linear combinations protects: stream data or a
    /// datagram.
    pub(crate) fn is_worth_coding(&self) -> bool {
        !self.streams.ranges.is_empty() || self.datagram
    }

    /// Whether losing the packet would lose something for an application.
    pub(crate) fn carries_data(&self) -> bool {
        !self.streams.is_empty() || !self.crypto.is_empty() || self.datagram
    }

    /// What is special about the packet, as SLP sees it. Only new data can be (SLP-A7).
    pub(crate) fn marks(&self) -> Marks {
        Marks { handshake: false, push: self.streams.ends_write, fin: self.streams.ends_stream }
    }
}

/// The record of one packet in flight.
#[derive(Clone, Debug)]
pub(crate) struct SentPacket {
    pub(crate) sent_at: Instant,
    pub(crate) size: u16,
    /// The path's epoch when it was sent.
    pub(crate) epoch: Epoch,
    pub(crate) purpose: PacketPurpose,
    pub(crate) frames: SentFrames,
    /// What is kept of the plaintext.
    pub(crate) source: Source,
    pub(super) resent: Resent,
    pub(super) coding: Coding,
    pub(super) content: Content,
    /// The mark that it left with.
    pub(super) ecn: Option<Ecn>,
}

// A window's worth of them is held for each connection that sends.
const _: () = assert!(size_of::<SentPacket>() <= 200);

impl SentPacket {
    /// A full data packet that carries nothing in particular.
    #[cfg(test)]
    pub(crate) fn for_test(sent_at: Instant) -> Self {
        Self {
            sent_at,
            size: 1_200,
            epoch: Epoch::default(),
            purpose: PacketPurpose::Data,
            frames: SentFrames::default(),
            source: Source::Nothing,
            resent: Resent::No,
            coding: Coding::None,
            content: Content::Awaited,
            ecn: None,
        }
    }

    /// Whether it counts as in flight and is probed for.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.purpose.is_measured()
    }

    /// Whether it took the path's own addresses, those of this epoch.
    pub(super) fn went_over(&self, epoch: Epoch) -> bool {
        self.epoch == epoch && self.purpose != PacketPurpose::OffPath
    }

    /// Whether it left marked ECT(0).
    pub(super) fn is_marked(&self) -> bool {
        self.ecn.is_some()
    }

    /// It is a source symbol from now on.
    pub(crate) fn on_coded(&mut self) {
        self.coding = Coding::Coded;
    }

    /// It is a source of a block of random linear combinations from now on.
    pub(crate) fn join_block(&mut self, block: u64) {
        self.coding = Coding::InBlock(block);
    }

    /// Its block is given up: its stream ranges are its own again.
    pub(crate) fn leave_block(&mut self) {
        self.coding = Coding::Coded;
    }

    /// Whether it is, or was, a source symbol.
    pub(crate) fn is_coded(&self) -> bool {
        self.coding != Coding::None
    }

    /// The block of random linear combinations that it is a source of.
    pub(crate) fn block(&self) -> Option<u64> {
        match self.coding {
            Coding::InBlock(block) => Some(block),
            Coding::None | Coding::Coded => None,
        }
    }

    /// What it carried has arrived otherwise.
    pub(crate) fn on_arrived(&mut self, content: Content) {
        self.content = self.content.max(content);
    }

    /// Whether the peer has rebuilt it: nothing is left to deliver.
    pub(crate) fn is_rebuilt(&self) -> bool {
        self.content == Content::Rebuilt
    }

    /// Whether it may become a source symbol: its plaintext was kept and no block holds it yet
    /// (COF-A10).
    pub(crate) fn is_codable(&self) -> bool {
        !self.source.is_nothing() && !self.is_coded() && !self.is_resent() && !self.is_rebuilt()
    }

    /// Whether nothing in it has to reach the peer.
    fn is_bare(&self) -> bool {
        !self.frames.carries_data() && self.frames.control.is_empty()
    }

    /// Whether its loss may only mean that the path carries no more than `current` bytes.
    pub(super) fn probes_mtu(&self, current: u16) -> bool {
        let probes = matches!(self.purpose, PacketPurpose::Probe | PacketPurpose::MtuProbe);
        self.size > current && self.is_bare() && probes
    }

    /// Whether it only asked for an answer.
    pub(super) fn is_bare_probe(&self) -> bool {
        self.purpose == PacketPurpose::Probe && self.is_bare()
    }

    /// Whether something in it is left to deliver, and it is no recovery packet.
    pub(crate) fn waits_for_delivery(&self) -> bool {
        self.purpose == PacketPurpose::Data && !self.is_rebuilt() && self.frames.carries_data()
    }

    /// Whether nothing protects it: neither a copy nor a block.
    pub(crate) fn is_exposed(&self) -> bool {
        self.is_protectable() && !self.is_coded()
    }

    /// Whether FUSO may resend it: not a copy, not resent before, and something is left to deliver
    /// (FUSO-A3).
    pub(crate) fn is_protectable(&self) -> bool {
        self.waits_for_delivery() && !self.is_resent()
    }
}

/// Why a record is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removed {
    /// Its packet was acknowledged.
    Acked,
    /// Its packet was declared lost, or nobody will answer it.
    Lost,
}

/// Ring of packet numbers, and the records of those in flight: constant-time insert, look-up and
/// removal. A number without a record costs four bytes, so that whoever sends little but ACKs may
/// wait long for the answer to the one that asked for it.
#[derive(Debug, Default)]
pub(crate) struct SentPackets {
    /// Packet number of the ring's first slot.
    first: u64,
    ring: VecDeque<Slot>,
    /// The records, in places that slots name; the places that are free.
    records: Vec<Option<SentPacket>>,
    free: Vec<u32>,
}

/// What is known of a packet number: the place of its record; or, without one, whether its packet was
/// acknowledged, and how many of its neighbours have none either, as far as that is known: of the last
/// number those before it, of every other those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot(u32);

impl Slot {
    /// There is no record.
    const NONE: u32 = 1 << 31;
    /// Its packet was acknowledged.
    const OF_ACKED: u32 = 1 << 30;
    /// Its neighbours.
    const NEIGHBOURS: u32 = Self::OF_ACKED - 1;

    const ACKED: Self = Self(Self::NONE | Self::OF_ACKED);
    /// Lost, or never of interest.
    const EMPTY: Self = Self(Self::NONE);

    fn place(self) -> Option<usize> {
        (self.0 & Self::NONE == 0).then_some(self.0 as usize)
    }

    fn is_acked(self) -> bool {
        self.0 & Self::ACKED.0 == Self::ACKED.0
    }

    /// The neighbours of a number without a record.
    fn neighbours(self) -> usize {
        (self.0 & Self::NEIGHBOURS) as usize
    }

    fn set_neighbours(&mut self, count: usize) {
        self.0 = (self.0 & !Self::NEIGHBOURS) | count.min(Self::NEIGHBOURS as usize) as u32;
    }
}

impl SentPackets {
    /// The packet number that `insert` expects next; every smaller number has been used.
    pub(crate) fn next_number(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    /// Appends the next packet number's record; `None` for a packet that needs no record (ACK
    /// only).
    pub(super) fn insert(&mut self, number: u64, packet: Option<SentPacket>) {
        debug_assert_eq!(number, self.next_number());
        match packet {
            Some(packet) => {
                let slot = self.place(packet);
                self.end_run();
                self.ring.push_back(slot);
            }
            None if self.ring.is_empty() => self.first += 1,
            None => self.extend_run(),
        }
    }

    /// Appends a number without a record, and tells the first of those before it that have none either.
    fn extend_run(&mut self) {
        let end = self.ring.len();
        let begin = end - self.end_run().map_or(0, |before| before.min(end - 1) + 1);
        let mut last = Slot::EMPTY;
        last.set_neighbours(end - begin);
        self.ring.push_back(last);
        self.ring[begin].set_neighbours(end - begin);
    }

    /// The last number will not be the last: how many before it have no record; `None` if it has one itself.
    fn end_run(&mut self) -> Option<usize> {
        let last = self.ring.back_mut().filter(|last| last.place().is_none())?;
        let before = last.neighbours();
        last.set_neighbours(0);
        Some(before)
    }

    /// Finds a place for a record.
    fn place(&mut self, packet: SentPacket) -> Slot {
        if let Some(place) = self.free.pop() {
            self.records[place as usize] = Some(packet);
            return Slot(place);
        }
        self.records.push(Some(packet));
        Slot(self.records.len() as u32 - 1)
    }

    pub(crate) fn get(&self, number: u64) -> Option<&SentPacket> {
        self.records[self.ring.get(self.index(number)?)?.place()?].as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut SentPacket> {
        let place = self.ring.get(self.index(number)?)?.place()?;
        self.records[place].as_mut()
    }

    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    /// The first number with a record within `from..=last`. A run of numbers without one is walked once,
    /// and leapt over from then on, wherever in it the search begins: a peer may name the same thousands
    /// in every ACK, of which a packet holds a hundred.
    pub(super) fn next_recorded(&mut self, from: u64, last: u64) -> Option<u64> {
        let start = self.index(from.max(self.first))?;
        let end = self.index(last)?.saturating_add(1).min(self.ring.len());
        let mut at = start;
        while at < end && self.ring[at].place().is_none() {
            at += 1 + self.followers(at);
        }
        let mut passed = start;
        while passed < at.min(end) && passed + 1 < self.ring.len() {
            let slot = &mut self.ring[passed];
            let next = passed + 1 + slot.neighbours();
            slot.set_neighbours(at - passed - 1);
            passed = next;
        }
        (at < end).then(|| self.first + at as u64)
    }

    /// The first of the `most` oldest records that is `wanted`. What lies between them is walked once.
    pub(super) fn among_oldest(&mut self, most: usize, wanted: impl Fn(&SentPacket) -> bool) -> Option<u64> {
        let mut from = self.first;
        for _ in 0..most {
            let number = self.next_recorded(from, self.next_number())?;
            if self.get(number).is_some_and(&wanted) {
                return Some(number);
            }
            from = number + 1;
        }
        None
    }

    /// How many slots behind this one, which has no record, are known to have none either.
    fn followers(&self, at: usize) -> usize {
        if at + 1 < self.ring.len() { self.ring[at].neighbours() } else { 0 }
    }

    /// Takes a record out.
    pub(super) fn remove(&mut self, number: u64, why: Removed) -> Option<SentPacket> {
        self.vacate(number, why)?.take()
    }

    /// Gives up a record's number and place, from which the caller takes it: it is large, and whoever hands
    /// it on copies it.
    pub(super) fn vacate(&mut self, number: u64, why: Removed) -> Option<&mut Option<SentPacket>> {
        let index = self.index(number)?;
        let slot = self.ring.get_mut(index)?;
        let place = slot.place()?;
        *slot = match why {
            Removed::Acked => Slot::ACKED,
            Removed::Lost => Slot::EMPTY,
        };
        self.free.push(place as u32);
        while self.ring.front().is_some_and(|slot| slot.place().is_none()) {
            self.ring.pop_front();
            self.first += 1;
        }
        self.records.get_mut(place)
    }

    /// Gives memory back if nothing is on record.
    pub(super) fn release(&mut self) {
        if self.ring.is_empty() {
            *self = Self { first: self.first, ..Self::default() };
        }
    }

    /// Whether a packet between two numbers was acknowledged, as far as the records reach back.
    pub(super) fn any_acked_between(&self, lower: u64, upper: u64) -> bool {
        let Some(start) = self.index(lower + 1) else { return true };
        let len = usize::try_from(upper.saturating_sub(lower + 1)).unwrap_or(usize::MAX);
        self.ring.iter().skip(start).take(len).any(|slot| slot.is_acked())
    }

    /// How many records there are.
    pub(crate) fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    /// Records in ascending number order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &SentPacket)> {
        self.iter_from(0)
    }

    /// Records whose number is at least `from`, ascending.
    pub(crate) fn iter_from(&self, from: u64) -> impl Iterator<Item = (u64, &SentPacket)> {
        let mut next = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX);
        core::iter::from_fn(move || {
            loop {
                let at = next;
                let place = self.ring.get(at)?.place();
                next += 1 + if place.is_none() { self.followers(at) } else { 0 };
                let packet = place.and_then(|place| self.records[place].as_ref());
                if let Some(packet) = packet {
                    return Some((self.first + at as u64, packet));
                }
            }
        })
    }

    /// Every record, ascending; for a space that is given up.
    pub(crate) fn into_packets(mut self) -> impl Iterator<Item = SentPacket> {
        let places = self.ring.into_iter().filter_map(Slot::place);
        places.filter_map(move |place| self.records[place].take())
    }

    /// Number of the oldest record.
    pub(crate) fn oldest(&self) -> Option<u64> {
        (!self.ring.is_empty()).then_some(self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet() -> SentPacket {
        SentPacket::for_test(Instant::ORIGIN)
    }

    #[test]
    fn numbers_stay_right_when_the_front_is_removed() {
        let mut sent = SentPackets::default();
        sent.insert(0, None);
        for n in 1..6 {
            sent.insert(n, (n != 3).then(packet));
        }
        assert_eq!(sent.next_number(), 6);
        assert!(sent.get(0).is_none() && sent.get(3).is_none() && sent.get(6).is_none());
        assert!(sent.remove(2, Removed::Acked).is_some() && sent.remove(2, Removed::Acked).is_none());
        assert!(sent.any_acked_between(1, 4) && !sent.any_acked_between(2, 5));
        assert_eq!(sent.oldest(), Some(1));
        assert!(sent.remove(1, Removed::Lost).is_some());
        assert_eq!(sent.oldest(), Some(4), "empty slots at the front are dropped");
        assert_eq!(sent.iter().map(|(n, _)| n).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(sent.iter_from(5).map(|(n, _)| n).collect::<Vec<_>>(), [5]);
        assert_eq!(sent.next_number(), 6);
    }

    /// Every fifth number has a record, and there are two long runs without; what is removed meanwhile
    /// makes further ones.
    #[test]
    fn records_are_found_as_by_looking_at_each_number() {
        let mut sent = SentPackets::default();
        for n in 0..400 {
            let is_bare = (20..150).contains(&n) || (200..390).contains(&n);
            sent.insert(n, (n % 5 == 0 && !is_bare).then(packet));
        }
        let mut seed = 1_u64;
        for round in 0..2_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (from, last) = (seed >> 32 & 511, seed >> 48 & 511);
            let one_by_one = (from..=last).find(|n| sent.get(*n).is_some());
            assert_eq!(sent.next_recorded(from, last), one_by_one, "{from} to {last}");
            let all: Vec<u64> = (from..sent.next_number()).filter(|n| sent.get(*n).is_some()).collect();
            assert_eq!(sent.iter_from(from).map(|(n, _)| n).collect::<Vec<_>>(), all, "from {from}");
            let acked = (from..from + 9)
                .any(|n| sent.index(n).and_then(|at| sent.ring.get(at)).is_some_and(|slot| slot.is_acked()));
            if from > sent.first {
                assert_eq!(sent.any_acked_between(from - 1, from + 9), acked);
            }
            if round % 40 == 39 {
                let why = if round % 80 == 79 { Removed::Acked } else { Removed::Lost };
                one_by_one.into_iter().for_each(|n| _ = sent.remove(n, why));
            }
            if round % 50 == 49 {
                // The last ones are acknowledged before more follow, or not.
                let last = sent.next_number();
                sent.insert(last, (round % 3 > 0).then(packet));
                if round % 4 == 1 {
                    sent.remove(last, Removed::Acked);
                }
            }
        }
    }

    /// Who has us send ACKs by the ten thousand and acknowledges them again and again, in frames of which
    /// a packet holds a hundred, each a little different, pays for one look at each number.
    #[test]
    fn numbers_without_a_record_are_looked_at_once() {
        const BARE: u64 = 30_000;
        let mut sent = SentPackets::default();
        sent.insert(0, Some(packet()));
        (1..=BARE).for_each(|n| sent.insert(n, None));
        assert_eq!(sent.followers(1) as u64, BARE - 1, "who comes from the record leaps over all");
        assert_eq!(sent.next_recorded(2, BARE), None);
        for from in 1..=BARE {
            assert_eq!(sent.followers(from as usize) as u64, BARE - from, "from wherever");
        }
        sent.insert(BARE + 1, None);
        sent.insert(BARE + 2, Some(packet()));
        for from in [1, BARE / 2, BARE] {
            assert_eq!(sent.next_recorded(from, u64::MAX), Some(BARE + 2));
            assert_eq!(sent.followers(from as usize) as u64, BARE + 1 - from);
        }
    }

    /// The same of who acknowledges number by number, and leaves out the oldest.
    #[test]
    fn what_follows_the_oldest_record_is_looked_at_once() {
        let mut sent = SentPackets::default();
        (0..=1_001).for_each(|n| sent.insert(n, Some(SentPacket { size: (n / 1_000) as u16, ..packet() })));
        (1..=1_000).for_each(|n| _ = sent.remove(n, Removed::Acked));
        assert_eq!(sent.among_oldest(1, |p| p.size > 0), None);
        assert_eq!((sent.among_oldest(2, |p| p.size > 0), sent.followers(1)), (Some(1_001), 999));
        assert_eq!(sent.among_oldest(3, |p| p.size > 1), None, "there are but two");
    }

    #[test]
    fn a_run_of_unrecorded_packets_takes_no_memory() {
        let mut sent = SentPackets::default();
        for n in 0..1_000 {
            sent.insert(n, None);
        }
        assert_eq!((sent.ring.len(), sent.next_number()), (0, 1_000));
    }

    #[test]
    fn places_of_records_are_used_again() {
        let mut sent = SentPackets::default();
        for n in 0..10_000 {
            sent.insert(n, (n % 100 == 0).then(packet));
            if n > 200 && n % 100 == 50 {
                assert!(sent.remove(n - 250, Removed::Acked).is_some());
            }
        }
        assert!(sent.records.len() <= 4 && sent.len() <= 3, "{} places", sent.records.len());
    }
}
