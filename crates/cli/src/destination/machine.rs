//! This machine's own addresses. Packets to them never leave it: they arrive past every firewall,
//! at services that listen for nobody else. And the hosts beside it, which packets reach past the
//! firewall of their network: with IPv6 they have public addresses, the router among them.
//!
//! Two sources are asked, because either may know more. The kernel's routing, at every check: what
//! it would deliver here is ours, though it was assigned a moment ago or belongs to no interface.
//! And the list of interfaces, read again every second: it has broadcast addresses and the anycast
//! addresses of routers, too.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use if_addrs::{IfAddr, Interface};
use tokio::time::Instant;

use super::NotPublic;

/// For how long the list of interfaces is good.
const FRESH: Duration = Duration::from_secs(1);

/// The shortest prefix of a network that is one link, or one site's (RFC 6177): those of interfaces that stand
/// for many networks, as of 6to4, are shorter.
const SHORTEST_PREFIX: u32 = 48;

/// What is known of this machine.
pub(super) struct Machine {
    listed: Mutex<Option<(Instant, Vec<Interface>)>>,
    list: fn() -> io::Result<Vec<Interface>>,
    source: fn(IpAddr) -> io::Result<IpAddr>,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self { listed: Mutex::default(), list: if_addrs::get_if_addrs, source: source_towards }
    }

    /// Whether `ip` is elsewhere.
    pub(super) fn check(&self, ip: IpAddr) -> Result<(), NotPublic> {
        self.check_route(ip)?;
        self.check_list(ip)
    }

    fn check_route(&self, ip: IpAddr) -> Result<(), NotPublic> {
        match (self.source)(ip) {
            Ok(source) if source.to_canonical() == ip => Err(NotPublic::ThisMachine),
            Ok(_) => Ok(()),
            // What Linux says of broadcast addresses, and of routes that prohibit.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(NotPublic::Multicast),
            Err(error) if out_of_means(&error) => Err(NotPublic::Unchecked),
            // No way leads there, or the machine lacks the family: connecting will say so.
            Err(_) => Ok(()),
        }
    }

    fn check_list(&self, ip: IpAddr) -> Result<(), NotPublic> {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let stale = |(since, _): &(Instant, _)| since.elapsed() >= FRESH;
        if listed.as_ref().is_none_or(stale) {
            // Without a list nothing can be ruled out.
            let fresh = (self.list)().map_err(|_| NotPublic::Unchecked)?;
            *listed = Some((Instant::now(), fresh));
        }
        let interfaces = listed.iter().flat_map(|(_, interfaces)| interfaces);
        interfaces.map(|interface| judge(&interface.addr, ip)).find(Result::is_err).unwrap_or(Ok(()))
    }
}

/// Whether `ip` means an interface with the address `own`.
fn judge(own: &IfAddr, ip: IpAddr) -> Result<(), NotPublic> {
    match (own, ip) {
        (IfAddr::V4(own), IpAddr::V4(ip)) if own.ip == ip => Err(NotPublic::ThisMachine),
        (IfAddr::V4(own), IpAddr::V4(ip)) => {
            // Links of two hosts, and single addresses, have no broadcast address (RFC 3021).
            let host = !u32::from(own.netmask);
            let in_net = host > 1 && (u32::from(own.ip) ^ u32::from(ip)) & !host == 0;
            let all = u32::from(ip) & host == host || u32::from(ip) & host == 0;
            if own.broadcast == Some(ip) || in_net && all { Err(NotPublic::Multicast) } else { Ok(()) }
        }
        (IfAddr::V6(own), IpAddr::V6(ip)) if own.ip == ip => Err(NotPublic::ThisMachine),
        (IfAddr::V6(own), IpAddr::V6(ip)) => {
            // The routers of a network answer to its first address (RFC 4291 section 2.6.1); this
            // machine may be one.
            let host = !u128::from(own.netmask);
            let (first, ip) = (u128::from(own.ip) & !host, u128::from(ip));
            if host > 1 && ip == first {
                Err(NotPublic::ThisMachine)
            } else if host.leading_zeros() >= SHORTEST_PREFIX && ip & !host == first {
                Err(NotPublic::Neighbour)
            } else {
                Ok(())
            }
        }
        _ => Ok(()),
    }
}

/// Whether the question could not be asked.
fn out_of_means(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let means = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| means.contains(&errno))
}

/// The address that packets to `destination` would come from; for an address of this machine that
/// address itself. Connecting a UDP socket looks up the route and sends nothing.
///
/// # Errors
/// When no route leads there.
pub fn source_towards(destination: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match destination {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    // The discard port, for want of a better one.
    socket.connect((destination, 9))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use if_addrs::{IfOperStatus, Ifv4Addr, Ifv6Addr};

    use super::*;

    fn interface(addr: IfAddr) -> Interface {
        let oper_status = IfOperStatus::Up;
        Interface { name: "net0".into(), addr, index: None, oper_status, is_p2p: false }
    }

    fn v4(ip: &str, prefix: u8, broadcast: Option<&str>) -> Interface {
        let netmask = Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0));
        let broadcast = broadcast.map(|ip| ip.parse().unwrap());
        interface(IfAddr::V4(Ifv4Addr { ip: ip.parse().unwrap(), netmask, prefixlen: prefix, broadcast }))
    }

    fn v6(ip: &str, prefix: u8) -> Interface {
        let netmask = Ipv6Addr::from_bits(u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0));
        let ip = ip.parse().unwrap();
        interface(IfAddr::V6(Ifv6Addr { ip, netmask, prefixlen: prefix, broadcast: None }))
    }

    fn elsewhere(_: IpAddr) -> io::Result<IpAddr> {
        Ok(Ipv4Addr::new(5, 6, 7, 8).into())
    }

    fn machine(list: fn() -> io::Result<Vec<Interface>>) -> Machine {
        Machine { listed: Mutex::default(), list, source: elsewhere }
    }

    #[tokio::test]
    async fn addresses_broadcasts_and_anycasts_of_interfaces_are_ours() {
        let machine = machine(|| {
            Ok(vec![
                v4("5.6.7.8", 24, Some("5.6.7.255")),
                v4("9.9.9.9", 32, None),
                v4("8.8.0.2", 31, None),
                v4("7.7.0.1", 16, Some("7.7.3.3")),
                v6("2a00:1::5", 64),
                v6("2a00:2::5", 128),
                v6("2a00:3::5", 16),
            ])
        });
        let check = |text: &str| machine.check_list(text.parse().unwrap());
        for own in ["5.6.7.8", "9.9.9.9", "8.8.0.2", "2a00:1::5", "2a00:1::", "2a00:2::5"] {
            assert_eq!(check(own), Err(NotPublic::ThisMachine), "{own}");
        }
        for all in ["5.6.7.255", "5.6.7.0", "7.7.255.255", "7.7.3.3"] {
            assert_eq!(check(all), Err(NotPublic::Multicast), "{all}");
        }
        for beside in ["2a00:1::6", "2a00:1::ffff:0:1"] {
            assert_eq!(check(beside), Err(NotPublic::Neighbour), "{beside}");
        }
        for other in ["5.6.7.9", "5.6.8.0", "9.9.9.8", "8.8.0.3", "2a00:1:0:1::", "2a00:2::", "2a00:4::1"] {
            assert_eq!(check(other), Ok(()), "{other}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_list_is_read_again_every_second_and_not_more_often() {
        static READ: AtomicU32 = AtomicU32::new(0);
        let machine = machine(|| {
            let later = READ.fetch_add(1, SeqCst) > 0;
            Ok(if later { vec![v4("5.6.7.8", 24, None)] } else { Vec::new() })
        });
        let own = "5.6.7.8".parse().unwrap();
        for _ in 0..100 {
            assert_eq!(machine.check_list(own), Ok(()));
        }
        assert_eq!(READ.load(SeqCst), 1);
        tokio::time::advance(FRESH).await;
        assert_eq!(machine.check_list(own), Err(NotPublic::ThisMachine), "assigned later");
        assert_eq!(READ.load(SeqCst), 2);
    }

    #[tokio::test]
    async fn what_cannot_be_checked_is_refused() {
        let no_list = machine(|| Err(io::ErrorKind::Other.into()));
        assert_eq!(no_list.check("1.1.1.1".parse().unwrap()), Err(NotPublic::Unchecked));
        let mut no_sockets = machine(|| Ok(Vec::new()));
        no_sockets.source = |_| Err(rustix::io::Errno::MFILE.into());
        assert_eq!(no_sockets.check("1.1.1.1".parse().unwrap()), Err(NotPublic::Unchecked));
        no_sockets.source = |_| Err(rustix::io::Errno::NETUNREACH.into());
        assert_eq!(no_sockets.check("1.1.1.1".parse().unwrap()), Ok(()), "connecting will fail by itself");
    }

    #[tokio::test]
    async fn the_kernel_tells_its_own_addresses() {
        let machine = Machine::new();
        assert_eq!(machine.check_route(Ipv4Addr::LOCALHOST.into()), Err(NotPublic::ThisMachine));
    }
}
