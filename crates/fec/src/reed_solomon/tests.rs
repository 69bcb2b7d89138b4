use proptest::prelude::*;

use super::*;
use crate::{
    DecodeError, EncodeError, MAX_BLOCK, MAX_SOURCE_LEN, MAX_SOURCES,
    oracle::{self, Noise, slices},
    symbol_len, xor,
};

/// c(j, i) by the formula of the module documentation.
fn oracle_coefficient(j: usize, i: usize) -> u8 {
    oracle::mul(255 ^ i as u8, oracle::inv((255 - j) as u8 ^ i as u8))
}

/// Repair symbols `indices`, made one by one.
fn repairs_of(sources: &[Vec<u8>], indices: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let slices = slices(sources);
    let repair = |&index: &u8| {
        let mut out = vec![0xee; symbol_len(&slices)];
        encode(&slices, index, &mut out).unwrap();
        (index, out)
    };
    indices.iter().map(repair).collect()
}

/// Loses `lost`, decodes with `indices`, and checks that exactly the lost sources come back.
fn check_recovery(
    sources: &[Vec<u8>],
    lost: &[usize],
    repairs: &[(u8, Vec<u8>)],
    scratch: &mut DecodeScratch,
) {
    let received: Vec<Option<&[u8]>> =
        sources.iter().enumerate().map(|(i, s)| (!lost.contains(&i)).then_some(s.as_slice())).collect();
    let repairs: Vec<(u8, &[u8])> = repairs.iter().map(|(j, s)| (*j, s.as_slice())).collect();
    let rebuilt: Vec<(usize, Vec<u8>)> =
        decode(&received, &repairs, scratch).unwrap().map(|(i, s)| (i, s.to_vec())).collect();
    let mut lost = lost.to_vec();
    lost.sort_unstable();
    let expected: Vec<(usize, Vec<u8>)> = lost.iter().map(|&i| (i, sources[i].clone())).collect();
    assert_eq!(rebuilt, expected, "repair symbols {:?}", repairs.iter().map(|r| r.0).collect::<Vec<_>>());
}

#[test]
fn coefficients_follow_the_formula() {
    for (j, row) in COEFFICIENTS.iter().enumerate() {
        for (i, &c) in row[..255 - j].iter().enumerate() {
            assert_eq!(c, oracle_coefficient(j, i), "c({j}, {i})");
        }
    }
}

#[test]
fn repair_symbol_0_is_the_xor_of_lengths_and_bytes() {
    let sources: [&[u8]; 3] = [b"one", b"", &[0xff; 300]];
    let mut out = vec![0xee; 302];
    encode(&sources, 0, &mut out).unwrap();
    assert_eq!(out[..2], [(300u16 >> 8) as u8, 3 ^ (300u16 & 0xff) as u8]);
    assert_eq!(out[2..6], [b'o' ^ 0xff, b'n' ^ 0xff, b'e' ^ 0xff, 0xff]);
    let mut same = vec![0; 302];
    xor::encode(&sources, &mut same).unwrap();
    assert_eq!(out, same);
}

#[test]
fn xor_recovers_one_loss() {
    let sources: [&[u8]; 3] = [b"one", b"", b"three"];
    let mut out = [0; 7];
    xor::encode(&sources, &mut out).unwrap();
    let mut scratch = DecodeScratch::new();
    let mut rebuilt = xor::decode(&[None, Some(b""), Some(b"three")], &out, &mut scratch).unwrap();
    assert_eq!((rebuilt.len(), rebuilt.next(), rebuilt.next()), (1, Some((0, &b"one"[..])), None));
}

#[test]
fn repair_symbols_match_the_oracle() {
    let mut noise = Noise(1);
    for (k, m) in [(1, 1), (1, 7), (5, 6), (10, 13), (29, 2), (240, 16), (255, 1), (2, 254)] {
        let sources = noise.sources(k, 90);
        let framed = oracle::frame(&sources);
        let len = framed[0].len();
        let indices: Vec<u8> = (0..m as u8).collect();
        // Outputs longer than needed are continued by zeros.
        let mut buffers = vec![vec![0xee; len + 5]; m];
        let mut outs: Vec<&mut [u8]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
        encode_many(&slices(&sources), &indices, &mut outs).unwrap();
        for (j, buffer) in buffers.iter().enumerate() {
            let row: Vec<u8> = (0..k).map(|i| oracle_coefficient(j, i)).collect();
            assert_eq!(buffer[..len], oracle::combine(&row, &framed), "K {k}, symbol {j}");
            assert_eq!(buffer[len..], [0; 5]);
        }
    }
}

#[test]
fn an_accumulator_makes_the_same_symbols() {
    let mut noise = Noise(2);
    let mut accumulator = Accumulator::new(9);
    for (k, index) in [(1, 0), (30, 2), (12, 243)] {
        accumulator.reset(index);
        let sources = noise.sources(k, 200);
        sources.iter().for_each(|source| accumulator.push(source).unwrap());
        assert_eq!(accumulator.symbol(), repairs_of(&sources, &[index])[0].1);
    }
    assert_eq!(accumulator.sources(), 12);
    let error = accumulator.push(&[]).unwrap_err();
    assert_eq!(error, EncodeError::BlockTooLarge { sources: 13, index: 243 });
    let error = accumulator.push(&[0; MAX_SOURCE_LEN + 1]).unwrap_err();
    assert_eq!(error, EncodeError::SourceTooLong { source_index: 12, len: 65_536 });
}

#[test]
fn every_erasure_pattern_of_small_blocks() {
    let (mut noise, mut scratch) = (Noise(3), DecodeScratch::new());
    for k in 1..=6usize {
        for m in 1..=4usize {
            let sources = noise.sources(k, 20);
            let all = repairs_of(&sources, &(0..m as u8).collect::<Vec<_>>());
            // Bit i of the pattern: symbol i of the K + M is received.
            for pattern in (0u32..1 << (k + m)).filter(|pattern| pattern.count_ones() as usize == k) {
                let lost: Vec<usize> = (0..k).filter(|i| pattern >> i & 1 == 0).collect();
                let repairs: Vec<_> =
                    (0..m).filter(|j| pattern >> (k + j) & 1 == 1).map(|j| all[j].clone()).collect();
                check_recovery(&sources, &lost, &repairs, &mut scratch);
            }
        }
    }
}

#[test]
fn the_largest_blocks() {
    let (mut noise, mut scratch) = (Noise(4), DecodeScratch::new());
    for k in [1, 128, 200, 255usize] {
        let m = MAX_BLOCK - k;
        let sources = noise.sources(k, 40);
        let lost = noise.sample(m.min(k), k);
        let indices: Vec<u8> = noise.sample(lost.len(), m).into_iter().map(|j| j as u8).collect();
        check_recovery(&sources, &lost, &repairs_of(&sources, &indices), &mut scratch);
    }
}

#[test]
fn the_longest_sources() {
    let sources = vec![Noise(5).bytes(MAX_SOURCE_LEN), vec![], Noise(6).bytes(MAX_SOURCE_LEN)];
    check_recovery(&sources, &[0, 1, 2], &repairs_of(&sources, &[0, 1, 2]), &mut DecodeScratch::new());
    let long = vec![0; MAX_SOURCE_LEN + 1];
    let error = encode(&[&[], &long], 0, &mut vec![0; 70_000]).unwrap_err();
    assert_eq!(error, EncodeError::SourceTooLong { source_index: 1, len: 65_536 });
}

#[test]
fn nothing_lost_needs_no_repair_symbol() {
    let mut scratch = DecodeScratch::new();
    assert_eq!(decode(&[Some(b"a")], &[], &mut scratch).unwrap().count(), 0);
    assert_eq!(decode(&[Some(b"a")], &[(3, &[0; 3])], &mut scratch).unwrap().count(), 0);
}

#[test]
fn the_callers_mistakes_are_errors_with_numbers() {
    let out = &mut [0; 9][..];
    assert_eq!(encode(&[], 0, out), Err(EncodeError::SourceCount { sources: 0 }));
    assert_eq!(encode(&[&[][..]; 256], 0, out), Err(EncodeError::SourceCount { sources: 256 }));
    assert_eq!(encode(&[&[][..]; 2], 254, out), Err(EncodeError::BlockTooLarge { sources: 2, index: 254 }));
    assert_eq!(encode(&[&[0; 8]], 0, out), Err(EncodeError::OutputTooShort { needed: 10, given: 9 }));
    let unequal = encode_many(&[&[0; 3]], &[0, 1], &mut [&mut [0; 5], &mut [0; 6]]);
    assert_eq!(unequal, Err(EncodeError::UnequalOutputs { expected: 5, given: 6 }));
    assert_eq!(
        encode_many(&[&[]], &[0, 1], &mut [out]),
        Err(EncodeError::OutputCount { indices: 2, outputs: 1 })
    );
}

/// The error of decoding a block of three sources, the first two lost.
fn decode_error(repairs: &[(u8, &[u8])]) -> DecodeError {
    decode(&[None, None, Some(&[1, 2, 3])], repairs, &mut DecodeScratch::new()).unwrap_err()
}

#[test]
fn hostile_repair_symbols_are_errors_with_numbers() {
    let symbol: &[u8] = &[0; 5];
    assert_eq!(decode_error(&[]), DecodeError::TooFewSymbols { lost: 2, repairs: 0 });
    assert_eq!(decode_error(&[(7, symbol)]), DecodeError::TooFewSymbols { lost: 2, repairs: 1 });
    assert_eq!(
        decode_error(&[(7, symbol), (0, symbol), (7, symbol)]),
        DecodeError::RepeatedRepair { index: 7 }
    );
    assert_eq!(decode_error(&[(0, symbol); 1000]), DecodeError::RepeatedRepair { index: 0 });
    assert_eq!(decode_error(&[(253, symbol)]), DecodeError::BlockTooLarge { sources: 3, index: 253 });
    let unequal = DecodeError::UnequalRepairs { expected: 5, given: 4 };
    assert_eq!(decode_error(&[(0, symbol), (1, &[0; 4])]), unequal);
    assert_eq!(decode_error(&[(0, &[0])]), DecodeError::RepairLength { given: 1 });
    assert_eq!(decode_error(&[(0, &[0; 65_538])]), DecodeError::RepairLength { given: 65_538 });
    let long = DecodeError::SourceTooLong { source_index: 2, len: 3, max: 2 };
    assert_eq!(decode_error(&[(0, &[0; 4]), (1, &[0; 4])]), long);
    for sources in [&[][..], &[None; 256]] {
        let error = decode(sources, &[], &mut DecodeScratch::new()).unwrap_err();
        assert_eq!(error, DecodeError::SourceCount { sources: sources.len() });
    }
}

#[test]
fn what_is_no_virtual_symbol_is_corrupt() {
    let corrupt = DecodeError::Corrupt { source_index: 0 };
    let decode_xor = |symbol: &[u8]| {
        let mut scratch = DecodeScratch::new();
        decode(&[None], &[(0, symbol)], &mut scratch).map(|mut r| r.next().unwrap().1.to_vec())
    };
    assert_eq!(decode_xor(&[0, 2, 7, 8, 0]), Ok(vec![7, 8]));
    assert_eq!(decode_xor(&[0, 2, 7, 8, 1]), Err(corrupt), "padding is not zero");
    assert_eq!(decode_xor(&[0, 4, 7, 8, 1]), Err(corrupt), "length exceeds the symbol");
    assert_eq!(decode_xor(&[1, 2, 7, 8, 0]), Err(corrupt), "length exceeds the symbol");
    assert_eq!(decode_xor(&[0, 0]), Ok(vec![]));
}

#[test]
fn a_failed_block_leaves_no_trace_in_the_scratch() {
    let mut scratch = DecodeScratch::new();
    decode(&[None, None], &[(0, &[9; 40]), (1, &[9; 40])], &mut scratch).unwrap_err();
    let sources = vec![b"abc".to_vec(), b"de".to_vec(), b"".to_vec()];
    check_recovery(&sources, &[2, 0], &repairs_of(&sources, &[5, 1]), &mut scratch);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_erasures_of_random_blocks(k in 1usize..80, extra in 0usize..3, longest in 0usize..400, seed: u64) {
        let (mut noise, mut scratch) = (Noise(seed), DecodeScratch::new());
        let sources = noise.sources(k, longest);
        let e = noise.below(k.min(20) + 1);
        let lost = noise.sample(e, k);
        let indices: Vec<u8> = noise.sample(e + extra, MAX_SOURCES - k + 1).into_iter().map(|j| j as u8).collect();
        check_recovery(&sources, &lost, &repairs_of(&sources, &indices), &mut scratch);
    }

    #[test]
    fn any_input_decodes_or_fails_without_panic(
        sources in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..12)), 0..8),
        repairs in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 8..12)), 0..8),
    ) {
        let sources: Vec<Option<&[u8]>> = sources.iter().map(|s| s.as_deref()).collect();
        let repairs: Vec<(u8, &[u8])> = repairs.iter().map(|(j, s)| (*j, s.as_slice())).collect();
        let mut scratch = DecodeScratch::new();
        if let Ok(rebuilt) = decode(&sources, &repairs, &mut scratch) {
            prop_assert_eq!(rebuilt.count(), sources.iter().filter(|s| s.is_none()).count());
        }
    }
}
