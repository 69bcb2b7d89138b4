//! A retransmission as the statistics see it: when its connection is over and its position known.

use serde::Serialize;
use units::{Duration, Instant};

use crate::{
    clock::Class,
    loops::CapturePoint,
    segment::{Endpoint, TcpFlags},
    sequence_view::WiresharkKind,
};

/// Which way a packet went. The client sent the SYN, the server the SYN/ACK.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Heading {
    /// From the one who opened the connection.
    ClientToServer,
    /// To the one who opened the connection.
    ServerToClient,
    /// The capture does not show who opened the connection.
    Unknown,
}

impl Heading {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 3] = [Self::ClientToServer, Self::ServerToClient, Self::Unknown];
}

/// Which half of a one-way connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Half {
    /// Counted from the first packet. The middle packet of an odd number belongs here (SLP-A12).
    First,
    /// Counted from the last packet.
    Second,
}

/// Where the original stood among the distinct packets of its one-way connection (SLP section II-B,
/// SLP-A12). Only packets that take sequence numbers count: no others are retransmitted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Position {
    /// The n-th from the start or from the end of its half, from 1.
    At(Half, u32),
    /// Further than 100 from both ends.
    Middle,
    /// Not known: the connection began before the capture, or had too many retransmissions near its
    /// end.
    Unknown,
}

/// Whether SLP's window rule would have let a duplicate of the original pass (section II-C2). The
/// capture does not show the congestion window: the largest flight so far, at least ten segments,
/// stands for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// It would.
    Open,
    /// It would not.
    Full,
    /// Acknowledgements are not in the capture.
    Unknown,
}

/// An answer to a loss takes a round trip; handshakes measure it roughly.
const TOO_SOON: f64 = 0.5;

impl Retransmission {
    /// The interval in round trips of the connection's handshake.
    pub fn round_trips(&self) -> Option<f64> {
        let round_trip = self.round_trip.filter(|round_trip| !round_trip.is_zero())?;
        Some(self.interval.as_secs_f64() / round_trip.as_secs_f64())
    }

    /// Whether it came so soon after the packet before that it is no answer to the loss of that.
    pub fn is_too_soon(&self) -> bool {
        self.round_trips().is_some_and(|round_trips| round_trips < TOO_SOON)
    }
}

/// A retransmission whose original was lost before the capture point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Filled {
    /// When it was sent.
    pub at: Instant,
    /// Sender and receiver.
    pub ends: [Endpoint; 2],
    /// Its own.
    pub flags: TcpFlags,
    /// Bytes of the IP packet.
    pub bytes: u32,
    /// What brought it back.
    pub class: Class,
    /// Where it was captured.
    pub point: CapturePoint,
}

/// One retransmission whose original was seen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Retransmission {
    /// When it was sent.
    pub at: Instant,
    /// Time since the latest earlier transmission of the same sequence number (SLP-A11).
    pub interval: Duration,
    /// Time in which its sender had sent nothing else that takes sequence numbers.
    pub silence: Duration,
    /// Sender and receiver.
    pub ends: [Endpoint; 2],
    /// What brought it back, by the clock of acknowledgements.
    pub class: Class,
    /// Where it was captured.
    pub point: CapturePoint,
    /// Of the original.
    pub flags: TcpFlags,
    /// Bytes of the IP packet.
    pub bytes: u32,
    /// Bytes of data in it.
    pub payload: u32,
    /// Which way it went.
    pub heading: Heading,
    /// Where the original stood.
    pub position: Position,
    /// 1 for the first retransmission of a packet.
    pub attempt: u8,
    /// Its data was acknowledged before it was sent: nothing had been lost.
    pub needless: bool,
    /// A SYN that nobody answered, sent again for want of an answer: nothing is known to have been lost.
    pub unanswered: bool,
    /// What Wireshark calls it.
    pub wireshark: Option<WiresharkKind>,
    /// Whether a duplicate of the original fitted.
    pub window: Window,
    /// Round-trip time of its connection's handshake, if captured.
    pub round_trip: Option<Duration>,
    /// The RTO assumed for its connection.
    pub timeout: Duration,
}
