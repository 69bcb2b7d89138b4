//! Which client of a server has which address. An address belongs to whom it was given first for
//! as long as there are others to give, and is derived from his name, so that it is the same again
//! after the server was started anew.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// The first addresses of a pool are the network's own, and the server's.
const RESERVED: u32 = 2;

/// An address that somebody has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its place in the pool.
    pub index: u32,
    /// Of IPv4.
    pub v4: Ipv4Addr,
    /// Of IPv6.
    pub v6: Ipv6Addr,
}

#[derive(Clone, Copy, Debug)]
struct Holder<K> {
    name: K,
    /// How many connections of his use it now.
    present: usize,
    /// When he came or went last, in an order of its own.
    turn: u64,
}

/// The addresses of a server.
#[derive(Debug)]
pub struct Leases<K> {
    v4: Ipv4Addr,
    v6: Ipv6Addr,
    /// How many addresses there are, those that nobody gets included.
    size: u32,
    by_name: BTreeMap<K, u32>,
    by_index: BTreeMap<u32, Holder<K>>,
    turn: u64,
    most: usize,
}

impl<K: Ord + Copy> Leases<K> {
    /// A pool of `size` addresses from `v4` and from `v6` on, of which at most `most` are
    /// remembered. The first two of each are nobody's: the network itself, and the server.
    pub fn new(v4: Ipv4Addr, v6: Ipv6Addr, size: u32, most: usize) -> Self {
        let (by_name, by_index) = Default::default();
        Self { v4, v6, size, by_name, by_index, turn: 0, most: most.max(1) }
    }

    /// The lease with this place.
    fn lease(&self, index: u32) -> Lease {
        let v4 = Ipv4Addr::from_bits(self.v4.to_bits().wrapping_add(index));
        let v6 = Ipv6Addr::from_bits(self.v6.to_bits().wrapping_add(index.into()));
        Lease { index, v4, v6 }
    }

    /// The server's own addresses.
    pub fn server(&self) -> (Ipv4Addr, Ipv6Addr) {
        let Lease { v4, v6, .. } = self.lease(1);
        (v4, v6)
    }

    /// Whether an address is of the pool.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let (offset, size) = match ip {
            IpAddr::V4(ip) => (u128::from(ip.to_bits().wrapping_sub(self.v4.to_bits())), self.size),
            IpAddr::V6(ip) => (ip.to_bits().wrapping_sub(self.v6.to_bits()), self.size),
        };
        offset < u128::from(size)
    }

    /// The place in the pool of one of its addresses.
    pub fn index_of(&self, ip: IpAddr) -> Option<u32> {
        self.contains(ip).then(|| match ip {
            IpAddr::V4(ip) => ip.to_bits().wrapping_sub(self.v4.to_bits()),
            IpAddr::V6(ip) => ip.to_bits().wrapping_sub(self.v6.to_bits()) as u32,
        })
    }

    /// The place of a name that has been here.
    pub fn place_of(&self, name: &K) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// The address of `name`, who is here from now on. If he has none, the one that he had
    /// elsewhere or before (`wanted`, 0 for none) if nobody has it, or one that `hash`, made of his
    /// name, leads to. `None` if all are in use.
    pub fn enter(&mut self, name: K, hash: u64, wanted: u32) -> Option<Lease> {
        let index = match self.by_name.get(&name) {
            Some(index) => *index,
            None => self.find(hash, wanted)?,
        };
        self.turn += 1;
        self.by_name.insert(name, index);
        let holder = self.by_index.entry(index).or_insert(Holder { name, present: 0, turn: 0 });
        (holder.present, holder.turn) = (holder.present + 1, self.turn);
        Some(self.lease(index))
    }

    /// One connection of whoever has this place is gone; it stays his.
    pub fn leave(&mut self, index: u32) {
        self.turn += 1;
        if let Some(holder) = self.by_index.get_mut(&index) {
            (holder.present, holder.turn) = (holder.present.saturating_sub(1), self.turn);
        }
    }

    /// Addresses that somebody has.
    pub fn len(&self) -> usize {
        self.by_index.len()
    }

    /// Whether nobody has one.
    pub fn is_empty(&self) -> bool {
        self.by_index.is_empty()
    }

    fn find(&mut self, hash: u64, wanted: u32) -> Option<u32> {
        // The last one is a broadcast address in IPv4.
        let usable = self.size.checked_sub(RESERVED + 1).filter(|usable| *usable > 0)?;
        if self.by_index.len() >= self.most.min(usable as usize) {
            let absent = self.by_index.iter().filter(|(_, holder)| holder.present == 0);
            let (&index, holder) = absent.min_by_key(|(_, holder)| holder.turn)?;
            let name = holder.name;
            self.by_name.remove(&name);
            self.by_index.remove(&index);
        }
        let is_free = |index: &u32| !self.by_index.contains_key(index);
        let first = (hash % u64::from(usable)) as u32;
        let wanted = Some(wanted).filter(|wanted| (RESERVED..RESERVED + usable).contains(wanted));
        wanted.filter(is_free).or_else(|| (0..usable).map(|n| RESERVED + (first + n) % usable).find(is_free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leases(size: u32, most: usize) -> Leases<u8> {
        Leases::new("198.19.0.0".parse().unwrap(), "fd00::".parse().unwrap(), size, most)
    }

    #[test]
    fn an_address_stays_whose_it_was() {
        let mut leases = leases(256, 99);
        let first = leases.enter(1, 40, 0).unwrap();
        assert_eq!((first.v4, first.v6), ("198.19.0.42".parse().unwrap(), "fd00::2a".parse().unwrap()));
        let other = leases.enter(2, 40, 0).unwrap();
        assert_eq!(other.index, 43, "the next one that is free");
        leases.leave(first.index);
        assert_eq!(leases.enter(3, 40, first.index).unwrap().index, 44, "it is still his");
        assert_eq!(leases.enter(1, 7, 99), Some(first));
        assert_eq!(leases.server(), ("198.19.0.1".parse().unwrap(), "fd00::1".parse().unwrap()));
    }

    #[test]
    fn a_wish_is_granted_where_it_can_be() {
        let mut leases = leases(256, 99);
        assert_eq!(leases.enter(1, 0, 77).unwrap().index, 77);
        for (name, wish) in [(2, 1), (3, 255), (4, 256), (5, u32::MAX), (6, 77)] {
            let index = leases.enter(name, 0, wish).unwrap().index;
            assert!(index != wish && (2..255).contains(&index));
        }
    }

    #[test]
    fn who_is_away_longest_makes_room_and_who_is_here_never() {
        let mut leases = leases(6, 99);
        let all: Vec<u32> = (0..3).map(|name| leases.enter(name, 0, 0).unwrap().index).collect();
        assert_eq!((all.clone(), leases.enter(3, 0, 0)), (vec![2, 3, 4], None));
        leases.leave(3);
        leases.leave(2);
        assert_eq!(leases.enter(4, 0, 0).unwrap().index, 3, "he left first");
        assert_eq!((leases.enter(0, 0, 0).unwrap().index, leases.len()), (2, 3));
        assert!(super::Leases::<u8>::new([0; 4].into(), 0.into(), 2, 9).enter(1, 0, 0).is_none());
    }

    #[test]
    fn addresses_of_the_pool_are_known() {
        let leases = leases(256, 9);
        for (ip, index) in [("198.19.0.0", Some(0)), ("198.19.0.255", Some(255)), ("198.19.1.0", None)] {
            assert_eq!(leases.index_of(ip.parse().unwrap()), index);
        }
        assert_eq!(leases.index_of("fd00::9".parse().unwrap()), Some(9));
        assert_eq!(leases.index_of("fd00::1:0:9".parse().unwrap()), None);
        assert!(leases.is_empty());
    }
}
