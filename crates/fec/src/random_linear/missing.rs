//! Recovering only what is missing, beside whoever keeps what was received.

use arrayvec::ArrayVec;
use gf256::{Kernels, field};

use super::{Innovation, coefficients};
use crate::{DecodeError, MAX_SOURCE_LEN, MAX_SOURCES, PREFIX, symbol};

/// The decoder of one block for a receiver that keeps the received sources itself.
///
/// Received sources pass the decoder by. It holds equations over the missing ones only: for M
/// missing sources at most M symbols and M x M coefficients, allocated as repair symbols come. The
/// equations are always fully reduced, so a source is known as soon as the symbols determine it.
/// Cost per repair symbol: one pass over the received sources of the block, and one multiplication
/// of a symbol for every equation held.
///
/// A source that arrived but is not kept any more counts as missing; it is rebuilt like the others.
#[derive(Clone, Debug)]
pub struct MissingDecoder {
    seed: u32,
    k: usize,
    symbol_len: usize,
    /// The sources that were missing at the start, in ascending order: the columns.
    missing: ArrayVec<u8, MAX_SOURCES>,
    /// Whether each column's source is known by now: because it was added, or because it was
    /// reported.
    known: ArrayVec<bool, MAX_SOURCES>,
    equations: Vec<Equation>,
}

/// The missing sources' virtual symbols, times the coefficients, add up to the symbol.
#[derive(Clone, Debug)]
struct Equation {
    /// The column in which it has coefficient 1 and every other equation 0.
    pivot: usize,
    coefficients: Vec<u8>,
    symbol: Vec<u8>,
}

impl Equation {
    /// Adds `factor` times `other`.
    fn add(&mut self, other: &Self, factor: u8) {
        Kernels::detect().mul_add(&mut self.coefficients, &other.coefficients, factor);
        Kernels::detect().mul_add(&mut self.symbol, &other.symbol, factor);
    }

    /// Whether it gives its pivot's source.
    fn is_solved(&self) -> bool {
        self.coefficients.iter().filter(|&&c| c != 0).count() == 1
    }
}

impl MissingDecoder {
    /// A decoder of a block of `k` sources with `seed`, whose repair symbols have `symbol_len`
    /// bytes, and of whose sources `is_missing`.
    ///
    /// # Errors
    /// [`DecodeError::SourceCount`] unless 1 <= `k` <= [`MAX_SOURCES`];
    /// [`DecodeError::RepairLength`] unless [`PREFIX`] <= `symbol_len` <= [`PREFIX`] +
    /// [`MAX_SOURCE_LEN`].
    pub fn new(
        seed: u32,
        k: usize,
        symbol_len: usize,
        is_missing: impl Fn(usize) -> bool,
    ) -> Result<Self, DecodeError> {
        if k == 0 || k > MAX_SOURCES {
            return Err(DecodeError::SourceCount { sources: k });
        }
        if !(PREFIX..=PREFIX + MAX_SOURCE_LEN).contains(&symbol_len) {
            return Err(DecodeError::RepairLength { given: symbol_len });
        }
        let missing: ArrayVec<u8, MAX_SOURCES> = (0..k).filter(|&i| is_missing(i)).map(|i| i as u8).collect();
        let known = missing.iter().map(|_| false).collect();
        Ok(Self { seed, k, symbol_len, missing, known, equations: Vec::new() })
    }

    /// Takes a repair symbol of the block; `source` gives the sources that were not missing at the
    /// start, and is asked for no other.
    ///
    /// # Errors
    /// [`DecodeError::UnequalRepairs`] if its length is not the block's,
    /// [`DecodeError::SourceGone`], [`DecodeError::SourceTooLong`]; the decoder is then unchanged.
    pub fn add_repair<'a>(
        &mut self,
        index: u32,
        symbol: &[u8],
        source: impl Fn(usize) -> Option<&'a [u8]>,
    ) -> Result<Innovation, DecodeError> {
        if symbol.len() != self.symbol_len {
            return Err(DecodeError::UnequalRepairs { expected: self.symbol_len, given: symbol.len() });
        }
        if self.is_complete() {
            return Ok(Innovation::Redundant);
        }
        let mut equation = self.without_received(index, symbol, source)?;
        for held in &self.equations {
            let factor = equation.coefficients[held.pivot];
            equation.add(held, factor); // held equations are zero at each other's pivots
        }
        Ok(if self.hold(equation) { Innovation::Innovative } else { Innovation::Redundant })
    }

    /// Takes source `index`, which was missing and has arrived after all. One that was not missing
    /// changes nothing.
    ///
    /// # Errors
    /// [`DecodeError::SourceIndex`], [`DecodeError::SourceTooLong`]; the decoder is then unchanged.
    pub fn add_source(&mut self, index: usize, source: &[u8]) -> Result<Innovation, DecodeError> {
        let max = self.symbol_len - PREFIX;
        if index >= self.k {
            return Err(DecodeError::SourceIndex { source_index: index, sources: self.k });
        }
        if source.len() > max {
            return Err(DecodeError::SourceTooLong { source_index: index, len: source.len(), max });
        }
        let column = self.missing.iter().position(|&i| usize::from(i) == index);
        let Some(column) = column.filter(|&column| !self.known[column]) else {
            return Ok(Innovation::Redundant);
        };
        let mut virtual_symbol = vec![0; self.symbol_len];
        virtual_symbol[..PREFIX].copy_from_slice(&(source.len() as u16).to_be_bytes());
        virtual_symbol[PREFIX..][..source.len()].copy_from_slice(source);
        let mut coefficients = vec![0; self.missing.len()];
        coefficients[column] = 1;
        let was_solved = self.equations.iter().any(|e| e.pivot == column && e.is_solved());
        self.known[column] = true;
        if was_solved {
            return Ok(Innovation::Redundant);
        }
        let unit = Equation { pivot: column, coefficients, symbol: virtual_symbol };
        let displaced = self.equations.iter().position(|e| e.pivot == column);
        let displaced = displaced.map(|at| core::mem::replace(&mut self.equations[at], unit.clone()));
        for equation in self.equations.iter_mut().filter(|e| e.pivot != column) {
            let factor = equation.coefficients[column];
            equation.add(&unit, factor);
        }
        match displaced {
            Some(mut equation) => {
                equation.add(&unit, 1);
                // It held more than this source, or it would have been solved.
                self.hold(equation);
            }
            None => self.equations.push(unit),
        }
        Ok(Innovation::Innovative)
    }

    /// The next rebuilt source that has not been returned yet, and was not added either, with its
    /// index. Call until `None`.
    ///
    /// # Errors
    /// [`DecodeError::Corrupt`], once for every source that turned out to be none: drop the
    /// decoder.
    pub fn next_rebuilt(&mut self) -> Option<Result<(usize, &[u8]), DecodeError>> {
        let known = &self.known;
        let solved =
            self.equations.iter().filter(|e| !known[e.pivot] && e.is_solved()).min_by_key(|e| e.pivot)?;
        self.known[solved.pivot] = true;
        let index = usize::from(self.missing[solved.pivot]);
        Some(
            symbol::unframe(&solved.symbol)
                .map(|s| (index, s))
                .ok_or(DecodeError::Corrupt { source_index: index }),
        )
    }

    /// Sources that were missing at the start and have neither been added nor are determined: how
    /// many more symbols it takes at least.
    pub fn lacking(&self) -> usize {
        self.missing.len() - self.equations.len()
    }

    /// Innovative symbols of the block so far, received sources included: the degrees of freedom
    /// that CTCP acknowledges.
    pub fn rank(&self) -> usize {
        self.k - self.lacking()
    }

    /// Whether every source is known or determined.
    pub fn is_complete(&self) -> bool {
        self.lacking() == 0
    }

    /// Bytes that the equations take.
    pub fn memory(&self) -> usize {
        self.equations.len() * (self.symbol_len + self.missing.len())
    }

    /// What a repair symbol says about the missing sources.
    fn without_received<'a>(
        &self,
        index: u32,
        symbol: &[u8],
        source: impl Fn(usize) -> Option<&'a [u8]>,
    ) -> Result<Equation, DecodeError> {
        let max = self.symbol_len - PREFIX;
        let mut columns = self.missing.iter().map(|&i| usize::from(i)).peekable();
        let mut coefficients_left = Vec::with_capacity(self.missing.len());
        let mut factors: ArrayVec<u8, MAX_SOURCES> = ArrayVec::new();
        let mut received: ArrayVec<&[u8], MAX_SOURCES> = ArrayVec::new();
        for (i, c) in coefficients(self.seed, index, 0..self.k).enumerate() {
            if columns.next_if_eq(&i).is_some() {
                coefficients_left.push(c);
                continue;
            }
            let source = source(i).ok_or(DecodeError::SourceGone { source_index: i })?;
            if source.len() > max {
                return Err(DecodeError::SourceTooLong { source_index: i, len: source.len(), max });
            }
            factors.push(c);
            received.push(source);
        }
        let mut rest = vec![0; self.symbol_len];
        symbol::combine(&mut [&mut rest], &[symbol], &[&factors], &received);
        Ok(Equation { pivot: 0, coefficients: coefficients_left, symbol: rest })
    }

    /// Holds an equation that is zero at all pivots. Returns whether there was anything in it.
    fn hold(&mut self, mut equation: Equation) -> bool {
        let Some(pivot) = equation.coefficients.iter().position(|&c| c != 0) else { return false };
        let factor = field::inv(equation.coefficients[pivot]);
        Kernels::detect().mul_assign(&mut equation.coefficients, factor);
        Kernels::detect().mul_assign(&mut equation.symbol, factor);
        equation.pivot = pivot;
        for held in &mut self.equations {
            let factor = held.coefficients[pivot];
            held.add(&equation, factor);
        }
        self.equations.push(equation);
        true
    }
}
