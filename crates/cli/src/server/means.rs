//! What the server has for its clients: sockets, and lookups of names under way. Each client gets a
//! share.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use tokio::time::Instant;

use super::shares::{Part, Pool, Share, TooMany};
use crate::{
    accounts::{Account, AccountId},
    console::say,
    names::{LookupError, Names},
    protocol::{Reply, Status},
};

/// Lookups of one client under way at a time; more wait.
const LOOKUPS_EACH: usize = 16;
/// Lookups of one client that may wait; more are refused.
const WAITING_LOOKUPS: usize = 256;
/// Descriptors that a lookup may need: two families, two name servers, three tries.
const PER_LOOKUP: usize = 12;
/// Fewer descriptors leave room for one lookup at a time.
const VERY_FEW: usize = 128;
/// For how long a name server that did not answer comes behind the others.
const SILENT_FOR: Duration = Duration::from_secs(60);
/// Between warnings that sockets are short.
const WARN_AGAIN: Duration = Duration::from_secs(60);

/// For all clients.
pub(super) struct Means {
    names: RwLock<Arc<Names>>,
    /// Name servers that did not answer questions of an account's clients, and when that was found. It is
    /// the account's alone: nobody answers what is no question either.
    silent: Mutex<BTreeMap<(AccountId, SocketAddr), Instant>>,
    lookups: Arc<Pool>,
    sockets: Arc<Pool>,
    /// The limit that the shares derive from, and when somebody was told that it is reached.
    descriptors: usize,
    warned: Mutex<Option<Instant>>,
}

/// For one client.
pub(super) struct Allowance {
    account: Arc<Account>,
    means: Arc<Means>,
    /// When name servers have answered its questions last.
    heard: Mutex<BTreeMap<SocketAddr, Instant>>,
    lookups: Arc<Share>,
    sockets: Arc<Share>,
}

impl Means {
    /// Shares out what `descriptors` open files leave besides the server's own, with `clients` at a
    /// time.
    pub(super) fn new(descriptors: usize, clients: usize, names: Names) -> Arc<Self> {
        // Where there are very few, names wait for each other rather than connections.
        let least = if descriptors < VERY_FEW { 1 } else { 2 };
        let lookups = (descriptors / 8 / PER_LOOKUP).clamp(least, 256);
        // Sockets of paths and listeners, the runtime's, and a trace of each connection.
        let own = 32 + clients.min(descriptors / 8);
        let sockets = descriptors.saturating_sub(own + lookups * PER_LOOKUP).max(2);
        Arc::new(Self {
            names: RwLock::new(Arc::new(names)),
            silent: Mutex::default(),
            lookups: Pool::new(lookups, LOOKUPS_EACH),
            sockets: Pool::new(sockets, sockets),
            descriptors,
            warned: Mutex::default(),
        })
    }

    /// What another client gets, beside what its account says.
    pub(super) fn allowance(self: &Arc<Self>, account: Arc<Account>) -> Allowance {
        let (lookups, sockets) = (self.lookups.share(), self.sockets.share());
        Allowance { account, means: self.clone(), heard: Mutex::default(), lookups, sockets }
    }

    /// From now on names are looked up there.
    pub(super) fn set_names(&self, names: Names) {
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(names);
    }

    fn names(&self) -> Arc<Names> {
        self.names.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn name_servers(&self, account: AccountId) -> Vec<SocketAddr> {
        let mut servers = self.names().servers();
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        servers.sort_by_key(|server| silent.get(&(account, *server)).is_some_and(is_recent));
        servers
    }

    fn on_silent(&self, account: AccountId, name_server: SocketAddr) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.retain(|_, since| is_recent(since));
        silent.insert((account, name_server), Instant::now());
    }

    fn warn(&self) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|when| when.elapsed() >= WARN_AGAIN) {
            *warned = Some(Instant::now());
            say(format_args!(
                "a client has all the connections that it can get of {} open files, and is refused more; raise the limit of open files",
                self.descriptors
            ));
        }
    }
}

fn is_recent(silent_since: &Instant) -> bool {
    silent_since.elapsed() < SILENT_FOR
}

impl Allowance {
    /// Whose client it is.
    pub(super) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Room for `count` sockets towards other hosts, for as long as they are open.
    ///
    /// # Errors
    /// The answer to the client when it has its share.
    pub(super) fn sockets(&self, count: usize) -> Result<Part, Reply> {
        self.spare_sockets(count).ok_or_else(|| {
            self.means.warn();
            Reply::new(Status::TooMany, "this client has as many connections as the server can spare")
        })
    }

    /// The same for what can be done without.
    pub(super) fn spare_sockets(&self, count: usize) -> Option<Part> {
        self.sockets.take(count)
    }

    /// Where this server looks names up; those that did not answer the account lately come last.
    pub(super) fn name_servers(&self) -> Vec<SocketAddr> {
        self.means.name_servers(self.account.id())
    }

    /// One of them has answered.
    pub(super) fn on_heard(&self, name_server: SocketAddr) {
        self.heard().insert(name_server, Instant::now());
    }

    /// One of them has not answered a question of that time for too long. Where it has answered others since
    /// then, it was the question: some types are dropped, instead of refused, by some name servers.
    pub(super) fn on_silent(&self, name_server: SocketAddr, asked: Instant) {
        if self.heard().get(&name_server).is_none_or(|heard| *heard <= asked) {
            self.means.on_silent(self.account.id(), name_server);
        }
    }

    fn heard(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, Instant>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses of a name, those that this machine has a route to first.
    ///
    /// # Errors
    /// The answer to the client when there are none.
    pub(super) async fn lookup(&self, name: &str) -> Result<Vec<std::net::IpAddr>, Reply> {
        let _part = self.lookups.wait(WAITING_LOOKUPS).await.map_err(|TooMany| {
            Reply::new(Status::TooMany, "too many names of this client wait to be looked up")
        })?;
        self.means.names().lookup(name).await.map_err(|error| {
            let status = match error {
                LookupError::NoAddress => Status::NameUnknown,
                LookupError::Late => Status::TimedOut,
                LookupError::Failed(_) => Status::Failed,
            };
            Reply::new(status, format_args!("the name {name} {error}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_has_few_lookups_under_way_and_few_that_wait() {
        let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let means = Means::new(20_000, 256, Names::new(&[silent.local_addr().unwrap()]));
        let greedy = Arc::new(means.allowance(Account::unlimited()));
        let mut tasks = tokio::task::JoinSet::new();
        for i in 0..LOOKUPS_EACH + WAITING_LOOKUPS {
            let greedy = greedy.clone();
            tasks.spawn(async move { greedy.lookup(&format!("name{i}.example.org.")).await });
        }
        while greedy.lookups.used_and_waiting() != (LOOKUPS_EACH, WAITING_LOOKUPS) {
            tokio::task::yield_now().await;
        }
        assert_eq!(greedy.lookup("one-more.example.org.").await.unwrap_err().status, Status::TooMany);
        assert!(
            !means.allowance(Account::unlimited()).lookup("localhost").await.unwrap().is_empty(),
            "others go on"
        );
        tasks.shutdown().await;
        assert_eq!(greedy.lookups.used_and_waiting(), (0, 0), "who is gone asks for nothing");
    }

    /// A program's next question comes from another socket, or over another connection. Who asks what
    /// nobody answers has others' questions go where they went.
    #[tokio::test(start_paused = true)]
    async fn name_servers_that_did_not_answer_an_account_come_last_for_it_for_a_while() {
        let [one, other]: [SocketAddr; 2] =
            ["192.0.2.53:53", "192.0.2.54:53"].map(|address| address.parse().unwrap());
        let means = Means::new(1_024, 256, Names::new(&[one, other]));
        let account = Account::unlimited();
        let [client, another] = [(); 2].map(|()| means.allowance(account.clone()));
        assert_eq!(another.name_servers(), [one, other]);
        let asked = Instant::now();
        tokio::time::advance(Duration::from_millis(20)).await;
        client.on_heard(one);
        client.on_silent(one, asked);
        assert_eq!(another.name_servers(), [one, other], "it has answered another question");
        client.on_silent(one, Instant::now());
        assert_eq!(another.name_servers(), [other, one]);
        assert_ne!(account.id(), AccountId([7; 16]));
        assert_eq!(means.name_servers(AccountId([7; 16])), [one, other]);
        tokio::time::advance(SILENT_FOR).await;
        assert_eq!(another.name_servers(), [one, other]);
    }

    /// As `mendpath run` and `tunnel` need it.
    #[tokio::test]
    async fn sixty_four_descriptors_are_enough_for_datagrams_and_connections() {
        let means = Means::new(64, 256, Names::new(&[]));
        let client = means.allowance(Account::unlimited());
        let room = [client.sockets(2), client.sockets(1), client.sockets(1)];
        assert!(room.iter().all(Result::is_ok), "{room:?}");
    }

    #[tokio::test]
    async fn few_descriptors_are_shared_out_too() {
        for descriptors in [0, 64, 128, 256, 1_024, 20_000, 1 << 20] {
            let means = Means::new(descriptors, 256, Names::new(&[]));
            let (one, other) = (means.allowance(Account::unlimited()), means.allowance(Account::unlimited()));
            let greedy: Vec<_> = std::iter::from_fn(|| one.sockets(1).ok()).collect();
            assert!(!greedy.is_empty() && greedy.len() <= descriptors.max(4) / 2, "{descriptors}");
            assert!(other.sockets(1).is_ok(), "{descriptors}");
            assert_eq!(one.sockets(1).unwrap_err().status, Status::TooMany);
        }
    }
}
