//! Mendpath beside other stacks, in one run: only the ratios count, because machines differ and
//! drift.

mod bulk;
mod child;
mod codec;
mod many;
mod stack;

use std::sync::Arc;

use clap::{Parser, Subcommand};

/// Measures Mendpath beside its peers in the same run.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// One connection, one stream, a core per side: throughput and CPU time, round by round
    Bulk(bulk::Args),
    /// Many connections to one server: set-up rate, memory and CPU time per connection
    Many(many::Args),
    /// Erasure codes: encoding and decoding of single blocks
    Codec(codec::Args),
    /// One side of a measurement; started by the others
    #[command(hide = true)]
    Child(child::Args),
}

/// The TLS provider of every stack that lets us choose: with AES-128 first, as ours and s2n-quic
/// have it.
fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.sort_by_key(|s| s.suite() != rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

/// See docs/decisions/0016-allocator.md.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Bulk(args) => bulk::run(&args),
        Command::Many(args) => many::run(&args),
        Command::Codec(args) => {
            codec::run(&args);
            Ok(())
        }
        Command::Child(args) => child::run(&args),
    }
}
