//! Congestion controllers without the transport: the figures that decisions quote.

pub mod auto_evidence;
pub mod ctcp_jitter;

// The network of the controllers' own tests, so that figures and tests speak of the same.
#[path = "../../congestion/tests/network/mod.rs"]
mod network;
