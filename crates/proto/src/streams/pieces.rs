//! [`Pieces`]: stream bytes by offset, in pieces of equal size.
//!
//! A growing ring would move its bytes and touch fresh pages again and again, which costs more than
//! encrypting them. Pieces stay where they are, are allocated when first written and go back as
//! soon as they are passed.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hint::black_box;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// Bytes of a piece.
pub(super) const PIECE: usize = 4_096;
/// Passed pieces that change hands between threads at a time; a thread keeps twice as many at most.
const LOT: usize = 64;
/// Lots that wait for whichever thread has none, 4 MiB.
const MAX_LOTS: usize = 16;
/// New pieces that are made at a time, if as many are about to be filled.
const RUN: usize = 15;

type Piece = Box<[u8; PIECE]>;

thread_local! {
    static SPARE: RefCell<Vec<Piece>> = const { RefCell::new(Vec::new()) };
}

/// What one thread has passed and others fill: a stream is often written by one and acknowledged,
/// or read, by another.
static LOTS: Mutex<Vec<Vec<Piece>>> = Mutex::new(Vec::new());

/// A piece to fill, the first of so many.
fn fresh(wanted: usize) -> Piece {
    SPARE.with_borrow_mut(|spare| {
        if spare.is_empty()
            && let Some(lot) = LOTS.lock().unwrap_or_else(PoisonError::into_inner).pop()
        {
            *spare = lot;
        }
        if spare.is_empty() {
            make(wanted, spare);
        }
        spare.pop().unwrap_or_else(new)
    })
}

fn new() -> Piece {
    Box::new([0; PIECE])
}

/// Makes as many pieces as are wanted, but not more than a run of them. The C library's allocator
/// gets its threads' memory from the system by the piece, with a call for each, unless more was asked
/// for at once.
fn make(wanted: usize, spare: &mut Vec<Piece>) {
    let count = wanted.min(RUN);
    drop(black_box(Vec::<u8>::with_capacity(count * PIECE)));
    spare.extend((0..count).map(|_| new()));
}

fn give_back(piece: Piece) {
    SPARE.with_borrow_mut(|spare| {
        if spare.len() == 2 * LOT {
            let mut lots = LOTS.lock().unwrap_or_else(PoisonError::into_inner);
            if lots.len() == MAX_LOTS {
                return;
            }
            lots.push(spare.split_off(LOT));
        }
        spare.push(piece);
    });
}

/// Bytes from an offset on. What was never written reads as anything: the owner knows what was.
#[derive(Default, Debug)]
pub(super) struct Pieces {
    /// From the piece that holds `start` on; `None` where nothing was written.
    pieces: VecDeque<Option<Piece>>,
    /// First offset that is still held.
    start: u64,
}

impl Pieces {
    /// First offset that is still held.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Stores `data` at `offset`, which is not below the start.
    pub(super) fn write(&mut self, mut offset: u64, mut data: &[u8]) {
        debug_assert!(offset >= self.start);
        while !data.is_empty() {
            let (index, at) = self.locate(offset);
            if index >= self.pieces.len() {
                self.pieces.resize_with(index + 1, || None);
            }
            let wanted = (at + data.len()).div_ceil(PIECE);
            let piece = self.pieces[index].get_or_insert_with(|| fresh(wanted));
            let len = data.len().min(PIECE - at);
            piece[at..at + len].copy_from_slice(&data[..len]);
            (offset, data) = (offset + len as u64, &data[len..]);
        }
    }

    /// The bytes of `range`, all of which have been written and are held, in as many slices as
    /// needed.
    pub(super) fn slices(&self, range: Range<u64>) -> impl Iterator<Item = &[u8]> {
        let mut offset = range.start;
        std::iter::from_fn(move || {
            let left = range.end.checked_sub(offset).filter(|left| *left > 0)?;
            let (index, at) = self.locate(offset);
            let len = left.min((PIECE - at) as u64) as usize;
            offset += len as u64;
            let piece = self.pieces.get(index)?.as_ref()?;
            Some(&piece[at..at + len])
        })
    }

    /// Gives up everything before `offset`.
    pub(super) fn release(&mut self, offset: u64) {
        let offset = offset.max(self.start);
        let passed = (offset / PIECE as u64 - self.start / PIECE as u64) as usize;
        for piece in self.pieces.drain(..passed.min(self.pieces.len())).flatten() {
            give_back(piece);
        }
        self.start = offset;
        // The list of pieces itself is eight bytes per piece; even so, it should not remember a
        // stream's best days.
        if self.pieces.is_empty() && self.pieces.capacity() > 64 {
            self.pieces = VecDeque::new();
        }
    }

    /// Gives up everything up to `end`, where nothing has been written at or after it.
    pub(super) fn release_all(&mut self, end: u64) {
        self.release(end);
        for piece in self.pieces.drain(..).flatten() {
            give_back(piece);
        }
    }

    /// Gives up everything from `end` on, which is not below the start.
    pub(super) fn truncate(&mut self, end: u64) {
        let (index, at) = self.locate(end);
        let kept = if end == self.start { 0 } else { index + usize::from(at > 0) };
        for piece in self.pieces.drain(kept.min(self.pieces.len())..).flatten() {
            give_back(piece);
        }
    }

    /// Hands over what is left of the first piece, and gives it up, if that ends at `end` or
    /// before. All of it must have been written.
    pub(super) fn take_first(&mut self, end: u64) -> Option<Bytes> {
        let boundary = (self.start / PIECE as u64 + 1) * PIECE as u64;
        if end < boundary {
            return None;
        }
        let at = (self.start % PIECE as u64) as usize;
        let piece = self.pieces.front_mut()?.take()?;
        self.release(boundary);
        Some(Bytes::from_owner(Lent(Some(piece))).slice(at..))
    }

    /// Which piece holds `offset`, and where in it.
    fn locate(&self, offset: u64) -> (usize, usize) {
        let first = self.start / PIECE as u64;
        ((offset / PIECE as u64 - first) as usize, (offset % PIECE as u64) as usize)
    }

    /// Bytes of memory that pieces take.
    #[cfg(test)]
    fn memory(&self) -> usize {
        self.pieces.iter().flatten().count() * PIECE
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.pieces.drain(..).flatten().for_each(give_back_at_last);
    }
}

/// During the end of a thread there may be nobody to take it.
fn give_back_at_last(piece: Piece) {
    let _ = SPARE.try_with(|_| ()).map(|()| give_back(piece));
}

/// A piece that the application reads from, until it drops it.
struct Lent(Option<Piece>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |piece| &piece[..])
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(give_back_at_last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(offset: u64) -> u8 {
        (offset * 31 % 251) as u8
    }

    fn read(pieces: &Pieces, range: Range<u64>) -> Vec<u8> {
        pieces.slices(range).flatten().copied().collect()
    }

    #[test]
    fn ranges_across_pieces_read_back_and_passed_ones_go() {
        let mut pieces = Pieces::default();
        let (end, step) = (10 * PIECE as u64, 1_024);
        for number in (0..end / step).rev() {
            let data: Vec<u8> = (number * step..(number + 1) * step).map(byte).collect();
            pieces.write(number * step, &data);
        }
        for range in [0..end, 4_000..4_200, 4_096..8_192, 8_191..8_193, 5..5] {
            assert_eq!(read(&pieces, range.clone()), range.map(byte).collect::<Vec<_>>());
        }
        pieces.release(PIECE as u64 * 3 + 7);
        assert_eq!(pieces.memory(), 7 * PIECE);
        let range = pieces.start()..end;
        assert_eq!(read(&pieces, range.clone()), range.map(byte).collect::<Vec<_>>());
        pieces.release_all(end);
        assert_eq!((pieces.memory(), pieces.start()), (0, end));
        pieces.write(end, &[9]);
        assert_eq!(read(&pieces, end..end + 1), [9]);
    }

    #[test]
    fn whole_pieces_are_handed_over() {
        let mut pieces = Pieces::default();
        let data: Vec<u8> = (0..2 * PIECE as u64 + 10).map(byte).collect();
        pieces.write(0, &data);
        pieces.release(7);
        assert_eq!(pieces.take_first(PIECE as u64 - 1), None, "only part of it");
        assert_eq!(pieces.take_first(PIECE as u64).unwrap(), data[7..PIECE]);
        assert_eq!((pieces.start(), pieces.memory()), (PIECE as u64, 2 * PIECE));
        assert_eq!(pieces.take_first(data.len() as u64).unwrap(), data[PIECE..2 * PIECE]);
        assert_eq!(pieces.take_first(data.len() as u64), None);
        let end = data.len() as u64;
        assert_eq!(read(&pieces, 2 * PIECE as u64..end), data[2 * PIECE..]);
        pieces.release_all(end);
        assert_eq!(pieces.memory(), 0);
    }

    #[test]
    fn what_one_thread_has_passed_another_fills() {
        let end = (2 * MAX_LOTS * LOT * PIECE) as u64;
        let passed = std::thread::spawn(move || {
            let mut pieces = Pieces::default();
            (0..end).step_by(PIECE).for_each(|offset| pieces.write(offset, &[0xa5]));
            pieces.release_all(end);
        });
        passed.join().unwrap();
        assert!(LOTS.lock().unwrap().len() <= MAX_LOTS, "and the rest goes");
        let taken: Vec<Piece> = (0..MAX_LOTS * LOT).map(|_| fresh(1)).collect();
        assert!(taken.iter().any(|piece| piece[0] == 0xa5));
    }

    #[test]
    fn what_is_wanted_is_made_and_no_more_than_a_run() {
        for (wanted, count) in [(1, 1), (3, 3), (RUN, RUN), (10_000, RUN)] {
            let mut spare = Vec::new();
            make(wanted, &mut spare);
            assert_eq!(spare.len(), count);
        }
    }

    #[test]
    fn what_follows_an_end_is_given_up() {
        let piece = PIECE as u64;
        for (end, kept) in
            [(3 * piece, 2), (2 * piece + 1, 2), (2 * piece, 1), (piece + 8, 1), (piece + 7, 0)]
        {
            let mut pieces = Pieces::default();
            let data: Vec<u8> = (0..3 * piece).map(byte).collect();
            pieces.write(0, &data);
            pieces.release(piece + 7);
            pieces.truncate(end);
            assert_eq!((pieces.memory(), pieces.start()), (kept * PIECE, piece + 7), "{end}");
            pieces.write(end, &[9]);
            assert_eq!(read(&pieces, piece + 7..end), data[PIECE + 7..end as usize]);
            assert_eq!(read(&pieces, end..end + 1), [9]);
        }
    }

    #[test]
    fn holes_take_no_memory() {
        let mut pieces = Pieces::default();
        pieces.write(8 << 20, &[1]);
        assert_eq!(pieces.memory(), PIECE);
        assert_eq!(read(&pieces, 8 << 20..(8 << 20) + 1), [1]);
    }
}
