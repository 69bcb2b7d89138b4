//! What a host's transport is to the simulation: what it takes, and what it gives.
//!
//! A [`Transport`] is one connection, both ends of it. It takes writes, packets and timers; it
//! gives packets, timers and events through [`Io`]. [`Protocol`] makes one per connection. TCP and
//! MPTCP are [`connection`](crate::connection), CTCP is [`ctcp`](crate::ctcp), and what a layer is
//! put under is a transport again ([`shim`](crate::shim)).
//!
//! A transport of your own is one file that implements both, and one line that names it:
//! [`SchemeKind::Transport`](crate::SchemeKind::Transport) in a [`Profile`](crate::Profile). The
//! book's page on adding a scheme has one.

mod alarm;
mod endpoints;
mod io;
pub(crate) mod pulls;
mod timer;
mod written;

use std::{any::Any, fmt, sync::Arc};

use netsim::fabric::Packet;

use crate::{record::FlowId, segment::Segment};

pub(crate) use alarm::Alarm;
pub use endpoints::{Direction, Endpoints, Lifetime, Role};
pub use io::Io;
pub(crate) use io::{Books, Outgoing};
pub(crate) use timer::Token;
pub use timer::{MAX_CONNECTIONS, Timer};
pub(crate) use written::Written;

/// A kind of transport with its parameters.
pub trait Protocol: Send + Sync + fmt::Debug {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Makes a connection.
    fn connect(&self, endpoints: Endpoints) -> Box<dyn Transport>;

    /// The same for a simulation of its own, called when its profile is added to one: what connections
    /// learn from each other, simulations must not. `None` where there is no such thing.
    fn for_simulation(&self) -> Option<Arc<dyn Protocol>> {
        None
    }
}

/// Both ends of a connection.
///
/// One object serves both; it must not use at one end what only the other can know.
pub trait Transport: Any + Send + fmt::Debug {
    /// What it was made with.
    fn endpoints(&self) -> &Endpoints;

    /// The sending application writes `bytes`, at least 1, as `flow`. When all of them have
    /// arrived, the transport says so by [`Io::finish`].
    fn write(&mut self, io: &mut Io<'_>, bytes: u64, flow: FlowId);

    /// A packet of this connection reached the host that it was for.
    fn on_packet(&mut self, io: &mut Io<'_>, packet: &Packet<Segment>);

    /// A timer of [`Io::set_timer`] ran out. It may be one that no deadline belongs to any more.
    fn on_timer(&mut self, io: &mut Io<'_>, timer: Timer);

    /// Segments that the receiver has without a hole.
    fn delivered(&self) -> u32;

    /// The window of the sender in segments; of its first sub-flow, if it has several.
    fn window(&self) -> u32;

    /// Bytes of memory.
    fn memory(&self) -> usize {
        size_of_val(self)
    }

    /// The next new number of each sub-flow, for a [timeline](crate::timeline) that begins now.
    fn next_numbers(&self) -> Vec<u32> {
        Vec::new()
    }

    /// What is on top of it, if it is a layer.
    fn above(&self) -> Option<&dyn Transport> {
        None
    }
}
