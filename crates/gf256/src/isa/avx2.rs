//! 32 elements per register, products by byte shuffle within each half.

use core::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_loadu_si256,
    _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256,
    _mm256_xor_si256,
};

use crate::{generic::Vector, tables::NIBBLES};

/// Newtype, since GFNI implements [`Vector`] on the same register.
#[derive(Clone, Copy)]
pub(crate) struct V256(__m256i);

impl Vector for V256 {
    const BYTES: usize = 32;
    const TILE: usize = 4;
    /// The products with low and with high half-bytes, each in both halves.
    type Factor = (__m256i, __m256i);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's promise that the processor has AVX2.
        unsafe { Self(_mm256_setzero_si256()) }
    }

    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: the caller's promises.
        unsafe { Self(_mm256_loadu_si256(p.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut u8) {
        // SAFETY: the caller's promises.
        unsafe { _mm256_storeu_si256(p.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller's promise that the processor has AVX2.
        unsafe { Self(_mm256_xor_si256(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let nibbles = &NIBBLES[usize::from(c)];
        // SAFETY: both tables are 16 bytes long; the caller's promise that the processor has AVX2.
        unsafe {
            (
                _mm256_broadcastsi128_si256(_mm_loadu_si128(nibbles.low.as_ptr().cast())),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(nibbles.high.as_ptr().cast())),
            )
        }
    }

    #[inline(always)]
    unsafe fn mul(self, (low, high): Self::Factor) -> Self {
        // SAFETY: the caller's promise that the processor has AVX2.
        unsafe {
            let mask = _mm256_set1_epi8(0x0f);
            let low_nibbles = _mm256_and_si256(self.0, mask);
            let high_nibbles = _mm256_and_si256(_mm256_srli_epi64(self.0, 4), mask);
            Self(_mm256_xor_si256(
                _mm256_shuffle_epi8(low, low_nibbles),
                _mm256_shuffle_epi8(high, high_nibbles),
            ))
        }
    }
}

operations! {
    /// The processor has AVX2.
    Avx2, V256, [target_feature(enable = "avx2")], 2, 1, 1
}

impl Avx2 {
    /// `None` where the processor lacks it.
    pub(crate) fn new() -> Option<Self> {
        std::arch::is_x86_feature_detected!("avx2").then_some(Self(()))
    }
}
