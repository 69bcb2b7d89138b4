//! Who waits to write, for the connection's credit or for room in the send buffer, and when they are
//! told to go on.

use super::{SentStreamFrames, StreamEvent, Streams};
use crate::wire::StreamId;

/// Waiting writers that are asked for each acknowledged packet whether there is room for them now.
const WRITERS_ASKED: usize = 4;

impl Streams {
    /// Lets a blocked write wait for the connection's credit or for room in the send buffer.
    pub(super) fn add_writer(&mut self, id: StreamId) {
        if let Some(half) = self.send.get_mut(&id)
            && half.writer.is_none()
        {
            half.writer = Some(self.next_writer);
            self.writers.insert(self.next_writer, id);
            self.next_writer += 1;
        }
    }

    /// Whether an application waits to write because the send buffer is full, not because the peer
    /// allows no more.
    pub fn has_writer_without_room(&self) -> bool {
        !self.writers.is_empty() && self.credit.available() > 0
    }

    /// Tells waiting writers to go on, once there is credit and the send buffer is half empty.
    pub(super) fn wake_writers(&mut self) {
        if self.credit.available() == 0 || !self.room.is_ample(self.totals.held) {
            return;
        }
        for id in std::mem::take(&mut self.writers).into_values() {
            if let Some(half) = self.send.get_mut(&id) {
                half.writer = None;
                self.events.push(StreamEvent::Writable(id));
            }
        }
    }

    /// There is credit of the connection again: who has nothing under way is told first, and does not wait for
    /// the buffer to be half empty. One that writes much would take all of the credit, and again each time
    /// that there is some.
    pub(super) fn wake_those_without_any(&mut self) {
        let holds_nothing = |id: &StreamId| self.send.get(id).is_some_and(|half| half.held() == 0);
        let first: Vec<StreamId> = self.writers.values().copied().filter(holds_nothing).collect();
        for id in first {
            self.wake_if_room(id);
        }
    }

    /// Tells the writers of streams that were acknowledged, and of a few others, to go on if there
    /// is room for them. While the send buffer is more than half full, those that wait hold some of
    /// it themselves, or see it pass the half.
    pub(super) fn wake_acknowledged(&mut self, acknowledged: &SentStreamFrames) {
        self.wake_writers();
        if self.writers.is_empty() || self.credit.available() == 0 {
            return;
        }
        for range in &acknowledged.ranges {
            self.wake_if_room(range.id);
        }
        for _ in 0..WRITERS_ASKED.min(self.writers.len()) {
            let Some((_, &id)) = self.writers.first_key_value() else { break };
            if !self.wake_if_room(id) {
                self.requeue_writer(id);
            }
        }
    }

    /// Tells a waiting writer to go on if there is room for it; returns whether there was.
    pub(super) fn wake_if_room(&mut self, id: StreamId) -> bool {
        let held = self.totals.held;
        let Some(half) = self.send.get_mut(&id) else { return false };
        let Some(number) = half.writer else { return false };
        if !self.room.is_worth_waking(held, half.held()) {
            return false;
        }
        half.writer = None;
        self.writers.remove(&number);
        self.events.push(StreamEvent::Writable(id));
        true
    }

    /// Lets a writer wait behind the others.
    fn requeue_writer(&mut self, id: StreamId) {
        if let Some(number) = self.send.get_mut(&id).and_then(|half| half.writer.take()) {
            self.writers.remove(&number);
        }
        self.add_writer(id);
    }
}
