//! A fabric: hosts and switches joined by ports, on virtual time, made for millions of packets per
//! second.
//!
//! [`Topology`] says what there is (one file per topology, all plain data), [`Fabric::new`] builds
//! it, and [`Fabric::run`] moves packets until a time, calling the protocol that lives on the hosts
//! ([`Hosts`]).
//!
//! # Model
//! A port is loss (on the wire, or before the rate limit) -> drop-tail queue in packets or bytes,
//! ECN mark above a threshold -> rate -> propagation delay. A switch forwards without delay over
//! shortest paths; among several it picks by flow hash, at random per packet, or as a [`Balancer`]
//! says. A packet is dropped when the queue is full at its arrival, never later, except by
//! [`Codel`], and by [`Trim`], which may take its payload before; a packet that leaves at the very
//! moment another arrives has left before.
//!
//! # How it is fast
//! A port is first in, first out, so the moment of every arrival is known when a packet is queued.
//! Only the first packet under way of each port is in the event queue: one event per hop, and as
//! many entries as busy ports, not packets. Packets lie in a pool and move by number.
//!
//! A large fabric waits for memory more than it computes. So a hop touches few cache lines (a port
//! is one, a packet half of one), learns their places without waiting for one another (an event
//! names its packet, a packet knows when the one behind it leaves), and reads ahead what the next
//! events need.
//!
//! # Determinism
//! Events are ordered by time, then by the element's number. Every random element has its own
//! stream from one seed. [`Fabric::trace_hash`] covers every event.
//!
//! # Bounds
//! Queues by their configuration, packets and timers by [`Limits`]: a packet above the limit is
//! dropped and counted, too many timers end the run with an error.

pub mod balance;
pub mod capacity;
pub mod codel;
pub mod failure;
pub mod packet;
pub mod port;
pub mod topology;
pub mod trim;
pub mod workload;

mod engine;
mod event_heap;
mod events;
mod pool;
mod ports;
mod routes;
#[cfg(test)]
mod tests;
mod wheel;

pub use balance::{Balancer, Balancing};
pub use capacity::{CapacityTrace, CapacityTraceError};
pub use codel::Codel;
pub use engine::{Fabric, FabricStats, Hosts, Limits, Options, PacketEvent, RunError, Tap, Watcher};
pub use event_heap::EventHeap;
pub use events::Events;
pub use failure::{Direction, Failure, Fault};
pub use packet::{Class, Ecn, HostId, LinkId, Node, Packet, PortId, SwitchId};
pub use port::{Discipline, Line, Mark, PortStats, QueueLimit};
pub use topology::{Topology, TopologyError};
pub use trim::Trim;
