//! A tunnel of whole IP packets: QUIC datagrams, and a stream for those that are too large for one.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use bytes::Bytes;
use mendpath::{Connection, DatagramOptions, RecvStream, SendDatagramError, SendStream};

use super::{End, Held, Hub, Reserved};
use crate::protocol::MAX_PACKET;

/// Bytes that may wait for the paths' windows: some milliseconds' worth, so that the packets'
/// own congestion control sees a queue as short as a router's would be.
const ROOM: usize = 64 << 10;

/// Which paths packets take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// Those that lose hardly anything by chance, if there are such.
    SteadyPaths,
    /// All.
    AllPaths,
}

impl Via {
    fn options(self) -> DatagramOptions {
        let options = DatagramOptions::new().room(ROOM);
        if self == Self::SteadyPaths { options.steady() } else { options }
    }
}

/// One end of a tunnel.
pub(crate) struct PacketTunnel(End<Bytes>);

impl Reserved<Bytes> {
    /// Begins on the stream of its request, which was granted.
    pub(crate) fn begin(self, stream: (SendStream, RecvStream)) -> PacketTunnel {
        PacketTunnel(self.open(stream, |frame: Vec<u8>| Some(Bytes::from(frame))))
    }
}

impl PacketTunnel {
    /// Takes an id. `None` when it is in use, or the connection has a tunnel.
    pub(crate) fn reserve(hub: &Arc<Hub>, id: u32) -> Option<Reserved<Bytes>> {
        Some(Reserved::new(hub, id, hub.register_tunnel(id)?))
    }

    /// What every datagram begins with.
    pub(crate) fn prefix(&self) -> [u8; super::hub::ID] {
        self.0.route.id.to_be_bytes()
    }

    /// The connection.
    pub(crate) fn connection(&self) -> &Connection {
        self.0.route.hub.connection()
    }

    /// The next datagram from the other end, without its prefix; `None` once the tunnel has ended.
    /// Cancel safe.
    pub(crate) async fn receive(&mut self) -> Option<Held<Bytes>> {
        self.0.arrived.recv().await
    }

    /// One that has come already.
    pub(crate) fn try_receive(&mut self) -> Option<Held<Bytes>> {
        self.0.arrived.try_recv().ok()
    }

    /// Packets that were dropped because too many waited: to be taken at this end, or for the stream.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.large.drops().load(Relaxed)
    }

    /// Sends one for which there was no room as soon as there is. Cancel safe.
    pub(crate) async fn send_wait(connection: &Connection, datagram: Bytes, via: Via) {
        // It may have become too large while it waited; then it is lost, as packets may be.
        let _ = connection.send_datagram_with_wait(datagram, via.options()).await;
    }

    /// How many bytes may leave together now.
    pub(crate) fn room(&self) -> usize {
        ROOM.saturating_sub(self.connection().datagrams_waiting() as usize)
    }

    /// Sends one that repeats what went before it, and is nothing that must arrive. Whether it left.
    pub(crate) fn send_again(&self, datagram: Bytes) -> bool {
        let options = DatagramOptions::new().room(ROOM).apart();
        self.connection().send_datagram_with(datagram, options).is_ok()
    }

    /// Sends datagrams that begin with the [`prefix`](Self::prefix), from the front until the
    /// connection has no room; what is too large for a datagram goes on the stream. Returns how many
    /// those were.
    pub(crate) fn send(&self, datagrams: &mut VecDeque<Bytes>, via: Via) -> u64 {
        self.0.route.hub.sends_tunnelled();
        let mut large = 0;
        loop {
            match self.connection().send_datagrams(datagrams, via.options()) {
                Err(SendDatagramError::TooLarge { .. } | SendDatagramError::Unsupported) => {
                    let Some(datagram) = datagrams.pop_front() else { return large };
                    let frame = datagram[super::hub::ID..].to_vec();
                    if frame.len() <= MAX_PACKET {
                        let bytes = frame.len();
                        self.0.large.offer(frame, bytes);
                    }
                    large += 1;
                }
                Ok(()) | Err(SendDatagramError::Blocked) => return large,
                // Nothing leaves any more.
                Err(_) => {
                    datagrams.clear();
                    return large;
                }
            }
        }
    }
}

#[cfg(test)]
impl PacketTunnel {
    /// Over a connection of its own, whose other end comes with it.
    pub(crate) async fn for_test() -> (Self, Connection) {
        let (client, stream, server) = super::tests::connected().await;
        (Self::reserve(&Arc::new(Hub::new(client)), 1).unwrap().begin(stream), server)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn what_a_tunnel_drops_is_counted_as_that() {
        let (tunnel, other) = PacketTunnel::for_test().await;
        let hub = tunnel.0.route.hub.clone();
        // The writer has no turn.
        for _ in 0..300 {
            let mut large = VecDeque::from([Bytes::from(vec![0; 20_000])]);
            assert_eq!(tunnel.send(&mut large, Via::AllPaths), 1);
        }
        let large = tunnel.dropped();
        assert!(large > 200, "{large}");
        let handing_out = tokio::spawn({
            let hub = hub.clone();
            async move { hub.run().await }
        });
        let datagram = Bytes::from(tunnel.prefix().to_vec());
        // Nobody takes them.
        let crowding = async {
            while tunnel.dropped() == large {
                let _ = other.send_datagram(datagram.clone());
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), crowding).await.expect("they are counted");
        assert_eq!(hub.dropped(), 0, "these are no packets of associations");
        handing_out.abort();
    }
}
