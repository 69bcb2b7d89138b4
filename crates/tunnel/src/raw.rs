//! IP packets as they are: what both ends of a raw tunnel do with them, without I/O.
//!
//! One [`Outgoing`] and one [`Incoming`] at each end. The first gives the packets of every TCP and
//! UDP flow numbers; the second takes out what came twice, and puts in order again what took
//! several paths. Beside them the first makes copies and combinations ([`Coding`]), from which the
//! second brings back what was lost, so that inner TCP does not hear of it.
//!
//! ```text
//! TUN --packet--> Outgoing --bodies--> (QUIC datagrams) --> Incoming --packets--> TUN
//! ```
//!
//! | file          | what                                                        |
//! |---------------|-------------------------------------------------------------|
//! | [`wire`]      | the bytes of a datagram                                     |
//! | `glance`      | of which flow a packet is, and where it leads               |
//! | `outgoing`    | numbers                                                     |
//! | `incoming`    | doubles, order                                              |
//! | `order`       | one flow's order                                            |
//! | `spread`      | how long a hole is worth waiting for                        |
//! | `coding`      | what is sent beside packets, and what it brings back        |
//! | `clamp`       | segments that fit a datagram                                |
//! | `leases`      | which client has which address                              |
//! | `queue`       | packets that wait for the connection, each flow's by themselves, and not for long |

mod clamp;
mod coding;
mod glance;
mod incoming;
mod leases;
mod order;
mod outgoing;
mod queue;
mod spread;
pub mod wire;

pub use clamp::clamp_segments;
pub use coding::{Coding, Extra, Network};
pub use glance::{Addresses, addresses, prohibited, remote, wants_a_route};
pub use incoming::{Delivery, Incoming, IncomingConfig, IncomingCounters};
pub use leases::{Lease, Leases};
pub use outgoing::{Outgoing, OutgoingConfig, OutgoingCounters};
pub use queue::{Queue, QueueCounters};
