//! All accounts of a running server, in memory, and the thread that keeps them in step with the
//! store.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        mpsc::{self, RecvTimeoutError},
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};

use super::{Account, AccountId, Record, Row, Store, StoreError, now};
use crate::{console::say, failure::Failure};

/// How often a server looks for what others changed.
pub const LOOK: Duration = Duration::from_millis(200);
/// How often a server writes down what was used.
pub const FLUSH: Duration = Duration::from_secs(2);
/// How often somebody is told that it cannot.
const COMPLAIN: Duration = Duration::from_secs(60);

/// All accounts.
#[derive(Debug)]
pub struct Accounts {
    by_id: Arc<Map>,
    counted: Mutex<Option<Counted>>,
    keeper: Mutex<Option<Keeper>>,
}

/// How many accounts were in order when they were last counted.
#[derive(Clone, Copy, Debug)]
struct Counted {
    when: Instant,
    all: usize,
    in_order: usize,
}

type Map = RwLock<BTreeMap<AccountId, Arc<Account>>>;

/// The thread that has the store.
#[derive(Debug)]
struct Keeper {
    /// Asks it to look now.
    ask: mpsc::Sender<oneshot::Sender<()>>,
    thread: JoinHandle<()>,
}

impl Accounts {
    /// Takes over the store, in which `owner` is the account of the server's own invitation.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn open(mut store: Store, owner: AccountId) -> Result<Self, Failure> {
        store.ensure_owner(owner)?;
        let by_id = Arc::default();
        learn(&by_id, store.news()?);
        let (ask, asked) = mpsc::channel();
        let thread = std::thread::Builder::new().name("accounts".into()).spawn({
            let by_id = Arc::clone(&by_id);
            move || keep(store, &by_id, &asked)
        });
        let thread = thread.map_err(|error| {
            Failure::new("cannot keep the accounts", error, "Check this user's limit of threads")
        })?;
        Ok(Self { by_id, counted: Mutex::default(), keeper: Mutex::new(Some(Keeper { ask, thread })) })
    }

    /// The account with this id, which a token of this server's has. One that is not known is
    /// looked for in the store: it may have been made a moment ago.
    pub async fn find(&self, id: AccountId) -> Option<Arc<Account>> {
        let known = || read(&self.by_id).get(&id).cloned();
        if let Some(account) = known() {
            return Some(account);
        }
        let (done, looked) = oneshot::channel();
        self.keeper().as_ref()?.ask.send(done).ok()?;
        looked.await.ok()?;
        known()
    }

    /// Those that have been used, by name; one whose name was another's before, which was revoked, together
    /// with that: whoever looks knows names alone.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut by_name: BTreeMap<String, Row> = BTreeMap::new();
        for row in read(&self.by_id).values().filter_map(|account| account.row()) {
            match by_name.entry(row.name.clone()) {
                Entry::Vacant(free) => _ = free.insert(row),
                Entry::Occupied(mut before) => before.get_mut().take_in(&row),
            }
        }
        by_name.into_values().collect()
    }

    /// How many may use the server at the moment. They are counted as often as changes are looked for:
    /// where there are thousands, thousands of clients may come at once.
    pub(crate) fn in_order(&self) -> usize {
        let accounts = read(&self.by_id);
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let all = accounts.len();
        if let Some(last) = counted.filter(|last| last.all == all && last.when.elapsed() < LOOK) {
            return last.in_order;
        }
        let now = now();
        let in_order = accounts.values().filter(|account| account.over_at(now).is_none()).count();
        *counted = Some(Counted { when: Instant::now(), all, in_order });
        in_order
    }

    /// Writes down what was used, and leaves the store. Nobody is let in any more who is not known.
    pub async fn close(&self) {
        let keeper = self.keeper().take();
        if let Some(Keeper { ask, thread }) = keeper {
            drop(ask);
            // It ends once it has written.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }

    fn keeper(&self) -> MutexGuard<'_, Option<Keeper>> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(map: &Map) -> std::sync::RwLockReadGuard<'_, BTreeMap<AccountId, Arc<Account>>> {
    map.read().unwrap_or_else(PoisonError::into_inner)
}

fn learn(by_id: &Map, news: Vec<Record>) {
    if news.is_empty() {
        return;
    }
    let mut accounts = by_id.write().unwrap_or_else(PoisonError::into_inner);
    for record in news {
        match accounts.get(&record.id) {
            Some(account) => account.update(&record),
            None => _ = accounts.insert(record.id, Account::new(&record)),
        }
    }
}

/// Looks and writes until nobody asks any more; then writes once more.
fn keep(mut store: Store, by_id: &Map, asked: &mpsc::Receiver<oneshot::Sender<()>>) {
    let mut complaints = Complaints::default();
    for look in 1_u32.. {
        let asking = asked.recv_timeout(LOOK);
        let is_last = matches!(asking, Err(RecvTimeoutError::Disconnected));
        complaints.judge("cannot read the accounts", store.news().map(|news| learn(by_id, news)));
        if is_last || look.is_multiple_of(LOOKS_PER_FLUSH) {
            complaints.judge("cannot write down what accounts use", flush(&mut store, by_id));
        }
        match asking {
            // Whoever asked may be gone.
            Ok(done) => _ = done.send(()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

const LOOKS_PER_FLUSH: u32 = (FLUSH.as_millis() / LOOK.as_millis()) as u32;

/// Stores what has been used since the last time. What cannot be stored now is still known.
fn flush(store: &mut Store, by_id: &Map) -> Result<(), StoreError> {
    let used: Vec<_> = read(by_id)
        .values()
        .map(|account| (account.clone(), account.unstored()))
        .filter(|(_, usage)| usage.sum() > 0)
        .collect();
    if used.is_empty() {
        return Ok(());
    }
    store.add_usage(used.iter().map(|(account, usage)| (account.id(), *usage)), now())?;
    used.iter().for_each(|(account, usage)| account.was_stored(*usage));
    Ok(())
}

/// Trouble with the store is told from time to time, not five times a second.
#[derive(Default)]
struct Complaints {
    /// Judgements since the last one that was told.
    since: Option<u32>,
}

impl Complaints {
    fn judge(&mut self, tried: &str, done: Result<(), StoreError>) {
        self.since = self.since.map(|since| since + 1).filter(|since| *since < JUDGEMENTS);
        if let Err(error) = done
            && self.since.is_none()
        {
            say(format_args!("{tried}: {error}; trying again"));
            self.since = Some(0);
        }
    }
}

const JUDGEMENTS: u32 = (COMPLAIN.as_millis() / LOOK.as_millis()) as u32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::{Direction, Over, Terms, Usage};

    const OWNER_ID: AccountId = AccountId([0; 16]);

    #[tokio::test]
    async fn what_others_do_takes_effect_while_it_runs() {
        let dir = tempfile::tempdir().unwrap();
        let accounts = Accounts::open(Store::open(dir.path()).unwrap(), OWNER_ID).unwrap();
        assert!(accounts.find(OWNER_ID).await.is_some());
        let alice = Record::new(AccountId([1; 16]), "alice".parse().unwrap(), Terms::default());
        assert!(accounts.find(alice.id).await.is_none());
        let mut operator = Store::open(dir.path()).unwrap();
        operator.add(std::slice::from_ref(&alice)).unwrap();
        let found = accounts.find(alice.id).await.expect("made a moment ago");
        assert_eq!(found.over_now(), None);
        operator.revoke(std::slice::from_ref(&alice.name), now()).unwrap();
        assert_eq!(found.over().await, Over::Revoked);
        accounts.close().await;
    }

    #[tokio::test(start_paused = true)]
    async fn those_in_order_are_counted_from_time_to_time() {
        let dir = tempfile::tempdir().unwrap();
        let accounts = Accounts::open(Store::open(dir.path()).unwrap(), OWNER_ID).unwrap();
        assert_eq!(accounts.in_order(), 1);
        let alice = Record::new(AccountId([1; 16]), "alice".parse().unwrap(), Terms::default());
        let mut operator = Store::open(dir.path()).unwrap();
        operator.add(std::slice::from_ref(&alice)).unwrap();
        let found = accounts.find(alice.id).await.expect("made a moment ago");
        assert_eq!(accounts.in_order(), 2, "one more counts at once");
        operator.revoke(std::slice::from_ref(&alice.name), now()).unwrap();
        assert_eq!(found.over().await, Over::Revoked);
        assert_eq!(accounts.in_order(), 2, "as it was a moment ago");
        tokio::time::advance(LOOK).await;
        assert_eq!(accounts.in_order(), 1);
        accounts.close().await;
    }

    /// A monitoring system has one series for the name.
    #[tokio::test]
    async fn what_was_used_under_a_name_is_one_row_also_where_the_name_is_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let accounts = Accounts::open(Store::open(dir.path()).unwrap(), OWNER_ID).unwrap();
        let mut operator = Store::open(dir.path()).unwrap();
        // Ids come by chance: the later one may be the smaller.
        for (id, bytes) in [(2, 100), (1, 10)] {
            let alice = Record::new(AccountId([id; 16]), "alice".parse().unwrap(), Terms::default());
            operator.add(std::slice::from_ref(&alice)).unwrap();
            let account = accounts.find(alice.id).await.expect("made a moment ago");
            let _present = (id == 1).then(|| account.enter());
            account.passed(Direction::Up, bytes);
            let rows: Vec<_> =
                accounts.rows().into_iter().map(|row| (row.name, row.up_bytes, row.clients)).collect();
            let all = if id == 1 { 110 } else { 100 };
            assert_eq!(rows, [("alice".to_owned(), all, usize::from(id == 1))]);
            operator.revoke(std::slice::from_ref(&alice.name), now()).unwrap();
        }
        accounts.close().await;
    }

    #[tokio::test]
    async fn usage_is_written_down_at_the_end_and_taken_up_again() {
        let dir = tempfile::tempdir().unwrap();
        for round in 1..=3 {
            let accounts = Accounts::open(Store::open(dir.path()).unwrap(), OWNER_ID).unwrap();
            let owner = accounts.find(OWNER_ID).await.unwrap();
            owner.passed(Direction::Up, 10);
            owner.passed(Direction::Down, 100);
            assert_eq!(owner.usage(), Usage { up: 10 * round, down: 100 * round });
            accounts.close().await;
            assert!(accounts.find(AccountId([9; 16])).await.is_none(), "closed is closed");
        }
    }

    #[tokio::test]
    async fn a_new_secret_makes_a_new_owner() {
        let dir = tempfile::tempdir().unwrap();
        for id in [1, 1, 2] {
            let accounts = Accounts::open(Store::open(dir.path()).unwrap(), AccountId([id; 16])).unwrap();
            accounts.close().await;
        }
        let all = Store::open(dir.path()).unwrap().list().unwrap();
        assert_eq!(all.len(), 2);
        assert!(all.iter().all(|record| record.revoked.is_some() == (record.id == AccountId([1; 16]))));
    }

    /// As from a backup: with it every invitation that it made is good again, its owner's as well.
    #[tokio::test]
    async fn a_secret_that_comes_back_has_its_owner_back() {
        let dir = tempfile::tempdir().unwrap();
        for id in [1, 2, 1] {
            let id = AccountId([id; 16]);
            let accounts = Accounts::open(Store::open(dir.path()).unwrap(), id).unwrap();
            assert_eq!(accounts.find(id).await.unwrap().over_now(), None);
            accounts.close().await;
        }
        let all = Store::open(dir.path()).unwrap().list().unwrap();
        assert_eq!(all.len(), 2);
        assert!(all.iter().all(|record| record.revoked.is_some() == (record.id == AccountId([2; 16]))));
    }
}
