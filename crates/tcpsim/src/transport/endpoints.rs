//! What a connection is made with.

use std::sync::Arc;

use netsim::fabric::{Class, Ecn, HostId, Packet};

use crate::{Tcp, segment::Segment};

/// How long a connection lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// Until its flow has arrived.
    OneFlow,
    /// For any number of flows.
    LongLived,
}

/// Which of the connections that carry the same flows it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// The first of so many, which have the numbers behind it. Mostly the only one.
    First {
        /// How many, this one included.
        of: u32,
    },
    /// A further one: all that it sends is redundant (RepFlow).
    Copy,
}

/// Which way a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Towards the receiver of the data.
    ToReceiver,
    /// Towards their sender.
    ToSender,
}

/// A connection's number, ends and parameters.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// The connection's number.
    pub conn: u32,
    /// The host that sends data.
    pub from: HostId,
    /// The host that receives them.
    pub to: HostId,
    /// Sizes and timers; other transports than TCP take what they have of them.
    pub tcp: Arc<Tcp>,
    /// How long it lasts.
    pub lifetime: Lifetime,
    /// Whether other connections carry the same.
    pub role: Role,
}

impl Endpoints {
    /// Whether the connection ends with its flow.
    #[inline]
    pub fn ends_with_its_flow(&self) -> bool {
        self.lifetime == Lifetime::OneFlow
    }

    /// A packet of this connection, as large as its payload and a header, without ECN. Its label
    /// differs between connections, and between the sub-flows of one.
    #[inline]
    pub fn packet(&self, direction: Direction, class: Class, body: Segment) -> Packet<Segment> {
        let (src, dst) = match direction {
            Direction::ToReceiver => (self.from, self.to),
            Direction::ToSender => (self.to, self.from),
        };
        let label = self.conn << 4 | u32::from(body.sub);
        let size = u32::from(body.payload) + u32::from(self.tcp.header);
        let body = Segment { conn: self.conn, ..body };
        Packet { src, dst, label, size, ecn: Ecn::NotCapable, class, body }
    }
}
