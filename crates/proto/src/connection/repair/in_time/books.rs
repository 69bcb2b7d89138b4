//! What is known of packets with deadlines: which wait for news, which want repair, and what became
//! of the others.

use core::ops::{Deref, DerefMut};
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use smallvec::SmallVec;
use units::{Duration, Instant};

use super::{super::symbols::EncodedBlock, stream::Stream};
use crate::{by_path::ByPath, spare_room::SpareRoom as _, stats::TimedStats, wire::PathId};

/// Packets that are followed at once; what is sent beyond them is not protected.
pub(super) const MAX_PACKETS: usize = 2_048;
/// Rounds of repair under way at once.
const MAX_ROUNDS: usize = 128;

/// A packet by path and number.
pub(crate) type Name = (PathId, u64);

/// A packet with datagrams that have deadlines.
#[derive(Debug)]
pub(crate) struct Guarded {
    pub(super) sent_at: Instant,
    /// The earliest of its datagrams.
    pub(super) deadline: Instant,
    /// Of its datagrams, which all have the same.
    pub(super) priority: i32,
    /// The probability with which it may miss its deadline.
    pub(super) may_miss: f64,
    pub(super) datagrams: SmallVec<[Bytes; 1]>,
    /// Its plaintext, if the peer decodes.
    pub(super) payload: Vec<u8>,
    /// When silence means that it is lost.
    pub(super) silent_at: Instant,
    pub(super) fate: Fate,
    /// Repair symbols that were made of blocks with it: the next ones of the same block are others.
    pub(super) symbols: u16,
    /// Its place in the agenda.
    attend_at: Option<Instant>,
    /// When nothing more is expected of it.
    ends_at: Instant,
}

impl Guarded {
    /// Nothing is done about it until [`Books::attend`] says when.
    pub(super) fn new(
        sent_at: Instant,
        (deadline, priority, may_miss): (Instant, i32, f64),
        datagrams: SmallVec<[Bytes; 1]>,
        payload: Vec<u8>,
        answer: Duration,
    ) -> Self {
        let (silent_at, ends_at) = (sent_at + answer, deadline.max(sent_at) + answer);
        let (fate, attend_at) = (Fate::Open, None);
        Self {
            sent_at,
            deadline,
            priority,
            may_miss,
            datagrams,
            payload,
            silent_at,
            fate,
            symbols: 0,
            attend_at,
            ends_at,
        }
    }

    fn count(&self) -> u64 {
        self.datagrams.len() as u64
    }
}

/// What is known of a packet that has not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing.
    Open,
    /// It should have been heard of.
    Silent,
    /// It was declared lost.
    Lost,
}

/// What a round sends.
#[derive(Debug)]
pub(super) enum Means {
    /// Repair symbols over its members.
    Symbols(EncodedBlock),
    /// The members' datagrams again.
    Copies,
}

/// Repair that has been decided on for packets of one path.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) of: PathId,
    pub(super) members: Vec<u64>,
    pub(super) means: Means,
    pub(super) on: PathId,
    /// Which packet of the round is next.
    pub(super) next: u16,
    /// How many there are.
    pub(super) count: u16,
    pub(super) interval: Duration,
    pub(super) deadline: Instant,
    /// When the next packet of it is due; `None` once that has come.
    pub(super) due: Option<Instant>,
}

/// All of it for one connection.
#[derive(Debug, Default)]
pub(crate) struct Books {
    packets: BTreeMap<Name, Guarded>,
    agenda: BTreeSet<(Instant, Name)>,
    ends: BTreeSet<(Instant, Name)>,
    /// Packets to be decided about at the next opportunity.
    pub(super) ready: BTreeSet<Name>,
    pub(super) rounds: Vec<Round>,
    /// Of each path, the packets that a streaming code is for.
    pub(super) streams: ByPath<Stream>,
    pub(super) stats: TimedStats,
}

/// [`Books`] that are there once a datagram had a deadline: most connections send none.
#[derive(Debug, Default)]
pub(crate) struct BooksIfAny(Option<Box<Books>>);

impl Deref for BooksIfAny {
    type Target = Books;

    fn deref(&self) -> &Books {
        static NONE: Books = Books {
            packets: BTreeMap::new(),
            agenda: BTreeSet::new(),
            ends: BTreeSet::new(),
            ready: BTreeSet::new(),
            rounds: Vec::new(),
            streams: ByPath::new(),
            stats: TimedStats::NONE,
        };
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for BooksIfAny {
    fn deref_mut(&mut self) -> &mut Books {
        self.0.get_or_insert_default()
    }
}

impl BooksIfAny {
    /// Nothing has happened for long.
    pub(in crate::connection::repair) fn rest(&mut self) {
        self.0.iter_mut().for_each(|books| books.rest());
    }

    /// A path is closed.
    pub(in crate::connection::repair) fn on_path_closed(&mut self, path: PathId) {
        self.0.iter_mut().for_each(|books| books.on_path_closed(path));
    }

    /// A path is gone.
    pub(in crate::connection::repair) fn forget_path(&mut self, path: PathId) {
        self.0.iter_mut().for_each(|books| books.forget_path(path));
    }
}

impl Books {
    /// What became of all so far.
    pub(in crate::connection::repair) fn stats(&self) -> TimedStats {
        self.stats
    }

    /// Nothing has happened for long.
    fn rest(&mut self) {
        self.packets.give_back();
        self.agenda.give_back();
        self.ends.give_back();
        self.ready.give_back();
        self.rounds.shrink_to_fit();
    }

    /// Whether nothing is followed.
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Whether another packet may be followed.
    pub(super) fn has_room(&self) -> bool {
        self.packets.len() < MAX_PACKETS
    }

    pub(super) fn get(&self, name: Name) -> Option<&Guarded> {
        self.packets.get(&name)
    }

    /// A packet has left, and is looked after at `attend`.
    pub(super) fn insert(&mut self, name: Name, packet: Guarded, attend: Option<Instant>) {
        self.stats.sent += packet.count();
        self.ends.insert((packet.ends_at, name));
        self.packets.insert(name, packet);
        self.attend(name, attend);
    }

    /// The packet is looked after at this moment, and no longer at another.
    pub(super) fn attend(&mut self, name: Name, at: Option<Instant>) {
        let Some(packet) = self.packets.get_mut(&name) else { return };
        if let Some(before) = core::mem::replace(&mut packet.attend_at, at) {
            self.agenda.remove(&(before, name));
        }
        self.agenda.extend(at.map(|at| (at, name)));
    }

    /// The packet may be lost and nothing is done about that yet: it is looked after once silence says that it
    /// is, or before if it is declared lost.
    pub(super) fn wait_and_see(&mut self, now: Instant, name: Name) {
        let waits = |packet: &&Guarded| packet.fate == Fate::Open && packet.silent_at > now;
        if let Some(silent_at) = self.packets.get(&name).filter(waits).map(|packet| packet.silent_at) {
            self.attend(name, Some(silent_at));
        }
    }

    /// From where on a block of these packets has symbols that the peer has not got, and that so many more are
    /// made now.
    pub(super) fn take_symbols(&mut self, names: &[Name], more: u16, limit: u16) -> u16 {
        let made = names.iter().filter_map(|name| self.packets.get(name)).map(|packet| packet.symbols).max();
        let first = made.filter(|made| made + more <= limit).unwrap_or(0);
        for name in names {
            self.packets.entry(*name).and_modify(|packet| packet.symbols = first + more);
        }
        first
    }

    /// The packet has arrived at about `arrived`, by itself or, if `mended`, by repair. Returns its
    /// buffer.
    pub(super) fn on_arrived(&mut self, name: Name, arrived: Instant, mended: bool) -> Option<Vec<u8>> {
        let packet = self.take(name)?;
        let counter = match (arrived <= packet.deadline, mended) {
            (true, false) => &mut self.stats.in_time,
            (true, true) => &mut self.stats.mended,
            (false, _) => &mut self.stats.late,
        };
        *counter += packet.count();
        Some(packet.payload)
    }

    /// The packet was declared lost; it is decided about at the next opportunity.
    pub(in crate::connection::repair) fn on_lost(&mut self, name: Name) {
        let Some(packet) = self.packets.get_mut(&name) else { return };
        let before = core::mem::replace(&mut packet.fate, Fate::Lost);
        // Where silence has said so already, repair is under way.
        if before == Fate::Open && packet.attend_at.is_some() {
            self.attend(name, None);
            self.ready.insert(name);
        }
    }

    /// The path is closed, and what it has not delivered will not come: that is decided about at the
    /// next opportunity.
    fn on_path_closed(&mut self, path: PathId) {
        self.streams.remove(&path);
        let of_path = self.packets.range((path, 0)..=(path, u64::MAX));
        let open: Vec<Name> =
            of_path.filter(|(_, packet)| packet.fate == Fate::Open).map(|(name, _)| *name).collect();
        for name in open {
            self.packets.entry(name).and_modify(|packet| packet.fate = Fate::Lost);
            self.attend(name, None);
            self.ready.insert(name);
        }
    }

    /// When anything is due.
    pub(in crate::connection::repair) fn deadline(&self) -> Option<Instant> {
        let packets = self.agenda.first().into_iter().chain(self.ends.first()).map(|(at, _)| *at);
        let rounds = self.rounds.iter().filter_map(|round| round.due);
        packets.chain(rounds).chain(self.streams.values().filter_map(Stream::wakes_at)).min()
    }

    /// A stream, without what is too late for repair or has arrived.
    pub(super) fn pruned_stream(&mut self, now: Instant, of: PathId) -> Option<&mut Stream> {
        let packets = &self.packets;
        let stream = self.streams.get_mut(&of)?;
        stream.prune(now, |number| packets.contains_key(&(of, number)));
        Some(stream)
    }

    /// Whether anything is to be decided or sent.
    pub(super) fn has_work(&self) -> bool {
        !self.ready.is_empty()
            || self.rounds.iter().any(|round| round.due.is_none())
            || self.streams.values().any(Stream::has_work)
    }

    /// The path is gone.
    pub(in crate::connection::repair) fn forget_path(&mut self, path: PathId) {
        self.streams.remove(&path);
    }

    /// Takes note of all that is due. Returns the buffers of packets that nothing is expected of
    /// any more.
    pub(in crate::connection::repair) fn on_deadline(&mut self, now: Instant) -> Vec<Vec<u8>> {
        for round in &mut self.rounds {
            round.due = round.due.filter(|due| *due > now);
        }
        self.streams.values_mut().for_each(|stream| stream.on_deadline(now));
        while let Some(&(_, name)) = self.agenda.first().filter(|(at, _)| *at <= now) {
            self.attend(name, None);
            let Some(packet) = self.packets.get_mut(&name) else { continue };
            if packet.fate == Fate::Open && packet.silent_at <= now {
                packet.fate = Fate::Silent;
            }
            self.ready.insert(name);
        }
        let mut buffers = Vec::new();
        while let Some(&(_, name)) = self.ends.first().filter(|(at, _)| *at <= now) {
            let Some(packet) = self.take(name) else { break };
            self.stats.late += packet.count();
            buffers.push(packet.payload);
        }
        buffers
    }

    /// Adds a round; the oldest gives way if there are too many.
    pub(super) fn begin(&mut self, round: Round) {
        if self.rounds.len() >= MAX_ROUNDS {
            self.rounds.remove(0);
        }
        self.rounds.push(round);
    }

    /// Ends the rounds that nobody needs any more: all their packets have arrived, or it is too
    /// late.
    pub(super) fn end_useless(&mut self, now: Instant) {
        let packets = &self.packets;
        self.rounds.retain(|round| {
            let waits = |number: &u64| packets.contains_key(&(round.of, *number));
            round.next < round.count && round.deadline >= now && round.members.iter().any(waits)
        });
    }

    fn take(&mut self, name: Name) -> Option<Guarded> {
        let packet = self.packets.remove(&name)?;
        self.ends.remove(&(packet.ends_at, name));
        if let Some(at) = packet.attend_at {
            self.agenda.remove(&(at, name));
        }
        self.ready.remove(&name);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const PATH: PathId = PathId(1);

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + MS * ms
    }

    /// Sent at 0, of use until 150, silent from 70 on.
    fn packet(datagrams: usize) -> Guarded {
        let datagrams = (0..datagrams).map(|_| Bytes::from_static(b"frame")).collect();
        Guarded::new(at(0), (at(150), 0, 2e-3), datagrams, vec![1], MS * 70)
    }

    fn books(packets: u64) -> Books {
        let mut books = Books::default();
        (0..packets).for_each(|number| books.insert((PATH, number), packet(1), Some(at(70))));
        books
    }

    #[test]
    fn what_needs_no_repair_yet_is_repaired_once_it_is_lost() {
        let mut books = books(2);
        assert!(books.on_deadline(at(60)).is_empty() && books.ready.is_empty());
        books.attend((PATH, 0), None);
        books.attend((PATH, 1), None);
        books.on_lost((PATH, 1));
        assert!(books.ready.is_empty(), "nobody looks after it any more");
        for name in [(PATH, 0), (PATH, 1)] {
            books.wait_and_see(at(60), name);
        }
        assert_eq!(books.deadline(), Some(at(70)), "when silence says that the first is lost");
        books.on_lost((PATH, 0));
        assert_eq!(books.ready, BTreeSet::from([(PATH, 0)]));
        books.wait_and_see(at(70), (PATH, 0));
        assert_ne!(books.deadline(), Some(at(70)));
    }

    #[test]
    fn no_symbol_of_a_block_is_sent_twice() {
        let mut books = books(3);
        let (two, all) = ([(PATH, 0), (PATH, 1)], [(PATH, 0), (PATH, 1), (PATH, 2)]);
        assert_eq!(books.take_symbols(&two, 3, 20), 0);
        assert_eq!(books.take_symbols(&two, 2, 20), 3);
        assert_eq!(books.take_symbols(&all, 4, 20), 5, "a block that holds some of them");
        assert_eq!(books.take_symbols(&all, 12, 20), 0, "there are no more");
    }

    #[test]
    fn every_datagram_is_counted_once() {
        let mut books = books(4);
        assert!(books.on_arrived((PATH, 0), at(20), false).is_some());
        assert!(books.on_arrived((PATH, 0), at(20), false).is_none(), "once");
        books.on_lost((PATH, 1));
        assert!(books.on_arrived((PATH, 1), at(150), true).is_some(), "at the deadline is in time");
        assert!(books.on_arrived((PATH, 2), at(151), true).is_some());
        assert_eq!(books.on_deadline(at(220)).len(), 1, "the one of which nothing was heard");
        let TimedStats { sent, in_time, mended, late, .. } = books.stats;
        assert_eq!((sent, in_time, mended, late), (4, 1, 1, 2));
        assert!(books.is_empty() && books.ready.is_empty() && books.deadline().is_none());
    }

    #[test]
    fn a_packet_is_looked_after_when_it_is_lost_or_silent() {
        let mut books = books(2);
        assert_eq!(books.deadline(), Some(at(70)));
        books.on_lost((PATH, 1));
        assert_eq!(books.ready.iter().collect::<Vec<_>>(), [&(PATH, 1)]);
        books.on_deadline(at(70));
        assert_eq!((books.ready.len(), books.get((PATH, 0)).unwrap().fate), (2, Fate::Silent));
        assert_eq!(books.deadline(), Some(at(220)), "only the end is left");
        books.ready.clear();
        books.on_lost((PATH, 0));
        assert!(books.ready.is_empty(), "silence has said so already");
    }

    #[test]
    fn what_a_closed_path_has_not_delivered_is_lost() {
        let mut books = books(3);
        books.insert((PathId(2), 0), packet(1), Some(at(70)));
        books.attend((PATH, 1), None);
        books.on_arrived((PATH, 2), at(20), false);
        books.on_path_closed(PATH);
        assert_eq!(books.ready, BTreeSet::from([(PATH, 0), (PATH, 1)]));
        assert_eq!(books.get((PATH, 1)).unwrap().fate, Fate::Lost);
        assert_eq!(books.deadline(), Some(at(70)), "of the other path");
    }

    #[test]
    fn rounds_end_with_their_use_and_are_few() {
        let mut books = books(1);
        let round = |number| Round {
            of: PATH,
            members: vec![number],
            means: Means::Copies,
            on: PATH,
            next: 0,
            count: 1,
            interval: MS,
            deadline: at(150),
            due: Some(at(80)),
        };
        books.begin(round(0));
        books.begin(round(7));
        books.end_useless(at(80));
        assert_eq!(books.rounds.len(), 1, "nobody waits for 7");
        books.end_useless(at(151));
        assert!(books.rounds.is_empty(), "too late");
        (0..1_000).for_each(|_| books.begin(round(0)));
        assert_eq!(books.rounds.len(), MAX_ROUNDS);
        assert_eq!(books.deadline(), Some(at(70)));
    }

    #[test]
    fn only_so_many_are_followed() {
        let books = books(MAX_PACKETS as u64);
        assert!(!books.has_room());
    }
}
