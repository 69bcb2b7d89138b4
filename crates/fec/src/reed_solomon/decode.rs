//! Recovering lost sources.

use arrayvec::ArrayVec;
use gf256::{Kernels, field};

use super::{row, x, y};
use crate::{DecodeError, MAX_SOURCE_LEN, MAX_SOURCES, PREFIX, symbol};

/// Coefficients of up to one tile of repair symbols.
type Rows = [[u8; MAX_SOURCES]; Kernels::TILE];

/// Memory of [`decode`], kept between blocks so that decoding does not allocate once it has seen
/// the largest.
///
/// Grows to twice the bytes of the rebuilt symbols plus e x e bytes for e lost sources; never
/// shrinks.
#[derive(Clone, Default, Debug)]
pub struct DecodeScratch {
    /// Repair symbols minus what the known sources contributed, one after the other.
    syndromes: Vec<u8>,
    /// Recovered virtual symbols, one after the other.
    symbols: Vec<u8>,
    /// The inverse of the lost sources' system, row by row.
    inverse: Vec<u8>,
    lost: ArrayVec<u8, MAX_SOURCES>,
}

impl DecodeScratch {
    /// Without memory.
    pub fn new() -> Self {
        Self::default()
    }
}

/// The rebuilt sources: their index in the block and their bytes, in order of index.
#[derive(Clone, Debug)]
pub struct Recovered<'s> {
    lost: &'s [u8],
    /// All of one length, at least [`PREFIX`]; checked to be virtual symbols.
    symbols: &'s [u8],
    symbol_len: usize,
}

impl<'s> Iterator for Recovered<'s> {
    type Item = (usize, &'s [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&index, lost) = self.lost.split_first()?;
        let (symbol, symbols) = self.symbols.split_at(self.symbol_len);
        (self.lost, self.symbols) = (lost, symbols);
        Some((usize::from(index), symbol::unframe(symbol)?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.lost.len(), Some(self.lost.len()))
    }
}

impl ExactSizeIterator for Recovered<'_> {}

/// Recovers all lost sources of a block, those that are `None` in `sources`, from the others and
/// from repair symbols with their indices. More repair symbols than lost sources are welcome; those
/// of the lowest indices are used.
///
/// # Errors
/// Any [`DecodeError`] but `SourceIndex`. After [`DecodeError::TooFewSymbols`] a later attempt with
/// more symbols may succeed; any other means that the symbols are no block.
pub fn decode<'s>(
    sources: &[Option<&[u8]>],
    repairs: &[(u8, &[u8])],
    scratch: &'s mut DecodeScratch,
) -> Result<Recovered<'s>, DecodeError> {
    let k = sources.len();
    if k == 0 || k > MAX_SOURCES {
        return Err(DecodeError::SourceCount { sources: k });
    }
    let (repairs, symbol_len) = check_repairs(k, repairs)?;
    let DecodeScratch { syndromes, symbols, inverse, lost } = scratch;
    lost.clear();
    let mut known: ArrayVec<&[u8], MAX_SOURCES> = ArrayVec::new();
    for (i, source) in sources.iter().enumerate() {
        match *source {
            Some(source) if !repairs.is_empty() && source.len() > symbol_len - PREFIX => {
                let (len, max) = (source.len(), symbol_len - PREFIX);
                return Err(DecodeError::SourceTooLong { source_index: i, len, max });
            }
            Some(source) => known.push(source),
            None => lost.push(i as u8),
        }
    }
    if lost.is_empty() {
        return Ok(Recovered { lost, symbols: &[], symbol_len });
    }
    let repairs = repairs
        .get(..lost.len())
        .ok_or(DecodeError::TooFewSymbols { lost: lost.len(), repairs: repairs.len() })?;

    subtract_known(syndromes, symbol_len, repairs, lost, k, &known);
    invert(inverse, repairs, lost);
    if let [factor] = inverse[..] {
        Kernels::detect().mul_assign(syndromes, factor);
        std::mem::swap(symbols, syndromes);
    } else {
        solve(symbols, symbol_len, inverse, syndromes);
    }
    for (&index, symbol) in lost.iter().zip(symbols.chunks_exact(symbol_len)) {
        symbol::unframe(symbol).ok_or(DecodeError::Corrupt { source_index: usize::from(index) })?;
    }
    Ok(Recovered { lost, symbols, symbol_len })
}

/// The repair symbols by index, and their length (that of an empty source if there are none).
#[allow(clippy::type_complexity)]
fn check_repairs<'r>(
    k: usize,
    repairs: &[(u8, &'r [u8])],
) -> Result<(ArrayVec<(u8, &'r [u8]), MAX_SOURCES>, usize), DecodeError> {
    let mut sorted: ArrayVec<(u8, &[u8]), MAX_SOURCES> = ArrayVec::new();
    for &(index, symbol) in repairs {
        let given = symbol.len();
        if !(PREFIX..=PREFIX + MAX_SOURCE_LEN).contains(&given) {
            return Err(DecodeError::RepairLength { given });
        }
        match sorted.first() {
            Some((_, first)) if first.len() != given => {
                return Err(DecodeError::UnequalRepairs { expected: first.len(), given });
            }
            _ => {}
        }
        row(index, k).ok_or(DecodeError::BlockTooLarge { sources: k, index })?;
        // Indices are below 255, so symbols that do not fit cannot all be different.
        let position = sorted.partition_point(|&(other, _)| other < index);
        if sorted.get(position).is_some_and(|&(other, _)| other == index) || sorted.is_full() {
            return Err(DecodeError::RepeatedRepair { index });
        }
        sorted.insert(position, (index, symbol));
    }
    let symbol_len = sorted.first().map_or(PREFIX, |(_, first)| first.len());
    Ok((sorted, symbol_len))
}

/// Subtracts from the repair symbols all that is known, so that only combinations of the lost
/// sources remain.
fn subtract_known(
    syndromes: &mut Vec<u8>,
    symbol_len: usize,
    repairs: &[(u8, &[u8])],
    lost: &[u8],
    k: usize,
    known: &[&[u8]],
) {
    syndromes.resize(symbol_len * repairs.len(), 0);
    let tiles = syndromes.chunks_mut(symbol_len * Kernels::TILE);
    for (outs, repairs) in tiles.zip(repairs.chunks(Kernels::TILE)) {
        let mut outs: ArrayVec<&mut [u8], { Kernels::TILE }> = outs.chunks_mut(symbol_len).collect();
        let init: ArrayVec<&[u8], { Kernels::TILE }> = repairs.iter().map(|&(_, symbol)| symbol).collect();
        let mut buffer: Rows = [[0; MAX_SOURCES]; Kernels::TILE];
        let mut rows: ArrayVec<&[u8], { Kernels::TILE }> = ArrayVec::new();
        for (buffer, &(index, _)) in buffer.iter_mut().zip(repairs) {
            rows.push(without(lost, row(index, k).unwrap_or_default(), buffer));
        }
        symbol::combine(&mut outs, &init, &rows, known);
    }
}

/// Copies a row without the coefficients of the lost sources, which are in order.
fn without<'b>(lost: &[u8], row: &[u8], buffer: &'b mut [u8; MAX_SOURCES]) -> &'b [u8] {
    let (mut from, mut to) = (0, 0);
    for end in lost.iter().map(|&i| usize::from(i)).chain([row.len()]) {
        buffer[to..to + end - from].copy_from_slice(&row[from..end]);
        to += end - from;
        from = end + 1;
    }
    &buffer[..to]
}

/// Inverts the matrix of c(j, i) of the given repair symbols j and lost sources i, in e x e steps.
///
/// With a(r) = x of the r-th repair symbol, b(l) = y of the l-th lost source, and differences being
/// sums:
///
/// ```text
/// c(r, l)       = (x(0) + b(l)) / (a(r) + b(l))
/// inverse(l, r) = P(r) Q(l) / ((x(0) + b(l)) (a(r) + b(l)))
/// P(r) = product over all m of (a(r) + b(m))  /  product over m != r of (a(r) + a(m))
/// Q(l) = product over all m of (a(m) + b(l))  /  product over m != l of (b(l) + b(m))
/// ```
fn invert(inverse: &mut Vec<u8>, repairs: &[(u8, &[u8])], lost: &[u8]) {
    let a: ArrayVec<u8, MAX_SOURCES> = repairs.iter().map(|&(index, _)| x(index)).collect();
    let b: ArrayVec<u8, MAX_SOURCES> = lost.iter().map(|&index| y(index)).collect();
    let p: ArrayVec<u8, MAX_SOURCES> = a.iter().map(|&e| ratio(e, &b, &a)).collect();
    inverse.clear();
    for &l in &b {
        let q = field::div(ratio(l, &a, &b), field::add(x(0), l));
        let entry = |(&r, &p)| field::div(field::mul(p, q), field::add(r, l));
        inverse.extend(a.iter().zip(&p).map(entry));
    }
}

/// The product of the differences of `e` to all of `others`, over that to all of its `own` kind but
/// itself.
///
/// Repair symbols and sources have different elements, so no factor is zero.
fn ratio(e: u8, others: &[u8], own: &[u8]) -> u8 {
    let numerator = others.iter().fold(1, |product, &other| field::mul(product, field::add(e, other)));
    let own = own.iter().filter(|&&other| other != e);
    let denominator = own.fold(1, |product, &other| field::mul(product, field::add(e, other)));
    field::div(numerator, denominator)
}

/// Multiplies the syndromes by the inverse; prefixes are treated like all other bytes.
fn solve(symbols: &mut Vec<u8>, symbol_len: usize, inverse: &[u8], syndromes: &[u8]) {
    let sources: ArrayVec<&[u8], MAX_SOURCES> = syndromes.chunks_exact(symbol_len).collect();
    symbols.resize(syndromes.len(), 0);
    let tiles = symbols.chunks_mut(symbol_len * Kernels::TILE);
    for (outs, rows) in tiles.zip(inverse.chunks(sources.len() * Kernels::TILE)) {
        let mut outs: ArrayVec<&mut [u8], { Kernels::TILE }> = outs.chunks_mut(symbol_len).collect();
        let rows: ArrayVec<&[u8], { Kernels::TILE }> = rows.chunks_exact(sources.len()).collect();
        Kernels::detect().product(&mut outs, &rows, &sources);
    }
}
