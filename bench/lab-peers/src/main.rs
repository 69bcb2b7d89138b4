//! Other QUIC stacks as port forwarders: a TCP connection to the client's end is a stream of the
//! one QUIC connection, and a TCP connection of the server's end to the origin. What
//! `mendpath client --forward` does, so that the stacks can be compared by `mendpath lab`.
//!
//! ```text
//! lab-peers quinn server --listen 0.0.0.0:4433 --origin 127.0.0.1:80 --dir /some/dir
//! lab-peers quinn client --bind 0.0.0.0:0 --server 192.0.2.1:4433 --listen 127.0.0.1:8080 --dir /some/dir
//! ```
//!
//! And a web server that is the peer of `mendpath serve`:
//!
//! ```text
//! lab-peers web --root public --listen 0.0.0.0:443 --cert certificate.pem --key key.pem
//! ```
//!
//! Both, asked by one client in turn:
//!
//! ```text
//! lab-peers load --program target/release/mendpath
//! ```
//!
//! Both ends of a forwarder share a directory, in which the server leaves its certificate for the client.

mod certificate;
mod forward;
mod h3_quinn;
mod load;
mod noq_stack;
mod quinn_stack;

use std::{net::SocketAddr, path::PathBuf};

use clap::{Parser, Subcommand, ValueEnum};

/// Other QUIC stacks as port forwarders, and as a web server.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Forwards with quinn.
    Quinn {
        #[command(subcommand)]
        end: End,
    },
    /// Forwards with noq.
    Noq {
        #[command(subcommand)]
        end: End,
    },
    /// Serves files by HTTP/3 with h3-quinn, or the same over mendpath.
    Web(h3_quinn::Web),
    /// Requests per second, CPU time and memory of web servers by HTTP/3, side by side.
    Load(load::Load),
}

#[derive(Clone, Subcommand)]
enum End {
    /// Leads streams to the origin.
    Server {
        /// UDP address to listen on.
        #[arg(long)]
        listen: SocketAddr,
        /// Where streams lead.
        #[arg(long)]
        origin: SocketAddr,
        /// Where the certificate is left.
        #[arg(long)]
        dir: PathBuf,
        /// Congestion controller of what this end sends.
        #[arg(long, value_enum, default_value_t = Congestion::Bbr)]
        congestion: Congestion,
    },
    /// Carries TCP connections as streams.
    Client {
        /// Local UDP address.
        #[arg(long)]
        bind: SocketAddr,
        /// The server's end.
        #[arg(long)]
        server: SocketAddr,
        /// TCP address to listen on.
        #[arg(long)]
        listen: SocketAddr,
        /// Where the certificate is found.
        #[arg(long)]
        dir: PathBuf,
        /// Congestion controller of what this end sends.
        #[arg(long, value_enum, default_value_t = Congestion::Bbr)]
        congestion: Congestion,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Congestion {
    /// The BBR of the crate, which calls it experimental.
    Bbr,
    /// What the crate comes with.
    Cubic,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Args::parse().what {
        What::Quinn { end } => quinn_stack::run(end).await,
        What::Noq { end } => noq_stack::run(end).await,
        What::Web(web) => h3_quinn::run(web).await,
        What::Load(load) => load::run(&load).await,
    }
}
