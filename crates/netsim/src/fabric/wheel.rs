//! A timing wheel: what comes within a horizon, by when it comes.

/// Buckets, a power of two.
const BUCKETS: u64 = 2_048;
/// No entry.
const NONE: u32 = u32::MAX;

/// Keys of events, time in the high half, in buckets of equal width. A bucket's keys are a list
/// through entries that are used again, last freed first, so that the wheel takes no more memory
/// than what is in it. Only whose turn it is is known, not the time.
#[derive(Clone, Debug)]
pub(super) struct Wheel {
    /// The bucket whose turn it is, counted from time 0. It is empty, as are those before.
    turn: u64,
    /// Binary logarithm of a bucket's width in ns.
    shift: u32,
    heads: Vec<u32>,
    /// A bit for each bucket that is not empty.
    used: [u64; (BUCKETS / 64) as usize],
    keys: Vec<u128>,
    nexts: Vec<u32>,
    free: u32,
    len: usize,
}

impl Wheel {
    /// An empty wheel with buckets of 2^`shift` ns, on the turn of `now`.
    pub(super) fn new(shift: u32, now: u64) -> Self {
        Self {
            turn: now >> shift,
            shift,
            heads: vec![NONE; BUCKETS as usize],
            used: [0; (BUCKETS / 64) as usize],
            keys: Vec::new(),
            nexts: Vec::new(),
            free: NONE,
            len: 0,
        }
    }

    /// The bucket of a key.
    #[inline]
    pub(super) fn bucket(&self, key: u128) -> u64 {
        ((key >> 64) as u64) >> self.shift
    }

    /// The bucket whose turn it is.
    #[inline]
    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    /// Binary logarithm of a bucket's width in ns.
    pub(super) fn shift(&self) -> u32 {
        self.shift
    }

    /// Keys that it holds.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Takes a key whose bucket's turn is to come, within the horizon; false if it is not.
    #[inline]
    pub(super) fn push(&mut self, key: u128) -> bool {
        let bucket = self.bucket(key);
        if bucket.wrapping_sub(self.turn + 1) >= BUCKETS - 1 {
            return false;
        }
        if self.free == NONE {
            self.free = self.keys.len() as u32;
            self.keys.push(0);
            self.nexts.push(NONE);
        }
        let (entry, index) = (self.free, (bucket % BUCKETS) as usize);
        self.keys[entry as usize] = key;
        let next = &mut self.nexts[entry as usize];
        self.free = *next;
        *next = std::mem::replace(&mut self.heads[index], entry);
        self.used[index / 64] |= 1 << (index % 64);
        self.len += 1;
        true
    }

    /// The next bucket that is not empty; none if all are.
    #[inline]
    pub(super) fn next(&self) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        let first = self.turn + 1;
        let mut base = first - first % 64;
        let mut bits = self.word(base) & (!0 << (first % 64));
        while bits == 0 {
            base += 64;
            bits = self.word(base);
        }
        Some(base + u64::from(bits.trailing_zeros()))
    }

    fn word(&self, bucket: u64) -> u64 {
        self.used[(bucket % BUCKETS / 64) as usize]
    }

    /// It is the turn of `bucket`, the [next](Self::next) one or one before: its keys, in any order,
    /// go behind `keys`.
    pub(super) fn take(&mut self, bucket: u64, keys: &mut Vec<u128>) {
        self.turn = bucket;
        let index = (bucket % BUCKETS) as usize;
        self.used[index / 64] &= !(1 << (index % 64));
        let mut entry = std::mem::replace(&mut self.heads[index], NONE);
        while entry != NONE {
            keys.push(self.keys[entry as usize]);
            let next = std::mem::replace(&mut self.nexts[entry as usize], self.free);
            self.free = entry;
            entry = next;
            self.len -= 1;
        }
    }

    /// The keys of the next bucket that is not empty, in any order.
    pub(super) fn following(&self) -> impl Iterator<Item = u128> {
        let mut entry = self.next().map_or(NONE, |bucket| self.heads[(bucket % BUCKETS) as usize]);
        std::iter::from_fn(move || {
            let key = *self.keys.get(entry as usize)?;
            entry = self.nexts[entry as usize];
            Some(key)
        })
    }
}
