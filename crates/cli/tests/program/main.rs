//! The real program as a process of its own: killed, short of descriptors, told to read its options
//! again, beside a greedy neighbour, on other address families.

mod accounts;
mod activation;
mod addresses;
mod doctor;
mod drain;
#[cfg(feature = "experiment")]
mod experiment;
mod fleet;
mod killed;
mod neighbours;
mod observed;
mod paths;
mod process;
mod queries;
// Service managers that are told are a matter of Linux.
#[cfg(target_os = "linux")]
mod ready;
mod reload;
#[cfg(feature = "serve")]
mod serve;
#[path = "../support/mod.rs"]
mod support;
mod transfer;
