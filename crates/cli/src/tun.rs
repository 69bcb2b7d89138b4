//! Programs that know of no proxy: their packets come out of a TUN device, TCP goes through the
//! kernel's own listener and a stream each, UDP through associations.
//!
//! The crate `tunnel` decides what becomes of a packet; here are the device, the streams, and the
//! namespace that a command runs in.

mod carrier;
mod datagrams;
mod device;
mod forbidden;
mod handover;
pub mod inside;
mod links;
mod machine;
mod plan;

pub(crate) use self::{
    carrier::{Carrier, Options},
    handover::{Ends, Parent},
    machine::{Machine, Plan, remove_kill_switch},
};
