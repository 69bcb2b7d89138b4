//! UDP for a client: one association, its sockets towards other hosts, and what it may hear.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use mendpath::{RecvStream, SendStream};
use tokio::{net::UdpSocket, task::JoinSet, time::Instant};
use tracing::debug;

use super::{
    DNS_PORT, Shared,
    connect::resolve,
    means::Allowance,
    ping::{self, Ping},
    session::refuse,
};
use crate::{
    accounts::Direction,
    association::{Association, Held, Hub, MAX_ASSOCIATIONS},
    protocol::{Packet, Reply, Status, write_frame},
    target::{Host, Target},
};

/// Hosts that one association may hear from, and names whose address it remembers; for one more the one goes
/// that was looked at longest ago.
const MAX_PEERS: usize = 256;
/// Names that one association looks up at a time, and packets that wait for them; more are dropped.
const MAX_LOOKUPS: usize = 8;
const MAX_WAITING: usize = 64;
/// For how long it is remembered that a name has no address.
const FORGIVE: Duration = Duration::from_secs(10);
/// After what time it is looked up again what a name stands for.
const LOOK_UP_AGAIN: Duration = Duration::from_secs(60);
/// How long a permission lasts: addresses may come to this machine later. And how long the name server
/// is the one that it was: a reload may name another.
const CHECK_AGAIN: Duration = Duration::from_secs(1);
/// For how long a name server may owe an answer, until the next question goes to another one. Programs ask
/// again after five seconds, as a rule.
const NO_ANSWER: Duration = Duration::from_secs(3);
/// The longest UDP payload.
const MAX_PAYLOAD: usize = 65_507;

thread_local! {
    /// Where packets arrive. One per thread: thousands of associations would fill gigabytes with a
    /// buffer each.
    static ARRIVAL: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_PAYLOAD]);
}

/// Serves one association from request to end.
pub(super) async fn serve(
    id: u32,
    stream: (SendStream, RecvStream),
    hub: &Arc<Hub>,
    shared: &Arc<Shared>,
    allowance: &Arc<Allowance>,
) {
    let (mut send, receive) = stream;
    let Some(reserved) = Association::reserve(hub, id) else {
        let text = format!("the association's id is in use, or there are {MAX_ASSOCIATIONS}");
        return refuse(send, receive, Reply::new(Status::TooMany, text)).await;
    };
    let _room = match allowance.sockets(2) {
        Ok(room) => room,
        Err(reply) => return refuse(send, receive, reply).await,
    };
    let sockets = match Sockets::bind().await {
        Ok(sockets) => sockets,
        Err(error) => return refuse(send, receive, Reply::new(Status::Failed, error)).await,
    };
    // The answer goes first: the association's stream carries packets afterwards.
    if write_frame(&mut send, &Reply::ok().encode()).await.is_err() {
        return;
    }
    let association = reserved.begin((send, receive));
    relay(association, &sockets, Peers::new(shared, allowance), shared.limits.udp_idle).await;
    debug!(id, "association ended");
}

async fn relay(mut association: Association, sockets: &Sockets, mut peers: Peers, idle: Duration) {
    let mut last_traffic = Instant::now();
    loop {
        let silence = tokio::time::sleep_until(last_traffic + idle);
        let overdue = until(peers.overdue_from());
        let [ping, ping_v6] = sockets.ping.sockets();
        let arrived = tokio::select! {
            packet = association.receive() => {
                let Some(packet) = packet else { return };
                if let Some((packet, address)) = peers.route(packet)
                    && peers.pays(Direction::Up, &packet.packet.payload)
                {
                    sockets.send(&packet.packet.payload, address, &peers.allowance).await;
                    last_traffic = Instant::now();
                }
                continue;
            }
            Some(found) = peers.lookups.join_next() => {
                let Ok((target, address)) = found else { continue };
                for (packet, address) in peers.found(target, address) {
                    if peers.pays(Direction::Up, &packet.packet.payload) {
                        sockets.send(&packet.packet.payload, address, &peers.allowance).await;
                        last_traffic = Instant::now();
                    }
                }
                continue;
            }
            Some(arrived) = receive(sockets.v4.as_ref()) => Some(arrived),
            Some(arrived) = receive(sockets.v6.as_ref()) => Some(arrived),
            Some((message, from)) = receive(ping) => ping::answer(&message, from),
            Some((message, from)) = receive(ping_v6) => ping::answer(&message, from),
            () = overdue => {
                peers.on_overdue();
                continue;
            }
            () = silence => return,
        };
        if let Some((payload, from)) = arrived
            && pass_back(&association, &mut peers, from, payload)
        {
            last_traffic = Instant::now();
        }
    }
}

/// Waits until then; for ever if that is never.
async fn until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// Only hosts that the client has spoken to may answer.
fn pass_back(association: &Association, peers: &mut Peers, from: SocketAddr, payload: Vec<u8>) -> bool {
    let Some(peer) = peers.name_of(from) else { return false };
    peers.on_heard(from);
    if peers.pays(Direction::Down, &payload) {
        let packet = Packet { peer, payload };
        if from.port() == DNS_PORT || packet.peer.is_resolver() {
            association.send_surely(&packet);
        } else {
            association.send(&packet);
        }
    }
    true
}

/// `None` disables the branch, for a family that this machine lacks; errors (an ICMP message about
/// an earlier packet) are skipped.
async fn receive(socket: Option<&UdpSocket>) -> Option<(Vec<u8>, SocketAddr)> {
    let socket = socket?;
    loop {
        if socket.readable().await.is_ok() {
            let arrived = ARRIVAL.with_borrow_mut(|buffer| {
                socket.try_recv_from(buffer).map(|(n, from)| (buffer[..n].to_vec(), from))
            });
            if let Ok(arrived) = arrived {
                return Some(arrived);
            }
        }
        tokio::task::yield_now().await;
    }
}

/// A socket for each address family.
struct Sockets {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    ping: Ping,
}

impl Sockets {
    async fn bind() -> io::Result<Self> {
        let v4 = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await;
        // Without IPv6 the other family still works.
        let v6 = bind_v6_only().ok();
        match (v4, v6) {
            (Err(error), None) => Err(error),
            (v4, v6) => Ok(Self { v4: v4.ok(), v6, ping: Ping::default() }),
        }
    }

    /// Sends a packet; to port 0, which UDP has not, an echo request.
    async fn send(&self, payload: &[u8], to: SocketAddr, allowance: &Allowance) {
        if to.port() == 0 {
            return self.ping.send(payload, to, allowance).await;
        }
        let socket = if to.is_ipv4() { &self.v4 } else { &self.v6 };
        if let Some(socket) = socket
            && let Err(error) = socket.send_to(payload, to).await
        {
            debug!(%to, %error, "cannot send a packet");
        }
    }
}

/// Two sockets, one per family, must not compete for IPv4 packets.
fn bind_v6_only() -> io::Result<UdpSocket> {
    let socket = socket2::Socket::new(socket2::Domain::IPV6, socket2::Type::DGRAM, None)?;
    socket.set_only_v6(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)).into())?;
    UdpSocket::from_std(socket.into())
}

/// Whom an association speaks to.
struct Peers {
    shared: Arc<Shared>,
    allowance: Arc<Allowance>,
    /// What names stand for, and when that was found.
    names: BTreeMap<Target, (Instant, Option<SocketAddr>)>,
    /// The name server that it asks, under the name [`RESOLVER`](crate::protocol::RESOLVER). That
    /// permits nothing else at its address.
    resolver: Option<SocketAddr>,
    /// What that has not answered.
    debt: Option<Debt>,
    /// Who may answer, and when that was checked.
    spoken_to: BTreeMap<IpAddr, Instant>,
    /// Lookups under way; a name server that does not answer holds up nobody but who asked for that
    /// name.
    lookups: JoinSet<(Target, Option<SocketAddr>)>,
    asked: Vec<Target>,
    waiting: Vec<Held<Packet>>,
}

/// A name server owes an answer.
#[derive(Clone, Copy)]
struct Debt {
    since: Instant,
    /// That was too long, and is remembered.
    is_known: bool,
}

impl Peers {
    fn new(shared: &Arc<Shared>, allowance: &Arc<Allowance>) -> Self {
        Self {
            shared: shared.clone(),
            allowance: allowance.clone(),
            names: BTreeMap::new(),
            resolver: None,
            debt: None,
            spoken_to: BTreeMap::new(),
            lookups: JoinSet::new(),
            asked: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// The packet and where to send it; `None` if it has to wait for its name, or must not be sent.
    fn route(&mut self, packet: Held<Packet>) -> Option<(Held<Packet>, SocketAddr)> {
        let target = &packet.packet.peer;
        let lasts = if target.is_resolver() { CHECK_AGAIN } else { LOOK_UP_AGAIN };
        let address = match (&target.host, self.names.get(target)) {
            (Host::Ip(ip), _) => SocketAddr::new(ip.to_canonical(), target.port),
            (_, Some((when, Some(address)))) => {
                let (so_far, is_old) = (*address, when.elapsed() >= lasts);
                let address = if target.is_resolver() { self.one_that_answers(so_far) } else { so_far };
                if is_old && address == so_far {
                    // Until it is known, packets go where they went.
                    self.ask(target, Some(address));
                }
                address
            }
            (_, Some((when, None))) if when.elapsed() < FORGIVE => return None,
            (Host::Name(_), _) => {
                self.look_up(packet);
                return None;
            }
        };
        (target.is_resolver() || self.permits(address.ip())).then_some((packet, address))
    }

    /// The name server for a question: the one so far, or the next where that has owed an answer for too
    /// long. It may be gone, and this machine's own questions go to another then, too.
    fn one_that_answers(&mut self, so_far: SocketAddr) -> SocketAddr {
        let since = self.owes();
        if since.elapsed() < NO_ANSWER {
            return so_far;
        }
        self.allowance.on_silent(so_far, since);
        let servers = self.allowance.name_servers();
        let after = servers.iter().position(|server| *server == so_far).map_or(0, |at| at + 1);
        let Some(next) = servers.get(after).or(servers.first()).copied() else { return so_far };
        self.names.insert(Target::resolver(), (Instant::now(), Some(next)));
        (self.resolver, self.debt) = (Some(next), None);
        self.owes();
        next
    }

    /// The name server is asked. Since when it owes an answer, to this question or to one before.
    fn owes(&mut self) -> Instant {
        self.debt.get_or_insert_with(|| Debt { since: Instant::now(), is_known: false }).since
    }

    /// When the name server has owed an answer for too long, if that is to be remembered then.
    fn overdue_from(&self) -> Option<Instant> {
        self.debt.filter(|debt| !debt.is_known).map(|debt| debt.since + NO_ANSWER)
    }

    /// The name server has owed an answer for too long: the next question may come in another association, as
    /// of a program that asks again from another socket. What it says yet is an answer all the same.
    fn on_overdue(&mut self) {
        let Some(debt) = &mut self.debt else { return };
        debt.is_known = true;
        if let Some(resolver) = self.resolver {
            self.allowance.on_silent(resolver, debt.since);
        }
    }

    /// A host has sent something.
    fn on_heard(&mut self, from: SocketAddr) {
        if self.resolver == Some(from) {
            self.debt = None;
            self.allowance.on_heard(from);
        }
    }

    fn look_up(&mut self, packet: Held<Packet>) {
        if self.ask(&packet.packet.peer, None) && self.waiting.len() < MAX_WAITING {
            self.waiting.push(packet);
        }
    }

    /// Asks what a name stands for, and prefers what it stood for so far: who speaks to one of several
    /// hosts goes on speaking to that. False if too much is asked already.
    fn ask(&mut self, target: &Target, so_far: Option<SocketAddr>) -> bool {
        if self.asked.contains(target) {
            return true;
        }
        if self.asked.len() >= MAX_LOOKUPS {
            return false;
        }
        self.asked.push(target.clone());
        let (shared, allowance, target) = (self.shared.clone(), self.allowance.clone(), target.clone());
        self.lookups.spawn(async move {
            let found = resolve(&target, &shared.destinations, &allowance).await.unwrap_or_default();
            let same = so_far.filter(|address| found.contains(address));
            (target, same.or_else(|| found.first().copied()))
        });
        true
    }

    /// Remembers what a name stands for, and returns the packets that waited for it. If that cannot be
    /// found out any more, it stands for what it stood for.
    fn found(&mut self, target: Target, address: Option<SocketAddr>) -> Vec<(Held<Packet>, SocketAddr)> {
        let address = address.or_else(|| self.names.get(&target).and_then(|(_, so_far)| *so_far));
        make_room(&mut self.names, &target, |(when, _)| *when);
        self.names.insert(target.clone(), (Instant::now(), address));
        if target == Target::resolver() && self.resolver != address {
            // Another owes nothing for the one before.
            (self.resolver, self.debt) = (address, None);
        }
        self.asked.retain(|asked| *asked != target);
        let (ready, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|held| held.packet.peer == target);
        self.waiting = waiting;
        let ready: Vec<_> = ready;
        if target.is_resolver() && address.is_some() && !ready.is_empty() {
            self.owes();
        }
        let permitted = address.filter(|address| target.is_resolver() || self.permits(address.ip()));
        permitted.map_or_else(Vec::new, |address| ready.into_iter().map(|held| (held, address)).collect())
    }

    /// What the client calls a host that may answer.
    fn name_of(&self, from: SocketAddr) -> Option<Target> {
        if self.resolver == Some(from) {
            return Some(Target::resolver());
        }
        self.spoken_to.contains_key(&from.ip()).then(|| Target::from_addr(from))
    }

    /// Whether a packet may pass at its account's rate; if so, it is counted.
    fn pays(&self, direction: Direction, payload: &[u8]) -> bool {
        self.allowance.account().passes(direction, payload.len())
    }

    /// Whether packets may go to `ip`; if so, it may answer.
    fn permits(&mut self, ip: IpAddr) -> bool {
        if self.spoken_to.get(&ip).is_some_and(|checked| checked.elapsed() < CHECK_AGAIN) {
            return true;
        }
        let permitted = self.shared.destinations.check(ip).is_ok() && self.allowance.account().allows(ip);
        if !permitted {
            self.spoken_to.remove(&ip);
            return false;
        }
        make_room(&mut self.spoken_to, &ip, |checked| *checked);
        self.spoken_to.insert(ip, Instant::now());
        true
    }
}

/// Makes room for `key`, unless it has its place: what was `looked` at longest ago goes.
fn make_room<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, key: &K, looked: impl Fn(&V) -> Instant) {
    if map.len() < MAX_PEERS || map.contains_key(key) {
        return;
    }
    let oldest = map.iter().min_by_key(|(_, value)| looked(value)).map(|(key, _)| key.clone());
    if let Some(oldest) = oldest {
        map.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        accounts::{Account, Terms, Usage},
        association::held_for_tests,
        destination::DestinationPolicy::{self, *},
        protocol::RESOLVER,
        server::test_shared,
    };

    fn peers(policy: DestinationPolicy) -> Peers {
        peers_of(policy, Account::unlimited())
    }

    fn peers_of(policy: DestinationPolicy, account: Arc<Account>) -> Peers {
        let shared = Arc::new(test_shared(policy));
        let allowance = Arc::new(shared.means.allowance(account));
        Peers::new(&shared, &allowance)
    }

    fn packet(peer: &str) -> Held<Packet> {
        held_for_tests(Packet { peer: peer.parse().unwrap(), payload: vec![1] })
    }

    fn route(peers: &mut Peers, peer: &str) -> Option<SocketAddr> {
        peers.route(packet(peer)).map(|(_, address)| address)
    }

    async fn look_up(peers: &mut Peers, peer: &str) -> Vec<SocketAddr> {
        assert_eq!(route(peers, peer), None, "it waits");
        let (target, address) = peers.lookups.join_next().await.unwrap().unwrap();
        peers.found(target, address).into_iter().map(|(_, address)| address).collect()
    }

    #[tokio::test]
    async fn forbidden_peers_are_never_spoken_to() {
        let mut peers = peers(PublicOnly);
        assert_eq!(route(&mut peers, "10.0.0.1:53"), None);
        assert_eq!(look_up(&mut peers, "localhost:53").await, []);
        assert_eq!(route(&mut peers, "[::ffff:127.0.0.1]:53"), None);
        assert!(peers.spoken_to.is_empty());
        let public = "1.1.1.1:53";
        assert_eq!(route(&mut peers, public), Some(public.parse().unwrap()));
        assert!(peers.spoken_to.contains_key(&"1.1.1.1".parse().unwrap()));
    }

    #[tokio::test]
    async fn an_account_speaks_to_whom_it_may_and_its_packets_count() {
        let allow = vec!["10.0.0.0/24".parse().unwrap()];
        let account = Account::on(Terms { allow, ..Terms::default() });
        let mut peers = peers_of(AllowPrivate, account.clone());
        assert!(route(&mut peers, "10.0.0.1:53").is_some());
        assert_eq!(route(&mut peers, "10.0.1.1:53"), None);
        assert_eq!(peers.name_of("10.0.1.1:53".parse().unwrap()), None, "nor may it answer");
        assert!(peers.pays(Direction::Up, &[0; 4]) && peers.pays(Direction::Down, &[0; 6]));
        assert_eq!(account.usage(), Usage { up: 4, down: 6 });
    }

    /// The name server is the server's own, and often on this very machine.
    #[tokio::test]
    async fn the_resolver_is_reached_and_nothing_else_at_its_address() {
        let mut peers = peers(PublicOnly);
        let here: SocketAddr = "127.0.0.1:5353".parse().unwrap();
        peers.shared.means.set_names(crate::names::Names::new(&[here]));
        let resolver = format!("{RESOLVER}:53");
        assert_eq!(look_up(&mut peers, &resolver).await, [here]);
        assert_eq!(route(&mut peers, &resolver), Some(here), "it is remembered");
        assert_eq!(peers.name_of(here).unwrap().to_string(), resolver);
        assert_eq!(peers.name_of("127.0.0.1:80".parse().unwrap()), None);
        assert_eq!(route(&mut peers, "127.0.0.1:5353"), None, "by its address it is any host");
        assert_eq!(look_up(&mut peers, &format!("{RESOLVER}:80")).await, [], "DNS and nothing else");
        assert_eq!(peers.name_of(here).unwrap().to_string(), resolver, "it may still answer");
    }

    /// The server may be told another name server while an association lasts.
    #[tokio::test]
    async fn what_a_name_stands_for_is_looked_up_again_and_nothing_waits_for_that() {
        let mut peers = peers(PublicOnly);
        let [before, after]: [SocketAddr; 2] =
            ["127.0.0.1:5353", "127.0.0.1:5354"].map(|address| address.parse().unwrap());
        peers.shared.means.set_names(crate::names::Names::new(&[before]));
        let resolver = format!("{RESOLVER}:53");
        assert_eq!(look_up(&mut peers, &resolver).await, [before]);
        peers.shared.means.set_names(crate::names::Names::new(&[after]));
        peers.names.values_mut().for_each(|(when, _)| *when -= CHECK_AGAIN);
        assert_eq!(route(&mut peers, &resolver), Some(before), "nothing waits");
        let (target, address) = peers.lookups.join_next().await.unwrap().unwrap();
        assert!(peers.found(target.clone(), address).is_empty());
        assert_eq!(peers.overdue_from(), None, "it was never asked");
        assert_eq!(route(&mut peers, &resolver), Some(after));
        assert_eq!(peers.name_of(before), None);
        // Who cannot be asked takes nothing away.
        peers.found(target, None);
        assert_eq!(route(&mut peers, &resolver), Some(after));
    }

    /// Where the server has two name servers, these, and how programs ask for them.
    fn with_two_name_servers() -> (Peers, [SocketAddr; 2], String) {
        let peers = peers(PublicOnly);
        let servers = ["192.0.2.53:53", "192.0.2.54:53"].map(|address| address.parse().unwrap());
        peers.shared.means.set_names(crate::names::Names::new(&servers));
        (peers, servers, format!("{RESOLVER}:53"))
    }

    /// As one of two that is gone; programs know only one name, and ask for that again.
    #[tokio::test(start_paused = true)]
    async fn where_a_name_server_does_not_answer_another_is_asked() {
        let (mut peers, [one, other], resolver) = with_two_name_servers();
        assert_eq!(look_up(&mut peers, &resolver).await, [one]);
        for (heard, asked) in [(false, other), (true, other), (false, one), (false, other)] {
            if heard {
                peers.on_heard(other);
            }
            tokio::time::advance(NO_ANSWER).await;
            assert_eq!(route(&mut peers, &resolver), Some(asked));
            assert_eq!(peers.name_of(asked), Some(Target::resolver()));
            while let Some(found) = peers.lookups.join_next().await {
                let (target, address) = found.unwrap();
                peers.found(target, address);
            }
            assert_eq!(peers.resolver, Some(asked), "also when it was looked up again");
        }
    }

    /// As where a program in Go asks, whose every question comes from a socket of its own.
    #[tokio::test(start_paused = true)]
    async fn that_a_name_server_does_not_answer_shows_without_a_second_question_to_it() {
        let (mut peers, [one, other], resolver) = with_two_name_servers();
        assert_eq!(look_up(&mut peers, &resolver).await, [one]);
        assert_eq!(peers.overdue_from(), Some(Instant::now() + NO_ANSWER));
        tokio::time::advance(NO_ANSWER).await;
        peers.on_overdue();
        assert_eq!(peers.overdue_from(), None, "once is enough");
        let mut next = Peers::new(&peers.shared, &peers.allowance);
        assert_eq!(look_up(&mut next, &resolver).await, [other]);
        assert_eq!(peers.name_of(one), Some(Target::resolver()), "a late answer is one");
        peers.on_heard(one);
        next.on_heard(other);
        assert_eq!((peers.overdue_from(), next.overdue_from()), (None, None));
    }

    #[tokio::test]
    async fn packets_wait_for_their_name_and_hold_up_no_others() {
        let mut peers = peers(AllowPrivate);
        for _ in 0..3 {
            assert_eq!(route(&mut peers, "localhost:53"), None);
        }
        assert!(route(&mut peers, "10.0.0.1:53").is_some(), "another goes at once");
        assert_eq!((peers.lookups.len(), peers.waiting.len()), (1, 3), "one question for three packets");
        let (target, address) = peers.lookups.join_next().await.unwrap().unwrap();
        assert_eq!(peers.found(target, address).len(), 3);
        assert!(route(&mut peers, "localhost:53").is_some(), "its address is remembered");
    }

    /// As where a program asks hundreds of hosts, each of which is to answer.
    #[tokio::test(start_paused = true)]
    async fn who_was_looked_at_longest_ago_makes_room() {
        let mut peers = peers(AllowPrivate);
        let address = |n: u16| SocketAddr::new(Ipv4Addr::from_bits(0x0a00_0000 + u32::from(n)).into(), 1);
        let name = |n: u16| Target { host: Host::Name("a".into()), port: n };
        // The first is looked at again, and one more comes.
        let most = MAX_PEERS as u16;
        for n in (0..most).chain([0, most]) {
            assert!(peers.permits(address(n).ip()));
            peers.found(name(n), None);
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        let forgotten: Vec<u16> = (0..=most).filter(|n| peers.name_of(address(*n)).is_none()).collect();
        assert_eq!(forgotten, [1]);
        let forgotten: Vec<u16> = (0..=most).filter(|n| !peers.names.contains_key(&name(*n))).collect();
        assert_eq!(forgotten, [1]);
    }

    #[tokio::test]
    async fn what_is_remembered_and_what_waits_is_bounded() {
        let mut peers = peers(AllowPrivate);
        for i in 0..1_000u32 {
            route(&mut peers, &format!("{}:1", Ipv4Addr::from_bits(0x0a00_0000 + i)));
            route(&mut peers, &format!("name{i}.invalid:1"));
            route(&mut peers, "name0.invalid:1");
        }
        assert!(peers.spoken_to.len() <= MAX_PEERS);
        assert_eq!((peers.lookups.len(), peers.waiting.len()), (MAX_LOOKUPS, MAX_WAITING));
        for i in 0..1_000u16 {
            let target = Target { host: Host::Name("a".into()), port: i };
            peers.found(target, None);
        }
        assert!(peers.names.len() <= MAX_PEERS);
    }
}
