//! [`SendQueue`]: whose turn it is to send.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use crate::wire::StreamId;

/// Streams with something to send: higher priority first, round robin among equals. Who puts a stream in makes sure
/// that it is in once.
#[derive(Default, Debug)]
pub(super) struct SendQueue {
    levels: BTreeMap<Reverse<i32>, VecDeque<StreamId>>,
}

impl SendQueue {
    pub(super) fn push_back(&mut self, priority: i32, id: StreamId) {
        self.levels.entry(Reverse(priority)).or_default().push_back(id);
    }

    /// For a stream that was popped and could not send.
    pub(super) fn push_front(&mut self, priority: i32, id: StreamId) {
        self.levels.entry(Reverse(priority)).or_default().push_front(id);
    }

    pub(super) fn pop(&mut self) -> Option<StreamId> {
        let mut level = self.levels.first_entry()?;
        let id = level.get_mut().pop_front();
        if level.get().is_empty() {
            level.remove();
        }
        id
    }

    /// Takes out a stream, if it is there. O(streams of that priority).
    pub(super) fn remove(&mut self, priority: i32, id: StreamId) {
        if let Some(level) = self.levels.get_mut(&Reverse(priority)) {
            level.retain(|&queued| queued != id);
            if level.is_empty() {
                self.levels.remove(&Reverse(priority));
            }
        }
    }
}
