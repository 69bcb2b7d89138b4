//! What is known of the connection ids of every path, packed one behind the other.
//!
//! A connection has fifteen and more in either direction, nearly all of them for paths that may
//! never open. As structures in lists of their own they would take more memory than all else that
//! an idle connection knows of its peer. They are looked at in place, and unpacked to be changed,
//! which happens when paths come, move and go.

use core::{marker::PhantomData, ops::Range};

use crate::wire::{PathId, Reader, put_varint};

/// What a path's row holds.
pub(super) trait Row: Default {
    /// Appends it.
    fn pack(&self, out: &mut Vec<u8>);

    /// The inverse; `None` if that was not packed by [`pack`](Self::pack).
    fn unpack(packed: &mut Reader<'_>) -> Option<Self>;
}

/// One row for each of some paths, in the order of their ids.
pub(super) struct Rows<T> {
    packed: Vec<u8>,
    rows: PhantomData<T>,
}

/// A row as it lies there.
#[derive(Clone)]
struct Place<'a> {
    path: PathId,
    /// Where it begins and ends, with its path and its length in front of it.
    at: Range<usize>,
    packed: &'a [u8],
}

impl<T: Row> Rows<T> {
    pub(super) const fn new() -> Self {
        Self { packed: Vec::new(), rows: PhantomData }
    }

    /// Every path with its packed row.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PathId, Reader<'_>)> {
        self.places().map(|place| (place.path, Reader::new(place.packed)))
    }

    /// The packed row of a path.
    pub(super) fn packed(&self, path: PathId) -> Option<Reader<'_>> {
        self.place(path).map(|place| Reader::new(place.packed))
    }

    /// The row of a path.
    pub(super) fn get(&self, path: PathId) -> Option<T> {
        T::unpack(&mut self.packed(path)?)
    }

    /// Changes the row of a path; begins with an empty one if it has none.
    pub(super) fn change<R>(&mut self, path: PathId, change: impl FnOnce(&mut T) -> R) -> R {
        let mut row = self.get(path).unwrap_or_default();
        let outcome = change(&mut row);
        self.put(path, Some(&row));
        outcome
    }

    /// Changes the row of a path that has one.
    pub(super) fn change_known<R>(&mut self, path: PathId, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.place(path)?;
        Some(self.change(path, change))
    }

    /// Takes the row of a path out.
    pub(super) fn remove(&mut self, path: PathId) -> Option<T> {
        let row = self.get(path)?;
        self.put(path, None);
        Some(row)
    }

    /// Puts a row in the place of the one that the path has, if any.
    fn put(&mut self, path: PathId, row: Option<&T>) {
        let after = self.places().find(|place| place.path >= path);
        let at = after.as_ref().map_or(self.packed.len(), |place| place.at.start);
        let old = after.filter(|place| place.path == path).map_or(at, |place| place.at.end);
        let (mut new, mut body) = (Vec::new(), Vec::new());
        if let Some(row) = row {
            row.pack(&mut body);
            put_varint(&mut new, path.0.into());
            put_varint(&mut new, body.len() as u64);
        }
        let rest = self.packed.split_off(at);
        let rest = &rest[old - at..];
        self.packed.reserve_exact(new.len() + body.len() + rest.len());
        [&new, &body, rest].into_iter().for_each(|part| self.packed.extend_from_slice(part));
        self.packed.shrink_to_fit();
    }

    fn place(&self, path: PathId) -> Option<Place<'_>> {
        self.places().find(|place| place.path >= path).filter(|place| place.path == path)
    }

    fn places(&self) -> impl Iterator<Item = Place<'_>> {
        let mut reader = Reader::new(&self.packed);
        core::iter::from_fn(move || {
            let start = reader.position();
            let path = u32::try_from(reader.varint().ok()?).ok()?;
            let packed = reader.varint_prefixed().ok()?;
            Some(Place { path: PathId(path), at: start..reader.position(), packed })
        })
    }
}

/// Reads so many items.
pub(super) fn list<I>(count: usize, mut item: impl FnMut() -> Option<I>) -> Option<Vec<I>> {
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(item()?);
    }
    Some(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default, PartialEq, Eq, Debug)]
    struct Bytes(Vec<u8>);

    impl Row for Bytes {
        fn pack(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.0);
        }

        fn unpack(packed: &mut Reader<'_>) -> Option<Self> {
            Some(Self(packed.rest().to_vec()))
        }
    }

    #[test]
    fn rows_grow_shrink_and_go_and_the_others_stay() {
        let mut rows = Rows::<Bytes>::new();
        for path in [5, 0, 70_000, 3] {
            rows.change(PathId(path), |row| row.0 = vec![path as u8; 3]);
        }
        let paths = |rows: &Rows<Bytes>| rows.iter().map(|(path, _)| path.0).collect::<Vec<_>>();
        assert_eq!(paths(&rows), [0, 3, 5, 70_000]);
        rows.change(PathId(3), |row| row.0.extend_from_slice(&[9; 300]));
        assert_eq!(rows.change_known(PathId(5), |row| row.0.pop()), Some(Some(5)));
        assert_eq!(rows.change_known(PathId(4), |row| row.0.pop()), None);
        assert_eq!(rows.get(PathId(3)).map(|row| row.0.len()), Some(303));
        assert_eq!(rows.get(PathId(5)), Some(Bytes(vec![5; 2])));
        assert_eq!(rows.remove(PathId(3)).map(|row| row.0.len()), Some(303));
        assert_eq!((rows.remove(PathId(3)), rows.get(PathId(4))), (None, None));
        assert_eq!(rows.get(PathId(70_000)), Some(Bytes(vec![112; 3])));
        assert_eq!(paths(&rows), [0, 5, 70_000]);
        assert_eq!(rows.packed.capacity(), (2 + 3) + (2 + 2) + (5 + 3));
    }
}
