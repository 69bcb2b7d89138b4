//! Every packet and byte is accounted for: what the statistics say is what the network saw, and
//! each packet of a path was acknowledged, lost, is in flight, or never was to be acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use proto::{NetworkPath, PathId, PathState, PathStats, Transmit};

use super::Broken;

/// What the network saw of one side of a connection.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    sent: u64,
    arrived: u64,
    /// Where datagrams came from. An entry per address of the scenario.
    sources: BTreeSet<NetworkPath>,
    /// Where each path was seen to run when something was sent. An entry per address of the
    /// scenario and path.
    ran: BTreeMap<PathId, BTreeSet<NetworkPath>>,
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
        for path in before.iter().chain(after) {
            self.ran.entry(path.id).or_default().insert(path.network);
        }
        for path in after {
            let Some(earlier) = before.iter().find(|p| p.id == path.id) else { continue };
            let grown = path.bytes_sent.saturating_sub(earlier.bytes_sent);
            let ran_there = self.ran[&path.id].contains(&transmit.path);
            // It may have moved on within the instant it came, before anything was sent.
            let moved = !path.address_validated && self.sources.contains(&transmit.path);
            if grown > 0 && !ran_there && !moved && !self.may_be_answered(transmit, after) {
                return Err(Broken::Accounts(format!("{transmit:?} was booked on another path: {path:?}")));
            }
            counted += grown;
        }
        if counted != transmit.size as u64 {
            return Err(Broken::Accounts(format!("{transmit:?} was booked as {counted} bytes")));
        }
        after.iter().try_for_each(every_packet)
    }

    /// A peer is answered where it probes from (RFC 9000 section 9.3), and challenged where it was.
    /// An abandoned path may have run there, too: the client may open another in its place.
    fn may_be_answered(&self, transmit: &Transmit, paths: &[PathStats]) -> bool {
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
    fn a_path_that_moved_is_challenged_where_it_was_even_if_another_runs_there() {
        let before = paths();
        let there = before[0].network;
        let mut after = before.clone();
        let book = |paths: &mut [PathStats]| {
            paths[1].bytes_sent += 1_000;
            paths[1].packets_sent += 1;
            paths[1].packets_outstanding += 1;
        };
        book(&mut after);
        let mut accounts = Accounts::default();
        accounts.on_arrival(there, 100);
        assert!(
            accounts.on_transmit(&transmit(&before[0], 1_000), &before, &after).is_err(),
            "it never ran there"
        );
        // The client lost its first path without our knowing, and opened the second from the same
        // socket.
        let mut accounts = Accounts::default();
        let mut twins = before.clone();
        twins[1].network = there;
        let mut sent = twins.clone();
        book(&mut sent);
        assert_eq!(accounts.on_transmit(&transmit(&twins[1], 1_000), &twins, &sent), Ok(()));
        assert_eq!(
            accounts.on_transmit(&transmit(&twins[1], 1_000), &before, &after),
            Ok(()),
            "it has moved since"
        );
        let mut accounts = Accounts::default();
        accounts.on_arrival(there, 100);
        after[1].address_validated = false;
        assert_eq!(
            accounts.on_transmit(&transmit(&before[0], 1_000), &before, &after),
            Ok(()),
            "it may have moved at once"
        );
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
