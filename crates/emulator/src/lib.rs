//! Emulated network paths on the wall clock: between UDP sockets, without root, or between TUN
//! devices.
//!
//! An [`Emulator`] runs any number of paths on one thread. Each [`UdpPath`] listens on an address
//! of its own; a client that talks to [`Emulator::client_addr`] instead of the server's address has
//! its packets carried through the `up` link, and the answers through the `down` link, of the crate
//! `netsim`: the very links that simulations use, with the same losses for the same seed. The
//! server sees a different peer address for every path and client. ECN marks are kept.
//!
//! A [`TunPath`] carries whole IP packets between two TUN devices, so that kernels' own TCP and
//! MPTCP meet the same links; whoever makes the devices needs root, this crate does not.
//!
//! This crate never looks into packets beyond the ECN field of an IP header, never needs
//! privileges, and never keeps more than the links' limits and [`UdpPath::max_clients`] sockets per
//! path. It is accurate to some tens of microseconds on an idle machine, not to the nanosecond: see
//! [`DirectionStats::max_late`]. It runs on Unix.
//!
//! Start with [`UdpPath`] and [`Emulator::start`].
//!
//! ```
//! use std::net::UdpSocket;
//! use mendpath_emulator::{Emulator, PathId, Seed, UdpPath};
//!
//! let server = UdpSocket::bind("127.0.0.1:0")?;
//! let link: netsim::LinkConfig = "rate=50mbit,delay=1ms".parse()?;
//! let emulator = Emulator::start([UdpPath::new(server.local_addr()?, link.clone(), link)], Seed(1))?;
//!
//! let client = UdpSocket::bind("127.0.0.1:0")?;
//! client.send_to(b"hello", emulator.client_addr(PathId(0))?)?;
//! let mut buffer = [0; 100];
//! let (n, peer) = server.recv_from(&mut buffer)?;
//! assert_eq!(&buffer[..n], b"hello");
//! assert_ne!(peer, client.local_addr()?); // a socket of the emulator
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(not(unix))]
compile_error!("the emulator waits with poll(2), which only Unix has");

mod batch;
mod carrier;
mod clock;
mod control;
mod event_loop;
mod links;
mod path;
mod socket;
mod tun;

use std::{io, net::SocketAddr};

pub use control::Emulator;
pub use links::DirectionStats;
pub use netsim::{Seed, link::OutageKind, network::Direction};
pub use path::{PathId, PathStats, UdpPath};
pub use tun::TunPath;

/// What can go wrong with an emulator.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// A path could not listen.
    #[error("an emulated path cannot listen on {addr}: {source}; choose another address or port 0")]
    Listen {
        /// Where it was to listen.
        addr: SocketAddr,
        /// Why it could not.
        source: io::Error,
    },
    /// A TUN device could not be used.
    #[error("cannot use a TUN device for an emulated path: {0}")]
    Device(io::Error),
    /// A path between TUN devices has no address of its own.
    #[error("the emulated path {} is between TUN devices: it has no address to talk to", .path.0)]
    NoAddress {
        /// The path asked for.
        path: PathId,
    },
    /// The thread, or what wakes it, could not be made.
    #[error("cannot start the emulator's thread: {0}")]
    Start(io::Error),
    /// No path has this number.
    #[error("there is no emulated path {}: paths are numbered from 0 to {}", .path.0, .count.saturating_sub(1))]
    UnknownPath {
        /// The path asked for.
        path: PathId,
        /// How many paths there are.
        count: usize,
    },
    /// The emulator's thread ended because of an error.
    #[error("the emulator has stopped: {reason}")]
    Stopped {
        /// Why.
        reason: String,
    },
}
