//! Which instruction set runs, and the slice operations as callers see them.

use core::fmt;
use std::sync::OnceLock;

use crate::isa;

/// An instruction set with kernels of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Isa {
    /// 64-bit integer registers; works everywhere.
    Scalar,
    /// x86-64 with SSSE3: 16 bytes, byte shuffles.
    Ssse3,
    /// x86-64 with AVX2: 32 bytes, byte shuffles.
    Avx2,
    /// x86-64 with AVX2 and GFNI: 32 bytes, one instruction per product.
    Gfni256,
    /// x86-64 with AVX-512F and GFNI: 64 bytes, one instruction per product.
    Gfni512,
    /// AArch64 with NEON: 16 bytes, table look-ups.
    Neon,
}

impl Isa {
    /// Every instruction set, from the slowest to the fastest of each architecture.
    pub const ALL: [Self; 6] =
        [Self::Scalar, Self::Ssse3, Self::Avx2, Self::Gfni256, Self::Gfni512, Self::Neon];
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Scalar => "scalar",
            Self::Ssse3 => "ssse3",
            Self::Avx2 => "avx2",
            Self::Gfni256 => "gfni256",
            Self::Gfni512 => "gfni512",
            Self::Neon => "neon",
        })
    }
}

/// This processor lacks the instruction set that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnsupportedIsa(
    /// What was asked for.
    pub Isa,
);

impl fmt::Display for UnsupportedIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this processor does not support the instruction set {}", self.0)
    }
}

impl std::error::Error for UnsupportedIsa {}

/// The slice operations on one instruction set. A small value, to be copied around.
///
/// All of them treat a slice as a vector over the field. None allocates.
#[derive(Clone, Copy, Debug)]
pub struct Kernels(Backend);

/// The token inside proves that the processor has the instructions.
#[derive(Clone, Copy, Debug)]
enum Backend {
    Scalar(isa::scalar::Scalar),
    #[cfg(target_arch = "x86_64")]
    Ssse3(isa::ssse3::Ssse3),
    #[cfg(target_arch = "x86_64")]
    Avx2(isa::avx2::Avx2),
    #[cfg(target_arch = "x86_64")]
    Gfni256(isa::gfni256::Gfni256),
    #[cfg(target_arch = "x86_64")]
    Gfni512(isa::gfni512::Gfni512),
    #[cfg(target_arch = "aarch64")]
    Neon(isa::neon::Neon),
}

/// Runs one expression with `$token` bound to the token of whatever instruction set it is.
macro_rules! dispatch {
    ($kernels:expr, $token:ident => $call:expr) => {
        match $kernels.0 {
            Backend::Scalar($token) => $call,
            #[cfg(target_arch = "x86_64")]
            Backend::Ssse3($token) => $call,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2($token) => $call,
            #[cfg(target_arch = "x86_64")]
            Backend::Gfni256($token) => $call,
            #[cfg(target_arch = "x86_64")]
            Backend::Gfni512($token) => $call,
            #[cfg(target_arch = "aarch64")]
            Backend::Neon($token) => $call,
        }
    };
}

impl Kernels {
    /// The largest number of outputs that [`Kernels::product`] makes in one pass over its sources:
    /// with AVX-512; fewer where there are fewer registers.
    pub const TILE: usize = 8;

    /// The fastest kernels of this processor; looks at the processor once per process.
    pub fn detect() -> Self {
        static BEST: OnceLock<Kernels> = OnceLock::new();
        *BEST.get_or_init(|| {
            let best = Isa::ALL.iter().rev().find_map(|&isa| Self::with(isa).ok());
            best.unwrap_or(Self(Backend::Scalar(isa::scalar::Scalar::new())))
        })
    }

    /// The kernels of one instruction set, for tests and measurements.
    ///
    /// # Errors
    /// [`UnsupportedIsa`] if this processor lacks it.
    pub fn with(isa: Isa) -> Result<Self, UnsupportedIsa> {
        let backend = match isa {
            Isa::Scalar => Some(Backend::Scalar(isa::scalar::Scalar::new())),
            #[cfg(target_arch = "x86_64")]
            Isa::Ssse3 => isa::ssse3::Ssse3::new().map(Backend::Ssse3),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => isa::avx2::Avx2::new().map(Backend::Avx2),
            #[cfg(target_arch = "x86_64")]
            Isa::Gfni256 => isa::gfni256::Gfni256::new().map(Backend::Gfni256),
            #[cfg(target_arch = "x86_64")]
            Isa::Gfni512 => isa::gfni512::Gfni512::new().map(Backend::Gfni512),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => isa::neon::Neon::new().map(Backend::Neon),
            // Those of the other architectures.
            _ => None,
        };
        backend.map(Self).ok_or(UnsupportedIsa(isa))
    }

    /// The instruction set these kernels use.
    pub fn isa(self) -> Isa {
        match self.0 {
            Backend::Scalar(_) => Isa::Scalar,
            #[cfg(target_arch = "x86_64")]
            Backend::Ssse3(_) => Isa::Ssse3,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2(_) => Isa::Avx2,
            #[cfg(target_arch = "x86_64")]
            Backend::Gfni256(_) => Isa::Gfni256,
            #[cfg(target_arch = "x86_64")]
            Backend::Gfni512(_) => Isa::Gfni512,
            #[cfg(target_arch = "aarch64")]
            Backend::Neon(_) => Isa::Neon,
        }
    }

    /// `dst += src`. A shorter `src` counts as continued by zeros.
    ///
    /// # Panics
    /// If `src` is longer than `dst`.
    pub fn xor_assign(self, dst: &mut [u8], src: &[u8]) {
        let dst = &mut dst[..src.len()];
        dispatch!(self, token => token.add(dst, src));
    }

    /// `dst *= c`.
    pub fn mul_assign(self, dst: &mut [u8], c: u8) {
        match c {
            0 => dst.fill(0),
            1 => {}
            _ => dispatch!(self, token => token.mul(dst, c)),
        }
    }

    /// `dst += c * src`. A shorter `src` counts as continued by zeros.
    ///
    /// # Panics
    /// If `src` is longer than `dst`.
    pub fn mul_add(self, dst: &mut [u8], src: &[u8], c: u8) {
        let dst = &mut dst[..src.len()];
        match c {
            0 => {}
            1 => dispatch!(self, token => token.add(dst, src)),
            _ => dispatch!(self, token => token.mul_add(dst, src, c)),
        }
    }

    /// Matrix times vector of slices: `outs[j] = sum over i of rows[j][i] * sources[i]`, in one
    /// pass over the sources for up to [`Kernels::TILE`] outputs.
    ///
    /// What the outputs held does not matter. Sources may be shorter than the outputs, and then
    /// count as continued by zeros; bytes beyond the length of the outputs are ignored. A first row
    /// of ones (in every tile) is faster than any other.
    ///
    /// # Panics
    /// If the outputs differ in length, if there is not one row for each of them, or a row does not
    /// have one coefficient for each source.
    pub fn product(self, outs: &mut [&mut [u8]], rows: &[&[u8]], sources: &[&[u8]]) {
        self.product_onto(outs, &[], rows, sources);
    }

    /// [`Kernels::product`] on top of initial values:
    /// `outs[j] = init[j] + sum over i of rows[j][i] * sources[i]`.
    ///
    /// No initial value at all means zero for every output; their lengths are treated like those of
    /// sources.
    ///
    /// # Panics
    /// As [`Kernels::product`], and if there are initial values, but not one for each output.
    pub fn product_onto(self, outs: &mut [&mut [u8]], init: &[&[u8]], rows: &[&[u8]], sources: &[&[u8]]) {
        assert_eq!(outs.len(), rows.len(), "one row of coefficients for each output");
        assert!(init.is_empty() || init.len() == outs.len(), "one initial value for each output, or none");
        assert!(outs.windows(2).all(|pair| pair[0].len() == pair[1].len()), "outputs differ in length");
        dispatch!(self, token => {
            let tile = token.tile();
            for (n, outs) in outs.chunks_mut(tile).enumerate() {
                let range = n * tile..n * tile + outs.len();
                let init = if init.is_empty() { init } else { &init[range.clone()] };
                token.product(outs, init, &rows[range], sources);
            }
        });
    }
}
