//! HTPC's model: how much of a window is blocked, and how probably a flow times out (Fig. 5).
//!
//! HTPC, "Model analysis", equations 9 to 17, for windows of k packets of which each is blocked
//! with probability b.
//!
//! | paper              | here                            |
//! |--------------------|---------------------------------|
//! | k, w_c             | `unit`                          |
//! | r                  | `extra`: 0 for RPS, 1 for Corrective, else [`short_extra`], [`long_extra`] |
//! | PB                 | [`blocked`]                     |
//! | PTO                | [`timeout`]                     |
//!
//! # Departures
//! - r coded packets mend up to r blocked ones, so i blocked of k + r leave max(0, i - r). The
//!   paper has i - 1 for every r (HTPC-A11): [`Reading::AsPrinted`]. With it, HTPC's short flows
//!   fare worse than RPS, against its own figure.
//! - A timeout is always over k + r packets with probability b each; as printed, CAPS and HTPC are
//!   computed with their own PB in place of b.

/// T_fr: fewer arrivals than this are a timeout.
const FAST_RETRANSMIT: u32 = 3;

/// Which formulas (HTPC-A11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// With the factor i - 1 and PB inside of PTO.
    AsPrinted,
    /// With max(0, i - r) and b.
    Corrected,
}

/// PB: the share of the unit's packets that neither arrives nor is rebuilt.
pub fn blocked(unit: u32, extra: u32, b: f64, reading: Reading) -> f64 {
    if extra == 0 {
        return b; // equation 9
    }
    let rebuilt = match reading {
        Reading::AsPrinted => 1,
        Reading::Corrected => extra,
    };
    let all = unit + extra;
    let term = |i: u32| chance(all, i, b) * f64::from(i.saturating_sub(rebuilt));
    (1..=all).map(term).sum::<f64>() / f64::from(unit.max(1))
}

/// PTO: the probability that fewer than three packets arrive of a unit with `extra` coded ones.
pub fn timeout(unit: u32, extra: u32, b: f64, reading: Reading) -> f64 {
    let b = match reading {
        // Equation 12 has PB of RPS, which is b; equations 15 and 17 the scheme's own.
        Reading::AsPrinted if extra > 1 => blocked(unit, extra, b, reading),
        _ => b,
    };
    let all = unit + extra;
    (0..FAST_RETRANSMIT.min(all + 1)).map(|arrived| chance(all, all - arrived, b)).sum()
}

/// r of short flows, HTPC's and CAPS's: k / (1-b) - k, rounded up.
pub fn short_extra(unit: u32, b: f64) -> u32 {
    round_up(f64::from(unit) / (1.0 - b) - f64::from(unit))
}

/// r of HTPC's long flows: 3 / (1-b) - k, rounded up and not negative (HTPC-A1). CAPS's long flows
/// have none.
pub fn long_extra(unit: u32, b: f64) -> u32 {
    round_up(f64::from(FAST_RETRANSMIT) / (1.0 - b) - f64::from(unit))
}

fn round_up(packets: f64) -> u32 {
    (packets - 1e-9).ceil().max(0.0) as u32
}

/// Exactly `i` of `n` are blocked.
pub(crate) fn chance(n: u32, i: u32, p: f64) -> f64 {
    (0..i).fold(power(1.0 - p, n - i) * power(p, i), |c, j| c * f64::from(n - j) / f64::from(j + 1))
}

/// By products only: the same bits on every platform.
fn power(base: f64, n: u32) -> f64 {
    (0..n).fold(1.0, |product, _| product * base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example_at_half_blocking() {
        // k; PB of Corrective, of HTPC's short flows as printed and corrected; PTO of RPS,
        // Corrective, HTPC's long flows.
        for (k, pb, pto) in [
            (2, [0.312, 0.531, 0.188], [1.0, 0.875, 0.3438]),
            (4, [0.383, 0.751, 0.137], [0.6875, 0.5, 0.3438]),
            (5, [0.403, 0.800, 0.123], [0.5, 0.3438, 0.3438]),
            (6, [0.418, 0.833, 0.113], [0.3438, 0.2266, 0.3438]),
            (8, [0.438, 0.875, 0.098], [0.1445, 0.0898, 0.1445]),
            (10, [0.450, 0.900, 0.088], [0.0547, 0.0327, 0.0547]),
        ] {
            let (short, long) = (short_extra(k, 0.5), long_extra(k, 0.5));
            assert_eq!((short, long), (k, 6_u32.saturating_sub(k)));
            let found = [
                blocked(k, 1, 0.5, Reading::AsPrinted),
                blocked(k, short, 0.5, Reading::AsPrinted),
                blocked(k, short, 0.5, Reading::Corrected),
            ];
            assert!(found.iter().zip(pb).all(|(a, b)| (a - b).abs() < 6e-4), "{k}: {found:?}");
            let found = [0, 1, long].map(|extra| timeout(k, extra, 0.5, Reading::Corrected));
            assert!(found.iter().zip(pto).all(|(a, b)| (a - b).abs() < 6e-5), "{k}: {found:?}");
        }
    }

    #[test]
    fn chances_add_up() {
        for (n, p) in [(1, 0.5), (20, 0.1), (64, 0.9)] {
            let sum: f64 = (0..=n).map(|i| chance(n, i, p)).sum();
            assert!((sum - 1.0).abs() < 1e-12, "{n} {p}: {sum}");
        }
    }

    #[test]
    fn as_printed_differs_only_with_more_than_one_coded_packet() {
        for extra in [0, 1] {
            assert_eq!(
                blocked(8, extra, 0.3, Reading::AsPrinted),
                blocked(8, extra, 0.3, Reading::Corrected)
            );
            assert_eq!(
                timeout(8, extra, 0.3, Reading::AsPrinted),
                timeout(8, extra, 0.3, Reading::Corrected)
            );
        }
        assert!(blocked(8, 4, 0.3, Reading::AsPrinted) > blocked(8, 4, 0.3, Reading::Corrected));
        assert!(timeout(8, 4, 0.3, Reading::AsPrinted) > timeout(8, 4, 0.3, Reading::Corrected));
    }
}
