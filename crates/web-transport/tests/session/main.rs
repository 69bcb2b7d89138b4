//! Sessions between two endpoints on loopback, through the traits alone. What is said of sessions
//! holds for both kinds, so both are asked.

mod common;
#[cfg(feature = "http3")]
mod hostile;
#[cfg(feature = "http3")]
mod http3;
mod polls;
mod session;
mod streams;
