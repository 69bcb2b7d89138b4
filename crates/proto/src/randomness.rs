//! A connection's own source of randomness.

use rand_chacha::{
    ChaCha12Rng,
    rand_core::{RngCore, SeedableRng},
};

/// ChaCha12 with this seed, whose state of 300 bytes goes while nobody asks: a connection asks when
/// paths come and move, and once in hundreds of packets.
pub(crate) struct Randomness {
    seed: [u8; 32],
    /// Words drawn before `working` was begun.
    drawn: u64,
    working: Option<Box<ChaCha12Rng>>,
}

impl Randomness {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self { seed, drawn: 0, working: None }
    }

    /// Nobody has asked for long. What comes next is the same as without a rest.
    pub(crate) fn rest(&mut self) {
        if let Some(working) = self.working.take() {
            self.drawn = working.get_word_pos() as u64;
        }
    }

    fn working(&mut self) -> &mut ChaCha12Rng {
        let Self { seed, drawn, working } = self;
        working.get_or_insert_with(|| {
            let mut rng = ChaCha12Rng::from_seed(*seed);
            if *drawn > 0 {
                rng.set_word_pos((*drawn).into());
            }
            Box::new(rng)
        })
    }
}

impl RngCore for Randomness {
    fn next_u32(&mut self) -> u32 {
        self.working().next_u32()
    }

    fn next_u64(&mut self) -> u64 {
        self.working().next_u64()
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.working().fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_changes_nothing_of_what_is_drawn() {
        let mut restless = ChaCha12Rng::from_seed([5; 32]);
        let mut rng = Randomness::new([5; 32]);
        for len in 0..200 {
            let (mut expected, mut drawn) = (vec![0; len % 23], vec![0; len % 23]);
            restless.fill_bytes(&mut expected);
            rng.fill_bytes(&mut drawn);
            assert_eq!(drawn, expected);
            assert_eq!(rng.next_u32(), restless.next_u32());
            if len % 3 == 0 {
                assert_eq!(rng.next_u64(), restless.next_u64());
            }
            rng.rest();
        }
    }
}
