//! The repair decoder: any sequence of source packets and REPAIR frames.
//!
//! Promises: the memory budget holds and its books are right; what is rebuilt from honest symbols
//! is what was sent, and new; a block is decoded as soon as it can be, if there is memory for it;
//! hostile symbols cost no more than themselves.

use std::collections::{BTreeMap, BTreeSet};

use fec::{reed_solomon, window};
use proto::{
    PathId,
    fuzzing::RepairDecoder,
    wire::{CodeScheme, Frame, Frames, RepairHeader, Runs},
};

use crate::input::Input;

/// Blocks that wait at once, at most (`repair/decoder.rs`): with more, the oldest is given up.
const MAX_BLOCKS: usize = 64;
/// Budgets: next to nothing, little, and more than any input fills.
const BUDGETS: [u64; 4] = [0, 3_000, 20_000, 1 << 40];

/// An honest block: its path and its members.
type Block = (PathId, Vec<u64>);

struct Harness {
    decoder: RepairDecoder,
    budget: u64,
    /// Paths on which a symbol was forged: what is rebuilt there may be anything.
    forged: BTreeSet<PathId>,
    /// Paths that were closed: their packets count as received for ever, but are no longer kept.
    closed: BTreeSet<PathId>,
    blocks: BTreeMap<Block, BTreeSet<u8>>,
    /// How many blocks there may have been.
    opened: usize,
}

/// Any script.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let budget = input.pick(&BUDGETS);
    let mut harness = Harness {
        decoder: RepairDecoder::new(budget),
        budget,
        forged: BTreeSet::new(),
        closed: BTreeSet::new(),
        blocks: BTreeMap::new(),
        opened: 0,
    };
    while let Some(step) = input.step() {
        match step % 8 {
            0..=2 => harness.source(&mut input),
            3..=5 => harness.honest(&mut input),
            6 => harness.forge(&mut input),
            _ => harness.other(&mut input),
        }
        let (memory, recount) = harness.decoder.memory();
        assert_eq!(memory, recount, "the books");
        assert!(memory <= budget, "{memory} of {budget} bytes");
    }
}

impl Harness {
    fn source(&mut self, input: &mut Input<'_>) {
        let path = path(input);
        let first = number(input);
        for number in first..=first + u64::from(input.u8() % 8) {
            let rebuilt = self.decoder.on_source(path, number, &plaintext(path, number));
            self.check(path, rebuilt);
        }
    }

    /// A symbol as our own encoder makes it.
    fn honest(&mut self, input: &mut Input<'_>) {
        let path = path(input);
        let members = members(input);
        let choice = input.u8();
        let index = choice % 6;
        let sources: Vec<Vec<u8>> = members.iter().map(|&n| plaintext(path, n)).collect();
        let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
        let mut symbol = vec![0; fec::symbol_len(&sources)];
        if choice >= 0xc0 {
            let numbered: Vec<(u64, &[u8])> = members.iter().copied().zip(sources).collect();
            window::encode(&numbered, choice.into(), &mut symbol).expect("a window that the code allows");
            return self.receive(path, CodeScheme::Window, 1, choice.into(), &members, &symbol);
        }
        reed_solomon::encode(&sources, index, &mut symbol).expect("a block that the code allows");
        self.note(path, &members, index);
        self.receive(path, CodeScheme::ReedSolomon, 6, u64::from(index), &members, &symbol);
    }

    /// A symbol of any content and shape.
    fn forge(&mut self, input: &mut Input<'_>) {
        let path = path(input);
        self.forged.insert(path);
        // It may take the place of a block.
        self.opened += 1;
        let members = members(input);
        let scheme = input.pick(&[CodeScheme::ReedSolomon, CodeScheme::RandomLinear, CodeScheme::Window]);
        let (count, id) = (input.u8(), input.number());
        let len = usize::from(input.u16()) % 2_000;
        let mut symbol = input.bytes(usize::from(input.clone().u8())).to_vec();
        symbol.resize(len.max(1), input.u8());
        self.receive(path, scheme, count, id, &members, &symbol);
    }

    fn other(&mut self, input: &mut Input<'_>) {
        if input.flag() {
            let path = path(input);
            self.decoder.forget_path(path);
            self.blocks.retain(|(of, _), _| *of != path);
            self.closed.insert(path);
        } else {
            // Any bytes: what the frame decoder lets through, the repair decoder must bear.
            let payload = input.bytes(usize::from(input.clone().u16()));
            for frame in Frames::new(payload).flatten() {
                if let Frame::Repair(repair) = frame {
                    self.forged.insert(repair.path);
                    self.opened += 1;
                    self.decoder.on_repair(&repair);
                }
            }
        }
    }

    fn receive(
        &mut self,
        path: PathId,
        scheme: CodeScheme,
        repair_count: u8,
        symbol_id: u64,
        members: &[u64],
        symbol: &[u8],
    ) {
        let header = RepairHeader { path, scheme, repair_count, symbol_id, symbol_len: symbol.len() };
        let mut frame = Vec::new();
        header.encode(Runs::new(members.iter().copied()), &mut frame);
        frame.extend_from_slice(symbol);
        let Some(Ok(Frame::Repair(repair))) = Frames::new(&frame).next() else { return };
        let rebuilt = self.decoder.on_repair(&repair);
        self.check(path, rebuilt);
    }

    /// Expects a block to be decoded, whoever brings or rebuilds what it lacks.
    fn note(&mut self, path: PathId, members: &[u64], index: u8) {
        let symbols = self.blocks.entry((path, members.to_vec())).or_default();
        self.opened += usize::from(symbols.is_empty());
        symbols.insert(index);
    }

    fn check(&mut self, path: PathId, rebuilt: Vec<(u64, Vec<u8>)>) {
        if self.forged.contains(&path) {
            return;
        }
        for (number, bytes) in rebuilt {
            assert_eq!(bytes, plaintext(path, number), "packet {number} of path {path:?}");
        }
        if self.budget < 1 << 40 || self.opened >= MAX_BLOCKS || self.closed.contains(&path) {
            return;
        }
        for ((of, members), symbols) in self.blocks.iter().filter(|((of, _), _)| *of == path) {
            let missing = members.iter().filter(|&&n| !self.decoder.has(*of, n)).count();
            assert!(missing == 0 || missing > symbols.len(), "{missing} missing, {} symbols", symbols.len());
        }
    }
}

fn path(input: &mut Input<'_>) -> PathId {
    PathId(input.below(3) as u32)
}

fn number(input: &mut Input<'_>) -> u64 {
    input.number().min((1 << 62) - 4_000)
}

/// Ascending packet numbers.
fn members(input: &mut Input<'_>) -> Vec<u64> {
    let mut number = number(input);
    let k = 1 + input.below(40);
    let gap = u64::from(input.u8() % 4);
    let mut members = Vec::with_capacity(k);
    for i in 0..k as u64 {
        members.push(number);
        number += 1 + if i % 3 == 2 { gap } else { 0 };
    }
    members
}

/// What a packet carried: its length and bytes follow from its name.
fn plaintext(path: PathId, number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(path.0) << 56;
    state ^= state >> 29;
    let len = 1 + (state % 61) as usize * if state & 0x700 == 0 { 20 } else { 1 };
    (0..len).map(|i| (state >> (i % 8 * 8)) as u8 ^ i as u8).collect()
}
