//! The fused product on every instruction set of this machine, beside copying and adding the same
//! bytes. `cargo bench -p mendpath-gf256`

use divan::{Bencher, black_box, counter::BytesCount};
use mendpath_gf256::{Isa, Kernels};

const LEN: usize = 1350;
const SOURCES: usize = 30;

fn main() {
    for isa in Isa::ALL {
        if let Err(error) = Kernels::with(isa) {
            println!("skipped: {error}");
        }
    }
    divan::main();
}

fn supported() -> Vec<Isa> {
    Isa::ALL.into_iter().filter(|&isa| Kernels::with(isa).is_ok()).collect()
}

fn sources() -> Vec<Vec<u8>> {
    (0..SOURCES).map(|i| (0..LEN).map(|n| (n * 31 + i * 7) as u8).collect()).collect()
}

#[divan::bench]
fn memcpy(bencher: Bencher<'_, '_>) {
    let sources = sources();
    let mut out = vec![0; LEN];
    bencher.counter(BytesCount::new(LEN * SOURCES)).bench_local(|| {
        for source in &sources {
            black_box(&mut out).copy_from_slice(black_box(source));
        }
    });
}

#[divan::bench(args = supported())]
fn mul_add(bencher: Bencher<'_, '_>, isa: Isa) {
    let kernels = Kernels::with(isa).unwrap();
    let sources = sources();
    let mut out = vec![0; LEN];
    bencher.counter(BytesCount::new(LEN * SOURCES)).bench_local(|| {
        for source in &sources {
            kernels.mul_add(black_box(&mut out), black_box(source), 29);
        }
    });
}

/// One row of ones: the floor of every code.
#[divan::bench(args = supported())]
fn xor(bencher: Bencher<'_, '_>, isa: Isa) {
    product::<1>(bencher, isa);
}

#[divan::bench(args = supported(), consts = [2, 3, 4, 6, 8])]
fn product<const M: usize>(bencher: Bencher<'_, '_>, isa: Isa) {
    let kernels = Kernels::with(isa).unwrap();
    let data = sources();
    let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let matrix: Vec<Vec<u8>> = (0..M)
        .map(|j| (0..SOURCES).map(|i| if j == 0 { 1 } else { (j * 71 + i * 13 + 2) as u8 }).collect())
        .collect();
    let rows: Vec<&[u8]> = matrix.iter().map(Vec::as_slice).collect();
    let mut outs = vec![vec![0; LEN]; M];
    bencher.counter(BytesCount::new(LEN * SOURCES)).bench_local(|| {
        let mut outs: [&mut [u8]; M] = outs.each_mut_array();
        kernels.product(black_box(&mut outs), black_box(&rows), black_box(&sources));
    });
}

/// A vector of buffers as an array of slices.
trait EachMut {
    fn each_mut_array<const M: usize>(&mut self) -> [&mut [u8]; M];
}

impl EachMut for Vec<Vec<u8>> {
    fn each_mut_array<const M: usize>(&mut self) -> [&mut [u8]; M] {
        let mut buffers = self.iter_mut();
        std::array::from_fn(|_| buffers.next().unwrap().as_mut_slice())
    }
}
