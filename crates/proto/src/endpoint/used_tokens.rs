//! Which tokens of NEW_TOKEN have been shown (RFC 9000 section 8.1.4: each is good once).

use units::Instant;

use crate::token::{NEW_TOKEN_LIFETIME, TokenNonce};

/// Bits of one generation.
const BITS: usize = 1 << 19;
/// Bits that one token sets: slices of its nonce, which is random already.
const PROBES: usize = 4;

/// A Bloom filter of two generations, 128 KiB in all, made with the first token.
///
/// A token is remembered for at least its lifetime. With 50,000 tokens in a generation one unused
/// token in a hundred is taken for used; its owner is then treated like a client without a token,
/// no worse. The filter never takes a used token for unused.
#[derive(Default)]
pub(super) struct UsedTokens {
    present: Vec<u64>,
    previous: Vec<u64>,
    /// When the present generation becomes the previous one.
    turns_at: Instant,
}

impl UsedTokens {
    /// Whether the token may have been used.
    pub(super) fn contains(&self, nonce: &TokenNonce) -> bool {
        let in_generation = |bits: &Vec<u64>| {
            !bits.is_empty() && slots(nonce).all(|slot| bits[slot / 64] >> (slot % 64) & 1 == 1)
        };
        in_generation(&self.present) || in_generation(&self.previous)
    }

    pub(super) fn insert(&mut self, now: Instant, nonce: &TokenNonce) {
        if self.present.is_empty() {
            (self.present, self.turns_at) = (vec![0; BITS / 64], now + NEW_TOKEN_LIFETIME);
        }
        if now >= self.turns_at {
            self.previous = core::mem::replace(&mut self.present, vec![0; BITS / 64]);
            self.turns_at = now + NEW_TOKEN_LIFETIME;
        }
        for slot in slots(nonce) {
            self.present[slot / 64] |= 1 << (slot % 64);
        }
    }
}

fn slots(nonce: &TokenNonce) -> impl Iterator<Item = usize> {
    let chunks = nonce.chunks_exact(3).take(PROBES);
    chunks.map(|c| (usize::from(c[0]) << 16 | usize::from(c[1]) << 8 | usize::from(c[2])) % BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::{
        ChaCha12Rng,
        rand_core::{RngCore as _, SeedableRng as _},
    };
    use units::Duration;

    #[test]
    fn every_used_token_is_known_for_its_lifetime_and_few_others_are() {
        let mut rng = ChaCha12Rng::from_seed([3; 32]);
        let mut nonce = || {
            let mut nonce = [0; 12];
            rng.fill_bytes(&mut nonce);
            nonce
        };
        let mut used = UsedTokens::default();
        let first = nonce();
        assert!(!used.contains(&first));
        used.insert(Instant::ORIGIN, &first);
        let day = NEW_TOKEN_LIFETIME;
        for n in 0..50_000u64 {
            let nonce = nonce();
            used.insert(Instant::ORIGIN + Duration::from_millis(n), &nonce);
            assert!(used.contains(&nonce));
        }
        let mistaken: u32 = (0..10_000).map(|_| u32::from(used.contains(&nonce()))).sum();
        assert!(mistaken < 200, "{mistaken} of 10,000");
        used.insert(Instant::ORIGIN + day, &nonce());
        assert!(used.contains(&first), "the generation before is still known");
        used.insert(Instant::ORIGIN + day + day, &nonce());
        assert!(!used.contains(&first), "by now it has expired anyway");
    }
}
