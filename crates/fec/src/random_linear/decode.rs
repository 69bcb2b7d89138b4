//! Recovering a block symbol by symbol, in whatever order they come.

use arrayvec::ArrayVec;
use gf256::{Kernels, field};

use super::coefficients;
use crate::{DecodeError, MAX_SOURCE_LEN, MAX_SOURCES, PREFIX, symbol};

/// Whether a symbol taught the decoder something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Innovation {
    /// The rank has grown by one.
    Innovative,
    /// It is a combination of what was known before.
    Redundant,
}

/// What the decoder has at the place of a source. Row and symbol of a place belong together: the
/// sources' virtual symbols, times the row's coefficients, add up to the symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slot {
    /// Nothing.
    Empty,
    /// An equation with coefficient 1 here, and 0 at every other place that is not empty.
    Equation,
    /// The virtual symbol itself: an equation with all other coefficients 0. `reported` once the
    /// caller has it, from here or from elsewhere.
    Known { reported: bool },
}

/// The decoder of one block: incremental Gauss-Jordan elimination, always fully reduced, so that a
/// source is known as soon as the symbols determine it.
///
/// Holds K symbols and K x K coefficients, allocated at once. Cost per symbol: one pass over the
/// symbols held, and while sources are missing one multiplication of a symbol for every equation
/// held.
#[derive(Clone, Debug)]
pub struct Decoder {
    seed: u32,
    symbol_len: usize,
    rank: usize,
    slots: ArrayVec<Slot, MAX_SOURCES>,
    /// K rows of K coefficients.
    matrix: Vec<u8>,
    /// K symbols of `symbol_len` bytes.
    symbols: Vec<u8>,
    /// The symbol of the equation in hand.
    hand: Vec<u8>,
}

/// The coefficients of the equation in hand.
type Row = [u8; MAX_SOURCES];

impl Decoder {
    /// A decoder of a block of `k` sources with `seed`, whose repair symbols have `symbol_len`
    /// bytes.
    ///
    /// # Errors
    /// [`DecodeError::SourceCount`] unless 1 <= `k` <= [`MAX_SOURCES`];
    /// [`DecodeError::RepairLength`] unless [`PREFIX`] <= `symbol_len` <= [`PREFIX`] +
    /// [`MAX_SOURCE_LEN`].
    pub fn new(seed: u32, k: usize, symbol_len: usize) -> Result<Self, DecodeError> {
        let mut decoder = Self {
            seed,
            symbol_len,
            rank: 0,
            slots: ArrayVec::new(),
            matrix: Vec::new(),
            symbols: Vec::new(),
            hand: Vec::new(),
        };
        decoder.reset(seed, k, symbol_len)?;
        Ok(decoder)
    }

    /// Begins another block; keeps the memory.
    ///
    /// # Errors
    /// As [`Decoder::new`]; the decoder is then unchanged.
    pub fn reset(&mut self, seed: u32, k: usize, symbol_len: usize) -> Result<(), DecodeError> {
        if k == 0 || k > MAX_SOURCES {
            return Err(DecodeError::SourceCount { sources: k });
        }
        if !(PREFIX..=PREFIX + MAX_SOURCE_LEN).contains(&symbol_len) {
            return Err(DecodeError::RepairLength { given: symbol_len });
        }
        (self.seed, self.symbol_len, self.rank) = (seed, symbol_len, 0);
        self.slots = (0..k).map(|_| Slot::Empty).collect();
        self.matrix.resize(k * k, 0);
        self.symbols.resize(k * symbol_len, 0);
        self.hand.resize(symbol_len, 0);
        Ok(())
    }

    /// Takes source `index` of the block as it was received.
    ///
    /// # Errors
    /// [`DecodeError::SourceIndex`], [`DecodeError::SourceTooLong`]; the decoder is then unchanged.
    pub fn add_source(&mut self, index: usize, source: &[u8]) -> Result<Innovation, DecodeError> {
        let (k, max) = (self.k(), self.symbol_len - PREFIX);
        let slot =
            *self.slots.get(index).ok_or(DecodeError::SourceIndex { source_index: index, sources: k })?;
        if source.len() > max {
            return Err(DecodeError::SourceTooLong { source_index: index, len: source.len(), max });
        }
        self.slots[index] = Slot::Known { reported: true };
        if let Slot::Known { .. } = slot {
            return Ok(Innovation::Redundant);
        }
        self.rank += 1;
        let displaced = (slot == Slot::Equation).then(|| self.pick_up(index));
        self.write_source(index, source);
        self.eliminate(index);
        if let Some(mut row) = displaced {
            // An equation that held this source and nothing else would have made it known: there is
            // something left.
            row[index] = 0;
            Kernels::detect().xor_assign(&mut self.hand, place(&self.symbols, index, self.symbol_len));
            self.put_down(&mut row);
        }
        self.mark_known();
        Ok(Innovation::Innovative)
    }

    /// Takes a repair symbol of the block.
    ///
    /// # Errors
    /// [`DecodeError::UnequalRepairs`] if its length is not the block's; the decoder is then
    /// unchanged.
    pub fn add_repair(&mut self, index: u32, symbol: &[u8]) -> Result<Innovation, DecodeError> {
        if symbol.len() != self.symbol_len {
            return Err(DecodeError::UnequalRepairs { expected: self.symbol_len, given: symbol.len() });
        }
        if self.is_complete() {
            return Ok(Innovation::Redundant);
        }
        let Some(mut row) = self.reduce(index, symbol) else {
            return Ok(Innovation::Redundant);
        };
        self.rank += 1;
        self.put_down(&mut row);
        self.mark_known();
        Ok(Innovation::Innovative)
    }

    /// The next rebuilt source that has not been returned yet, and was not added either, with its
    /// index. Call until `None`.
    ///
    /// # Errors
    /// [`DecodeError::Corrupt`], once for every source that turned out to be none: drop the
    /// decoder.
    pub fn next_rebuilt(&mut self) -> Option<Result<(usize, &[u8]), DecodeError>> {
        let index = self.slots.iter().position(|&slot| slot == Slot::Known { reported: false })?;
        self.slots[index] = Slot::Known { reported: true };
        let source = symbol::unframe(place(&self.symbols, index, self.symbol_len));
        Some(source.map(|source| (index, source)).ok_or(DecodeError::Corrupt { source_index: index }))
    }

    /// Source symbols of the block.
    pub fn k(&self) -> usize {
        self.slots.len()
    }

    /// Length in bytes of the block's repair symbols.
    pub fn symbol_len(&self) -> usize {
        self.symbol_len
    }

    /// Innovative symbols so far: the degrees of freedom that CTCP acknowledges (section 3).
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Whether every source is known.
    pub fn is_complete(&self) -> bool {
        self.rank == self.k()
    }

    /// Takes a repair symbol in hand, minus all that is held; `None` if nothing is left of it.
    fn reduce(&mut self, index: u32, symbol: &[u8]) -> Option<Row> {
        let (k, kernels) = (self.k(), Kernels::detect());
        let mut row: Row = [0; MAX_SOURCES];
        row.iter_mut().zip(coefficients(self.seed, index, 0..k)).for_each(|(to, c)| *to = c);
        let mut factors: ArrayVec<u8, MAX_SOURCES> = ArrayVec::new();
        let mut held: ArrayVec<&[u8], MAX_SOURCES> = ArrayVec::new();
        for (i, _) in self.slots.iter().enumerate().filter(|&(_, &slot)| slot != Slot::Empty) {
            // Held rows are zero at each other's places, so the factors do not depend on the order.
            let factor = row[i];
            factors.push(factor);
            held.push(place(&self.symbols, i, self.symbol_len));
            kernels.mul_add(&mut row[..k], place(&self.matrix, i, k), factor);
        }
        if row[..k].iter().all(|&c| c == 0) {
            return None;
        }
        kernels.product_onto(&mut [&mut self.hand], &[symbol], &[&factors], &held);
        Some(row)
    }

    /// Takes the equation of a place in hand.
    fn pick_up(&mut self, index: usize) -> Row {
        let k = self.k();
        let mut row: Row = [0; MAX_SOURCES];
        row[..k].copy_from_slice(place(&self.matrix, index, k));
        self.hand.copy_from_slice(place(&self.symbols, index, self.symbol_len));
        row
    }

    /// Gives the equation in hand, which is zero at all places that are not empty, one of its own.
    fn put_down(&mut self, row: &mut Row) {
        let k = self.k();
        let Some(index) = row[..k].iter().position(|&c| c != 0) else {
            debug_assert!(false, "an equation without unknowns has no place");
            return;
        };
        debug_assert_eq!(self.slots[index], Slot::Empty);
        let factor = field::inv(row[index]);
        Kernels::detect().mul_assign(&mut row[..k], factor);
        Kernels::detect().mul_assign(&mut self.hand, factor);
        place_mut(&mut self.matrix, index, k).copy_from_slice(&row[..k]);
        place_mut(&mut self.symbols, index, self.symbol_len).copy_from_slice(&self.hand);
        self.slots[index] = Slot::Equation;
        self.eliminate(index);
    }

    /// Puts the virtual symbol of a source, and the row that says so, in its place.
    fn write_source(&mut self, index: usize, source: &[u8]) {
        let k = self.k();
        let (prefix, payload) = place_mut(&mut self.symbols, index, self.symbol_len).split_at_mut(PREFIX);
        prefix.copy_from_slice(&(source.len() as u16).to_be_bytes());
        payload[..source.len()].copy_from_slice(source);
        payload[source.len()..].fill(0);
        let row = place_mut(&mut self.matrix, index, k);
        row.fill(0);
        row[index] = 1;
    }

    /// Subtracts what is at `index` from every equation that has a coefficient there.
    fn eliminate(&mut self, index: usize) {
        let k = self.k();
        for other in 0..k {
            let factor = self.matrix[other * k + index];
            if other != index && self.slots[other] == Slot::Equation && factor != 0 {
                let (to, from) = pair(&mut self.matrix, other, index, k);
                Kernels::detect().mul_add(to, from, factor);
                let (to, from) = pair(&mut self.symbols, other, index, self.symbol_len);
                Kernels::detect().mul_add(to, from, factor);
            }
        }
    }

    /// Turns equations with a single unknown into known sources.
    fn mark_known(&mut self) {
        let k = self.k();
        for (slot, row) in self.slots.iter_mut().zip(self.matrix.chunks_exact(k)) {
            if *slot == Slot::Equation && row.iter().filter(|&&c| c != 0).count() == 1 {
                *slot = Slot::Known { reported: false };
            }
        }
    }
}

/// Entry `index` of a buffer of entries of `len` bytes.
fn place(buffer: &[u8], index: usize, len: usize) -> &[u8] {
    &buffer[index * len..][..len]
}

/// Entry `index` of a buffer of entries of `len` bytes.
fn place_mut(buffer: &mut [u8], index: usize, len: usize) -> &mut [u8] {
    &mut buffer[index * len..][..len]
}

/// Two different entries of a buffer of entries of `len` bytes, the first one to be changed.
fn pair(buffer: &mut [u8], to: usize, from: usize, len: usize) -> (&mut [u8], &[u8]) {
    let (low, high) = buffer.split_at_mut(to.max(from) * len);
    if to < from {
        (place_mut(low, to, len), &high[..len])
    } else {
        (&mut high[..len], place(low, from, len))
    }
}
