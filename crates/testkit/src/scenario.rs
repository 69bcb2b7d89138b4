//! The operation language: what happens in one run, as plain data that prints and replays.

use netsim::{LinkConfig, Loss, link::OutageKind};
use proto::{Dir, Side, TransportConfig};
use units::{BitRate, Duration, LossRate};

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
    /// What happens, each with its time after the handshake. Faults at time zero hit packets of the
    /// handshake, too.
    pub operations: Vec<(Duration, Operation)>,
    /// How long the application of client and server lets readable data lie; zero reads at once.
    pub reader_pause: [Duration; 2],
}

/// A path between the two hosts, one link per direction. Scheduled changes count from the run's
/// start.
#[derive(Clone, Debug)]
pub struct PathPlan {
    /// Client to server.
    pub up: LinkConfig,
    /// Server to client.
    pub down: LinkConfig,
    /// UDP payload of the largest datagram that passes.
    pub mtu: u16,
    /// UDP payload of the largest datagram that the hosts' own links carry, which they know.
    pub local_mtu: u16,
}

/// What a scenario's sides are set to unless it says otherwise: the transport's defaults, with an
/// idle timeout that no planned silence reaches.
pub fn default_transport() -> TransportConfig {
    TransportConfig { max_idle_timeout: Duration::from_secs(200).into(), ..TransportConfig::default() }
}

impl PathPlan {
    /// The same both ways.
    pub fn symmetric(link: &LinkConfig) -> Self {
        Self { up: link.clone(), down: link.clone(), mtu: ETHERNET, local_mtu: ETHERNET }
    }
}

/// Something that an application or the network does.
#[derive(Clone, PartialEq, Debug)]
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
    /// A path is cut.
    Cut {
        /// Which path.
        path: usize,
        /// Which way.
        way: Way,
        /// What becomes of packets.
        kind: OutageKind,
    },
    /// A cut path works again.
    Restore {
        /// Which path.
        path: usize,
        /// Which way.
        way: Way,
    },
    /// Both directions of a path get another rate.
    Rate(usize, BitRate),
    /// Both directions of a path get another delay.
    Delay(usize, Duration),
    /// Both directions of a path lose packets otherwise than before.
    Loss(usize, Loss),
    /// A path carries datagrams of at most so many bytes.
    Mtu(usize, u16),
    /// What a path does to congestion marks from now on.
    Ecn(usize, Option<EcnTreatment>),
    /// Such a share of a path's packets, both ways, arrives with inverted bits from now on.
    Corrupt(usize, LossRate),
    /// Something happens to certain packets of a path.
    Fault {
        /// Which path.
        path: usize,
        /// Which way they go.
        way: Way,
        /// Packets that come before, in each direction.
        skip: u32,
        /// How many are hit, in each direction.
        count: u32,
        /// What happens to each.
        what: Fault,
    },
    /// A host, or both, stands still: neither timers nor packets nor its application wake it before
    /// the time is over.
    Sleep {
        /// Whose; `None` stops both.
        side: Option<Side>,
        /// For how long.
        time: Duration,
    },
    /// A side's application reads nothing for a while, whatever arrives.
    PauseReading {
        /// Whose.
        side: Side,
        /// For how long.
        time: Duration,
    },
    /// A translator on the way gives the client's end of a path another port.
    Rebind(usize),
    /// A side updates its keys as soon as it may.
    UpdateKeys(Side),
    /// A side closes the connection, whatever is under way.
    Close(Side),
}

impl Operation {
    /// The word that it begins with in text, and under which it is counted.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stream(_) => "stream",
            Self::Datagrams { .. } => "datagrams",
            Self::OpenPath(_) => "open-path",
            Self::ClosePath { .. } => "close-path",
            Self::Backup { .. } => "backup",
            Self::Cut { .. } => "cut",
            Self::Restore { .. } => "restore",
            Self::Rate(..) => "rate",
            Self::Delay(..) => "delay",
            Self::Loss(..) => "loss",
            Self::Mtu(..) => "mtu",
            Self::Ecn(..) => "ecn",
            Self::Corrupt(..) => "corrupt",
            Self::Fault { what, .. } => what.name(),
            Self::Sleep { .. } => "sleep",
            Self::PauseReading { .. } => "pause-reading",
            Self::Rebind(_) => "rebind",
            Self::UpdateKeys(_) => "update-keys",
            Self::Close(_) => "close",
        }
    }

    /// The path that it is about.
    pub fn path(&self) -> Option<usize> {
        self.clone().path_mut().copied()
    }

    /// The path that it is about, to change it.
    pub fn path_mut(&mut self) -> Option<&mut usize> {
        match self {
            Self::OpenPath(path)
            | Self::ClosePath { path, .. }
            | Self::Backup { path, .. }
            | Self::Cut { path, .. }
            | Self::Restore { path, .. }
            | Self::Rate(path, _)
            | Self::Delay(path, _)
            | Self::Loss(path, _)
            | Self::Mtu(path, _)
            | Self::Ecn(path, _)
            | Self::Corrupt(path, _)
            | Self::Fault { path, .. }
            | Self::Rebind(path) => Some(path),
            Self::Stream(_)
            | Self::Datagrams { .. }
            | Self::Sleep { .. }
            | Self::PauseReading { .. }
            | Self::UpdateKeys(_)
            | Self::Close(_) => None,
        }
    }
}

/// One direction of a path, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
    /// Either.
    Both,
}

/// What the network between two addresses does to marked packets, beside marking CE where a link's
/// queue is above its threshold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcnTreatment {
    /// Clears marks.
    Bleach,
    /// Drops marked packets.
    Drop,
    /// Writes CE over every mark.
    MarkAll,
}

/// What happens to a packet on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It vanishes.
    Drop,
    /// It comes again, so much later.
    Duplicate(Duration),
    /// It takes so much longer than its neighbours.
    Detour(Duration),
    /// So many of its bits are inverted.
    Flip(u32),
    /// Only so many of its bytes arrive.
    Truncate(u32),
    /// So many bytes of garbage follow it.
    Append(u32),
    /// Somebody sends a copy from another address, so much later; one without delay is there before
    /// the packet.
    Replay(Duration),
}

impl Fault {
    /// The word that stands for it in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Duplicate(_) => "duplicate",
            Self::Detour(_) => "detour",
            Self::Flip(_) => "flip",
            Self::Truncate(_) => "truncate",
            Self::Append(_) => "append",
            Self::Replay(_) => "replay",
        }
    }
}

/// What happens on one stream.
#[derive(Clone, PartialEq, Eq, Debug)]
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
        let flow = |bytes| Flow { bytes, ..Flow::EMPTY };
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

impl Flow {
    /// Nothing, and its end.
    pub const EMPTY: Self = Self { bytes: 0, end: FlowEnd::Finish };
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
    /// The sender finishes, but the receiver reads nothing before every other flow has ended.
    Unread,
}
