//! The addresses of the device, and of what seems to be behind it.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The device's name.
pub(super) use crate::client::TUN as NAME;

/// As large as a packet can be: TCP's segments and programs' datagrams need no cutting here, since
/// what is sent through the network is cut anew.
pub(super) const MTU: u32 = 65_535;
/// Packets that may wait for us; 64 KiB each at worst, and TCP keeps to its windows.
pub(super) const QUEUE: u32 = 1_000;

/// The same where packets are carried as they are: their own congestion control fills whatever
/// queue there is.
pub(super) const RAW_QUEUE: u32 = 500;

/// The device's address, of a network for tests of equipment (RFC 2544 appendix C.2.2), which is
/// nobody's on the Internet.
pub(super) const DEVICE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// What programs take for the router, and for a name server.
pub(super) const PEER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
pub(super) const PREFIX: u8 = 30;

/// The same of IPv6: unique local addresses (RFC 4193), so that programs prefer IPv4 where a host
/// has both (RFC 6724 section 2.1), since the server may lack IPv6.
pub(super) const DEVICE_V6: Ipv6Addr = Ipv6Addr::new(0xfd6d, 0x656e, 0x6470, 0, 0, 0, 0, 1);
pub(super) const PEER_V6: Ipv6Addr = Ipv6Addr::new(0xfd6d, 0x656e, 0x6470, 0, 0, 0, 0, 2);
pub(super) const PREFIX_V6: u8 = 126;
