//! One socket that sends from any loopback address and hears what is sent to any.

use std::{
    io::{self, IoSliceMut},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use proto::NetworkPath;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use tokio::{io::Interest, net::UdpSocket, time::timeout};

use crate::flood::Outcome;

/// The longest datagram that is heard whole; QUIC's are shorter.
const LONGEST: usize = 2_048;
/// Datagrams of one system call.
const BATCH: usize = 16;

/// The socket, with what went through it.
pub struct Wire {
    io: UdpSocket,
    state: UdpSocketState,
    port: u16,
    buffer: Vec<u8>,
    /// UDP payload sent.
    pub sent_bytes: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams heard.
    pub heard: u64,
}

impl Wire {
    /// A socket on a free port.
    pub fn open() -> Outcome<Self> {
        let io = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let state = UdpSocketState::new((&io).into())?;
        // Best effort: answers that find no room are lost, which strangers do not mind.
        let _ = state.set_recv_buffer_size((&io).into(), 4 << 20);
        let port = io.local_addr()?.port();
        let io = UdpSocket::from_std(io)?;
        let buffer = vec![0; BATCH * LONGEST * state.gro_segments()];
        Ok(Self { io, state, port, buffer, sent_bytes: 0, sent: 0, heard: 0 })
    }

    /// The path from one of our addresses.
    pub fn path(&self, from: Ipv4Addr, server: SocketAddr) -> NetworkPath {
        NetworkPath { local: (from, self.port).into(), remote: server }
    }

    /// Sends a datagram; one that the kernel does not take is lost.
    pub fn send(&mut self, path: NetworkPath, contents: &[u8]) {
        let src_ip = Some(path.local.ip());
        let transmit = Transmit { destination: path.remote, ecn: None, contents, segment_size: None, src_ip };
        if self.state.try_send((&self.io).into(), &transmit).is_ok() {
            self.sent += 1;
            self.sent_bytes += contents.len() as u64;
        }
    }

    /// Waits until something can be heard, a millisecond at most.
    pub async fn wait(&self) {
        let _ = timeout(Duration::from_millis(1), self.io.readable()).await;
    }

    /// Hands what has arrived to `hear`.
    pub fn receive(&mut self, mut hear: impl FnMut(NetworkPath, &mut [u8])) {
        let Self { io, state, port, buffer, heard, .. } = self;
        let each = buffer.len() / BATCH;
        loop {
            let mut meta = [RecvMeta::default(); BATCH];
            let mut slices = buffer.chunks_exact_mut(each).map(IoSliceMut::new).collect::<Vec<_>>();
            let read = io.try_io(Interest::READABLE, || state.recv((&*io).into(), &mut slices, &mut meta));
            let count = match read {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            for (meta, bytes) in meta.iter().zip(&mut slices).take(count) {
                let local = meta.dst_ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
                let path = NetworkPath { local: (local, *port).into(), remote: meta.addr };
                for datagram in bytes[..meta.len].chunks_mut(meta.stride.max(1)) {
                    *heard += 1;
                    hear(path, datagram);
                }
            }
        }
    }
}
