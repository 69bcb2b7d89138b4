//! 64 elements per register, products by one instruction (GFNI).

use core::arch::x86_64::{
    __m512i, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_storeu_si512, _mm512_xor_si512,
};

use crate::{generic::Vector, tables::AFFINE};

/// Newtype, so that each instruction set has its own implementation of [`Vector`].
#[derive(Clone, Copy)]
pub(crate) struct G512(__m512i);

impl Vector for G512 {
    const BYTES: usize = 64;
    const TILE: usize = 8;
    const SUM_OF_THREE: bool = true;
    /// The matrix of the factor, eight times.
    type Factor = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's promise that the processor has AVX-512.
        unsafe { Self(_mm512_setzero_si512()) }
    }

    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: the caller's promises.
        unsafe { Self(_mm512_loadu_si512(p.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut u8) {
        // SAFETY: the caller's promises.
        unsafe { _mm512_storeu_si512(p.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller's promise that the processor has AVX-512.
        unsafe { Self(_mm512_xor_si512(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        // SAFETY: the caller's promise that the processor has AVX-512.
        unsafe { _mm512_set1_epi64(AFFINE[usize::from(c)] as i64) }
    }

    #[inline(always)]
    unsafe fn mul(self, factor: Self::Factor) -> Self {
        // SAFETY: the caller's promise that the processor has AVX-512 and GFNI.
        unsafe { Self(_mm512_gf2p8affine_epi64_epi8::<0>(self.0, factor)) }
    }
}

operations! {
    /// The processor has AVX-512F and GFNI.
    Gfni512, G512, [target_feature(enable = "avx512f,gfni")], 4, 2, 2
}

impl Gfni512 {
    /// `None` where the processor lacks one of them.
    pub(crate) fn new() -> Option<Self> {
        let has =
            std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("gfni");
        has.then_some(Self(()))
    }
}
