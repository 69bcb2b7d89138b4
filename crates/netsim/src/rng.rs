//! Seeded randomness, one stream per element.
//!
//! The generator is xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number
//! generators", 2021), its state filled by SplitMix64. Written out here so that traces stay the
//! same on every platform and for good.

/// The one number from which all randomness of a run derives.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Seed(pub u64);

impl Seed {
    /// The seed of a part: depends on this seed, the part's name and its index, and on nothing
    /// else.
    pub fn child(self, name: &str, index: u64) -> Self {
        let mut state = self.0;
        let mut mixed = split_mix(&mut state);
        for byte in name.bytes() {
            state = mixed ^ u64::from(byte);
            mixed = split_mix(&mut state);
        }
        state = mixed ^ index;
        split_mix(&mut state);
        Self(split_mix(&mut state))
    }

    /// A generator of its own for the purpose `name`.
    pub fn stream(self, name: &str) -> Rng {
        Rng::new(self.child(name, 0))
    }
}

/// A pseudo-random generator: fast, reproducible, and no secret.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator that `seed` stands for.
    pub fn new(seed: Seed) -> Self {
        let mut filler = seed.0;
        Self { state: core::array::from_fn(|_| split_mix(&mut filler)) }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let output = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        output
    }

    /// A number in `0..1`, uniform over multiples of 2^-53.
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `p`: never for 0, always for 1. Draws exactly once.
    pub fn chance(&mut self, p: f64) -> bool {
        self.next_f64() < p
    }

    /// A number in `0..bound`, uniform to within `bound` / 2^64; 0 if `bound` is 0. Draws exactly
    /// once.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// SplitMix64: a step of a Weyl sequence, then a mixing function.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_published_generator() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let outputs: [u64; 4] = core::array::from_fn(|_| rng.next_u64());
        assert_eq!(outputs, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn streams_are_stable_and_distinct() {
        let seed = Seed(7);
        assert_eq!(seed.stream("loss").next_u64(), seed.stream("loss").next_u64());
        assert_ne!(seed.stream("loss").next_u64(), seed.stream("jitter").next_u64());
        assert_ne!(seed.child("link", 0), seed.child("link", 1));
        assert_ne!(Seed(1).child("link", 0), Seed(2).child("link", 0));
        assert_ne!(seed.child("a", 0), seed.child("", 0));
    }

    #[test]
    fn chances_and_bounds() {
        let mut rng = Rng::new(Seed(1));
        assert!((0..1_000).all(|_| !rng.chance(0.0) && rng.chance(1.0)));
        assert_eq!(rng.below(0), 0);
        let hits: u32 = (0..100_000).map(|_| u32::from(rng.chance(0.25))).sum();
        assert!((24_400..=25_600).contains(&hits), "{hits}"); // more than four standard deviations either side
        let mut seen = [0u32; 5];
        (0..50_000).for_each(|_| seen[rng.below(5) as usize] += 1);
        assert!(seen.iter().all(|n| (9_600..=10_400).contains(n)), "{seen:?}");
    }
}
