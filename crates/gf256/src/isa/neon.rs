//! 16 elements per register, products by table look-up (`tbl`).

use core::arch::aarch64::{
    uint8x16_t, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vshrq_n_u8, vst1q_u8,
};

use crate::{generic::Vector, tables::NIBBLES};

/// Newtype, so that each instruction set has its own implementation of [`Vector`].
#[derive(Clone, Copy)]
pub(crate) struct N128(uint8x16_t);

impl Vector for N128 {
    const BYTES: usize = 16;
    const TILE: usize = 4;
    /// The products with low and with high half-bytes.
    type Factor = (uint8x16_t, uint8x16_t);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's promise that the processor has NEON.
        unsafe { Self(vdupq_n_u8(0)) }
    }

    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: the caller's promises.
        unsafe { Self(vld1q_u8(p)) }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut u8) {
        // SAFETY: the caller's promises.
        unsafe { vst1q_u8(p, self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller's promise that the processor has NEON.
        unsafe { Self(veorq_u8(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let nibbles = &NIBBLES[usize::from(c)];
        // SAFETY: both tables are 16 bytes long.
        unsafe { (vld1q_u8(nibbles.low.as_ptr()), vld1q_u8(nibbles.high.as_ptr())) }
    }

    #[inline(always)]
    unsafe fn mul(self, (low, high): Self::Factor) -> Self {
        // SAFETY: the caller's promise that the processor has NEON.
        unsafe {
            let low_nibbles = vandq_u8(self.0, vdupq_n_u8(0x0f));
            let high_nibbles = vshrq_n_u8::<4>(self.0);
            Self(veorq_u8(vqtbl1q_u8(low, low_nibbles), vqtbl1q_u8(high, high_nibbles)))
        }
    }
}

operations! {
    /// The processor has NEON.
    Neon, N128, [target_feature(enable = "neon")], 4, 1, 1
}

impl Neon {
    /// `None` where the processor lacks it.
    pub(crate) fn new() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Self(()))
    }
}
