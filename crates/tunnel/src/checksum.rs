//! The Internet checksum (RFC 1071), whole and incremental (RFC 1624).

use std::net::IpAddr;

/// Sum of 16-bit words with carries left to be folded; an odd last byte is padded with zero.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    // Eight bytes at a time: the sum is the same in any word size whose carries come around
    // (RFC 1071 section 2 (B)).
    let (words, rest) = bytes.as_chunks::<8>();
    let mut total: u64 = 0;
    for word in words {
        let (added, carry) = total.overflowing_add(u64::from_be_bytes(*word));
        total = added + u64::from(carry);
    }
    let mut folded = (total >> 32) + (total & 0xffff_ffff);
    for pair in rest.chunks(2) {
        folded += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    folded
}

/// Folds carries in.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The checksum over `bytes`, to be written into a field that was zero.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

/// Sum of the pseudo-header (RFC 9293 section 3.1, RFC 8200 section 8.1).
pub(crate) fn pseudo_header(from: IpAddr, to: IpAddr, protocol: u8, length: usize) -> u64 {
    let addresses = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => sum(&from.octets()) + sum(&to.octets()),
        (IpAddr::V6(from), IpAddr::V6(to)) => sum(&from.octets()) + sum(&to.octets()),
        _ => 0,
    };
    addresses + u64::from(protocol) + length as u64
}

/// The sum that a checksum must be adjusted by when `old` becomes `new`, both of even length
/// (RFC 1624 equation 3).
pub(crate) fn change(old: &[u8], new: &[u8]) -> u64 {
    u64::from(!fold(sum(old))) + sum(new)
}

/// Adjusts a checksum by the sum of [`change`]s.
pub(crate) fn adjust(field: &mut [u8], change: u64) {
    let old = u16::from_be_bytes([field[0], field[1]]);
    let new = !fold(u64::from(!old) + change);
    field[..2].copy_from_slice(&new.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
    }

    fn simple(bytes: &[u8]) -> u16 {
        let words = bytes
            .chunks(2)
            .map(|pair| u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])));
        fold(words.sum())
    }

    proptest! {
        #[test]
        fn the_quick_sum_is_the_simple_one(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            // 0 and 0xffff both stand for zero; a sum of words that are not all zero is never 0.
            prop_assert_eq!(fold(sum(&bytes)), simple(&bytes));
        }

        #[test]
        fn an_adjusted_checksum_is_the_recomputed_one(
            mut bytes in proptest::collection::vec(any::<u8>(), 20..60),
            new: [u8; 6],
            at in 0usize..6,
        ) {
            bytes[18..20].fill(0);
            let mut field = checksum(&bytes).to_be_bytes();
            let old: [u8; 6] = bytes[at * 2..at * 2 + 6].try_into().unwrap();
            bytes[at * 2..at * 2 + 6].copy_from_slice(&new);
            adjust(&mut field, change(&old, &new));
            let (adjusted, recomputed) = (u16::from_be_bytes(field), checksum(&bytes));
            // Equation 3 gives the other zero only where all of the data are zero.
            prop_assert!(adjusted == recomputed || bytes.iter().all(|byte| *byte == 0));
        }
    }
}
