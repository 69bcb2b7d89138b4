//! Programs that know of no proxy: their packets come out of a TUN device, TCP goes through the
//! kernel's own listener and a stream each, UDP through associations.
//!
//! The crate `tunnel` decides what becomes of a packet; here are the device, the streams, and the
//! namespace that a command runs in.

mod carrier;
mod datagrams;
pub(crate) mod device;
mod forbidden;
mod handover;
pub mod inside;
pub(crate) mod link;
pub(crate) mod links;
mod machine;
mod outside;
pub(crate) mod packet_filter;
mod plan;
mod raw;
mod seen;

pub use raw::Carriage;
pub use tunnel::raw::Coding;

pub(crate) use self::{
    carrier::{Carrier, Options},
    handover::{Ends, Given, Parent},
    machine::{Machine, Plan, remove_kill_switch},
    raw::{Opened, RawOptions, chance_name, machine_name, open},
};
