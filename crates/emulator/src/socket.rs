//! A UDP socket with batches, ECN and large buffers.

use std::{
    io::{self, IoSliceMut},
    net::{SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use units::Instant;

use crate::clock::Clock;

/// What each socket asks the kernel for, in each direction; it may grant less.
const BUFFER_BYTES: usize = 4 << 20;
/// Receive calls to one socket before the others get their turn.
const ROUNDS: usize = 8;
/// Buffers of one receive call.
const BATCH: usize = 8;
/// The largest UDP payload, and the largest run of segments that the kernel joins.
const LARGEST: usize = 65_535;

/// A datagram that has arrived.
pub(crate) struct Received<'a> {
    /// When it reached the socket, as far as the kernel tells; otherwise when it was read.
    pub(crate) at: Instant,
    pub(crate) source: SocketAddr,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) payload: &'a [u8],
}

pub(crate) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    addr: SocketAddr,
}

impl Socket {
    pub(crate) fn bind(addr: SocketAddr) -> io::Result<Self> {
        let io = UdpSocket::bind(addr)?;
        let state = UdpSocketState::new((&io).into())?;
        without_destinations(&io);
        // Best effort: a smaller buffer costs packets only in bursts.
        let _ = state.set_recv_buffer_size((&io).into(), BUFFER_BYTES);
        let _ = state.set_send_buffer_size((&io).into(), BUFFER_BYTES);
        let addr = io.local_addr()?;
        Ok(Self { io, state, addr })
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Most packets that one call can send.
    pub(crate) fn max_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    pub(crate) fn send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.state.try_send((&self.io).into(), transmit)
    }

    /// Hands what has arrived to `packet`, datagram by datagram.
    pub(crate) fn receive(
        &self,
        clock: &Clock,
        buffers: &mut Buffers,
        mut packet: impl FnMut(Received<'_>),
    ) -> io::Result<()> {
        for _ in 0..ROUNDS {
            let mut meta = [RecvMeta::default(); BATCH];
            let mut slices = buffers.slices();
            let count = match self.state.recv((&self.io).into(), &mut slices, &mut meta) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let reading = clock.read();
            for (meta, bytes) in meta.iter().zip(&slices).take(count) {
                let at = reading.moment_of(meta.timestamp);
                let received = |payload| Received { at, source: meta.addr, ecn: meta.ecn, payload };
                if meta.len == 0 {
                    packet(received(&[]));
                }
                for payload in bytes[..meta.len].chunks(meta.stride.max(1)) {
                    packet(received(payload));
                }
            }
        }
        Ok(())
    }
}

/// Switches off that the kernel tells where each packet was sent to, which nobody asks here. quinn-udp
/// 0.6 has no room for that beside the receive timestamp and the size of coalesced segments, and what
/// comes last is left out: the ECN mark.
fn without_destinations(socket: &UdpSocket) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use nix::sys::socket::{
            setsockopt,
            sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo},
        };
        // Each works for sockets of its family.
        let _ = setsockopt(socket, Ipv4PacketInfo, &false);
        let _ = setsockopt(socket, Ipv6RecvPacketInfo, &false);
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = socket;
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

/// Memory to receive into, shared by all sockets of an emulator.
pub(crate) struct Buffers(Vec<u8>);

impl Buffers {
    pub(crate) fn new() -> Self {
        Self(vec![0; BATCH * LARGEST])
    }

    /// All of it.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn slices(&mut self) -> [IoSliceMut<'_>; BATCH] {
        let mut chunks = self.0.chunks_exact_mut(LARGEST);
        std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()))
    }
}
