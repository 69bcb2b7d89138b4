//! Which segments are rebuilt from coded packets that each combine a run of consecutive ones: the
//! receiving end of block and sliding-window codes.
//!
//! Payloads do not exist; what counts is whether the equations that arrived determine a segment.
//! Their coefficients are drawn from the field of 2^31 - 1 elements by a hash of the packet's number
//! and the segment's, so that all but one in 10^9 combinations are as good as any other; real codes
//! use GF(2^8), where it is one in 250.
//!
//! # Bounds
//! [`MAX_EQUATIONS`] that wait, each of at most [`MAX_SPAN`] segments; of one more, the oldest goes.

use std::collections::BTreeMap;

/// A prime.
const FIELD: u64 = (1 << 31) - 1;
/// Most equations that wait for more.
pub(super) const MAX_EQUATIONS: usize = 64;
/// Most segments of a coded packet.
pub(super) const MAX_SPAN: u32 = 255;

/// Coefficients of the segments that are unknown; the first is 1, and no other equation has it.
type Equation = BTreeMap<u32, u64>;

#[derive(Default, Debug)]
pub(super) struct SpanDecoder {
    equations: Vec<Equation>,
}

/// The coefficient of `segment` in coded packet `number`: never 0.
fn coefficient(number: u32, segment: u32) -> u64 {
    let mixed = (u64::from(number) << 32 | u64::from(segment)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    1 + (mixed ^ (mixed >> 32)) % (FIELD - 1)
}

/// The inverse of `a`, by Fermat.
fn inverse(a: u64) -> u64 {
    let (mut result, mut power, mut exponent) = (1, a, FIELD - 2);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * power % FIELD;
        }
        power = power * power % FIELD;
        exponent >>= 1;
    }
    result
}

/// Takes `times` x `other` from `equation`.
fn subtract(equation: &mut Equation, times: u64, other: &Equation) {
    for (segment, value) in other {
        let had = equation.get(segment).copied().unwrap_or(0);
        let left = (had + FIELD - times * value % FIELD) % FIELD;
        if left == 0 {
            equation.remove(segment)
        } else {
            equation.insert(*segment, left)
        };
    }
}

impl SpanDecoder {
    /// Coded packet `number` over the segments `first..end` arrived, of which `known` says which are
    /// here. Adds to `rebuilt` what is determined now.
    pub(super) fn add(
        &mut self,
        number: u32,
        (first, end): (u32, u32),
        known: impl Fn(u32) -> bool,
        rebuilt: &mut Vec<u32>,
    ) {
        if end.saturating_sub(first) > MAX_SPAN {
            return;
        }
        let unknown = (first..end).filter(|segment| !known(*segment));
        let new: Equation = unknown.map(|segment| (segment, coefficient(number, segment))).collect();
        if self.equations.len() >= MAX_EQUATIONS {
            self.equations.remove(0);
        }
        self.take_in(new);
        self.take_determined(rebuilt);
    }

    /// A segment arrived by itself.
    pub(super) fn learn(&mut self, segment: u32, rebuilt: &mut Vec<u32>) {
        if self.equations.is_empty() {
            return;
        }
        let (with, rest) =
            std::mem::take(&mut self.equations).into_iter().partition(|known| known.contains_key(&segment));
        self.equations = rest;
        // The first of its unknown ones may be gone: they are taken in anew.
        for mut equation in with {
            equation.remove(&segment);
            self.take_in(equation);
        }
        self.take_determined(rebuilt);
    }

    /// An equation whose first coefficient need not be 1, in unknown segments only.
    fn take_in(&mut self, mut new: Equation) {
        for known in &self.equations {
            let Some((pivot, _)) = known.first_key_value() else { continue };
            if let Some(times) = new.get(pivot).copied() {
                subtract(&mut new, times, known);
            }
        }
        let Some((pivot, value)) = new.first_key_value().map(|(pivot, value)| (*pivot, *value)) else {
            return;
        };
        let scale = inverse(value);
        new.values_mut().for_each(|value| *value = *value * scale % FIELD);
        for known in &mut self.equations {
            if let Some(times) = known.get(&pivot).copied() {
                subtract(known, times, &new);
            }
        }
        self.equations.push(new);
    }

    /// Equations with one unknown segment say what it is.
    fn take_determined(&mut self, rebuilt: &mut Vec<u32>) {
        self.equations.retain(|equation| {
            let only = if equation.len() == 1 { equation.keys().next() } else { None };
            rebuilt.extend(only);
            only.is_none()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments that arrive in this order, and coded packets over runs; what is rebuilt after each
    /// coded packet.
    fn rebuilt(arrived: &[u32], coded: &[(u32, u32)]) -> Vec<Vec<u32>> {
        let mut decoder = SpanDecoder::default();
        let mut known: Vec<u32> = arrived.to_vec();
        let step = |(number, run): (u32, &(u32, u32))| {
            let mut found = Vec::new();
            decoder.add(number, *run, |segment| known.contains(&segment), &mut found);
            found.sort_unstable();
            known.extend(&found);
            found
        };
        (0..).zip(coded).map(step).collect()
    }

    #[test]
    fn a_block_needs_as_many_coded_packets_as_segments_are_missing() {
        let found = rebuilt(&[0, 1, 3, 4, 6, 9], &[(0, 10); 5]);
        assert_eq!(found, [vec![], vec![], vec![], vec![2, 5, 7, 8], vec![]]);
    }

    /// 2 is missing from the first two runs, 5 from the last two: two coded packets for both, of
    /// which neither alone says which.
    #[test]
    fn overlapping_windows_help_each_other() {
        assert_eq!(rebuilt(&[0, 1, 3, 4, 6, 7], &[(0, 6), (2, 8)]), [vec![], vec![2, 5]]);
        // A window that holds only one of them gives that one away, and so the other.
        assert_eq!(rebuilt(&[0, 1, 3, 4, 6, 7], &[(0, 6), (4, 8)]), [vec![], vec![2, 5]]);
        // Windows over the same two, and one more that is missing: three are needed.
        assert_eq!(rebuilt(&[0], &[(0, 4), (0, 4), (1, 4)]), [vec![], vec![], vec![1, 2, 3]]);
    }

    #[test]
    fn a_segment_that_comes_late_completes_what_waits() {
        let mut decoder = SpanDecoder::default();
        let mut found = Vec::new();
        decoder.add(0, (0, 3), |_| false, &mut found);
        decoder.add(1, (0, 3), |_| false, &mut found);
        decoder.learn(7, &mut found);
        assert!(found.is_empty());
        decoder.learn(0, &mut found);
        found.sort_unstable();
        assert_eq!(found, [1, 2]);
        assert!(decoder.equations.is_empty());
    }

    #[test]
    fn the_oldest_equation_gives_way_and_runs_that_are_too_long_are_ignored() {
        let mut decoder = SpanDecoder::default();
        let mut found = Vec::new();
        for number in 0..=MAX_EQUATIONS as u32 {
            decoder.add(number, (10 * number, 10 * number + 2), |_| false, &mut found);
        }
        assert_eq!(decoder.equations.len(), MAX_EQUATIONS);
        decoder.learn(0, &mut found); // its equation was forgotten
        assert!(found.is_empty());
        decoder.learn(10, &mut found);
        assert_eq!(found, [11]);
        let before = decoder.equations.len();
        decoder.add(99, (0, MAX_SPAN + 1), |_| false, &mut found);
        assert_eq!(decoder.equations.len(), before);
    }
}
