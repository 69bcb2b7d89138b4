//! What the application should know, each thing at most once in the queue.

use std::collections::{BTreeSet, VecDeque};

use crate::{
    spare_room::SpareRoom as _,
    wire::{Dir, StreamId, VarInt},
};

/// News about streams for the application. A hint to act: by the time it is read the stream may be
/// gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StreamEvent {
    /// The peer opened at least one stream of this kind: call `accept` until it returns `None`.
    Opened {
        /// The kind of stream.
        dir: Dir,
    },
    /// There is more to read, or the stream ended.
    Readable(StreamId),
    /// A write that was `Blocked` may go on.
    Writable(StreamId),
    /// The peer acknowledged every byte and the end of the stream.
    Finished(StreamId),
    /// The peer wants no more of this stream.
    Stopped {
        /// The stream.
        id: StreamId,
        /// The peer's application error code.
        code: VarInt,
    },
    /// An `open` that returned `None` may now succeed.
    Available {
        /// The kind of stream.
        dir: Dir,
    },
}

/// A queue without duplicates. Its length is bounded by the number of streams: a stream causes each
/// kind of event at most once between two polls.
#[derive(Default, Debug)]
pub(super) struct EventQueue {
    queue: VecDeque<StreamEvent>,
    queued: BTreeSet<StreamEvent>,
}

impl EventQueue {
    /// Nothing has happened for long.
    pub(super) fn rest(&mut self) {
        self.queue.shrink_to_fit();
        self.queued.give_back();
    }

    pub(super) fn push(&mut self, event: StreamEvent) {
        // Mostly it is what the packet before has brought already.
        if self.queue.back() != Some(&event) && self.queued.insert(event) {
            self.queue.push_back(event);
        }
    }

    pub(super) fn pop(&mut self) -> Option<StreamEvent> {
        let event = self.queue.pop_front()?;
        self.queued.remove(&event);
        Some(event)
    }
}
