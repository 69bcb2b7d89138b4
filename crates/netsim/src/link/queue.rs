//! The drop-tail queue before the transmitter.

use std::collections::VecDeque;

use super::QueueSize;

/// A packet that waits for the transmitter.
pub(super) struct Waiting<T> {
    pub(super) packet: T,
    pub(super) size: u64,
    pub(super) ce: bool,
}

pub(super) struct Queue<T> {
    waiting: VecDeque<Waiting<T>>,
    bytes: u64,
    limit: QueueSize,
    ecn_threshold: Option<QueueSize>,
}

impl<T> Queue<T> {
    pub(super) fn new(limit: QueueSize, ecn_threshold: Option<QueueSize>) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, limit, ecn_threshold }
    }

    /// Adds a packet at the tail; false if it does not fit. It is marked if the queue it finds is
    /// above the threshold (DCTCP section 3.1: instantaneous occupancy on arrival greater than K).
    pub(super) fn push(&mut self, packet: T, size: u64) -> bool {
        if self.limit.is_exceeded_by(self.len() as u64 + 1, self.bytes + size) {
            return false;
        }
        let ce = self.ecn_threshold.is_some_and(|k| k.is_exceeded_by(self.len() as u64, self.bytes));
        self.bytes += size;
        self.waiting.push_back(Waiting { packet, size, ce });
        true
    }

    pub(super) fn pop(&mut self) -> Option<Waiting<T>> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.size;
        Some(first)
    }

    /// Drops everything and returns how many packets that were.
    pub(super) fn clear(&mut self) -> usize {
        let dropped = self.waiting.len();
        self.waiting.clear();
        self.bytes = 0;
        dropped
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}
