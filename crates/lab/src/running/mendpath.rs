//! `mendpath server` and `mendpath client` with a forwarded port, or `mendpath lab relay` with a
//! new connection for every fetch.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr},
};

use units::Duration;

use super::{Admin, Programs, Running, START, Starter};
use crate::{
    Contender, Entry, LabError,
    bed::{Namespace, SERVER, TestBed, client_address},
    clock,
    contender::split_symbols,
    fetch::Target,
    origin::{Origin, Transport},
    process::Process,
};

/// How long all paths may take to be there; without them it starts with those that are.
const PATHS: Duration = Duration::from_secs(5);

pub(super) const INSTALL: &str = "Name the program with --mendpath";

pub(super) fn start(
    starter: &Starter<'_>,
    contender: &Contender,
    bed: &TestBed,
    slot: u16,
) -> Result<Running, LabError> {
    let wrong =
        |reason: &str| LabError::Contender { contender: contender.to_string(), reason: reason.to_owned() };
    let Contender::Mendpath { entry, .. } = contender else { return Err(wrong("it is not mendpath")) };
    let schemes = schemes(contender);
    let ends = Ends { starter, bed, slot, paths: contender.paths(bed.paths.len()), schemes };
    match entry {
        Entry::Forward | Entry::Socks => ends.proxy(starter.origin_behind(bed)?, *entry),
        Entry::Tunnel | Entry::RawTunnel { .. } => ends.proxy(starter.origin_behind_tunnel(bed)?, *entry),
        Entry::New => ends.relay(starter.origin_behind(bed)?),
        Entry::Copies | Entry::Fec | Entry::Serve | Entry::ServeTcp => Err(wrong("it carries no fetches")),
    }
}

/// The flags of what a contender's name says about the transport.
pub(super) fn schemes(contender: &Contender) -> Vec<String> {
    let Contender::Mendpath { recovery, congestion, scheduler, .. } = contender else { return Vec::new() };
    let (recovery, symbols) = recovery.as_deref().map(split_symbols).unzip();
    let chosen = [
        ("--recovery", recovery),
        ("--repair-symbols", symbols.flatten()),
        ("--congestion", congestion.as_deref()),
        ("--scheduler", scheduler.as_deref()),
    ];
    chosen.into_iter().filter_map(|(flag, value)| Some(format!("{flag}={}", value?))).collect()
}

struct Ends<'a> {
    starter: &'a Starter<'a>,
    bed: &'a TestBed,
    slot: u16,
    paths: Vec<usize>,
    schemes: Vec<String>,
}

impl Ends<'_> {
    /// With a forwarded port, through SOCKS5 or by a tunnel.
    fn proxy(&self, origin: Origin, entry: Entry) -> Result<Running, LabError> {
        let directory = self.starter.directory.sub_directory()?;
        let port = 4_433 + self.slot;
        let [listen, admin] =
            [8_000, 9_000].map(|base| SocketAddr::from((Ipv4Addr::LOCALHOST, base + self.slot)));
        let state = directory.display();
        let is_tunnel = matches!(entry, Entry::Tunnel | Entry::RawTunnel { .. });
        let mut server = words([
            "server",
            "--allow-private",
            &format!("--listen=0.0.0.0:{port}"),
            &format!("--advertise={SERVER}:{port}"),
            &format!("--state={state}"),
            &format!("--admin={admin}"),
        ]);
        if let Entry::RawTunnel { .. } = entry {
            server.push("--tunnel".to_owned());
        }
        let mut server = self.program(&self.bed.server, server)?;
        let line = clock::poll_until(START, self.starter.cancel, || {
            server.check()?;
            Ok(server.first_line())
        })?;
        let invitation = line.ok_or_else(|| server.failure("it printed no invitation"))?;
        let mut client = words([
            if is_tunnel { "tunnel" } else { "client" },
            &invitation,
            &match entry {
                Entry::Socks => format!("--socks5={listen}"),
                Entry::Tunnel | Entry::RawTunnel { .. } => format!("--route={}/32", origin.addr.ip()),
                _ => format!("--forward={listen}={}", origin.addr),
            },
            &format!("--admin={admin}"),
        ]);
        client.extend(self.paths.iter().map(|path| format!("--path={}", client_address(*path))));
        if let Entry::RawTunnel { coding } = entry {
            client.push("--tcp=raw".to_owned());
            client.extend(coding.map(|coding| format!("--coding={coding}")));
        }
        let client = self.program(&self.bed.client, client)?;
        let mut processes = vec![server, client];
        let listen = if is_tunnel {
            self.wait_for_tunnel(&mut processes, admin)?;
            origin.addr
        } else {
            listen
        };
        self.starter.wait_for_listener(self.bed, &mut processes, listen)?;
        self.wait_for_paths(admin)?;
        let behind = (entry == Entry::Socks).then_some(origin.addr);
        let target = Target { addr: listen, transport: Transport::PLAIN, from: Vec::new(), behind };
        let admin = Admin { client: Some(admin), server: Some(admin) };
        Ok(Running { target, origin, programs: Programs { processes, admin } })
    }

    fn relay(&self, origin: Origin) -> Result<Running, LabError> {
        let directory = self.starter.directory.sub_directory()?;
        let port = 4_433 + self.slot;
        let [listen, admin] =
            [8_000, 9_000].map(|base| SocketAddr::from((Ipv4Addr::LOCALHOST, base + self.slot)));
        let directory = format!("--dir={}", directory.display());
        let server = words([
            "lab",
            "relay-server",
            &format!("--listen=0.0.0.0:{port}"),
            &format!("--origin={}", origin.addr),
            &format!("--admin={admin}"),
            &directory,
        ]);
        let server = self.program(&self.bed.server, server)?;
        let mut client = words([
            "lab",
            "relay-client",
            &format!("--listen={listen}"),
            &format!("--server={SERVER}:{port}"),
            &directory,
        ]);
        client.extend(self.paths.iter().map(|path| format!("--from={}", client_address(*path))));
        let client = self.program(&self.bed.client, client)?;
        let mut processes = vec![server, client];
        self.starter.wait_for_listener(self.bed, &mut processes, listen)?;
        let target = Target { addr: listen, transport: Transport::PLAIN, from: Vec::new(), behind: None };
        let admin = Admin { client: None, server: Some(admin) };
        Ok(Running { target, origin, programs: Programs { processes, admin } })
    }

    fn program(&self, namespace: &Namespace, mut words: Vec<String>) -> Result<Process, LabError> {
        words.insert(0, self.starter.mendpath.display().to_string());
        words.extend(self.schemes.iter().cloned());
        Process::start(namespace, &words, INSTALL, self.starter.directory)
    }

    /// Waits until packets to the origin go through the tunnel; before, they would go beside it.
    fn wait_for_tunnel(&self, processes: &mut [Process], admin: SocketAddr) -> Result<(), LabError> {
        let found = clock::poll_until(START, self.starter.cancel, || {
            processes.iter_mut().try_for_each(Process::check)?;
            let stats = self::admin(&self.bed.client, admin, "/stats");
            Ok(stats.filter(|stats| stats["tun"].is_object()).map(|_| ()))
        })?;
        match (found, processes.last()) {
            (None, Some(client)) => Err(client.failure(&format!("there is no tunnel after {START}"))),
            _ => Ok(()),
        }
    }

    /// Waits until every path is active. Lossy paths may take their time; what is missing then
    /// shows in the paths' bytes.
    fn wait_for_paths(&self, admin: SocketAddr) -> Result<(), LabError> {
        clock::poll_until(PATHS, self.starter.cancel, || {
            let paths = self::admin(&self.bed.client, admin, "/paths");
            let active = |path: &&serde_json::Value| path["state"] == "active";
            let count = paths
                .as_ref()
                .and_then(|paths| paths.as_array())
                .map_or(0, |paths| paths.iter().filter(active).count());
            Ok((count >= self.paths.len()).then_some(()))
        })?;
        Ok(())
    }
}

pub(super) fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// Asks a `mendpath client` for statistics.
pub(super) fn admin(namespace: &Namespace, addr: SocketAddr, path: &str) -> Option<serde_json::Value> {
    const MOST: u64 = 1 << 20;
    let ask = || -> std::io::Result<String> {
        let limit = core::time::Duration::from_secs(5);
        let mut stream = std::net::TcpStream::connect_timeout(&addr, limit)?;
        stream.set_read_timeout(Some(limit))?;
        // In one piece: what arrives after the answer would reset the connection. It answers to
        // names of loopback only.
        let request = format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.take(MOST).read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = namespace.run(ask).ok()?.ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}
