//! One UDP socket, with batches, offload, ECN and the exact local address of every packet.

#[cfg(unix)]
mod io;
// Tests see to it that what other systems get does not rot here.
#[cfg(any(not(unix), test))]
mod portable;

use std::{
    io::{ErrorKind, IoSliceMut, Result},
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use proto::{Ecn, NetworkPath, Transmit};
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use socket2::SockRef;
use tokio::{sync::watch, time::timeout};

#[cfg(unix)]
use io::{Io, Receiver as IoReceiver};
#[cfg(not(unix))]
use portable::{Io, Receiver as IoReceiver};

/// Longest UDP payload over IPv4, bytes; one system call cannot send more, offload or not.
const MAX_UDP_PAYLOAD: usize = 65_507;

/// Receive and send buffers that each UDP socket asks of the operating system, bytes; it may grant
/// less (on Linux, `net.core.rmem_max` and `net.core.wmem_max`).
pub const SOCKET_BUFFER_SIZE: usize = 4 << 20;

/// What is asked for at least.
const LEAST_BUFFER: usize = 128 << 10;

/// How long a retired socket still receives what is under way to it.
const LINGER: Duration = Duration::from_secs(1);

/// How long a socket is to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Open {
        /// Paths that it is kept for, where it was bound for one.
        users: u32,
    },
    Retired,
    Closed,
}

/// Who may send through a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UsedBy {
    /// Any connection of the endpoint.
    All,
    /// It was bound for one path of one connection: others do not choose it by themselves.
    OnePath,
}

/// A bound UDP socket.
#[derive(Debug)]
pub(crate) struct Socket {
    io: Io,
    udp: RwLock<UdpSocketState>,
    /// It turned out that the system divides nothing that leaves here: a call sends one datagram.
    undivided: AtomicBool,
    local: SocketAddr,
    /// It takes IPv4, too, at any of this host's addresses.
    dual_stack: bool,
    used_by: UsedBy,
    life: watch::Sender<Life>,
}

/// Where what a socket receives is taken from; there is one for each.
#[derive(Debug)]
pub(crate) struct Receiver {
    socket: Arc<Socket>,
    io: IoReceiver,
}

impl Socket {
    /// The address it is bound to.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Whether packets to `remote` can leave here, by address family.
    pub(crate) fn reaches(&self, remote: IpAddr) -> bool {
        self.local.is_ipv4() == remote.is_ipv4() || self.dual_stack
    }

    pub(crate) fn is_dedicated(&self) -> bool {
        self.used_by == UsedBy::OnePath
    }

    /// How well it fits a path's local address: 3 bound exactly there, 2 bound to any address with
    /// that port, 1 and 0 the same where the path leaves the port open; `None` if it does not.
    pub(crate) fn fits(&self, local: SocketAddr) -> Option<u8> {
        let exact = self.local.ip() == local.ip();
        let any = self.local.ip().is_unspecified() && self.reaches(local.ip());
        match (self.local.port() == local.port(), local.port() == 0, exact, any) {
            (true, _, true, _) => Some(3),
            (true, _, _, true) => Some(2),
            (_, true, true, _) => Some(1),
            (_, true, _, true) => Some(0),
            _ => None,
        }
    }

    /// Sends datagrams of `transmit` from byte `sent` on, as many as one system call takes. Returns
    /// the number of bytes of that call, beside its result: on errors other than `WouldBlock` these
    /// bytes count as lost.
    pub(crate) fn try_send(&self, transmit: &Transmit, bytes: &[u8], sent: usize) -> (usize, Result<()>) {
        let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
        let segments = (MAX_UDP_PAYLOAD / segment).min(self.max_segments()).max(1);
        let end = transmit.size.min(sent.saturating_add(segment.saturating_mul(segments)));
        let contents = &bytes[sent..end];
        let result = self.call(transmit, contents, segment);
        if !result.as_ref().is_err_and(is_refused) {
            return (contents.len(), result);
        }
        self.learn_anew();
        if contents.len() <= segment {
            return (contents.len(), result);
        }
        // Perhaps nothing divides it. The first of them shows that alone.
        let alone = self.call(transmit, &contents[..segment], segment);
        match &alone {
            Ok(()) => self.undivided.store(true, Relaxed),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // So it was not that, and what comes behind it would fare no better.
            Err(error) => {
                if is_refused(error) {
                    self.learn_anew();
                }
                return (contents.len(), alone);
            }
        }
        (segment, alone)
    }

    /// One system call that sends datagrams of `segment` bytes each.
    fn call(&self, transmit: &Transmit, contents: &[u8], segment: usize) -> Result<()> {
        let out = quinn_udp::Transmit {
            destination: self.outward(transmit.path.remote),
            ecn: transmit.ecn.map(to_codepoint),
            contents,
            segment_size: (contents.len() > segment).then_some(segment),
            src_ip: self.source(&transmit.path),
        };
        let udp = self.udp();
        self.io.try_send(|socket| udp.try_send((&socket).into(), &out))
    }

    /// How many datagrams one call may send.
    fn max_segments(&self) -> usize {
        if self.undivided.load(Relaxed) { 1 } else { self.udp().max_gso_segments() }
    }

    /// What is known of what the socket can do.
    fn udp(&self) -> RwLockReadGuard<'_, UdpSocketState> {
        self.udp.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// quinn-udp concludes from a message that Linux refuses that the socket can neither segment nor mark
    /// packets, for good. A single datagram that is refused without either was wrong in itself: its source
    /// is an address of IPv6 that this host has no more, say. And what cannot be divided can be marked.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn learn_anew(&self) {
        let _ = self.io.try_send(|socket| {
            let fresh = UdpSocketState::new((&socket).into())?;
            without_timestamps(&socket);
            *self.udp.write().unwrap_or_else(PoisonError::into_inner) = fresh;
            Ok(())
        });
    }

    /// Elsewhere it concludes nothing.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn learn_anew(&self) {}

    /// The destination in the family of the socket.
    fn outward(&self, remote: SocketAddr) -> SocketAddr {
        match remote.ip() {
            IpAddr::V4(ip) if self.local.is_ipv6() => {
                SocketAddr::new(ip.to_ipv6_mapped().into(), remote.port())
            }
            _ => remote,
        }
    }

    /// The source address to ask for; none where the socket's own says it already, or the kernel
    /// shall choose. As the system tells it of what came: Windows tells IPv4 as such also where the
    /// socket is of IPv6, and wants to be told so.
    fn source(&self, path: &NetworkPath) -> Option<IpAddr> {
        if !self.local.ip().is_unspecified() || path.local.ip().is_unspecified() {
            return None;
        }
        Some(match path.local.ip() {
            IpAddr::V4(ip) if self.local.is_ipv6() && !cfg!(windows) => ip.to_ipv6_mapped().into(),
            ip => ip,
        })
    }

    /// Waits until sending may work again, or never will.
    pub(crate) async fn writable(self: Arc<Self>) {
        self.io.writable().await;
    }

    /// Between which addresses a received datagram travelled.
    pub(crate) fn path_of(&self, meta: &RecvMeta) -> NetworkPath {
        let ip = meta.dst_ip.map_or(self.local.ip(), |ip| ip.to_canonical());
        NetworkPath { local: SocketAddr::new(ip, self.local.port()), remote: canonical(meta.addr) }
    }

    /// One more path uses it, and calls [`retire`](Self::retire) or [`leave`](Self::leave) some day. Not
    /// possible once it retires.
    pub(crate) fn join(&self) -> bool {
        let mut joined = false;
        self.life.send_if_modified(|life| {
            if let Life::Open { users } = life {
                (*users, joined) = (*users + 1, true);
            }
            false
        });
        joined
    }

    /// Its path is gone, and unless it has others: receive what is under way, then close.
    pub(crate) fn retire(&self) {
        self.lose_user(Life::Retired);
    }

    /// A path that was to use it does not. Close, unless it has others.
    pub(crate) fn leave(&self) {
        self.lose_user(Life::Closed);
    }

    fn lose_user(&self, then: Life) {
        self.life.send_if_modified(|life| match life {
            Life::Open { users: 0 | 1 } => {
                *life = then;
                true
            }
            Life::Open { users } => {
                *users -= 1;
                false
            }
            Life::Retired | Life::Closed => false,
        });
    }

    /// Close now.
    pub(crate) fn close(&self) {
        self.life.send_replace(Life::Closed);
    }

    /// Returns when it is time to close.
    pub(crate) async fn end_of_life(&self) {
        let mut life = self.life.subscribe();
        let is_over = |life: &Life| !matches!(life, Life::Open { .. });
        let now = life.wait_for(is_over).await.map_or(Life::Closed, |life| *life);
        if now == Life::Retired {
            let _ = timeout(LINGER, life.wait_for(|life| *life == Life::Closed)).await;
        }
    }
}

impl Receiver {
    /// Takes over a bound socket; must be called within the runtime.
    pub(crate) fn new(socket: std::net::UdpSocket, used_by: UsedBy) -> Result<Self> {
        let udp = UdpSocketState::new((&socket).into())?;
        without_timestamps(&socket);
        let local = socket.local_addr()?;
        // Where others have bound it, it may be for IPv6 alone.
        let any_v6 = local.is_ipv6() && local.ip().is_unspecified();
        let dual_stack = any_v6 && !SockRef::from(&socket).only_v6().unwrap_or(false);
        let present = udp.recv_buffer_size((&socket).into());
        enlarge(present, |size| udp.set_recv_buffer_size((&socket).into(), size));
        let present = udp.send_buffer_size((&socket).into());
        enlarge(present, |size| udp.set_send_buffer_size((&socket).into(), size));
        let (io, receiver) = Io::new(socket)?;
        let life = watch::Sender::new(Life::Open { users: 1 });
        let undivided = AtomicBool::new(false);
        let socket = Socket { io, udp: RwLock::new(udp), undivided, local, dual_stack, used_by, life };
        Ok(Self { socket: Arc::new(socket), io: receiver })
    }

    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// Waits until receiving may work.
    pub(crate) async fn readable(&mut self) -> Result<()> {
        self.io.readable().await
    }

    /// Lets what arrives gather, for so long at least.
    pub(crate) async fn gather(&mut self, time: Duration) {
        self.io.gather(time).await;
    }

    /// Receives into `buffers`, one or several datagrams each as `meta` tells; returns how many
    /// buffers were used.
    pub(crate) fn try_recv(
        &mut self,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Result<usize> {
        let most = buffers.len().min(meta.len());
        self.io.try_receive(most, |socket| self.socket.udp().recv((&socket).into(), buffers, meta))
    }

    /// Whether a call that used `received` of `most` buffers has left nothing in the socket. Where a system
    /// gives one message at a time, that is not known.
    pub(crate) fn took_all(received: usize, most: usize) -> bool {
        IoReceiver::took_all(received, most)
    }
}

/// Whether the system takes a message for one that is not valid, or cannot do with it what was asked: older
/// kernels divide nothing for a network device that computes no checksums (EIO).
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_refused(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::IO))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_refused(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::InvalidInput
}

/// Asks for a buffer of [`SOCKET_BUFFER_SIZE`], and for half as much where the BSDs refuse it, which leave
/// a socket with some kilobytes then. If nothing is granted, it works all the same. Who has bound the socket
/// may have given it more, with rights that we have not: to ask would take that away.
fn enlarge(present: Result<usize>, mut ask: impl FnMut(usize) -> Result<()>) {
    if present.is_ok_and(|size| size >= SOCKET_BUFFER_SIZE) {
        return;
    }
    let sizes = std::iter::successors(Some(SOCKET_BUFFER_SIZE), |size| Some(size / 2));
    let _ = sizes.take_while(|size| *size >= LEAST_BUFFER).find(|size| ask(*size).is_ok());
}

/// Switches the kernel's receive timestamps off, which quinn-udp 0.6 switches on without making
/// room for them: coalesced datagrams would come without their ECN mark, and over IPv6 without
/// their local address.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn without_timestamps(socket: &impl std::os::fd::AsFd) {
    use nix::sys::socket::{setsockopt, sockopt::ReceiveTimestampns};
    let _ = setsockopt(socket, ReceiveTimestampns, &false);
}

/// There are none.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn without_timestamps(_: &std::net::UdpSocket) {}

/// An IPv4 address that is written as one of IPv6 (RFC 4291 section 2.5.5.2) as what it is: paths are
/// compared by their addresses.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// The ECN mark of a received datagram.
pub(crate) fn ecn(meta: &RecvMeta) -> Option<Ecn> {
    meta.ecn.map(|codepoint| match codepoint {
        EcnCodepoint::Ect0 => Ecn::Ect0,
        EcnCodepoint::Ect1 => Ecn::Ect1,
        EcnCodepoint::Ce => Ecn::Ce,
    })
}

fn to_codepoint(ecn: Ecn) -> EcnCodepoint {
    match ecn {
        Ecn::Ect0 => EcnCodepoint::Ect0,
        Ecn::Ect1 => EcnCodepoint::Ect1,
        Ecn::Ce => EcnCodepoint::Ce,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_a_large_buffer_asks_for_a_smaller_one() {
        let mut asked = Vec::new();
        enlarge(Ok(42_080), |size| {
            asked.push(size);
            if size > 1_864_135 { Err(ErrorKind::OutOfMemory.into()) } else { Ok(()) }
        });
        assert_eq!(asked, [4 << 20, 2 << 20, 1 << 20]);
        let mut times = 0;
        enlarge(Ok(42_080), |_| {
            times += 1;
            Err(ErrorKind::OutOfMemory.into())
        });
        assert_eq!(times, 6);
    }

    /// As by `ReceiveBuffer=16M` of a socket unit.
    #[test]
    fn a_buffer_that_is_larger_stays_so() {
        enlarge(Ok(32 << 20), |size| panic!("{size} are asked for"));
    }
}
