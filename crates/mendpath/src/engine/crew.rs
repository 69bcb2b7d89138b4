//! An endpoint's workers: one engine, or several that share addresses.
//!
//! Each has its own connections, its own sockets and, where there are several, its own thread. What
//! one needs on the way of a packet is its own.

use std::{
    collections::VecDeque,
    io,
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

use proto::VarInt;
use tokio::{runtime::Handle as Runtime, sync::Notify};

use super::{
    CROWDED, Client, Engine,
    migrate::{Left, rebind},
    thread,
};
use crate::{
    ClientConfig, EndpointStats, ServerConfig,
    lock::lock,
    socket::{Socket, UsedBy},
    steer::{GroupError, Steered},
};

/// Clients that may wait to be accepted; more are refused.
const MAX_BACKLOG: usize = 1_024;

/// Where an endpoint's engines run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// On the runtime of who makes the endpoint.
    Callers,
    /// Each on one of its own.
    Own,
}

/// The engines of an endpoint.
pub(crate) struct Crew {
    engines: Box<[Arc<Engine>]>,
    common: Arc<Common>,
    /// Which of them connects next.
    next: AtomicUsize,
    client: Mutex<Option<ClientConfig>>,
    /// How packets find their engine, if there are several.
    steered: Option<Steered>,
}

/// What engines know of each other: nothing that a packet needs on its way.
#[derive(Default)]
pub(super) struct Common {
    engines: OnceLock<Box<[Weak<Engine>]>>,
    door: Mutex<Door>,
    /// A client waits to be accepted, or none ever will.
    incoming: Notify,
    /// The last connection is gone.
    idle: Notify,
    /// Connections of all engines.
    pub(super) open: AtomicUsize,
    /// No handle is left.
    abandoned: AtomicBool,
}

/// Where clients wait for the application.
#[derive(Default)]
struct Door {
    waiting: VecDeque<Client>,
    closed: bool,
}

impl Crew {
    /// Without sockets. Each endpoint without I/O runs on the runtime that this is called on, or on a
    /// thread of its own.
    ///
    /// # Errors
    /// If this is no tokio runtime, or there can be no more threads.
    ///
    /// # Panics
    /// If the engines are to run on a runtime without timers.
    pub(crate) fn new(
        workers: Vec<proto::Endpoint>,
        threads: Threads,
        steered: Option<Steered>,
        client: Option<ClientConfig>,
    ) -> io::Result<Self> {
        let here = Runtime::try_current().map_err(io::Error::other)?;
        if threads == Threads::Callers {
            demand_timers();
        }
        let common = Arc::<Common>::default();
        let start = |(index, proto)| {
            let (runtime, thread) = match threads {
                Threads::Callers => (here.clone(), None),
                Threads::Own => thread::start(index).map(|(runtime, thread)| (runtime, Some(thread)))?,
            };
            Ok(Arc::new(Engine::new(proto, index, runtime, thread, common.clone())))
        };
        let engines = workers.into_iter().enumerate().map(start).collect::<io::Result<Box<[_]>>>()?;
        let _ = common.engines.set(engines.iter().map(Arc::downgrade).collect());
        Ok(Self { engines, common, next: AtomicUsize::new(0), client: Mutex::new(client), steered })
    }

    /// The engine of a client that waits.
    pub(crate) fn of(&self, client: &Client) -> &Arc<Engine> {
        &self.engines[client.worker]
    }

    pub(crate) fn set_client_config(&self, config: ClientConfig) {
        *lock(&self.client) = Some(config);
    }

    pub(crate) fn client_config(&self) -> Option<ClientConfig> {
        lock(&self.client).clone()
    }

    pub(crate) fn set_server_config(&self, config: Option<ServerConfig>) {
        let config = config.map(|config| config.to_proto());
        self.engines.iter().for_each(|engine| engine.lock().proto.set_server_config(config.clone()));
    }

    pub(crate) fn stats(&self) -> EndpointStats {
        let mut sum = EndpointStats::default();
        self.engines.iter().for_each(|engine| sum.add(&engine.lock().proto.stats()));
        sum
    }

    /// Connections, by worker.
    pub(crate) fn connections(&self) -> Vec<usize> {
        self.engines.iter().map(|engine| engine.lock().connections.len()).collect()
    }

    pub(crate) fn open_connections(&self) -> usize {
        self.common.open.load(SeqCst)
    }

    /// Waits until no connection is left.
    pub(crate) async fn wait_idle(&self) {
        loop {
            let idle = self.common.idle.notified();
            if self.open_connections() == 0 {
                return;
            }
            idle.await;
        }
    }

    /// The next client to be decided about; `None` once the endpoint is closed. Cancel safe.
    pub(crate) async fn next_client(&self) -> Option<Client> {
        loop {
            let incoming = self.common.incoming.notified();
            {
                let mut door = lock(&self.common.door);
                if let Some(client) = door.waiting.pop_front() {
                    return Some(client);
                }
                if door.closed {
                    return None;
                }
            }
            incoming.await;
        }
    }

    /// Closes all connections, and takes no more.
    pub(crate) fn close(&self, code: VarInt, reason: &[u8]) {
        self.common.shut();
        self.engines.iter().for_each(|engine| engine.close(code, reason));
        self.common.incoming.notify_waiters();
    }

    /// The last handle is gone: nobody can accept.
    pub(super) fn abandon(&self) {
        self.common.abandoned.store(true, SeqCst);
        self.engines.iter().for_each(|engine| engine.lock().proto.set_server_config(None));
        self.common.shut();
        self.common.end_if_idle();
    }

    /// The engine whose turn it is to connect.
    pub(crate) fn pick(&self) -> &Arc<Engine> {
        &self.engines[self.next.fetch_add(1, SeqCst) % self.engines.len()]
    }

    /// Binds a socket for each engine, if there are several.
    pub(crate) fn bind_group(&self, local: SocketAddr) -> Option<Result<Vec<UdpSocket>, GroupError>> {
        self.steered.map(|steered| steered.bind(local))
    }

    /// Takes one socket for each worker, all with the same address, or a single one for all.
    pub(crate) fn add_sockets(&self, mut sockets: Vec<UdpSocket>) -> io::Result<SocketAddr> {
        if sockets.len() != self.engines.len() {
            return Ok(self.add_shared(sockets.swap_remove(0))?.local());
        }
        let added = self.engines.iter().zip(sockets);
        let added = added.map(|(engine, socket)| engine.add_socket(socket, UsedBy::All));
        let added = added.collect::<io::Result<Vec<_>>>()?;
        Ok(added[0].local())
    }

    /// The first worker receives on it and hands on what is for others; all send.
    fn add_shared(&self, socket: UdpSocket) -> io::Result<Arc<Socket>> {
        let (first, others) = self.engines.split_first().expect("there is at least one");
        let socket = first.add_socket(socket, UsedBy::All)?;
        others.iter().for_each(|engine| engine.sockets.add(socket.clone()));
        Ok(socket)
    }

    /// Lets `socket` take the place of those of its address family that were not bound for single
    /// paths; paths of clients move there.
    pub(crate) fn rebind(&self, socket: UdpSocket) -> io::Result<SocketAddr> {
        let new = self.add_shared(socket)?;
        // Several workers may have one: it retires when all have left it.
        let mut all: Vec<Arc<Left>> = Vec::new();
        for engine in &self.engines {
            engine.rebinding.fetch_add(1, SeqCst);
            let mut left = Vec::new();
            for old in engine.sockets.replace(&new) {
                let known = all.iter().find(|left| Arc::ptr_eq(left.socket(), &old)).cloned();
                left.push(known.unwrap_or_else(|| Arc::new(Left::new(old))));
            }
            let connections: Vec<_> = engine.lock().connections.values().cloned().collect();
            connections.iter().for_each(|connection| rebind(connection, &left, new.local()));
            engine.rebinding.fetch_sub(1, SeqCst);
            all.append(&mut left);
        }
        Ok(new.local())
    }

    /// The addresses of the sockets; one that several workers have is told once.
    pub(crate) fn local_addrs(&self) -> Vec<SocketAddr> {
        let (first, others) = self.engines.split_first().expect("there is at least one");
        let mut addrs = first.sockets.local_addrs();
        for engine in others {
            for addr in engine.sockets.local_addrs() {
                if !addrs.contains(&addr) {
                    addrs.push(addr);
                }
            }
        }
        addrs
    }

    pub(crate) fn len(&self) -> usize {
        self.engines.len()
    }
}

/// Panics on a runtime without timers, as sockets do on one without I/O: there, every connection's
/// task would panic and its application learn nothing but that it has ended.
fn demand_timers() {
    drop(tokio::time::sleep_until(tokio::time::Instant::now()));
}

impl Common {
    /// The engine with this index; `None` if the endpoint is gone.
    pub(super) fn engine(&self, worker: usize) -> Option<Arc<Engine>> {
        self.engines.get()?.get(worker)?.upgrade()
    }

    /// All engines that are left.
    pub(super) fn engines(&self) -> impl Iterator<Item = Arc<Engine>> {
        self.engines.get().into_iter().flat_map(|engines| engines.iter().filter_map(Weak::upgrade))
    }

    /// Lets clients wait for the application; gives back those for whom there is no room.
    pub(super) fn announce(&self, mut clients: Vec<Client>) -> Vec<Client> {
        let mut door = lock(&self.door);
        if !door.closed {
            let room = MAX_BACKLOG.saturating_sub(door.waiting.len());
            let taken = clients.len().min(room);
            door.waiting.extend(clients.drain(..taken));
        }
        clients
    }

    /// Takes out what a slow application would keep although it has no place any more.
    pub(super) fn take_crowded_out(
        &self,
        worker: usize,
        gone: &[proto::ConnectionHandle],
    ) -> VecDeque<Client> {
        if gone.is_empty() {
            return VecDeque::new();
        }
        let mut door = lock(&self.door);
        let (gone, rest) = std::mem::take(&mut door.waiting)
            .into_iter()
            .partition(|waiting| waiting.worker == worker && gone.contains(&waiting.proto.handle()));
        door.waiting = rest;
        gone
    }

    pub(super) fn wake_acceptors(&self) {
        self.incoming.notify_waiters();
    }

    /// A connection is gone.
    pub(super) fn end_if_idle(&self) {
        if self.open.load(SeqCst) > 0 {
            return;
        }
        self.idle.notify_waiters();
        if self.abandoned.load(SeqCst) {
            self.engines().for_each(|engine| engine.sockets.close());
        }
    }

    /// A runtime was shut down: if that was the last that received, no client ever comes.
    pub(super) fn shut_if_deaf(&self) {
        if self.engines().all(|engine| engine.sockets.local_addrs().is_empty()) {
            self.shut();
            self.wake_acceptors();
        }
    }

    /// Nobody waits at the door any more.
    fn shut(&self) {
        let waiting = {
            let mut door = lock(&self.door);
            door.closed = true;
            std::mem::take(&mut door.waiting)
        };
        for client in waiting {
            if let Some(engine) = self.engine(client.worker) {
                engine.refuse(client, "");
            }
        }
    }

    /// Turns clients away that had to make room.
    pub(super) fn refuse_crowded_out(&self, engine: &Engine, gone: &[proto::ConnectionHandle]) {
        let gone = self.take_crowded_out(engine.index, gone);
        gone.into_iter().for_each(|client| engine.refuse(client, CROWDED));
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::{Identity, bind::bind};

    #[tokio::test]
    async fn a_connection_that_begins_while_its_socket_is_replaced_moves_too() {
        let proto = proto::Endpoint::new(None, [7; 32]);
        let crew = Arc::new(Crew::new(vec![proto], Threads::Callers, None, None).unwrap());
        let local: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let [silent, old, new] = [(); 3].map(|()| bind(local).unwrap());
        let remote = silent.local_addr().unwrap();
        crew.add_sockets(vec![old]).unwrap();
        let pin = Identity::self_signed(["localhost"]).unwrap().pin();
        let (config, other) = (ClientConfig::with_pinned_key(pin), crew.clone());
        let mut rebinding = None;
        let choose = |sockets: &crate::sockets::Sockets| {
            let chosen = sockets.towards(remote).map(|socket| socket.local());
            let thread = thread::spawn(move || other.rebind(new).unwrap());
            // As far as it comes meanwhile.
            for _ in 0..10_000 {
                if thread.is_finished() {
                    break;
                }
                thread::yield_now();
            }
            rebinding = Some(thread);
            chosen
        };
        let started = crew.engines[0].connect(&config, remote, "localhost", choose).unwrap();
        let rebound = rebinding.unwrap().join().unwrap();
        assert_eq!(crew.local_addrs(), [rebound]);
        assert_eq!(started.shared.lock().awaited.len(), 1, "it moves once its handshake is confirmed");
    }
}
