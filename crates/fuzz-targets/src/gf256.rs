//! Field kernels: every instruction set of this machine gives, for any slices, what shifting and
//! adding bit by bit gives.

use gf256::{Isa, Kernels};

use crate::input::Input;

/// Room before slices, so that they begin at any alignment.
const SKEW: usize = 64;

/// Any slices, at any alignment.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let isa = input.pick(&Isa::ALL);
    let Ok(kernels) = Kernels::with(isa) else { return };
    let c = input.u8();
    let (at_dst, at_src) = (input.below(SKEW), input.below(SKEW));
    let len = usize::from(input.u16()) % 1_200;
    let bytes = input.rest();
    let byte = |i: usize| bytes.get(i).copied().unwrap_or((i * 31) as u8);
    let src: Vec<u8> = (0..SKEW + len).map(|i| byte(2 * i)).collect();
    let before: Vec<u8> = (0..SKEW + len).map(|i| byte(2 * i + 1)).collect();
    let src = &src[at_src..at_src + len];

    let apply = |kernel: &dyn Fn(&mut [u8]), expected: &dyn Fn(usize) -> u8| {
        let mut dst = before.clone();
        kernel(&mut dst[at_dst..at_dst + len]);
        for (i, (&got, &was)) in dst.iter().zip(&before).enumerate() {
            let inside = (at_dst..at_dst + len).contains(&i);
            let expected = if inside { expected(i - at_dst) } else { was };
            assert_eq!(got, expected, "byte {i}, {isa:?}");
        }
    };
    let was = |i: usize| before[at_dst + i];
    apply(&|dst| kernels.mul_add(dst, src, c), &|i| was(i) ^ mul(c, src[i]));
    apply(&|dst| kernels.mul_assign(dst, c), &|i| mul(c, was(i)));
    apply(&|dst| kernels.xor_assign(dst, src), &|i| was(i) ^ src[i]);
    let second = &src[..len / 2];
    let row = [c, c.wrapping_mul(3)];
    apply(&|dst| kernels.product(&mut [dst], &[&row], &[src, second]), &|i| {
        mul(row[0], src[i]) ^ mul(row[1], second.get(i).copied().unwrap_or(0))
    });
}

/// Product by shift and add.
fn mul(a: u8, b: u8) -> u8 {
    let (mut a, mut product) = (u16::from(a), 0);
    for k in 0..8 {
        product ^= if b >> k & 1 == 1 { a } else { 0 };
        a = if a & 0x80 == 0 { a << 1 } else { a << 1 ^ 0x11d };
    }
    product as u8
}
