//! [`Input`]: choices drawn from a fuzzer's bytes, front to back.
//!
//! Every method gives something when the bytes have run out (zeros), so that a cut input means the
//! beginning of what the whole one meant, and a changed byte changes one choice.

/// The bytes that are left.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// Draws from `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte; `None` at the end. Loops end with it.
    pub fn step(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// The next byte, or 0.
    pub fn u8(&mut self) -> u8 {
        self.step().unwrap_or(0)
    }

    /// The next two bytes, big-endian.
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    /// One bit of a byte.
    pub fn flag(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    /// A number below `n`, which is at most 256 and not 0.
    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.u8()) % n
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Any number below 2^62, mostly a small one: fuzzers rarely get large ones right.
    pub fn number(&mut self) -> u64 {
        const MAX: u64 = (1 << 62) - 1;
        match self.u8() {
            small @ 0..=0xdf => u64::from(small),
            0xe0..=0xef => u64::from(self.u16()),
            // Near a power of two.
            0xf0..=0xf7 => {
                let power = 1_u64 << (self.u8() % 63);
                power.saturating_sub(1).saturating_add(u64::from(self.u8() % 3)).min(MAX)
            }
            0xf8..=0xfb => MAX - u64::from(self.u8()),
            _ => self.bytes(8).iter().fold(0_u64, |n, &b| n << 8 | u64::from(b)) & MAX,
        }
    }

    /// The next `n` bytes, fewer at the end.
    pub fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (bytes, rest) = self.rest.split_at(n.min(self.rest.len()));
        self.rest = rest;
        bytes
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}
