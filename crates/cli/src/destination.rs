//! Where a server lets its clients connect to.
//!
//! A proxy stands inside somebody's network: without this check every client could reach the
//! router's web interface or a cloud's metadata service. The check is made on the very address that
//! is then connected to, so a name that resolves differently the second time (DNS rebinding) gains
//! nothing. The blocks are those of the IANA special-purpose address registries (RFC 6890), and one
//! address that looks public and is not. This machine's own addresses, which may be public ones, are
//! looked up, and so are its IPv6 networks: there the router and every other host have public addresses.

mod machine;

pub use machine::source_towards;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use ipnet::IpNet;

use self::machine::Machine;

/// Which addresses may be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationPolicy {
    /// Global unicast addresses only, and none of this machine and of the IPv6 networks that it is in.
    PublicOnly,
    /// Private, loopback and link-local ones too (`--allow-private`); still neither multicast nor
    /// unspecified ones.
    AllowPrivate,
}

/// Why an address is not public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPublic {
    /// 127.0.0.0/8, ::1.
    #[error("a loopback address")]
    Loopback,
    /// RFC 1918, fc00::/7.
    #[error("a private address")]
    Private,
    /// 169.254.0.0/16, fe80::/10.
    #[error("a link-local address")]
    LinkLocal,
    /// 100.64.0.0/10 (RFC 6598).
    #[error("an address of a carrier's NAT")]
    CarrierNat,
    /// 0.0.0.0/8, ::.
    #[error("the unspecified address")]
    Unspecified,
    /// 224.0.0.0/4, ff00::/8, 255.255.255.255.
    #[error("a multicast or broadcast address")]
    Multicast,
    /// Documentation, benchmarking, discard, future use.
    #[error("a reserved address")]
    Reserved,
    /// 168.63.129.16, at which Azure has what it tells each of its machines alone.
    #[error("an address of the server's provider")]
    Provider,
    /// Public perhaps, but this machine's.
    #[error("an address of the server itself")]
    ThisMachine,
    /// A public one, of a host in the same network as this machine.
    #[error("an address of the server's own network")]
    Neighbour,
    /// Of a machine with a tunnel to this server.
    #[error("an address of another client")]
    Client,
    /// The system did not say whether it is this machine's.
    #[error("an address that could not be checked just now")]
    Unchecked,
}

/// What a server lets its clients connect to: a policy, and the machine that it runs on.
pub struct Destinations {
    /// [`DestinationPolicy::AllowPrivate`].
    allow_private: AtomicBool,
    machine: Machine,
    /// Where clients with tunnels have their addresses: they are nobody's business, whatever the policy says.
    clients: OnceLock<Vec<IpNet>>,
}

impl DestinationPolicy {
    /// As `--allow-private` says.
    pub fn new(allow_private: bool) -> Self {
        if allow_private { Self::AllowPrivate } else { Self::PublicOnly }
    }

    /// Whether `ip` may be connected to, as far as the address itself tells.
    ///
    /// # Errors
    /// The kind of address it is instead.
    pub fn check(self, ip: IpAddr) -> Result<(), NotPublic> {
        match (classify(ip), self) {
            (None, _) => Ok(()),
            (Some(why @ (NotPublic::Multicast | NotPublic::Unspecified)), _) => Err(why),
            (Some(why), Self::PublicOnly) => Err(why),
            (Some(_), Self::AllowPrivate) => Ok(()),
        }
    }
}

impl Destinations {
    /// Destinations by `policy`, on this machine.
    pub fn new(policy: DestinationPolicy) -> Self {
        let (allow_private, clients) = (AtomicBool::new(false), OnceLock::new());
        let destinations = Self { allow_private, machine: Machine::new(), clients };
        destinations.set_policy(policy);
        destinations
    }

    /// From now on `policy` counts.
    pub fn set_policy(&self, policy: DestinationPolicy) {
        self.allow_private.store(policy == DestinationPolicy::AllowPrivate, Relaxed);
    }

    /// From now on nobody may connect to these networks, where clients with tunnels have their addresses.
    /// Only the first call counts.
    pub fn keep_out_of(&self, clients: Vec<IpNet>) {
        let _ = self.clients.set(clients);
    }

    fn is_client(&self, ip: IpAddr) -> bool {
        self.clients.get().is_some_and(|networks| networks.iter().any(|network| network.contains(&ip)))
    }

    fn policy(&self) -> DestinationPolicy {
        DestinationPolicy::new(self.allow_private())
    }

    /// Whether clients may reach this machine and the networks around it.
    pub fn allow_private(&self) -> bool {
        self.allow_private.load(Relaxed)
    }

    /// Whether `ip` may be connected to now. An address that stands for an IPv4 one is judged as
    /// that, too.
    ///
    /// # Errors
    /// The kind of address it is instead.
    pub fn check(&self, ip: IpAddr) -> Result<(), NotPublic> {
        let ip = ip.to_canonical();
        let stands_for = behind(ip).map(IpAddr::from);
        if self.is_client(ip) || stands_for.is_some_and(|ip| self.is_client(ip)) {
            return Err(NotPublic::Client);
        }
        self.policy().check(ip)?;
        if self.allow_private() {
            return Ok(());
        }
        self.machine.check(ip)?;
        stands_for.map_or(Ok(()), |ip| self.machine.check(ip))
    }

    /// Keeps the addresses that may be connected to.
    ///
    /// # Errors
    /// Why the first one was refused, when none is left.
    pub fn permitted(&self, resolved: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, NotPublic> {
        let mut refused = None;
        let mut keep = |addr: &SocketAddr| match self.check(addr.ip()) {
            Ok(()) => true,
            Err(why) => {
                refused.get_or_insert(why);
                false
            }
        };
        let permitted: Vec<_> = resolved.into_iter().filter(|addr| keep(addr)).collect();
        match refused {
            Some(why) if permitted.is_empty() => Err(why),
            _ => Ok(permitted),
        }
    }
}

/// `None` for global unicast.
fn classify(ip: IpAddr) -> Option<NotPublic> {
    match ip {
        IpAddr::V4(ip) => classify_v4(ip),
        IpAddr::V6(ip) => classify_v6(ip),
    }
}

fn classify_v4(ip: Ipv4Addr) -> Option<NotPublic> {
    let why = match ip.octets() {
        [0, ..] => NotPublic::Unspecified,
        [127, ..] => NotPublic::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => NotPublic::Private,
        [169, 254, ..] => NotPublic::LinkLocal,
        [100, 64..=127, ..] => NotPublic::CarrierNat,
        [224..=239, ..] | [255, 255, 255, 255] => NotPublic::Multicast,
        [240..=255, ..] | [198, 18..=19, ..] => NotPublic::Reserved,
        [168, 63, 129, 16] => NotPublic::Provider,
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 51, 100, _] | [203, 0, 113, _] => NotPublic::Reserved,
        _ => return None,
    };
    Some(why)
}

fn classify_v6(ip: Ipv6Addr) -> Option<NotPublic> {
    if let Some(ip) = behind(ip.into()) {
        return classify_v4(ip);
    }
    let why = match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => NotPublic::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => NotPublic::Loopback,
        [0xfc00..=0xfdff, ..] | [0x64, 0xff9b, 1, ..] => NotPublic::Private,
        [0xfe80..=0xfebf, ..] => NotPublic::LinkLocal,
        // Site-local addresses are deprecated (RFC 3879) but may still be routed inside.
        [0xfec0..=0xfeff, ..] => NotPublic::Private,
        [0xff00..=0xffff, ..] => NotPublic::Multicast,
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => NotPublic::Reserved,
        // Global unicast is 2000::/3; everything else is unassigned or special.
        [0x2000..=0x3fff, ..] => return None,
        _ => NotPublic::Reserved,
    };
    Some(why)
}

/// The IPv4 address that an IPv6 one stands for, if it does: mapped, compatible, NAT64 (RFC 6052),
/// 6to4 (RFC 3056). What counts is the one behind. Teredo and local NAT64 are refused as a whole.
fn behind(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(ip) = ip else { return None };
    let (high, low) = match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => return None,
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => (high, low),
        [0x2002, high, low, ..] => (high, low),
        _ => return None,
    };
    Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REFUSED: &[&str] = &[
        "0.0.0.0",
        "0.1.2.3",
        "10.1.2.3",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.0.1",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.9",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:a00:1::1",
        "3fff::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "4000::1",
    ];
    const ALLOWED: &[&str] = &[
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.1",
        "100.63.255.255",
        "100.128.0.0",
        "168.63.129.17",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "192.167.0.1",
        "198.17.0.1",
        "198.20.0.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00::1",
        "::ffff:1.1.1.1",
        "64:ff9b::101:101",
        "2002:101:101::1",
    ];

    #[test]
    fn special_blocks_are_refused_and_their_neighbours_are_not() {
        for text in REFUSED {
            assert!(DestinationPolicy::PublicOnly.check(text.parse().unwrap()).is_err(), "{text}");
        }
        for text in ALLOWED {
            assert_eq!(DestinationPolicy::PublicOnly.check(text.parse().unwrap()), Ok(()), "{text}");
        }
    }

    #[test]
    fn allow_private_opens_the_inside_but_no_groups() {
        let check = |text: &str| DestinationPolicy::AllowPrivate.check(text.parse().unwrap());
        for inside in ["127.0.0.1", "10.0.0.1", "::1", "fe80::1", "169.254.1.1", "::ffff:192.168.0.1"] {
            assert_eq!(check(inside), Ok(()), "{inside}");
        }
        for never in ["0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1", "::ffff:224.0.0.1"] {
            assert!(check(never).is_err(), "{never}");
        }
    }

    #[tokio::test]
    async fn a_policy_can_change_its_mind() {
        let inside = "10.0.0.1".parse().unwrap();
        let destinations = Destinations::new(DestinationPolicy::PublicOnly);
        assert_eq!(destinations.check(inside), Err(NotPublic::Private));
        destinations.set_policy(DestinationPolicy::AllowPrivate);
        assert_eq!(destinations.check(inside), Ok(()));
        destinations.set_policy(DestinationPolicy::PublicOnly);
        assert_eq!(destinations.check(inside), Err(NotPublic::Private));
    }

    /// Their firewall lets nothing in from elsewhere, and a server's own programs are not elsewhere.
    #[tokio::test]
    async fn clients_with_tunnels_are_nobodys_business_whatever_the_policy_says() {
        let destinations = Destinations::new(DestinationPolicy::AllowPrivate);
        let check = |text: &str| destinations.check(text.parse().unwrap());
        assert_eq!(check("198.19.0.7"), Ok(()));
        destinations.keep_out_of(vec!["198.19.0.0/16".parse().unwrap(), "fd00:1::/64".parse().unwrap()]);
        for client in ["198.19.0.7", "::ffff:198.19.0.7", "64:ff9b::c613:7", "fd00:1::7"] {
            assert_eq!(check(client), Err(NotPublic::Client), "{client}");
        }
        assert_eq!((check("198.18.0.7"), check("fd00:2::7")), (Ok(()), Ok(())));
    }

    #[tokio::test]
    async fn a_name_with_both_kinds_of_address_keeps_the_public_ones() {
        let addrs =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let policy = Destinations::new(DestinationPolicy::PublicOnly);
        assert_eq!(policy.permitted(addrs(&["127.0.0.1:80", "1.1.1.1:80"])), Ok(addrs(&["1.1.1.1:80"])));
        assert_eq!(policy.permitted(addrs(&["10.0.0.1:80", "[::1]:80"])), Err(NotPublic::Private));
        assert_eq!(policy.permitted(vec![]), Ok(vec![]));
    }

    proptest! {
        /// The standard library's own predicates are a second opinion.
        #[test]
        fn never_more_open_than_the_standard_library(ip: Ipv4Addr) {
            let special = ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_multicast()
                || ip.is_broadcast() || ip.is_documentation() || ip.is_unspecified();
            if special {
                prop_assert!(DestinationPolicy::PublicOnly.check(ip.into()).is_err());
                prop_assert!(DestinationPolicy::PublicOnly.check(ip.to_ipv6_mapped().into()).is_err());
            }
        }

        #[test]
        fn mapping_changes_nothing(ip: Ipv4Addr) {
            prop_assert_eq!(classify(ip.into()), classify(ip.to_ipv6_mapped().into()));
        }
    }
}
