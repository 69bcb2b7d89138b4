//! Why SLP does not code everything: what retransmission and forward error correction leave of a
//! link.
//!
//! SLP section II-A. Independent loss p; a group of n packets with k redundant ones.
//!
//! | paper      | here                 |
//! |------------|----------------------|
//! | 1 - p      | [`arq`]              |
//! | n / (n+k)  | [`fec`]              |
//! | p <= k / (n+k) | [`redundancy_needed`] |
//!
//! # Departures
//! - The paper calls a group repaired if p is at most k / (n+k), which holds on average only
//!   (SLP-A14). [`group_loss`] is how often it fails.
//!
//! # Invariants
//! Where the redundancy is at least the loss, FEC never leaves more than ARQ.

use crate::htpc_model::chance;

/// The share of transmissions that is not repeated, when losses are retransmitted: 1 - p.
pub fn arq(p: f64) -> f64 {
    1.0 - p
}

/// The share of transmissions that is not redundant: n / (n+k).
pub fn fec(n: u32, k: u32) -> f64 {
    f64::from(n) / (f64::from(n) + f64::from(k)).max(1.0)
}

/// The smallest k with p <= k / (n+k); `None` if p is 1 or more.
pub fn redundancy_needed(n: u32, p: f64) -> Option<u32> {
    (p < 1.0).then(|| (f64::from(n) * p.max(0.0) / (1.0 - p) - 1e-9).ceil().max(0.0) as u32)
}

/// How probably more than k packets of n + k are lost, so that the group cannot be repaired.
pub fn group_loss(n: u32, k: u32, p: f64) -> f64 {
    (k + 1..=n + k).map(|lost| chance(n + k, lost, p)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coding_everything_never_beats_retransmission() {
        for n in 1..60 {
            for p in (0..90).map(|percent| f64::from(percent) / 100.0) {
                let k = redundancy_needed(n, p).unwrap();
                assert!(p <= f64::from(k) / f64::from(n + k) + 1e-9);
                assert!(arq(p) >= fec(n, k) - 1e-9, "{n} {k} {p}");
            }
        }
        assert_eq!(redundancy_needed(10, 1.0), None);
        let nearly_all = redundancy_needed(10, 1.0 - 1e-12).unwrap();
        assert!(fec(10, nearly_all) > 0.0 && fec(0, 0) == 0.0);
    }

    #[test]
    fn enough_on_average_is_often_not_enough() {
        // 20 packets at 5 %: two redundant ones are above the average of 1.1 losses.
        assert_eq!(redundancy_needed(20, 0.05), Some(2));
        let failed = group_loss(20, 2, 0.05);
        assert!((failed - 0.0948).abs() < 5e-4, "{failed}");
        assert_eq!(group_loss(20, 2, 0.0), 0.0);
    }
}
