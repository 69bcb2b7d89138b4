//! The command line.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use clap::{Args as ClapArgs, Parser, Subcommand};

/// Client and server of hq-interop, to try Mendpath against other QUIC stacks.
///
/// TLS secrets are appended to the file that SSLKEYLOGFILE names; RUST_LOG=mendpath=debug shows
/// what happens.
#[derive(Debug, Parser)]
#[command(name = "mendpath-interop", version)]
pub struct Args {
    /// What to be.
    #[command(subcommand)]
    pub command: Command,
}

/// What to be.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serves the files of a directory.
    Server(ServerArgs),
    /// Fetches files.
    Client(ClientArgs),
    /// Does what the environment of the QUIC interop runner says (ROLE, TESTCASE, REQUESTS).
    Runner,
}

/// Options of the server.
#[derive(Clone, Debug, ClapArgs)]
pub struct ServerArgs {
    /// Where to listen; several times for several sockets.
    #[arg(long, value_name = "ADDR", default_value = "[::]:4433")]
    pub listen: Vec<SocketAddr>,
    /// The files to serve.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub root: PathBuf,
    /// Certificate chain in PEM; without one, a self-signed certificate for localhost is made.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Its private key in PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Asks every client that has no token for a proof of its address first (Retry).
    #[arg(long)]
    pub retry: bool,
}

/// Options of the client.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct ClientArgs {
    /// What to fetch, as https://HOST:PORT/PATH; all from one server.
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<String>,
    /// Trusts any server.
    #[arg(long)]
    pub insecure: bool,
    /// Trusts servers whose certificate leads to one of these, in PEM.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// Where to write the files; without it they are counted and thrown away.
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Offers only ChaCha20-Poly1305 for data.
    #[arg(long)]
    pub chacha20: bool,
    /// Fetches the first file, and the rest over a connection that resumes its session.
    #[arg(long)]
    pub resume: bool,
    /// As --resume, with requests in 0-RTT packets.
    #[arg(long)]
    pub zero_rtt: bool,
    /// Updates the keys at once.
    #[arg(long)]
    pub key_update: bool,
    /// Moves to another local port in the middle of the transfer.
    #[arg(long)]
    pub rebind: bool,
    /// A connection for each file.
    #[arg(long)]
    pub connection_per_file: bool,
    /// Opens another path from each of these addresses.
    #[arg(long, value_name = "IP", value_delimiter = ',')]
    pub paths: Vec<IpAddr>,
}
