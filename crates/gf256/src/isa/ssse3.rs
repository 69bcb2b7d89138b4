//! 16 elements per register, products by byte shuffle.

use core::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_loadu_si128, _mm_set1_epi8, _mm_setzero_si128, _mm_shuffle_epi8,
    _mm_srli_epi64, _mm_storeu_si128, _mm_xor_si128,
};

use crate::{generic::Vector, tables::NIBBLES};

/// Newtype, so that each instruction set has its own implementation of [`Vector`].
#[derive(Clone, Copy)]
pub(crate) struct V128(__m128i);

impl Vector for V128 {
    const BYTES: usize = 16;
    const TILE: usize = 4;
    /// The products with low and with high half-bytes.
    type Factor = (__m128i, __m128i);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's promise that the processor has SSSE3.
        unsafe { Self(_mm_setzero_si128()) }
    }

    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: the caller's promises.
        unsafe { Self(_mm_loadu_si128(p.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut u8) {
        // SAFETY: the caller's promises.
        unsafe { _mm_storeu_si128(p.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller's promise that the processor has SSSE3.
        unsafe { Self(_mm_xor_si128(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let nibbles = &NIBBLES[usize::from(c)];
        // SAFETY: both tables are 16 bytes long.
        unsafe {
            (_mm_loadu_si128(nibbles.low.as_ptr().cast()), _mm_loadu_si128(nibbles.high.as_ptr().cast()))
        }
    }

    #[inline(always)]
    unsafe fn mul(self, (low, high): Self::Factor) -> Self {
        // SAFETY: the caller's promise that the processor has SSSE3.
        unsafe {
            let mask = _mm_set1_epi8(0x0f);
            let low_nibbles = _mm_and_si128(self.0, mask);
            let high_nibbles = _mm_and_si128(_mm_srli_epi64(self.0, 4), mask);
            Self(_mm_xor_si128(_mm_shuffle_epi8(low, low_nibbles), _mm_shuffle_epi8(high, high_nibbles)))
        }
    }
}

operations! {
    /// The processor has SSSE3.
    Ssse3, V128, [target_feature(enable = "ssse3")], 2, 1, 1
}

impl Ssse3 {
    /// `None` where the processor lacks it.
    pub(crate) fn new() -> Option<Self> {
        std::arch::is_x86_feature_detected!("ssse3").then_some(Self(()))
    }
}
