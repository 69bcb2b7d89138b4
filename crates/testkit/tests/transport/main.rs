//! The transport in virtual time. One program, since each is compiled and linked with all that it tests.

mod auto;
mod bursty_loss;
mod call;
mod ctcp_blocks;
mod ecn;
mod fabric_host;
mod fabric_transport;
mod long_paths;
mod many_streams;
mod never_worse;
mod operations;
mod path_limits;
mod persistent_congestion;
mod probes;
mod random;
mod regressions;
mod reordering;
mod resume;
mod shared_bottleneck;
mod slp;
mod steady;
mod timelines;
