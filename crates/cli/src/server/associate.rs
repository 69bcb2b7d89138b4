//! UDP for a client: one association, its sockets towards other hosts, and what it may hear.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use mendpath::{RecvStream, SendStream};
use tokio::{net::UdpSocket, time::Instant};
use tracing::debug;

use super::{Shared, connect::resolve, session::refuse};
use crate::{
    association::{Association, Hub, MAX_ASSOCIATIONS},
    destination::DestinationPolicy,
    protocol::{Packet, Reply, Status, write_frame},
    target::{Host, Target},
};

/// Hosts that one association may hear from, and names whose address it remembers; more begin afresh.
const MAX_PEERS: usize = 256;
/// The longest UDP payload.
const MAX_PAYLOAD: usize = 65_507;

/// Serves one association from request to end.
pub(super) async fn serve(id: u32, stream: (SendStream, RecvStream), hub: &Arc<Hub>, shared: &Shared) {
    let (mut send, receive) = stream;
    let sockets = match Sockets::bind().await {
        Ok(sockets) => sockets,
        Err(error) => return refuse(send, receive, Reply::new(Status::Failed, error)).await,
    };
    // The answer goes first: the association's stream carries packets afterwards.
    if write_frame(&mut send, &Reply::ok().encode()).await.is_err() {
        return;
    }
    let Some(association) = Association::begin(hub, id, (send, receive)) else {
        debug!(id, MAX_ASSOCIATIONS, "association refused: the id is in use, or there are too many");
        return;
    };
    relay(association, &sockets, shared).await;
    debug!(id, "association ended");
}

async fn relay(mut association: Association, sockets: &Sockets, shared: &Shared) {
    let mut peers = Peers::new(shared.policy);
    let (mut buffer4, mut buffer6) = (vec![0; MAX_PAYLOAD], vec![0; MAX_PAYLOAD]);
    let mut last_traffic = Instant::now();
    loop {
        let idle = tokio::time::sleep_until(last_traffic + shared.limits.udp_idle);
        tokio::select! {
            packet = association.receive() => {
                let Some(packet) = packet else { return };
                if let Some(address) = peers.address(&packet.peer).await {
                    sockets.send(&packet.payload, address).await;
                    last_traffic = Instant::now();
                }
            }
            Some((n, from)) = receive(sockets.v4.as_ref(), &mut buffer4) => {
                if pass_back(&association, &peers, from, &buffer4[..n]) {
                    last_traffic = Instant::now();
                }
            }
            Some((n, from)) = receive(sockets.v6.as_ref(), &mut buffer6) => {
                if pass_back(&association, &peers, from, &buffer6[..n]) {
                    last_traffic = Instant::now();
                }
            }
            () = idle => return,
        }
    }
}

/// Only hosts that the client has spoken to may answer.
fn pass_back(association: &Association, peers: &Peers, from: SocketAddr, payload: &[u8]) -> bool {
    let known = peers.spoken_to.contains(&from.ip());
    if known {
        association.send(&Packet { peer: Target::from_addr(from), payload: payload.to_vec() });
    }
    known
}

/// `None` disables the branch, for a family that this machine lacks; errors (an ICMP message about an earlier packet) are skipped.
async fn receive(socket: Option<&UdpSocket>, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
    let socket = socket?;
    loop {
        if let Ok(received) = socket.recv_from(buffer).await {
            return Some(received);
        }
    }
}

/// A socket for each address family.
struct Sockets {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
}

impl Sockets {
    async fn bind() -> io::Result<Self> {
        let v4 = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await;
        // Without IPv6 the other family still works.
        let v6 = bind_v6_only().ok();
        match (v4, v6) {
            (Err(error), None) => Err(error),
            (v4, v6) => Ok(Self { v4: v4.ok(), v6 }),
        }
    }

    async fn send(&self, payload: &[u8], to: SocketAddr) {
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
    policy: DestinationPolicy,
    names: BTreeMap<Target, Option<SocketAddr>>,
    spoken_to: BTreeSet<IpAddr>,
}

impl Peers {
    fn new(policy: DestinationPolicy) -> Self {
        Self { policy, names: BTreeMap::new(), spoken_to: BTreeSet::new() }
    }

    /// The permitted address of `target`, resolved once per association.
    async fn address(&mut self, target: &Target) -> Option<SocketAddr> {
        let address = match (&target.host, self.names.get(target)) {
            (_, Some(known)) => *known,
            (Host::Ip(ip), None) => {
                self.policy.check(*ip).ok().map(|()| SocketAddr::new(ip.to_canonical(), target.port))
            }
            (Host::Name(_), None) => {
                let resolved = resolve(target, self.policy).await;
                let first = resolved.ok().and_then(|addresses| addresses.first().copied());
                if self.names.len() >= MAX_PEERS {
                    self.names.clear();
                }
                self.names.insert(target.clone(), first);
                first
            }
        }?;
        if self.spoken_to.len() >= MAX_PEERS {
            self.spoken_to.clear();
        }
        self.spoken_to.insert(address.ip());
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn forbidden_peers_are_never_spoken_to() {
        let mut peers = Peers::new(DestinationPolicy::PublicOnly);
        assert_eq!(peers.address(&"10.0.0.1:53".parse().unwrap()).await, None);
        assert_eq!(peers.address(&"localhost:53".parse().unwrap()).await, None);
        assert_eq!(peers.address(&"[::ffff:127.0.0.1]:53".parse().unwrap()).await, None);
        assert!(peers.spoken_to.is_empty());
        let public: SocketAddr = "1.1.1.1:53".parse().unwrap();
        assert_eq!(peers.address(&Target::from_addr(public)).await, Some(public));
        assert!(peers.spoken_to.contains(&public.ip()));
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded() {
        let mut peers = Peers::new(DestinationPolicy::AllowPrivate);
        for i in 0..1_000u32 {
            peers
                .address(&Target { host: Host::Ip(Ipv4Addr::from_bits(0x0a00_0000 + i).into()), port: 1 })
                .await;
        }
        assert!(peers.spoken_to.len() <= MAX_PEERS);
    }
}
