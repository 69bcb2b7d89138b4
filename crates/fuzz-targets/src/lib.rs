//! The bodies of the fuzz targets, one file each: a function from bytes to nothing, which panics
//! when a promise is broken.
//!
//! `fuzz/` at the root of the repository runs them under libFuzzer; `tests/corpora.rs` replays the
//! committed inputs on any toolchain. docs/fuzzing.md says what each target promises and how to add
//! one. This crate is for tests only: no other depends on it.
//!
//! Start with [`TARGETS`], then [`input`], from which the structured targets draw.

pub mod connection;
pub mod datagrams;
pub mod erasure;
pub mod frames;
pub mod gf256;
pub mod http;
pub mod input;
pub mod invitation;
pub mod packet_header;
pub mod pair;
pub mod payload;
pub mod proxy_wire;
pub mod quic_lb;
pub mod ranges;
pub mod raw_tunnel;
pub mod repair_decoder;
pub mod socks5;
pub mod streams;
pub mod token;
pub mod transport_parameters;
pub mod tunnel;

/// The body of a target.
pub type Target = fn(&[u8]);

/// Every target with its name, which is also that of its file of seeds.
pub const TARGETS: &[(&str, Target)] = &[
    ("connection", connection::run),
    ("datagrams", datagrams::run),
    ("erasure", erasure::run),
    ("frames", frames::run),
    ("gf256", gf256::run),
    ("http", http::run),
    ("invitation", invitation::run),
    ("packet_header", packet_header::run),
    ("proxy_wire", proxy_wire::run),
    ("quic_lb", quic_lb::run),
    ("ranges", ranges::run),
    ("raw_tunnel", raw_tunnel::run),
    ("repair_decoder", repair_decoder::run),
    ("socks5", socks5::run),
    ("streams", streams::run),
    ("token", token::run),
    ("transport_parameters", transport_parameters::run),
    ("tunnel", tunnel::run),
];
