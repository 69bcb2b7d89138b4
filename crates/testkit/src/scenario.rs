//! The operation language: what happens in one run, as plain data that prints and replays.

use netsim::{LinkConfig, Loss, link::OutageKind};
use proto::{Dir, Side, TransportConfig};
use units::{BitRate, Duration};

/// UDP payload that Ethernet carries below IPv4.
pub const ETHERNET: u16 = 1_472;

/// Everything that decides a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Decides what is random during the run: losses, jitter, batch sizes, connection ids.
    pub seed: u64,
    /// Paths between the hosts; the first carries the handshake.
    pub paths: Vec<PathPlan>,
    /// The client's settings.
    pub client: TransportConfig,
    /// The server's settings.
    pub server: TransportConfig,
    /// What happens, each with its time after the handshake.
    pub operations: Vec<(Duration, Operation)>,
    /// How long the application of client and server lets readable data lie; zero reads at once.
    pub reader_pause: [Duration; 2],
}

/// A path between the two hosts, one link per direction. Scheduled changes count from the run's start.
#[derive(Clone, Debug)]
pub struct PathPlan {
    /// Client to server.
    pub up: LinkConfig,
    /// Server to client.
    pub down: LinkConfig,
    /// UDP payload of the largest datagram that passes.
    pub mtu: u16,
}

impl PathPlan {
    /// The same both ways.
    pub fn symmetric(link: &LinkConfig) -> Self {
        Self { up: link.clone(), down: link.clone(), mtu: ETHERNET }
    }
}

/// Something that an application or the network does.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A stream is opened, now or as soon as the peer allows, and does what its plan says.
    Stream(StreamPlan),
    /// Application datagrams are sent, as many as fit and the rest as soon as they do.
    Datagrams {
        /// Who sends.
        side: Side,
        /// How many.
        count: u32,
        /// Bytes of each, at least 8, cut to what fits.
        size: usize,
    },
    /// The client opens the path of this index, again and again until the transport lets it.
    OpenPath(usize),
    /// A side closes the path of this index if it is open and not the last.
    ClosePath {
        /// Who closes.
        side: Side,
        /// Which path.
        path: usize,
    },
    /// A side asks to use a path last, or not any more.
    Backup {
        /// Who asks.
        side: Side,
        /// Which path.
        path: usize,
        /// Whether it becomes a backup.
        backup: bool,
    },
    /// Both directions of a path are cut.
    Cut {
        /// Which path.
        path: usize,
        /// What becomes of packets.
        kind: OutageKind,
    },
    /// A cut path works again.
    Restore(usize),
    /// Both directions of a path get another rate.
    Rate(usize, BitRate),
    /// Both directions of a path get another delay.
    Delay(usize, Duration),
    /// Both directions of a path lose packets otherwise than before.
    Loss(usize, Loss),
    /// A path carries datagrams of at most so many bytes.
    Mtu(usize, u16),
    /// A side closes the connection, whatever is under way.
    Close(Side),
}

/// What happens on one stream.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Who opens it.
    pub opener: Side,
    /// Its kind.
    pub dir: Dir,
    /// What the opener sends.
    pub forward: Flow,
    /// What the other side sends back on a bidirectional stream.
    pub back: Flow,
    /// The priority of what the opener sends.
    pub priority: i32,
}

impl StreamPlan {
    /// A stream with so many bytes forward and back, finished by both sides.
    pub fn exchange(opener: Side, forward: u64, back: u64) -> Self {
        let flow = |bytes| Flow { bytes, end: FlowEnd::Finish };
        Self { opener, dir: Dir::Bi, forward: flow(forward), back: flow(back), priority: 0 }
    }
}

/// One direction of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Bytes that the sender means to send.
    pub bytes: u64,
    /// How it ends.
    pub end: FlowEnd,
}

/// How one direction of a stream ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowEnd {
    /// The sender finishes.
    Finish,
    /// The sender resets once so many bytes are written.
    Reset {
        /// Bytes written.
        after: u64,
    },
    /// The receiver stops once so many bytes are read.
    Stop {
        /// Bytes read.
        after: u64,
    },
}
