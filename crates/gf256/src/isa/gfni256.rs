//! 32 elements per register, products by one instruction (GFNI), for processors without AVX-512.

use core::arch::x86_64::{
    __m256i, _mm256_gf2p8affine_epi64_epi8, _mm256_loadu_si256, _mm256_set1_epi64x, _mm256_setzero_si256,
    _mm256_storeu_si256, _mm256_xor_si256,
};

use crate::{generic::Vector, tables::AFFINE};

/// Newtype, since AVX2 implements [`Vector`] on the same register.
#[derive(Clone, Copy)]
pub(crate) struct G256(__m256i);

impl Vector for G256 {
    const BYTES: usize = 32;
    const TILE: usize = 6;
    /// The matrix of the factor, four times.
    type Factor = __m256i;

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
        // SAFETY: the caller's promise that the processor has AVX2.
        unsafe { _mm256_set1_epi64x(AFFINE[usize::from(c)] as i64) }
    }

    #[inline(always)]
    unsafe fn mul(self, factor: Self::Factor) -> Self {
        // SAFETY: the caller's promise that the processor has GFNI.
        unsafe { Self(_mm256_gf2p8affine_epi64_epi8::<0>(self.0, factor)) }
    }
}

operations! {
    /// The processor has AVX2 and GFNI.
    Gfni256, G256, [target_feature(enable = "avx2,gfni")], 2, 2, 1
}

impl Gfni256 {
    /// `None` where the processor lacks one of them.
    pub(crate) fn new() -> Option<Self> {
        let has = std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("gfni");
        has.then_some(Self(()))
    }
}
