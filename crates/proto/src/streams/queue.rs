//! [`SendQueue`]: whose turn it is to send.
//!
//! Higher priority goes first; among equals what was lost, then the first bytes of streams that
//! were silent, then the rest, in turns of about a packet by bytes (deficit round robin; the two
//! lists are those of FQ-CoDel, RFC 8290 section 4.2). So a request or an answer does not wait for
//! what others have to say, whatever their number, and nobody waits for ever: of what is sent,
//! those who are passed over get a share too.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

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

/// Streams of one priority.
type Level = [VecDeque<StreamId>; 3];

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
    levels: BTreeMap<Reverse<i32>, Level>,
    /// Bytes sent while others were passed over.
    passed_over: u64,
    /// How often others were let pass: they take turns, too.
    let_pass: usize,
}

impl SendQueue {
    pub(super) fn push_back(&mut self, priority: i32, class: Class, id: StreamId) {
        self.level(priority)[class as usize].push_back(id);
    }

    /// For a stream whose turn is not over.
    pub(super) fn push_front(&mut self, priority: i32, class: Class, id: StreamId) {
        self.level(priority)[class as usize].push_front(id);
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
        let queues = self.levels.get_mut(&level)?;
        let id = queues[class as usize].pop_front()?;
        if queues.iter().all(VecDeque::is_empty) {
            self.levels.remove(&level);
        }
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
        if let Some(level) = self.levels.get_mut(&Reverse(priority)) {
            level[class as usize].retain(|&queued| queued != id);
            if level.iter().all(VecDeque::is_empty) {
                self.levels.remove(&Reverse(priority));
            }
        }
    }

    fn level(&mut self, priority: i32) -> &mut Level {
        self.levels.entry(Reverse(priority)).or_default()
    }

    /// The lists that are not empty, in the order of their right.
    fn waiting(&self) -> impl Iterator<Item = (Reverse<i32>, Class)> {
        let classes = [Class::Lost, Class::First, Class::Bulk];
        let of = move |(&level, queues): (&Reverse<i32>, &Level)| {
            classes.map(|class| (!queues[class as usize].is_empty()).then_some((level, class)))
        };
        self.levels.iter().flat_map(of).flatten()
    }
}
