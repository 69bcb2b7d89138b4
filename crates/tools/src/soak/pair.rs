//! The pair with its paths, as the modes see it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration as StdDuration,
};

use emulator::{Emulator, Seed, UdpPath};
use mendpath_cli::{backoff::pause, console::say, invitation::Invitation, target::Target};
use netsim::LinkConfig;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use units::Bytes;

use crate::soak::{Args, Outcome, PATHS, ends::End, print, program::socks5};

/// Starts two paths to the server of an invitation, and has it lead over the first; returns where
/// the second begins.
pub fn put_between(args: &Args, invitation: &mut Invitation) -> Outcome<(Emulator, SocketAddr)> {
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, invitation.server.port));
    let link = LinkConfig::new().rate(args.rate).delay(args.rtt / 2).random_loss(args.loss);
    let path = UdpPath::new(server, link.clone(), link);
    let emulator = Emulator::start([path.clone(), path], Seed(args.seed))?;
    invitation.server = Target::from_addr(emulator.client_addr(PATHS[0])?);
    let second = emulator.client_addr(PATHS[1])?;
    Ok((emulator, second))
}

/// Everything a run needs.
pub struct Pair {
    server: End,
    client: End,
    pub emulator: Emulator,
    pub socks5: SocketAddr,
    admin: SocketAddr,
    _state: tempfile::TempDir,
}

impl Pair {
    /// Starts both ends and waits until they have both paths.
    pub async fn start(args: &Args) -> Outcome<Self> {
        let state = tempfile::tempdir()?;
        let dir = state.path().to_str().ok_or("the temporary directory has a strange name")?;
        let mut server = End::start("server", args, &["--state", dir])?;
        let mut invitation: Invitation = server.line()?.parse()?;
        let (emulator, second) = put_between(args, &mut invitation)?;
        let second = second.to_string();
        let mut client =
            End::start("client", args, &["--invitation", &invitation.to_string(), "--second", &second])?;
        let line = client.line()?;
        let (socks5, admin) = line.trim().split_once(' ').ok_or("the client said something strange")?;
        let (socks5, admin) = (socks5.parse()?, admin.parse()?);
        let pair = Self { server, client, emulator, socks5, admin, _state: state };
        both_paths(admin).await?;
        Ok(pair)
    }

    /// A connection through the proxy to `host`.
    pub async fn connect(&self, host: SocketAddr) -> Outcome<TcpStream> {
        let (tcp, _) = socks5(self.socks5, 1, host).await?;
        tcp.set_nodelay(true)?;
        Ok(tcp)
    }

    /// Shows the client's paths and both memories on stderr.
    pub async fn print_paths(&self) -> Outcome<()> {
        let paths = statistics(self.admin, "/paths").await?;
        let rows: Vec<_> = paths
            .as_array()
            .into_iter()
            .flatten()
            .map(|path| {
                format!(
                    "[{} {} rtt {} ms, received {} packets, sent {}, window {}, in flight {}]",
                    path["id"],
                    path["state"],
                    path["rtt_ms"],
                    path["packets_received"],
                    path["packets_sent"],
                    path["window_bytes"],
                    path["in_flight_bytes"]
                )
            })
            .collect();
        let [server, client] = self.peak_memory()?;
        say(format_args!("server {server}, client {client}, {}", rows.join(" ")));
        Ok(())
    }

    /// What was lost and mended, and the memory: whether that was in bounds, over one connection.
    pub async fn report(&self, most: Bytes) -> Outcome<bool> {
        for path in PATHS {
            let stats = self.emulator.stats(path)?;
            for (name, link) in [("up", stats.up.link), ("down", stats.down.link)] {
                print(format_args!(
                    "path {} {name:4}: {} packets offered, {} lost at random, {} by the queue, {} by the cut",
                    path.0, link.offered, link.lost, link.dropped_queue, link.dropped_outage
                ));
            }
        }
        let stats = statistics(self.admin, "/stats").await?;
        print(format_args!(
            "client: recovery {}, {} packets rebuilt by its decoder, {} repair symbols received ({} used, {} wasted), {} reconnects",
            stats["recovery"],
            stats["packets_rebuilt"],
            stats["repair_symbols_received"],
            stats["repair_symbols_used"],
            stats["repair_symbols_wasted"],
            stats["reconnects"]
        ));
        let [server, client] = self.peak_memory()?;
        let mib = |bytes: Bytes| bytes.get() as f64 / f64::from(1 << 20);
        print(format_args!("peak memory: server {:.1} MiB, client {:.1} MiB", mib(server), mib(client)));
        let (too_much, again) = (server.max(client) > most, stats["reconnects"] != 0);
        if too_much {
            print(format_args!("memory: MORE than {most}"));
        }
        if again {
            print(format_args!("the client had to connect AGAIN"));
        }
        Ok(!too_much && !again)
    }

    /// The most memory that the server and the client ever had.
    fn peak_memory(&self) -> Outcome<[Bytes; 2]> {
        Ok([self.server.account().memory("VmHWM")?, self.client.account().memory("VmHWM")?])
    }
}

/// A client's own statistics.
async fn statistics(admin: SocketAddr, page: &str) -> Outcome<serde_json::Value> {
    let mut tcp = TcpStream::connect(admin).await?;
    tcp.write_all(format!("GET {page} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
    let mut response = String::new();
    tcp.read_to_string(&mut response).await?;
    let body = response.split_once("\r\n\r\n").ok_or("no answer from the client's statistics")?.1;
    Ok(serde_json::from_str(body)?)
}

/// Waits until both paths of a client carry data.
pub async fn both_paths(admin: SocketAddr) -> Outcome<()> {
    for _ in 0..100 {
        // Who is still connecting may have nothing to tell.
        if statistics(admin, "/paths").await.is_ok_and(|paths| are_up(&paths)) {
            return Ok(());
        }
        pause(StdDuration::from_millis(100)).await;
    }
    Err("both paths were not up within 10 s".into())
}

/// Whether all paths of the client's statistics carry data; those that do not are listed as well.
fn are_up(paths: &serde_json::Value) -> bool {
    let is_active = |path: &&serde_json::Value| path["state"] == "active";
    paths.as_array().is_some_and(|paths| paths.iter().filter(is_active).count() == PATHS.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_that_is_not_validated_is_not_up() {
        assert!(!are_up(&json!([{ "state": "active" }, { "state": "validating" }])));
        assert!(are_up(&json!([{ "state": "active" }, { "state": "active" }])));
    }
}
