//! Arguments of `server`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use mendpath::RecoveryKind;

use super::{SendingArgs, parse_address, parse_advertise};
use crate::{
    quic_lb::QuicLbOptions,
    server::{Advertise, DNS_PORT},
    transport::parse_recovery,
};

/// Arguments of `server`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  mendpath server --listen 0.0.0.0:4433\n  \
                  mendpath server --listen '[::]:443' --advertise vps.example.org\n  \
                  mendpath server --allow-private          clients may also reach this server's own network\n  \
                  mendpath server --drain                  stop the one that runs, in good order\n  \
                  mendpath server --drain --drain-time 5   the same, within 5 s")]
pub struct ServerArgs {
    /// Read options from the table `server` of this file [default: the variable MENDPATH_CONFIG].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// UDP address to listen on; `[::]:4433` takes IPv4 and IPv6.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:4433", value_parser = parse_address)]
    pub listen: SocketAddr,
    /// Host, or HOST:PORT, for the invitation; several times for further servers that have the same
    /// keys, of which clients choose one [default: the address listened on, or this machine's].
    #[arg(long, value_name = "HOST[:PORT]", value_parser = parse_advertise)]
    pub advertise: Vec<Advertise>,
    /// Directory of the keys, the token secret and the accounts [default: ~/.local/state/mendpath].
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Let clients reach private, loopback and link-local addresses as well, and this machine and its networks.
    #[arg(long)]
    pub allow_private: bool,
    /// Name server to ask for clients' names, also more than one [default: those of
    /// /etc/resolv.conf].
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse_name_server)]
    pub dns: Vec<SocketAddr>,
    /// Clients at a time.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_clients: u32,
    /// Proxied connections per client at a time.
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_streams: u32,
    /// Worker threads, each with a socket and clients of its own; Linux takes each packet to its
    /// worker [default: one for each core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub workers: Option<u8>,
    /// How this side mends what it sends, so downloads: none, proactive, fuso, cofuso, ctcp, slp,
    /// streaming, auto.
    #[arg(long, value_name = "SCHEME", default_value = "auto", value_parser = parse_recovery)]
    pub recovery: RecoveryKind,
    /// How else it sends.
    #[command(flatten)]
    pub sending: SendingArgs,
    /// Show a live page and statistics over HTTP here, on loopback: http://ADDR/ for people, /stats
    /// as JSON and /metrics for Prometheus, for all clients together and for each account.
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub admin: Option<SocketAddr>,
    /// Leave the hosts that clients connect to out of statistics and events.
    #[arg(long)]
    pub hide_names: bool,
    /// Write this server's id into connection ids, for load balancers to read (QUIC-LB):
    /// `id=HEX[,nonce=BYTES][,config=0..6][,length=off]`.
    #[arg(long, value_name = "CONFIG")]
    pub quic_lb: Option<QuicLbOptions>,
    /// Encrypt connection ids with the key in this file, 32 hexadecimal digits that only you and
    /// the balancers may read (`-` for stdin) [default: the variable MENDPATH_QUIC_LB_KEY].
    #[arg(long, value_name = "FILE")]
    pub quic_lb_key_file: Option<PathBuf>,
    /// Offer tunnels of packets as well, for `mendpath tunnel --tcp raw`: makes a TUN device, forwards
    /// what comes out of it and masquerades it. Needs root or CAP_NET_ADMIN, and `nft`.
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    #[arg(long)]
    pub tunnel: bool,
    /// Networks that tunnels have their addresses from, one of IPv4 and one of IPv6 at most
    /// [default: 198.19.0.0/16 and fd6d:656e:6470:1::/64].
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    #[arg(long, value_name = "CIDR")]
    pub tunnel_pool: Vec<ipnet::IpNet>,
    /// Seconds that connections have to end when the server is to stop (SIGTERM, --drain); with
    /// --drain, this time instead of what the running server was told [default: 30].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub drain_time: Option<u64>,
    /// Have the server that runs already stop in good order: it takes no new clients, tells those
    /// it has to go to another server, and ends with their last connection. Waits for that.
    #[arg(long, conflicts_with_all = ["config", "listen"])]
    pub drain: bool,
    /// Tell the server with this socket, of several that run.
    #[arg(long, value_name = "FILE", requires = "drain")]
    pub socket: Option<PathBuf>,
}

fn parse_name_server(text: &str) -> Result<SocketAddr, String> {
    let alone = || text.parse().map(|ip| SocketAddr::new(ip, DNS_PORT));
    text.parse()
        .or_else(|_| alone())
        .map_err(|_| "write an address, with or without a port: 192.0.2.53".to_owned())
}
