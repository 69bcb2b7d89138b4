//! Tunnels of packets (`--tunnel`): the server's TUN device, and which client's packets are whose.

mod machine;
mod rivals;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use mendpath::{Connection, RecvStream, SendStream};
use tokio::{sync::mpsc, time::Instant};
use tracing::debug;
use tunnel::raw::{Lease, Leases, addresses, prohibited, wants_a_route};

pub(crate) use self::machine::Machine;
pub use self::machine::Pool;
use super::{Shared, means::Allowance, session::refuse};
use crate::{
    accounts::{AccountId, Direction},
    association::{Hub, PacketTunnel},
    console::say,
    failure::io_reason,
    packet_row::TunnelRow,
    protocol::{Assignment, Coding, Reply, Status, write_frame},
    tun::{
        device::{Device, NewDevice},
        link::{Counts, Guard, Link, MTU, SharedCounts, Verdict},
    },
};

/// Packets for one client that wait for its connection; more are dropped, as routers do.
const WAITING: usize = 1_024;
/// Addresses of clients that are remembered.
const MOST_LEASES: usize = 16_384;
/// Destinations whose permission one client's tunnel remembers, and for how long.
const MOST_CHECKED: usize = 1_024;
const CHECK_AGAIN: Duration = Duration::from_secs(1);

/// Why a machine gets no tunnel.
const RIVAL: &str = "another machine with the same invitation, the same /etc/machine-id and the same host name has it; \
                     change one of those";

/// The same once nothing can be carried any more.
const GONE: &str = "the server's device is gone";

/// Who a client is: its account, and its own name in that.
type Name = (AccountId, [u8; 16]);

/// All tunnels of a server.
pub(crate) struct Tunnels {
    device: Device,
    leases: Mutex<Leases<Name>>,
    clients: Mutex<BTreeMap<u32, Client>>,
    next: AtomicU64,
    books: Mutex<Books>,
    drops: Drops,
    server: (IpAddr, IpAddr),
    /// Somebody has taken the device away.
    is_gone: AtomicBool,
}

/// What became of the packets of all clients: sums that never fall.
#[derive(Default)]
struct Books {
    past: Counts,
    /// Of tunnels that have not ended, by the numbers of their clients; somebody else may have the address.
    present: BTreeMap<u64, SharedCounts>,
}

/// Packets that went nowhere.
#[derive(Debug, Default)]
struct Drops {
    /// From an address that the client has not.
    spoofed: AtomicU64,
    /// To where clients may not go, other clients included.
    forbidden: AtomicU64,
    /// Malformed, or with a route of their own.
    malformed: AtomicU64,
    /// For a client whose connection is too slow.
    full: AtomicU64,
    /// For nobody who is here.
    absent: AtomicU64,
}

struct Client {
    number: u64,
    /// Once it is known.
    connection: Option<Connection>,
    packets: mpsc::Sender<Vec<u8>>,
}

impl Books {
    fn sum(&self) -> Counts {
        let mut sum = self.past;
        self.present.values().for_each(|counts| sum += *lock(counts));
        sum
    }
}

impl Tunnels {
    /// Takes a device that is ready.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub(crate) fn new(device: NewDevice, pool: &Pool) -> std::io::Result<Arc<Self>> {
        let leases = Leases::new(pool.v4.network(), pool.v6.network(), pool.size(), MOST_LEASES);
        let (v4, v6) = leases.server();
        Ok(Arc::new(Self {
            device: Device::new(device)?,
            leases: Mutex::new(leases),
            clients: Mutex::default(),
            next: AtomicU64::new(0),
            books: Mutex::default(),
            drops: Drops::default(),
            server: (v4.into(), v6.into()),
            is_gone: AtomicBool::new(false),
        }))
    }

    /// Hands out packets of the device until it is gone.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut intake = self.device.intake();
        loop {
            if let Err(error) = self.device.read(&mut intake).await {
                let reason = io_reason(&error);
                say(format_args!(
                    "cannot read the TUN device ({reason}): no more tunnels until the server is started again"
                ));
                return self.end();
            }
            intake.packets().for_each(|packet| self.hand_out(packet));
        }
    }

    /// The device is gone: whoever has a tunnel hears that it has ended, and nobody gets another.
    fn end(&self) {
        self.is_gone.store(true, Relaxed);
        lock(&self.clients).clear();
    }

    fn hand_out(&self, packet: &[u8]) {
        let Ok(ends) = addresses(packet) else { return count(&self.drops.malformed) };
        let Some(index) = lock(&self.leases).index_of(ends.destination) else {
            return count(&self.drops.absent);
        };
        match lock(&self.clients).get(&index) {
            Some(client) => {
                if client.packets.try_send(packet[..ends.end].to_vec()).is_err() {
                    count(&self.drops.full);
                }
            }
            None => count(&self.drops.absent),
        }
    }

    /// What became of packets so far.
    pub(crate) fn row(&self) -> TunnelRow {
        let (counts, clients) = (lock(&self.books).sum(), lock(&self.clients).len());
        let Drops { spoofed, forbidden, malformed, full, absent } = &self.drops;
        let dropped = [
            ("spoofed", spoofed),
            ("forbidden", forbidden),
            ("malformed", malformed),
            ("full", full),
            ("absent", absent),
        ];
        let dropped = dropped.map(|(name, count)| (name, count.load(Relaxed)));
        let addresses = lock(&self.leases).len();
        TunnelRow { clients, addresses, packets: counts.row(), dropped: dropped.into() }
    }

    /// Gives a client its addresses; whoever had them under the same name is gone.
    ///
    /// # Errors
    /// Why it gets none, for people.
    fn enter(
        self: &Arc<Self>,
        name: Name,
        wanted: u32,
    ) -> Result<(Seat, mpsc::Receiver<Vec<u8>>), &'static str> {
        let lease = lock(&self.leases).enter(name, hash(&name), wanted).ok_or("all addresses are in use")?;
        let (packets, from_device) = mpsc::channel(WAITING);
        let (number, counts) = (self.next.fetch_add(1, Relaxed), SharedCounts::default());
        lock(&self.books).present.insert(number, counts.clone());
        let client = Client { number, connection: None, packets };
        if lock(&self.clients).insert(lease.index, client).is_some() {
            debug!(address = %lease.v4, "a client is here anew");
        }
        let seat = Seat { tunnels: self.clone(), lease, number, counts };
        // Who is there by now would not be sent away any more.
        if self.is_gone.load(Relaxed) { Err(GONE) } else { Ok((seat, from_device)) }
    }

    /// The connection of whoever is here under that name.
    fn present(&self, name: &Name) -> Option<Connection> {
        let index = lock(&self.leases).place_of(name)?;
        lock(&self.clients).get(&index)?.connection.clone()
    }
}

/// A client's place; dropping this leaves it.
struct Seat {
    tunnels: Arc<Tunnels>,
    lease: Lease,
    number: u64,
    counts: SharedCounts,
}

impl Seat {
    /// Says whose it is, for others who come with the same name.
    fn is_of(&self, connection: &Connection) {
        if let Some(client) = lock(&self.tunnels.clients).get_mut(&self.lease.index)
            && client.number == self.number
        {
            client.connection = Some(connection.clone());
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut clients = lock(&self.tunnels.clients);
        if clients.get(&self.lease.index).is_some_and(|client| client.number == self.number) {
            clients.remove(&self.lease.index);
        }
        drop(clients);
        let mut books = lock(&self.tunnels.books);
        books.present.remove(&self.number);
        books.past += *lock(&self.counts);
        drop(books);
        lock(&self.tunnels.leases).leave(self.lease.index);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Leads to a place in the pool, the same after every start.
fn hash(name: &Name) -> u64 {
    let text = [&name.0.0[..], &name.1].concat();
    let digest = ring::digest::digest(&ring::digest::SHA256, &text);
    u64::from_be_bytes(*digest.as_ref().first_chunk().expect("32 bytes"))
}

/// What a client asked for.
pub(super) struct Wanted {
    pub(super) id: u32,
    pub(super) name: [u8; 16],
    pub(super) index: u32,
    pub(super) coding: Coding,
}

/// Serves one tunnel from request to end.
pub(super) async fn serve(
    wanted: Wanted,
    connection: &Connection,
    (mut send, receive): (SendStream, RecvStream),
    hub: &Arc<Hub>,
    shared: &Arc<Shared>,
    allowance: &Arc<Allowance>,
) {
    let Some(tunnels) = shared.tunnels.get() else {
        let text = "this server offers no tunnel of packets";
        return refuse(send, receive, Reply::new(Status::Unsupported, text)).await;
    };
    let Some(reserved) = PacketTunnel::reserve(hub, wanted.id) else {
        let text = "the id is in use, or there is a tunnel";
        return refuse(send, receive, Reply::new(Status::TooMany, text)).await;
    };
    let name = (allowance.account().id(), wanted.name);
    // Who had one before goes on with it, be it over another connection.
    if wanted.index == 0
        && let Some(present) = tunnels.present(&name)
        && rivals::answers(&present).await
    {
        return refuse(send, receive, Reply::new(Status::TooMany, RIVAL)).await;
    }
    let (seat, mut packets) = match tunnels.enter(name, wanted.index) {
        Ok(entered) => entered,
        Err(text) => return refuse(send, receive, Reply::new(Status::TooMany, text)).await,
    };
    seat.is_of(connection);
    let Lease { index, v4, v6 } = seat.lease;
    let assignment = Assignment { index, v4, v6, mtu: MTU };
    let told = async {
        write_frame(&mut send, &Reply::ok().encode()).await?;
        write_frame(&mut send, &assignment.encode()).await
    };
    if told.await.is_err() {
        return;
    }
    debug!(%v4, coding = ?wanted.coding, "a tunnel of packets begins");
    let guard = Member {
        v4: v4.into(),
        v6: v6.into(),
        shared: shared.clone(),
        tunnels: tunnels.clone(),
        allowance: allowance.clone(),
        checked: BTreeMap::new(),
    };
    let tunnel = reserved.begin((send, receive));
    let coding = wanted.coding.into();
    Link::new(tunnel, coding, &tunnels.device, guard, seat.counts.clone()).run(&mut packets).await;
    debug!(%v4, "a tunnel of packets ended");
}

/// What one client may send, and get.
struct Member {
    v4: IpAddr,
    v6: IpAddr,
    shared: Arc<Shared>,
    tunnels: Arc<Tunnels>,
    allowance: Arc<Allowance>,
    /// Where it may go, and when that was found.
    checked: BTreeMap<IpAddr, (Instant, bool)>,
}

impl Member {
    fn permits(&mut self, ip: IpAddr) -> bool {
        if let Some((when, permitted)) = self.checked.get(&ip)
            && when.elapsed() < CHECK_AGAIN
        {
            return *permitted;
        }
        // Other clients are nobody's business, whatever the policy says of private addresses; nor
        // is the device.
        let permitted = !lock(&self.tunnels.leases).contains(ip)
            && self.shared.destinations.check(ip).is_ok()
            && self.allowance.account().allows(ip);
        if self.checked.len() >= MOST_CHECKED {
            self.checked.clear();
        }
        self.checked.insert(ip, (Instant::now(), permitted));
        permitted
    }
}

impl Guard for Member {
    fn may_leave(&mut self, packet: &[u8]) -> bool {
        self.allowance.account().passes(Direction::Down, packet.len())
    }

    fn judge(&mut self, packet: &[u8]) -> Verdict {
        let drops = &self.tunnels.drops;
        let Some(ends) = addresses(packet).ok().filter(|ends| ends.end == packet.len()) else {
            count(&drops.malformed);
            return Verdict::Drop;
        };
        if ends.source != self.v4 && ends.source != self.v6 {
            count(&drops.spoofed);
            return Verdict::Drop;
        }
        if wants_a_route(packet) {
            count(&drops.malformed);
            return Verdict::Drop;
        }
        if !self.permits(ends.destination) {
            count(&self.tunnels.drops.forbidden);
            let (v4, v6) = self.tunnels.server;
            let router = if ends.source.is_ipv4() { v4 } else { v6 };
            return prohibited(packet, router).map_or(Verdict::Drop, Verdict::Answer);
        }
        let pays = self.allowance.account().passes(Direction::Up, packet.len());
        if pays { Verdict::Pass } else { Verdict::Drop }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;
    use crate::{
        accounts::{Account, Terms, Usage},
        destination::DestinationPolicy::{self, *},
        server::test_shared,
    };

    /// Tunnels on a socket in the place of a device, and its other end.
    fn tunnels() -> (Arc<Tunnels>, UnixDatagram) {
        let (device, other) = NewDevice::for_test();
        (Tunnels::new(device, &Pool::default()).unwrap(), other)
    }

    fn name(n: u8) -> Name {
        (AccountId([1; 16]), [n; 16])
    }

    fn member(tunnels: &Arc<Tunnels>, policy: DestinationPolicy) -> (Member, Seat) {
        member_of(tunnels, policy, Account::unlimited())
    }

    fn member_of(tunnels: &Arc<Tunnels>, policy: DestinationPolicy, account: Arc<Account>) -> (Member, Seat) {
        let (seat, _) = tunnels.enter(name(1), 0).unwrap();
        let shared = Arc::new(test_shared(policy));
        let allowance = Arc::new(shared.means.allowance(account));
        let (v4, v6) = (seat.lease.v4.into(), seat.lease.v6.into());
        (Member { v4, v6, shared, tunnels: tunnels.clone(), allowance, checked: BTreeMap::new() }, seat)
    }

    /// An empty packet of a protocol for experiments (RFC 3692).
    fn packet(from: IpAddr, to: &str) -> Vec<u8> {
        match (from, to.parse().unwrap()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let head = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0];
                [&head[..], &from.octets(), &to.octets()].concat()
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let head = [0x60, 0, 0, 0, 0, 0, 253, 64];
                [&head[..], &from.octets(), &to.octets()].concat()
            }
            other => panic!("{other:?}"),
        }
    }

    fn dropped(tunnels: &Tunnels, reason: &str) -> u64 {
        tunnels.row().dropped[reason]
    }

    #[tokio::test]
    async fn a_client_sends_from_its_own_addresses_alone() {
        let (tunnels, _other) = tunnels();
        let (mut member, seat) = member(&tunnels, PublicOnly);
        let (v4, v6) = (member.v4, member.v6);
        assert!(matches!(member.judge(&packet(v4, "1.1.1.1")), Verdict::Pass));
        assert!(matches!(member.judge(&packet(v6, "2606:4700::1")), Verdict::Pass));
        let next = std::net::Ipv4Addr::from_bits(seat.lease.v4.to_bits() + 1);
        for strange in [next.into(), "1.1.1.1".parse().unwrap(), "127.0.0.1".parse().unwrap()] {
            assert!(matches!(member.judge(&packet(strange, "1.1.1.1")), Verdict::Drop));
        }
        assert_eq!(dropped(&tunnels, "spoofed"), 3);
        for nonsense in
            [&[][..], &[0x45], &packet(v4, "1.1.1.1")[..19], &[packet(v4, "1.1.1.1"), vec![0]].concat()]
        {
            assert!(matches!(member.judge(nonsense), Verdict::Drop));
        }
        let mut routed = packet(v4, "1.1.1.1");
        (routed[0], routed[3]) = (0x46, 24);
        routed.extend([131, 4, 4, 0]);
        assert!(matches!(member.judge(&routed), Verdict::Drop), "whoever it names would get it");
        let mut hidden = packet(v6, "2606:4700::1");
        (hidden[5], hidden[6]) = (16, 44);
        hidden.extend([43, 0, 0, 1, 0, 0, 0, 0, 59, 0, 0, 0, 0, 0, 0, 0]);
        assert!(matches!(member.judge(&hidden), Verdict::Drop), "the same in a first fragment");
        assert_eq!(dropped(&tunnels, "malformed"), 6);
    }

    #[tokio::test]
    async fn private_hosts_and_other_clients_are_out_of_reach() {
        let (tunnels, _other) = tunnels();
        let (mut strict, _seat) = member(&tunnels, PublicOnly);
        let from = strict.v4;
        for private in ["10.0.0.1", "127.0.0.1", "169.254.169.254", "198.19.0.1"] {
            let Verdict::Answer(answer) = strict.judge(&packet(from, private)) else { panic!("{private}") };
            assert_eq!(addresses(&answer).unwrap().destination, from);
        }
        for many in ["224.0.0.1", "255.255.255.255"] {
            assert!(matches!(strict.judge(&packet(from, many)), Verdict::Drop), "{many}");
        }
        assert_eq!(dropped(&tunnels, "forbidden"), 6);
        let (mut lax, _seat) = member(&tunnels, AllowPrivate);
        assert!(matches!(lax.judge(&packet(from, "10.0.0.1")), Verdict::Pass));
        for other in ["198.19.0.1", "198.19.7.7", "198.19.255.255"] {
            assert!(matches!(lax.judge(&packet(from, other)), Verdict::Answer(_)), "{other}");
        }
        for n in 0..2 * MOST_CHECKED as u32 {
            let to = std::net::Ipv4Addr::from_bits(0x0101_0000 + n).to_string();
            strict.judge(&packet(from, &to));
            assert!(strict.checked.len() <= MOST_CHECKED);
        }
    }

    #[tokio::test]
    async fn packets_of_an_account_go_where_it_may_and_count() {
        let (tunnels, _other) = tunnels();
        let allow = vec!["10.0.0.0/24".parse().unwrap()];
        let account = Account::on(Terms { allow, ..Terms::default() });
        let (mut member, _seat) = member_of(&tunnels, AllowPrivate, account.clone());
        let from = member.v4;
        assert!(matches!(member.judge(&packet(from, "10.0.0.1")), Verdict::Pass));
        assert!(matches!(member.judge(&packet(from, "10.0.1.1")), Verdict::Answer(_)));
        assert_eq!(dropped(&tunnels, "forbidden"), 1);
        assert!(member.may_leave(&packet("10.0.0.1".parse().unwrap(), "198.19.0.1")));
        assert_eq!(account.usage(), Usage { up: 20, down: 20 });
    }

    #[tokio::test]
    async fn packets_for_a_client_wait_within_bounds_and_for_nobody_go_nowhere() {
        let (tunnels, _other) = tunnels();
        let (seat, mut packets) = tunnels.enter(name(1), 0).unwrap();
        let to = seat.lease.v4.to_string();
        let from = "1.1.1.1".parse().unwrap();
        for _ in 0..WAITING + 7 {
            tunnels.hand_out(&packet(from, &to));
        }
        assert_eq!(dropped(&tunnels, "full"), 7);
        assert_eq!(packets.recv().await.unwrap(), packet(from, &to));
        tunnels.hand_out(&packet(from, "198.19.255.254"));
        tunnels.hand_out(&packet(from, "1.1.1.1"));
        tunnels.hand_out(&[]);
        assert_eq!((dropped(&tunnels, "absent"), dropped(&tunnels, "malformed")), (2, 1));

        // The same client again, before anybody has noticed that the old connection is gone.
        let (again, mut newer) = tunnels.enter(name(1), 0).unwrap();
        assert_eq!(again.lease, seat.lease);
        drop(seat);
        tunnels.hand_out(&packet(from, &to));
        assert!(newer.try_recv().is_ok(), "the new one has them");
        assert_eq!((tunnels.row().clients, tunnels.row().addresses), (1, 1));
        drop(again);
        tunnels.hand_out(&packet(from, &to));
        assert_eq!((tunnels.row().clients, dropped(&tunnels, "absent")), (0, 3));
    }

    #[tokio::test]
    async fn what_was_counted_stays_whoever_has_the_address() {
        let (tunnels, _other) = tunnels();
        let (seat, _packets) = tunnels.enter(name(1), 0).unwrap();
        lock(&seat.counts).large = 5;
        let (again, _packets) = tunnels.enter(name(1), 0).unwrap();
        assert_eq!(tunnels.row().packets.large, 5, "its end is still to come");
        lock(&again.counts).large = 2;
        lock(&seat.counts).large = 6;
        drop(seat);
        assert_eq!(tunnels.row().packets.large, 8);
        drop(again);
        assert_eq!(tunnels.row().packets.large, 8);
        assert!(lock(&tunnels.books).present.is_empty());
    }

    #[tokio::test]
    async fn a_full_pool_turns_the_next_away_until_somebody_leaves() {
        let (device, _other) = NewDevice::for_test();
        let pool = Pool { v4: "10.9.0.0/29".parse().unwrap(), ..Pool::default() };
        let tunnels = Tunnels::new(device, &pool).unwrap();
        let mut seats: Vec<Seat> = (0..5).map(|n| tunnels.enter(name(n), 0).unwrap().0).collect();
        assert!(tunnels.enter(name(9), 0).is_err());
        seats.pop();
        assert!(tunnels.enter(name(9), 0).is_ok());
    }

    #[tokio::test]
    async fn without_the_device_tunnels_end_and_none_begins() {
        let (tunnels, _other) = tunnels();
        let (seat, mut packets) = tunnels.enter(name(1), 0).unwrap();
        tunnels.end();
        assert!(packets.recv().await.is_none(), "what carries them ends with that");
        drop(seat);
        assert_eq!(tunnels.enter(name(1), 0).err(), Some(GONE));
        assert_eq!(tunnels.row().clients, 0);
    }
}
