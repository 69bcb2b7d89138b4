//! The slice algorithms, once, over a small vector trait.
//!
//! Everything here is `#[inline(always)]`, so that it is compiled inside the `#[target_feature]`
//! functions of [`crate::isa`] and the intrinsics inline as well.

/// A register full of field elements.
///
/// # Safety
/// Every method may only be called on a processor with the features of the implementing type's
/// module.
pub(crate) trait Vector: Copy {
    /// Width in bytes, at most 64.
    const BYTES: usize;

    /// Whether the sum of three vectors is one instruction, so that sources are better taken in
    /// pairs.
    const SUM_OF_THREE: bool = false;

    /// How many outputs may share one pass over the sources: as many as leave a column's sums in
    /// registers.
    const TILE: usize;

    /// A constant factor in the form that [`Vector::mul`] wants.
    type Factor: Copy;

    /// All zero.
    unsafe fn zero() -> Self;

    /// The `BYTES` bytes at `p`, of any alignment.
    ///
    /// # Safety
    /// They must be readable.
    unsafe fn load(p: *const u8) -> Self;

    /// Writes `BYTES` bytes to `p`, of any alignment.
    ///
    /// # Safety
    /// They must be writable.
    unsafe fn store(self, p: *mut u8);

    /// Sum, byte by byte.
    unsafe fn xor(self, other: Self) -> Self;

    /// Prepares the factor `c`.
    unsafe fn factor(c: u8) -> Self::Factor;

    /// Product, byte by byte.
    unsafe fn mul(self, factor: Self::Factor) -> Self;
}

/// The widest vector in bytes.
const MAX_BYTES: usize = 64;

/// The widest column in vectors.
const MAX_COLUMN: usize = 4;

/// The start of a slice, continued by zeros to the width of any column.
#[repr(align(64))]
struct Padded([u8; MAX_COLUMN * MAX_BYTES]);

impl Padded {
    const fn zero() -> Self {
        Self([0; MAX_COLUMN * MAX_BYTES])
    }

    /// The first `len` bytes at `p`. Rare, so kept out of the kernels.
    ///
    /// # Safety
    /// `len` bytes must be readable.
    #[cold]
    #[inline(never)]
    unsafe fn fill(&mut self, p: *const u8, len: usize) {
        self.0.fill(0);
        // SAFETY: the caller vouches for the source; the other side is checked.
        unsafe { core::ptr::copy_nonoverlapping(p, self.0[..len].as_mut_ptr(), len) }
    }
}

/// What to do to every byte of a destination, given the byte of the source beside it.
pub(crate) trait Op<V: Vector>: Copy {
    /// The new value of `d`.
    ///
    /// # Safety
    /// As for [`Vector`].
    unsafe fn apply(self, d: V, s: V) -> V;
}

/// `d + s`.
#[derive(Clone, Copy)]
pub(crate) struct Add;

impl<V: Vector> Op<V> for Add {
    #[inline(always)]
    unsafe fn apply(self, d: V, s: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { d.xor(s) }
    }
}

/// `c * s`.
#[derive(Clone, Copy)]
pub(crate) struct Mul<V: Vector>(pub(crate) V::Factor);

impl<V: Vector> Op<V> for Mul<V> {
    #[inline(always)]
    unsafe fn apply(self, _: V, s: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { s.mul(self.0) }
    }
}

/// `d + c * s`.
#[derive(Clone, Copy)]
pub(crate) struct MulAdd<V: Vector>(pub(crate) V::Factor);

impl<V: Vector> Op<V> for MulAdd<V> {
    #[inline(always)]
    unsafe fn apply(self, d: V, s: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { d.xor(s.mul(self.0)) }
    }
}

/// Applies `op` to `len` bytes at `d`, with those at `s` as source.
///
/// # Safety
/// As for [`Vector`]; `len` bytes must be readable and writable at `d` and readable at `s`; the two
/// ranges are either the same or do not overlap.
#[inline(always)]
pub(crate) unsafe fn map<V: Vector>(d: *mut u8, s: *const u8, len: usize, op: impl Op<V>) {
    // SAFETY: every access is within `len` bytes of `d` or `s`.
    unsafe {
        if len < V::BYTES {
            if len > 0 {
                let (mut dst, mut src) = (Padded::zero(), Padded::zero());
                dst.fill(d, len);
                src.fill(s, len);
                op.apply(V::load(dst.0.as_ptr()), V::load(src.0.as_ptr())).store(dst.0.as_mut_ptr());
                core::ptr::copy_nonoverlapping(dst.0.as_ptr(), d, len);
            }
            return;
        }
        // The last vector overlaps the one before, so its result is taken from the bytes as they
        // were.
        let end = len - V::BYTES;
        let last = op.apply(V::load(d.add(end)), V::load(s.add(end)));
        let mut at = 0;
        while at < end {
            op.apply(V::load(d.add(at)), V::load(s.add(at))).store(d.add(at));
            at += V::BYTES;
        }
        last.store(d.add(end));
    }
}

/// The outputs of one pass over the sources.
struct Tile<'a, const M: usize> {
    outs: [*mut u8; M],
    len: usize,
    init: [&'a [u8]; M],
    rows: [&'a [u8]; M],
    sources: &'a [&'a [u8]],
}

impl<'a, const M: usize> Tile<'a, M> {
    /// Checks all that the kernels rely on. The pointers are good as long as `outs` stays borrowed.
    #[inline(always)]
    fn new(outs: &mut [&mut [u8]], init: &[&'a [u8]], rows: &[&'a [u8]], sources: &'a [&'a [u8]]) -> Self {
        let len = outs[0].len();
        assert!(outs.iter().all(|out| out.len() == len), "outputs differ in length");
        assert!(rows.iter().all(|row| row.len() == sources.len()), "a row does not match the sources");
        Self {
            outs: core::array::from_fn(|j| outs[j].as_mut_ptr()),
            len,
            init: core::array::from_fn(|j| init.get(j).copied().unwrap_or_default()),
            rows: core::array::from_fn(|j| rows[j]),
            sources,
        }
    }
}

/// Writes to each of `outs`, at most [`Vector::TILE`], its `init` plus the combination of `sources`
/// with the coefficients of its row: `out[j] = init[j] + sum of rows[j][i] * sources[i]`, every
/// shorter slice being continued by zeros.
///
/// Works down columns that are `WIDE` vectors wide for up to four outputs, `MIDDLE` for more, and
/// `NARROW` at the end of slices; the sums of a column stay in registers while all sources pass by.
///
/// # Safety
/// As for [`Vector`].
///
/// # Panics
/// If there are too many outputs, if they differ in length, or a row does not match `sources`.
#[inline(always)]
pub(crate) unsafe fn product<V: Vector, const WIDE: usize, const MIDDLE: usize, const NARROW: usize>(
    outs: &mut [&mut [u8]],
    init: &[&[u8]],
    rows: &[&[u8]],
    sources: &[&[u8]],
) {
    /// The columns for `$m` outputs, if this instruction set can have so many.
    macro_rules! tile {
        ($m:literal, $width:ident) => {{
            if $m <= V::TILE {
                let tile = Tile::<$m>::new(outs, init, rows, sources);
                // Codes have a first row of ones; it then costs no multiplication.
                if rows[0].iter().fold(true, |ones, &c| ones & (c == 1)) {
                    columns::<V, $m, $width, NARROW, true>(&tile);
                } else {
                    columns::<V, $m, $width, NARROW, false>(&tile);
                }
            }
        }};
    }
    assert!(outs.len() <= V::TILE, "{} outputs are more than one tile", outs.len());
    // SAFETY: the caller's promise; the tile's pointers come from exclusive borrows that last to
    // the end.
    unsafe {
        match outs.len() {
            1 => tile!(1, WIDE),
            2 => tile!(2, WIDE),
            3 => tile!(3, WIDE),
            4 => tile!(4, WIDE),
            5 => tile!(5, MIDDLE),
            6 => tile!(6, MIDDLE),
            7 => tile!(7, MIDDLE),
            8 => tile!(8, MIDDLE),
            _ => {}
        }
    }
}

/// Covers the outputs with columns. Sums do not depend on what the outputs held, so columns may
/// overlap at the end.
///
/// # Safety
/// As for [`Vector`]; `tile` as [`Tile::new`] makes it.
#[inline(always)]
unsafe fn columns<V: Vector, const M: usize, const WIDE: usize, const NARROW: usize, const ONES: bool>(
    tile: &Tile<'_, M>,
) {
    const { assert!(NARROW <= WIDE && WIDE <= MAX_COLUMN && V::BYTES <= MAX_BYTES) }
    let (wide, narrow) = (WIDE * V::BYTES, NARROW * V::BYTES);
    let mut done = 0;
    let mut padded = Padded::zero();
    // SAFETY: every column starts inside the outputs; none but the only one of short outputs
    // reaches beyond their end.
    unsafe {
        while done + wide <= tile.len || (tile.len - done > wide / 2 && tile.len >= wide) {
            let at = done.min(tile.len - wide);
            column::<V, M, WIDE, ONES>(tile, at, &mut padded);
            done = at + wide;
        }
        while done < tile.len {
            let at = done.min(tile.len.saturating_sub(narrow));
            column::<V, M, NARROW, ONES>(tile, at, &mut padded);
            done = at + narrow;
        }
    }
}

/// One column of all outputs: `N` vectors from offset `at` on.
///
/// # Safety
/// As for [`Vector`]; `tile` as [`Tile::new`] makes it; either the column is inside the outputs, or
/// `at` is 0 and they are shorter than a column.
#[inline(always)]
unsafe fn column<V: Vector, const M: usize, const N: usize, const ONES: bool>(
    tile: &Tile<'_, M>,
    at: usize,
    padded: &mut Padded,
) {
    let count = tile.sources.len();
    let end = at + N * V::BYTES;
    // SAFETY: i < count, and every row is as long as the sources; loads and stores as said below.
    unsafe {
        let mut sums = [[V::zero(); N]; M];
        for (sum, init) in sums.iter_mut().zip(tile.init) {
            if init.len() > at {
                *sum = load(covering(init, at, end, padded));
            }
        }
        let mut i = 0;
        while i < count {
            let source = *tile.sources.get_unchecked(i);
            if V::SUM_OF_THREE && i + 1 < count {
                let next = *tile.sources.get_unchecked(i + 1);
                if source.len() >= end && next.len() >= end {
                    let (a, b) = (load(source.as_ptr().add(at)), load(next.as_ptr().add(at)));
                    accumulate_pair::<V, M, N, ONES>(tile, &mut sums, i, a, b);
                    i += 2;
                    continue;
                }
            }
            if source.len() > at {
                let a = load(covering(source, at, end, padded));
                accumulate::<V, M, N, ONES>(tile, &mut sums, i, a);
            }
            i += 1;
        }
        for (sum, out) in sums.into_iter().zip(tile.outs) {
            if tile.len >= end {
                store(sum, out.add(at));
            } else {
                store(sum, padded.0.as_mut_ptr());
                core::ptr::copy_nonoverlapping(padded.0.as_ptr(), out, tile.len);
            }
        }
    }
}

/// Where to load the column from `at` to `end` of a slice longer than `at`: from itself, or from a
/// padded copy.
#[inline(always)]
fn covering(slice: &[u8], at: usize, end: usize, padded: &mut Padded) -> *const u8 {
    let rest = &slice[at..];
    if slice.len() >= end {
        return rest.as_ptr();
    }
    // SAFETY: `rest` is a slice.
    unsafe { padded.fill(rest.as_ptr(), rest.len()) }
    padded.0.as_ptr()
}

/// Adds source `i`, whose vectors are `a`, to all sums.
///
/// # Safety
/// As for [`Vector`]; `i` must be a source's index.
#[inline(always)]
unsafe fn accumulate<V: Vector, const M: usize, const N: usize, const ONES: bool>(
    tile: &Tile<'_, M>,
    sums: &mut [[V; N]; M],
    i: usize,
    a: [V; N],
) {
    for (j, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller's promises.
        unsafe {
            if ONES && j == 0 {
                for (sum, a) in sum.iter_mut().zip(a) {
                    *sum = sum.xor(a);
                }
            } else {
                let factor = V::factor(*tile.rows[j].get_unchecked(i));
                for (sum, a) in sum.iter_mut().zip(a) {
                    *sum = sum.xor(a.mul(factor));
                }
            }
        }
    }
}

/// Adds sources `i` and `i + 1`, whose vectors are `a` and `b`, to all sums: their products meet in
/// one sum of three.
///
/// # Safety
/// As for [`Vector`]; `i` and `i + 1` must be indices of sources.
#[inline(always)]
unsafe fn accumulate_pair<V: Vector, const M: usize, const N: usize, const ONES: bool>(
    tile: &Tile<'_, M>,
    sums: &mut [[V; N]; M],
    i: usize,
    a: [V; N],
    b: [V; N],
) {
    for (j, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller's promises.
        unsafe {
            if ONES && j == 0 {
                for n in 0..N {
                    sum[n] = sum[n].xor(a[n]).xor(b[n]);
                }
            } else {
                let f = V::factor(*tile.rows[j].get_unchecked(i));
                let g = V::factor(*tile.rows[j].get_unchecked(i + 1));
                for n in 0..N {
                    sum[n] = sum[n].xor(a[n].mul(f)).xor(b[n].mul(g));
                }
            }
        }
    }
}

/// `N` vectors from `p` on.
///
/// # Safety
/// As for [`Vector`]; all their bytes must be readable.
#[inline(always)]
unsafe fn load<V: Vector, const N: usize>(p: *const u8) -> [V; N] {
    // SAFETY: the caller's promises.
    core::array::from_fn(|n| unsafe { V::load(p.add(n * V::BYTES)) })
}

/// Writes `N` vectors from `p` on.
///
/// # Safety
/// As for [`Vector`]; all their bytes must be writable.
#[inline(always)]
unsafe fn store<V: Vector, const N: usize>(vectors: [V; N], p: *mut u8) {
    for (n, vector) in vectors.into_iter().enumerate() {
        // SAFETY: the caller's promises.
        unsafe { vector.store(p.add(n * V::BYTES)) }
    }
}
