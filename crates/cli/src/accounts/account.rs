//! An account while its server runs: all its clients count against the same terms.

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use serde::Serialize;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use super::{
    AccountId, Name, Over, Record, Terms, Usage, now,
    pace::{Pace, piece},
};

/// The longest wait for an end that is known: the clock may be set meanwhile.
const CLOCK_MAY_BE_SET: Duration = Duration::from_secs(60);

/// An account.
#[derive(Debug)]
pub struct Account {
    id: AccountId,
    name: Name,
    standing: watch::Sender<Standing>,
    up: Way,
    down: Way,
    /// Told when a byte passes that the quota does not cover.
    used_up: Notify,
    /// What of the usage is in the store.
    stored: Mutex<Usage>,
    clients: AtomicUsize,
    packets_dropped: AtomicU64,
}

/// Which way bytes pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client to other hosts.
    Up,
    /// From other hosts to the client.
    Down,
}

/// A client of an account; dropping this says that it is gone.
#[derive(Debug)]
pub(crate) struct Present(Arc<Account>);

/// An account as `/stats` shows it, and `/metrics`.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) clients: usize,
    pub(crate) up_bytes: u64,
    pub(crate) down_bytes: u64,
    pub(crate) packets_dropped: u64,
}

impl Row {
    /// Adds what another with the same name has, or what several without one have.
    pub(crate) fn take_in(&mut self, other: &Self) {
        self.clients += other.clients;
        self.up_bytes += other.up_bytes;
        self.down_bytes += other.down_bytes;
        self.packets_dropped += other.packets_dropped;
    }
}

#[derive(Debug)]
struct Standing {
    terms: Terms,
    revoked: bool,
}

#[derive(Debug, Default)]
struct Way {
    /// What has passed since the account was made.
    passed: AtomicU64,
    pace: Mutex<Pace>,
}

impl Account {
    pub(super) fn new(record: &Record) -> Arc<Self> {
        let standing = Standing { terms: record.terms.clone(), revoked: record.revoked.is_some() };
        Arc::new(Self {
            id: record.id,
            name: record.name.clone(),
            standing: watch::Sender::new(standing),
            up: Way { passed: record.usage.up.into(), ..Way::default() },
            down: Way { passed: record.usage.down.into(), ..Way::default() },
            used_up: Notify::new(),
            stored: Mutex::new(record.usage),
            clients: AtomicUsize::new(0),
            packets_dropped: AtomicU64::new(0),
        })
    }

    /// Without limits, for tests of what clients do.
    #[cfg(test)]
    pub(crate) fn unlimited() -> Arc<Self> {
        Self::on(Terms::default())
    }

    /// On these terms, for the same.
    #[cfg(test)]
    pub(crate) fn on(terms: Terms) -> Arc<Self> {
        Self::new(&tests::record(terms))
    }

    /// Its id.
    pub fn id(&self) -> AccountId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// What it has used, whether stored or not.
    pub fn usage(&self) -> Usage {
        Usage { up: self.up.passed.load(Relaxed), down: self.down.passed.load(Relaxed) }
    }

    /// Whether it may connect to `ip`, as far as its own terms say.
    pub fn allows(&self, ip: IpAddr) -> bool {
        self.standing.borrow().terms.allows(ip)
    }

    /// Why it may not be used at this moment; `None` if it may.
    pub fn over_now(&self) -> Option<Over> {
        self.over_at(now())
    }

    pub(super) fn over_at(&self, now: SystemTime) -> Option<Over> {
        let standing = self.standing.borrow();
        let revoked = standing.revoked.then_some(Over::Revoked);
        revoked.or_else(|| standing.terms.over(self.usage().sum(), now))
    }

    /// Returns once it may not be used any more, and why.
    pub async fn over(&self) -> Over {
        let mut standing = self.standing.subscribe();
        loop {
            // Before the look, so that nothing is missed meanwhile.
            let used_up = self.used_up.notified();
            let expires = standing.borrow_and_update().terms.expires;
            let now = now();
            if let Some(over) = self.over_at(now) {
                return over;
            }
            let left = expires.map(|end| end.duration_since(now).unwrap_or_default().min(CLOCK_MAY_BE_SET));
            let expiry = async {
                match left {
                    Some(left) => tokio::time::sleep_until(Instant::now() + left).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = standing.changed() => {}
                () = used_up => {}
                () = expiry => {}
            }
        }
    }

    /// Counts a client of it for as long as the answer is kept.
    pub(crate) fn enter(self: &Arc<Self>) -> Present {
        self.clients.fetch_add(1, Relaxed);
        Present(self.clone())
    }

    /// How many bytes of a stream may pass in one piece.
    pub(super) fn piece(&self) -> usize {
        self.standing.borrow().terms.rate.map_or(usize::MAX, piece)
    }

    /// Counts bytes of a stream that have passed, and returns for how long it must wait now.
    pub(super) fn passed(&self, direction: Direction, bytes: usize) -> Duration {
        let rate = self.count(direction, bytes);
        let pace = |rate| self.way(direction).pace().stream(bytes, rate, Instant::now());
        rate.map_or(Duration::ZERO, pace)
    }

    /// Counts a packet if it may pass.
    pub(crate) fn passes(&self, direction: Direction, bytes: usize) -> bool {
        let rate = self.standing.borrow().terms.rate;
        let passes = rate.is_none_or(|rate| self.way(direction).pace().packet(bytes, rate, Instant::now()));
        if passes {
            self.count(direction, bytes);
        } else {
            self.packets_dropped.fetch_add(1, Relaxed);
        }
        passes
    }

    /// Counts bytes, and returns the rate at which they may pass.
    fn count(&self, direction: Direction, bytes: usize) -> Option<units::BitRate> {
        self.way(direction).passed.fetch_add(bytes as u64, Relaxed);
        let standing = self.standing.borrow();
        if standing.terms.quota.is_some_and(|quota| quota.get() <= self.usage().sum()) {
            self.used_up.notify_waiters();
        }
        standing.terms.rate
    }

    fn way(&self, direction: Direction) -> &Way {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Takes over what the store says, which others may have changed.
    pub(super) fn update(&self, record: &Record) {
        let mut stored = self.stored();
        // What is not stored yet stays on top of it; counters wrap around below.
        self.up.passed.fetch_add(record.usage.up.wrapping_sub(stored.up), Relaxed);
        self.down.passed.fetch_add(record.usage.down.wrapping_sub(stored.down), Relaxed);
        *stored = record.usage;
        drop(stored);
        let standing = Standing { terms: record.terms.clone(), revoked: record.revoked.is_some() };
        self.standing.send_replace(standing);
    }

    /// What was used and is not stored.
    pub(super) fn unstored(&self) -> Usage {
        let (used, stored) = (self.usage(), *self.stored());
        Usage { up: used.up.wrapping_sub(stored.up), down: used.down.wrapping_sub(stored.down) }
    }

    /// `usage` of what was not stored is stored now.
    pub(super) fn was_stored(&self, usage: Usage) {
        let mut stored = self.stored();
        *stored = Usage { up: stored.up.wrapping_add(usage.up), down: stored.down.wrapping_add(usage.down) };
    }

    fn stored(&self) -> MutexGuard<'_, Usage> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is to show; `None` for an account that nobody has ever used.
    pub(super) fn row(&self) -> Option<Row> {
        let (usage, clients) = (self.usage(), self.clients.load(Relaxed));
        (clients > 0 || usage.sum() > 0).then(|| Row {
            name: self.name.to_string(),
            clients,
            up_bytes: usage.up,
            down_bytes: usage.down,
            packets_dropped: self.packets_dropped.load(Relaxed),
        })
    }
}

impl Way {
    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use units::{BitRate, Bytes};

    use super::*;

    pub(in crate::accounts) fn record(terms: Terms) -> Record {
        Record::new(AccountId([1; 16]), "alice".parse().unwrap(), terms)
    }

    #[tokio::test]
    async fn the_byte_that_fills_the_quota_ends_it() {
        let account = Account::new(&record(Terms { quota: Some(Bytes(100)), ..Terms::default() }));
        account.passed(Direction::Up, 60);
        assert_eq!(account.over_now(), None);
        let over = tokio::spawn({
            let account = account.clone();
            async move { account.over().await }
        });
        tokio::task::yield_now().await;
        assert!(account.passes(Direction::Down, 40));
        assert_eq!(over.await.unwrap(), Over::UsedUp);
        assert_eq!(account.usage(), Usage { up: 60, down: 40 });
    }

    #[tokio::test]
    async fn what_others_change_in_the_store_counts() {
        let mut record = record(Terms::default());
        let account = Account::new(&record);
        account.passed(Direction::Up, 70);
        let unstored = account.unstored();
        assert_eq!(unstored, Usage { up: 70, down: 0 });
        account.was_stored(unstored);
        account.passed(Direction::Up, 5);
        // Somebody reset the usage; what passed since it was stored is still to come.
        record.terms.quota = Some(Bytes(6));
        account.update(&record);
        assert_eq!((account.usage().up, account.unstored().up), (5, 5));
        assert_eq!(account.over_now(), None);
        record.revoked = Some(now());
        account.update(&record);
        assert_eq!(account.over().await, Over::Revoked);
    }

    #[tokio::test]
    async fn an_end_in_time_is_noticed() {
        let terms = Terms { expires: Some(now() + Duration::from_millis(20)), ..Terms::default() };
        assert_eq!(Account::new(&record(terms)).over().await, Over::Expired);
    }

    #[tokio::test]
    async fn packets_that_come_too_fast_are_dropped_and_not_counted() {
        let account = Account::new(&record(Terms { rate: Some(BitRate(8_000)), ..Terms::default() }));
        let passed: u64 = (0..10).map(|_| u64::from(account.passes(Direction::Up, 1_000))).sum();
        assert!(passed < 10);
        let row = account.row().unwrap();
        assert_eq!((row.up_bytes, row.packets_dropped), (1_000 * passed, 10 - passed));
    }
}
