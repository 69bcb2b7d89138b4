//! UDP through the connection, the same on both ends: packets travel as QUIC datagrams, and on the association's stream when they
//! are too large for one.

mod hub;

pub use hub::{Hub, MAX_ASSOCIATIONS};

use std::sync::Arc;

use mendpath::{RecvStream, SendStream};
use tokio::sync::mpsc;
use tracing::debug;

use crate::protocol::{MAX_PACKET, Packet, read_frame, write_frame};

/// Packets that may wait for a slow reader or for the stream; more are dropped, as UDP does.
const WAITING: usize = 256;

/// One end of an association.
pub struct Association {
    id: u32,
    hub: Arc<Hub>,
    arrived: mpsc::Receiver<Packet>,
    large: mpsc::Sender<Vec<u8>>,
}

impl Association {
    /// Begins on the association's stream, after its request was granted. `None` when the id is in use or the hub is full.
    pub fn begin(hub: &Arc<Hub>, id: u32, stream: (SendStream, RecvStream)) -> Option<Self> {
        let (arrivals, arrived) = mpsc::channel(WAITING);
        hub.register(id, arrivals.clone())?;
        let (large, to_write) = mpsc::channel(WAITING);
        let (send, receive) = stream;
        // Packets that programs send one by one: they are few, and late ones are of no use.
        send.set_priority(1);
        tokio::spawn(write_large(send, to_write));
        tokio::spawn(read_large(receive, arrivals, hub.clone(), id));
        Some(Self { id, hub: hub.clone(), arrived, large })
    }

    /// Sends a packet to the other end; drops it when the connection is full, as UDP does.
    pub fn send(&self, packet: &Packet) {
        if self.hub.send(self.id, packet) {
            return;
        }
        let frame = packet.encode();
        if frame.len() > MAX_PACKET || self.large.try_send(frame).is_err() {
            debug!(association = self.id, "dropped a packet: too large, or too many are waiting");
        }
    }

    /// The next packet from the other end; `None` once the association has ended. Cancel safe.
    pub async fn receive(&mut self) -> Option<Packet> {
        self.arrived.recv().await
    }
}

impl Drop for Association {
    fn drop(&mut self) {
        self.hub.unregister(self.id);
    }
}

/// Writes packets too large for a datagram; ends the stream with the association.
async fn write_large(mut stream: SendStream, mut packets: mpsc::Receiver<Vec<u8>>) {
    while let Some(packet) = packets.recv().await {
        if write_frame(&mut stream, &packet).await.is_err() {
            return;
        }
    }
    let _ = stream.finish();
}

/// Reads packets from the stream; its end ends the association.
async fn read_large(mut stream: RecvStream, arrivals: mpsc::Sender<Packet>, hub: Arc<Hub>, id: u32) {
    loop {
        let frame = tokio::select! {
            frame = read_frame(&mut stream, MAX_PACKET) => frame,
            () = arrivals.closed() => return,
        };
        let Ok(Some(frame)) = frame else { break };
        let Ok(packet) = Packet::decode(&frame) else { break };
        let _ = arrivals.try_send(packet);
    }
    hub.unregister(id);
}
