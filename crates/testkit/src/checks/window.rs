//! Recovery, and everything else but probes, path validation and the handshake, stays within the
//! window of its path.

use std::collections::BTreeMap;

use proto::{PathId, PathStats};

use super::Broken;

/// Probes that one probe timeout allows regardless of the window (RFC 9002 section 6.2.4).
const PROBES: u8 = 2;

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

    /// `is_free` says whether what left validates a path or is the handshake's, or that this goes on.
    pub(super) fn on_transmit(
        &mut self,
        is_free: bool,
        before: &[PathStats],
        after: &[PathStats],
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
            if is_free {
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
    use crate::checks::tests::paths;

    /// Bytes in flight go up by 1,200 to one more than the window.
    fn over(
        change: impl Fn(&mut PathStats, &mut PathStats),
        allow_probe: bool,
        is_free: bool,
    ) -> Result<(), Broken> {
        let mut before = paths();
        let mut after = before.clone();
        before[1].in_flight = before[1].window - 1_199;
        after[1].in_flight = after[1].window + 1;
        change(&mut before[1], &mut after[1]);
        let mut window = Window::default();
        if allow_probe {
            let mut suspected = before.clone();
            suspected[1].pto_count += 1;
            window.on_timeout(&before, &suspected);
        }
        window.on_transmit(is_free, &before, &after)
    }

    #[test]
    fn whatever_exceeds_the_window_is_seen_unless_it_is_a_probe() {
        assert!(over(|_, _| {}, false, false).is_err(), "also a datagram as large as a challenge");
        assert_eq!(over(|_, after| after.in_flight -= 1, false, false), Ok(()));
        assert_eq!(over(|_, _| {}, true, false), Ok(()));
        assert_eq!(over(|_, _| {}, false, true), Ok(()), "a challenge");
        let to_a_stranger = |_: &mut PathStats, after: &mut PathStats| after.address_validated = false;
        assert!(over(to_a_stranger, false, false).is_err(), "data, and no challenge");
        assert!(over(|_, after| after.copies_sent += 1, true, true).is_err(), "recovery has no excuse");
        assert!(over(|_, after| after.repair_symbols_sent += 1, true, true).is_err());
    }
}
