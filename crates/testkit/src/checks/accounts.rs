//! Every packet and byte is accounted for: what the statistics say is what the network saw, and each packet of a path was acknowledged, lost,
//! is in flight, or never was to be acknowledged.

use std::collections::BTreeSet;

use proto::{NetworkPath, PathState, PathStats, Transmit};

use super::Broken;

/// What the network saw of one side of a connection.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    sent: u64,
    arrived: u64,
    /// Where datagrams came from. An entry per address of the scenario.
    sources: BTreeSet<NetworkPath>,
}

impl Accounts {
    pub(super) fn on_arrival(&mut self, from: NetworkPath, size: u64) {
        self.sources.insert(from);
        self.arrived += size;
    }

    pub(super) fn on_transmit(
        &mut self,
        transmit: &Transmit,
        before: &[PathStats],
        after: &[PathStats],
    ) -> Result<(), Broken> {
        self.sent += transmit.size as u64;
        let mut counted = 0;
        for path in after {
            let Some(earlier) = before.iter().find(|p| p.id == path.id) else { continue };
            let grown = path.bytes_sent.saturating_sub(earlier.bytes_sent);
            let here = path.network == transmit.path || earlier.network == transmit.path;
            if grown > 0 && !here && !self.may_be_probed(transmit, after) {
                return Err(Broken::Accounts(format!("{transmit:?} was booked on another path: {path:?}")));
            }
            counted += grown;
        }
        if counted != transmit.size as u64 {
            return Err(Broken::Accounts(format!("{transmit:?} was booked as {counted} bytes")));
        }
        after.iter().try_for_each(every_packet)
    }

    /// A peer that seems to have moved is challenged where it was and answered where it probes from (RFC 9000 section 9.3). An abandoned
    /// path may have run there, too: the client may open another in its place.
    fn may_be_probed(&self, transmit: &Transmit, paths: &[PathStats]) -> bool {
        let runs_there = |p: &PathStats| p.network == transmit.path && p.state != PathState::Closing;
        self.sources.contains(&transmit.path) && !paths.iter().any(runs_there)
    }

    /// The connection's totals.
    pub(super) fn check(&self, sent: u64, received: u64) -> Result<(), Broken> {
        let wrong = |what: &str, booked, seen| {
            Err(Broken::Accounts(format!("{booked} bytes {what} in the books, the network saw {seen}")))
        };
        if sent != self.sent {
            return wrong("sent", sent, self.sent);
        }
        // Damaged and repeated packets count for the network alone.
        if received > self.arrived {
            return wrong("received", received, self.arrived);
        }
        Ok(())
    }
}

fn every_packet(p: &PathStats) -> Result<(), Broken> {
    let known = p.packets_acknowledged + p.packets_lost + p.packets_outstanding + p.packets_untracked;
    if known == p.packets_sent {
        return Ok(());
    }
    Err(Broken::Accounts(format!("{known} of {} packets are accounted for: {p:?}", p.packets_sent)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::{paths, transmit};

    #[test]
    fn what_is_not_booked_or_booked_elsewhere_is_seen() {
        let before = paths();
        let sent = transmit(&before[0], 1_000);
        let mut after = before.clone();
        let check = |after: &[PathStats]| Accounts::default().on_transmit(&sent, &before, after);
        assert!(check(&after).is_err(), "not booked");
        after[0].bytes_sent += 1_000;
        after[0].packets_sent += 1;
        assert!(check(&after).is_err(), "a packet that nobody waits for");
        after[0].packets_outstanding += 1;
        assert_eq!(check(&after), Ok(()));
        after[0].bytes_sent += 1;
        assert!(check(&after).is_err(), "a byte too much");
        let mut elsewhere = before.clone();
        elsewhere[1].bytes_sent += 1_000;
        elsewhere[1].packets_sent += 1;
        elsewhere[1].packets_outstanding += 1;
        assert!(check(&elsewhere).is_err());
        let mut left = Accounts::default();
        assert!(left.on_transmit(&sent, &before[1..], &elsewhere[1..]).is_err(), "nobody was ever there");
        left.on_arrival(before[0].network, 100);
        assert_eq!(left.on_transmit(&sent, &before[1..], &elsewhere[1..]), Ok(()), "the peer was there");
        assert!(left.on_transmit(&sent, &before, &elsewhere).is_err(), "another path runs there");
        elsewhere[0].state = PathState::Closing;
        assert_eq!(left.on_transmit(&sent, &before, &elsewhere), Ok(()), "and was abandoned");
    }

    #[test]
    fn totals_that_differ_from_the_networks_are_seen() {
        let before = paths();
        let mut accounts = Accounts::default();
        let mut after = before.clone();
        (after[0].bytes_sent, after[0].packets_sent) = (after[0].bytes_sent + 500, after[0].packets_sent + 1);
        after[0].packets_outstanding += 1;
        accounts.on_transmit(&transmit(&before[0], 500), &before, &after).unwrap();
        accounts.on_arrival(before[0].network, 70);
        assert_eq!(accounts.check(500, 70), Ok(()));
        assert_eq!(accounts.check(500, 60), Ok(()), "ten bytes were damaged");
        assert!(accounts.check(499, 70).is_err() && accounts.check(501, 70).is_err());
        assert!(accounts.check(500, 71).is_err());
    }
}
