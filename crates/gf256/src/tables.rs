//! What defines the field, and tables computed from it at compile time: powers and logarithms, and the forms of "multiply by c" that
//! the instruction sets want.

/// The reducing polynomial, x^8 + x^4 + x^3 + x^2 + 1, with bit k for x^k. It is primitive.
pub const POLYNOMIAL: u16 = 0x11d;

/// The element x. Its powers are all 255 non-zero elements.
pub const GENERATOR: u8 = 2;

/// `a * x`.
const fn times_x(a: u8) -> u8 {
    let shifted = (a as u16) << 1;
    (if shifted & 0x100 == 0 { shifted } else { shifted ^ POLYNOMIAL }) as u8
}

/// Powers of the generator, twice over, so that the sum of two logarithms needs no reduction.
pub(crate) static EXP: [u8; 510] = {
    assert!(GENERATOR == 2);
    let mut table = [1; 510];
    let mut n = 1;
    while n < 510 {
        table[n] = times_x(table[n - 1]);
        n += 1;
    }
    table
};

/// Logarithms to the generator. The entry of zero is never used.
pub(crate) static LOG: [u8; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 255 {
        table[EXP[n] as usize] = n as u8;
        n += 1;
    }
    table
};

/// `BITS[c][k]` is c * x^k: what bit k of the other factor contributes to the product.
pub(crate) static BITS: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut c = 0;
    while c < 256 {
        table[c][0] = c as u8;
        let mut k = 1;
        while k < 8 {
            table[c][k] = times_x(table[c][k - 1]);
            k += 1;
        }
        c += 1;
    }
    table
};

/// The products of one constant with every value of a low and of a high half-byte.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Nibbles {
    /// c * n.
    pub(crate) low: [u8; 16],
    /// c * (n << 4).
    pub(crate) high: [u8; 16],
}

/// For byte shuffles (`pshufb`, `tbl`): a product is the sum of two look-ups of 16 entries.
pub(crate) static NIBBLES: [Nibbles; 256] = {
    let mut table = [Nibbles { low: [0; 16], high: [0; 16] }; 256];
    let mut c = 0;
    while c < 256 {
        let mut n = 0;
        while n < 16 {
            let mut k = 0;
            while k < 4 {
                if n >> k & 1 == 1 {
                    table[c].low[n] ^= BITS[c][k];
                    table[c].high[n] ^= BITS[c][k + 4];
                }
                k += 1;
            }
            n += 1;
        }
        c += 1;
    }
    table
};

/// For `gf2p8affineqb`: multiplication by c as a matrix of 8 x 8 bits over GF(2).
///
/// The instruction computes bit i of a result byte as the parity of the source byte and byte 7 - i
/// of the matrix.
#[cfg(target_arch = "x86_64")]
pub(crate) static AFFINE: [u64; 256] = {
    let mut table = [0; 256];
    let mut c = 0;
    while c < 256 {
        let mut i = 0;
        while i < 8 {
            let mut k = 0;
            while k < 8 {
                let bit = (BITS[c][k] >> i & 1) as u64;
                table[c] |= bit << (8 * (7 - i) + k);
                k += 1;
            }
            i += 1;
        }
        c += 1;
    }
    table
};
