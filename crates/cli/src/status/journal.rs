//! What happened lately: paths that came and went, reconnects, refusals.

use std::{
    collections::VecDeque,
    fmt::Display,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

use super::unix_ms;

/// Entries that are kept; the oldest go.
const KEPT: usize = 100;
/// Bytes of an entry's text; a peer may have written a part of it.
const MAX_TEXT: usize = 300;

/// The newest entries.
#[derive(Debug, Default)]
pub(crate) struct Journal(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    kept: VecDeque<EventRow>,
    next: u64,
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A path or a connection is there.
    Up,
    /// A path or a connection is gone, or does not answer.
    Down,
    /// Somebody was not given what he asked for.
    Refused,
    /// Somebody changed a setting.
    Changed,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRow {
    /// Counts entries from 0.
    pub id: u64,
    /// When it happened last, in milliseconds since 1970.
    pub unix_ms: u64,
    /// What kind of thing it is.
    pub kind: EventKind,
    /// In words.
    pub text: String,
    /// How many times in a row.
    pub count: u64,
}

impl Journal {
    /// Writes an entry, or counts the last one once more if it says the same.
    pub(crate) fn note(&self, kind: EventKind, text: impl Display) {
        // Peers' words must not steer the terminal that shows them.
        let mut text = text.to_string().replace(char::is_control, " ");
        let fits = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(fits);
        let mut entries = self.entries();
        if let Some(last) = entries.kept.back_mut().filter(|last| last.kind == kind && last.text == text) {
            (last.count, last.unix_ms) = (last.count + 1, unix_ms());
            return;
        }
        if entries.kept.len() == KEPT {
            entries.kept.pop_front();
        }
        let id = entries.next;
        entries.next += 1;
        entries.kept.push_back(EventRow { id, unix_ms: unix_ms(), kind, text, count: 1 });
    }

    /// The newest `most` entries, newest first.
    pub(crate) fn newest(&self, most: usize) -> Vec<EventRow> {
        self.entries().kept.iter().rev().take(most).cloned().collect()
    }

    /// Throws away what was written of a kind.
    pub(crate) fn forget(&self, kind: EventKind) {
        self.entries().kept.retain(|entry| entry.kind != kind);
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_and_repetitions_counted() {
        let journal = Journal::default();
        for n in 0..2 * KEPT {
            journal.note(EventKind::Up, n);
        }
        journal.note(EventKind::Refused, "no");
        journal.note(EventKind::Refused, "no");
        let entries = journal.newest(usize::MAX);
        assert_eq!(entries.len(), KEPT);
        assert_eq!((entries[0].text.as_str(), entries[0].count), ("no", 2));
        assert_eq!((entries[1].text.as_str(), entries[1].id), ("199", 199));
        assert_eq!(journal.newest(1).len(), 1);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let journal = Journal::default();
        journal.note(EventKind::Refused, "ä".repeat(MAX_TEXT));
        assert_eq!(journal.newest(1)[0].text, "ä".repeat(MAX_TEXT / 2));
    }
}
