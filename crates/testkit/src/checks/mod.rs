//! Invariants of one side of a connection, checked from outside at every step.
//!
//! The checkers know statistics and times, never the transport's own state: a wrong book in the transport does not make them
//! agree with it. Each file is one concern.

mod amplification;
mod books;
mod liveness;
mod window;

use proto::{Connection, NetworkPath, PathId, PathStats, Transmit, TransportConfig};
use units::Instant;

use crate::world::ConnectionId;
use amplification::Amplification;
use books::Books;
use liveness::Liveness;
use window::Window;

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
    /// Statistics contradict each other.
    #[error("statistics: {0}")]
    Books(String),
    /// A memory limit was passed.
    #[error("memory: {0}")]
    Memory(String),
    /// An address that has not shown that it receives got more than three times what it sent (RFC 9000 section 8).
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

/// Everything that is checked of one side of a connection.
pub struct Checks {
    connection: ConnectionId,
    window: Window,
    liveness: Liveness,
    books: Books,
    amplification: Amplification,
    mtu: u16,
}

impl Checks {
    /// Checks of a fresh connection with these settings.
    pub fn new(connection: ConnectionId, transport: &TransportConfig) -> Self {
        Self {
            connection,
            window: Window::default(),
            liveness: Liveness::default(),
            books: Books::new(transport),
            amplification: Amplification::default(),
            mtu: transport.max_datagram_size,
        }
    }

    /// A timer was handled: the paths before and after.
    pub fn on_timeout(&mut self, before: &[PathStats], after: &[PathStats]) {
        self.window.on_timeout(before, after);
    }

    /// What followed from a timer has been sent.
    ///
    /// # Errors
    /// A broken invariant.
    pub fn after_timeout(
        &mut self,
        now: Instant,
        connection: &Connection,
        sent: u64,
    ) -> Result<(), Violation> {
        let result = self.liveness.after_timeout(now, connection.poll_timeout(), sent);
        self.at(now, result)
    }

    /// A datagram of `size` bytes arrived.
    pub fn on_arrival(&mut self, path: NetworkPath, size: u64) {
        self.amplification.on_arrival(path, size);
        self.liveness.on_arrival();
    }

    /// `poll_transmit` answered: `bytes` lie in the buffer, `asked` datagrams were allowed.
    ///
    /// # Errors
    /// A broken invariant.
    pub fn on_transmit(
        &mut self,
        now: Instant,
        transmit: &Transmit,
        bytes: usize,
        asked: usize,
        before: &[PathStats],
        connection: &Connection,
    ) -> Result<(), Violation> {
        let after = connection.paths();
        let result = self.shape(transmit, bytes, asked).and_then(|datagrams| {
            self.liveness.on_transmit(now, datagrams)?;
            self.window.on_transmit(transmit, before, &after, connection.is_handshaking())?;
            self.books.on_transmit(before, &after, connection)?;
            self.amplification.on_transmit(transmit, &after, connection.side())
        });
        self.at(now, result)
    }

    /// Everything that statistics say, looked at once more.
    ///
    /// # Errors
    /// A broken invariant.
    pub fn at_end(&self, now: Instant, connection: &Connection) -> Result<(), Violation> {
        self.at(now, self.books.check(connection))
    }

    /// How many datagrams the answer is, if it is possible.
    fn shape(&self, transmit: &Transmit, bytes: usize, asked: usize) -> Result<u64, Broken> {
        let segment = transmit.segment_size.unwrap_or(transmit.size);
        let wrong = if transmit.size == 0 || segment == 0 {
            "an empty datagram"
        } else if transmit.size != bytes {
            "the size is not that of the buffer"
        } else if segment > usize::from(self.mtu).max(1_200) {
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
