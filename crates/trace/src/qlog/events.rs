//! The list of events: of each kind the first ones and the last ones, so that neither much of one
//! kind nor a long trace hides the others.

use std::collections::VecDeque;

use crate::counted::thousands;

/// What kind of event it is; each has its own part of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The connection begins or ends.
    Connection,
    /// Paths come, go and change.
    Path,
    /// Paths are validated.
    Validation,
    /// Probe timeouts.
    Timeout,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Connection, Self::Path, Self::Validation, Self::Timeout];

    /// So many first ones are kept, and as many last ones.
    pub(super) const fn kept(self) -> usize {
        match self {
            Self::Connection => 10,
            Self::Path => 60,
            Self::Validation | Self::Timeout => 40,
        }
    }

    /// What so many of them are called.
    fn named(self, count: u64) -> &'static str {
        match (self, count) {
            (Self::Connection, 1) => "event of the connection",
            (Self::Connection, _) => "events of the connection",
            (Self::Path, 1) => "event of paths",
            (Self::Path, _) => "events of paths",
            (Self::Validation, 1) => "event of validation",
            (Self::Validation, _) => "events of validation",
            (Self::Timeout, 1) => "probe timeout",
            (Self::Timeout, _) => "probe timeouts",
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) at_ms: f64,
    pub(super) path: Option<u64>,
    pub(super) text: String,
}

/// What is kept of one kind. Numbers say in which order all came.
#[derive(Debug, Default)]
struct Part {
    first: Vec<(u64, Event)>,
    last: VecDeque<(u64, Event)>,
    left_out: u64,
}

/// The list.
#[derive(Debug, Default)]
pub(super) struct Events {
    parts: [Part; Kind::ALL.len()],
    seen: u64,
}

impl Events {
    /// Adds what happened last.
    pub(super) fn add(&mut self, kind: Kind, event: Event) {
        let (part, number) = (&mut self.parts[kind as usize], self.seen);
        self.seen += 1;
        if part.first.len() < kind.kept() {
            part.first.push((number, event));
            return;
        }
        if part.last.len() == kind.kept() {
            part.last.pop_front();
            part.left_out += 1;
        }
        part.last.push_back((number, event));
    }

    /// How many are not in the list.
    pub(super) fn left_out(&self) -> u64 {
        self.parts.iter().map(|part| part.left_out).sum()
    }

    /// All that were kept in their order; where some were left out, a line says how many.
    pub(super) fn list(&self) -> Vec<Event> {
        let mut all: Vec<(u64, Event)> = Vec::new();
        for (kind, part) in Kind::ALL.into_iter().zip(&self.parts) {
            all.extend(part.first.iter().chain(&part.last).cloned());
            if let (Some((number, after)), true) = (part.first.last(), part.left_out > 0) {
                let text =
                    format!("{} more {} left out here", thousands(part.left_out), kind.named(part.left_out));
                all.push((*number, Event { at_ms: after.at_ms, path: None, text }));
            }
        }
        // Stable: such a line comes behind the event that it follows.
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, event)| event).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_of_each_kind_are_kept() {
        let mut events = Events::default();
        let event = |n: u32, text: &str| Event { at_ms: n.into(), path: Some(0), text: text.to_owned() };
        for n in 0..10_000 {
            events.add(Kind::Timeout, event(n, &format!("timeout {n}")));
        }
        events.add(Kind::Connection, event(10_000, "closed"));
        assert_eq!(events.left_out(), 10_000 - 2 * Kind::Timeout.kept() as u64);
        let list = events.list();
        let texts: Vec<&str> = list.iter().map(|event| event.text.as_str()).collect();
        assert_eq!(texts.len(), 2 * Kind::Timeout.kept() + 2);
        assert_eq!(texts[39..42], ["timeout 39", "9,920 more probe timeouts left out here", "timeout 9960"]);
        assert_eq!((texts[0], *texts.last().unwrap()), ("timeout 0", "closed"));
    }
}
