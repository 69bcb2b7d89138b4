//! Something scarce, shared among clients so that none takes it from the others.
//!
//! A client may have as much as is still free after it has got it, so that a single one gets half,
//! two that ask for all they can get a third each, and with `n` of them a share of `n + 1` is left:
//! whoever comes next finds something. Nothing is set aside for those who may never come, and it
//! does not matter how many connections somebody makes to count as many clients.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use tokio::sync::Notify;

/// What there is of it.
#[derive(Debug)]
pub(super) struct Pool {
    free: Mutex<usize>,
    /// Told of whatever is given back.
    returned: Notify,
    most_each: usize,
}

/// What one client has of it.
#[derive(Debug)]
pub(super) struct Share {
    pool: Arc<Pool>,
    used: AtomicUsize,
    /// Held by the one of this client's that waits; others wait for their turn, so that what is
    /// returned wakes one per client.
    turn: tokio::sync::Mutex<()>,
    waiting: AtomicUsize,
}

/// A part of it, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Part {
    share: Arc<Share>,
    size: usize,
}

/// More wait already than may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl Pool {
    /// Of size `total`, of which a client gets `most_each` at most.
    pub(super) fn new(total: usize, most_each: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(total), returned: Notify::new(), most_each })
    }

    pub(super) fn share(self: &Arc<Self>) -> Arc<Share> {
        let (used, waiting) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Share { pool: self.clone(), used, turn: tokio::sync::Mutex::default(), waiting })
    }

    fn free(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// A part of `size`, if this client may have it now.
    pub(super) fn take(self: &Arc<Self>, size: usize) -> Option<Part> {
        // The lock guards what each share uses as well.
        let mut free = self.pool.free();
        let after = self.used.load(Relaxed) + size;
        if after > self.pool.most_each || after > *free {
            return None;
        }
        *free -= size;
        self.used.store(after, Relaxed);
        Some(Part { share: self.clone(), size })
    }

    /// A part of size 1, as soon as this client may have it. Cancel safe.
    ///
    /// # Errors
    /// When `most` of this client's wait already.
    pub(super) async fn wait(self: &Arc<Self>, most: usize) -> Result<Part, TooMany> {
        let _place = self.queue(most)?;
        let _turn = self.turn.lock().await;
        loop {
            // Before the look, so that nothing returned meanwhile is missed.
            let returned = self.pool.returned.notified();
            if let Some(part) = self.take(1) {
                return Ok(part);
            }
            returned.await;
        }
    }

    /// How much this client has, and how many of its wait.
    #[cfg(test)]
    pub(super) fn used_and_waiting(&self) -> (usize, usize) {
        (self.used.load(Relaxed), self.waiting.load(Relaxed))
    }

    fn queue(&self, most: usize) -> Result<Place<'_>, TooMany> {
        let one_more = |waiting: usize| (waiting < most).then_some(waiting + 1);
        self.waiting.fetch_update(Relaxed, Relaxed, one_more).map_err(|_| TooMany)?;
        Ok(Place(self))
    }
}

struct Place<'a>(&'a Share);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut free = self.share.pool.free();
        *free += self.size;
        self.share.used.fetch_sub(self.size, Relaxed);
        drop(free);
        self.share.pool.returned.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_it_can_get(share: &Arc<Share>) -> Vec<Part> {
        std::iter::from_fn(|| share.take(1)).collect()
    }

    #[test]
    fn the_greedy_leave_something() {
        let pool = Pool::new(1_000, 1_000);
        let greedy: Vec<_> = (0..9).map(|_| all_it_can_get(&pool.share())).collect();
        assert_eq!(greedy[0].len(), 500);
        assert!(greedy.iter().all(|parts| !parts.is_empty()));
        let late = all_it_can_get(&pool.share());
        assert!(!late.is_empty(), "{pool:?}");
        drop((greedy, late));
        assert_eq!(*pool.free(), 1_000);
    }

    #[test]
    fn a_client_has_a_limit_of_its_own() {
        let pool = Pool::new(1_000, 16);
        let share = pool.share();
        let parts = all_it_can_get(&share);
        assert_eq!(parts.len(), 16);
        assert!(share.take(2).is_none());
        drop(parts);
        assert!(share.take(2).is_some());
    }

    #[tokio::test]
    async fn those_who_wait_are_served_and_no_more_wait_than_may() {
        let pool = Pool::new(4, 1);
        let share = pool.share();
        let first = share.take(1).unwrap();
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                tokio::spawn({
                    let share = share.clone();
                    async move { share.wait(3).await.map(drop) }
                })
            })
            .collect();
        while share.waiting.load(Relaxed) < 3 {
            tokio::task::yield_now().await;
        }
        assert!(matches!(share.wait(3).await, Err(TooMany)));
        assert!(pool.share().wait(3).await.is_ok(), "another client does not wait behind them");
        drop(first);
        for task in tasks {
            assert_eq!(task.await.unwrap(), Ok(()));
        }
        assert_eq!((share.waiting.load(Relaxed), *pool.free()), (0, 4));
    }
}
