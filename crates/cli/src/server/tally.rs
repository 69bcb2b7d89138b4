//! The books of a server's clients: what their connections have sent and received, for `--admin`
//! and `mendpath status`.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use mendpath::Connection;
use tokio::time::Instant;
use tracing::info;

use super::account_books::{AccountBooks, AccountTotals, LastCounts};
use crate::{
    accounts,
    association::Hub,
    status::{AccountRow, Counters, EventKind, Live, PathRow, PeerRow, Running, Saved, peer},
};

/// The counters of ended connections, and the connections that there are; as many as the server
/// admits.
pub(crate) struct Tally {
    books: Mutex<Books>,
    live: Arc<Live>,
}

#[derive(Default)]
struct Books {
    ended: Sum,
    /// What ended connections of each account used.
    accounts: BTreeMap<Arc<str>, AccountRow>,
    /// The same in more detail, for `/metrics`.
    detailed: AccountBooks,
    /// Numbered in the order of their arrival.
    open: BTreeMap<u64, Client>,
    next: u64,
}

/// Accounts that a look shows, those with the most bytes.
const ACCOUNTS: usize = 40;

/// One that is connected.
struct Client {
    connection: Connection,
    hub: Option<Arc<Hub>>,
    account: Arc<str>,
    since: Instant,
    saved: Saved,
    /// Bytes in both directions at the last look.
    moved: u64,
    /// What its paths had counted when `/metrics` was last asked for.
    counted: LastCounts,
}

/// A connection on the books; dropping this ends its account.
pub(crate) struct Entry {
    tally: Arc<Tally>,
    number: u64,
}

/// What connections add up to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) clients: usize,
    pub(crate) turned_away: u64,
    pub(crate) association_packets_dropped: u64,
    pub(crate) counters: Counters,
    pub(crate) saved: Duration,
}

/// All clients at one moment.
pub(crate) struct Look {
    pub(crate) sum: Sum,
    /// The busiest since the last look, the busiest first.
    pub(crate) busiest: Vec<PeerRow>,
    /// Theirs.
    pub(crate) paths: Vec<PathRow>,
    pub(crate) accounts: Vec<AccountRow>,
}

impl Tally {
    /// Empty books, and where events and traffic are written down.
    pub(crate) fn new(live: Arc<Live>) -> Arc<Self> {
        Arc::new(Self { books: Mutex::default(), live })
    }

    /// What else is written down.
    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// A client had a token, but there was no seat.
    pub(crate) fn turned_away(&self, from: SocketAddr) {
        info!(%from, "client turned away: all seats are taken");
        self.live.journal.note(
            EventKind::Refused,
            format_args!("a client at {} turned away: all seats are taken", from.ip()),
        );
        self.books().ended.turned_away += 1;
    }

    /// Counts a connection of this account, and its associations if it has any, from now on.
    pub(crate) fn enter(
        self: &Arc<Self>,
        connection: &Connection,
        hub: Option<Arc<Hub>>,
        account: &Arc<str>,
    ) -> Entry {
        let mut books = self.books();
        let number = books.next;
        books.next += 1;
        let since = Instant::now();
        let client = Client {
            connection: connection.clone(),
            hub,
            account: account.clone(),
            since,
            saved: Saved::new(since),
            moved: 0,
            counted: LastCounts::default(),
        };
        books.open.insert(number, client);
        Entry { tally: Arc::clone(self), number }
    }

    /// What all connections add up to.
    pub(crate) fn sum(&self) -> Sum {
        let books = self.books();
        let mut sum = books.ended;
        for client in books.open.values() {
            client.add_to(&mut sum);
        }
        sum
    }

    /// What would be cut off if the server ended now.
    pub(super) fn running(&self) -> Running {
        let books = self.books();
        Running { clients: books.open.len(), streams: books.open.values().map(Client::streams).sum() }
    }

    /// A number that has changed whenever packets went through clients' tunnels: nobody sees which of their
    /// connections are open.
    pub(super) fn tunnelled(&self) -> u64 {
        self.books().open.values().filter_map(Client::tunnelled).sum()
    }

    /// Looks at all clients, closely at `clients` of them. What it costs for each of the others is
    /// a copy of its counters, and of its paths' if something was mended.
    pub(crate) fn look(&self, now: Instant, clients: usize) -> Look {
        let mut books = self.books();
        let books = &mut *books;
        let mut look =
            Look { sum: books.ended, busiest: Vec::new(), paths: Vec::new(), accounts: Vec::new() };
        let mut accounts = books.accounts.clone();
        let mut moved = Vec::with_capacity(books.open.len());
        for (number, client) in &mut books.open {
            moved.push((
                client.look(
                    now,
                    &mut look.sum,
                    accounts.entry(client.account.clone()).or_insert_with(|| account(&client.account)),
                ),
                *number,
            ));
        }
        moved.sort_unstable_by(|one, other| other.cmp(one));
        for (_, number) in moved.into_iter().take(clients) {
            books.open[&number].show(number, now, &mut look);
        }
        look.accounts = accounts.into_values().collect();
        // An office has thousands; `mendpath invite list` shows them all.
        look.accounts.sort_by_key(|row| std::cmp::Reverse(row.bytes_sent + row.bytes_received));
        look.accounts.truncate(ACCOUNTS);
        look
    }

    /// What the clients of each account have done, with what the accounts have used.
    pub(crate) fn by_account(&self, used: Vec<accounts::Row>) -> BTreeMap<Arc<str>, AccountTotals> {
        let mut books = self.books();
        let Books { detailed, open, .. } = &mut *books;
        let mut paths = Vec::with_capacity(open.len());
        for client in open.values_mut() {
            paths.push(detailed.look(&client.account, &client.connection, &mut client.counted));
        }
        detailed.used(used);
        let mut shown = detailed.totals();
        for (client, paths) in open.values().zip(paths) {
            let counters = (&client.connection.stats()).into();
            detailed.add_open(&mut shown, &client.account, paths, counters);
        }
        shown
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn account(name: &str) -> AccountRow {
    AccountRow { account: name.to_owned(), ..AccountRow::default() }
}

impl Client {
    /// Its connections and associations. It has a control stream besides, and its tunnel has another.
    fn streams(&self) -> usize {
        let besides = 1 + usize::from(self.tunnelled().is_some());
        self.connection.stream_stats().open.saturating_sub(besides)
    }

    fn tunnelled(&self) -> Option<u64> {
        self.hub.as_ref()?.tunnelled()
    }

    fn add_to(&self, sum: &mut Sum) {
        sum.clients += 1;
        sum.counters += (&self.connection.stats()).into();
        sum.association_packets_dropped += self.hub.as_ref().map_or(0, |hub| hub.dropped());
        sum.saved += self.saved.total();
    }

    /// Adds what the client did, and returns the bytes that it moved since the last look.
    fn look(&mut self, now: Instant, sum: &mut Sum, account: &mut AccountRow) -> u64 {
        let stats = self.connection.stats();
        sum.clients += 1;
        sum.counters += (&stats).into();
        sum.association_packets_dropped += self.hub.as_ref().map_or(0, |hub| hub.dropped());
        sum.saved += self.saved.look_at(now, &self.connection, &stats);
        account.clients += 1;
        account.bytes_sent += stats.bytes_sent;
        account.bytes_received += stats.bytes_received;
        let before = std::mem::replace(&mut self.moved, stats.bytes_sent + stats.bytes_received);
        self.moved - before
    }

    /// Puts it and its paths into view.
    fn show(&self, number: u64, now: Instant, look: &mut Look) {
        let (row, paths) = peer(&self.connection, number, now.duration_since(self.since));
        look.busiest.push(PeerRow { account: self.account.to_string(), ..row });
        look.paths.extend(paths);
    }
}

impl Entry {
    /// The client's number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut books = self.tally.books();
        if let Some(mut client) = books.open.remove(&self.number) {
            client.add_to(&mut books.ended);
            books.ended.clients = 0;
            let stats = client.connection.stats();
            books.detailed.look(&client.account, &client.connection, &mut client.counted);
            books.detailed.ended(&client.account, (&stats).into());
            let ended =
                books.accounts.entry(client.account.clone()).or_insert_with(|| account(&client.account));
            ended.bytes_sent += stats.bytes_sent;
            ended.bytes_received += stats.bytes_received;
        }
    }
}

#[cfg(all(test, feature = "tunnel", target_os = "linux"))]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{
        association::{PacketTunnel, tests::connected},
        protocol::write_frame,
    };

    /// It is open for as long as its client is there: a server with one would drain for the whole of its time.
    #[tokio::test]
    async fn a_tunnel_of_packets_is_no_connection_and_what_goes_through_is_seen() {
        let (client, mut control, server) = connected().await;
        let mut asked = client.open_bi().await.unwrap();
        for send in [&mut control.0, &mut asked.0] {
            write_frame(send, b"x").await.unwrap();
        }
        let _accepted = [server.accept_bi().await.unwrap(), server.accept_bi().await.unwrap()];
        let (tally, hub) = (Tally::new(Arc::new(Live::new(true))), Arc::new(Hub::new(server.clone())));
        let _entry = tally.enter(&server, Some(hub.clone()), &Arc::from("owner"));
        assert_eq!(tally.running(), Running { clients: 1, streams: 1 });
        let tunnel = PacketTunnel::reserve(&hub, 1).expect("there is none");
        assert_eq!((tally.running(), tally.tunnelled()), (Running { clients: 1, streams: 0 }, 0));
        let handing_out = tokio::spawn(async move { hub.run().await });
        client.send_datagram(Bytes::from_static(&[0, 0, 0, 1, 7])).unwrap();
        let comes = async {
            while tally.tunnelled() == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), comes).await.expect("it is seen");
        drop(tunnel);
        assert_eq!(tally.running().streams, 1, "what is open without a tunnel is a connection");
        handing_out.abort();
    }
}
