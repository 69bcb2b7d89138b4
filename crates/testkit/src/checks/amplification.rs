//! A server sends at most three times what an unvalidated address sent (RFC 9000 section 8).

use std::collections::BTreeMap;

use proto::{NetworkPath, PathStats, Side, Transmit};

use super::Broken;

const FACTOR: u64 = 3;

/// Bytes exchanged with each address.
#[derive(Default, Debug)]
pub(super) struct Amplification {
    /// Received and sent. An entry per address of the scenario.
    addresses: BTreeMap<NetworkPath, (u64, u64)>,
}

impl Amplification {
    pub(super) fn on_arrival(&mut self, path: NetworkPath, size: u64) {
        self.addresses.entry(path).or_default().0 += size;
    }

    pub(super) fn on_transmit(
        &mut self,
        transmit: &Transmit,
        paths: &[PathStats],
        side: Side,
    ) -> Result<(), Broken> {
        let validated = paths.iter().any(|p| p.network == transmit.path && p.address_validated);
        let (received, sent) = self.addresses.entry(transmit.path).or_default();
        if side == Side::Client || validated {
            // Should the path be closed and opened again, its next validation has a budget of its own.
            *sent = 0;
            return Ok(());
        }
        *sent += transmit.size as u64;
        if *sent <= FACTOR * *received {
            return Ok(());
        }
        Err(Broken::Amplification { path: transmit.path, sent: *sent, received: *received })
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
}
