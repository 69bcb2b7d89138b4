//! The receiver of the streaming code (scheme 3): equations about packets that have not arrived.
//!
//! Symbols over overlapping windows of a path's packets add up: each is an equation, and the packets
//! are rebuilt as soon as the equations determine them. What a symbol covers and is neither missing
//! nor kept counts as missing.

use fec::window;

use super::receiver::Rebuilt;
use crate::{
    by_path::ByPath,
    connection::repair::{
        counters::Counters,
        credit::{Credit, LOOKUP},
        source_log::SourceLog,
    },
    wire::{PathId, Repair},
};

/// Equations about packets of one path that are held at once.
const MAX_EQUATIONS: usize = 32;

/// The equations of all paths.
#[derive(Default)]
pub(crate) struct Windows {
    paths: ByPath<window::Decoder>,
    memory: u64,
}

impl Windows {
    /// Bytes held.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// The bytes held, counted afresh.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn recount(&self) -> u64 {
        self.paths.values().map(|decoder| decoder.memory() as u64).sum()
    }

    /// Pays for a symbol. False if the credit is used up.
    pub(crate) fn pay(&self, repair: &Repair<'_>, credit: &mut Credit) -> bool {
        let held = self.paths.get(&repair.path);
        let equations = held.map_or((0, 0), |d| (d.equations() as u64, d.terms() as u64));
        let longest = held.map_or(0, |d| d.longest()).max(repair.symbol.len());
        credit.spend_on_window(repair.members.packet_count(), longest, equations)
    }

    /// Takes a symbol; `sources` are the packets that are kept.
    pub(crate) fn take(
        &mut self,
        repair: &Repair<'_>,
        sources: &SourceLog,
        counters: &mut Counters,
    ) -> Vec<Rebuilt> {
        let path = repair.path;
        counters.work += repair.members.packet_count() * LOOKUP;
        let mut kept = sources.walk(path);
        if repair.members.packets().all(|number| kept.has(number)) {
            counters.wasted += 1;
            return Vec::new();
        }
        let members: Vec<u64> = repair.members.packets().collect();
        if !self.paths.contains_key(&path) {
            self.paths.insert(path, window::Decoder::new(MAX_EQUATIONS));
        }
        let Some(held) = self.paths.get_mut(&path) else { return Vec::new() };
        let (before, equations) = (held.memory() as u64, held.equations() as u64);
        let longest = held.longest().max(repair.symbol.len()) as u64;
        counters.work += members.len() as u64 * repair.symbol.len() as u64 + 2 * equations * longest;
        let source = |number| sources.get(path, number);
        // A symbol that is none of the code's changes nothing, and counts as wasted like one that
        // tells nothing new.
        let _ = held.add_repair(&members, repair.symbol_id, repair.symbol, source);
        let (solved, rebuilt) = fetch(held, counters);
        counters.wasted += equations + 1 - solved - held.equations() as u64;
        self.memory = self.memory + held.memory() as u64 - before;
        rebuilt
    }

    /// A packet has arrived that equations may be about.
    pub(crate) fn on_source(
        &mut self,
        path: PathId,
        number: u64,
        plaintext: &[u8],
        counters: &mut Counters,
    ) -> Vec<Rebuilt> {
        let Some(held) = self.paths.get_mut(&path).filter(|decoder| decoder.lacks(number)) else {
            return Vec::new();
        };
        let (before, equations) = (held.memory() as u64, held.equations() as u64);
        counters.work += 2 * equations * held.longest() as u64;
        // A packet that is longer than a symbol about it: the symbol was none, and is forgotten.
        let _ = held.add_source(number, plaintext);
        let (solved, rebuilt) = fetch(held, counters);
        counters.wasted += equations - solved - held.equations() as u64;
        self.memory = self.memory + held.memory() as u64 - before;
        rebuilt
    }

    /// Gives up the oldest equation of the path that holds most; false if there is none.
    pub(crate) fn drop_oldest(&mut self, counters: &mut Counters) -> bool {
        let Some(held) = self.paths.values_mut().max_by_key(|decoder| decoder.memory()) else {
            return false;
        };
        let before = held.memory() as u64;
        let any = held.drop_oldest();
        counters.wasted += u64::from(any);
        self.memory = self.memory + held.memory() as u64 - before;
        any
    }

    pub(crate) fn forget_path(&mut self, path: PathId, counters: &mut Counters) {
        let Some(held) = self.paths.remove(&path) else { return };
        counters.wasted += held.equations() as u64;
        self.memory -= held.memory() as u64;
    }
}

/// What the equations have come to determine, and how many of them that took.
fn fetch(decoder: &mut window::Decoder, counters: &mut Counters) -> (u64, Vec<Rebuilt>) {
    let (mut solved, mut rebuilt) = (0, Vec::new());
    while let Some(next) = decoder.next_rebuilt() {
        solved += 1;
        match next {
            Ok(packet) => rebuilt.push(packet),
            Err(_) => counters.wasted += 1,
        }
    }
    counters.used += rebuilt.len() as u64;
    counters.rebuilt += rebuilt.len() as u64;
    (solved, rebuilt)
}
