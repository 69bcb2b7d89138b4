//! What is to be done with a packet.

use std::{net::SocketAddr, ops::Range};

use crate::Dropped;

/// One TCP connection of a program, for as long as the engine knows of it; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId {
    /// The port that the peer seems to connect to the listener from.
    pub port: u16,
    /// How many flows there were before.
    pub number: u64,
}

/// What to do with a packet that was read from the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing; it was counted.
    Drop(Dropped),
    /// Write the first so many bytes of it, which were rewritten, back to the device.
    Write(usize),
    /// Write this packet to the device instead.
    Reply(Vec<u8>),
    /// A program wants a connection: ask for it, then call [`grant`](crate::Engine::grant) or
    /// [`refuse`](crate::Engine::refuse). Another may have been
    /// [`displaced`](crate::Engine::displaced).
    Connect {
        /// Its name from now on.
        id: FlowId,
        /// Who asks.
        program: SocketAddr,
        /// Where it is to lead.
        remote: SocketAddr,
    },
    /// The program gave up before the connection was there: forget that it asked.
    Cancel {
        /// Which.
        id: FlowId,
        /// How many bytes to write back to the device, rewritten, for the kernel's listener to
        /// know as well; 0 for none.
        write: usize,
    },
    /// A program sends a UDP packet.
    Udp(UdpPacket),
    /// A program wants to know whether a host answers.
    Echo(Echo),
}

/// A UDP packet of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpPacket {
    /// Who sends it.
    pub program: SocketAddr,
    /// To whom.
    pub remote: SocketAddr,
    /// Where in the packet its payload lies.
    pub payload: Range<usize>,
}

/// An echo request (ping) of a program; the ports of the addresses are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Who asks.
    pub program: SocketAddr,
    /// Whom.
    pub remote: SocketAddr,
    /// Identifier of the program's series.
    pub identifier: u16,
    /// Number in the series.
    pub sequence: u16,
    /// Where in the packet the data lie that are to come back.
    pub payload: Range<usize>,
}

/// Why there will be no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nobody listens there: the program sees a reset.
    Refused,
    /// No route to that network.
    Network,
    /// No route to that host, or no answer.
    Host,
    /// Somebody does not want it.
    Prohibited,
}
