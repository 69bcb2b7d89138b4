//! A UDP load balancer as there are many: one address, several servers behind it. Servers see a
//! port of the balancer's for each client and server.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use mendpath::QuicLb;
use tokio::{net::UdpSocket, task::AbortHandle};

use super::ANY;

/// Says which server a datagram of a client is for.
pub type Rule = Box<dyn Fn(SocketAddr, &[u8]) -> usize + Send + Sync>;

/// Forwards datagrams until it is dropped.
pub struct Balancer {
    /// Where clients send to.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    front: UdpSocket,
    servers: Vec<SocketAddr>,
    flows: Mutex<BTreeMap<(SocketAddr, usize), Flow>>,
    /// From where it sends to servers.
    from: Mutex<IpAddr>,
    /// Nothing passes.
    stopped: AtomicBool,
}

struct Flow {
    back: Arc<UdpSocket>,
    answers: AbortHandle,
}

/// Servers that are to have nothing new, and servers that are dead: nothing comes there or from
/// there.
#[derive(Clone, Debug, Default)]
pub struct Table(Arc<Mutex<BTreeMap<usize, bool>>>);

impl Table {
    /// Nothing new goes there.
    pub fn drains(&self, server: usize) {
        self.0.lock().unwrap().entry(server).or_insert(false);
    }

    /// Nothing at all goes there.
    pub fn is_dead(&self, server: usize) {
        self.0.lock().unwrap().insert(server, true);
    }
}

/// What comes from one address goes to one server, whatever it is.
pub fn by_address(servers: usize) -> Rule {
    Box::new(move |client, _| {
        let IpAddr::V4(ip) = client.ip() else { panic!("tests use IPv4") };
        usize::from(ip.octets()[3]) % servers
    })
}

/// What has a server's id in its destination goes there, and the rest by its address, as in section
/// 4.2 of draft-ietf-quic-load-balancers-21. `config` may be that of any of the servers.
pub fn by_id(config: QuicLb, ids: Vec<Vec<u8>>) -> Rule {
    by_id_and_table(config, ids, Table::default())
}

/// The same with a table of servers that are not as they should be.
pub fn by_id_and_table(config: QuicLb, ids: Vec<Vec<u8>>, table: Table) -> Rule {
    let otherwise = by_address(ids.len());
    Box::new(move |client, datagram| {
        let found = destination(datagram).and_then(|id| config.server_id(id));
        let server = found.and_then(|found| ids.iter().position(|id| **id == *found));
        let table = table.0.lock().unwrap();
        if let Some(server) = server.filter(|server| table.get(server) != Some(&true)) {
            return server;
        }
        let first = otherwise(client, datagram);
        (0..ids.len()).map(|n| (first + n) % ids.len()).find(|n| !table.contains_key(n)).unwrap_or(first)
    })
}

/// The destination of a packet (RFC 8999 section 5); with a short header, and what follows it.
fn destination(datagram: &[u8]) -> Option<&[u8]> {
    match datagram.first()? & 0x80 {
        0 => datagram.get(1..),
        _ => datagram.get(6..)?.get(..usize::from(datagram[5])),
    }
}

impl Balancer {
    pub async fn start(servers: Vec<SocketAddr>, rule: Rule) -> Self {
        let front = UdpSocket::bind(ANY).await.unwrap();
        let address = front.local_addr().unwrap();
        let shared = Arc::new(Shared {
            front,
            servers,
            flows: Mutex::default(),
            from: Mutex::new(ANY.ip()),
            stopped: AtomicBool::new(false),
        });
        let task = tokio::spawn(forward(shared.clone(), rule)).abort_handle();
        Self { address, shared, task }
    }

    /// Lets nothing pass, or everything again.
    pub fn stop(&self, stopped: bool) {
        self.shared.stopped.store(stopped, Relaxed);
    }

    /// Sends from new ports of this address from now on, as a NAT does that has forgotten its
    /// clients.
    pub fn move_to(&self, from: IpAddr) {
        *self.shared.from.lock().unwrap() = from;
        self.shared.flows.lock().unwrap().clear();
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.flows.lock().unwrap().clear();
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.answers.abort();
    }
}

async fn forward(shared: Arc<Shared>, rule: Rule) {
    let mut buffer = vec![0; 65_535];
    loop {
        // An error of one client's is not another's.
        let Ok((n, client)) = shared.front.recv_from(&mut buffer).await else { continue };
        if shared.stopped.load(Relaxed) {
            continue;
        }
        let server = rule(client, &buffer[..n]);
        let back = shared.back(client, server);
        let _ = back.send_to(&buffer[..n], shared.servers[server]).await;
    }
}

impl Shared {
    fn back(self: &Arc<Self>, client: SocketAddr, server: usize) -> Arc<UdpSocket> {
        let mut flows = self.flows.lock().unwrap();
        let flow = flows.entry((client, server)).or_insert_with(|| {
            let from = SocketAddr::new(*self.from.lock().unwrap(), 0);
            let socket = std::net::UdpSocket::bind(from).unwrap();
            socket.set_nonblocking(true).unwrap();
            let back = Arc::new(UdpSocket::from_std(socket).unwrap());
            let (shared, from_server) = (self.clone(), back.clone());
            let answers = tokio::spawn(async move {
                let mut buffer = vec![0; 65_535];
                loop {
                    let Ok((n, _)) = from_server.recv_from(&mut buffer).await else { continue };
                    if !shared.stopped.load(Relaxed) {
                        let _ = shared.front.send_to(&buffer[..n], client).await;
                    }
                }
            });
            Flow { back, answers: answers.abort_handle() }
        });
        flow.back.clone()
    }
}
