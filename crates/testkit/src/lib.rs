//! The transport on a simulated network.
pub mod checks;
pub mod response;
pub mod tls;
pub mod world;
