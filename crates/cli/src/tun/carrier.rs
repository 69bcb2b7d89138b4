//! Carries what comes out of the device: a stream for each TCP connection, associations for UDP.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tracing::{debug, warn};
use tunnel::{Action, Addresses, Config, Dropped, Engine, FlowId, Refusal, raw::remote};

use super::{
    Ends,
    datagrams::{Datagrams, Kind},
    device::Device,
    outside::Outside,
    plan::{DEVICE, DEVICE_V6, PEER, PEER_V6},
    raw::{Opened, Raw},
};
use crate::{
    association::Association,
    client::{Shared, TUN, TunRow, tunnel as streams},
    console::say,
    descriptors,
    failure::{Failure, io_reason},
    protocol::Status,
    server::DNS_PORT,
    socket_options,
    status::Protocol,
    target::Target,
};

/// TCP connections at a time, with those that end; the server grants fewer to a client unless told
/// otherwise. The eighth of it that may be half open is half of that, so that one that is asked for
/// need not wait for those before it.
const MOST_FLOWS: usize = 4_096;
/// Packets read from the device before others get their turn.
const ROUND: usize = 64;
/// How often what has ended is forgotten.
const TIDY: Duration = Duration::from_secs(1);
/// For the kernel's handshake with its own listener, until something seems to keep its packets out.
const HANDSHAKE: Duration = Duration::from_secs(3);

/// How packets are carried.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// The name server that stands behind the device's peer; the server's own when `None`.
    pub(crate) dns: Option<SocketAddr>,
    /// Whether it stands behind every address that programs ask for names.
    pub(crate) all_dns: bool,
    /// Whether it stands behind the addresses of the machine's own name servers, at least.
    pub(crate) own_dns: bool,
}

/// What all tasks share.
pub(crate) struct Carrier {
    pub(super) shared: Arc<Shared>,
    pub(super) device: Arc<Device>,
    /// Where packets go that are carried as they are.
    raw: Option<Raw>,
    engine: Mutex<Engine>,
    /// Who waits for the listener to accept a connection.
    waiting: Mutex<BTreeMap<FlowId, oneshot::Sender<TcpStream>>>,
    datagrams: Datagrams,
    /// Connections that have come to the listener, and whether it was told that none comes.
    accepted: AtomicU64,
    is_shut_told: AtomicBool,
    outside: Outside,
    options: Options,
    started: Instant,
}

impl Carrier {
    /// Takes the ends of a device, and returns what must run to carry its packets; that ends when
    /// the device does. All but questions to the name server are carried as they are where there is
    /// a tunnel for that.
    ///
    /// # Errors
    /// When the ends are not what they should be.
    pub(crate) fn start(
        shared: Arc<Shared>,
        ends: Ends,
        options: Options,
        opened: Option<Opened>,
    ) -> Result<impl Future<Output = Failure> + Send + 'static, Failure> {
        let wrong = |error: io::Error| {
            let next = "Please report this with the output of -vv";
            Failure::new("cannot use the TUN device", io_reason(&error), next)
        };
        let device = Arc::new(Device::new(ends.device).map_err(wrong)?);
        let (mut listeners, mut ports) = (Vec::new(), [0; 2]);
        for (listener, port) in ends.listeners.into_iter().zip(&mut ports) {
            listener.set_nonblocking(true).map_err(wrong)?;
            *port = listener.local_addr().map_err(wrong)?.port();
            listeners.push(TcpListener::from_std(listener).map_err(wrong)?);
        }
        let addresses = |device: IpAddr, peer: IpAddr, listener| Addresses { device, peer, listener };
        let engine = Engine::new(Config {
            v4: addresses(DEVICE.into(), PEER.into(), ports[0]),
            v6: addresses(DEVICE_V6.into(), PEER_V6.into(), ports[1]),
            most_flows: MOST_FLOWS,
        });
        let (raw, keeping) =
            opened.map(|opened| Raw::start(opened, shared.uplink.clone(), device.clone())).unzip();
        let carrier = Arc::new(Self {
            shared,
            device,
            raw,
            engine: Mutex::new(engine),
            waiting: Mutex::default(),
            datagrams: Datagrams::default(),
            accepted: AtomicU64::new(0),
            is_shut_told: AtomicBool::new(false),
            outside: Outside::default(),
            options,
            started: Instant::now(),
        });
        let of = carrier.clone();
        // The first device is the only one.
        let _ = carrier.shared.tun.set(Box::new(move || of.row()));
        Ok(carrier.run(listeners, keeping))
    }

    async fn run(
        self: Arc<Self>,
        listeners: Vec<TcpListener>,
        raw: Option<impl Future<Output = Failure> + Send + 'static>,
    ) -> Failure {
        let mut tasks = JoinSet::new();
        if let Some(raw) = raw {
            tasks.spawn(raw);
        }
        for listener in listeners {
            tasks.spawn(self.clone().accept(listener));
        }
        tasks.spawn(self.clone().tidy());
        tasks.spawn(self.clone().keep_spares());
        tasks.spawn(self.clone().read());
        match tasks.join_next().await {
            Some(Ok(failure)) => failure,
            _ => {
                let next = "Please report this with the output of -vv";
                Failure::new("the tunnel stopped", "a task ended unexpectedly", next)
            }
        }
    }

    /// What became of packets.
    fn row(&self) -> TunRow {
        let counters = self.engine().counters();
        let (udp_sockets, udp_dropped) = self.datagrams.counts();
        TunRow {
            packets: counters.packets,
            bytes: counters.bytes,
            rewritten: counters.rewritten,
            replies: counters.replies,
            asked: counters.asked,
            granted: counters.granted,
            refused: counters.refused,
            forgotten: counters.forgotten,
            flows: counters.flows,
            udp_sockets,
            udp_dropped,
            raw: self.raw.as_ref().map(Raw::row),
            dropped: Dropped::ALL.iter().map(|reason| (reason.name(), counters.dropped(*reason))).collect(),
        }
    }

    fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<FlowId, oneshot::Sender<TcpStream>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> units::Instant {
        units::Instant::ORIGIN + self.started.elapsed().into()
    }

    /// What a program means by an address: the peer's DNS is a name server's.
    pub(super) fn target(&self, remote: SocketAddr) -> Target {
        if !self.asks_for_names(remote) {
            return Target::from_addr(remote);
        }
        self.options.dns.map_or_else(Target::resolver, Target::from_addr)
    }

    /// Whether our name server stands behind an address.
    pub(super) fn asks_for_names(&self, remote: SocketAddr) -> bool {
        let is_name_server = |ip| is_peer(ip) || self.options.own_dns && self.outside.has(ip);
        remote.port() == DNS_PORT && (self.options.all_dns || is_name_server(remote.ip()))
    }

    /// The name server that was asked for.
    pub(super) fn dns(&self) -> Option<SocketAddr> {
        self.options.dns
    }

    async fn read(self: Arc<Self>) -> Failure {
        let mut intake = self.device.intake();
        loop {
            for _ in 0..ROUND {
                if let Err(error) = self.device.read(&mut intake).await {
                    let next = "Start the command again";
                    return Failure::new("cannot read the TUN device", io_reason(&error), next);
                }
                intake.packets().for_each(|packet| self.handle(packet));
            }
            tokio::task::yield_now().await;
        }
    }

    fn handle(self: &Arc<Self>, packet: &mut [u8]) {
        if let Some(raw) = &self.raw
            && !remote(packet).is_some_and(|remote| is_peer(remote.ip()) || self.asks_for_names(remote))
        {
            return raw.carry(packet);
        }
        let action = self.engine().handle(packet, self.now());
        match action {
            Action::Drop(_) => {}
            Action::Write(length) => self.device.write(&packet[..length]),
            Action::Reply(reply) => self.device.write(&reply),
            Action::Connect { id, program, remote } => {
                debug!(%program, %remote, "asks for a connection");
                let (sender, accepted) = oneshot::channel();
                let displaced = self.engine().displaced();
                let mut waiting = self.waiting();
                // Whoever waits for it wakes up.
                displaced.map(|displaced| waiting.remove(&displaced));
                waiting.insert(id, sender);
                drop(waiting);
                tokio::spawn(self.clone().carry(id, remote, accepted));
            }
            Action::Cancel { id, write } => {
                // Whoever waits for it wakes up.
                self.waiting().remove(&id);
                if write > 0 {
                    self.device.write(&packet[..write]);
                }
            }
            Action::Udp(datagram) => {
                let payload = &packet[datagram.payload];
                self.datagrams.send(self, Kind::Udp, datagram.program, datagram.remote, payload);
            }
            Action::Echo(echo) if is_peer(echo.remote.ip()) => {
                if let Some(error) = self.engine().unreachable(packet, Refusal::Prohibited) {
                    self.device.write(&error);
                }
            }
            Action::Echo(echo) => {
                // Its series has an association of its own, whose packets to port 0 are requests.
                let program = SocketAddr::new(echo.program.ip(), echo.identifier);
                let payload = [&echo.sequence.to_be_bytes(), &packet[echo.payload]].concat();
                self.datagrams.send(self, Kind::Echo, program, echo.remote, &payload);
            }
        }
    }

    /// One connection, from the program's wish to its end.
    async fn carry(
        self: Arc<Self>,
        id: FlowId,
        remote: SocketAddr,
        mut accepted: oneshot::Receiver<TcpStream>,
    ) {
        let target = self.target(remote);
        let opened = tokio::select! {
            opened = streams::open(&self.shared, Protocol::Tun, target, &[]) => opened,
            _ = &mut accepted => return debug!(%remote, "given up before it was there"),
        };
        match opened {
            Ok(stream) => {
                let syn = self.engine().grant(id, self.now());
                if let Some(syn) = syn {
                    self.device.write(&syn);
                    if let Some(tcp) = self.arrival(accepted).await {
                        stream.carry(tcp).await;
                    }
                }
            }
            Err(reply) => {
                debug!(%remote, reply.text, "refused");
                let answer = self.engine().refuse(id, refusal(reply.status));
                if let Some(answer) = answer {
                    self.device.write(&answer);
                }
            }
        }
        self.engine().closed(id, self.now());
        self.waiting().remove(&id);
    }

    /// A program's connection once the listener has accepted it; `None` if that will not be.
    ///
    /// A firewall of this machine may take it for one from outside, which nobody would know: the program only
    /// finds that nobody answers.
    async fn arrival(&self, mut accepted: oneshot::Receiver<TcpStream>) -> Option<TcpStream> {
        let before = self.accepted.load(Relaxed);
        if let Ok(accepted) = timeout(HANDSHAKE, &mut accepted).await {
            return accepted.ok();
        }
        if self.accepted.load(Relaxed) == before && !self.is_shut_told.swap(true, Relaxed) {
            say(format_args!(
                "programs' connections do not get in by {TUN}: a firewall of this machine seems to drop them. \
                 Let {PEER} and {PEER_V6} in: `ufw allow in on {TUN} from {PEER}`, or \
                 `firewall-cmd --zone=trusted --add-source={PEER}`"
            ));
        }
        accepted.await.ok()
    }

    /// Takes connections from the kernel's listener.
    async fn accept(self: Arc<Self>, listener: TcpListener) -> Failure {
        loop {
            let accepted = listener.accept().await;
            // One that cannot be taken, for want of open files, has got in as well.
            self.accepted.fetch_add(1, Relaxed);
            match accepted {
                Ok((tcp, from)) => {
                    let id = self.engine().accepted(from, self.now());
                    let waiting = id.and_then(|id| self.waiting().remove(&id));
                    let Some(waiting) = waiting else {
                        debug!(%from, "a connection that nobody waits for");
                        crate::splice::reset(tcp);
                        continue;
                    };
                    socket_options::prepare_program(&tcp);
                    // It may have given up this very moment.
                    let _ = waiting.send(tcp);
                }
                Err(error) => {
                    warn!(%error, "cannot accept");
                    descriptors::tell_of_shortage(&error, "programs' connections wait");
                    crate::backoff::pause(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn tidy(self: Arc<Self>) -> Failure {
        let mut tick = interval(TIDY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let in_vain = self.engine().expire(self.now());
            in_vain.iter().for_each(|id| _ = self.waiting().remove(id));
        }
    }

    /// An association for a program's socket.
    pub(super) async fn association(&self) -> Option<Association> {
        self.datagrams.association(&self.shared.uplink).await
    }

    pub(super) fn udp_found_no_room(&self) {
        self.datagrams.found_no_room();
    }

    pub(super) fn forget_socket(&self, key: (Kind, SocketAddr), number: u64, unsent: u64) {
        self.datagrams.forget(key, number, unsent);
    }

    async fn keep_spares(self: Arc<Self>) -> Failure {
        self.datagrams.keep_spares(&self.shared.uplink).await
    }
}

fn is_peer(ip: IpAddr) -> bool {
    ip == IpAddr::from(PEER) || ip == IpAddr::from(PEER_V6)
}

/// What the server's answer looks like from a program.
fn refusal(status: Status) -> Refusal {
    match status {
        Status::Refused => Refusal::Refused,
        Status::NetworkUnreachable | Status::AddressUnsupported => Refusal::Network,
        Status::Forbidden | Status::TooMany | Status::Unsupported => Refusal::Prohibited,
        _ => Refusal::Host,
    }
}
