//! Bursty loss: the simple Gilbert model, which loses everything in its bad state and nothing in
//! its good one.
//!
//! | usual symbol    | here                    | unit        |
//! |-----------------|-------------------------|-------------|
//! | p               | [`Gilbert::to_bad`]     | probability |
//! | r               | [`Gilbert::to_good`]    | probability |
//! | P = p / (p + r) | [`Gilbert::loss`]       | probability |
//! | B = 1 / r       | [`Gilbert::mean_burst`] | packets     |
//!
//! # Invariants
//! Without memory (`to_good = 1 - to_bad`) every answer is the binomial one.

/// Chances of a change of state from one packet to the next.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gilbert {
    to_bad: f64,
    to_good: f64,
}

impl Gilbert {
    /// The model that loses `loss` of all packets (0 to below 1) in bursts of `mean_burst` packets
    /// on average (1 or more, and finite). `None` if there is no such model: so much loss needs longer bursts.
    pub fn new(loss: f64, mean_burst: f64) -> Option<Self> {
        if !(0.0..1.0).contains(&loss) || !(1.0..f64::INFINITY).contains(&mean_burst) {
            return None;
        }
        let to_good = 1.0 / mean_burst;
        let to_bad = to_good * loss / (1.0 - loss);
        (to_bad <= 1.0).then_some(Self { to_bad, to_good })
    }

    /// The model that loses nothing.
    pub fn lossless() -> Self {
        Self { to_bad: 0.0, to_good: 1.0 }
    }

    /// p: the chance that a delivered packet is followed by a lost one.
    pub fn to_bad(&self) -> f64 {
        self.to_bad
    }

    /// r: the chance that a lost packet is followed by a delivered one.
    pub fn to_good(&self) -> f64 {
        self.to_good
    }

    /// The long-run share of lost packets.
    pub fn loss(&self) -> f64 {
        self.to_bad / (self.to_bad + self.to_good)
    }

    /// The mean number of packets lost in a row.
    pub fn mean_burst(&self) -> f64 {
        1.0 / self.to_good
    }

    /// The probability that more than `tolerated` (at most 255) of `packets` packets in a row are
    /// lost.
    pub fn exceeds(&self, packets: u16, tolerated: u8) -> f64 {
        self.losses(packets, usize::from(tolerated)).1
    }

    /// For every n up to `most` (at most 255) the probability that more than n of `packets` packets
    /// in a row are lost.
    pub fn tails(&self, packets: u16, most: u8) -> Vec<f64> {
        let (exactly, beyond) = self.losses(packets, usize::from(most));
        Self::tails_of(&exactly, beyond)
    }

    /// For every n up to `most` (at most 255) the probability that the first of `packets` packets in
    /// a row is lost, and more than n of them are.
    pub fn tails_from_loss(&self, packets: u16, most: u8) -> Vec<f64> {
        let (exactly, beyond) = self.losses_from([0.0, self.loss()], packets, usize::from(most));
        Self::tails_of(&exactly, beyond)
    }

    /// From the far end inwards, so that small probabilities keep their precision.
    fn tails_of(exactly: &[[f64; 2]], mut beyond: f64) -> Vec<f64> {
        let mut tails: Vec<f64> = Vec::with_capacity(exactly.len());
        for [good, bad] in exactly.iter().rev() {
            tails.push(beyond);
            beyond += good + bad;
        }
        tails.reverse();
        tails
    }

    fn losses(&self, packets: u16, cap: usize) -> (Vec<[f64; 2]>, f64) {
        self.losses_from([1.0 - self.loss(), self.loss()], packets, cap)
    }

    /// For every number of losses up to `cap` the probability of each state (0 good, 1 bad) of the last of
    /// `packets` packets, and the probability of more losses; `first` is how probable the states of the first
    /// one are.
    fn losses_from(&self, first: [f64; 2], packets: u16, cap: usize) -> (Vec<[f64; 2]>, f64) {
        let mut after = vec![[0.0; 2]; cap + 1];
        after[0] = first;
        let mut beyond = 0.0;
        let (p, r) = (self.to_bad, self.to_good);
        for packet in 0..packets {
            // The distribution given is that of the first packet itself: no step before it.
            let (stay_good, go_bad, go_good, stay_bad) =
                if packet == 0 { (1.0, 0.0, 0.0, 1.0) } else { (1.0 - p, p, r, 1.0 - r) };
            beyond += after[cap][0] * go_bad + after[cap][1] * stay_bad;
            for n in (0..=cap).rev() {
                let fewer = n.checked_sub(1).map_or([0.0; 2], |n| after[n]);
                let [good, bad] = after[n];
                after[n] = [good * stay_good + bad * go_good, fewer[0] * go_bad + fewer[1] * stay_bad];
            }
        }
        (after, beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::residual;

    #[test]
    fn worked_example() {
        let model = Gilbert::new(0.02, 3.0).unwrap();
        assert!((model.to_good() - 1.0 / 3.0).abs() < 1e-12);
        assert!((model.to_bad() - 0.0068027).abs() < 5e-8);
        assert!((model.loss() - 0.02).abs() < 1e-12);
        assert!((model.mean_burst() - 3.0).abs() < 1e-12);
    }

    #[test]
    fn impossible_models_are_refused() {
        for (loss, burst) in
            [(1.0, 3.0), (-0.1, 3.0), (0.1, 0.9), (0.9, 1.0), (f64::NAN, 3.0), (0.1, f64::NAN)]
        {
            assert_eq!(Gilbert::new(loss, burst), None, "{loss} {burst}");
        }
        assert_eq!(Gilbert::new(0.1, f64::INFINITY), None, "it would never leave the state it begins in");
    }

    #[test]
    fn without_memory_it_is_the_binomial_tail() {
        let loss = 0.1;
        let model = Gilbert::new(loss, 1.0 / (1.0 - loss)).unwrap();
        for tolerated in 0..6 {
            let binomial = residual::incomplete(20, loss, tolerated, 0.0);
            assert!((model.exceeds(20, tolerated as u8) - binomial).abs() < 1e-12);
        }
    }

    #[test]
    fn bursts_defeat_small_codes() {
        let independent = residual::incomplete(20, 0.02, 2, 0.0);
        let bursty = Gilbert::new(0.02, 3.0).unwrap().exceeds(20, 2);
        assert!(bursty > 4.0 * independent, "{bursty} {independent}");
        assert!((Gilbert::new(0.02, 3.0).unwrap().exceeds(1, 0) - 0.02).abs() < 1e-12);
    }

    #[test]
    fn tails_are_exceedances() {
        let model = Gilbert::new(0.05, 2.5).unwrap();
        let tails = model.tails(30, 12);
        assert_eq!(tails.len(), 13);
        for (n, tail) in tails.iter().enumerate() {
            assert!((tail - model.exceeds(30, n as u8)).abs() < 1e-12, "{n}");
        }
        assert_eq!(model.tails(0, 3), [0.0; 4]);
    }

    #[test]
    fn tails_from_a_loss_are_those_of_the_packets_behind_it() {
        let model = Gilbert::new(0.03, 8.0).unwrap();
        let tails = model.tails_from_loss(20, 12);
        assert!((tails[0] - 0.03).abs() < 1e-12, "the loss itself");
        // A burst goes on for seven packets more with (7/8)^7, and another may come after a shorter one.
        let goes_on = 0.03 * (7.0_f64 / 8.0).powi(7);
        assert!(tails[7] > goes_on && tails[7] < 1.2 * goes_on, "{} {goes_on}", tails[7]);
        let independent = Gilbert::new(0.1, 1.0 / 0.9).unwrap().tails_from_loss(20, 5);
        for n in 1..=5_u16 {
            let binomial = residual::incomplete(19, 0.1, n - 1, 0.0);
            assert!((independent[usize::from(n)] - 0.1 * binomial).abs() < 1e-12, "{n}");
        }
    }
}
