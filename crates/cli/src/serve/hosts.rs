//! What one host may have of the connections, so that it keeps no others out.
//!
//! A host is an IPv4 address or an IPv6 /48, the outermost that the lobby of the transport counts
//! together: whoever has one has all addresses in it. It gets as many connections as it leaves free,
//! so that a single one has half, and whoever comes next finds some. Half, since a host may as well
//! be a proxy before this server, or all that a translator of addresses stands for.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    console::say,
    server::seats::{Seat, Seats},
};

/// Between lines that a host is refused.
const SAY_AGAIN: Duration = Duration::from_secs(60);
/// Of an IPv6 address, what tells hosts apart.
const IPV6_PREFIX: u32 = 48;

/// Whoever has all addresses of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Host(IpAddr);

/// The connections of one kind, by host.
pub(super) struct Hosts {
    transport: &'static str,
    seats: Arc<Seats<Host>>,
    refused: AtomicU64,
    said: Mutex<Option<Instant>>,
}

impl Host {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) => {
                let prefix = v6.to_bits() & (u128::MAX << (128 - IPV6_PREFIX));
                Self(Ipv6Addr::from_bits(prefix).into())
            }
            v4 => Self(v4),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(v4) => v4.fmt(f),
            IpAddr::V6(v6) => write!(f, "{v6}/{IPV6_PREFIX}"),
        }
    }
}

impl Hosts {
    /// Of so many `connections` by `transport`.
    pub(super) fn new(transport: &'static str, connections: usize) -> Arc<Self> {
        let (refused, said) = (AtomicU64::new(0), Mutex::default());
        Arc::new(Self { transport, seats: Seats::new(connections), refused, said })
    }

    /// What a connection from there takes of its host's share, unless that is used up.
    pub(super) fn take(&self, from: SocketAddr) -> Option<Seat<Host>> {
        let host = Host::of(from.ip());
        let seat = self.seats.take_of_any(host);
        if seat.is_none() {
            self.note(host);
        }
        seat
    }

    /// Whether a connection from there could have something, if it is from there.
    pub(super) fn has_room(&self, from: SocketAddr) -> bool {
        let host = Host::of(from.ip());
        let has_room = self.seats.has_for_any(host);
        if !has_room {
            self.note(host);
        }
        has_room
    }

    /// The transport, and how many connections by it were refused.
    pub(super) fn refused(&self) -> (&'static str, u64) {
        (self.transport, self.refused.load(Relaxed))
    }

    fn note(&self, host: Host) {
        self.refused.fetch_add(1, Relaxed);
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|when| when.elapsed() >= SAY_AGAIN) {
            *said = Some(Instant::now());
            say(format_args!(
                "{host} has as many connections by {} as it leaves for others, and is refused more; \
                 --max-connections may be higher",
                self.transport
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().unwrap(), 443)
    }

    #[test]
    fn a_host_has_half_however_many_addresses_it_uses() {
        for (one, same, other) in [
            ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
            ("2001:db8::1", "2001:db8:0:ffff::1", "2001:db8:1::1"),
        ] {
            let hosts = Hosts::new("tcp", 16);
            let mut held: Vec<_> = std::iter::from_fn(|| hosts.take(from(one))).collect();
            assert_eq!((held.len(), hosts.refused()), (8, ("tcp", 1)));
            assert!(!hosts.has_room(from(same)) && hosts.take(from(same)).is_none(), "{same}");
            assert_eq!(hosts.refused().1, 3);
            assert!(hosts.has_room(from(other)) && hosts.take(from(other)).is_some(), "{other}");
            held.pop();
            assert!(hosts.take(from(same)).is_some(), "{same}");
        }
    }

    #[test]
    fn the_only_connection_is_had() {
        let hosts = Hosts::new("quic", 1);
        let only = hosts.take(from("192.0.2.1"));
        assert!(only.is_some() && hosts.take(from("192.0.2.2")).is_none());
    }

    #[test]
    fn hosts_are_called_by_what_they_have() {
        for (address, name) in [("::ffff:192.0.2.1", "192.0.2.1"), ("2001:db8:1:2::3", "2001:db8:1::/48")] {
            assert_eq!(Host::of(address.parse().unwrap()).to_string(), name);
        }
    }
}
