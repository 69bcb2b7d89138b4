//! The real program as a process of its own: killed, short of descriptors, beside a greedy
//! neighbour, on other address families.

mod addresses;
mod killed;
mod neighbours;
mod process;
#[path = "../support/mod.rs"]
mod support;
