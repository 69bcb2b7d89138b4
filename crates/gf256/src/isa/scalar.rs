//! Eight elements in an ordinary 64-bit register: the kernel of processors without byte shuffles.

use crate::{generic::Vector, tables::BITS};

/// Bit 0 of every byte.
const ONES: u64 = 0x0101_0101_0101_0101;

impl Vector for u64 {
    const BYTES: usize = 8;
    const TILE: usize = 2;
    /// c * x^k for every bit k.
    type Factor = [u8; 8];

    #[inline(always)]
    unsafe fn zero() -> Self {
        0
    }

    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<u64>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<u64>().write_unaligned(self) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        self ^ other
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        BITS[usize::from(c)]
    }

    /// Every byte whose bit k is set takes part with c * x^k; 0 or 1 times a byte carries into no
    /// other byte.
    #[inline(always)]
    unsafe fn mul(self, factor: Self::Factor) -> Self {
        let mut product = 0;
        for (k, &bits) in factor.iter().enumerate() {
            product ^= (self >> k & ONES) * u64::from(bits);
        }
        product
    }
}

operations! {
    /// Needs nothing.
    Scalar, u64, [], 1, 1, 1
}

impl Scalar {
    /// Every processor will do.
    pub(crate) fn new() -> Self {
        Self(())
    }
}
