//! What programs tried and what became of it.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::stage::Role;
use crate::soak::print;

/// What a program does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Download,
    Upload,
    Association,
    Unread,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Download => "downloads",
            Self::Upload => "uploads",
            Self::Association => "UDP associations",
            Self::Unread => "downloads never read",
        }
    }
}

/// How an operation failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wrong {
    /// The bytes were not those sent.
    Corrupt,
    /// Nothing happened for too long.
    Hung,
    /// It was refused, reset or cut short.
    Broken,
}

/// An operation that has ended.
pub struct Done {
    pub kind: Kind,
    pub began: Instant,
    pub ended: Instant,
    pub bytes: u64,
    /// What was wrong, if anything.
    pub wrong: Option<(Wrong, String)>,
}

/// A time during which an end was away, or the pair not yet together again.
struct Outage {
    from: Instant,
    until: Option<Instant>,
    role: Option<Role>,
}

#[derive(Default)]
struct Books {
    done: Vec<Done>,
    outages: Vec<Outage>,
    faults: Vec<String>,
}

/// Everything that is counted.
#[derive(Default)]
pub struct Ledger(Mutex<Books>);

impl Ledger {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an operation.
    pub fn note(&self, done: Done) {
        self.books().done.push(done);
    }

    /// Notes what belongs to no operation.
    pub fn note_fault(&self, fault: String) {
        self.books().faults.push(fault);
    }

    /// An end goes away; to be given to [`outage_ends`](Self::outage_ends).
    pub fn outage_begins(&self) -> usize {
        let mut books = self.books();
        books.outages.push(Outage { from: Instant::now(), until: None, role: None });
        books.outages.len() - 1
    }

    /// The pair works again.
    pub fn outage_ends(&self, outage: usize, role: Role) {
        let mut books = self.books();
        books.outages[outage].until = Some(Instant::now());
        books.outages[outage].role = Some(role);
    }

    /// Operations for the figure: when each ended, its kind, its bytes and how long it took, if
    /// nothing was wrong with it.
    pub fn successes(&self) -> Vec<(Instant, Kind, u64, Duration)> {
        let books = self.books();
        let good = books.done.iter().filter(|done| done.wrong.is_none());
        good.map(|done| (done.ended, done.kind, done.bytes, done.ended - done.began)).collect()
    }

    /// Prints the books; whether all is as it should be: nothing corrupt, nothing hung, and broken
    /// only what an end's death broke.
    pub fn print(&self) -> bool {
        let books = self.books();
        let (rows, surprises) = books.sum_up();
        print(format_args!(
            "{:22} {:>8} {:>12} {:>18} {:>8} {:>8} {:>8}",
            "", "done", "bytes", "broken by a death", "broken", "hung", "corrupt"
        ));
        for (kind, row) in &rows {
            let count = |wrong| row.wrong.get(&wrong).copied().unwrap_or(0);
            print(format_args!(
                "{:22} {:8} {:12} {:18} {:8} {:8} {:8}",
                kind.name(),
                row.done,
                row.bytes,
                row.expected,
                count(Wrong::Broken),
                count(Wrong::Hung),
                count(Wrong::Corrupt)
            ));
        }
        for role in Role::BOTH {
            let times = books.outages.iter().filter(|outage| outage.role == Some(role));
            let times: Vec<_> =
                times.filter_map(|outage| Some((outage.until? - outage.from).as_secs_f64())).collect();
            let most = times.iter().copied().fold(0.0, f64::max);
            print(format_args!(
                "killed {} {} times; a download came through again after {most:.1} s at most",
                role.name(),
                times.len()
            ));
        }
        for fault in &books.faults {
            print(format_args!("FAULT: {fault}"));
        }
        let away = books.outages.iter().filter(|outage| outage.until.is_none()).count();
        if away > 0 {
            print(format_args!("FAULT: after {away} deaths nothing came through any more"));
        }
        const SHOWN: usize = 20;
        for surprise in surprises.iter().take(SHOWN) {
            print(format_args!("FAULT: {surprise}"));
        }
        if surprises.len() > SHOWN {
            print(format_args!("and {} more faults", surprises.len() - SHOWN));
        }
        surprises.is_empty() && books.faults.is_empty() && away == 0
    }
}

impl Books {
    /// The operations by kind, and what went wrong with them that should not.
    fn sum_up(&self) -> (BTreeMap<Kind, Row>, Vec<String>) {
        let mut rows: BTreeMap<Kind, Row> = BTreeMap::new();
        let mut surprises = Vec::new();
        for done in &self.done {
            let row = rows.entry(done.kind).or_default();
            match &done.wrong {
                None => {
                    row.done += 1;
                    row.bytes += done.bytes;
                }
                Some((Wrong::Broken, _)) if self.was_out(done) => row.expected += 1,
                Some((wrong, why)) => {
                    *row.wrong.entry(*wrong).or_default() += 1;
                    surprises.push(format!("{} {wrong:?}: {why}", done.kind.name()));
                }
            }
        }
        (rows, surprises)
    }

    /// Whether an end was away during any part of an operation.
    fn was_out(&self, done: &Done) -> bool {
        let overlaps = |outage: &Outage| {
            outage.from <= done.ended && outage.until.is_none_or(|until| done.began <= until)
        };
        self.outages.iter().any(overlaps)
    }
}

/// One kind of operation.
#[derive(Default)]
struct Row {
    done: u64,
    bytes: u64,
    expected: u64,
    wrong: BTreeMap<Wrong, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(began: Instant, ended: Instant) -> Done {
        Done { kind: Kind::Download, began, ended, bytes: 0, wrong: Some((Wrong::Broken, "reset".into())) }
    }

    #[test]
    fn a_death_breaks_what_is_under_way_and_must_have_an_end() {
        let (ledger, hour) = (Ledger::default(), Duration::from_secs(3_600));
        let outage = ledger.outage_begins();
        let died = Instant::now();
        ledger.note(broken(died, died + hour));
        assert!(!ledger.print(), "nothing has come through since");
        ledger.outage_ends(outage, Role::Server);
        assert!(ledger.print());
        ledger.note(broken(died + hour, died + hour));
        assert!(!ledger.print(), "the pair works again by then");
    }
}
