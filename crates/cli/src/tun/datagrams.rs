//! UDP of programs: an association for each of their sockets.
//!
//! To ask for an association takes a round trip, which a question to a name server would feel. Some
//! are therefore kept at hand, for as long as there is UDP at all.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, timeout_at},
};
use tracing::{debug, trace};

use super::carrier::Carrier;
use crate::{
    association::{Association, MAX_ASSOCIATIONS},
    client::{Uplink, associate},
    failure::Failure,
    protocol::Packet,
    server::DNS_PORT,
    target::{Host, Target},
};

/// Packets of one socket that wait for their association; more are dropped.
const WAITING: usize = 64;
/// Associations at hand.
const SPARES: usize = 4;
/// Sockets at a time; the one that was silent longest makes room.
const MOST: usize = MAX_ASSOCIATIONS - SPARES - 4;
/// Without traffic, until an association is given up; the server's own limit is about the same.
const IDLE: Duration = Duration::from_secs(120);
/// The same for a socket that has asked a name server, or a host for an echo, and was answered.
const ANSWERED: Duration = Duration::from_secs(5);
/// The age at which a spare is replaced: before the server gives it up.
const FRESH: Duration = Duration::from_secs(90);
/// Between attempts to get spares when there are none.
const AGAIN: Duration = Duration::from_secs(2);

/// All sockets, and the spares.
#[derive(Default)]
pub(super) struct Datagrams {
    sockets: Mutex<BTreeMap<(Kind, SocketAddr), Socket>>,
    spares: Mutex<Vec<Spare>>,
    /// A spare was taken.
    taken: Notify,
    /// Sockets that ever were.
    count: AtomicU64,
    /// Packets that found no room, or no association.
    dropped: AtomicU64,
}

/// What a program sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// UDP packets.
    Udp,
    /// Echo requests of a series, whose identifier stands for the program's port.
    Echo,
}

/// A program's socket.
struct Socket {
    packets: mpsc::Sender<(SocketAddr, Vec<u8>)>,
    last: Instant,
    number: u64,
}

struct Spare {
    association: Association,
    made: Instant,
}

/// Where answers come from in a program's eyes.
#[derive(Default)]
struct Names {
    /// The address that it asked for names last.
    resolver: Option<SocketAddr>,
    /// Whether all that it did was to ask for names.
    only: bool,
}

impl Datagrams {
    /// Sends a program's packet.
    pub(super) fn send(
        &self,
        carrier: &Arc<Carrier>,
        kind: Kind,
        program: SocketAddr,
        remote: SocketAddr,
        payload: &[u8],
    ) {
        let (key, now) = ((kind, program), Instant::now());
        let mut sockets = lock(&self.sockets);
        let mut item = (remote, payload.to_vec());
        if let Some(socket) = sockets.get_mut(&key) {
            socket.last = now;
            match socket.packets.try_send(item) {
                Ok(()) => return,
                Err(mpsc::error::TrySendError::Full(_)) => {
                    self.dropped.fetch_add(1, Relaxed);
                    return trace!(%program, "too many packets wait");
                }
                Err(mpsc::error::TrySendError::Closed(back)) => item = back,
            }
        }
        let number = self.count.fetch_add(1, Relaxed);
        let (packets, mut to_send) = mpsc::channel(WAITING);
        let _ = packets.try_send(item);
        make_room(&mut sockets, &key);
        sockets.insert(key, Socket { packets, last: now, number });
        let carrier = carrier.clone();
        tokio::spawn(async move {
            serve(&carrier, kind, program, &mut to_send).await;
            carrier.forget_socket(key, number, left_over(&mut to_send));
        });
    }

    /// Sockets at the moment, and packets that found no room, or no association.
    pub(super) fn counts(&self) -> (usize, u64) {
        (lock(&self.sockets).len(), self.dropped.load(Relaxed))
    }

    /// A packet found no room in the connection.
    pub(super) fn found_no_room(&self) {
        self.dropped.fetch_add(1, Relaxed);
    }

    /// A socket has ended, and so many of its packets were never sent.
    pub(super) fn forget(&self, key: (Kind, SocketAddr), number: u64, unsent: u64) {
        self.dropped.fetch_add(unsent, Relaxed);
        let mut sockets = lock(&self.sockets);
        if sockets.get(&key).is_some_and(|socket| socket.number == number) {
            sockets.remove(&key);
        }
    }

    /// A spare of the present connection, or a new association.
    pub(super) async fn association(&self, uplink: &Uplink) -> Option<Association> {
        let hub = uplink.now().map(|session| session.hub);
        let spare = {
            let mut spares = lock(&self.spares);
            spares.retain(|spare| {
                let fresh = spare.made.elapsed() < FRESH + AGAIN;
                fresh && hub.as_ref().is_some_and(|hub| spare.association.is_of(hub))
            });
            (!spares.is_empty()).then(|| spares.remove(0).association)
        };
        self.taken.notify_one();
        match spare {
            Some(association) => Some(association),
            None => associate(uplink).await.inspect_err(|reply| debug!(reply.text, "no association")).ok(),
        }
    }

    /// Keeps some associations at hand; they are replaced for as long as somebody takes any. There are
    /// none while the server is about to stop: it waits for all that is open, and cannot know that nobody
    /// uses them.
    pub(super) async fn keep_spares(&self, uplink: &Uplink) -> Failure {
        let mut wanted_until = Instant::now() + IDLE;
        loop {
            let draining = uplink.is_draining();
            if draining {
                lock(&self.spares).clear();
            }
            tokio::select! {
                () = self.make_spares(uplink, &mut wanted_until), if !draining => {}
                () = uplink.draining_changes(draining) => {}
            }
        }
    }

    /// Makes those that are missing, and waits until one is taken or old.
    async fn make_spares(&self, uplink: &Uplink, wanted_until: &mut Instant) {
        lock(&self.spares).retain(|spare| spare.made.elapsed() < FRESH);
        while Instant::now() < *wanted_until && lock(&self.spares).len() < SPARES {
            match associate(uplink).await {
                Ok(association) => {
                    lock(&self.spares).push(Spare { association, made: Instant::now() });
                }
                Err(reply) => {
                    debug!(reply.text, "no spare association");
                    crate::backoff::pause(AGAIN).await;
                }
            }
        }
        let oldest = lock(&self.spares).first().map_or(Instant::now() + FRESH, |spare| spare.made + FRESH);
        if timeout_at(oldest, self.taken.notified()).await.is_ok() {
            *wanted_until = Instant::now() + IDLE;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many packets wait that nobody will take; no more come.
fn left_over<T>(packets: &mut mpsc::Receiver<T>) -> u64 {
    packets.close();
    std::iter::from_fn(|| packets.try_recv().ok()).count() as u64
}

/// Sends the socket away that was silent longest, if there are as many as there may be and `key` is
/// a new one.
fn make_room(sockets: &mut BTreeMap<(Kind, SocketAddr), Socket>, key: &(Kind, SocketAddr)) {
    if sockets.len() >= MOST && !sockets.contains_key(key) {
        let oldest =
            sockets.iter().min_by_key(|(_, socket)| (socket.last, socket.number)).map(|(key, _)| *key);
        // Its task ends when nobody can send it packets.
        oldest.map(|oldest| sockets.remove(&oldest));
    }
}

/// Moves packets between a program's socket and its association until neither side says anything.
async fn serve(
    carrier: &Carrier,
    kind: Kind,
    program: SocketAddr,
    to_send: &mut mpsc::Receiver<(SocketAddr, Vec<u8>)>,
) {
    let Some(mut association) = carrier.association().await else { return };
    let mut names = Names { resolver: None, only: true };
    let mut until = Instant::now() + IDLE;
    loop {
        tokio::select! {
            packet = to_send.recv() => {
                let Some((remote, payload)) = packet else { return };
                names.asked(remote, carrier.asks_for_names(remote));
                let packet = Packet { peer: carrier.target(remote), payload };
                let is_question = remote.port() == DNS_PORT;
                let went = if is_question { association.send_surely(&packet) } else { association.send(&packet) };
                if !went {
                    carrier.udp_found_no_room();
                }
                until = Instant::now() + IDLE;
            }
            packet = association.receive() => {
                let Some(packet) = packet else { return };
                let Some(from) = names.source(&packet.packet.peer, carrier.dns()) else { continue };
                if let Some(packet) = kind.packet(from, program, &packet.packet.payload) {
                    carrier.device.write(&packet);
                }
                let short = names.only || kind == Kind::Echo;
                until = Instant::now() + if short { ANSWERED } else { IDLE };
            }
            () = tokio::time::sleep_until(until) => return,
        }
    }
}

impl Kind {
    /// What a program is to get.
    fn packet(self, from: SocketAddr, program: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Udp if from.port() == 0 => None,
            Self::Udp => tunnel::udp(from, program, payload),
            Self::Echo => {
                let (sequence, data) = payload.split_first_chunk()?;
                let sequence = u16::from_be_bytes(*sequence);
                tunnel::echo_reply(from.ip(), program.ip(), program.port(), sequence, data)
            }
        }
    }
}

impl Names {
    fn asked(&mut self, remote: SocketAddr, for_names: bool) {
        self.only &= remote.port() == DNS_PORT;
        if for_names {
            self.resolver = Some(remote);
        }
    }

    /// Who has sent a packet, in the program's eyes: what stands behind the device's peer is the
    /// peer.
    fn source(&self, peer: &Target, dns: Option<SocketAddr>) -> Option<SocketAddr> {
        let Host::Ip(ip) = peer.host else { return self.resolver };
        let from = SocketAddr::new(ip.to_canonical(), peer.port);
        if dns == Some(from) { self.resolver.or(dns) } else { Some(from) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        association::tests::connected,
        protocol::{MAX_MESSAGE, Reply, read_frame, write_frame},
    };

    fn program(n: u16) -> SocketAddr {
        ([198, 18, 0, 1], n).into()
    }

    #[test]
    fn the_socket_that_was_silent_longest_makes_room() {
        let mut sockets = BTreeMap::new();
        let (packets, _to_send) = mpsc::channel(1);
        for n in 0..2_000 {
            let key = (Kind::Udp, program(n));
            make_room(&mut sockets, &key);
            let (packets, last) = (packets.clone(), Instant::now());
            sockets.insert(key, Socket { packets, last, number: n.into() });
            assert!(sockets.len() <= MOST);
        }
        assert_eq!(sockets.first_key_value().unwrap().0.1, program(2_000 - MOST as u16));
        let known = (Kind::Udp, program(1_999));
        make_room(&mut sockets, &known);
        assert_eq!(sockets.len(), MOST, "one that is there needs no room");
    }

    #[test]
    fn packets_without_an_association_are_counted() {
        let (packets, mut to_send) = mpsc::channel(WAITING);
        (0..3).for_each(|n| packets.try_send(n).unwrap());
        assert_eq!((left_over(&mut to_send), packets.try_send(3).is_err()), (3, true));
        let datagrams = Datagrams::default();
        datagrams.forget((Kind::Udp, program(1)), 0, 3);
        datagrams.found_no_room();
        assert_eq!(datagrams.counts(), (0, 4));
    }

    /// As on a machine whose programs have nothing to say: a server with such a client waited for the whole
    /// of its `--drain-time`.
    #[tokio::test]
    async fn there_are_no_spares_while_the_server_is_about_to_stop() {
        let (client, _control, server) = connected().await;
        let (uplink, mut drain) = Uplink::over_until_drained(&client);
        let datagrams = Datagrams::default();
        let granting = async {
            let mut granted = tokio::task::JoinSet::new();
            while let Ok((mut send, mut receive)) = server.accept_bi().await {
                granted.spawn(async move {
                    let _ = read_frame(&mut receive, MAX_MESSAGE).await;
                    let _ = write_frame(&mut send, &Reply::ok().encode()).await;
                    // Its end is the association's.
                    let _ = read_frame(&mut receive, MAX_MESSAGE).await;
                });
            }
        };
        let looking = async {
            // The connection has room for four streams, and one is the control stream.
            while lock(&datagrams.spares).len() < SPARES - 1 {
                tokio::task::yield_now().await;
            }
            drain();
            while !lock(&datagrams.spares).is_empty() || server.stream_stats().open > 1 {
                tokio::task::yield_now().await;
            }
        };
        let all = async {
            tokio::select! {
                failure = datagrams.keep_spares(&uplink) => panic!("{failure}"),
                () = granting => panic!("the connection is lost"),
                () = looking => {}
            }
        };
        tokio::time::timeout(Duration::from_secs(60), all).await.expect("they end");
    }

    #[test]
    fn answers_come_from_whom_the_program_asked() {
        let mut names = Names { resolver: None, only: true };
        let (peer, host): (SocketAddr, SocketAddr) =
            ("198.18.0.2:53".parse().unwrap(), "192.0.2.1:9".parse().unwrap());
        names.asked(peer, true);
        let resolver = format!("{}:53", crate::protocol::RESOLVER).parse().unwrap();
        assert_eq!(names.source(&resolver, None), Some(peer));
        let dns = "9.9.9.9:53".parse().unwrap();
        assert_eq!(names.source(&Target::from_addr(dns), Some(dns)), Some(peer), "the one that was given");
        names.asked(host, false);
        assert_eq!(names.source(&Target::from_addr(host), Some(dns)), Some(host));
        assert!(!names.only);
    }

    #[test]
    fn programs_get_what_they_sent_for() {
        let (host, series) = ("192.0.2.1:0".parse().unwrap(), program(77));
        assert!(Kind::Udp.packet(host, series, b"x").is_none(), "UDP has no port 0");
        assert!(Kind::Echo.packet(host, series, &[1]).is_none(), "cut short");
        let reply = Kind::Echo.packet(host, series, &[0, 3, 9]).unwrap();
        assert_eq!(reply[20..], [0, 0, 0xf6, 0xaf, 0, 77, 0, 3, 9]);
    }
}
