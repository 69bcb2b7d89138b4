//! The transport on a simulated network: whole-system tests that one seed decides and one command
//! replays.
//!
//! [`World`](world::World) joins the endpoints of crate `proto` by the links of crate `netsim` on a
//! virtual clock, and puts [`checks`] beside every connection. A [`Scenario`] says in an operation
//! language what paths are like, what applications do and what befalls them;
//! [`Scenario::generate`](scenario::Scenario::generate) draws one from a seed, and
//! [`run`](run::run) runs it and names what broke. [`response`] measures short responses.
//! [`fabric_host`] puts the transport on the fabric of large simulations, beside models of TCP.
//!
//! It never does I/O and never reads a clock. The trace hash of a run covers times, sizes,
//! directions and fates of all packets and what applications saw, but no packet's bytes, which TLS
//! makes different in every run.

pub mod application;
pub mod beside;
pub mod call;
pub mod checks;
pub mod content;
pub mod fabric_host;
pub mod faults;
mod forgetful;
mod generate;
pub mod meeting;
mod names;
pub mod pairs;
pub mod response;
pub mod run;
pub mod scenario;
pub mod shrink;
pub mod sweep;
mod text;
pub mod timeline;
pub mod tls;
pub mod world;

pub use run::{Failure, Outcome, run, run_twice};
pub use scenario::Scenario;
pub use text::ParseScenarioError;
