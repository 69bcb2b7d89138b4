//! The `mendpath` command: a proxy pair over several lossy paths, one-shot file transfer, and a
//! demonstration without set-up.
//!
//! This crate is what users type and read: arguments, invitations, proxies, tables, error messages.
//! It never decides how packets are sent, lost or mended; that is the crate `mendpath`'s business.
//! It never asks for root but for `mendpath lab`, `mendpath tunnel` and `mendpath server --tunnel`,
//! and never connects to an address that the server's operator has not permitted.
//!
//! It is a library so that tests can call it; its interface is not stable. Start with
//! [`commands::run`], which does what a [`Cli`](args::Cli) says, or with the two ends of the proxy,
//! [`server::ProxyServer`] and [`client::Client`].

pub mod accounts;
pub mod activation;
mod admin;
pub mod args;
pub mod association;
pub mod backoff;
pub mod client;
pub mod commands;
pub mod config;
pub mod console;
pub mod demo;
pub mod descriptors;
pub mod destination;
mod doctor;
pub mod failure;
mod hop_by_hop;
pub mod identity;
mod interfaces;
pub mod invitation;
#[cfg(feature = "lab")]
pub mod lab_call;
#[cfg(feature = "lab")]
mod lab_end;
#[cfg(feature = "lab")]
pub mod lab_relay;
mod listener;
#[cfg(any(feature = "experiment", feature = "lab"))]
mod long_work;
mod names;
mod packet_row;
mod peer;
mod probe;
pub mod protocol;
pub mod quic_lb;
pub mod secret;
#[cfg(feature = "serve")]
pub mod serve;
pub mod server;
mod socket_options;
pub mod splice;
mod status;
pub mod target;
mod task;
pub mod token;
pub mod transfer;
pub mod transport;
#[cfg(all(feature = "tunnel", target_os = "linux"))]
pub mod tun;
mod word;
