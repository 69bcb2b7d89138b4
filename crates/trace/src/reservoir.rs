//! A uniform sample of a stream of unknown length in bounded memory (Vitter's algorithm R), seeded.

/// Keeps everything up to its limit, and of more a uniform sample.
#[derive(Clone, Debug)]
pub(crate) struct Reservoir<T> {
    limit: usize,
    seen: u64,
    items: Vec<T>,
    state: u64,
}

impl<T> Reservoir<T> {
    /// Holds at most `limit` items, at least one.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), seen: 0, items: Vec::new(), state: 0x5eed }
    }

    pub(crate) fn push(&mut self, item: T) {
        self.seen += 1;
        if self.items.len() < self.limit {
            self.items.push(item);
            return;
        }
        let place = self.random() % self.seen;
        if place < self.limit as u64 {
            self.items[place as usize] = item;
        }
    }

    /// How many came, whether kept or not.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether not everything is there.
    pub(crate) fn is_sample(&self) -> bool {
        self.seen > self.items.len() as u64
    }

    pub(crate) fn into_items(self) -> Vec<T> {
        self.items
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_until_the_limit() {
        let mut reservoir = Reservoir::new(3);
        (0..3).for_each(|i| reservoir.push(i));
        assert!(!reservoir.is_sample());
        reservoir.push(3);
        assert!(reservoir.is_sample());
        assert_eq!((reservoir.seen(), reservoir.into_items().len()), (4, 3));
    }

    #[test]
    fn the_sample_is_uniform() {
        let mut reservoir = Reservoir::new(1_000);
        (0..100_000u32).for_each(|i| reservoir.push(i));
        let items = reservoir.into_items();
        let mean = items.iter().map(|&i| f64::from(i)).sum::<f64>() / items.len() as f64;
        // The standard error is 913.
        assert!((mean - 50_000.0).abs() < 3_000.0, "{mean}");
        assert!(items.iter().filter(|&&i| i < 10_000).count().abs_diff(100) < 35);
    }
}
