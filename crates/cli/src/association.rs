//! UDP through the connection, the same on both ends: packets travel as QUIC datagrams, and on the
//! association's stream when they are too large for one.

mod hub;
#[cfg(all(feature = "tunnel", target_os = "linux"))]
mod packets;
mod queue;

pub use hub::{Hub, MAX_ASSOCIATIONS};
#[cfg(all(feature = "tunnel", target_os = "linux"))]
pub(crate) use packets::{PacketTunnel, Via};
#[cfg(test)]
pub use queue::held_for_tests;
pub use queue::{CONNECTION_BYTES, Held, QUEUE_BYTES};

use std::{io, sync::Arc};

use mendpath::{RecvStream, SendStream};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::{mpsc, oneshot},
};
use tracing::debug;

use self::{
    hub::{Registered, Sent},
    queue::Inlet,
};
use crate::{
    protocol::{MAX_PACKET, Packet, StreamCode, write_frame},
    splice::Abort as _,
};

/// An id that is taken, and whose datagrams wait for the association, or the tunnel, to begin.
pub struct Reserved<T> {
    route: Route,
    arrivals: Inlet<T>,
    arrived: mpsc::Receiver<Held<T>>,
}

/// One end of an association.
pub struct Association(End<Packet>);

/// What has begun: the way of packets from the other end, and that of large ones towards it.
struct End<T> {
    route: Arc<Route>,
    arrived: mpsc::Receiver<Held<T>>,
    large: Inlet<Vec<u8>>,
    /// Ends the writer when it is dropped.
    _alive: oneshot::Sender<()>,
}

/// The way of datagrams to an end, until it is dropped.
struct Route {
    hub: Arc<Hub>,
    id: u32,
    number: u64,
}

impl Association {
    /// Takes an id. `None` when it is in use or the hub is full.
    pub fn reserve(hub: &Arc<Hub>, id: u32) -> Option<Reserved<Packet>> {
        Some(Reserved::new(hub, id, hub.register(id)?))
    }

    /// Begins on the association's stream, after its request was granted. `None` when the id is in
    /// use or the hub is full.
    pub fn begin(hub: &Arc<Hub>, id: u32, stream: (SendStream, RecvStream)) -> Option<Self> {
        Some(Self::reserve(hub, id)?.begin(stream))
    }

    /// Whether it belongs to that connection.
    pub fn is_of(&self, hub: &Arc<Hub>) -> bool {
        Arc::ptr_eq(&self.0.route.hub, hub)
    }

    /// Sends a packet to the other end; drops it when the connection is full, as UDP does. Whether it went.
    pub fn send(&self, packet: &Packet) -> bool {
        match self.0.route.hub.send(self.0.route.id, packet) {
            Sent::Yes => true,
            Sent::Dropped => false,
            Sent::TooLarge => self.send_surely(packet),
        }
    }

    /// Sends a packet on the association's stream, where a loss is mended: for small packets whose
    /// sender would wait for seconds. Drops it when too many wait. Whether it went.
    pub fn send_surely(&self, packet: &Packet) -> bool {
        let frame = packet.encode();
        if frame.len() > MAX_PACKET {
            debug!(association = self.0.route.id, "dropped a packet that is too large");
            return false;
        }
        let bytes = frame.len();
        self.0.large.takes(frame, bytes)
    }

    /// The next packet from the other end; `None` once the association has ended. Cancel safe.
    pub async fn receive(&mut self) -> Option<Held<Packet>> {
        self.0.arrived.recv().await
    }
}

impl Reserved<Packet> {
    /// Begins on the association's stream, after its request was granted.
    pub fn begin(self, stream: (SendStream, RecvStream)) -> Association {
        Association(self.open(stream, |frame: Vec<u8>| Packet::decode(&frame).ok()))
    }
}

impl<T: Send + 'static> Reserved<T> {
    fn new(hub: &Arc<Hub>, id: u32, (number, arrivals, arrived): Registered<T>) -> Self {
        Self { route: Route { hub: hub.clone(), id, number }, arrivals, arrived }
    }

    fn open(self, (send, receive): (SendStream, RecvStream), decode: fn(Vec<u8>) -> Option<T>) -> End<T> {
        let Self { route, arrivals, arrived } = self;
        let (large, to_write) = route.hub.large_packets(&arrivals);
        let (alive, ended) = oneshot::channel();
        let route = Arc::new(route);
        // Packets that programs send one by one: they are few, and late ones are of no use.
        send.set_priority(1);
        tokio::spawn(write_large(send, to_write, ended));
        tokio::spawn(read_large(receive, arrivals, route.clone(), decode));
        End { route, arrived, large, _alive: alive }
    }
}

impl Route {
    fn close(&self) {
        self.hub.unregister(self.id, self.number);
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        self.close();
    }
}

impl Drop for Association {
    fn drop(&mut self) {
        self.0.route.close();
    }
}

/// Writes packets too large for a datagram. The stream ends with the association, also in the
/// middle of a packet that the other end does not read.
async fn write_large(
    mut stream: SendStream,
    mut packets: mpsc::Receiver<Held<Vec<u8>>>,
    ended: oneshot::Receiver<()>,
) {
    let writing = async {
        while let Some(frame) = packets.recv().await {
            write_frame(&mut stream, &frame.packet).await?;
        }
        io::Result::Ok(())
    };
    let written = tokio::select! {
        biased;
        written = writing => written.is_ok(),
        _ = ended => false,
    };
    if written {
        let _ = stream.finish();
    } else {
        stream.abort(StreamCode::Cancelled);
    }
}

/// Reads packets from the stream; its end ends the association.
async fn read_large<T>(
    mut stream: RecvStream,
    arrivals: Inlet<T>,
    route: Arc<Route>,
    decode: fn(Vec<u8>) -> Option<T>,
) {
    let reading = async { while read_packet(&mut stream, &arrivals, decode).await.is_some() {} };
    tokio::select! {
        () = reading => {}
        () = arrivals.closed() => {}
    }
    stream.abort(StreamCode::Cancelled);
    route.close();
}

/// Reads one packet, or reads over one that there is no room for; `None` at the end, and where the
/// stream makes no sense. The room is made before the bytes are read: a packet that never becomes
/// complete counts as well.
async fn read_packet<T>(
    stream: &mut (impl AsyncRead + Unpin),
    arrivals: &Inlet<T>,
    decode: fn(Vec<u8>) -> Option<T>,
) -> Option<()> {
    let length = stream.read_u16().await.ok()?;
    let Some(room) = arrivals.room(length.into()) else {
        let over = tokio::io::copy(&mut stream.take(length.into()), &mut tokio::io::sink()).await.ok()?;
        return (over == u64::from(length)).then_some(());
    };
    let mut frame = vec![0; length.into()];
    stream.read_exact(&mut frame).await.ok()?;
    arrivals.put(decode(frame)?, room);
    Some(())
}

#[cfg(test)]
pub(crate) mod tests {
    use mendpath::{ClientConfig, Connection, Endpoint};

    use super::*;
    use crate::{
        identity::{CERTIFICATE_NAME, Identity},
        protocol::ALPN,
        transport::Choice,
    };

    /// Both ends of a connection; the first end opened a stream.
    pub(crate) async fn connected() -> (Connection, (SendStream, RecvStream), Connection) {
        let state = tempfile::tempdir().unwrap();
        let identity = Identity::load_or_create(state.path()).unwrap();
        let any = ([127, 0, 0, 1], 0).into();
        let transport = Choice::default().config(std::time::Duration::from_secs(60), 4);
        let server = crate::server::listen(any, &identity, transport, 1).unwrap();
        let config = ClientConfig::with_pinned_key(identity.server.pin()).alpn([ALPN]);
        let client = Endpoint::client(any).unwrap();
        let connecting = client.connect_with(&config, server.local_addrs()[0], CERTIFICATE_NAME).unwrap();
        let accepting = async { server.accept().await.unwrap().await.unwrap() };
        let (client, server) = tokio::join!(connecting, accepting);
        let client = client.unwrap();
        // Else the client may open one stream.
        server.admit();
        let stream = client.open_bi().await.unwrap();
        (client, stream, server)
    }

    fn large() -> Packet {
        Packet { peer: "192.0.2.1:53".parse().unwrap(), payload: vec![0; 60_000] }
    }

    /// The other end never reads: the writer stands still in the middle of a packet, and others
    /// wait behind it.
    #[tokio::test]
    async fn a_writer_ends_with_its_association() {
        let (connection, stream, _other) = connected().await;
        let hub = Arc::new(Hub::new(connection));
        let association = Association::begin(&hub, 1, stream).unwrap();
        assert!(Association::reserve(&hub, 1).is_none(), "the id is in use");
        while hub.dropped() < 20_000 {
            association.send(&large());
            tokio::task::yield_now().await;
            assert!(hub.held().1 <= QUEUE_BYTES);
        }
        assert!(hub.held().1 > 0);
        drop(association);
        while hub.held() != (0, 0) {
            tokio::task::yield_now().await;
        }
        assert!(Association::reserve(&hub, 1).is_some());
    }

    #[tokio::test]
    async fn what_the_connection_has_no_room_for_is_counted() {
        let (connection, stream, _other) = connected().await;
        let hub = Arc::new(Hub::new(connection));
        let association = Association::begin(&hub, 1, stream).unwrap();
        let packet = Packet { peer: "192.0.2.1:9".parse().unwrap(), payload: vec![0; 1_000] };
        // Nothing leaves meanwhile, as the connection's own task has no turn.
        let went = (0..2_000).filter(|_| association.send(&packet)).count() as u64;
        assert!((500..1_500).contains(&went), "a megabyte may wait: {went}");
        assert_eq!(hub.dropped(), 2_000 - went);
    }

    /// As a call beside a download; the other direction goes through the same.
    #[tokio::test]
    async fn an_association_that_sends_little_passes_one_that_fills_the_connection() {
        let (connection, stream, other) = connected().await;
        let another = connection.open_bi().await.unwrap();
        let hub = Arc::new(Hub::new(connection.clone()));
        let download = Association::begin(&hub, 1, stream).unwrap();
        let call = Association::begin(&hub, 2, another).unwrap();
        let packet = Packet { peer: "192.0.2.1:9".parse().unwrap(), payload: vec![0; 1_000] };
        // Nothing leaves meanwhile, as the connection's own task has no turn.
        while download.send(&packet) {}
        assert!(call.send(&packet), "there is no room, and it gets some");
        assert_eq!((hub.dropped(), connection.stats().datagrams_dropped), (1, 1));
        let mut before = 0;
        let comes = async {
            while other.read_datagram().await.unwrap()[..4] != 2u32.to_be_bytes() {
                before += 1;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), comes).await.expect("it comes");
        assert!(before <= 1, "{before} of the download were before it");
    }

    /// The other end sends, and this one takes nothing.
    #[tokio::test]
    async fn arrivals_that_nobody_takes_are_dropped() {
        let (connection, stream, other) = connected().await;
        let (here, there) = (Arc::new(Hub::new(connection)), Arc::new(Hub::new(other.clone())));
        let mut here_association = Association::begin(&here, 1, stream).unwrap();
        here_association.send(&large());
        let there_association = Association::begin(&there, 1, other.accept_bi().await.unwrap()).unwrap();
        while here.dropped() < 100 {
            there_association.send(&large());
            tokio::task::yield_now().await;
            assert!(here.held().0 <= QUEUE_BYTES);
        }
        assert_eq!(here_association.receive().await.unwrap().packet, large(), "what was kept is whole");
        drop(there_association);
        while here_association.receive().await.is_some() {}
        assert_eq!(here.held().0, 0);
    }
}
