//! The task that receives on one socket.

use std::{io::IoSliceMut, sync::Arc};

use proto::{ConnectionHandle, Datagram, EndpointOutput, NetworkPath, Transmit};
use quinn_udp::RecvMeta;
use tracing::{debug, trace};

use super::{Engine, arrivals::Arrivals, inbox::Batch, leads_nowhere, patience::GATHER};
use crate::{
    clock,
    socket::{self, Receiver, Socket},
};

/// Buffers per system call.
const SLOTS: usize = 16;

/// Bytes per buffer: the kernel coalesces datagrams up to this size.
pub(super) const SLOT_SIZE: usize = 65_535;

/// Datagrams received before other tasks get their turn.
const BUDGET: usize = 256;

/// Failures in a row after which a socket is given up.
const MAX_FAILURES: u32 = 64;

/// Receives until the socket's end of life; then the endpoint lets go of it.
pub(super) fn receive(engine: Arc<Engine>, receiver: Receiver) -> impl Future<Output = ()> + Send {
    // Made before the task is: a runtime that shuts down may drop it before its first turn.
    let receiving = Receiving { engine, socket: receiver.socket().clone(), ended: false };
    async move {
        tokio::select! {
            biased;
            () = receiving.socket.end_of_life() => {}
            () = receive_forever(&receiving.engine, &receiving.socket, receiver) => {}
        }
        receiving.end();
    }
}

/// A socket that something receives on.
struct Receiving {
    engine: Arc<Engine>,
    socket: Arc<Socket>,
    /// It has come to its end by itself. If not, the runtime is shut down.
    ended: bool,
}

impl Receiving {
    fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        let Self { engine, socket, ended } = self;
        debug!(local = %socket.local(), "socket closed");
        engine.common.engines().for_each(|engine| engine.sockets.remove(socket));
        if !*ended {
            engine.common.shut_if_deaf();
        }
    }
}

/// Returns only if the socket does not work any more.
async fn receive_forever(engine: &Engine, socket: &Socket, mut receiver: Receiver) {
    let mut buffers: [Vec<u8>; SLOTS] = std::array::from_fn(|_| vec![0; SLOT_SIZE]);
    let mut router = Router::default();
    let mut failures = 0;
    let mut since_yield = 0;
    let mut gathered = false;
    loop {
        if !std::mem::take(&mut gathered)
            && let Err(error) = receiver.readable().await
        {
            debug!(local = %socket.local(), %error, "the socket is gone");
            return;
        }
        let mut meta = [RecvMeta::default(); SLOTS];
        match receive_batch(&mut receiver, &mut buffers, &mut meta) {
            Ok(used) => {
                failures = 0;
                let routed = router.route(engine, socket, &mut buffers, &meta[..used]);
                since_yield += routed.datagrams;
                // What is left has gathered already, and may not wait once more for each that is taken.
                gathered = routed.may_gather && Receiver::took_all(used, SLOTS);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) if is_about_a_peer(&error) => since_yield += 1,
            // An interface that goes away: other paths go on, and this one may come back.
            Err(error) if failures < MAX_FAILURES => {
                failures += 1;
                debug!(local = %socket.local(), %error, "cannot receive");
            }
            Err(error) => {
                debug!(local = %socket.local(), %error, "the socket is given up");
                return;
            }
        }
        if gathered {
            receiver.gather(GATHER).await;
        } else if since_yield >= BUDGET {
            since_yield = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Whether it is what ICMP says about a packet that was sent, and not about the socket. Windows tells
/// so of every peer (WSAECONNRESET; WSAENETRESET, which has no name here, where a packet was too long on
/// its way), others of the only one that a socket is connected to. Peers that go away, or that never were,
/// can bring about as many as they like.
fn is_about_a_peer(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | ConnectionReset | HostUnreachable | NetworkUnreachable)
        || cfg!(windows) && error.raw_os_error() == Some(10_052)
}

fn receive_batch(
    receiver: &mut Receiver,
    buffers: &mut [Vec<u8>; SLOTS],
    meta: &mut [RecvMeta; SLOTS],
) -> std::io::Result<usize> {
    let mut slots = buffers.each_mut().map(|buffer| IoSliceMut::new(buffer));
    receiver.try_recv(&mut slots, meta)
}

/// What became of received datagrams.
struct Routed {
    datagrams: usize,
    /// Nobody minds if those that come next gather in the socket.
    may_gather: bool,
}

/// Takes datagrams to their connections, with one hand-over for those that follow each other.
#[derive(Default)]
struct Router {
    /// What the endpoint itself answers is written here.
    reply: Vec<u8>,
    /// Datagrams for other workers, no more than were received at a time.
    strays: Vec<Stray>,
}

/// A datagram that came to another worker than the one it is for. Rare where the kernel steers: it
/// came before the kernel knew how, is the reset of a connection, or came in by a socket of its own.
struct Stray {
    worker: usize,
    path: NetworkPath,
    ecn: Option<proto::Ecn>,
    bytes: Vec<u8>,
}

impl Router {
    fn route(
        &mut self,
        engine: &Engine,
        socket: &Socket,
        buffers: &mut [Vec<u8>],
        meta: &[RecvMeta],
    ) -> Routed {
        let now = clock::now();
        let mut arrivals = Arrivals::new(engine);
        let datagrams = meta
            .iter()
            .zip(buffers)
            .map(|(meta, buffer)| self.route_buffer(now, socket, &mut arrivals, buffer, meta))
            .sum();
        let may_gather = arrivals.may_gather() && self.strays.is_empty();
        drop(arrivals);
        self.hand_on(now, engine, socket);
        Routed { datagrams, may_gather }
    }

    /// Takes what is for other workers there, once: what finds no connection then is dropped. Only
    /// one worker is locked at a time.
    fn hand_on(&mut self, now: units::Instant, engine: &Engine, socket: &Socket) {
        for mut stray in std::mem::take(&mut self.strays) {
            let Some(engine) = engine.common.engine(stray.worker) else { continue };
            let mut arrivals = Arrivals::new(&engine);
            self.reply.clear();
            let Stray { path, ecn, bytes, .. } = &mut stray;
            let datagram = Datagram { path: *path, ecn: *ecn, data: bytes };
            match arrivals.handle_datagram(now, datagram, &mut self.reply) {
                Some(EndpointOutput::ToConnection(handle)) => {
                    arrivals.deliver(handle, Batch::copied(*path, *ecn, bytes.len(), bytes));
                }
                Some(EndpointOutput::Incoming(incoming)) => arrivals.announce(incoming),
                Some(EndpointOutput::Reply(transmit)) => reply(socket, &transmit, &self.reply),
                Some(EndpointOutput::Misdirected(_)) | None => {}
            }
        }
    }

    /// The datagrams of one buffer come from one sender, mostly of one connection.
    fn route_buffer(
        &mut self,
        now: units::Instant,
        socket: &Socket,
        arrivals: &mut Arrivals<'_>,
        buffer: &mut Vec<u8>,
        meta: &RecvMeta,
    ) -> usize {
        let (path, ecn, stride) = (socket.path_of(meta), socket::ecn(meta), meta.stride.max(1));
        if leads_nowhere(path.remote) {
            // An answer to port 0 (RFC 768 has it for who wants none) is refused as an argument that is not
            // valid, from which quinn-udp concludes that the socket can neither segment nor mark packets.
            trace!(remote = %path.remote, "a datagram from nowhere");
            return meta.len.div_ceil(stride);
        }
        let mut run: Option<(ConnectionHandle, usize)> = None;
        for start in (0..meta.len).step_by(stride) {
            let end = (start + stride).min(meta.len);
            self.reply.clear();
            let datagram = Datagram { path, ecn, data: &mut buffer[start..end] };
            let output = arrivals.handle_datagram(now, datagram, &mut self.reply);
            let handle = match output {
                Some(EndpointOutput::ToConnection(handle)) => Some(handle),
                Some(EndpointOutput::Incoming(incoming)) => {
                    arrivals.announce(incoming);
                    None
                }
                Some(EndpointOutput::Reply(transmit)) => {
                    reply(socket, &transmit, &self.reply);
                    None
                }
                Some(EndpointOutput::Misdirected(worker)) => {
                    let bytes = buffer[start..end].to_vec();
                    self.strays.push(Stray { worker, path, ecn, bytes });
                    None
                }
                None => None,
            };
            if handle != run.map(|(handle, _)| handle) {
                if let Some((handle, from)) = run {
                    arrivals.deliver(handle, Batch::copied(path, ecn, stride, &buffer[from..start]));
                }
                run = handle.map(|handle| (handle, start));
            }
        }
        match run {
            Some((handle, 0)) => {
                let batch = Batch::taken(path, ecn, stride, meta.len, buffer, arrivals.spares());
                arrivals.deliver(handle, batch);
            }
            Some((handle, from)) => {
                arrivals.deliver(handle, Batch::copied(path, ecn, stride, &buffer[from..meta.len]));
            }
            None => {}
        }
        meta.len.div_ceil(stride)
    }
}

/// Answers without a connection: version negotiation, Retry, stateless reset. Nobody waits if the
/// socket is full.
pub(super) fn reply(socket: &Socket, transmit: &Transmit, bytes: &[u8]) {
    if let (_, Err(error)) = socket.try_send(transmit, bytes, 0) {
        let NetworkPath { local, remote } = transmit.path;
        trace!(%local, %remote, %error, "answer not sent");
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    /// Anybody can send one; it must not cost all connections of a server what its socket can do.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn what_comes_from_no_port_is_not_answered() {
        use std::net::{SocketAddr, UdpSocket};

        use crate::{
            Identity, ServerConfig,
            bind::bind,
            engine::{Crew, Threads},
        };

        let identity = Identity::self_signed(["localhost"]).unwrap();
        let config = ServerConfig::with_identity(&identity).unwrap().to_proto();
        let proto = proto::Endpoint::new(Some(config), [7; 32]);
        let crew = Crew::new(vec![proto], Threads::Callers, None, None).unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let local = crew.add_sockets(vec![bind(any).unwrap()]).unwrap();
        let socket = crew.pick().sockets.select(local).unwrap();
        let client = UdpSocket::bind(any).unwrap();
        client.set_nonblocking(true).unwrap();
        let remote = client.local_addr().unwrap();
        // A long header of a version that nobody speaks, with ids of 8 bytes.
        let mut packet = vec![0; 1_200];
        packet[..6].copy_from_slice(&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8]);
        packet[14] = 8;
        let ask = |from: SocketAddr| {
            let mut meta = RecvMeta::default();
            (meta.addr, meta.len, meta.stride) = (from, packet.len(), packet.len());
            Router::default().route(crew.pick(), &socket, &mut [packet.clone()], &[meta]);
            crew.stats().version_negotiations_sent
        };
        let of_one_call = || {
            let path = NetworkPath { local, remote };
            let transmit = Transmit { path, ecn: None, size: 2_000, segment_size: Some(1_000) };
            socket.try_send(&transmit, &[0; 2_000], 0).0
        };
        assert_eq!(ask(remote), 1);
        assert!(client.recv(&mut [0; 100]).is_ok());
        let before = of_one_call();
        assert_eq!(ask(SocketAddr::new(remote.ip(), 0)), 1);
        assert_eq!(of_one_call(), before);
    }

    /// Nobody here has a system that tells of every peer, so what counts is tried alone.
    #[test]
    fn what_is_said_about_peers_gives_up_no_socket() {
        for kind in [ErrorKind::ConnectionReset, ErrorKind::ConnectionRefused, ErrorKind::HostUnreachable] {
            assert!(is_about_a_peer(&kind.into()), "{kind}");
        }
        for kind in [ErrorKind::NotConnected, ErrorKind::InvalidInput, ErrorKind::NetworkDown] {
            assert!(!is_about_a_peer(&kind.into()), "{kind}");
        }
        #[cfg(windows)]
        for code in [10_052, 10_054] {
            assert!(is_about_a_peer(&std::io::Error::from_raw_os_error(code)), "{code}");
        }
        #[cfg(target_os = "linux")]
        assert!(is_about_a_peer(&std::io::Error::from_raw_os_error(111)), "ECONNREFUSED");
    }
}
