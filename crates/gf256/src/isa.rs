//! The instruction sets. Each module has a vector, and a token type that can only be made where the
//! processor has the instructions; the token's methods are therefore safe.

/// Defines a token and its operations: the algorithms of [`crate::generic`] compiled with the
/// module's features.
///
/// `$wide`, `$middle` and `$narrow` are the widths of columns, see [`crate::generic::product`].
macro_rules! operations {
    ($(#[$doc:meta])* $token:ident, $vector:ty, [$($feature:meta)?], $wide:literal, $middle:literal, $narrow:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $token(());

        impl $token {
            /// `dst += src`; both of the same length.
            pub(crate) fn add(self, dst: &mut [u8], src: &[u8]) {
                $(#[$feature])?
                unsafe fn inner(dst: &mut [u8], src: &[u8]) {
                    // SAFETY: two slices of which one is exclusively borrowed; the length is the
                    // lesser one.
                    unsafe {
                        let len = dst.len().min(src.len());
                        $crate::generic::map::<$vector>(dst.as_mut_ptr(), src.as_ptr(), len, $crate::generic::Add);
                    }
                }
                debug_assert_eq!(dst.len(), src.len());
                // SAFETY: the token proves that the processor has the features.
                unsafe { inner(dst, src) }
            }

            /// `dst *= c`.
            pub(crate) fn mul(self, dst: &mut [u8], c: u8) {
                $(#[$feature])?
                unsafe fn inner(dst: &mut [u8], c: u8) {
                    // SAFETY: source and destination are the same exclusively borrowed slice.
                    unsafe {
                        let op = $crate::generic::Mul::<$vector>(<$vector as $crate::generic::Vector>::factor(c));
                        let p = dst.as_mut_ptr();
                        $crate::generic::map::<$vector>(p, p, dst.len(), op);
                    }
                }
                // SAFETY: the token proves that the processor has the features.
                unsafe { inner(dst, c) }
            }

            /// `dst += c * src`; both of the same length.
            pub(crate) fn mul_add(self, dst: &mut [u8], src: &[u8], c: u8) {
                $(#[$feature])?
                unsafe fn inner(dst: &mut [u8], src: &[u8], c: u8) {
                    // SAFETY: two slices of which one is exclusively borrowed; the length is the
                    // lesser one.
                    unsafe {
                        let op = $crate::generic::MulAdd::<$vector>(<$vector as $crate::generic::Vector>::factor(c));
                        let len = dst.len().min(src.len());
                        $crate::generic::map::<$vector>(dst.as_mut_ptr(), src.as_ptr(), len, op);
                    }
                }
                debug_assert_eq!(dst.len(), src.len());
                // SAFETY: the token proves that the processor has the features.
                unsafe { inner(dst, src, c) }
            }

            /// How many outputs [`Self::product`] can make.
            pub(crate) fn tile(self) -> usize {
                <$vector as $crate::generic::Vector>::TILE
            }

            /// See [`crate::generic::product`].
            pub(crate) fn product(
                self,
                outs: &mut [&mut [u8]],
                init: &[&[u8]],
                rows: &[&[u8]],
                sources: &[&[u8]],
            ) {
                $(#[$feature])?
                unsafe fn inner(outs: &mut [&mut [u8]], init: &[&[u8]], rows: &[&[u8]], sources: &[&[u8]]) {
                    // SAFETY: this function has the features.
                    unsafe { $crate::generic::product::<$vector, $wide, $middle, $narrow>(outs, init, rows, sources) }
                }
                // SAFETY: the token proves that the processor has the features.
                unsafe { inner(outs, init, rows, sources) }
            }
        }
    };
}

pub(crate) mod scalar;

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod gfni256;
#[cfg(target_arch = "x86_64")]
pub(crate) mod gfni512;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ssse3;

#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
