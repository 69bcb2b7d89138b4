//! Packet numbers on the wire: truncated when sent, expanded when received (RFC 9000 section 17.1,
//! appendix A).

use super::coding::MAX_VARINT;

/// Bytes, 1 to 4, that a receiver needs to expand `packet_number` rightly, if `largest_acked` is
/// the largest packet number that the peer has acknowledged in this space (RFC 9000 appendix A.2).
///
/// More than 2^31 packets in flight do not fit any length; 4 is the answer then, too.
pub const fn packet_number_len(packet_number: u64, largest_acked: Option<u64>) -> usize {
    let unacked = match largest_acked {
        Some(largest) => packet_number.saturating_sub(largest),
        None => packet_number.saturating_add(1),
    };
    // The encoding must cover twice the distance.
    match unacked {
        0..=0x80 => 1,
        0x81..=0x8000 => 2,
        0x8001..=0x80_0000 => 3,
        _ => 4,
    }
}

/// The packet number closest to `expected` (one more than the largest received) whose low `len`
/// bytes are `truncated` (RFC 9000 appendix A.3). `len` is 1 to 4.
pub const fn expand_packet_number(truncated: u32, len: usize, expected: u64) -> u64 {
    let window = 1_u64 << (8 * len);
    let half = window / 2;
    let candidate = (expected & !(window - 1)) | truncated as u64;
    if candidate + half <= expected && candidate + window <= MAX_VARINT {
        candidate + window
    } else if (candidate > expected + half || candidate > MAX_VARINT) && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rfc_9000_appendix_a() {
        assert_eq!(packet_number_len(0xac_5c02, Some(0xab_e8b3)), 2);
        assert_eq!(packet_number_len(0xac_e8fe, Some(0xab_e8b3)), 3);
        assert_eq!(expand_packet_number(0x9b32, 2, 0xa82f_30eb), 0xa82f_9b32);
    }

    #[test]
    fn borders() {
        assert_eq!(packet_number_len(0, None), 1);
        assert_eq!(packet_number_len(127, None), 1);
        assert_eq!(packet_number_len(128, None), 2);
        assert_eq!(packet_number_len(MAX_VARINT, None), 4);
        assert_eq!(expand_packet_number(0xff, 1, 0), 0xff);
        assert_eq!(expand_packet_number(0, 1, MAX_VARINT), MAX_VARINT - 0xff);
        assert_eq!(expand_packet_number(u32::MAX, 4, MAX_VARINT + 1), MAX_VARINT);
        assert_eq!(expand_packet_number(0, 1, MAX_VARINT + 1), MAX_VARINT - 0xff);
        // Half a window away in either direction, the larger number wins.
        assert_eq!(expand_packet_number(0x80, 1, 0x100), 0x180);
        assert_eq!(expand_packet_number(0x00, 1, 0x180), 0x200);
    }

    proptest! {
        #[test]
        fn what_is_truncated_expands(
            acked in 0..1_u64 << 61,
            ahead in 1..1_u64 << 31,
            shift in 0..31_u32,
            lost in any::<u64>(),
        ) {
            let ahead = (ahead >> shift).max(1);
            let sent = acked + ahead;
            // The receiver has everything acknowledged and perhaps some more.
            let expected = acked + 1 + lost % ahead;
            let len = packet_number_len(sent, Some(acked));
            let truncated = (sent & ((1 << (8 * len)) - 1)) as u32;
            prop_assert_eq!(expand_packet_number(truncated, len, expected), sent);
        }

        #[test]
        fn any_input_gives_a_packet_number(
            truncated in any::<u32>(),
            len in 1..=4_usize,
            expected in prop_oneof![0..300_u64, 0..=MAX_VARINT + 1, MAX_VARINT - 300..=MAX_VARINT + 1],
        ) {
            let truncated = truncated & u32::MAX >> (32 - 8 * len as u32);
            prop_assert!(expand_packet_number(truncated, len, expected) <= MAX_VARINT);
        }
    }
}
