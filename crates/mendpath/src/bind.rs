//! Binding sockets: to an address, or to a network interface by its name.

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use socket2::{Domain, Protocol, Type};
use tracing::debug;

use crate::{BindError, PathOptions, socket::canonical};

/// Binds a socket to `local`. The IPv6 wildcard address takes IPv4 too.
pub(crate) fn bind(local: SocketAddr) -> Result<UdpSocket, BindError> {
    let local = canonical(local);
    bind_on(local, None).map_err(|source| BindError::Io { local, source })
}

/// Binds one more socket to an address that others have, all of which must allow that.
#[cfg(target_os = "linux")]
pub(crate) fn bind_sharing(local: SocketAddr) -> io::Result<UdpSocket> {
    let socket = unbound(local)?;
    socket.set_reuse_port(true)?;
    socket.bind(&local.into())?;
    Ok(socket.into())
}

/// Binds a fresh socket from which `remote` is to be reached as `options` say.
pub(crate) fn bind_path(options: &PathOptions, remote: SocketAddr) -> Result<UdpSocket, BindError> {
    let local = match (options.local, &options.interface) {
        (Some(local), _) => local,
        (None, Some(name)) => SocketAddr::new(interface_address(name, remote)?, 0),
        (None, None) => SocketAddr::new(any(remote), 0),
    };
    if local.is_ipv4() != remote.is_ipv4() && !(local.is_ipv6() && local.ip().is_unspecified()) {
        return Err(BindError::FamilyMismatch { local, remote });
    }
    bind_on(local, options.interface.as_deref()).map_err(|source| BindError::Io { local, source })
}

impl PathOptions {
    /// Binds a socket as such a path to `remote` would have it, for who tries the way without a
    /// connection. It does not block.
    ///
    /// # Errors
    /// If the interface or address cannot be used.
    pub fn bind(&self, remote: SocketAddr) -> Result<UdpSocket, BindError> {
        bind_path(self, canonical(remote))
    }
}

fn any(remote: SocketAddr) -> IpAddr {
    if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

fn bind_on(local: SocketAddr, interface: Option<&str>) -> io::Result<UdpSocket> {
    let socket = unbound(local)?;
    if let Some(name) = interface {
        tie_to_interface(&socket, name, local)?;
    }
    socket.bind(&local.into())?;
    Ok(socket.into())
}

fn unbound(local: SocketAddr) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    if local.is_ipv6() && local.ip().is_unspecified() {
        // Without this, whether IPv4 arrives depends on a system-wide setting.
        if let Err(error) = socket.set_only_v6(false) {
            debug!(%local, %error, "no dual-stack socket");
        }
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Makes packets leave by that interface whatever the routing table says. Its address alone does
/// that on Windows, and elsewhere only with routing rules, so where this is not permitted, a debug
/// message says so.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn tie_to_interface(socket: &socket2::Socket, name: &str, _: SocketAddr) -> io::Result<()> {
    match socket.bind_device(Some(name.as_bytes())) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            debug!(name, %error, "not permitted to tie a socket to the interface: only its address is bound");
            Ok(())
        }
        result => result,
    }
}

/// The same with IP_BOUND_IF and IPV6_BOUND_IF.
#[cfg(target_vendor = "apple")]
fn tie_to_interface(socket: &socket2::Socket, name: &str, local: SocketAddr) -> io::Result<()> {
    let index = Some(interface_index(name)?);
    match local {
        SocketAddr::V4(_) => socket.bind_device_by_index_v4(index),
        SocketAddr::V6(_) => socket.bind_device_by_index_v6(index),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn tie_to_interface(_: &socket2::Socket, _: &str, _: SocketAddr) -> io::Result<()> {
    Ok(())
}

/// The system's number of an interface that has an address. There must be one: without, these options
/// untie a socket, and that is no error.
#[cfg(any(target_vendor = "apple", test))]
fn interface_index(name: &str) -> io::Result<std::num::NonZeroU32> {
    let interface = if_addrs::get_if_addrs()?.into_iter().find(|interface| interface.name == name);
    let index = interface.and_then(|interface| std::num::NonZeroU32::new(interface.index?));
    index.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no interface `{name}`")))
}

/// The interface's address of the remote's family; for IPv6, one of the remote's kind if there is any:
/// nobody outside answers to one that is link-local or unique local (RFC 6724 section 5, rules 2 and 6).
fn interface_address(name: &str, remote: SocketAddr) -> Result<IpAddr, BindError> {
    let interfaces = if_addrs::get_if_addrs()
        .map_err(|source| BindError::Io { local: SocketAddr::new(any(remote), 0), source })?;
    let addresses: Vec<IpAddr> = interfaces
        .iter()
        .filter(|interface| interface.name == name)
        .map(|interface| interface.ip())
        .collect();
    if addresses.is_empty() {
        let known: BTreeSet<String> = interfaces.into_iter().map(|interface| interface.name).collect();
        return Err(BindError::NoSuchInterface { name: name.to_owned(), known: known.into_iter().collect() });
    }
    best_address(&addresses, remote).ok_or_else(|| BindError::NoAddress { name: name.to_owned(), remote })
}

fn best_address(addresses: &[IpAddr], remote: SocketAddr) -> Option<IpAddr> {
    let same_family = addresses.iter().filter(|ip| ip.is_ipv4() == remote.is_ipv4());
    let (link_local, unique_local) = (is_link_local(&remote.ip()), is_unique_local(&remote.ip()));
    let differs = |ip: &&IpAddr| (is_link_local(ip) != link_local, is_unique_local(ip) != unique_local);
    same_family.min_by_key(differs).copied()
}

fn is_unique_local(ip: &IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unique_local())
}

fn is_link_local(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_the_right_family_and_scope_is_chosen() {
        let addresses: Vec<IpAddr> =
            ["fe80::1", "2001:db8::1", "192.0.2.1"].into_iter().map(|ip| ip.parse().unwrap()).collect();
        let choose =
            |remote: &str| best_address(&addresses, remote.parse().unwrap()).map(|ip| ip.to_string());
        assert_eq!(choose("198.51.100.1:1").as_deref(), Some("192.0.2.1"));
        assert_eq!(choose("[2001:db8::2]:1").as_deref(), Some("2001:db8::1"));
        assert_eq!(choose("[fe80::2]:1").as_deref(), Some("fe80::1"));
        assert_eq!(best_address(&addresses[..2], "198.51.100.1:1".parse().unwrap()), None);
    }

    /// Networks may announce such a prefix beside their public one, and first.
    #[test]
    fn a_unique_local_address_is_for_its_own_network() {
        let choose = |addresses: &[&str], remote: &str| {
            let addresses: Vec<IpAddr> = addresses.iter().map(|ip| ip.parse().unwrap()).collect();
            best_address(&addresses, remote.parse().unwrap()).unwrap().to_string()
        };
        let both = ["fe80::5", "fd00:1::5", "2001:db8:1::5"];
        assert_eq!(choose(&both, "[2001:db8::1]:1"), "2001:db8:1::5");
        assert_eq!(choose(&both, "[fd00:2::1]:1"), "fd00:1::5");
        assert_eq!(choose(&both[..2], "[2001:db8::1]:1"), "fd00:1::5", "there may be a translator");
        assert_eq!(choose(&both, "[fe80::1]:1"), "fe80::5");
    }

    /// On Apple's systems a path that names one would run by the routing table.
    #[test]
    fn an_interface_that_is_gone_has_no_number() {
        let mut interfaces = if_addrs::get_if_addrs().unwrap().into_iter();
        let loopback = interfaces.find(|interface| interface.is_loopback()).unwrap();
        assert_eq!(interface_index(&loopback.name).unwrap().get(), loopback.index.unwrap());
        assert_eq!(interface_index("no-such-if0").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_socket_is_bound_as_for_a_path() {
        let (here, remote): (IpAddr, SocketAddr) = ([127, 0, 0, 1].into(), ([127, 0, 0, 1], 9).into());
        let socket = PathOptions::new().local_ip(here).bind(remote).unwrap();
        assert_eq!(socket.local_addr().unwrap().ip(), here);
        assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        let gone = PathOptions::new().interface("no-such-if0").bind(remote);
        assert!(matches!(gone, Err(BindError::NoSuchInterface { .. })));
    }

    #[test]
    fn errors_say_what_to_do() {
        let remote = "192.0.2.1:1".parse().unwrap();
        let error = bind_path(&PathOptions::new().interface("no-such-if0"), remote).unwrap_err();
        assert!(error.to_string().starts_with("no interface `no-such-if0`; this host has "), "{error}");
        let local = "[::1]:0".parse().unwrap();
        let error = bind_path(&PathOptions::new().local(local), remote).unwrap_err();
        assert_eq!(error.to_string(), "cannot reach 192.0.2.1:1 from [::1]:0: different address families");
    }
}
