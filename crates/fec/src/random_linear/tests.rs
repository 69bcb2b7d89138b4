use proptest::prelude::*;

use super::*;
use crate::{
    DecodeError, EncodeError, MAX_SOURCE_LEN, MAX_SOURCES,
    oracle::{self, Noise, slices},
    symbol_len,
};

/// SplitMix64 as a generator that is stepped, as its authors give it.
fn oracle_row(seed: u32, index: u32, k: usize) -> Vec<u8> {
    let mut state = u64::from(seed) << 32 | u64::from(index);
    let mut bytes = Vec::new();
    while bytes.len() < k {
        state = state.wrapping_add(0x9e3779b97f4a7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
        bytes.extend((z ^ (z >> 31)).to_le_bytes());
    }
    bytes[..k].iter().map(|&b| (u32::from(b) * 255 / 256) as u8 + 1).collect()
}

/// A symbol on its way to the decoder.
#[derive(Clone, Debug)]
enum Arrival {
    Source(usize),
    Repair(u32),
}

fn repair(sources: &[Vec<u8>], seed: u32, index: u32) -> Vec<u8> {
    let mut out = vec![0xee; symbol_len(&slices(sources))];
    encode(&slices(sources), seed, index, &mut out).unwrap();
    out
}

/// What the decoder has rebuilt since the last time.
fn drain(decoder: &mut Decoder) -> Vec<(usize, Vec<u8>)> {
    let mut rebuilt = Vec::new();
    while let Some(next) = decoder.next_rebuilt() {
        let (index, source) = next.unwrap();
        rebuilt.push((index, source.to_vec()));
    }
    rebuilt
}

/// Feeds the arrivals one by one; after each, rank and rebuilt sources must be what the oracle's
/// matrix determines.
fn check_arrivals(sources: &[Vec<u8>], seed: u32, arrivals: &[Arrival]) {
    let k = sources.len();
    let unit = |i: usize| (0..k).map(|n| u8::from(n == i)).collect::<Vec<u8>>();
    let mut decoder = Decoder::new(seed, k, symbol_len(&slices(sources))).unwrap();
    let (mut rows, mut known) = (Vec::new(), vec![false; k]);
    for arrival in arrivals {
        let (row, innovation) = match *arrival {
            Arrival::Source(i) => {
                known[i] = true;
                (unit(i), decoder.add_source(i, &sources[i]).unwrap())
            }
            Arrival::Repair(index) => (
                oracle_row(seed, index, k),
                decoder.add_repair(index, &repair(sources, seed, index)).unwrap(),
            ),
        };
        let before = oracle::rank(rows.clone());
        rows.push(row);
        let rank = oracle::rank(rows.clone());
        assert_eq!(innovation == Innovation::Innovative, rank > before, "{arrival:?}");
        assert_eq!(decoder.rank(), rank);
        let determined = |&i: &usize| !known[i] && oracle::rank([&rows[..], &[unit(i)]].concat()) == rank;
        let expected: Vec<(usize, Vec<u8>)> =
            (0..k).filter(determined).map(|i| (i, sources[i].clone())).collect();
        assert_eq!(drain(&mut decoder), expected, "after {arrival:?}");
        expected.iter().for_each(|&(i, _)| known[i] = true);
    }
    assert_eq!(decoder.is_complete(), known.iter().all(|&known| known));
}

#[test]
fn coefficients_are_split_mix_and_never_zero() {
    // The first output of SplitMix64 from state 0 is 0xe220a8397b1dcdaf.
    assert_eq!(
        (coefficient(0, 0, 0), coefficient(0, 0, 7)),
        (1 + (0xaf * 255 / 256) as u8, 1 + (0xe2 * 255 / 256) as u8)
    );
    let mut seen = [0; 256];
    for (seed, index) in [(0, 0), (1, 0), (0, 1), (u32::MAX, u32::MAX), (7, 1_000_000)] {
        let row = oracle_row(seed, index, 255);
        assert_eq!(coefficients(seed, index, 0..255).collect::<Vec<_>>(), row);
        for (i, &c) in row.iter().enumerate() {
            assert_eq!(coefficient(seed, index, i as u8), c);
            seen[usize::from(c)] += 1;
        }
    }
    assert_eq!(seen[0], 0);
    assert!(seen[1..].iter().filter(|&&n| n > 0).count() > 240);
}

#[test]
fn repair_symbols_match_the_oracle() {
    let mut noise = Noise(1);
    let mut accumulator = Accumulator::new(0, 0);
    for (k, seed, index) in [(1, 0, 0), (8, 1, 0), (9, 1, 1), (32, 77, 5), (255, u32::MAX, u32::MAX)] {
        let sources = noise.sources(k, 70);
        let expected = oracle::combine(&oracle_row(seed, index, k), &oracle::frame(&sources));
        assert_eq!(repair(&sources, seed, index), expected);
        accumulator.reset(seed, index);
        sources.iter().for_each(|source| accumulator.push(source).unwrap());
        assert_eq!((accumulator.symbol(), accumulator.sources()), (&expected[..], k));
    }
    assert_eq!(accumulator.push(&[]), Err(EncodeError::SourceCount { sources: 256 }));
    let error = Accumulator::new(0, 0).push(&[0; MAX_SOURCE_LEN + 1]);
    assert_eq!(error, Err(EncodeError::SourceTooLong { source_index: 0, len: 65_536 }));
}

#[test]
fn any_single_loss_is_repaired_by_any_symbol() {
    let sources = Noise(2).sources(32, 30);
    for lost in 0..32 {
        let arrivals: Vec<Arrival> = (0..32).filter(|&i| i != lost).map(Arrival::Source).collect();
        let arrivals = [&arrivals[..], &[Arrival::Repair(lost as u32 * 1000)]].concat();
        check_arrivals(&sources, 5, &arrivals);
    }
}

#[test]
fn repair_symbols_alone_give_the_block() {
    let sources = Noise(3).sources(16, 30);
    check_arrivals(&sources, 6, &(0..18).map(Arrival::Repair).collect::<Vec<_>>());
}

#[test]
fn sources_after_repair_symbols_move_the_equations() {
    let sources = Noise(4).sources(6, 30);
    let repairs = (0..4).map(Arrival::Repair);
    for order in [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [3, 0, 5, 1, 4, 2]] {
        check_arrivals(&sources, 7, &repairs.clone().chain(order.map(Arrival::Source)).collect::<Vec<_>>());
    }
}

#[test]
fn repeated_symbols_are_redundant() {
    let sources = Noise(5).sources(4, 30);
    use Arrival::{Repair, Source};
    check_arrivals(
        &sources,
        8,
        &[Repair(1), Repair(1), Source(0), Source(0), Repair(1), Repair(2), Repair(3), Repair(4)],
    );
}

/// Over GF(256) a random K x K matrix is regular with probability 0.996; two symbols more make
/// failures very rare.
#[test]
fn k_symbols_nearly_always_suffice() {
    let (k, blocks) = (8, 2_000);
    let sources = Noise(6).sources(k, 4);
    let mut complete = [0; 3];
    let mut decoder = Decoder::new(0, k, symbol_len(&slices(&sources))).unwrap();
    for seed in 0..blocks {
        decoder.reset(seed, k, symbol_len(&slices(&sources))).unwrap();
        for index in 0..k as u32 + 2 {
            decoder.add_repair(index, &repair(&sources, seed, index)).unwrap();
            if index + 1 >= k as u32 {
                complete[index as usize + 1 - k] += usize::from(decoder.is_complete());
            }
        }
    }
    assert!(complete[0] >= 1_975 && complete[1] >= 1_998 && complete[2] == 2_000, "{complete:?} of {blocks}");
}

#[test]
fn the_order_of_arrival_does_not_matter() {
    let mut noise = Noise(9);
    let sources = noise.sources(10, 50);
    let mut arrivals: Vec<Arrival> = (0..5).map(Arrival::Source).chain((0..5).map(Arrival::Repair)).collect();
    for _ in 0..20 {
        let order = noise.sample(10, 10);
        arrivals = order.into_iter().map(|i| arrivals[i].clone()).collect();
        check_arrivals(&sources, 10, &arrivals);
    }
}

/// Feeds a decoder of the missing sources; after each arrival, rank and rebuilt sources must be
/// what the oracle's matrix determines.
fn check_missing(sources: &[Vec<u8>], seed: u32, missing: &[bool], arrivals: &[Arrival]) {
    let k = sources.len();
    let unit = |i: usize| (0..k).map(|n| u8::from(n == i)).collect::<Vec<u8>>();
    let len = symbol_len(&slices(sources));
    let mut decoder = MissingDecoder::new(seed, k, len, |i| missing[i]).unwrap();
    let mut rows: Vec<Vec<u8>> = (0..k).filter(|&i| !missing[i]).map(unit).collect();
    let mut known: Vec<bool> = missing.iter().map(|missing| !missing).collect();
    for arrival in arrivals {
        let received = |i: usize| (!missing[i]).then_some(&sources[i][..]);
        let (row, innovation) = match *arrival {
            Arrival::Source(i) => {
                known[i] = true;
                (unit(i), decoder.add_source(i, &sources[i]).unwrap())
            }
            Arrival::Repair(index) => {
                let symbol = repair(sources, seed, index);
                (oracle_row(seed, index, k), decoder.add_repair(index, &symbol, received).unwrap())
            }
        };
        let before = oracle::rank(rows.clone());
        rows.push(row);
        let rank = oracle::rank(rows.clone());
        assert_eq!(innovation == Innovation::Innovative, rank > before, "{arrival:?}");
        assert_eq!((decoder.rank(), decoder.lacking(), decoder.is_complete()), (rank, k - rank, rank == k));
        let determined = |&i: &usize| !known[i] && oracle::rank([&rows[..], &[unit(i)]].concat()) == rank;
        let expected: Vec<(usize, Vec<u8>)> =
            (0..k).filter(determined).map(|i| (i, sources[i].clone())).collect();
        let mut rebuilt = Vec::new();
        while let Some(next) = decoder.next_rebuilt() {
            let (index, source) = next.unwrap();
            rebuilt.push((index, source.to_vec()));
        }
        assert_eq!(rebuilt, expected, "after {arrival:?}");
        expected.iter().for_each(|&(i, _)| known[i] = true);
        assert!(decoder.memory() <= missing.iter().filter(|&&m| m).count() * (len + k));
    }
}

#[test]
fn missing_sources_of_a_large_block_are_rebuilt() {
    let sources = Noise(11).sources(64, 50);
    let missing: Vec<bool> = (0..64).map(|i| i % 13 == 4).collect();
    check_missing(&sources, 12, &missing, &(0..6).map(Arrival::Repair).collect::<Vec<_>>());
}

#[test]
fn the_largest_block_is_rebuilt_from_as_many_symbols_as_are_missing() {
    let sources = Noise(12).sources(255, 20);
    let is_missing = |i: usize| i.is_multiple_of(50);
    let mut decoder = MissingDecoder::new(12, 255, symbol_len(&slices(&sources)), is_missing).unwrap();
    let received = |i: usize| (!is_missing(i)).then_some(&sources[i][..]);
    for index in 0..6 {
        assert!(!decoder.is_complete() && decoder.next_rebuilt().is_none());
        decoder.add_repair(index, &repair(&sources, 12, index), received).unwrap();
    }
    let mut rebuilt = 0;
    while let Some(next) = decoder.next_rebuilt() {
        let (index, source) = next.unwrap();
        assert_eq!((is_missing(index), source), (true, &sources[index][..]));
        rebuilt += 1;
    }
    assert_eq!((rebuilt, decoder.is_complete()), (6, true));
}

#[test]
fn late_sources_move_the_equations_of_the_missing() {
    use Arrival::{Repair, Source};
    let sources = Noise(13).sources(8, 30);
    let missing = [false, true, true, false, true, true, false, true];
    for order in [[1, 2, 4], [7, 5, 1], [4, 4, 0], [2, 7, 3]] {
        let [a, b, c] = order.map(Source);
        check_missing(
            &sources,
            3,
            &missing,
            &[Repair(0), Repair(1), a, Repair(1), b, Repair(2), c, Repair(3), Repair(4)],
        );
    }
}

#[test]
fn a_decoder_of_the_missing_refuses_what_is_wrong_and_stays_as_it_was() {
    assert_eq!(MissingDecoder::new(0, 0, 10, |_| true).unwrap_err(), DecodeError::SourceCount { sources: 0 });
    assert_eq!(
        MissingDecoder::new(0, 256, 10, |_| true).unwrap_err(),
        DecodeError::SourceCount { sources: 256 }
    );
    assert_eq!(MissingDecoder::new(0, 3, 1, |_| true).unwrap_err(), DecodeError::RepairLength { given: 1 });
    let mut decoder = MissingDecoder::new(0, 3, 10, |i| i == 1).unwrap();
    let here = |_| Some(&b"abc"[..]);
    let short = DecodeError::UnequalRepairs { expected: 10, given: 9 };
    assert_eq!(decoder.add_repair(0, &[0; 9], here), Err(short));
    assert_eq!(decoder.add_repair(0, &[0; 10], |_| None), Err(DecodeError::SourceGone { source_index: 0 }));
    let long = DecodeError::SourceTooLong { source_index: 0, len: 9, max: 8 };
    assert_eq!(decoder.add_repair(0, &[0; 10], |_| Some(&[0; 9][..])), Err(long));
    assert_eq!(decoder.add_source(3, &[]), Err(DecodeError::SourceIndex { source_index: 3, sources: 3 }));
    assert_eq!((decoder.rank(), decoder.memory()), (2, 0));
    decoder.add_repair(0, &[9; 10], here).unwrap();
    assert_eq!(decoder.next_rebuilt(), Some(Err(DecodeError::Corrupt { source_index: 1 })));
    assert_eq!(decoder.next_rebuilt(), None);
}

#[test]
fn a_growing_block_is_coded_over_what_is_there() {
    let sources = Noise(14).sources(64, 60);
    let mut encoder = Encoder::new(1);
    assert_eq!(encoder.write(0, &mut [0; 8]), Err(EncodeError::SourceCount { sources: 0 }));
    encoder.push(b"of another block").unwrap();
    encoder.reset(21);
    for (n, source) in sources.iter().enumerate() {
        encoder.push(source).unwrap();
        let so_far = &sources[..=n];
        assert_eq!((encoder.sources(), encoder.symbol_len()), (n + 1, symbol_len(&slices(so_far))));
        let mut out = vec![0xee; encoder.symbol_len()];
        encoder.write(n as u32 * 77, &mut out).unwrap();
        assert_eq!(out, repair(so_far, 21, n as u32 * 77));
    }
    let needed = encoder.symbol_len();
    let error = encoder.write(0, &mut vec![0; needed - 1]);
    assert_eq!(error, Err(EncodeError::OutputTooShort { needed, given: needed - 1 }));
    (64..MAX_SOURCES).for_each(|_| encoder.push(&[]).unwrap());
    assert_eq!(encoder.push(&[]), Err(EncodeError::SourceCount { sources: 256 }));
    let error = Encoder::new(0).push(&[0; MAX_SOURCE_LEN + 1]);
    assert_eq!(error, Err(EncodeError::SourceTooLong { source_index: 0, len: 65_536 }));
}

#[test]
fn hostile_symbols_are_errors_with_numbers() {
    assert_eq!(Decoder::new(0, 0, 10).unwrap_err(), DecodeError::SourceCount { sources: 0 });
    assert_eq!(Decoder::new(0, 256, 10).unwrap_err(), DecodeError::SourceCount { sources: 256 });
    assert_eq!(Decoder::new(0, 3, 1).unwrap_err(), DecodeError::RepairLength { given: 1 });
    assert_eq!(Decoder::new(0, 3, 65_538).unwrap_err(), DecodeError::RepairLength { given: 65_538 });
    let mut decoder = Decoder::new(0, 3, 10).unwrap();
    assert_eq!(decoder.add_source(3, &[]), Err(DecodeError::SourceIndex { source_index: 3, sources: 3 }));
    let long = DecodeError::SourceTooLong { source_index: 1, len: 9, max: 8 };
    assert_eq!(decoder.add_source(1, &[0; 9]), Err(long));
    assert_eq!(decoder.add_repair(0, &[0; 9]), Err(DecodeError::UnequalRepairs { expected: 10, given: 9 }));
    assert_eq!((decoder.rank(), decoder.k(), decoder.symbol_len()), (0, 3, 10));
}

#[test]
fn what_is_no_virtual_symbol_is_reported_once_as_corrupt() {
    let mut decoder = Decoder::new(0, 2, 4).unwrap();
    decoder.add_source(0, &[]).unwrap();
    decoder.add_repair(0, &[1, 1, 1, 1]).unwrap();
    assert_eq!(decoder.next_rebuilt(), Some(Err(DecodeError::Corrupt { source_index: 1 })));
    assert_eq!(decoder.next_rebuilt(), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_arrivals_give_what_they_determine(
        k in 1usize..14,
        arrivals in prop::collection::vec((any::<bool>(), 0usize..14), 0..30),
        seed: u32,
    ) {
        let sources = Noise(u64::from(seed)).sources(k, 40);
        let arrival = |&(source, n): &(bool, usize)| match source {
            true => Arrival::Source(n % k),
            false => Arrival::Repair(n as u32),
        };
        check_arrivals(&sources, seed, &arrivals.iter().map(arrival).collect::<Vec<_>>());
    }

    #[test]
    fn any_arrivals_give_what_they_determine_of_the_missing(
        missing in prop::collection::vec(any::<bool>(), 1..14),
        arrivals in prop::collection::vec((any::<bool>(), 0usize..14), 0..30),
        seed: u32,
    ) {
        let k = missing.len();
        let sources = Noise(u64::from(seed)).sources(k, 40);
        let arrival = |&(source, n): &(bool, usize)| match source {
            true => Arrival::Source(n % k),
            false => Arrival::Repair(n as u32),
        };
        check_missing(&sources, seed, &missing, &arrivals.iter().map(arrival).collect::<Vec<_>>());
    }

    #[test]
    fn any_input_decodes_or_fails_without_panic(
        k in 1usize..6,
        symbols in prop::collection::vec((any::<bool>(), 0u32..8, prop::collection::vec(any::<u8>(), 6..10)), 0..20),
    ) {
        let mut decoder = Decoder::new(1, k, 8).unwrap();
        for (source, index, bytes) in symbols {
            let result = match source {
                true => decoder.add_source(index as usize, &bytes),
                false => decoder.add_repair(index, &bytes),
            };
            while decoder.next_rebuilt().is_some() {}
            prop_assert!(decoder.rank() <= k.min(MAX_SOURCES));
            prop_assert!(result.is_ok() || bytes.len() != 8 || index as usize >= k || source);
        }
    }
}
