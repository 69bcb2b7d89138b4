//! The seats of a server, of which no account can take all while others exist.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use crate::accounts::AccountId;

/// The seats.
#[derive(Debug)]
pub(super) struct Seats {
    total: AtomicUsize,
    taken: Mutex<BTreeMap<AccountId, usize>>,
}

/// A seat that is taken, until this is dropped.
#[derive(Debug)]
pub struct Seat {
    seats: Arc<Seats>,
    account: AccountId,
}

impl Seats {
    /// So many.
    pub(super) fn new(total: usize) -> Arc<Self> {
        Arc::new(Self { total: total.into(), taken: Mutex::default() })
    }

    /// So many from now on. Who sits stays.
    pub(super) fn set_total(&self, total: usize) {
        self.total.store(total, Relaxed);
    }

    /// A seat for a client of `account`, one of `accounts` that may come.
    ///
    /// Its share, the seats by the accounts, it may have as long as there are seats. Beyond that it
    /// must leave as many free as it has itself, unless it is the only one.
    pub(super) fn take(self: &Arc<Self>, account: AccountId, accounts: usize) -> Option<Seat> {
        let mut taken = self.taken();
        let total = self.total.load(Relaxed);
        let free = total.saturating_sub(taken.values().sum());
        let has = taken.get(&account).copied().unwrap_or(0);
        let within_share = accounts <= 1 || has < total / accounts || has < free;
        if free == 0 || !within_share {
            return None;
        }
        taken.insert(account, has + 1);
        drop(taken);
        Some(Seat { seats: self.clone(), account })
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<AccountId, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        if let Some(count) = taken.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.account);
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
        assert!(seats.taken().is_empty(), "given back");
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
