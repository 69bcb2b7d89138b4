//! Who asks and is not let in yet: a bounded room that cannot be held against others.
//!
//! A client waits here until it is accepted and its handshake is complete or, on servers with
//! [`crate::Admission`], until the application lets it in. The room never turns a newcomer away.
//! When it is full, or has as many guests of the newcomer's network as it takes, the oldest goes
//! out: first one whose address is not known to be its own, then any. A client that means it needs
//! a place for some round trips, so whoever wants to keep it out has to fill the whole room again
//! and again within that time, from many networks, with addresses that receive.
//!
//! # Shares
//!
//! Addresses are cheap in bulk, not one by one, and what comes in bulk differs by family:
//!
//! | prefix             | stands for                                      | share of the room |
//! |--------------------|-------------------------------------------------|-------------------|
//! | IPv6 /64           | one network segment: a host has all of it       | an eighth         |
//! | IPv4 /32, IPv6 /56 | one subscriber, or all behind one translator    | a quarter         |
//! | IPv4 /24, IPv6 /48 | one site or rented block, the least that is routed | a half         |
//!
//! IPv4 addresses in IPv6 form (RFC 4291 section 2.5.5.2) count as IPv4.

use std::{collections::BTreeMap, net::IpAddr};

use super::ConnectionHandle;

/// Prefix lengths with the divisors of the room, longest first.
const IPV4: [(u8, usize); 2] = [(32, 4), (24, 2)];
const IPV6: [(u8, usize); 3] = [(64, 8), (56, 4), (48, 2)];

/// A network prefix: its length, and the address with all other bits zero. Families differ by what
/// precedes an IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Prefix(u8, u128);

#[derive(Clone, Copy, Debug)]
struct Guest {
    address: IpAddr,
    /// It receives at its address: shown by a token, or by a complete handshake.
    validated: bool,
}

/// Why somebody has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// The newcomer's network has its share.
    Network,
    /// The room is full.
    Room,
}

/// The clients that are not let in. Handles grow, so their order is that of arrival.
///
/// Bound: as many guests as the configuration says, 200 bytes each.
#[derive(Debug, Default)]
pub(super) struct Lobby {
    guests: BTreeMap<ConnectionHandle, Guest>,
    /// Guests by prefix; no entry is 0.
    crowd: BTreeMap<Prefix, usize>,
}

impl Lobby {
    pub(super) fn len(&self) -> usize {
        self.guests.len()
    }

    pub(super) fn contains(&self, handle: ConnectionHandle) -> bool {
        self.guests.contains_key(&handle)
    }

    pub(super) fn enter(&mut self, handle: ConnectionHandle, address: IpAddr, validated: bool) {
        let address = address.to_canonical();
        prefixes(address).for_each(|(prefix, _)| *self.crowd.entry(prefix).or_default() += 1);
        self.guests.insert(handle, Guest { address, validated });
    }

    /// The guest is let in, or gone; whoever is not here is neither.
    pub(super) fn leave(&mut self, handle: ConnectionHandle) {
        let Some(guest) = self.guests.remove(&handle) else { return };
        for (prefix, _) in prefixes(guest.address) {
            let Some(count) = self.crowd.get_mut(&prefix) else { continue };
            *count -= 1;
            if *count == 0 {
                self.crowd.remove(&prefix);
            }
        }
    }

    /// The guest receives at its address.
    pub(super) fn validate(&mut self, handle: ConnectionHandle) {
        if let Some(guest) = self.guests.get_mut(&handle) {
            guest.validated = true;
        }
    }

    /// Who has to go before somebody from this address may enter a room for `capacity`, if anybody.
    /// Once he is gone, another may have to.
    pub(super) fn rival(&self, address: IpAddr, capacity: usize) -> Option<(ConnectionHandle, Full)> {
        let address = address.to_canonical();
        let crowded = prefixes(address).find(|(prefix, divisor)| {
            self.crowd.get(prefix).is_some_and(|count| *count >= (capacity / divisor).max(1))
        });
        if let Some((prefix, _)) = crowded {
            return self.oldest(|guest| within(guest.address, prefix)).map(|handle| (handle, Full::Network));
        }
        if self.guests.len() < capacity {
            return None;
        }
        self.oldest(|_| true).map(|handle| (handle, Full::Room))
    }

    /// The oldest of these guests without a validated address, or else the oldest of all of them.
    fn oldest(&self, mut among: impl FnMut(&Guest) -> bool) -> Option<ConnectionHandle> {
        let mut those = self.guests.iter().filter(|(_, guest)| among(guest));
        let first = those.next()?;
        let unvalidated = core::iter::once(first).chain(those).find(|(_, guest)| !guest.validated);
        Some(*unvalidated.unwrap_or(first).0)
    }
}

/// The prefixes of an address with what the room is divided by for each, longest first.
fn prefixes(address: IpAddr) -> impl Iterator<Item = (Prefix, usize)> {
    let (levels, bits, width): (&[(u8, usize)], u128, u8) = match address {
        IpAddr::V4(v4) => (&IPV4, v4.to_ipv6_mapped().to_bits(), 96),
        IpAddr::V6(v6) => (&IPV6, v6.to_bits(), 0),
    };
    levels.iter().map(move |(length, divisor)| (prefix(bits, length + width), *divisor))
}

fn prefix(bits: u128, length: u8) -> Prefix {
    Prefix(length, bits & (u128::MAX << (128 - u32::from(length))))
}

fn within(address: IpAddr, of: Prefix) -> bool {
    prefixes(address).any(|(prefix, _)| prefix == of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn room(guests: &[(&str, bool)]) -> Lobby {
        let mut lobby = Lobby::default();
        for (n, (address, validated)) in guests.iter().enumerate() {
            lobby.enter(ConnectionHandle(n), ip(address), *validated);
        }
        lobby
    }

    fn rival(lobby: &Lobby, address: &str, capacity: usize) -> Option<(usize, Full)> {
        lobby.rival(ip(address), capacity).map(|(handle, full)| (handle.0, full))
    }

    #[test]
    fn the_oldest_without_a_validated_address_goes_first() {
        let mut lobby = room(&[("192.0.2.1", true), ("198.51.100.1", false), ("203.0.113.1", false)]);
        assert_eq!(rival(&lobby, "10.0.0.1", 4), None);
        assert_eq!(rival(&lobby, "10.0.0.1", 3), Some((1, Full::Room)));
        lobby.validate(ConnectionHandle(1));
        assert_eq!(rival(&lobby, "10.0.0.1", 3), Some((2, Full::Room)));
        lobby.validate(ConnectionHandle(2));
        assert_eq!(rival(&lobby, "10.0.0.1", 3), Some((0, Full::Room)));
        lobby.leave(ConnectionHandle(0));
        lobby.leave(ConnectionHandle(0));
        assert_eq!((rival(&lobby, "10.0.0.1", 3), lobby.len()), (None, 2));
    }

    /// Rooms of 16: an IPv4 address has four places, a /24 eight.
    #[test]
    fn a_network_that_has_its_share_displaces_its_own() {
        let mut lobby = room(&[("198.51.100.1", false)]);
        for n in 1..=4 {
            assert_eq!(rival(&lobby, "192.0.2.1", 16), None);
            lobby.enter(ConnectionHandle(n), ip("192.0.2.1"), true);
        }
        assert_eq!(rival(&lobby, "192.0.2.1", 16), Some((1, Full::Network)));
        assert_eq!(
            rival(&lobby, "::ffff:192.0.2.1", 16),
            Some((1, Full::Network)),
            "the same in other dress"
        );
        for n in 5..=8 {
            assert_eq!(rival(&lobby, "192.0.2.2", 16), None);
            lobby.enter(ConnectionHandle(n), ip("192.0.2.2"), n != 7);
        }
        assert_eq!(rival(&lobby, "192.0.2.3", 16), Some((7, Full::Network)), "the /24 is full");
        assert_eq!(rival(&lobby, "192.0.3.1", 16), None, "its neighbour is not");
        (0..9).for_each(|n| lobby.leave(ConnectionHandle(n)));
        assert!(lobby.crowd.is_empty());
    }

    /// The same with IPv6: two places for a /64, four for a /56, eight for a /48.
    #[test]
    fn what_ipv6_hands_out_in_bulk_counts_together() {
        let cases = [
            (2, "2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"),
            (4, "2001:db8::1", "2001:db8:0:ff::1", "2001:db8:0:100::1"),
            (8, "2001:db8::1", "2001:db8:0:ffff::1", "2001:db8:1::1"),
        ];
        for (places, first, same, other) in cases {
            let mut lobby = Lobby::default();
            let first: std::net::Ipv6Addr = first.parse().unwrap();
            let step = match places {
                2 => 1u128,
                4 => 1 << 64,
                _ => 1 << 72,
            };
            for n in 0..places {
                let address = std::net::Ipv6Addr::from_bits(first.to_bits() + step * n as u128);
                assert_eq!(lobby.rival(address.into(), 16), None);
                lobby.enter(ConnectionHandle(n), address.into(), true);
            }
            assert_eq!(rival(&lobby, same, 16), Some((0, Full::Network)), "{places}");
            assert_eq!(rival(&lobby, other, 16), None, "{places}");
        }
    }

    #[test]
    fn a_room_for_one_holds_one() {
        let lobby = room(&[("192.0.2.1", true)]);
        assert_eq!(rival(&lobby, "192.0.2.1", 1), Some((0, Full::Network)));
        assert_eq!(rival(&lobby, "2001:db8::1", 1), Some((0, Full::Room)));
        assert_eq!(rival(&Lobby::default(), "2001:db8::1", 1), None);
    }
}
