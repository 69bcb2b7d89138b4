//! What paths have sent and received since the program's start, by their names: a path that closes,
//! or whose connection is made anew, goes on counting when one of its name is there again.

use std::{cmp::Reverse, collections::BTreeMap};

use mendpath::{PathId, PathStats};

/// Names on the books; what further paths do is under [`OTHERS`].
const MAX_NAMES: usize = 64;
/// The label of what has no place of its own. No path and no account can be called that.
pub(crate) const OTHERS: &str = "(others)";

/// One of the counters that every path has.
#[derive(Debug)]
pub(crate) struct PathCounter {
    /// As the field of [`PathStats`] is called.
    pub(crate) name: &'static str,
    /// What it counts, in a sentence.
    pub(crate) help: &'static str,
    of: fn(&PathStats) -> u64,
}

macro_rules! counter {
    ($field:ident, $help:literal) => {
        PathCounter { name: stringify!($field), help: $help, of: |path| path.$field }
    };
}

/// All counters, in the order in which they are shown.
pub(crate) static PATH_COUNTERS: [PathCounter; 11] = [
    counter!(bytes_sent, "UDP payload bytes sent."),
    counter!(bytes_received, "UDP payload bytes received."),
    counter!(packets_sent, "Packets sent."),
    counter!(packets_received, "Packets received."),
    counter!(packets_lost, "Packets declared lost."),
    counter!(packets_mended, "Lost packets whose data had reached the peer by a copy or a repair symbol."),
    counter!(packets_rebuilt_by_peer, "Packets that the peer rebuilt."),
    counter!(copies_sent, "Copies of packets sent."),
    counter!(repair_symbols_sent, "Repair symbols sent."),
    counter!(spurious_losses, "Packets declared lost that were acknowledged after all."),
    counter!(
        gaps_forgotten,
        "Gaps in the peer's packet numbers remembered no more, because there were too many."
    ),
];

/// The values of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathCounts([u64; PATH_COUNTERS.len()]);

impl From<&PathStats> for PathCounts {
    fn from(path: &PathStats) -> Self {
        Self(PATH_COUNTERS.each_ref().map(|counter| (counter.of)(path)))
    }
}

impl PathCounts {
    /// The value of the counter at this place in [`PATH_COUNTERS`].
    pub(crate) fn value(&self, index: usize) -> u64 {
        self.0[index]
    }

    #[cfg(test)]
    pub(crate) fn set_bytes_sent(&mut self, bytes: u64) {
        self.0[0] = bytes;
    }

    /// Adds what came since `before`, which becomes `now`.
    pub(crate) fn add_since(&mut self, before: &mut Self, now: Self) {
        for ((sum, before), now) in self.0.iter_mut().zip(&mut before.0).zip(now.0) {
            *sum += now.saturating_sub(*before);
            *before = now;
        }
    }
}

/// The books of a client's paths.
#[derive(Debug, Default)]
pub(crate) struct PathBooks {
    sums: BTreeMap<String, PathCounts>,
    /// What each path of each connection had counted at the last look.
    last: BTreeMap<(u64, PathId), PathCounts>,
    /// The look that found a path of the name, the last one.
    seen: BTreeMap<String, u64>,
    looks: u64,
}

impl PathBooks {
    /// Looks at all paths of the `connection`-th connection, with their names. What a path does
    /// after the last look that finds it is not counted.
    pub(crate) fn look(&mut self, connection: u64, paths: &[(String, PathId, PathCounts)]) {
        self.looks += 1;
        for (name, id, counts) in paths {
            let name = if self.sums.contains_key(name) || self.sums.len() < MAX_NAMES {
                name.as_str()
            } else {
                OTHERS
            };
            self.seen.insert(name.to_owned(), self.looks);
            let sum = self.sums.entry(name.to_owned()).or_default();
            sum.add_since(self.last.entry((connection, *id)).or_default(), *counts);
        }
        let is_open = |id: &PathId| paths.iter().any(|(_, open, _)| open == id);
        self.last.retain(|(of, id), _| *of != connection || is_open(id));
    }

    /// A connection has ended, and is not looked at any more.
    pub(crate) fn forget(&mut self, connection: u64) {
        self.last.retain(|(of, _), _| *of != connection);
    }

    /// The sums by name.
    pub(crate) fn sums(&self) -> &BTreeMap<String, PathCounts> {
        &self.sums
    }

    /// The names, those that were there latest first.
    pub(crate) fn by_age(&self) -> Vec<&str> {
        let mut names: Vec<_> =
            self.seen.iter().map(|(name, look)| (Reverse(*look), name.as_str())).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// Under which of the [sums](Self::sums) a path of this name is counted.
    pub(crate) fn label<'a>(&self, name: &'a str) -> &'a str {
        if self.sums.contains_key(name) { name } else { OTHERS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(books: &PathBooks, name: &str) -> u64 {
        books.sums()[name].value(0)
    }

    fn look(books: &mut PathBooks, connection: u64, paths: &[(&str, u32, u64)]) {
        let counts = |&(name, id, bytes_sent): &(&str, u32, u64)| {
            let mut counts = PathCounts::default();
            counts.set_bytes_sent(bytes_sent);
            (name.to_owned(), PathId(id), counts)
        };
        books.look(connection, &paths.iter().map(counts).collect::<Vec<_>>());
    }

    #[test]
    fn sums_never_fall() {
        let mut books = PathBooks::default();
        look(&mut books, 0, &[("wlan0", 0, 10), ("wwan0", 1, 5)]);
        look(&mut books, 0, &[("wlan0", 0, 12), ("wwan0", 1, 5), ("wlan0", 2, 100)]);
        assert_eq!((sent(&books, "wlan0"), sent(&books, "wwan0")), (112, 5), "two of one name add up");
        look(&mut books, 0, &[("wlan0", 2, 101)]);
        assert_eq!((sent(&books, "wlan0"), sent(&books, "wwan0")), (113, 5));
        assert_eq!(books.by_age(), ["wlan0", "wwan0"]);
        look(&mut books, 1, &[("wlan0", 2, 7)]);
        assert_eq!(sent(&books, "wlan0"), 120, "a new connection counts from 0");
        look(&mut books, 1, &[]);
        assert_eq!(sent(&books, "wlan0"), 120);
        look(&mut books, 0, &[("wlan0", 2, 105)]);
        assert_eq!(sent(&books, "wlan0"), 124, "the one before goes on beside it");
        books.forget(0);
        assert!(books.last.is_empty());
    }

    #[test]
    fn names_beyond_the_limit_share_one() {
        let mut books = PathBooks::default();
        for n in 0..2 * MAX_NAMES {
            look(&mut books, 0, &[(&format!("wlan{n}"), n as u32, 1)]);
        }
        assert_eq!(books.sums().len(), MAX_NAMES + 1);
        assert_eq!((sent(&books, "wlan63"), sent(&books, OTHERS)), (1, MAX_NAMES as u64));
        assert_eq!((books.label("wlan63"), books.label("wlan64")), ("wlan63", OTHERS));
    }
}
