//! The receiving side of all codes: recent plaintexts per path, the memory that blocks share, and
//! what the peer's bytes pay for.
//!
//! Repair symbols over the packets of a path wait in [`WaitingBlocks`], combinations of blocks in
//! [`LinearBlocks`], symbols over windows of a path's packets in [`Windows`]. All rebuild from the
//! plaintexts that are kept here. Packets may be members of several blocks and windows, so what one
//! of them rebuilds is told to the others; but for blocks of combinations, since whoever sends these
//! protects their packets by nothing else.
//!
//! # Bounds
//! Plaintexts and repair symbols together never exceed the budget. What a hostile peer can make us
//! compute is bounded by the bytes it sends: a block is decoded once at most, each symbol is paid for
//! out of a [`Credit`] before anything is done about it, and whatever is rebuilt uses one up.

use super::{
    blocks::receiver::{LinearBlocks, RebuiltPacket},
    counters::Counters,
    credit::{Credit, LOOKUP},
    source_log::SourceLog,
    symbols::{
        receiver::{Rebuilt, Taken, WaitingBlock, WaitingBlocks},
        windows::Windows,
    },
};
use crate::{
    path::received::ReceivedPackets,
    wire::{CodeScheme, Combination, PathId, Recovered, Repair},
};

/// Received plaintexts and waiting blocks of one connection.
pub(crate) struct Decoder {
    budget: u64,
    /// A connection at rest has none.
    kept: Option<Box<Kept>>,
    credit: Credit,
    counters: Counters,
}

/// What there may be something to decode with.
struct Kept {
    sources: SourceLog,
    /// Blocks of scheme 1.
    waiting: WaitingBlocks,
    /// Blocks of scheme 2.
    linear: LinearBlocks,
    /// Symbols of scheme 3.
    windows: Windows,
}

impl Kept {
    fn new(budget: u64) -> Self {
        Self {
            sources: SourceLog::new(budget),
            waiting: WaitingBlocks::default(),
            linear: LinearBlocks::default(),
            windows: Windows::default(),
        }
    }

    /// Bytes held.
    fn memory(&self) -> u64 {
        self.sources.memory() + self.waiting.memory() + self.linear.memory() + self.windows.memory()
    }

    /// The bytes held, counted afresh.
    #[cfg(feature = "fuzzing")]
    fn recount(&self) -> u64 {
        self.sources.recount() + self.waiting.recount() + self.linear.recount() + self.windows.recount()
    }
}

impl Decoder {
    /// A decoder that holds `budget` bytes at most, for blocks of so many members.
    pub(crate) fn new(budget: u64, largest_block: u8) -> Self {
        Self { budget, kept: None, credit: Credit::new(largest_block), counters: Counters::default() }
    }

    /// What is kept, and what is counted of it.
    fn open(&mut self) -> (&mut Kept, &mut Counters) {
        let Self { budget, kept, counters, .. } = self;
        (kept.get_or_insert_with(|| Box::new(Kept::new(*budget))), counters)
    }

    /// Changes how many bytes are kept from now on.
    pub(crate) fn set_budget(&mut self, budget: u64) {
        self.budget = budget;
        if let Some(kept) = &mut self.kept {
            kept.sources.set_budget(budget);
        }
        self.make_room();
    }

    pub(crate) fn counters(&self) -> Counters {
        let moved = self.kept.as_ref().map_or(0, |kept| kept.sources.moved());
        Counters { work: self.counters.work + moved, ..self.counters }
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.memory())
    }

    /// The bytes held, counted afresh: must be what [`memory`](Self::memory) says.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn recount(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.recount())
    }

    // ---- what the peer's bytes pay for

    /// Bytes of the peer's have arrived in protected packets: they pay for decoding.
    pub(crate) fn on_bytes(&mut self, bytes: u64) {
        self.credit.earn(bytes);
    }

    /// Pays for a REPAIR frame. If the credit is used up, it counts as received and wasted, and
    /// nothing is to be done about it.
    pub(crate) fn admits_repair(&mut self, repair: &Repair<'_>) -> bool {
        let (members, len) = (repair.members.packet_count(), repair.symbol.len());
        let paid = match (&self.kept, repair.scheme) {
            (Some(kept), CodeScheme::Window) => kept.windows.pay(repair, &mut self.credit),
            (None, CodeScheme::Window) => self.credit.spend_on_window(members, len, (0, 0)),
            _ => self.credit.spend(members, len, 0),
        };
        self.count_unless(paid)
    }

    /// The same for a COMBINATION.
    pub(crate) fn admits_combination(&mut self, frame: &Combination<'_>) -> bool {
        let members = frame.members.packet_count();
        let paid = self.credit.spend(members, frame.symbol.len(), members / 2);
        self.count_unless(paid)
    }

    /// The same for a RECOVERED, which is no symbol.
    pub(crate) fn admits_recovered(&mut self, frame: &Recovered<'_>) -> bool {
        self.credit.spend_on_news(frame.packets.packet_count())
    }

    fn count_unless(&mut self, paid: bool) -> bool {
        if !paid {
            self.counters.received += 1;
            self.counters.wasted += 1;
            self.counters.refused += 1;
        }
        paid
    }

    // ---- repair symbols over the packets of a path (schemes 1 and 3)

    /// Keeps an arrived packet's plaintext, and rebuilds those that it helps to.
    pub(crate) fn on_source(&mut self, path: PathId, number: u64, plaintext: &[u8]) -> Vec<Rebuilt> {
        // What is kept already was rebuilt, and is no news.
        if !self.keep(path, number, plaintext) {
            return Vec::new();
        }
        let rebuilt = self.tell(path, number, plaintext);
        self.tell_all(path, rebuilt)
    }

    /// Takes a repair symbol; `received` tells which packets of the protected path have arrived.
    pub(crate) fn on_repair(&mut self, repair: &Repair<'_>, received: &ReceivedPackets) -> Vec<Rebuilt> {
        self.counters.received += 1;
        let (kept, counters) = self.open();
        let rebuilt = if repair.scheme == CodeScheme::Window {
            let rebuilt = kept.windows.take(repair, &kept.sources, counters);
            self.make_room();
            self.keep_all(repair.path, rebuilt)
        } else {
            match kept.waiting.take(repair, received, &kept.sources, counters) {
                Taken::Useless => {
                    counters.wasted += 1;
                    Vec::new()
                }
                Taken::Waits => {
                    self.make_room();
                    Vec::new()
                }
                Taken::Ready(block) => self.decode(block),
            }
        };
        self.tell_all(repair.path, rebuilt)
    }

    /// A packet of a path has become known: tells the blocks and the windows that it may be in, and
    /// rebuilds what they have waited for.
    fn tell(&mut self, path: PathId, number: u64, plaintext: &[u8]) -> Vec<Rebuilt> {
        let (kept, counters) = self.open();
        // All of them before the first is decoded: making room for what that rebuilds may drop others.
        let ready = kept.waiting.take_ready(path, number, counters);
        let mut rebuilt = Vec::new();
        for block in ready {
            rebuilt.extend(self.decode(block));
        }
        let (kept, counters) = self.open();
        let of_windows = kept.windows.on_source(path, number, plaintext, counters);
        rebuilt.extend(self.keep_all(path, of_windows));
        rebuilt
    }

    /// What one block or window has rebuilt is news to the others, and so is what they rebuild from
    /// it. Every packet takes a symbol to be rebuilt, so this ends when those that wait are used up.
    fn tell_all(&mut self, path: PathId, mut rebuilt: Vec<Rebuilt>) -> Vec<Rebuilt> {
        let mut told = 0;
        while let Some((number, plaintext)) = rebuilt.get(told) {
            let more = self.tell(path, *number, plaintext);
            rebuilt.extend(more);
            told += 1;
        }
        rebuilt
    }

    fn decode(&mut self, block: WaitingBlock) -> Vec<Rebuilt> {
        let path = block.path();
        let (kept, counters) = self.open();
        let rebuilt = kept.waiting.decode(block, &kept.sources, counters);
        self.keep_all(path, rebuilt)
    }

    /// Other blocks may need what was rebuilt. What both a block and a window have rebuilt is news once:
    /// those that wait count what they miss by it.
    fn keep_all(&mut self, path: PathId, mut rebuilt: Vec<Rebuilt>) -> Vec<Rebuilt> {
        rebuilt.retain(|(number, plaintext)| self.keep(path, *number, plaintext));
        rebuilt
    }

    // ---- combinations of blocks (scheme 2)

    /// What a packet that [`on_source`](Self::on_source) has taken tells about blocks of scheme 2.
    pub(crate) fn on_block_source(
        &mut self,
        path: PathId,
        number: u64,
        plaintext: &[u8],
    ) -> Vec<RebuiltPacket> {
        let (kept, counters) = self.open();
        let rebuilt = kept.linear.on_source(path, number, plaintext, &mut kept.sources, counters);
        self.make_room();
        rebuilt
    }

    /// Takes a combination; `is_settled` tells which packets have arrived or were rebuilt. `None`:
    /// all of the block's are, so it comes too late.
    pub(crate) fn on_combination(
        &mut self,
        frame: &Combination<'_>,
        is_settled: impl Fn(PathId, u64) -> bool,
    ) -> Option<Vec<RebuiltPacket>> {
        self.counters.received += 1;
        self.counters.work += LOOKUP * frame.members.packet_count();
        if frame.members.packets().all(|(path, number)| is_settled(path, number)) {
            self.counters.wasted += 1;
            return None;
        }
        // A sender keeps to half of the budget.
        let max_pinned = self.budget / 4 * 3;
        let (kept, counters) = self.open();
        let rebuilt = kept.linear.on_combination(frame, &mut kept.sources, max_pinned, counters);
        self.make_room();
        Some(rebuilt)
    }

    /// A combination that nothing can be done with.
    pub(crate) fn on_useless_combination(&mut self) {
        self.counters.received += 1;
        self.counters.wasted += 1;
    }

    // ---- memory

    /// False if the packet's plaintext is kept already.
    fn keep(&mut self, path: PathId, number: u64, plaintext: &[u8]) -> bool {
        let is_new = self.open().0.sources.keep(path, number, plaintext);
        self.make_room();
        is_new
    }

    /// Keeps to the budget: the oldest plaintexts go first, but for those that a block of scheme 2
    /// relies on; then the oldest blocks, also if so little of the plaintexts is free to go that
    /// moving the others costs more than that gains. A block of scheme 1 that needs a plaintext
    /// which is gone is found out when it is to be decoded.
    fn make_room(&mut self) {
        let Self { budget, kept: Some(kept), counters, .. } = self else { return };
        let mut slabs = kept.sources.slabs();
        while kept.memory() > *budget {
            // Pinned plaintexts move to the end: once around is enough to know that the rest is
            // pinned.
            if slabs > 0 && kept.sources.is_mostly_free() && kept.sources.evict_oldest() {
                slabs -= 1;
                continue;
            }
            if kept.linear.drop_oldest(&mut kept.sources, counters) {
                slabs = kept.sources.slabs();
                continue;
            }
            let dropped = kept.waiting.drop_oldest(counters) || kept.windows.drop_oldest(counters);
            if !dropped {
                break;
            }
        }
        counters.memory_peak = counters.memory_peak.max(kept.memory());
    }

    /// Nothing has come for long: what was kept in case that the peer protects it is of no use, and
    /// where no block waits either, nothing is left.
    pub(crate) fn rest(&mut self) {
        let Some(kept) = &mut self.kept else { return };
        kept.sources.clear();
        kept.waiting.rest();
        if kept.memory() == 0 {
            self.counters.work += kept.sources.moved();
            self.kept = None;
        }
    }

    pub(crate) fn forget_path(&mut self, path: PathId) {
        let Self { kept: Some(kept), counters, .. } = self else { return };
        kept.sources.forget_path(path);
        kept.linear.forget_path(path, &mut kept.sources, counters);
        kept.waiting.forget_path(path, counters);
        kept.windows.forget_path(path, counters);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{CodeScheme, Frame, Frames, RepairHeader, Runs};

    /// REPAIR number 0 of `members`, whose plaintexts are `sources`; of a block it is their XOR.
    fn symbol_frame(scheme: CodeScheme, members: &[u64], sources: &[&[u8]]) -> Vec<u8> {
        let mut symbol = vec![0; fec::symbol_len(sources)];
        if scheme == CodeScheme::Window {
            let numbered: Vec<(u64, &[u8])> = members.iter().copied().zip(sources.iter().copied()).collect();
            fec::window::encode(&numbered, 0, &mut symbol).unwrap();
        } else {
            fec::xor::encode(sources, &mut symbol).unwrap();
        }
        let header = RepairHeader {
            path: PathId::ZERO,
            scheme,
            repair_count: 1,
            symbol_id: 0,
            symbol_len: symbol.len(),
        };
        let mut frame = Vec::new();
        header.encode(Runs::new(members.iter().copied()), &mut frame);
        frame.extend_from_slice(&symbol);
        frame
    }

    fn repair_frame(members: &[u64], sources: &[&[u8]]) -> Vec<u8> {
        symbol_frame(CodeScheme::ReedSolomon, members, sources)
    }

    fn receive(decoder: &mut Decoder, frame: &[u8]) -> Vec<Rebuilt> {
        let Some(Ok(Frame::Repair(repair))) = Frames::new(frame).next() else { panic!("a REPAIR frame") };
        decoder.on_repair(&repair, &ReceivedPackets::default())
    }

    /// Making room for the symbol drops an older block; the index of the one that is ready then
    /// named nothing.
    #[test]
    fn a_ready_block_is_decoded_although_the_memory_is_full() {
        let mut decoder = Decoder::new(3_600, 128);
        let (old, new, lost) = ([1; 1_000], [2; 1_000], [3; 1_000]);
        decoder.on_source(PathId::ZERO, 0, &old);
        assert!(receive(&mut decoder, &repair_frame(&[0, 100, 101], &[&old, &lost, &lost])).is_empty());
        decoder.on_source(PathId::ZERO, 10, &new);
        let rebuilt = receive(&mut decoder, &repair_frame(&[10, 11], &[&new, &lost]));
        assert_eq!(rebuilt, [(11, lost.to_vec())]);
        assert!(decoder.memory() <= 3_600);
    }

    /// One symbol waits for either of two packets, and the next rebuilds one of them, whatever the codes:
    /// then the first rebuilds the other.
    #[test]
    fn what_is_rebuilt_by_one_symbol_is_told_to_those_that_wait() {
        const SCHEMES: [CodeScheme; 2] = [CodeScheme::ReedSolomon, CodeScheme::Window];
        let (zero, one, two) = ([1; 100], [2; 200], [3; 300]);
        for (waits, comes) in SCHEMES.into_iter().flat_map(|a| SCHEMES.map(|b| (a, b))) {
            let mut decoder = Decoder::new(100_000, 128);
            decoder.on_source(PathId::ZERO, 0, &zero);
            let waiting = symbol_frame(waits, &[1, 2], &[&one, &two]);
            assert!(receive(&mut decoder, &waiting).is_empty());
            let coming = symbol_frame(comes, &[0, 1], &[&zero, &one]);
            let mut rebuilt = receive(&mut decoder, &coming);
            rebuilt.sort_unstable();
            assert_eq!(rebuilt, [(1, one.to_vec()), (2, two.to_vec())], "{waits:?} {comes:?}");
            let counters = decoder.counters();
            assert_eq!((counters.used, counters.wasted, counters.rebuilt), (2, 0, 2));
        }
    }

    /// Each block lacks what the one before it rebuilds, and one packet sets them all off.
    #[test]
    fn a_chain_of_blocks_is_rebuilt_to_its_end() {
        let mut decoder = Decoder::new(1_000_000, 128);
        let plaintext = |number: u64| vec![number as u8; 100 + number as usize];
        for number in (0..20).rev() {
            let frame = repair_frame(&[number, number + 1], &[&plaintext(number), &plaintext(number + 1)]);
            assert!(receive(&mut decoder, &frame).is_empty());
        }
        let rebuilt = decoder.on_source(PathId::ZERO, 0, &plaintext(0));
        let expected: Vec<Rebuilt> = (1..=20).map(|number| (number, plaintext(number))).collect();
        assert_eq!(rebuilt, expected);
    }

    /// A block and a window rebuild the same packet; a block that lacks two more goes on to wait for one.
    #[test]
    fn what_a_block_and_a_window_rebuild_is_news_once() {
        let mut decoder = Decoder::new(100_000, 128);
        let sources: Vec<Vec<u8>> = (0..4_u8).map(|number| vec![number; 100 + usize::from(number)]).collect();
        let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
        for scheme in [CodeScheme::ReedSolomon, CodeScheme::Window] {
            let frame = symbol_frame(scheme, &[0, 1], &sources[..2]);
            assert!(receive(&mut decoder, &frame).is_empty());
        }
        assert!(receive(&mut decoder, &repair_frame(&[1, 2, 3], &sources[1..])).is_empty());
        assert_eq!(decoder.on_source(PathId::ZERO, 0, sources[0]), [(1, sources[1].to_vec())]);
        assert_eq!(decoder.on_source(PathId::ZERO, 2, sources[2]), [(3, sources[3].to_vec())]);
    }

    #[test]
    fn rest_leaves_nothing_but_blocks_that_wait_and_what_was_counted() {
        let mut decoder = Decoder::new(100_000, 128);
        let (one, two) = ([1; 1_000], [2; 1_000]);
        decoder.on_source(PathId::ZERO, 0, &one);
        assert_eq!(receive(&mut decoder, &repair_frame(&[0, 1], &[&one, &two])), [(1, two.to_vec())]);
        let counters = decoder.counters();
        assert!(counters.work > 0 && counters.rebuilt == 1);
        decoder.rest();
        assert!(decoder.kept.is_none());
        assert_eq!(decoder.counters(), counters);
        assert!(receive(&mut decoder, &repair_frame(&[2, 3], &[&one, &two])).is_empty());
        decoder.rest();
        assert_eq!(decoder.on_source(PathId::ZERO, 2, &one), [(3, two.to_vec())]);
    }
}
