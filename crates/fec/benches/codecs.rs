//! Encoding and decoding beside another crate and the floors of copying and adding, 1,350-byte
//! symbols, one thread. `cargo bench -p mendpath-fec`
//!
//! Throughput is counted in source bytes of the block. Decoding loses M sources (the first ones)
//! and gets all repair symbols; the time includes inverting the system.

use divan::{Bencher, black_box, counter::BytesCount};
use gf256::Kernels;
use mendpath_fec::{PREFIX, reed_solomon};

const LEN: usize = 1350;
const BLOCKS: [Block; 6] =
    [Block(10, 1), Block(29, 1), Block(10, 3), Block(30, 3), Block(32, 8), Block(64, 16)];

/// K and M.
#[derive(Clone, Copy, Debug)]
struct Block(usize, usize);

impl Block {
    fn sources(self) -> Vec<Vec<u8>> {
        (0..self.0).map(|i| (0..LEN).map(|n| (n * 31 + i * 17 + n / 7) as u8).collect()).collect()
    }

    fn bytes(self) -> BytesCount {
        BytesCount::new(self.0 * LEN)
    }
}

fn main() {
    println!("kernels: {}", Kernels::detect().isa());
    divan::main();
}

fn slices(symbols: &[Vec<u8>]) -> Vec<&[u8]> {
    symbols.iter().map(Vec::as_slice).collect()
}

fn slices_mut(symbols: &mut [Vec<u8>]) -> Vec<&mut [u8]> {
    symbols.iter_mut().map(Vec::as_mut_slice).collect()
}

#[divan::bench_group(max_time = 1, sample_size = 100)]
mod encode {
    use super::*;

    #[divan::bench(args = BLOCKS)]
    fn floor_memcpy(bencher: Bencher<'_, '_>, block: Block) {
        let sources = block.sources();
        let mut out = vec![0; LEN];
        bencher.counter(block.bytes()).bench_local(|| {
            for source in &sources {
                black_box(&mut out).copy_from_slice(black_box(source));
            }
        });
    }

    #[divan::bench(args = BLOCKS)]
    fn floor_xor(bencher: Bencher<'_, '_>, block: Block) {
        let sources = block.sources();
        let (sources, row, mut out) = (slices(&sources), vec![1; block.0], vec![0; LEN]);
        bencher.counter(block.bytes()).bench_local(|| {
            Kernels::detect().product(&mut [black_box(&mut out)], &[&row], black_box(&sources));
        });
    }

    #[divan::bench(args = BLOCKS)]
    fn mendpath(bencher: Bencher<'_, '_>, block: Block) {
        let sources = block.sources();
        let sources = slices(&sources);
        let indices: Vec<u8> = (0..block.1 as u8).collect();
        let mut repairs = vec![vec![0; PREFIX + LEN]; block.1];
        let mut outs = slices_mut(&mut repairs);
        bencher.counter(block.bytes()).bench_local(|| {
            reed_solomon::encode_many(black_box(&sources), &indices, black_box(&mut outs)).unwrap();
        });
    }

    #[divan::bench(args = BLOCKS)]
    fn reed_solomon_simd(bencher: Bencher<'_, '_>, Block(k, m): Block) {
        let sources = Block(k, m).sources();
        let mut encoder = reed_solomon_simd::ReedSolomonEncoder::new(k, m, LEN).unwrap();
        bencher.counter(Block(k, m).bytes()).bench_local(|| {
            sources.iter().for_each(|source| encoder.add_original_shard(black_box(source)).unwrap());
            encoder.encode().unwrap().recovery_iter().for_each(|symbol| _ = black_box(symbol));
        });
    }
}

#[divan::bench_group(max_time = 1, sample_size = 50)]
mod decode {
    use super::*;

    #[divan::bench(args = BLOCKS)]
    fn mendpath(bencher: Bencher<'_, '_>, Block(k, m): Block) {
        let sources = Block(k, m).sources();
        let indices: Vec<u8> = (0..m as u8).collect();
        let mut repairs = vec![vec![0; PREFIX + LEN]; m];
        reed_solomon::encode_many(&slices(&sources), &indices, &mut slices_mut(&mut repairs)).unwrap();
        let received: Vec<Option<&[u8]>> =
            sources.iter().enumerate().map(|(i, s)| (i >= m).then_some(s.as_slice())).collect();
        let repairs: Vec<(u8, &[u8])> = indices.iter().copied().zip(slices(&repairs)).collect();
        let mut scratch = reed_solomon::DecodeScratch::new();
        bencher.counter(Block(k, m).bytes()).bench_local(|| {
            let rebuilt =
                reed_solomon::decode(black_box(&received), black_box(&repairs), &mut scratch).unwrap();
            rebuilt.for_each(|source| _ = black_box(source));
        });
    }

    #[divan::bench(args = BLOCKS)]
    fn reed_solomon_simd(bencher: Bencher<'_, '_>, Block(k, m): Block) {
        let sources = Block(k, m).sources();
        let repairs = ::reed_solomon_simd::encode(k, m, &sources).unwrap();
        let mut decoder = ::reed_solomon_simd::ReedSolomonDecoder::new(k, m, LEN).unwrap();
        bencher.counter(Block(k, m).bytes()).bench_local(|| {
            for (i, source) in sources.iter().enumerate().skip(m) {
                decoder.add_original_shard(i, black_box(source)).unwrap();
            }
            for (j, repair) in repairs.iter().enumerate() {
                decoder.add_recovery_shard(j, black_box(repair)).unwrap();
            }
            decoder.decode().unwrap().restored_original_iter().for_each(|source| _ = black_box(source));
        });
    }
}
