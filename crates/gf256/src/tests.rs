//! Exhaustive field laws, and every kernel against a bit-by-bit oracle that shares no table with
//! the crate.

use proptest::prelude::*;

use crate::{Isa, Kernels, field};

/// Product by shift and add, straight from the definition of the field.
fn oracle(a: u8, b: u8) -> u8 {
    let (mut a, mut product) = (u16::from(a), 0);
    for k in 0..8 {
        if b >> k & 1 == 1 {
            product ^= a;
        }
        a <<= 1;
        if a & 0x100 != 0 {
            a ^= 0x11d;
        }
    }
    product as u8
}

/// All kernels this machine can run; names the others, so that a skipped one is seen
/// (`--nocapture`).
fn kernels() -> Vec<Kernels> {
    let supported = |isa| Kernels::with(isa).inspect_err(|error| eprintln!("SKIPPED {isa}: {error}")).ok();
    Isa::ALL.into_iter().filter_map(supported).collect()
}

/// Reproducible bytes without pattern.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn all_products_match_the_oracle_and_commute() {
    for a in 0..=255 {
        for b in 0..=255 {
            assert_eq!(field::mul(a, b), oracle(a, b), "{a} * {b}");
            assert_eq!(field::mul(a, b), field::mul(b, a), "{a} * {b}");
        }
    }
}

#[test]
fn products_distribute_and_associate() {
    for a in 0..=255 {
        for b in 0..=255 {
            for c in [0, 1, 2, 3, 29, 76, 128, 142, 200, 254, 255] {
                let (ab, ac, bc) = (field::mul(a, b), field::mul(a, c), field::mul(b, c));
                assert_eq!(field::mul(a, field::add(b, c)), field::add(ab, ac), "{a} * ({b} + {c})");
                assert_eq!(field::mul(ab, c), field::mul(a, bc), "{a} * {b} * {c}");
            }
        }
    }
}

#[test]
fn every_element_but_zero_has_an_inverse_and_a_logarithm() {
    for a in 1..=255 {
        assert_eq!(field::mul(a, field::inv(a)), 1);
        assert_eq!(field::exp(field::log(a)), a);
        for b in 0..=255 {
            assert_eq!(field::div(field::mul(b, a), a), b);
        }
    }
    for n in 0..255 {
        assert_eq!(field::log(field::exp(n)), n);
    }
    assert_eq!(field::exp(255), 1);
}

#[test]
fn powers_are_repeated_products() {
    for a in 0..=255 {
        let mut power = 1;
        for n in 0..520 {
            assert_eq!(field::pow(a, n), power, "{a}^{n}");
            power = oracle(power, a);
        }
    }
    assert_eq!(field::pow(7, u32::MAX), field::pow(7, u32::MAX % 255));
}

#[test]
#[should_panic(expected = "zero has neither")]
fn division_by_zero_panics() {
    field::div(1, 0);
}

#[test]
fn an_unsupported_isa_is_an_error_that_names_it() {
    for isa in Isa::ALL {
        match Kernels::with(isa) {
            Ok(kernels) => assert_eq!(kernels.isa(), isa),
            Err(error) => assert!(error.to_string().contains(&isa.to_string())),
        }
    }
    #[cfg(target_arch = "x86_64")]
    assert!(Kernels::with(Isa::Neon).is_err());
    assert_eq!(kernels().last().map(|k| k.isa()), Some(Kernels::detect().isa()), "the best is chosen");
}

/// Runs `run` on `len` bytes at offset `align` of a larger buffer and checks that no other byte
/// changed.
fn on_guarded(align: usize, content: &[u8], expected: &[u8], context: &str, run: impl FnOnce(&mut [u8])) {
    let mut buffer = vec![0xa5; align + content.len() + 70];
    let range = align..align + content.len();
    buffer[range.clone()].copy_from_slice(content);
    run(&mut buffer[range.clone()]);
    assert_eq!(&buffer[range.clone()], expected, "{context}");
    assert!(
        buffer[..align].iter().chain(&buffer[range.end..]).all(|&b| b == 0xa5),
        "{context}: out of bounds"
    );
}

#[test]
fn in_place_kernels_at_every_length_and_alignment() {
    let kernels = kernels();
    for len in 0..=130 {
        for align in 0..32 {
            let c = [0, 1, 2, 0x8e, 255][(len + align) % 5];
            let (dst, src) = (noise(len, 1), noise(len + 31 - align, 2));
            let src = &src[31 - align..];
            let sum: Vec<u8> = dst.iter().zip(src).map(|(d, s)| d ^ s).collect();
            let multiple: Vec<u8> = dst.iter().map(|&d| oracle(d, c)).collect();
            let fused: Vec<u8> = dst.iter().zip(src).map(|(d, &s)| d ^ oracle(s, c)).collect();
            for &k in &kernels {
                let context = format!("{} length {len} alignment {align} factor {c}", k.isa());
                on_guarded(align, &dst, &sum, &context, |d| k.xor_assign(d, src));
                on_guarded(align, &dst, &multiple, &context, |d| k.mul_assign(d, c));
                on_guarded(align, &dst, &fused, &context, |d| k.mul_add(d, src, c));
            }
        }
    }
}

#[test]
fn every_factor_on_every_byte() {
    let all: Vec<u8> = (0..=255).collect();
    for k in kernels() {
        for c in 0..=255 {
            let expected: Vec<u8> = all.iter().map(|&x| oracle(x, c)).collect();
            let mut bytes = all.clone();
            k.mul_assign(&mut bytes, c);
            assert_eq!(bytes, expected, "{} factor {c}", k.isa());
        }
    }
}

#[test]
fn a_shorter_source_changes_only_its_length() {
    for k in kernels() {
        let mut dst = [7; 100];
        k.mul_add(&mut dst, &[1; 40], 3);
        assert_eq!((dst[39], dst[40]), (7 ^ 3, 7), "{}", k.isa());
        k.xor_assign(&mut dst, &[]);
    }
}

/// `init[j] + sum of rows[j][i] * sources[i]`, byte by byte.
fn naive_product(len: usize, init: &[&[u8]], rows: &[&[u8]], sources: &[&[u8]]) -> Vec<Vec<u8>> {
    let at = |slice: &[u8], n: usize| slice.get(n).copied().unwrap_or(0);
    let byte = |j: usize, n: usize| {
        let start = init.get(j).map_or(0, |init| at(init, n));
        rows[j].iter().zip(sources).fold(start, |sum, (&c, source)| sum ^ oracle(c, at(source, n)))
    };
    (0..rows.len()).map(|j| (0..len).map(|n| byte(j, n)).collect()).collect()
}

/// Compares `product_onto` of every kernel with the naive one; outputs start at offset `align` of
/// their buffers.
fn check_product(align: usize, len: usize, init: &[&[u8]], rows: &[&[u8]], sources: &[&[u8]]) {
    let expected = naive_product(len, init, rows, sources);
    for k in kernels() {
        let mut buffers = vec![vec![0xa5; align + len + 70]; rows.len()];
        let mut outs: Vec<&mut [u8]> = buffers.iter_mut().map(|b| &mut b[align..align + len]).collect();
        k.product_onto(&mut outs, init, rows, sources);
        for (j, buffer) in buffers.iter().enumerate() {
            let context =
                format!("{} output {j} of {}, length {len}, alignment {align}", k.isa(), rows.len());
            assert_eq!(&buffer[align..align + len], expected[j], "{context}");
            let guard = buffer[..align].iter().chain(&buffer[align + len..]);
            assert!(guard.copied().all(|b| b == 0xa5), "{context}: out of bounds");
        }
    }
}

#[test]
fn products_at_every_length_and_alignment() {
    for len in 0..=130 {
        for align in 0..32 {
            // Three sources: one that is shorter, one that is longer than the outputs, one that
            // starts elsewhere.
            let source = noise(400, len as u64);
            let sources =
                [&source[align..align + len], &source[..len * align / 31], &source[7..7 + len + align]];
            let m = 1 + (len + align) % 9;
            let matrix = noise(3 * m, align as u64);
            let mut rows: Vec<&[u8]> = matrix.chunks(3).collect();
            if align % 2 == 0 {
                rows[0] = &[1, 1, 1];
            }
            let init: Vec<&[u8]> = (0..m).map(|j| &source[j..j + (len + j).saturating_sub(2)]).collect();
            let init = if align % 3 == 0 { &[][..] } else { &init };
            check_product(align, len, init, &rows, &sources);
        }
    }
}

#[test]
#[should_panic(expected = "outputs differ in length")]
fn unequal_outputs_panic() {
    let (mut a, mut b) = ([0; 4], [0; 5]);
    Kernels::detect().product(&mut [&mut a, &mut b], &[&[1], &[1]], &[&[1; 4]]);
}

#[test]
#[should_panic(expected = "does not match the sources")]
fn short_rows_panic() {
    Kernels::detect().product(&mut [&mut [0; 4]], &[&[1]], &[&[1; 4], &[1; 4]]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn products_of_any_shape(
        m in 1usize..20,
        len in 0usize..900,
        lens in prop::collection::vec(0usize..1000, 0..12),
        ones in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let data: Vec<Vec<u8>> = lens.iter().enumerate().map(|(i, &l)| noise(l, seed ^ i as u64)).collect();
        let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let mut matrix: Vec<Vec<u8>> = (0..m).map(|j| noise(lens.len(), seed ^ (j as u64) << 32)).collect();
        if ones {
            matrix[0].fill(1);
        }
        let rows: Vec<&[u8]> = matrix.iter().map(Vec::as_slice).collect();
        check_product(3, len, &[], &rows, &sources);
    }
}
