//! Reed-Solomon codecs beside each other: encoding in GB/s of source bytes, decoding in
//! microseconds per block.
//!
//! All in one thread, on symbols of 1,350 bytes. Decoding has lost the first M of K source symbols
//! and has all M repair symbols; inverting the system is part of it.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use fec::{PREFIX, reed_solomon};

use crate::child::median;

#[cfg(feature = "isal")]
mod isal;

/// Bytes of a symbol.
const LEN: usize = 1_350;
/// K and M of the blocks.
const BLOCKS: [(usize, usize); 6] = [(10, 1), (29, 1), (10, 3), (30, 3), (32, 8), (64, 16)];

/// What to measure.
#[derive(clap::Args)]
pub struct Args {
    /// Rounds; every codec has its turn in each
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Milliseconds of each turn
    #[arg(long, default_value_t = 20)]
    turn: u64,
}

/// Something to time: one block encoded or decoded.
type Work = Box<dyn FnMut()>;

/// A codec, ready for one kind of block.
struct Contender {
    name: &'static str,
    encode: Work,
    decode: Work,
}

/// Runs the rounds and prints the table; ratios are medians over the rounds of ours against the
/// best other codec of the same round.
pub fn run(args: &Args) {
    let turn = Duration::from_millis(args.turn);
    println!("kernels: {}; medians of {} rounds", gf256::Kernels::detect().isa(), args.rounds);
    for (what, unit) in [("encode", "GB/s"), ("decode", "us per block")] {
        println!("\n{what}, {unit}");
        let mut heading = true;
        for (k, m) in BLOCKS {
            let mut contenders = contenders(k, m);
            if std::mem::take(&mut heading) {
                let names: String = contenders.iter().map(|c| format!("{:>22}", c.name)).collect();
                println!("{:>7}{names}{:>22}", "K, M", "ours / best other");
            }
            let rounds: Vec<Vec<f64>> = (0..args.rounds)
                .map(|_| contenders.iter_mut().map(|c| figure(c, what, k, turn)).collect())
                .collect();
            print_row((k, m), &rounds, what == "encode");
        }
    }
}

/// GB/s encoded, or microseconds per decoded block.
fn figure(contender: &mut Contender, what: &str, k: usize, turn: Duration) -> f64 {
    match what {
        "encode" => (k * LEN) as f64 / seconds_each(&mut contender.encode, turn) / 1e9,
        _ => seconds_each(&mut contender.decode, turn) * 1e6,
    }
}

fn seconds_each(work: &mut Work, turn: Duration) -> f64 {
    let (begun, mut count) = (Instant::now(), 0u32);
    loop {
        for _ in 0..16 {
            work();
        }
        count += 16;
        let taken = begun.elapsed();
        if taken >= turn {
            return taken.as_secs_f64() / f64::from(count);
        }
    }
}

fn print_row((k, m): (usize, usize), rounds: &[Vec<f64>], more_is_better: bool) {
    let columns = rounds[0].len();
    let cells: String = (0..columns)
        .map(|at| format!("{:>22.2}", median(rounds.iter().map(|round| round[at]).collect())))
        .collect();
    let better = |a: f64, b: f64| if more_is_better { a.max(b) } else { a.min(b) };
    let ratio = |round: &Vec<f64>| round[0] / round[1..].iter().copied().reduce(better).expect("others");
    println!("{k:>3}, {m:>2}{cells}{:>21.2}x", median(rounds.iter().map(ratio).collect()));
}

fn contenders(k: usize, m: usize) -> Vec<Contender> {
    vec![
        mendpath(k, m),
        #[cfg(feature = "isal")]
        isal::contender(k, m),
        simd(k, m),
        erasure(k, m),
    ]
}

fn sources(k: usize) -> Vec<Vec<u8>> {
    (0..k).map(|i| (0..LEN).map(|n| (n * 31 + i * 17 + n / 7) as u8).collect()).collect()
}

fn mendpath(k: usize, m: usize) -> Contender {
    let indices: Vec<u8> = (0..m as u8).collect();
    let encode = {
        let (sources, indices) = (sources(k), indices.clone());
        let mut repairs = vec![vec![0; PREFIX + LEN]; m];
        move || {
            let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
            let mut outs: Vec<&mut [u8]> = repairs.iter_mut().map(Vec::as_mut_slice).collect();
            reed_solomon::encode_many(black_box(&sources), &indices, black_box(&mut outs)).expect("fits");
        }
    };
    let sources = sources(k);
    let mut repairs = vec![vec![0; PREFIX + LEN]; m];
    let slices: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let mut outs: Vec<&mut [u8]> = repairs.iter_mut().map(Vec::as_mut_slice).collect();
    reed_solomon::encode_many(&slices, &indices, &mut outs).expect("fits");
    let mut scratch = reed_solomon::DecodeScratch::new();
    let decode = move || {
        let received: Vec<Option<&[u8]>> =
            sources.iter().enumerate().map(|(i, s)| (i >= m).then_some(s.as_slice())).collect();
        let repairs: Vec<(u8, &[u8])> =
            indices.iter().copied().zip(repairs.iter().map(Vec::as_slice)).collect();
        let rebuilt = reed_solomon::decode(black_box(&received), black_box(&repairs), &mut scratch);
        rebuilt.expect("enough symbols").for_each(|source| _ = black_box(source));
    };
    Contender { name: "mendpath", encode: Box::new(encode), decode: Box::new(decode) }
}

fn simd(k: usize, m: usize) -> Contender {
    let encode = {
        let sources = sources(k);
        let mut encoder = reed_solomon_simd::ReedSolomonEncoder::new(k, m, LEN).expect("a size it supports");
        move || {
            sources.iter().for_each(|s| encoder.add_original_shard(black_box(s)).expect("fits"));
            encoder.encode().expect("complete").recovery_iter().for_each(|symbol| _ = black_box(symbol));
        }
    };
    let sources = sources(k);
    let repairs = reed_solomon_simd::encode(k, m, &sources).expect("a size it supports");
    let mut decoder = reed_solomon_simd::ReedSolomonDecoder::new(k, m, LEN).expect("a size it supports");
    let decode = move || {
        for (i, source) in sources.iter().enumerate().skip(m) {
            decoder.add_original_shard(i, black_box(source)).expect("fits");
        }
        for (j, repair) in repairs.iter().enumerate() {
            decoder.add_recovery_shard(j, black_box(repair)).expect("fits");
        }
        let restored = decoder.decode().expect("enough symbols");
        restored.restored_original_iter().for_each(|source| _ = black_box(source));
    };
    Contender { name: "reed-solomon-simd", encode: Box::new(encode), decode: Box::new(decode) }
}

fn erasure(k: usize, m: usize) -> Contender {
    use reed_solomon_erasure::galois_8::ReedSolomon;
    let encode = {
        let (sources, code) = (sources(k), ReedSolomon::new(k, m).expect("a size it supports"));
        let mut repairs = vec![vec![0; LEN]; m];
        move || code.encode_sep(black_box(&sources), black_box(&mut repairs)).expect("fits")
    };
    let code = ReedSolomon::new(k, m).expect("a size it supports");
    let mut symbols = sources(k);
    symbols.resize(k + m, vec![0; LEN]);
    code.encode(&mut symbols).expect("fits");
    let decode = move || {
        let mut symbols: Vec<(&mut [u8], bool)> =
            symbols.iter_mut().enumerate().map(|(i, s)| (s.as_mut_slice(), i >= m)).collect();
        code.reconstruct_data(black_box(&mut symbols)).expect("enough symbols");
    };
    Contender { name: "reed-solomon-erasure", encode: Box::new(encode), decode: Box::new(decode) }
}
