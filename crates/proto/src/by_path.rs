//! [`ByPath`]: values by path id, in flat memory.

use core::{ops::Index, slice};

use crate::wire::PathId;

/// One value for each of a few paths, in the order of their ids.
///
/// A connection has a path or two and looks them up many times per packet. Sorted vectors find them
/// at once and hold what there is, where the first node of a tree has room for eleven.
#[derive(Clone, Debug)]
pub(crate) struct ByPath<T> {
    ids: Vec<PathId>,
    values: Vec<T>,
}

impl<T> ByPath<T> {
    pub(crate) const fn new() -> Self {
        Self { ids: Vec::new(), values: Vec::new() }
    }

    pub(crate) fn get(&self, id: &PathId) -> Option<&T> {
        self.values.get(self.place(id).ok()?)
    }

    pub(crate) fn get_mut(&mut self, id: &PathId) -> Option<&mut T> {
        let place = self.place(id).ok()?;
        self.values.get_mut(place)
    }

    pub(crate) fn contains_key(&self, id: &PathId) -> bool {
        self.place(id).is_ok()
    }

    /// Puts a value in; returns the one that it replaces.
    pub(crate) fn insert(&mut self, id: PathId, value: T) -> Option<T> {
        match self.place(&id) {
            Ok(place) => Some(core::mem::replace(&mut self.values[place], value)),
            Err(place) => {
                self.make_room_at(place, id, value);
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, id: &PathId) -> Option<T> {
        let place = self.place(id).ok()?;
        self.ids.remove(place);
        let value = self.values.remove(place);
        self.values.shrink_to_fit();
        Some(value)
    }

    /// The value of a path; a fresh one if it had none.
    pub(crate) fn get_or_default(&mut self, id: PathId) -> &mut T
    where
        T: Default,
    {
        let place = self.place(&id).unwrap_or_else(|place| {
            self.make_room_at(place, id, T::default());
            place
        });
        &mut self.values[place]
    }

    pub(crate) fn keys(&self) -> slice::Iter<'_, PathId> {
        self.ids.iter()
    }

    pub(crate) fn values(&self) -> slice::Iter<'_, T> {
        self.values.iter()
    }

    pub(crate) fn values_mut(&mut self) -> slice::IterMut<'_, T> {
        self.values.iter_mut()
    }

    /// Where a path is, or belongs.
    fn place(&self, id: &PathId) -> Result<usize, usize> {
        self.ids.binary_search(id)
    }

    fn make_room_at(&mut self, place: usize, id: PathId, value: T) {
        self.ids.insert(place, id);
        // Paths come rarely, and their values are large.
        self.values.reserve_exact(1);
        self.values.insert(place, value);
    }
}

impl<T> Default for ByPath<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Index<&PathId> for ByPath<T> {
    type Output = T;

    fn index(&self, id: &PathId) -> &T {
        self.get(id).expect("the path exists")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_id_and_listed_in_order() {
        let mut map = ByPath::new();
        assert_eq!(map.insert(PathId(7), 'c'), None);
        assert_eq!(map.insert(PathId(0), 'a'), None);
        *map.get_or_default(PathId(3)) = 'b';
        assert_eq!(map.insert(PathId(7), 'd'), Some('c'));
        assert_eq!((map.get(&PathId(3)), map.get(&PathId(4))), (Some(&'b'), None));
        assert!(map.keys().eq(&[PathId(0), PathId(3), PathId(7)]));
        map.values_mut().for_each(|value| value.make_ascii_uppercase());
        assert_eq!(map.remove(&PathId(3)), Some('B'));
        assert_eq!(
            (map.remove(&PathId(3)), map.contains_key(&PathId(3)), map[&PathId(0)]),
            (None, false, 'A')
        );
        assert_eq!(map.values().collect::<String>(), "AD");
    }

    #[test]
    fn memory_is_what_there_is() {
        let mut map = ByPath::new();
        (0..3).for_each(|id| _ = map.insert(PathId(id), [0_u64; 300]));
        assert_eq!(map.values.capacity(), 3);
        map.remove(&PathId(1));
        assert_eq!(map.values.capacity(), 2);
    }
}
