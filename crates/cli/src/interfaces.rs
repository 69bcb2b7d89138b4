//! Which paths there should be, given what the user asked for and what this machine has at the
//! moment.

pub(crate) mod addresses;
mod routes;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use mendpath::PathOptions;

pub(crate) use self::addresses::{LocalAddress, interface_exists, local_addresses};
use self::routes::Routes;

/// The device of `mendpath run` and `mendpath tunnel`.
pub(crate) const TUN: &str = "mendpath0";

/// What `--path` names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathSpec {
    /// A local address.
    Address(IpAddr),
    /// A network interface.
    Interface(String),
}

impl FromStr for PathSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse() {
            return Ok(Self::Address(ip));
        }
        // IFNAMSIZ is 16 with its end mark.
        let legal = |c: char| !c.is_whitespace() && c != '/' && !c.is_control();
        if (1..=15).contains(&text.len()) && text.chars().all(legal) {
            return Ok(Self::Interface(text.to_owned()));
        }
        Err(format!("`{text}` is neither a local address nor the name of an interface"))
    }
}

impl fmt::Display for PathSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(ip) => ip.fmt(f),
            Self::Interface(name) => f.write_str(name),
        }
    }
}

/// A path that there should be. Two that differ in `copy` alone run in parallel from ports of their
/// own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WantedPath {
    /// The interface to tie the path to; `None` when an address was asked for.
    pub interface: Option<String>,
    /// Its number: one that is made anew under its name has another, and what was tied to the one of before
    /// sends nothing any more.
    pub index: Option<u32>,
    /// The local address.
    pub ip: IpAddr,
    /// The how-manieth such path this is.
    pub copy: usize,
}

impl WantedPath {
    /// As the transport is told.
    pub fn options(&self) -> PathOptions {
        let options = PathOptions::new().local_ip(self.ip);
        match &self.interface {
            Some(name) => options.interface(name),
            None => options,
        }
    }
}

impl fmt::Display for WantedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.interface {
            Some(name) => write!(f, "{name} ({})", self.ip)?,
            None => self.ip.fmt(f)?,
        }
        if self.copy > 0 {
            write!(f, " #{}", self.copy + 1)?;
        }
        Ok(())
    }
}

/// Of the names of paths that were, the latest first, those that somebody would miss.
///
/// That is what `--path` names, and else what has an interface which is still there (`exists`); a
/// path whose interface has another one now, as after a change of address, is missed by nobody.
pub(crate) fn missed<'a>(
    names: impl Iterator<Item = String> + 'a,
    open: &[&str],
    specs: &'a [PathSpec],
    exists: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = String> + 'a {
    let mut taken: BTreeSet<(String, String)> = open.iter().filter_map(|name| place(name)).collect();
    let open: BTreeSet<String> = open.iter().map(|name| (*name).to_owned()).collect();
    names.filter(move |name| {
        if open.contains(name) {
            return false;
        }
        let Some((interface, copy)) = place(name) else {
            let ip = name.split(' ').next().and_then(|ip| ip.parse().ok());
            return ip.is_some_and(|ip| specs.contains(&PathSpec::Address(ip)));
        };
        let asked_for = match specs {
            [] => exists(&interface),
            specs => specs.contains(&PathSpec::Interface(interface.clone())),
        };
        asked_for && taken.insert((interface, copy))
    })
}

/// Interface and copy of a path called as [`WantedPath`] is; `None` for one that has an address
/// alone.
fn place(name: &str) -> Option<(String, String)> {
    let (interface, rest) = name.split_once(" (")?;
    let (_, copy) = rest.split_once(')')?;
    Some((interface.to_owned(), copy.to_owned()))
}

/// The paths to `server` that there should be now; in the order of `specs`, or of the machine's
/// interfaces when there are none.
///
/// # Errors
/// When the system does not say what it has.
pub fn usable_paths(specs: &[PathSpec], server: SocketAddr) -> io::Result<Vec<WantedPath>> {
    Ok(wanted(specs, &local_addresses()?, &Routes::read(), server))
}

fn wanted(specs: &[PathSpec], have: &[LocalAddress], routes: &Routes, server: SocketAddr) -> Vec<WantedPath> {
    if specs.is_empty() {
        return every_usable(have, routes, server);
    }
    let mut copies: BTreeMap<(Option<String>, IpAddr), usize> = BTreeMap::new();
    let mut paths = Vec::new();
    for spec in specs {
        let found = match spec {
            PathSpec::Address(ip) => has_address(have, *ip, server).then_some((None, *ip)),
            PathSpec::Interface(name) => best_address(have, name, server).map(|ip| (Some(name.clone()), ip)),
        };
        if let Some((interface, ip)) = found {
            let copy = copies.entry((interface.clone(), ip)).or_default();
            let of_interface = |local: &&LocalAddress| interface.as_ref() == Some(&local.interface);
            let index = have.iter().find(of_interface).and_then(|local| local.index);
            paths.push(WantedPath { interface, index, ip, copy: *copy });
            *copy += 1;
        }
    }
    paths
}

fn has_address(have: &[LocalAddress], ip: IpAddr, server: SocketAddr) -> bool {
    // All of 127.0.0.0/8 is local, though interfaces list 127.0.0.1 alone.
    let loopback = ip.is_loopback() && server.ip().is_loopback();
    let leads_there = !ip.is_loopback() || loopback;
    let have_it = || have.iter().any(|local| local.up && local.ip == ip);
    ip.is_ipv4() == server.is_ipv4() && leads_there && (loopback || have_it())
}

fn best_address(have: &[LocalAddress], interface: &str, server: SocketAddr) -> Option<IpAddr> {
    let of_interface = |local: &&LocalAddress| local.interface == interface && suits(local, server);
    best(have.iter().filter(of_interface), server)
}

/// Of the addresses of an interface, which suit the server, the one to come from: the first, but a
/// unique local one only for such a server, or where there is no other. Networks have those beside
/// public ones, and nobody outside answers to them (RFC 6724 section 5, rule 6).
fn best<'a>(addresses: impl Iterator<Item = &'a LocalAddress>, server: SocketAddr) -> Option<IpAddr> {
    let ips = addresses.map(|local| local.ip);
    ips.min_by_key(|ip| is_unique_local(*ip) != is_unique_local(server.ip()))
}

/// Up, of the server's family, and with a scope that reaches it.
pub(crate) fn suits(local: &LocalAddress, server: SocketAddr) -> bool {
    local.up
        && local.ip.is_ipv4() == server.is_ipv4()
        && is_link_local(local.ip) == is_link_local(server.ip())
        && (!local.ip.is_loopback() || server.ip().is_loopback())
}

/// Why what `--path` names is no path to the server, in words.
pub(crate) fn hindrance(spec: &PathSpec, have: &[LocalAddress], server: SocketAddr) -> String {
    let is_named = |local: &&LocalAddress| match spec {
        PathSpec::Address(ip) => local.ip == *ip,
        PathSpec::Interface(name) => local.interface == *name,
    };
    let named: Vec<&LocalAddress> = have.iter().filter(is_named).collect();
    let up = || named.iter().filter(|local| local.up);
    let of_family = || up().filter(|local| local.ip.is_ipv4() == server.is_ipv4());
    match spec {
        PathSpec::Address(_) if named.is_empty() => format!("this machine does not have the address {spec}"),
        PathSpec::Interface(_) if named.is_empty() => format!("there is no interface {spec} with an address"),
        _ if up().next().is_none() => format!("{spec} is down"),
        _ if of_family().next().is_none() => format!("{spec} is not of the family of the server's address"),
        _ if of_family().all(|local| local.ip.is_loopback()) => {
            format!("{spec} is loopback, which leads to this machine alone")
        }
        _ => format!("{spec} leads no further than its own link"),
    }
}

fn is_unique_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unique_local())
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// One path for each interface that leads to the server: with a route there, or all that suit where
/// routes are unknown.
fn every_usable(have: &[LocalAddress], routes: &Routes, server: SocketAddr) -> Vec<WantedPath> {
    let mut paths: Vec<WantedPath> = Vec::new();
    // Loopback reaches a server on this machine, and nothing else does.
    let on_this_machine = |local: &LocalAddress| local.ip.is_loopback() == server.ip().is_loopback();
    let suitable: Vec<_> =
        have.iter().filter(|local| suits(local, server) && on_this_machine(local)).collect();
    for local in &suitable {
        let name = Some(local.interface.clone());
        if paths.iter().all(|path| path.interface != name) {
            let of_interface = suitable.iter().copied().filter(|other| other.interface == local.interface);
            let ip = best(of_interface, server).unwrap_or(local.ip);
            paths.push(WantedPath { interface: name, index: local.index, ip, copy: 0 });
        }
    }
    let routed =
        |path: &&WantedPath| path.interface.as_deref().is_some_and(|name| routes.leads(name, server.ip()));
    let with_route: Vec<_> = paths.iter().filter(routed).cloned().collect();
    if with_route.is_empty() { paths } else { with_route }
}

/// Why an address of IPv6 is not used towards one of IPv4, and the other way round.
pub(crate) const OTHER_FAMILY: &str = "of the other family than the server's address";

/// An address of this machine, and whether a client would begin a path there.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) local: LocalAddress,
    /// Why not, in words.
    pub(crate) against: Option<&'static str>,
}

/// Every address of this machine, as judged for a server at `server` when no `--path` is given.
///
/// # Errors
/// When the system does not say what it has.
pub(crate) fn candidates(server: SocketAddr) -> io::Result<Vec<Candidate>> {
    Ok(judged(local_addresses()?, &Routes::read(), server))
}

fn judged(have: Vec<LocalAddress>, routes: &Routes, server: SocketAddr) -> Vec<Candidate> {
    let usable = every_usable(&have, routes, server);
    let judge = |local: LocalAddress| {
        let of_interface = |path: &WantedPath| path.interface.as_ref() == Some(&local.interface);
        let taken = usable.iter().find(|path| of_interface(path));
        let against = if taken.is_some_and(|path| path.ip == local.ip) {
            None
        } else if !local.up {
            Some("the interface is down: connect it, or `ip link set ... up`")
        } else if local.ip.is_ipv4() != server.is_ipv4() {
            Some(OTHER_FAMILY)
        } else if local.ip.is_loopback() != server.ip().is_loopback() {
            Some("loopback leads to this machine alone")
        } else if is_link_local(local.ip) != is_link_local(server.ip()) {
            Some("link-local: the network gave it no address (DHCP, router advertisements)")
        } else if taken.is_some() {
            Some("another address of this interface is used; name this one with --path to use it too")
        } else {
            Some(
                "no route leads there through this interface: add one (`ip route add default via ... dev ... metric 900`), or name it with --path",
            )
        };
        Candidate { local, against }
    };
    have.into_iter().map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::{addresses::ready, *};

    fn local(interface: &str, ip: &str, up: bool) -> LocalAddress {
        LocalAddress { interface: interface.into(), index: None, ip: ip.parse().unwrap(), up }
    }

    fn machine() -> Vec<LocalAddress> {
        vec![
            local("lo", "127.0.0.1", true),
            local("lo", "::1", true),
            local("wlan0", "192.168.1.5", true),
            local("wlan0", "fe80::5", true),
            local("wlan0", "2001:db8:1::5", true),
            local("wwan0", "10.20.0.9", true),
            local("eth0", "172.16.0.3", false),
            local("docker0", "172.17.0.1", true),
        ]
    }

    fn routes() -> Routes {
        Routes::parse(
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
             wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\n\
             wwan0\t00000000\t00000000\t0001\t0\t0\t700\t00000000\n\
             docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\n",
            "",
        )
    }

    fn names(specs: &[&str], server: &str) -> Vec<String> {
        let specs: Vec<PathSpec> = specs.iter().map(|spec| spec.parse().unwrap()).collect();
        let paths = wanted(&specs, &machine(), &routes(), server.parse().unwrap());
        paths.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn without_a_choice_every_interface_with_a_route() {
        assert_eq!(names(&[], "198.51.100.1:1"), ["wlan0 (192.168.1.5)", "wwan0 (10.20.0.9)"]);
        assert_eq!(names(&[], "[2001:db8::1]:1"), ["wlan0 (2001:db8:1::5)"]);
        assert_eq!(names(&[], "127.0.0.1:1"), ["lo (127.0.0.1)"]);
        // A route to that network alone is a route, too.
        assert_eq!(names(&[], "172.17.0.9:1").last().unwrap(), "docker0 (172.17.0.1)");
    }

    #[test]
    fn a_unique_local_address_is_for_its_own_network() {
        let come_from = |have: &[&str], server: &str| {
            let have: Vec<_> = have.iter().map(|ip| local("wlan0", ip, true)).collect();
            let server = server.parse().unwrap();
            let paths = |specs: &[PathSpec]| wanted(specs, &have, &Routes::default(), server);
            let (named, all) = (paths(&["wlan0".parse().unwrap()]), paths(&[]));
            assert_eq!(named, all);
            all.iter().map(|path| path.ip.to_string()).collect::<Vec<_>>()
        };
        let both = ["fe80::5", "fd00:1::5", "2001:db8:1::5", "2001:db8:1::6"];
        assert_eq!(come_from(&both, "[2001:db8::1]:1"), ["2001:db8:1::5"], "as the one that is answered");
        assert_eq!(come_from(&both, "[fd00:2::1]:1"), ["fd00:1::5"]);
        assert_eq!(come_from(&both[..2], "[2001:db8::1]:1"), ["fd00:1::5"], "there may be a translator");
        assert_eq!(come_from(&both[2..], "[fd00:2::1]:1"), ["2001:db8:1::5"]);
    }

    #[test]
    fn a_choice_is_followed_as_far_as_the_machine_can() {
        assert_eq!(
            names(&["wwan0", "wlan0"], "198.51.100.1:1"),
            ["wwan0 (10.20.0.9)", "wlan0 (192.168.1.5)"]
        );
        assert_eq!(names(&["10.20.0.9", "eth0", "usb7"], "198.51.100.1:1"), ["10.20.0.9"]);
        assert_eq!(
            names(&["wlan0", "wlan0"], "198.51.100.1:1"),
            ["wlan0 (192.168.1.5)", "wlan0 (192.168.1.5) #2"]
        );
        assert_eq!(names(&["127.0.0.2", "127.0.0.3"], "127.0.0.1:1"), ["127.0.0.2", "127.0.0.3"]);
        for loopback in ["127.0.0.2", "127.0.0.1", "lo"] {
            assert_eq!(names(&[loopback], "198.51.100.1:1"), [""; 0]);
        }
    }

    #[test]
    fn what_was_asked_for_and_is_no_path_is_told_why() {
        for (spec, why) in [
            ("lo", "lo is loopback, which leads to this machine alone"),
            ("127.0.0.1", "127.0.0.1 is loopback, which leads to this machine alone"),
            ("eth0", "eth0 is down"),
            ("172.16.0.3", "172.16.0.3 is down"),
            ("wwan9", "there is no interface wwan9 with an address"),
            ("192.0.2.77", "this machine does not have the address 192.0.2.77"),
            ("2001:db8:1::5", "2001:db8:1::5 is not of the family of the server's address"),
        ] {
            let told = hindrance(&spec.parse().unwrap(), &machine(), "198.51.100.1:1".parse().unwrap());
            assert_eq!(told, why);
        }
        let told =
            |spec: &str| hindrance(&spec.parse().unwrap(), &machine(), "[2001:db8::1]:1".parse().unwrap());
        assert_eq!(told("wwan0"), "wwan0 is not of the family of the server's address");
        assert_eq!(told("fe80::5"), "fe80::5 leads no further than its own link");
    }

    #[test]
    fn what_is_not_used_is_told_why() {
        let told = |server: &str| -> Vec<(String, &str)> {
            let judged = judged(machine(), &routes(), server.parse().unwrap());
            let first = |text: &'static str| text.split([':', ';']).next().unwrap_or_default();
            judged
                .into_iter()
                .map(|c| (format!("{} {}", c.local.interface, c.local.ip), c.against.map_or("", first)))
                .collect()
        };
        let expected = [
            ("lo 127.0.0.1", "loopback leads to this machine alone"),
            ("lo ::1", "of the other family than the server's address"),
            ("wlan0 192.168.1.5", ""),
            ("wlan0 fe80", "of the other family than the server's address"),
            ("wlan0 2001", "of the other family than the server's address"),
            ("wwan0 10.20.0.9", ""),
            ("eth0 172.16.0.3", "the interface is down"),
            ("docker0 172.17.0.1", "no route leads there through this interface"),
        ];
        for ((local, why), (name, expected)) in told("198.51.100.1:1").into_iter().zip(expected) {
            assert!(local.starts_with(name) && why == expected, "{local}: {why}");
        }
    }

    /// The kernel lists the newest first, and that may be the one of which a router says that it is over.
    #[test]
    fn what_is_deprecated_is_for_want_of_others() {
        const TABLE: &str = "\
20010db8000000000000000000000007 02 40 00 80     eth0
20010db8000000000000000000000009 02 40 00 a0     eth0
20010db8000000000000000000000009 03 40 00 80    wwan0
";
        let have = [("eth0", "2001:db8::9"), ("eth0", "2001:db8::7"), ("wwan0", "2001:db8::9")]
            .map(|(interface, ip)| local(interface, ip, true));
        let comes_from = |have: &[LocalAddress]| {
            let ready = ready(have.to_vec(), TABLE);
            let paths = wanted(&[], &ready, &Routes::default(), "[2001:db8:1::1]:1".parse().unwrap());
            paths.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(comes_from(&have), ["eth0 (2001:db8::7)", "wwan0 (2001:db8::9)"]);
        assert_eq!(comes_from(&have[..1]), ["eth0 (2001:db8::9)"]);
    }

    /// As `wg-quick down wg0; wg-quick up wg0` does within a second.
    #[test]
    fn an_interface_that_is_made_anew_is_another_and_its_address_is_not() {
        let paths = |specs: &[&str], index: u32| {
            let specs: Vec<PathSpec> = specs.iter().map(|spec| spec.parse().unwrap()).collect();
            let have = [LocalAddress { index: Some(index), ..local("wg0", "10.8.0.2", true) }];
            wanted(&specs, &have, &Routes::default(), "198.51.100.1:1".parse().unwrap())
        };
        for specs in [&[] as &[&str], &["wg0"]] {
            let [before, after] = [paths(specs, 7), paths(specs, 8)];
            assert_ne!(before, after, "{specs:?}");
            assert_eq!(before[0].to_string(), after[0].to_string());
        }
        assert_eq!(paths(&["10.8.0.2"], 7), paths(&["10.8.0.2"], 8), "a socket with its address goes on");
    }

    #[test]
    fn only_paths_whose_interface_is_there_are_missed() {
        let names = [
            "wlan0 (192.0.2.9)",
            "wlan0 (192.0.2.1)",
            "usb0 (192.0.2.7)",
            "wlan0 (192.0.2.1) #2",
            "(others)",
        ];
        let missed = |names: &[&str], open: &[&str], specs: &[&str]| -> Vec<String> {
            let specs: Vec<PathSpec> = specs.iter().map(|spec| spec.parse().unwrap()).collect();
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            super::missed(names.into_iter(), open, &specs, |name| name == "wlan0").collect()
        };
        assert_eq!(missed(&names, &[], &[]), ["wlan0 (192.0.2.9)", "wlan0 (192.0.2.1) #2"], "usb0 is gone");
        assert_eq!(missed(&names, &["wlan0 (192.0.2.9)"], &[]), ["wlan0 (192.0.2.1) #2"], "another address");
        let named = missed(&names, &["wlan0 (192.0.2.9)"], &["wlan0", "usb0"]);
        assert_eq!(named, ["usb0 (192.0.2.7)", "wlan0 (192.0.2.1) #2"], "somebody wants them");
        assert_eq!(missed(&["192.0.2.1", "192.0.2.3"], &[], &["192.0.2.1"]), ["192.0.2.1"]);
    }

    #[test]
    fn path_specs() {
        assert_eq!("wlan0".parse(), Ok(PathSpec::Interface("wlan0".into())));
        assert_eq!("[::1]".parse(), Ok(PathSpec::Address("::1".parse().unwrap())));
        assert!("".parse::<PathSpec>().is_err());
        assert!("an interface".parse::<PathSpec>().is_err());
        assert!("0123456789abcdef".parse::<PathSpec>().is_err());
    }
}
