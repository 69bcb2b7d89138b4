//! The transport in virtual time, on simulated networks.

pub mod beside;
pub mod call;
pub mod connect;
pub mod fabric;
pub mod fct;
pub mod goodput;
pub mod long_paths;
pub mod never_worse;
pub mod packet_cost;
pub mod scenario;
pub mod shared_bottleneck;
