//! Network elements that work on any clock, and a small deterministic network on virtual time.
//!
//! A [`Link`] is what a packet meets between two hosts: random loss, a drop-tail queue, a rate, a
//! propagation delay. It is told the time with every call, so the same code runs in a simulation
//! and, in the crate `emulator`, on the wall clock between sockets. A [`Network`] connects hosts by
//! pairs of links and keeps a virtual clock.
//!
//! Everything random comes from one [`Seed`] with one stream per element and purpose: adding an
//! element does not change what the others draw, and the loss decision for the n-th packet of a
//! link depends on seed and n alone.
//!
//! This crate never reads a clock, never does I/O, and knows no protocol: packets are whatever type
//! the caller has, with a size in bytes. It never keeps more than its stated limits.
//!
//! A [`fabric`] is the large one: switches with ECMP or spraying, topologies, failures and
//! workloads, at millions of packets per second.
//!
//! Start with [`LinkConfig`] (also parsed from `rate=50mbit,delay=20ms,loss=1%`) and [`Network`].
//!
//! ```
//! use mendpath_netsim::{Link, LinkConfig, Seed};
//! use units::{Duration, Instant};
//!
//! let config: LinkConfig = "rate=8mbit,delay=20ms".parse().unwrap();
//! let mut link = Link::new(&config, Seed(1), Instant::ORIGIN);
//! link.offer(Instant::ORIGIN, "hello", 1_000);
//! let arrival = link.next_delivery().unwrap();
//! assert_eq!(arrival, Instant::ORIGIN + Duration::from_millis(21)); // 1 ms to send, 20 ms to travel
//! assert_eq!(link.deliver(arrival).unwrap().packet, "hello");
//! ```

#![warn(clippy::missing_errors_doc)]

mod event_queue;
pub mod fabric;
pub mod link;
pub mod loss;
pub mod network;
mod own;
mod rng;
mod trace;

pub use event_queue::EventQueue;
pub use link::{Delivered, Link, LinkConfig, LinkStats, Offered};
pub use loss::{Loss, LossModel};
pub use network::Network;
pub use own::Own;
pub use rng::{Rng, Seed};
pub use trace::TraceHash;
