//! The probability that a block stays incomplete although it has repair symbols, if losses are
//! independent: the oracle that tests hold the model of bursts against.
//!
//! # Invariants
//! Falls with every repair symbol, rises with every source packet and with loss; computed by sums
//! of positive terms only, so that small probabilities keep their precision.

/// Most repair symbols that are looked at.
const MAX_REPAIRS: u16 = 255;

/// The probability that more of `sources` packets are lost (each with `loss`) than of `repairs`
/// repair symbols arrive (each lost with `repair_loss`): the block cannot be decoded. Takes
/// `sources x repairs` steps. Probabilities outside 0 to 1 count as the nearer bound, and at most
/// [`MAX_REPAIRS`] repair symbols count.
pub(crate) fn incomplete(sources: u16, loss: f64, repairs: u16, repair_loss: f64) -> f64 {
    let repairs = usize::from(repairs.min(MAX_REPAIRS));
    let lost = losses(usize::from(sources), loss, repairs);
    let missing = losses(repairs, repair_loss, repairs);
    // more[j]: the probability that more than j sources are lost, from the far end of the tail
    // inwards.
    let mut more = lost.beyond;
    let mut total = 0.0;
    for arrived in (0..=repairs).rev() {
        total += more * missing.exactly[repairs - arrived];
        more += lost.exactly[arrived];
    }
    total.min(1.0)
}

/// A binomial distribution up to a point.
struct Losses {
    exactly: [f64; MAX_REPAIRS as usize + 1],
    beyond: f64,
}

/// The distribution of the losses among `packets`, with one number for everything beyond `cap`.
fn losses(packets: usize, loss: f64, cap: usize) -> Losses {
    let p = loss.clamp(0.0, 1.0);
    let mut exactly = [0.0; MAX_REPAIRS as usize + 1];
    exactly[0] = 1.0;
    let mut beyond = 0.0;
    for _ in 0..packets {
        beyond += exactly[cap] * p;
        for n in (1..=cap).rev() {
            exactly[n] = exactly[n] * (1.0 - p) + exactly[n - 1] * p;
        }
        exactly[0] *= 1.0 - p;
    }
    Losses { exactly, beyond }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_computed_cases() {
        let close = |a: f64, b: f64| assert!((a - b).abs() <= 1e-10, "{a} {b}");
        close(incomplete(1, 0.02, 0, 0.0), 0.02);
        close(incomplete(1, 0.02, 1, 0.02), 0.0004); // a packet and its copy
        close(incomplete(10, 0.0, 0, 0.0), 0.0);
        close(incomplete(2, 0.5, 1, 0.0), 0.25); // both lost
        close(incomplete(2, 0.5, 1, 0.5), 0.5); // any of 2, 3 lost of 3: (3 + 1) / 8
        close(incomplete(3, 1.0, 3, 0.0), 0.0);
        close(incomplete(3, 1.0, 2, 0.0), 1.0);
        // 1 - 0.98^50 - 50 * 0.02 * 0.98^49
        close(incomplete(50, 0.02, 1, 0.0), 0.264_228_605_5);
    }

    #[test]
    fn tails_keep_their_precision() {
        let tiny = incomplete(2, 1e-10, 1, 0.0);
        assert!((tiny - 1e-20).abs() < 1e-29, "{tiny:e}");
    }

    #[test]
    fn is_monotone() {
        for sources in [1, 10, 60, 255] {
            for loss in [0.001, 0.02, 0.3] {
                let first = incomplete(sources, loss, 0, 0.05);
                let mut last = first;
                for repairs in 0..40 {
                    let now = incomplete(sources, loss, repairs, 0.05);
                    assert!(now <= last + 1e-12 && now >= 0.0, "{sources} {loss} {repairs}");
                    assert!(now <= incomplete(sources + 1, loss, repairs, 0.05) + 1e-12);
                    assert!(now <= incomplete(sources, loss + 0.01, repairs, 0.05) + 1e-12);
                    last = now;
                }
                assert!(last < first);
            }
        }
    }
}
