//! [`SendQueue`]: whose turn it is to send.
//!
//! Higher priority goes first; among equals what was lost, then the first bytes of streams that
//! were silent, then the rest, in turns of about a packet by bytes (deficit round robin; the two
//! lists are those of FQ-CoDel, RFC 8290 section 4.2). So a request or an answer does not wait for
//! what others have to say, whatever their number, and nobody waits for ever: of what is sent,
//! those who are passed over get a share too.

use std::collections::VecDeque;

use crate::wire::StreamId;

/// Bytes of a turn.
pub(super) const QUANTUM: i64 = 1_200;
/// Bytes that a stream which was silent may send before all that were not: a request, an answer, a
/// handshake's flight.
pub(super) const FIRST_BYTES: i64 = 4_096;
/// After so many bytes of those who go first, one of the others has a turn.
const PASSED_OVER: u64 = 16 * QUANTUM as u64;

/// What a stream waits for; in this order among equals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// To repeat lost bytes.
    Lost,
    /// To begin.
    First,
    /// To go on.
    Bulk,
}

/// Lists that are empty are kept for so many priorities, since a stream with much to send leaves its
/// list and comes back with every packet.
const KEPT: usize = 4;

/// Streams of one priority.
#[derive(Debug)]
struct Level {
    priority: i32,
    /// By [`Class`].
    queues: [VecDeque<StreamId>; 3],
}

impl Level {
    fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }
}

/// A stream's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Turn {
    pub(super) id: StreamId,
    pub(super) class: Class,
    /// Whether others wait meanwhile.
    others: bool,
    /// Whether those of them who go first let it pass.
    let_pass: bool,
}

/// Streams with something to send. Who puts a stream in makes sure that it is in once for lost data
/// and once for new.
#[derive(Default, Debug)]
pub(super) struct SendQueue {
    /// The highest priority first.
    levels: Vec<Level>,
    /// Bytes sent while others were passed over.
    passed_over: u64,
    /// How often others were let pass: they take turns, too.
    let_pass: usize,
}

impl SendQueue {
    /// Nothing has happened for long.
    pub(super) fn rest(&mut self) {
        self.levels.retain(|level| !level.is_empty());
        self.levels.shrink_to_fit();
    }

    pub(super) fn push_back(&mut self, priority: i32, class: Class, id: StreamId) {
        self.level(priority).queues[class as usize].push_back(id);
    }

    /// For a stream whose turn is not over.
    pub(super) fn push_front(&mut self, priority: i32, class: Class, id: StreamId) {
        self.level(priority).queues[class as usize].push_front(id);
    }

    pub(super) fn pop(&mut self) -> Option<Turn> {
        let mut waiting = self.waiting();
        let mut next = waiting.next()?;
        let others = waiting.next().is_some();
        drop(waiting);
        let let_pass = others && self.passed_over >= PASSED_OVER;
        if let_pass {
            let passed = self.waiting().count() - 1;
            next = self.waiting().nth(1 + self.let_pass % passed)?;
        }
        let (level, class) = next;
        let id = self.levels[level].queues[class as usize].pop_front()?;
        self.forget_if_empty(level);
        Some(Turn { id, class, others, let_pass })
    }

    /// So many bytes were sent in a turn.
    pub(super) fn charge(&mut self, turn: Turn, bytes: u64) {
        if turn.let_pass {
            // A turn without bytes was of one who had nothing after all: then the next of them.
            self.passed_over = if bytes > 0 { 0 } else { self.passed_over };
            self.let_pass = self.let_pass.wrapping_add(1);
        } else if turn.others {
            self.passed_over = self.passed_over.saturating_add(bytes);
        } else {
            self.passed_over = 0;
        }
    }

    /// Takes out a stream, if it is there. O(streams of that priority).
    pub(super) fn remove(&mut self, priority: i32, class: Class, id: StreamId) {
        if let Ok(level) = self.place(priority) {
            self.levels[level].queues[class as usize].retain(|&queued| queued != id);
            self.forget_if_empty(level);
        }
    }

    fn level(&mut self, priority: i32) -> &mut Level {
        let level = self.place(priority).unwrap_or_else(|level| {
            self.levels.insert(level, Level { priority, queues: Default::default() });
            level
        });
        &mut self.levels[level]
    }

    /// Where a priority is among the levels, or belongs.
    fn place(&self, priority: i32) -> Result<usize, usize> {
        self.levels.binary_search_by(|level| priority.cmp(&level.priority))
    }

    fn forget_if_empty(&mut self, level: usize) {
        if self.levels.len() > KEPT && self.levels[level].is_empty() {
            self.levels.remove(level);
        }
    }

    /// The lists that are not empty, as level and class, in the order of their right.
    fn waiting(&self) -> impl Iterator<Item = (usize, Class)> {
        let lists = self.levels.iter().enumerate().flat_map(|(place, level)| {
            let classes = [Class::Lost, Class::First, Class::Bulk].into_iter();
            classes.map(move |class| (place, class, &level.queues[class as usize]))
        });
        lists.filter(|(_, _, queue)| !queue.is_empty()).map(|(place, class, _)| (place, class))
    }
}
