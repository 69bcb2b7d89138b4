//! The seats of a server, of which nobody can take all while others exist.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use crate::accounts::AccountId;

/// The seats. Who takes them are accounts, or whatever else can be told apart.
#[derive(Debug)]
pub(crate) struct Seats<T: Ord + Copy = AccountId> {
    total: AtomicUsize,
    taken: Mutex<Taken<T>>,
}

#[derive(Debug)]
struct Taken<T> {
    all: usize,
    /// No entry is 0.
    by: BTreeMap<T, usize>,
}

/// A seat that is taken, until this is dropped.
#[derive(Debug)]
pub struct Seat<T: Ord + Copy = AccountId> {
    seats: Arc<Seats<T>>,
    account: T,
}

impl<T: Ord + Copy> Seats<T> {
    /// So many.
    pub(crate) fn new(total: usize) -> Arc<Self> {
        let taken = Mutex::new(Taken { all: 0, by: BTreeMap::new() });
        Arc::new(Self { total: total.into(), taken })
    }

    /// So many from now on. Who sits stays.
    pub(super) fn set_total(&self, total: usize) {
        self.total.store(total, Relaxed);
    }

    /// A seat for a client of `account`, one of `accounts` that may come.
    ///
    /// Its share, the seats by the accounts, it may have as long as there are seats. Beyond that it
    /// must leave as many free as it has itself, unless it is the only one.
    pub(super) fn take(self: &Arc<Self>, account: T, accounts: usize) -> Option<Seat<T>> {
        let mut taken = self.taken();
        let total = self.total.load(Relaxed);
        let free = total.saturating_sub(taken.all);
        let has = taken.by.get(&account).copied().unwrap_or(0);
        let within_share = accounts <= 1 || has < total / accounts || has < free;
        if free == 0 || !within_share {
            return None;
        }
        taken.all += 1;
        taken.by.insert(account, has + 1);
        drop(taken);
        Some(Seat { seats: self.clone(), account })
    }

    /// A seat for one of those who may be any number: at most half, and as many as it leaves free.
    #[cfg(feature = "serve")]
    pub(crate) fn take_of_any(self: &Arc<Self>, account: T) -> Option<Seat<T>> {
        self.take(account, usize::MAX)
    }

    /// Whether one would be given.
    #[cfg(feature = "serve")]
    pub(crate) fn has_for_any(&self, account: T) -> bool {
        let taken = self.taken();
        let free = self.total.load(Relaxed).saturating_sub(taken.all);
        taken.by.get(&account).copied().unwrap_or(0) < free
    }

    fn taken(&self) -> MutexGuard<'_, Taken<T>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Ord + Copy> Drop for Seat<T> {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        taken.all -= 1;
        if let Some(count) = taken.by.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                taken.by.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(n: u8) -> AccountId {
        AccountId([n; 16])
    }

    fn all(seats: &Arc<Seats>, of: u8, accounts: usize) -> Vec<Seat> {
        std::iter::from_fn(|| seats.take(account(of), accounts)).collect()
    }

    #[test]
    fn the_only_account_has_them_all() {
        let seats = Seats::new(5);
        let taken = all(&seats, 1, 1);
        assert_eq!(taken.len(), 5);
        seats.set_total(3);
        assert!(seats.take(account(1), 1).is_none(), "fewer than are taken");
        seats.set_total(6);
        assert_eq!(all(&seats, 1, 1).len(), 1);
        drop(taken);
        assert_eq!(seats.taken().all, 0, "given back");
        assert!(seats.taken().by.is_empty());
    }

    #[test]
    fn one_of_several_leaves_seats_for_the_others() {
        for (total, accounts) in [(2, 2), (256, 2), (256, 10), (256, 10_000)] {
            let seats = Seats::new(total);
            let greedy = all(&seats, 1, accounts);
            assert_eq!(greedy.len(), total.div_ceil(2), "{total} seats, {accounts} accounts");
            let next = all(&seats, 2, accounts);
            assert!(!next.is_empty(), "{total} seats, {accounts} accounts");
            if accounts == 2 {
                assert_eq!(next.len(), total / 2, "its share");
            }
        }
    }
}
