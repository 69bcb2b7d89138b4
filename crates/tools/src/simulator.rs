//! The simulated TCP and the fabric below it: comparisons with other simulators and with the
//! papers' models, and speed.

pub mod critical_path;
pub mod dumbbell;
pub mod event_queues;
pub mod htpc;
mod htpc_fabric;
pub mod lookahead;
pub mod models;
pub mod single_flow;
pub mod speed;
pub mod timeouts;
