//! The packet engine of a tunnel that ends TCP in the kernel.
//!
//! Whole IP packets of a TUN device go in. TCP comes out rewritten to a listener of the same
//! kernel, as a NAT would do it, once whoever carries the connection says that its destination has
//! answered; UDP comes out as payloads with their addresses. What cannot be carried is answered
//! with a reset or an ICMP error, and what makes no sense is counted and dropped.
//!
//! ```text
//! program  --SYN-->  TUN  --> Engine: held ......... Action::Connect: ask for the destination
//!                                     granted: SYN, from the peer to the listener
//! listener <--SYN--  TUN  <---------- (the kernel's own handshake, rewritten packet by packet)
//!                                     refused: RST or ICMP, from the destination to the program
//! ```
//!
//! This crate opens no socket, reads no clock, ends no TCP itself and trusts no packet: a program
//! that may write raw packets gets no more out of it than counters that grow.
//!
//! Start with [`Engine`], which decides, and [`Action`], what it decides.

mod action;
mod checksum;
mod counters;
mod datagram;
mod engine;
mod flows;
mod packet;
pub mod raw;
mod replies;
mod rewrite;

pub use action::{Action, Echo, FlowId, Refusal, UdpPacket};
pub use counters::{Counters, Dropped};
pub use datagram::{echo_reply, udp};
pub use engine::{Addresses, Config, Engine};
