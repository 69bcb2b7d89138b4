//! What the clients of each account have sent and received since the server's start, for
//! `/metrics`.
//!
//! A server may have any number of accounts, and each client may have opened and closed any number
//! of paths. A monitoring system keeps every series that it was ever shown, so there is a limit:
//! [`MAX_ACCOUNTS`] accounts have series of their own, as long as the server runs: those whose clients
//! come first, and at each look those that were ever used, while there are places. All others share
//! one, [`OTHERS`]. The same holds for paths whose id is [`MAX_PATHS`] or above. Connections have none.
//! So sums never fall, and no series comes and goes.

use std::{collections::BTreeMap, sync::Arc};

use mendpath::{Connection, PathId};

use crate::{
    accounts,
    status::{Counters, OTHERS, PathCounts},
};

/// Accounts with series of their own.
pub(crate) const MAX_ACCOUNTS: usize = 200;
/// Paths of an account with series of their own, by their ids.
pub(crate) const MAX_PATHS: u32 = 4;

/// The books of all accounts.
#[derive(Debug, Default)]
pub(crate) struct AccountBooks {
    by_name: BTreeMap<Arc<str>, AccountTotals>,
    /// The most that accounts without a place have used together.
    others_used: accounts::Row,
}

/// What an account's clients have done.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccountTotals {
    /// Connected at the moment.
    pub(crate) clients: u64,
    /// Their open paths.
    pub(crate) paths: u64,
    /// Of their connections; in the books, of those that have ended.
    pub(crate) counters: Counters,
    /// Of their paths, by id.
    pub(crate) of_paths: BTreeMap<PathLabel, PathCounts>,
    /// What the account has used since it was made, if it is known.
    pub(crate) used: Option<accounts::Row>,
}

/// An id below [`MAX_PATHS`], or that for all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PathLabel(u32);

impl From<PathId> for PathLabel {
    fn from(id: PathId) -> Self {
        Self(id.0.min(MAX_PATHS))
    }
}

impl PathLabel {
    /// As it is shown.
    pub(crate) fn text(self) -> String {
        if self.0 < MAX_PATHS { self.0.to_string() } else { OTHERS.to_owned() }
    }
}

/// What the paths of a connection had counted when they were last looked at.
pub(crate) type LastCounts = BTreeMap<PathId, PathCounts>;

impl AccountBooks {
    /// Where an account is counted.
    fn of(&mut self, account: &Arc<str>) -> &mut AccountTotals {
        let label = if self.by_name.contains_key(account) || self.by_name.len() < MAX_ACCOUNTS {
            account.clone()
        } else {
            Arc::from(OTHERS)
        };
        self.by_name.entry(label).or_default()
    }

    /// Counts what the paths of one of its connections did since the last look, and returns how
    /// many there are.
    pub(crate) fn look(&mut self, account: &Arc<str>, connection: &Connection, last: &mut LastCounts) -> u64 {
        let paths = connection.path_stats();
        self.count(account, paths.iter().map(|path| (path.id, path.into())), last);
        last.retain(|id, _| paths.iter().any(|path| path.id == *id));
        paths.len() as u64
    }

    fn count(
        &mut self,
        account: &Arc<str>,
        paths: impl Iterator<Item = (PathId, PathCounts)>,
        last: &mut LastCounts,
    ) {
        let totals = self.of(account);
        for (id, now) in paths {
            let sum = totals.of_paths.entry(id.into()).or_default();
            sum.add_since(last.entry(id).or_default(), now);
        }
    }

    /// One of its connections has ended.
    pub(crate) fn ended(&mut self, account: &Arc<str>, counters: Counters) {
        self.of(account).counters += counters;
    }

    /// Adds an open connection to what was counted.
    pub(crate) fn add_open(
        &self,
        shown: &mut BTreeMap<Arc<str>, AccountTotals>,
        account: &Arc<str>,
        paths: u64,
        counters: Counters,
    ) {
        let label = if self.by_name.contains_key(account) { account.clone() } else { Arc::from(OTHERS) };
        let totals = shown.entry(label).or_default();
        totals.clients += 1;
        totals.paths += paths;
        totals.counters += counters;
    }

    /// Everything counted so far.
    pub(crate) fn totals(&self) -> BTreeMap<Arc<str>, AccountTotals> {
        self.by_name.clone()
    }

    /// Takes in what accounts have used since they were made.
    pub(crate) fn used(&mut self, rows: Vec<accounts::Row>) {
        let mut others = accounts::Row::default();
        for row in rows {
            let name: Arc<str> = row.name.as_str().into();
            // Makes a place for it, if there is one.
            self.of(&name);
            if let Some(totals) = self.by_name.get_mut(&name) {
                totals.used = Some(row);
            } else {
                others.take_in(&row);
            }
        }
        // One that is revoked takes its bytes away from the sum, which must not fall.
        let most = &mut self.others_used;
        most.up_bytes = most.up_bytes.max(others.up_bytes);
        most.down_bytes = most.down_bytes.max(others.down_bytes);
        most.packets_dropped = most.packets_dropped.max(others.packets_dropped);
        if let Some(totals) = self.by_name.get_mut(OTHERS) {
            totals.used = Some(most.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use mendpath::ConnectionStats;

    use super::*;

    fn row(name: &str, up_bytes: u64) -> accounts::Row {
        accounts::Row { name: name.into(), up_bytes, ..accounts::Row::default() }
    }

    fn sent(bytes_sent: u64) -> Counters {
        let mut stats = ConnectionStats::default();
        stats.bytes_sent = bytes_sent;
        (&stats).into()
    }

    fn bytes_sent(totals: &AccountTotals) -> u64 {
        totals.counters.iter().next().unwrap().1
    }

    #[test]
    fn ten_thousand_accounts_make_few_series() {
        let mut books = AccountBooks::default();
        let names: Vec<Arc<str>> = (0..10_000).map(|n| format!("user{n:05}").into()).collect();
        for name in &names {
            books.ended(name, sent(1));
            let counts = (0..50).map(|id| (PathId(id), PathCounts::default()));
            books.count(name, counts, &mut LastCounts::default());
        }
        books.used(names.iter().map(|name| row(name, 3)).collect());
        let mut shown = books.totals();
        books.add_open(&mut shown, &names[9_999], 2, sent(5));
        assert_eq!(shown.len(), MAX_ACCOUNTS + 1);
        assert!(shown.values().all(|totals| totals.of_paths.len() == MAX_PATHS as usize + 1));
        let others = &shown[OTHERS];
        let beyond = (names.len() - MAX_ACCOUNTS) as u64;
        assert_eq!((bytes_sent(others), others.clients, others.paths), (beyond + 5, 1, 2));
        assert_eq!(others.used.as_ref().unwrap().up_bytes, 3 * beyond);
        assert_eq!(bytes_sent(&shown[&names[0]]), 1);
    }

    #[test]
    fn sums_do_not_fall_when_accounts_go() {
        let mut books = AccountBooks::default();
        let rows: Vec<_> = (0..MAX_ACCOUNTS + 10).map(|n| row(&format!("user{n:03}"), 2)).collect();
        books.used(rows.clone());
        books.used(rows[..MAX_ACCOUNTS + 5].to_vec());
        assert_eq!(books.totals()[OTHERS].used.as_ref().unwrap().up_bytes, 20);
    }

    #[test]
    fn paths_count_what_came_since_the_last_look() {
        let mut books = AccountBooks::default();
        let (alice, mut last) = (Arc::from("alice"), LastCounts::default());
        let (mut one, mut two) = (PathCounts::default(), PathCounts::default());
        one.set_bytes_sent(10);
        two.set_bytes_sent(25);
        books.count(&alice, [(PathId(0), one)].into_iter(), &mut last);
        books.count(&alice, [(PathId(0), two)].into_iter(), &mut last);
        books.count(&alice, [(PathId(0), one)].into_iter(), &mut LastCounts::default());
        assert_eq!(
            books.totals()["alice"].of_paths[&PathLabel(0)].value(0),
            35,
            "another connection's adds up"
        );
        assert_eq!([PathLabel(0), PathId(4).into()].map(PathLabel::text), ["0", OTHERS]);
    }
}
