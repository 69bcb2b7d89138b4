use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{
    DecodeError, EncodeError, MAX_SOURCE_LEN, PREFIX,
    oracle::{self, Noise, slices},
    random_linear::Innovation,
    symbol_len,
};

/// The definition, without tables.
fn oracle_coefficient(symbol: u64, number: u64) -> u8 {
    oracle::inv((192 + symbol % 64) as u8 ^ (number % 192) as u8)
}

/// Sources from `first` on.
struct Stream {
    first: u64,
    sources: Vec<Vec<u8>>,
}

impl Stream {
    fn new(first: u64, count: usize, seed: u64) -> Self {
        Self { first, sources: Noise(seed).sources(count, 40) }
    }

    fn source(&self, number: u64) -> &[u8] {
        &self.sources[(number - self.first) as usize]
    }

    fn repair(&self, members: &[u64], symbol: u64) -> Vec<u8> {
        let sources: Vec<(u64, &[u8])> = members.iter().map(|&n| (n, self.source(n))).collect();
        let bytes: Vec<&[u8]> = sources.iter().map(|(_, bytes)| *bytes).collect();
        let mut out = vec![0xee; symbol_len(&bytes)];
        encode(&sources, symbol, &mut out).unwrap();
        out
    }
}

/// A receiver that keeps what it knows.
struct Receiver<'a> {
    stream: &'a Stream,
    known: BTreeMap<u64, Vec<u8>>,
    decoder: Decoder,
}

impl<'a> Receiver<'a> {
    fn new(stream: &'a Stream) -> Self {
        Self { stream, known: BTreeMap::new(), decoder: Decoder::new(64) }
    }

    fn source(&mut self, number: u64) {
        let bytes = self.stream.source(number);
        self.known.insert(number, bytes.to_vec());
        self.decoder.add_source(number, bytes).unwrap();
        self.fetch();
    }

    fn repair(&mut self, members: &[u64], symbol: u64) -> Innovation {
        let bytes = self.stream.repair(members, symbol);
        let known = &self.known;
        let innovation =
            self.decoder.add_repair(members, symbol, &bytes, |n| known.get(&n).map(Vec::as_slice)).unwrap();
        self.fetch();
        innovation
    }

    fn fetch(&mut self) {
        while let Some(next) = self.decoder.next_rebuilt() {
            let (number, bytes) = next.unwrap();
            assert_eq!(bytes, self.stream.source(number), "source {number}");
            assert!(self.known.insert(number, bytes).is_none(), "source {number} twice");
        }
    }
}

#[test]
fn coefficients_are_a_cauchy_matrix_by_definition() {
    for symbol in [0, 1, 63, 64, 1 << 40, u64::MAX] {
        for number in (0..200).chain([1 << 61, u64::MAX]) {
            assert_eq!(coefficient(symbol, number), oracle_coefficient(symbol, number));
            assert_ne!(coefficient(symbol, number), 0);
        }
    }
    assert_eq!([7, 8, 10].map(|number| coefficient(1, number)), [0xa3, 0xf7, 0x5a], "docs/wire-format.md");
}

#[test]
fn symbols_match_the_oracle() {
    let stream = Stream::new(1_000, 192, 1);
    for (members, symbol) in [(vec![1_000], 0), ((1_000..1_192).collect(), 77), (vec![1_003, 1_100], 5)] {
        let row: Vec<u8> = members.iter().map(|&n| oracle_coefficient(symbol, n)).collect();
        let sources: Vec<Vec<u8>> = members.iter().map(|&n| stream.source(n).to_vec()).collect();
        let expected = oracle::combine(&row, &oracle::frame(&sources));
        assert_eq!(stream.repair(&members, symbol), expected);
    }
}

#[test]
fn what_is_no_window_is_refused() {
    let mut out = [0; 10];
    let a: &[u8] = b"a";
    assert_eq!(encode(&[(0, a), (192, a)], 0, &mut out), Err(EncodeError::WindowTooWide));
    assert_eq!(encode(&[(1, a), (1, a)], 0, &mut out), Err(EncodeError::WindowTooWide));
    assert_eq!(encode(&[], 0, &mut out), Err(EncodeError::SourceCount { sources: 0 }));
    assert!(matches!(encode(&[(1, a)], 0, &mut out[..2]), Err(EncodeError::OutputTooShort { .. })));
    let long = vec![0; MAX_SOURCE_LEN + 1];
    assert!(matches!(encode(&[(1, &long)], 0, &mut out), Err(EncodeError::SourceTooLong { .. })));
    let mut decoder = Decoder::new(4);
    let mut add = |members: &[u64], symbol: &[u8], known: Option<&'static [u8]>| {
        decoder.add_repair(members, 0, symbol, |_| known)
    };
    assert_eq!(add(&[], &[0; 3], None), Err(DecodeError::SourceCount { sources: 0 }));
    assert_eq!(add(&[5, 197], &[0; 3], None), Err(DecodeError::WindowTooWide));
    assert_eq!(add(&[5, 4], &[0; 3], None), Err(DecodeError::WindowTooWide));
    assert_eq!(add(&[5], &[0], None), Err(DecodeError::RepairLength { given: 1 }));
    let too_many = PREFIX + MAX_SOURCE_LEN + 1;
    assert_eq!(add(&[5], &vec![0; too_many], None), Err(DecodeError::RepairLength { given: too_many }));
    let too_long = DecodeError::SourceTooLong { source_index: 5, len: 2, max: 1 };
    assert_eq!(add(&[5], &[0; 3], Some(b"no")), Err(too_long));
    assert_eq!((decoder.equations(), decoder.memory()), (0, 0), "unchanged");
}

#[test]
fn the_last_numbers_there_are_make_a_window_too() {
    let first = u64::MAX - 199;
    let stream = Stream::new(first, 200, 5);
    let mut receiver = Receiver::new(&stream);
    for number in (first..=u64::MAX).filter(|number| number % 50 != 3) {
        receiver.source(number);
    }
    let members: Vec<u64> = (u64::MAX - 191..=u64::MAX).collect();
    (0..4).for_each(|symbol| _ = receiver.repair(&members, symbol));
    assert!(members.iter().all(|number| receiver.known.contains_key(number)));
}

/// What arrives that cannot be: the decoder says so and goes on.
#[test]
fn forged_symbols_are_found_out_or_harmless() {
    let mut decoder = Decoder::new(4);
    // A length of 9 in a symbol of 3 bytes.
    decoder.add_repair(&[7], 0, &[0, 9, 1], |_| None).unwrap();
    assert_eq!(decoder.next_rebuilt(), Some(Err(DecodeError::Corrupt { source_index: 7 })));
    assert_eq!(decoder.next_rebuilt(), None);
    decoder.add_repair(&[8, 9], 0, &[0, 1, 1], |_| None).unwrap();
    let too_long = DecodeError::SourceTooLong { source_index: 8, len: 4, max: 1 };
    assert_eq!(decoder.add_source(8, b"long"), Err(too_long));
    assert_eq!((decoder.equations(), decoder.memory()), (0, 0));
}

#[test]
fn no_more_equations_are_held_than_allowed() {
    let stream = Stream::new(0, 400, 3);
    let mut decoder = Decoder::new(8);
    for symbol in 0..100 {
        let members: Vec<u64> = (symbol..symbol + 60).collect();
        decoder.add_repair(&members, symbol, &stream.repair(&members, symbol), |_| None).unwrap();
        assert!(decoder.equations() <= 8);
    }
    // A window far ahead: nothing behind it is of use any more.
    decoder.add_repair(&[390, 391], 0, &stream.repair(&[390, 391], 0), |_| None).unwrap();
    assert_eq!(decoder.equations(), 1);
    assert!(decoder.drop_oldest() && !decoder.drop_oldest());
}

/// The promise: a symbol after every `every` sources, over the last `reach` of them; any single burst
/// of whatever place and length is made up for before its first source leaves the window, if so many
/// symbols follow until then as it took sources, and not otherwise.
#[test]
fn every_burst_within_the_design_is_rebuilt_by_its_deadline() {
    for (every, reach) in [(1, 9), (2, 24), (3, 24), (4, 60), (7, 100)] {
        let stream = Stream::new(500, 3 * reach + 60, 4);
        let end = 500 + stream.sources.len() as u64;
        for start in [510, 511, 512, 500 + reach as u64] {
            for length in 1..=reach / (every + 1) + 3 {
                check_burst(&stream, end, (every, reach as u64), start, length);
            }
        }
    }
}

/// A burst takes `length` packets in a row, symbols included, from source `start` on.
fn check_burst(stream: &Stream, end: u64, (every, reach): (usize, u64), start: u64, length: usize) {
    let mut receiver = Receiver::new(stream);
    let (mut left, mut lost) = (length, Vec::new());
    let (mut symbol, mut after) = (0, 0);
    for number in stream.first..end {
        let hit = number >= start && left > 0;
        if hit {
            left -= 1;
            lost.push(number);
        } else {
            receiver.source(number);
        }
        if (number - stream.first) % every as u64 == every as u64 - 1 {
            let members: Vec<u64> = (number.saturating_sub(reach - 1).max(stream.first)..=number).collect();
            let reaches_back = lost.first().is_some_and(|first| members[0] <= *first);
            if number >= start && left > 0 {
                left -= 1;
            } else {
                after += usize::from(reaches_back);
                receiver.repair(&members, symbol);
            }
            symbol += 1;
        }
        if left == 0 && lost.first() == Some(&(number.saturating_sub(reach - 1))) {
            let rebuilt = lost.iter().filter(|n| receiver.known.contains_key(n)).count();
            let expected = if after >= lost.len() { lost.len() } else { 0 };
            assert_eq!(rebuilt, expected, "{every} {reach} {start} {length}: {after} symbols");
            return;
        }
    }
}

/// Equations over the sources, reduced, in plain arithmetic.
#[derive(Default)]
struct Matrix(BTreeMap<usize, Vec<u8>>);

impl Matrix {
    /// Adds a row; false if it follows from those there are.
    fn add(&mut self, mut row: Vec<u8>) -> bool {
        let subtract = |row: &mut Vec<u8>, other: &[u8], factor: u8| {
            row.iter_mut()
                .zip(other)
                .for_each(|(a, &b)| *a ^= if b == 0 { 0 } else { oracle::mul(factor, b) });
        };
        for (&pivot, other) in &self.0 {
            let factor = row[pivot];
            subtract(&mut row, other, factor);
        }
        let Some(pivot) = row.iter().position(|&c| c != 0) else { return false };
        let scale = oracle::inv(row[pivot]);
        row.iter_mut().for_each(|c| *c = oracle::mul(*c, scale));
        for other in self.0.values_mut() {
            let factor = other[pivot];
            subtract(other, &row, factor);
        }
        self.0.insert(pivot, row);
        true
    }

    fn determined(&self) -> impl Iterator<Item = usize> {
        let alone = |row: &&Vec<u8>| row.iter().filter(|&&c| c != 0).count() == 1;
        self.0.iter().filter(move |(_, row)| alone(row)).map(|(&pivot, _)| pivot)
    }
}

/// A packet of the stream, as it fares.
#[derive(Clone, Debug)]
enum Event {
    /// A source that arrives now, later, or never.
    Source { delay: Option<u8> },
    /// A symbol over so many sources of which some are left out.
    Repair { reach: u8, skip: u8, lost: bool },
}

fn event() -> impl Strategy<Value = Event> {
    let delay = prop_oneof![6 => Just(Some(0)), 1 => (1..6_u8).prop_map(Some), 3 => Just(None)];
    prop_oneof![
        3 => delay.prop_map(|delay| Event::Source { delay }),
        1 => (1..30_u8, 0..8_u8, prop::bool::weighted(0.2))
            .prop_map(|(reach, skip, lost)| Event::Repair { reach, skip, lost }),
    ]
}

/// Windows from the top down, each of which ends where the one before began: every one lengthens all
/// that are held.
#[test]
fn a_chain_of_windows_makes_no_equation_longer_than_a_window() {
    let mut decoder = Decoder::new(32);
    for link in (0..40).rev() {
        let members: Vec<u64> = (link * (SPAN - 1)..=(link + 1) * (SPAN - 1)).collect();
        decoder.add_repair(&members, link, &[1; 10], |_| None).unwrap();
        assert!(decoder.equations() > 0);
        assert!(decoder.memory() <= decoder.equations() * (10 + SPAN as usize * 16), "{}", decoder.memory());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Whatever is lost and in whichever order the rest arrives: after each packet exactly those
    /// sources are known that the oracle's matrix determines.
    #[test]
    fn exactly_what_is_determined_is_rebuilt(events in prop::collection::vec(event(), 1..90), at in 0..1_u64 << 40) {
        let stream = Stream::new(at, 90, 5);
        let mut receiver = Receiver::new(&stream);
        let mut matrix = Matrix::default();
        let (mut next, mut late) = (at, Vec::new());
        for (time, event) in events.iter().enumerate() {
            match *event {
                Event::Source { delay } => {
                    late.extend(delay.map(|delay| (time + usize::from(delay), next)));
                    next += 1;
                }
                Event::Repair { reach, skip, lost: false } => {
                    let first = next.saturating_sub(u64::from(reach)).max(at);
                    let keeps = |n: &u64| skip == 0 || !n.is_multiple_of(u64::from(skip) + 1);
                    let members: Vec<u64> = (first..next).filter(keeps).collect();
                    if !members.is_empty() {
                        let has = |n| if members.contains(&n) { oracle_coefficient(time as u64, n) } else { 0 };
                        let is_new = matrix.add((at..at + 90).map(has).collect());
                        let innovation = receiver.repair(&members, time as u64);
                        prop_assert_eq!(innovation == Innovation::Innovative, is_new);
                    }
                }
                Event::Repair { .. } => {}
            }
            for (_, number) in late.extract_if(.., |(due, _)| *due <= time) {
                matrix.add((at..at + 90).map(|n| u8::from(n == number)).collect());
                if !receiver.known.contains_key(&number) {
                    receiver.source(number);
                }
            }
            let expected: Vec<u64> = matrix.determined().map(|column| at + column as u64).collect();
            prop_assert_eq!(receiver.known.keys().copied().collect::<Vec<_>>(), expected);
        }
    }

    /// Of one length or not, all symbols of a window and any losses: as many symbols as losses.
    #[test]
    fn as_many_symbols_as_losses_are_enough(k in 1..120_usize, lost in 1..40_usize, first in 0..1_u64 << 50, from in 0..1_000_u64) {
        let lost = lost.min(k);
        let mut noise = Noise(first ^ 7);
        let stream = Stream { first, sources: noise.sources(k, 30) };
        let members: Vec<u64> = (first..first + k as u64).collect();
        let gone = noise.sample(lost, k);
        let mut receiver = Receiver::new(&stream);
        for &n in members.iter().filter(|n| !gone.contains(&((**n - first) as usize))) {
            receiver.source(n);
        }
        for symbol in 0..lost as u64 {
            prop_assert_eq!(receiver.known.len(), k - lost);
            prop_assert_eq!(receiver.repair(&members, from + symbol), Innovation::Innovative);
        }
        prop_assert_eq!(receiver.known.len(), k);
        prop_assert_eq!(receiver.decoder.memory(), 0);
        prop_assert_eq!(receiver.known.values().map(Vec::as_slice).collect::<Vec<_>>(), slices(&stream.sources));
    }
}
