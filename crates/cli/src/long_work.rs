//! That long work goes on: a bar on a terminal, a line a minute in a log.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use indicatif::ProgressBar;
use tokio::time::Instant;

use crate::console;

/// Between two lines of a log: those of a night's work can still be read.
const EVERY: Duration = Duration::from_secs(60);

/// Work that takes minutes or hours.
pub(crate) struct LongWork {
    name: String,
    bar: ProgressBar,
    /// When the last line was written, or the work began.
    told: Mutex<Instant>,
}

impl LongWork {
    /// Work of this name begins. `template` is indicatif's, for the bar.
    pub(crate) fn begin(name: &str, template: &str) -> Self {
        let bar = console::progress(0, template);
        Self { name: name.to_owned(), bar, told: Mutex::new(Instant::now()) }
    }

    /// So much of it is done; `now` says what it is at, in a few words, or is empty.
    pub(crate) fn show(&self, done: u64, total: u64, now: &str) {
        if !self.bar.is_hidden() {
            self.bar.set_length(total);
            self.bar.set_position(done);
            self.bar.set_message(now.to_owned());
        } else if let Some(line) = self.line(Instant::now(), done, total, now) {
            console::mention(line);
        }
    }

    /// It has ended: the bar goes.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// The line that is due at `at`, if one is.
    fn line(&self, at: Instant, done: u64, total: u64, now: &str) -> Option<String> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if at < *told + EVERY {
            return None;
        }
        *told = at;
        let comma = if now.is_empty() { "" } else { ", " };
        Some(format!("{}: {done} of {total}{comma}{now}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_gets_a_line_a_minute() {
        let work = LongWork::begin("never-worse", "{pos}");
        let start = *work.told.lock().unwrap();
        let line = |seconds, done| work.line(start + Duration::from_secs(seconds), done, 90, "mendpath:auto");
        assert_eq!(line(59, 7), None);
        assert_eq!(line(60, 8).as_deref(), Some("never-worse: 8 of 90, mendpath:auto"));
        assert_eq!(line(119, 9), None);
        assert_eq!(line(200, 10).as_deref(), Some("never-worse: 10 of 90, mendpath:auto"));
        assert_eq!(work.line(start + EVERY * 5, 11, 90, "").as_deref(), Some("never-worse: 11 of 90"));
    }
}
