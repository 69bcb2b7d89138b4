//! The endpoint over real sockets on loopback. Nothing here depends on how fast the machine is: the
//! only clocks are watchdogs, and timeouts that are the thing under test.

mod closing;
mod common;
mod connecting;
mod datagrams;
mod early;
mod incoming;
mod jumbo;
mod migration;
mod paths;
mod policies;
mod polls;
#[cfg(feature = "qlog")]
mod qlog;
mod strangers;
mod streams;
mod workers;
