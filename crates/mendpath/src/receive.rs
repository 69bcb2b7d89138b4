//! The task that receives on one socket.

use std::{io::IoSliceMut, sync::Arc};

use proto::{ConnectionEvent, ConnectionHandle, Datagram, EndpointOutput, NetworkPath, Transmit};
use quinn_udp::RecvMeta;
use tracing::{debug, trace};

use crate::{
    clock,
    endpoint::{Arrivals, Inner},
    socket::{self, Socket},
};

/// Buffers per system call.
const SLOTS: usize = 16;

/// Bytes per buffer: the kernel coalesces datagrams up to this size.
const SLOT_SIZE: usize = 65_535;

/// Datagrams received before other tasks get their turn.
const BUDGET: usize = 256;

/// Failures in a row after which a socket is given up.
const MAX_FAILURES: u32 = 64;

/// Receives until the socket's end of life; then the endpoint lets go of it.
pub(crate) async fn receive(endpoint: Arc<Inner>, socket: Arc<Socket>) {
    tokio::select! {
        biased;
        () = socket.end_of_life() => {}
        () = receive_forever(&endpoint, &socket) => {}
    }
    debug!(local = %socket.local(), "socket closed");
    endpoint.sockets.remove(&socket);
}

/// Returns only if the socket does not work any more.
async fn receive_forever(endpoint: &Arc<Inner>, socket: &Socket) {
    let mut buffer = vec![0; SLOTS * SLOT_SIZE];
    let mut router = Router::default();
    let mut failures = 0;
    let mut since_yield = 0;
    loop {
        if let Err(error) = socket.readable().await {
            debug!(local = %socket.local(), %error, "the socket is gone");
            return;
        }
        let mut meta = [RecvMeta::default(); SLOTS];
        match receive_batch(socket, &mut buffer, &mut meta) {
            Ok(used) => {
                failures = 0;
                since_yield += router.route(endpoint, socket, &mut buffer, &meta[..used]);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            // An interface that goes away, or news by ICMP: other paths go on, and this one may come back.
            Err(error) if failures < MAX_FAILURES => {
                failures += 1;
                debug!(local = %socket.local(), %error, "cannot receive");
            }
            Err(error) => {
                debug!(local = %socket.local(), %error, "the socket is given up");
                return;
            }
        }
        if since_yield >= BUDGET {
            since_yield = 0;
            tokio::task::yield_now().await;
        }
    }
}

fn receive_batch(socket: &Socket, buffer: &mut [u8], meta: &mut [RecvMeta; SLOTS]) -> std::io::Result<usize> {
    let mut slots = buffer.chunks_exact_mut(SLOT_SIZE);
    let mut slots: [IoSliceMut<'_>; SLOTS] =
        std::array::from_fn(|_| IoSliceMut::new(slots.next().unwrap_or_default()));
    socket.try_recv(&mut slots, meta)
}

/// Takes datagrams to their connections, with one hand-over for those that follow each other.
#[derive(Default)]
struct Router {
    /// Datagrams for `run`, in order.
    events: Vec<ConnectionEvent>,
    run: Option<ConnectionHandle>,
    /// What the endpoint itself answers is written here.
    reply: Vec<u8>,
}

impl Router {
    /// Returns the number of datagrams.
    fn route(
        &mut self,
        endpoint: &Arc<Inner>,
        socket: &Socket,
        buffer: &mut [u8],
        meta: &[RecvMeta],
    ) -> usize {
        let now = clock::now();
        let mut count = 0;
        for (meta, slot) in meta.iter().zip(buffer.chunks_exact_mut(SLOT_SIZE)) {
            let path = socket.path_of(meta);
            let ecn = socket::ecn(meta);
            let mut arrivals = endpoint.arrivals();
            for data in slot[..meta.len].chunks_mut(meta.stride.max(1)) {
                count += 1;
                self.reply.clear();
                let datagram = Datagram { path, ecn, data };
                match arrivals.handle_datagram(now, datagram, &mut self.reply) {
                    Some(EndpointOutput::ToConnection(handle, event)) => self.push(&arrivals, handle, event),
                    Some(EndpointOutput::Accepted(handle, connection)) => {
                        arrivals.accept(handle, path.remote, connection);
                    }
                    Some(EndpointOutput::Reply(transmit)) => reply(socket, &transmit, &self.reply),
                    None => {}
                }
            }
            self.flush(&arrivals);
        }
        count
    }

    fn push(&mut self, arrivals: &Arrivals<'_>, handle: ConnectionHandle, event: ConnectionEvent) {
        if self.run != Some(handle) {
            self.flush(arrivals);
            self.run = Some(handle);
        }
        self.events.push(event);
    }

    fn flush(&mut self, arrivals: &Arrivals<'_>) {
        if let Some(handle) = self.run.take() {
            arrivals.deliver(handle, &mut self.events);
        }
    }
}

/// Answers without a connection: version negotiation, Retry, stateless reset. Nobody waits if the socket is full.
fn reply(socket: &Socket, transmit: &Transmit, bytes: &[u8]) {
    if let (_, Err(error)) = socket.try_send(transmit, bytes, 0) {
        let NetworkPath { local, remote } = transmit.path;
        trace!(%local, %remote, %error, "answer not sent");
    }
}
