//! Which interfaces the main routing table uses, from Linux's /proc: an interface that leads
//! nowhere (a container bridge) is no candidate for a path.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Routes by interface. Empty where the system has no such table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes(Vec<Route>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Route {
    interface: String,
    network: u128,
    mask: u128,
    v4: bool,
}

impl Routes {
    /// The present routes of both families. Of this process: a service whose `/proc` shows
    /// processes alone (`ProcSubset=pid`) sees no others, and would take every interface.
    pub(crate) fn read() -> Self {
        let table = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self::parse(&table("/proc/self/net/route"), &table("/proc/self/net/ipv6_route"))
    }

    /// Reads the text of both tables; lines that look otherwise are skipped.
    pub(crate) fn parse(v4: &str, v6: &str) -> Self {
        Self(v4.lines().filter_map(parse_v4).chain(v6.lines().filter_map(parse_v6)).collect())
    }

    /// Whether a route through `interface` covers `destination`.
    pub(crate) fn leads(&self, interface: &str, destination: IpAddr) -> bool {
        let (bits, v4) = match destination {
            IpAddr::V4(ip) => (u128::from(ip.to_bits()), true),
            IpAddr::V6(ip) => (ip.to_bits(), false),
        };
        self.0.iter().any(|route| {
            route.v4 == v4 && route.interface == interface && bits & route.mask == route.network & route.mask
        })
    }
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask ...`, numbers in hexadecimal, addresses
/// in the machine's byte order.
fn parse_v4(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let address = |text: &str| {
        let number = u32::from_str_radix(text, 16).ok()?;
        Some(u128::from(Ipv4Addr::from(number.to_ne_bytes()).to_bits()))
    };
    let (network, mask) = (address(fields.get(1)?)?, address(fields.get(7)?)?);
    Some(Route { interface: (*fields.first()?).to_owned(), network, mask, v4: true })
}

/// `destination prefix-length source ... flags interface`, numbers in hexadecimal.
fn parse_v6(line: &str) -> Option<Route> {
    const REJECT: u32 = 0x0200;
    let fields: Vec<&str> = line.split_whitespace().collect();
    let network = u128::from_str_radix(fields.first()?, 16).ok()?;
    let prefix = u32::from_str_radix(fields.get(1)?, 16).ok().filter(|bits| *bits <= Ipv6Addr::BITS)?;
    let flags = u32::from_str_radix(fields.get(8)?, 16).ok()?;
    if flags & REJECT != 0 {
        return None;
    }
    let mask = u128::MAX.checked_shl(Ipv6Addr::BITS - prefix).unwrap_or(0);
    Some(Route { interface: (*fields.get(9)?).to_owned(), network, mask, v4: false })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const V6: &str = "\
20010db8000100000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001    wlan0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003    wwan0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
";

    #[test]
    fn ipv6_routes() {
        let routes = Routes::parse("", V6);
        let leads = |name: &str, ip: &str| routes.leads(name, ip.parse().unwrap());
        assert!(leads("wlan0", "2001:db8:1::77"));
        assert!(!leads("wlan0", "2001:db8:2::77"));
        assert!(leads("wwan0", "2001:db8:2::77"));
        assert!(!leads("lo", "2001:db8:2::77"));
        assert!(!leads("wwan0", "192.0.2.1"));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(v4 in "(.{0,60}\n){0,4}", v6 in "([0-9a-f ]{0,60}\n){0,4}") {
            Routes::parse(&v4, &v6).leads("lo", Ipv4Addr::LOCALHOST.into());
        }
    }
}
