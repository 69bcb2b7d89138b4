//! One number that stands for everything that happened.

/// A running 64-bit hash over the events of a run: two runs are the same if and (almost surely)
/// only if theirs agree.
///
/// Per word one multiplication and one fold of the high half onto the low: fast, the same on every
/// platform, and no secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TraceHash(u64);

impl TraceHash {
    /// The hash of no events.
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds one word.
    pub fn record(&mut self, word: u64) {
        let product = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }

    /// The hash of all words so far.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl Default for TraceHash {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(words: &[u64]) -> u64 {
        let mut trace = TraceHash::new();
        words.iter().for_each(|word| trace.record(*word));
        trace.get()
    }

    #[test]
    fn order_and_count_matter() {
        let hashes = [hash(&[]), hash(&[0]), hash(&[0, 0]), hash(&[1, 2]), hash(&[2, 1])];
        for (i, a) in hashes.iter().enumerate() {
            assert!(hashes[i + 1..].iter().all(|b| a != b));
        }
        assert_eq!(hash(&[1, 2]), hash(&[1, 2]));
    }
}
