//! Giving back what lists keep in memory for what is in them no more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A list that keeps memory when it is emptied, to fill it again.
pub(crate) trait SpareRoom {
    /// Keeps no more memory than for what is in it. A tree that is not empty stays as it is.
    fn give_back(&mut self);
}

impl<T> SpareRoom for Vec<T> {
    fn give_back(&mut self) {
        self.shrink_to_fit();
    }
}

impl<T> SpareRoom for VecDeque<T> {
    fn give_back(&mut self) {
        self.shrink_to_fit();
    }
}

impl<K, V> SpareRoom for BTreeMap<K, V> {
    fn give_back(&mut self) {
        // An empty tree has a node, with room for eleven.
        if self.is_empty() {
            *self = Self::new();
        }
    }
}

impl<T> SpareRoom for BTreeSet<T> {
    fn give_back(&mut self) {
        if self.is_empty() {
            *self = Self::new();
        }
    }
}
