//! The addresses that this machine has, and on which interfaces.

use std::{
    io,
    net::{IpAddr, Ipv6Addr},
};

use super::TUN;

/// One address of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalAddress {
    /// The interface.
    pub(crate) interface: String,
    /// Its number, as far as the system says.
    pub(crate) index: Option<u32>,
    /// Its address.
    pub(crate) ip: IpAddr,
    /// Whether it carries packets at the moment.
    pub(crate) up: bool,
}

/// Whether this machine has such an interface, up or down.
#[cfg(target_os = "linux")]
pub(crate) fn interface_exists(name: &str) -> bool {
    // Any socket will do to ask.
    let socket = std::os::unix::net::UnixDatagram::unbound();
    socket.is_ok_and(|socket| rustix::net::netdevice::name_to_index(socket, name).is_ok())
}

/// Whether this machine has such an interface, with an address.
#[cfg(not(target_os = "linux"))]
pub(crate) fn interface_exists(name: &str) -> bool {
    local_addresses().is_ok_and(|have| have.iter().any(|local| local.interface == name))
}

/// The addresses of this machine that can be used.
///
/// # Errors
/// When the system does not say.
pub(crate) fn local_addresses() -> io::Result<Vec<LocalAddress>> {
    let table = std::fs::read_to_string("/proc/self/net/if_inet6").unwrap_or_default();
    Ok(ready(all_addresses()?, &table))
}

/// The same, and those that nothing can come from yet.
///
/// # Errors
/// When the system does not say.
pub(crate) fn all_addresses() -> io::Result<Vec<LocalAddress>> {
    let interfaces = if_addrs::get_if_addrs()?;
    let addresses = interfaces.into_iter().map(|interface| LocalAddress {
        interface: without_label(&interface.name).to_owned(),
        index: interface.index,
        ip: interface.ip(),
        up: interface.is_oper_up(),
    });
    // What goes through a tunnel of ours must not be a path of it.
    Ok(addresses.filter(|local| local.interface != TUN).collect())
}

/// The interface of what may be the label of one of its addresses (`eth0:1`), by which the system calls it
/// then, while routes and sockets know the interface alone. No interface has a colon in its name.
fn without_label(name: &str) -> &str {
    name.split_once(':').map_or(name, |(interface, _)| interface)
}

/// Those that are not tentative by the system's `table`; behind them those that are deprecated, from which
/// nothing new is to come while there are others (RFC 6724 section 5, rule 3).
pub(super) fn ready(mut addresses: Vec<LocalAddress>, table: &str) -> Vec<LocalAddress> {
    let (tentative, deprecated) = (tentative(table), deprecated(table));
    let is_among = |of: &[(String, IpAddr)], local: &LocalAddress| {
        of.iter().any(|(interface, ip)| (interface, ip) == (&local.interface, &local.ip))
    };
    addresses.retain(|local| !is_among(&tentative, local));
    addresses.sort_by_key(|local| is_among(&deprecated, local));
    addresses
}

/// Addresses of IPv6, with their interfaces, that no socket can be bound to: for a second or two the
/// system asks whether another host has them, and one may (RFC 4862 section 5.4).
fn tentative(table: &str) -> Vec<(String, IpAddr)> {
    const TENTATIVE: u32 = 0x40;
    // Those are used meanwhile (RFC 4429).
    const OPTIMISTIC: u32 = 0x04;
    with_flags(table, |flags| flags & (TENTATIVE | OPTIMISTIC) == TENTATIVE)
}

/// Addresses of IPv6, with their interfaces, that are still answered for and not preferred any more: their
/// network has another prefix now, or whoever runs the machine wants no traffic from there.
fn deprecated(table: &str) -> Vec<(String, IpAddr)> {
    const DEPRECATED: u32 = 0x20;
    with_flags(table, |flags| flags & DEPRECATED != 0)
}

/// Addresses of IPv6 whose flags fit, from Linux's table of addresses; lines that look otherwise are skipped.
fn with_flags(table: &str, fit: impl Fn(u32) -> bool) -> Vec<(String, IpAddr)> {
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [address, _, _, _, flags, interface] = fields[..] else { return None };
        let address = Ipv6Addr::from_bits(u128::from_str_radix(address, 16).ok()?);
        let flags = u32::from_str_radix(flags, 16).ok()?;
        fit(flags).then(|| (interface.to_owned(), IpAddr::V6(address)))
    };
    table.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_another_hosts_address_is_not_there_yet() {
        const TABLE: &str = "\
00000000000000000000000000000001 01 80 10 80       lo
20010db8000000000000000000000005 02 40 00 40     eth0
20010db8000000000000000000000006 02 40 00 44     eth0
20010db8000000000000000000000007 02 40 00 80     eth0
20010db8000000000000000000000008 03 40 00 c8    wwan0
no address
";
        let found = tentative(TABLE).into_iter().map(|(interface, ip)| format!("{interface} {ip}"));
        assert_eq!(found.collect::<Vec<_>>(), ["eth0 2001:db8::5", "wwan0 2001:db8::8"]);
        let [new, old] = ["2001:db8::5", "2001:db8::7"].map(|ip| LocalAddress {
            interface: "eth0".into(),
            index: None,
            ip: ip.parse().unwrap(),
            up: true,
        });
        assert_eq!(ready(vec![new, old.clone()], TABLE), [old]);
    }
}
