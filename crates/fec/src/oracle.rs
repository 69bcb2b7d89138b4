//! The codes as slowly and plainly as possible, for tests: shares no code with the crate, and
//! `gf256` not at all.

/// Product by shift and add.
pub(crate) fn mul(a: u8, b: u8) -> u8 {
    let (mut a, mut product) = (u16::from(a), 0);
    for k in 0..8 {
        product ^= if b >> k & 1 == 1 { a } else { 0 };
        a = if a & 0x80 == 0 { a << 1 } else { a << 1 ^ 0x11d };
    }
    product as u8
}

/// Inverse by trial.
pub(crate) fn inv(a: u8) -> u8 {
    (1..=255).find(|&b| mul(a, b) == 1).unwrap()
}

/// The virtual symbols, all of the longest one's length.
pub(crate) fn frame(sources: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let longest = sources.iter().map(Vec::len).max().unwrap();
    let frame = |source: &Vec<u8>| {
        let mut symbol = vec![(source.len() / 256) as u8, (source.len() % 256) as u8];
        symbol.extend(source);
        symbol.resize(2 + longest, 0);
        symbol
    };
    sources.iter().map(frame).collect()
}

/// The sum of the symbols times the coefficients.
pub(crate) fn combine(row: &[u8], symbols: &[Vec<u8>]) -> Vec<u8> {
    let mut sum = vec![0; symbols[0].len()];
    for (&c, symbol) in row.iter().zip(symbols) {
        for (to, &from) in sum.iter_mut().zip(symbol) {
            *to ^= mul(c, from);
        }
    }
    sum
}

/// The rank of a matrix, by elimination.
pub(crate) fn rank(mut rows: Vec<Vec<u8>>) -> usize {
    let columns = rows.first().map_or(0, Vec::len);
    let mut rank = 0;
    for column in 0..columns {
        let Some(pivot) = (rank..rows.len()).find(|&r| rows[r][column] != 0) else { continue };
        rows.swap(rank, pivot);
        let scale = inv(rows[rank][column]);
        for r in rank + 1..rows.len() {
            let factor = mul(rows[r][column], scale);
            let pivot = rows[rank].clone();
            rows[r].iter_mut().zip(pivot).for_each(|(to, from)| *to ^= mul(factor, from));
        }
        rank += 1;
    }
    rank
}

/// Reproducible bytes without pattern.
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// `k` sources of up to `longest` bytes; some are empty, some have equal length.
    pub(crate) fn sources(&mut self, k: usize, longest: usize) -> Vec<Vec<u8>> {
        let len = |noise: &mut Self| match noise.below(4) {
            0 => noise.below(longest + 1),
            1 => 0,
            _ => longest,
        };
        (0..k).map(|_| len(self)).collect::<Vec<_>>().into_iter().map(|len| self.bytes(len)).collect()
    }

    /// `n` of the numbers below `of`, in random order.
    pub(crate) fn sample(&mut self, n: usize, of: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..of).collect();
        for i in 0..n {
            let other = i + self.below(of - i);
            all.swap(i, other);
        }
        all.truncate(n);
        all
    }
}

/// Slices of all.
pub(crate) fn slices(sources: &[Vec<u8>]) -> Vec<&[u8]> {
    sources.iter().map(Vec::as_slice).collect()
}
