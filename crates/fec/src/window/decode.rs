//! Solving for lost sources, symbol by symbol.

use std::cmp::Ordering;

use gf256::{Kernels, field};

use super::{SPAN, coefficient};
use crate::{DecodeError, MAX_SOURCE_LEN, MAX_SOURCES, PREFIX, random_linear::Innovation, symbol};

/// Most sources of an equation: so many a window can have. Windows that overlap like the links of a
/// chain would make equations of any length.
const MAX_TERMS: usize = SPAN as usize;

/// What several symbols say about sources that are not known, for a receiver that keeps the known
/// ones itself.
///
/// Equations are always fully reduced, so a source is known as soon as the symbols determine it. At
/// most so many equations are held as its maker says; the one whose sources are the oldest gives way
/// to another. An equation about a source that lies [`SPAN`] behind a window is forgotten: no later
/// window reaches back to it. So is one that comes to have more than [`SPAN`] sources.
///
/// Cost of a symbol: one pass over the known sources of its window, and two multiplications of a
/// symbol and of an equation's coefficients, one by one, for every equation held. Of a source: as many
/// for those that have it.
#[derive(Clone, Debug)]
pub struct Decoder {
    most: usize,
    equations: Vec<Equation>,
    /// Equations that were solved and not fetched yet.
    solved: Vec<Equation>,
}

/// Sources' virtual symbols, times the coefficients, add up to the symbol.
#[derive(Clone, Debug)]
struct Equation {
    /// The source in which it has coefficient 1 and every other equation 0.
    pivot: u64,
    /// Ascending, none of them zero.
    terms: Vec<(u64, u8)>,
    symbol: Vec<u8>,
}

impl Equation {
    fn factor(&self, number: u64) -> u8 {
        self.terms.binary_search_by_key(&number, |(n, _)| *n).map_or(0, |at| self.terms[at].1)
    }

    /// Adds `factor` times `other`.
    fn add(&mut self, other: &Self, factor: u8) {
        if factor == 0 {
            return;
        }
        let mut sum = Vec::with_capacity(self.terms.len() + other.terms.len());
        let (mut ours, mut theirs) = (&self.terms[..], &other.terms[..]);
        while let (Some(&(n, a)), Some(&(m, b))) = (ours.first(), theirs.first()) {
            let b = field::mul(b, factor);
            match n.cmp(&m) {
                Ordering::Less => sum.push((n, a)),
                Ordering::Greater => sum.push((m, b)),
                Ordering::Equal => sum.extend((a != b).then_some((n, field::add(a, b)))),
            }
            ours = &ours[usize::from(n <= m)..];
            theirs = &theirs[usize::from(m <= n)..];
        }
        sum.extend_from_slice(ours);
        sum.extend(theirs.iter().map(|&(m, b)| (m, field::mul(b, factor))));
        self.terms = sum;
        if self.symbol.len() < other.symbol.len() {
            self.symbol.resize(other.symbol.len(), 0);
        }
        Kernels::detect().mul_add(&mut self.symbol[..other.symbol.len()], &other.symbol, factor);
    }

    fn bytes(&self) -> usize {
        self.symbol.len() + self.terms.len() * size_of::<(u64, u8)>()
    }
}

impl Decoder {
    /// A decoder that holds at most `most` equations, at least one.
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), equations: Vec::new(), solved: Vec::new() }
    }

    /// Takes repair symbol `id` over the sources `members`, in ascending order; `source` gives those
    /// that are known.
    ///
    /// # Errors
    /// [`DecodeError::SourceCount`] and [`DecodeError::WindowTooWide`] if there is no such window,
    /// [`DecodeError::RepairLength`], [`DecodeError::SourceTooLong`] if a known source is longer than
    /// the symbol allows. The decoder is then unchanged.
    pub fn add_repair<'a>(
        &mut self,
        members: &[u64],
        id: u64,
        symbol: &[u8],
        source: impl Fn(u64) -> Option<&'a [u8]>,
    ) -> Result<Innovation, DecodeError> {
        let (Some(&first), Some(&last)) = (members.first(), members.last()) else {
            return Err(DecodeError::SourceCount { sources: 0 });
        };
        if members.len() > MAX_SOURCES {
            return Err(DecodeError::SourceCount { sources: members.len() });
        }
        if last < first || last - first >= SPAN || !members.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(DecodeError::WindowTooWide);
        }
        let mut equation = without_known(members, id, symbol, source)?;
        self.equations.retain(|held| last.saturating_sub(held.pivot) < SPAN);
        for held in &self.equations {
            equation.add(held, equation.factor(held.pivot)); // held ones are zero at each other's pivots
            if equation.terms.len() > MAX_TERMS {
                return Ok(Innovation::Redundant);
            }
        }
        let innovation =
            if equation.terms.is_empty() { Innovation::Redundant } else { Innovation::Innovative };
        self.hold(equation);
        self.collect();
        Ok(innovation)
    }

    /// A source is known that was not.
    ///
    /// # Errors
    /// [`DecodeError::SourceTooLong`] if it is longer than a symbol that covers it allows: that
    /// symbol is not one of this code, and its equations are forgotten.
    pub fn add_source(&mut self, number: u64, source: &[u8]) -> Result<(), DecodeError> {
        if !self.lacks(number) {
            return Ok(());
        }
        let fits = |held: &Equation| held.factor(number) == 0 || held.symbol.len() >= PREFIX + source.len();
        let max = self.longest().saturating_sub(PREFIX);
        let before = self.equations.len();
        self.equations.retain(fits);
        let sound = self.equations.len() == before;
        let mut displaced = None;
        let mut at = 0;
        while at < self.equations.len() {
            let held = &mut self.equations[at];
            let factor = held.factor(number);
            if factor != 0 {
                symbol::accumulate(&mut held.symbol, source, factor);
                held.terms.retain(|(n, _)| *n != number);
            }
            if held.pivot == number {
                displaced = Some(self.equations.remove(at));
            } else {
                at += 1;
            }
        }
        if let Some(equation) = displaced {
            self.hold(equation);
        }
        self.collect();
        if sound {
            Ok(())
        } else {
            Err(DecodeError::SourceTooLong { source_index: named(number), len: source.len(), max })
        }
    }

    /// The next rebuilt source that has not been returned yet, with its number. Call until `None`.
    ///
    /// # Errors
    /// [`DecodeError::Corrupt`] if what was solved for is no source: a symbol is not one of this code.
    pub fn next_rebuilt(&mut self) -> Option<Result<(u64, Vec<u8>), DecodeError>> {
        let solved = self.solved.pop()?;
        let source = symbol::unframe(&solved.symbol).map(|source| (solved.pivot, source.to_vec()));
        Some(source.ok_or(DecodeError::Corrupt { source_index: named(solved.pivot) }))
    }

    /// Whether an equation has a source in it.
    pub fn lacks(&self, number: u64) -> bool {
        self.equations.iter().any(|held| held.factor(number) != 0)
    }

    /// How many equations are held.
    pub fn equations(&self) -> usize {
        self.equations.len()
    }

    /// How many sources these have, each counted as often as it occurs.
    pub fn terms(&self) -> usize {
        self.equations.iter().map(|held| held.terms.len()).sum()
    }

    /// Bytes of the longest symbol held.
    pub fn longest(&self) -> usize {
        self.equations.iter().map(|held| held.symbol.len()).max().unwrap_or(0)
    }

    /// Bytes that the equations take.
    pub fn memory(&self) -> usize {
        self.equations.iter().chain(&self.solved).map(Equation::bytes).sum()
    }

    /// Forgets the equation whose sources are the oldest; false if there is none.
    pub fn drop_oldest(&mut self) -> bool {
        let newest = |held: &Equation| held.terms.last().map(|(number, _)| *number);
        let oldest = (0..self.equations.len()).min_by_key(|&at| newest(&self.equations[at]));
        oldest.is_some_and(|at| {
            self.equations.remove(at);
            true
        })
    }

    /// Holds an equation that is zero at all pivots, if there is anything in it.
    fn hold(&mut self, mut equation: Equation) {
        let Some(&(pivot, factor)) = equation.terms.first() else { return };
        let scale = field::inv(factor);
        equation.terms.iter_mut().for_each(|(_, c)| *c = field::mul(*c, scale));
        Kernels::detect().mul_assign(&mut equation.symbol, scale);
        equation.pivot = pivot;
        for held in &mut self.equations {
            held.add(&equation, held.factor(pivot));
        }
        self.equations.retain(|held| held.terms.len() <= MAX_TERMS);
        if self.equations.len() >= self.most {
            self.drop_oldest();
        }
        self.equations.push(equation);
    }

    /// Takes out what is solved. No other equation has the source in it: it is a pivot.
    fn collect(&mut self) {
        let solved = |held: &mut Equation| held.terms.len() == 1;
        self.solved.extend(self.equations.extract_if(.., solved));
    }
}

/// A source's number as errors have it.
fn named(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// What a symbol says about the sources that are not known.
fn without_known<'a>(
    members: &[u64],
    id: u64,
    symbol: &[u8],
    source: impl Fn(u64) -> Option<&'a [u8]>,
) -> Result<Equation, DecodeError> {
    let max = symbol.len().checked_sub(PREFIX).filter(|max| *max <= MAX_SOURCE_LEN);
    let max = max.ok_or(DecodeError::RepairLength { given: symbol.len() })?;
    let mut terms = Vec::new();
    let (mut factors, mut known): (Vec<u8>, Vec<&[u8]>) = (Vec::new(), Vec::new());
    for &number in members {
        let c = coefficient(id, number);
        let Some(source) = source(number) else {
            terms.push((number, c));
            continue;
        };
        if source.len() > max {
            return Err(DecodeError::SourceTooLong { source_index: named(number), len: source.len(), max });
        }
        factors.push(c);
        known.push(source);
    }
    let mut rest = vec![0; symbol.len()];
    symbol::combine(&mut [&mut rest], &[symbol], &[&factors], &known);
    Ok(Equation { pivot: 0, terms, symbol: rest })
}
