//! Giving back what trees keep in memory for what is in them no more; lists have `shrink_to_fit`.

use std::collections::{BTreeMap, BTreeSet};

/// A tree, which keeps memory when it is emptied, to fill it again.
pub(crate) trait SpareRoom {
    /// Keeps no memory if it is empty; otherwise it stays as it is.
    fn give_back(&mut self);
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
