//! Recovery, and everything else but probes and path validation, stays within the window of its path.

use std::collections::BTreeMap;

use proto::{PathId, PathState, PathStats, Transmit};

use super::Broken;

/// Probes that one probe timeout allows regardless of the window (RFC 9002 section 6.2.4).
const PROBES: u8 = 2;
/// Size of a datagram that validates a path (RFC 9000 section 8.2.1); it may leave regardless of the window.
const VALIDATION_SIZE: usize = 1_200;

/// Bytes in flight against the window.
#[derive(Default, Debug)]
pub(super) struct Window {
    /// Probes that each path may still send over its window.
    probes: BTreeMap<PathId, u8>,
}

impl Window {
    pub(super) fn on_timeout(&mut self, before: &[PathStats], after: &[PathStats]) {
        for path in after {
            let count = before.iter().find(|p| p.id == path.id).map_or(0, |p| p.pto_count);
            if path.pto_count > count {
                self.probes.insert(path.id, PROBES);
            }
        }
    }

    pub(super) fn on_transmit(
        &mut self,
        transmit: &Transmit,
        before: &[PathStats],
        after: &[PathStats],
        handshaking: bool,
    ) -> Result<(), Broken> {
        for path in after.iter().filter(|p| p.in_flight > p.window) {
            let Some(earlier) = before.iter().find(|p| p.id == path.id) else { continue };
            if path.in_flight <= earlier.in_flight {
                continue;
            }
            let over = |what| {
                Err(Broken::OverWindow {
                    path: path.id,
                    in_flight: path.in_flight,
                    window: path.window,
                    what,
                })
            };
            // A copy or repair symbol has no excuse.
            if path.copies_sent + path.repair_sent > earlier.copies_sent + earlier.repair_sent {
                return over("recovery");
            }
            let validates = transmit.size == VALIDATION_SIZE || path.state == PathState::Validating;
            if handshaking || validates {
                continue;
            }
            let probes = self.probes.entry(path.id).or_default();
            if *probes == 0 {
                return over("data");
            }
            *probes -= 1;
        }
        Ok(())
    }
}
