//! What goes wrong on a server: its state, its port, the address that its invitations name.

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
};

use super::{Finding, client::problem, machine};
use crate::{
    accounts::{STORE_FILE, Store, now},
    client::{WantedPath, local_addresses},
    destination::DestinationPolicy,
    failure::io_reason,
    identity,
    names::names_work,
    probe::{self, Outcome},
    server::{self, Advertise},
    target::{Host, Target},
};

/// What the server's options say.
pub(crate) struct Options {
    pub(crate) listen: SocketAddr,
    /// What whoever asks wants to know about.
    pub(crate) named: Option<Advertise>,
    pub(crate) advertise: Vec<Advertise>,
    pub(crate) state: PathBuf,
    pub(crate) allow_private: bool,
    pub(crate) dns: Vec<SocketAddr>,
}

/// A server that runs and has told us of itself.
pub(crate) struct Running {
    /// Its socket for `mendpath status`.
    pub(crate) socket: PathBuf,
    /// The addresses that it listens on.
    pub(crate) listen: Vec<SocketAddr>,
}

/// All checks.
pub(crate) async fn examine(options: &Options, running: &[Running]) -> Vec<Finding> {
    let mut findings = vec![state(&options.state)];
    let (accounts, places) = accounts(&options.state);
    findings.extend(accounts);
    let (port, listening) = port(options.listen, running).await;
    findings.push(port);
    for place in places_of(options, places, listening) {
        findings.push(address(&place).await);
    }
    findings.push(firewall(listening.port(), |path| std::fs::read_to_string(path).ok()));
    findings.push(private(options.allow_private));
    findings.push(names(&options.dns).await);
    findings.push(machine::ipv6(false));
    let store = options.state.join(STORE_FILE);
    findings.extend(machine::checks(&[&store]));
    findings
}

/// Keys and secrets, if there are some; nothing is made.
fn state(dir: &Path) -> Finding {
    match identity::examine(dir) {
        Ok(true) => Finding::ok("state", format_args!("{}, for its owner alone", dir.display())),
        Ok(false) => Finding::ok("state", format_args!("{} is made at the first start", dir.display())),
        Err(failure) => problem("state", &failure),
    }
}

/// What was asked about, or what invitations name: what the accounts' do, what the options say, or where
/// the server listens.
fn places_of(options: &Options, of_accounts: Vec<Target>, listening: SocketAddr) -> Vec<Target> {
    if options.named.is_some() {
        return vec![server::place(options.named.as_ref(), listening)];
    }
    if !of_accounts.is_empty() {
        return of_accounts;
    }
    if options.advertise.is_empty() {
        return vec![server::place(None, listening)];
    }
    options.advertise.iter().map(|place| server::place(Some(place), listening)).collect()
}

/// The accounts, and the places in their invitations.
fn accounts(dir: &Path) -> (Option<Finding>, Vec<Target>) {
    // As it would be made otherwise.
    if !dir.join(STORE_FILE).exists() {
        return (None, Vec::new());
    }
    let read = Store::open(dir).and_then(|store| Ok((store.list()?, store.place()?)));
    match read {
        Ok((records, place)) => {
            let (now, all) = (now(), records.iter().filter(|record| record.revoked.is_none()));
            let over = all.clone().filter(|record| record.over(now).is_some()).count();
            let found = format!("{}, of which {over} expired or used up", all.count());
            (Some(Finding::ok("accounts", found)), place)
        }
        Err(failure) => (Some(problem("accounts", &failure)), Vec::new()),
    }
}

/// Whether the port can be listened on, or is listened on by a server; and where that is.
async fn port(listen: SocketAddr, running: &[Running]) -> (Finding, SocketAddr) {
    let known = running.iter().find_map(|server| {
        let same = |address: &&SocketAddr| listen.port() == 0 || address.port() == listen.port();
        Some((server, server.listen.iter().find(same)?))
    });
    if let Some((server, address)) = known {
        let found = format!("a server listens on UDP {address} ({})", server.socket.display());
        let finding = match answers(*address).await {
            Outcome::Passes => Finding::ok("port", found + ", and answers"),
            _ => Finding::problem(
                "port",
                found + ", and does not answer",
                "Let UDP in from this machine itself (lo), or start it again",
            ),
        };
        return (finding, *address);
    }
    let finding = match UdpSocket::bind(listen) {
        Ok(_) => Finding::ok("port", format_args!("UDP {listen} is free; no server of this user runs on it")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => match answers(listen).await {
            Outcome::Passes => {
                Finding::ok("port", format_args!("a QUIC server of another user answers on UDP {listen}"))
            }
            _ => Finding::problem(
                "port",
                format_args!("another program uses UDP {listen}"),
                format_args!(
                    "Stop it (ss -ulpn sport = :{}), or choose another port with --listen",
                    listen.port()
                ),
            ),
        },
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Finding::problem(
            "port",
            format_args!("this user may not listen on UDP {listen}"),
            "Choose a port above 1023, or give the service CAP_NET_BIND_SERVICE (its unit says how)",
        ),
        Err(error) => Finding::problem(
            "port",
            format_args!("cannot listen on UDP {listen}: {}", io_reason(&error)),
            "Choose an address of this machine with --listen",
        ),
    };
    (finding, listen)
}

/// Whether a QUIC server answers on this machine.
async fn answers(address: SocketAddr) -> Outcome {
    let to: IpAddr = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let path = WantedPath { interface: None, index: None, ip: to, copy: 0 };
    probe::sizes(&path, SocketAddr::new(to, address.port())).await[0]
}

/// Whether clients can come by what the invitations name.
async fn address(place: &Target) -> Finding {
    let found = match &place.host {
        Host::Ip(ip) => vec![*ip],
        Host::Name(name) => match tokio::net::lookup_host((name.as_str(), place.port)).await {
            Ok(addresses) => addresses.map(|address| address.ip()).collect(),
            Err(error) => {
                return Finding::problem(
                    "address",
                    format_args!(
                        "the name in the invitations, {name}, has no address: {}",
                        io_reason(&error)
                    ),
                    "Enter it in DNS, or name another with --advertise",
                );
            }
        },
    };
    let ours: Vec<_> = local_addresses().unwrap_or_default().into_iter().map(|local| local.ip).collect();
    judge_address(place, &found, &ours)
}

fn judge_address(place: &Target, found: &[IpAddr], ours: &[IpAddr]) -> Finding {
    let shown: Vec<_> = found.iter().map(ToString::to_string).collect();
    let named = match &place.host {
        Host::Ip(_) => format!("invitations name {place}"),
        Host::Name(_) => format!("invitations name {place}, which is {}", shown.join(", ")),
    };
    let port = place.port;
    if let Some(why) = found.iter().find_map(|ip| DestinationPolicy::PublicOnly.check(*ip).err()) {
        return Finding::warning(
            "address",
            format_args!("{named}: {why}, which only this network reaches"),
            format_args!(
                "Name what clients reach from outside with --advertise HOST, and forward UDP {port} there to this machine"
            ),
        );
    }
    if found.iter().any(|ip| ours.contains(ip)) {
        return Finding::ok("address", format_args!("{named}, an address of this machine"));
    }
    Finding::warning(
        "address",
        format_args!(
            "{named}: no address of this machine, so there is a NAT before it, or the name is wrong"
        ),
        format_args!("Forward UDP {port} to this machine there"),
    )
}

/// What the usual firewalls say about a UDP port, as far as their files tell.
fn firewall(port: u16, read: impl Fn(&str) -> Option<String>) -> Finding {
    let has = |path: &str, part: &str| read(path).is_some_and(|text| text.contains(part));
    if has("/etc/ufw/ufw.conf", "ENABLED=yes") {
        let cure = format!("Let it in: ufw allow {port}/udp");
        return match read("/etc/ufw/user.rules") {
            None => Finding::warning("firewall", "ufw is on, and only root may see its rules", cure),
            Some(rules) if lets_in(&rules, port) => {
                Finding::ok("firewall", format_args!("ufw lets UDP {port} in"))
            }
            Some(_) => {
                Finding::problem("firewall", format_args!("ufw is on, and has no rule for UDP {port}"), cure)
            }
        };
    }
    if read("/run/firewalld.pid").is_some() {
        let cure =
            format!("Unless done: firewall-cmd --permanent --add-port={port}/udp && firewall-cmd --reload");
        return Finding::warning("firewall", "firewalld runs", cure);
    }
    if has("/etc/nftables.conf", "policy drop") && !has("/etc/nftables.conf", &port.to_string()) {
        let cure = format!("Let it in, in the chain `input` of /etc/nftables.conf: udp dport {port} accept");
        return Finding::warning(
            "firewall",
            format_args!("/etc/nftables.conf drops what it does not name, and does not name {port}"),
            cure,
        );
    }
    Finding::ok(
        "firewall",
        format_args!("none is recognised here that stops UDP {port}; the hosting provider may have one"),
    )
}

fn lets_in(rules: &str, port: u16) -> bool {
    let is_meant = |ports: &str| {
        let (first, last) = ports.split_once(':').unwrap_or((ports, ports));
        let ends = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
        ends.is_some_and(|(first, last)| (first..=last).contains(&port))
    };
    let names = |line: &str| line.split_whitespace().any(|word| word.split(',').any(is_meant));
    // The second is that of `ufw limit`.
    let ways = ["-j ACCEPT", "-j ufw-user-limit-accept"];
    let accepts = |line: &str| ways.iter().any(|way| line.contains(way)) && !line.contains("-p tcp");
    rules.lines().any(|line| line.starts_with("-A") && accepts(line) && names(line))
}

fn private(allowed: bool) -> Finding {
    if allowed {
        return Finding::warning(
            "private",
            "clients reach this machine and the networks around it",
            "Leave allow-private out unless they are meant to",
        );
    }
    Finding::ok("private", "clients reach public addresses alone")
}

/// Whether clients' names can be looked up.
async fn names(dns: &[SocketAddr]) -> Finding {
    match names_work(dns).await {
        Ok(found) => Finding::ok("names", found),
        Err(found) => Finding::problem(
            "names",
            found,
            "Correct /etc/resolv.conf, or name a name server with --dns: clients' names are looked up here",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn addresses_are_ours_or_behind_something() {
        let judge = |place: &str, found: &str| {
            let ours = ["198.51.100.9".parse().unwrap(), "9.9.9.1".parse().unwrap()];
            judge_address(&place.parse().unwrap(), &[found.parse().unwrap()], &ours)
        };
        assert_eq!(judge("9.9.9.1:4433", "9.9.9.1").verdict, Verdict::Ok);
        let nat = judge("vps.example.org:4433", "9.9.9.2");
        assert!(
            nat.verdict == Verdict::Warning
                && nat.found.contains("which is 9.9.9.2: no address of this machine"),
            "{nat:?}"
        );
        let private = judge("192.168.7.7:4433", "192.168.7.7");
        assert!(private.found.contains("a private address, which only this network reaches"), "{private:?}");
    }

    /// A name is tried before the server is started with it, and invitations have it.
    #[test]
    fn what_is_asked_about_counts_before_what_invitations_name() {
        let places = |named: Option<&str>, of_accounts: &[&str]| -> Vec<String> {
            let listen = ([0, 0, 0, 0], 4433).into();
            let options = Options {
                listen,
                named: named.map(|place| place.parse().unwrap()),
                advertise: vec!["b.example".parse().unwrap()],
                state: PathBuf::new(),
                allow_private: false,
                dns: Vec::new(),
            };
            let of_accounts = of_accounts.iter().map(|place| place.parse().unwrap()).collect();
            places_of(&options, of_accounts, listen).iter().map(ToString::to_string).collect()
        };
        assert_eq!(places(Some("c.example"), &["a.example:1"]), ["c.example:4433"]);
        assert_eq!(places(None, &["a.example:1"]), ["a.example:1"]);
        assert_eq!(places(None, &[]), ["b.example:4433"]);
    }

    #[test]
    fn firewalls_are_told_by_their_files() {
        let judge = |files: &'static [(&'static str, &'static str)]| {
            firewall(4433, move |path| {
                files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
            })
        };
        const ON: (&str, &str) = ("/etc/ufw/ufw.conf", "ENABLED=yes\n");
        assert_eq!(judge(&[]).verdict, Verdict::Ok);
        assert_eq!(judge(&[ON]).verdict, Verdict::Warning);
        let rules =
            ("/etc/ufw/user.rules", "### tuple ###\n-A ufw-user-input -p tcp --dport 4433 -j ACCEPT\n");
        let closed = judge(
            const { &[ON, ("/etc/ufw/user.rules", "-A ufw-user-input -p tcp --dport 4433 -j ACCEPT\n")] },
        );
        assert!(
            closed.verdict == Verdict::Problem && closed.cure.unwrap().contains("ufw allow 4433/udp"),
            "{rules:?}"
        );
        let open = judge(
            const { &[ON, ("/etc/ufw/user.rules", "-A ufw-user-input -p udp --dport 4433 -j ACCEPT\n")] },
        );
        assert_eq!(open.verdict, Verdict::Ok);
        for (ports, lets_in) in [("80,4000:5000", true), ("4433:4433", true), ("4000:4432", false)] {
            let rule = format!("-A ufw-user-input -p udp -m multiport --dports {ports} -j ACCEPT");
            assert_eq!(super::lets_in(&rule, 4433), lets_in, "{ports}");
        }
        let limited = "-A ufw-user-input -p udp --dport 4433 -j ufw-user-limit-accept";
        assert!(super::lets_in(limited, 4433), "so many at a time, but they are");
        assert!(judge(&[("/run/firewalld.pid", "7")]).cure.unwrap().contains("--add-port=4433/udp"));
        assert_eq!(judge(&[("/etc/nftables.conf", "policy drop;")]).verdict, Verdict::Warning);
        assert_eq!(
            judge(&[("/etc/nftables.conf", "policy drop; udp dport 4433 accept")]).verdict,
            Verdict::Ok
        );
    }
}
