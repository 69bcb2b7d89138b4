//! Recovery, and everything else but probes and path validation, stays within the window of its
//! path.

use std::collections::BTreeMap;

use proto::{PathId, PathStats, Transmit};

use super::Broken;

/// Probes that one probe timeout allows regardless of the window (RFC 9002 section 6.2.4).
const PROBES: u8 = 2;
/// Size of a datagram that validates a path (RFC 9000 section 8.2.1); it may leave regardless of
/// the window.
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
            if path.copies_sent + path.repair_symbols_sent > earlier.copies_sent + earlier.repair_symbols_sent
            {
                return over("recovery");
            }
            let validates = transmit.size == VALIDATION_SIZE || !path.address_validated;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::{paths, transmit};

    /// Bytes in flight go up by 1,000 to one more than the window.
    fn over(change: impl Fn(&mut PathStats, &mut PathStats), allow_probe: bool) -> Result<(), Broken> {
        let mut before = paths();
        let mut after = before.clone();
        before[1].in_flight = before[1].window - 999;
        after[1].in_flight = after[1].window + 1;
        change(&mut before[1], &mut after[1]);
        let mut window = Window::default();
        if allow_probe {
            let mut suspected = before.clone();
            suspected[1].pto_count += 1;
            window.on_timeout(&before, &suspected);
        }
        window.on_transmit(&transmit(&before[1], 1_000), &before, &after, false)
    }

    #[test]
    fn whatever_exceeds_the_window_is_seen_unless_it_is_a_probe() {
        assert!(over(|_, _| {}, false).is_err());
        assert_eq!(over(|_, after| after.in_flight -= 1, false), Ok(()));
        assert_eq!(over(|_, _| {}, true), Ok(()));
        assert_eq!(over(|_, after| after.address_validated = false, false), Ok(()), "a challenge");
        assert!(over(|_, after| after.copies_sent += 1, true).is_err(), "recovery has no excuse");
        assert!(over(|_, after| after.repair_symbols_sent += 1, true).is_err());
    }
}
