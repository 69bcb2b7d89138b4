//! Invariants of one side of a connection, checked from outside at every step.
//!
//! The checkers know statistics, times and what packets carry, never the transport's own state: a wrong
//! book in the transport does not make them agree with it. Each file is one concern.

mod abandoned;
mod accounts;
mod amplification;
mod books;
pub mod bytes;
mod closing;
pub mod credit;
mod liveness;
mod overheard;
mod window;

use proto::{Connection, NetworkPath, PathId, PathStats, Transmit, TransportConfig};
use units::Instant;

use crate::names::ConnectionId;
use accounts::Accounts;
use amplification::Amplification;
use books::Books;
use closing::{Closing, Ending};
use liveness::Liveness;
use window::Window;

pub use overheard::Overheard;

/// A broken invariant, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{connection:?} at {at}: {kind}")]
pub struct Violation {
    /// Whose.
    pub connection: ConnectionId,
    /// When.
    pub at: Instant,
    /// What.
    pub kind: Broken,
}

/// What broke.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Broken {
    /// A packet took a path over its window without being a probe or a path validation.
    #[error("{path:?} has {in_flight} bytes in flight, its window is {window}; the packet was {what}")]
    OverWindow {
        /// The path.
        path: PathId,
        /// Bytes in flight after the packet.
        in_flight: u64,
        /// Its window.
        window: u64,
        /// `recovery` or `data`.
        what: &'static str,
    },
    /// `poll_transmit` answered something impossible.
    #[error("poll_transmit: {0}")]
    Transmit(String),
    /// More datagrams at one instant than any window explains.
    #[error("{0} datagrams at one instant")]
    Livelock(u64),
    /// Deadlines that lie in the past, or too many that cause nothing.
    #[error("{wakes} timer calls around this instant that sent nothing; the next is at {next:?}")]
    BusyLoop {
        /// How many.
        wakes: u32,
        /// The deadline that the connection names now.
        next: Option<Instant>,
    },
    /// Something is under way, or waits, and no deadline sees to it in time.
    #[error("something is under way, but the next deadline is {next:?}: {what}")]
    Asleep {
        /// The deadline.
        next: Option<Instant>,
        /// What waits.
        what: String,
    },
    /// A closed connection was not gone in time.
    #[error("closed at {closed}, but not drained by {until}")]
    NotDrained {
        /// When it was closed.
        closed: Instant,
        /// When it had to be gone.
        until: Instant,
    },
    /// Packets left on an abandoned path.
    #[error("{packets} packets left on {path:?}, which was abandoned")]
    Abandoned {
        /// The path.
        path: PathId,
        /// How many.
        packets: u64,
    },
    /// The statistics and the network disagree, or a packet is missing.
    #[error("accounts: {0}")]
    Accounts(String),
    /// Statistics contradict each other.
    #[error("statistics: {0}")]
    Books(String),
    /// A memory limit was passed.
    #[error("memory: {0}")]
    Memory(String),
    /// An address that has not shown that it receives got more than three times what it sent (RFC
    /// 9000 section 8).
    #[error("{path:?}: {sent} bytes sent to an unvalidated address that sent {received}")]
    Amplification {
        /// The addresses.
        path: NetworkPath,
        /// Bytes sent to it.
        sent: u64,
        /// Bytes it sent.
        received: u64,
    },
}

impl Broken {
    /// The checker that complains.
    pub fn name(&self) -> &'static str {
        match self {
            Self::OverWindow { .. } => "window",
            Self::Transmit(_) => "transmit",
            Self::Livelock(_) | Self::BusyLoop { .. } => "liveness",
            Self::Asleep { .. } => "asleep",
            Self::NotDrained { .. } => "closing",
            Self::Abandoned { .. } => "abandoned",
            Self::Accounts(_) => "accounts",
            Self::Books(_) => "books",
            Self::Memory(_) => "memory",
            Self::Amplification { .. } => "amplification",
        }
    }
}

/// Everything that is checked of one side of a connection.
pub struct Checks {
    connection: ConnectionId,
    overheard: Overheard,
    window: Window,
    liveness: Liveness,
    books: Books,
    amplification: Amplification,
    accounts: Accounts,
    closing: Closing,
    mtu: u16,
    /// The same of an only path, whose host may have said that its own link carries more.
    only_path_mtu: u16,
    /// What that may come to.
    jumbo: u16,
    /// There is always a deadline, which says nothing.
    keeps_alive: bool,
}

impl Checks {
    /// Checks of a fresh connection with these settings, which `overheard` listens to.
    pub fn new(connection: ConnectionId, transport: &TransportConfig, overheard: &Overheard) -> Self {
        Self {
            connection,
            overheard: overheard.beside(None),
            window: Window::default(),
            liveness: Liveness::default(),
            books: Books::new(transport),
            amplification: Amplification::default(),
            accounts: Accounts::default(),
            closing: Closing::default(),
            mtu: transport.max_datagram_size,
            only_path_mtu: transport.max_datagram_size,
            jumbo: transport.jumbo_datagram_size,
            keeps_alive: transport.keep_alive.is_some(),
        }
    }

    /// A timer was handled: the paths before and after.
    pub fn on_timeout(&mut self, before: &[PathStats], after: &[PathStats]) {
        self.window.on_timeout(before, after);
    }

    /// What followed from a timer has been sent; `next` is the next one.
    ///
    /// # Errors
    /// A broken invariant.
    pub fn after_timeout(&mut self, now: Instant, next: Option<Instant>, sent: u64) -> Result<(), Violation> {
        let result = self.liveness.after_timeout(now, next, sent);
        self.at(now, result)
    }

    /// A datagram of `size` bytes arrived.
    pub fn on_arrival(&mut self, path: NetworkPath, size: u64) {
        self.amplification.on_arrival(path, size);
        self.accounts.on_arrival(path, size);
        self.liveness.on_arrival();
    }

    /// The connection was told that its host's own link carries datagrams of `size` bytes.
    pub fn on_link_size(&mut self, size: u16) {
        self.only_path_mtu = self.only_path_mtu.max(size.min(self.jumbo));
    }

    /// `poll_transmit` answered: `bytes` lie in the buffer, `asked` datagrams were allowed. The
    /// paths are those before and after.
    ///
    /// # Errors
    /// A broken invariant.
    pub fn on_transmit(
        &mut self,
        now: Instant,
        transmit: &Transmit,
        bytes: usize,
        asked: usize,
        [before, after]: [&[PathStats]; 2],
        connection: &Connection,
    ) -> Result<(), Violation> {
        let is_free = self.overheard.take_free();
        let result = self.shape(transmit, bytes, asked, after.len()).and_then(|datagrams| {
            self.liveness.on_transmit(now, datagrams)?;
            self.window.on_transmit(is_free || connection.is_handshaking(), before, after)?;
            self.books.on_transmit(before, after, connection)?;
            self.accounts.on_transmit(transmit, before, after)?;
            abandoned::check(before, after, connection.is_closed())?;
            self.amplification.on_transmit(transmit, after, connection.side())
        });
        self.at(now, result)
    }

    /// Nothing is left to be sent at this moment; `next` is the next deadline.
    ///
    /// # Errors
    /// A broken invariant.
    pub fn when_idle(
        &mut self,
        now: Instant,
        next: Option<Instant>,
        paths: &[PathStats],
        connection: &Connection,
    ) -> Result<(), Violation> {
        self.amplification.when_idle(paths);
        let ending = Ending::of(connection);
        let result = self.closing.check(now, ending, || connection.paths()).and_then(|()| {
            if ending != Ending::Open || connection.is_handshaking() {
                return Ok(());
            }
            if !self.keeps_alive && liveness::is_soon(now, next) {
                return Ok(());
            }
            liveness::attended(now, next, paths, &connection.stream_stats())?;
            // The transport's own word, which debug builds ask for at every step.
            let asleep = |what: &str| Broken::Asleep { next, what: what.into() };
            connection.neglected(now).map_or(Ok(()), |what| Err(asleep(what)))
        });
        self.at(now, result)
    }

    /// The host stands still until then.
    pub fn on_sleep(&mut self, until: Instant) {
        self.closing.on_sleep(until);
    }

    /// Everything that statistics say, looked at once more.
    ///
    /// # Errors
    /// A broken invariant.
    pub fn at_end(&self, now: Instant, connection: &Connection) -> Result<(), Violation> {
        let stats = connection.stats();
        let books = self.books.check(connection);
        self.at(now, books.and_then(|()| self.accounts.check(stats.bytes_sent, stats.bytes_received)))
    }

    /// How many datagrams the answer is, if it is possible.
    fn shape(&self, transmit: &Transmit, bytes: usize, asked: usize, paths: usize) -> Result<u64, Broken> {
        let mtu = if paths > 1 { self.mtu } else { self.only_path_mtu };
        let segment = transmit.segment_size.unwrap_or(transmit.size);
        let wrong = if transmit.size == 0 || segment == 0 {
            "an empty datagram"
        } else if transmit.size != bytes {
            "the size is not that of the buffer"
        } else if segment > usize::from(mtu).max(1_200) {
            "a datagram larger than the path carries"
        } else if transmit.size.div_ceil(segment) > asked {
            "more datagrams than asked for"
        } else {
            return Ok(transmit.size.div_ceil(segment) as u64);
        };
        Err(Broken::Transmit(format!("{wrong}: {transmit:?}, {bytes} bytes, {asked} asked for")))
    }

    fn at(&self, now: Instant, result: Result<(), Broken>) -> Result<(), Violation> {
        result.map_err(|kind| Violation { connection: self.connection, at: now, kind })
    }
}

#[cfg(test)]
mod tests {
    use netsim::{LinkConfig, Seed};
    use proto::{PathStats, Transmit};
    use units::Duration;

    use crate::{scenario::default_transport, world::World};

    /// Statistics of two healthy paths, for checkers to be shown doctored ones.
    pub(super) fn paths() -> Vec<PathStats> {
        let mut world = World::new(Seed(1), false);
        let at = |host: u8, path: u8| std::net::SocketAddr::from(([10, path, 0, host], 1_000));
        let servers = [at(1, 0), at(1, 1)];
        world.add_host(&servers, Some(&default_transport()));
        let client = world.add_host(&[at(2, 0), at(2, 1)], None);
        let link = LinkConfig::new().delay(Duration::from_millis(10));
        let networks = [0, 1].map(|i| proto::NetworkPath { local: at(2, i), remote: at(1, i) });
        networks.iter().for_each(|n| _ = world.join(n.local, n.remote, &link, &link));
        let id = world.connect(client, &default_transport(), networks[0]);
        world.run_until(units::Instant::ORIGIN + Duration::from_secs(1));
        world.with(id, |c, now| c.open_path(now, networks[1])).unwrap();
        world.run_until(units::Instant::ORIGIN + Duration::from_secs(2));
        world.connection(id).paths()
    }

    /// What the transport asserts of itself: asked as if it were long ago, the same deadlines are
    /// far too late.
    #[test]
    fn the_transport_sees_what_waits_for_a_deadline_that_is_far_away() {
        let mut world = World::new(Seed(1), false);
        let at = |host: u8| std::net::SocketAddr::from(([10, 0, 0, host], 1_000));
        world.add_host(&[at(1)], Some(&default_transport()));
        let client = world.add_host(&[at(2)], None);
        let link = LinkConfig::new().delay(Duration::from_millis(10));
        world.join(at(2), at(1), &link, &link);
        let network = proto::NetworkPath { local: at(2), remote: at(1) };
        let id = world.connect(client, &default_transport(), network);
        let (then, now) = (units::Instant::ORIGIN, units::Instant::ORIGIN + Duration::from_secs(20));
        world.run_until(now);
        assert_eq!(world.connection(id).neglected(then), None, "nothing waits, only the idle timeout runs");
        world.with(id, |c, _| {
            let stream = c.open(proto::Dir::Uni).unwrap();
            c.write(stream, b"what waits").unwrap();
        });
        assert_eq!(world.connection(id).neglected(now), None);
        assert_eq!(world.connection(id).neglected(then), Some("stream data waits to be acknowledged"));
        world.run_until(now + Duration::from_secs(1));
        assert_eq!(world.connection(id).neglected(then), None, "it has been");
    }

    pub(super) fn transmit(path: &PathStats, size: usize) -> Transmit {
        Transmit { path: path.network, ecn: None, size, segment_size: None }
    }
}
