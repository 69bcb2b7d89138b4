//! A server sends at most three times what an unvalidated address sent (RFC 9000 section 8).

use std::collections::BTreeMap;

use proto::{NetworkPath, PathStats, Side, Transmit};

use super::Broken;

const FACTOR: u64 = 3;

/// What was exchanged with each address.
#[derive(Default, Debug)]
pub(super) struct Amplification {
    /// An entry per address of the scenario.
    addresses: BTreeMap<NetworkPath, Address>,
}

#[derive(Default, Debug)]
struct Address {
    received: u64,
    sent: u64,
    /// A path ran there and was validated. Should it leave, the address may be asked whether the
    /// peer is still there.
    was_validated: bool,
}

impl Amplification {
    pub(super) fn on_arrival(&mut self, path: NetworkPath, size: u64) {
        self.addresses.entry(path).or_default().received += size;
    }

    /// What the paths are like when nothing is left to be sent.
    pub(super) fn when_idle(&mut self, paths: &[PathStats]) {
        for path in paths.iter().filter(|p| p.address_validated) {
            self.addresses.entry(path.network).or_default().was_validated = true;
        }
    }

    pub(super) fn on_transmit(
        &mut self,
        transmit: &Transmit,
        paths: &[PathStats],
        side: Side,
    ) -> Result<(), Broken> {
        let here = |p: &&PathStats| p.network == transmit.path;
        let validated = paths.iter().filter(here).any(|p| p.address_validated);
        let address = self.addresses.entry(transmit.path).or_default();
        let left = address.was_validated && !paths.iter().any(|p| here(&p));
        if side == Side::Client || validated || left {
            // Should the path be closed and opened again, its next validation has a budget of its
            // own.
            address.sent = 0;
            return Ok(());
        }
        address.sent += transmit.size as u64;
        if address.sent <= FACTOR * address.received {
            return Ok(());
        }
        Err(Broken::Amplification { path: transmit.path, sent: address.sent, received: address.received })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::{paths, transmit};

    #[test]
    fn a_byte_beyond_three_times_what_came_is_seen() {
        let mut paths = paths();
        paths[1].address_validated = false;
        let mut checker = Amplification::default();
        checker.on_arrival(paths[0].network, 1_200);
        checker.on_arrival(paths[1].network, 100);
        let mut send =
            |size, paths: &[PathStats], side| checker.on_transmit(&transmit(&paths[1], size), paths, side);
        assert_eq!(send(300, &paths, Side::Server), Ok(()));
        assert!(send(1, &paths, Side::Server).is_err());
        assert_eq!(send(1_000, &paths, Side::Client), Ok(()), "clients are not limited");
        paths[1].address_validated = true;
        assert_eq!(send(1_000, &paths, Side::Server), Ok(()));
    }

    #[test]
    fn an_address_that_a_path_left_may_be_asked_if_it_was_validated() {
        let paths = paths();
        let mut checker = Amplification::default();
        checker.on_arrival(paths[1].network, 100);
        let ask = transmit(&paths[1], 1_200);
        assert!(checker.on_transmit(&ask, &paths[..1], Side::Server).is_err());
        checker.when_idle(&paths);
        assert_eq!(checker.on_transmit(&ask, &paths[..1], Side::Server), Ok(()));
        let mut again = paths.clone();
        again[1].address_validated = false;
        assert!(checker.on_transmit(&ask, &again, Side::Server).is_err(), "another path there begins anew");
    }
}
