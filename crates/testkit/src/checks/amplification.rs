//! A server sends at most three times what an unvalidated address sent (RFC 9000 section 8).

use std::collections::BTreeMap;

use proto::{NetworkPath, PathState, PathStats, Side, Transmit};

use super::Broken;

const FACTOR: u64 = 3;

/// Bytes exchanged with each address.
#[derive(Default, Debug)]
pub(super) struct Amplification {
    /// Received and sent. An entry per path of the connection.
    addresses: BTreeMap<NetworkPath, (u64, u64)>,
    /// The handshake's path. A Handshake packet from the client validates its address before anything shows it, so this path is
    /// not checked.
    first: Option<NetworkPath>,
}

impl Amplification {
    pub(super) fn on_arrival(&mut self, path: NetworkPath, size: u64) {
        self.first.get_or_insert(path);
        self.addresses.entry(path).or_default().0 += size;
    }

    pub(super) fn on_transmit(
        &mut self,
        transmit: &Transmit,
        paths: &[PathStats],
        side: Side,
    ) -> Result<(), Broken> {
        let validated = paths.iter().any(|p| p.network == transmit.path && p.state != PathState::Validating);
        let (received, sent) = self.addresses.entry(transmit.path).or_default();
        if side == Side::Client || validated || self.first == Some(transmit.path) {
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
