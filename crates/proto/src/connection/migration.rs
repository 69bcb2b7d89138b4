//! Paths whose addresses change: NAT rebinding, migration, and forged sources (RFC 9000 section 9).
//!
//! A server follows its client: the newest packet of a path that is more than a probe says where
//! the path runs. The new address gets three times what it sent until it has answered a challenge;
//! the old one is challenged too, and if the new one does not answer in time, the path returns. A
//! client moves only when its application says so, and ignores packets from where it never sent to.

use std::net::SocketAddr;

use rand_chacha::rand_core::RngCore;
use units::Instant;

use super::{Connection, Event, PathError, PathEvent, packet::MIN_RESETTABLE, receive::Arrived};
use crate::{
    NetworkPath, PacketPurpose, Transmit,
    crypto::TAG_LEN,
    path::addresses::{OffPath, same_network},
    wire::{ConnectionId, Frames, PathId, Side},
};

/// A PATH_CHALLENGE frame.
const PATH_CHALLENGE_LEN: usize = 9;

/// Where an authenticated packet came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Located {
    /// Where its path runs, by now.
    Here,
    /// From other addresses; its path stays where it is.
    Elsewhere,
    /// From where it must not come: it is ignored.
    Refused,
}

impl Connection {
    /// Continues a path from another local address, for example after its socket was replaced
    /// (clients only, RFC 9000 section 9.2). The path carries data from there at once, with a
    /// congestion window and round-trip time of its own unless only the port changed. Prefer
    /// [`open_path`](Self::open_path) where the peer speaks multipath and the old address still
    /// works.
    ///
    /// # Errors
    /// [`PathError`]; `NoConnectionId` means that the peer has not issued another connection id for
    /// the path yet.
    pub fn migrate(&mut self, now: Instant, id: PathId, local: SocketAddr) -> Result<(), PathError> {
        if self.state.is_closed() || !self.handshake.is_confirmed() {
            return Err(PathError::NotReady);
        }
        if self.side == Side::Server {
            return Err(PathError::NotClient);
        }
        let path = self.paths.kept(id).ok_or(PathError::Unknown(id))?;
        let to = NetworkPath { local, remote: path.network().remote };
        if path.network() == to {
            return Ok(());
        }
        if let Some(open) = self.paths.values().find(|p| p.network() == to && !p.is_closing()) {
            return Err(PathError::AlreadyOpen(open.id()));
        }
        self.check_migration_allowed(to.remote)?;
        if path.came_from_exactly(&to) {
            self.move_back(id);
        } else {
            let Some(cid) = self.cids.unused_remote(id) else {
                self.tell_cids_blocked(id);
                return Err(PathError::NoConnectionId);
            };
            self.move_path(now, id, to, cid, None);
        }
        if let Some(path) = self.paths.get_mut(&id) {
            // A challenge alone would be a probe, which the server does not follow.
            path.ask_for_probe();
            path.start_validation();
        }
        Ok(())
    }

    /// The server may have ruled out other addresses of ours towards the one of its handshake (RFC
    /// 9000 section 18.2).
    pub(super) fn check_migration_allowed(&self, remote: SocketAddr) -> Result<(), PathError> {
        if self.peer.disable_active_migration && remote == self.handshake_remote {
            return Err(PathError::MigrationDisabled);
        }
        Ok(())
    }

    /// Where a packet of `id` came from, and what follows from it. `newest`: no later one has
    /// arrived on the path.
    pub(super) fn locate(
        &mut self,
        now: Instant,
        id: PathId,
        arrived: &Arrived,
        newest: bool,
        payload: &[u8],
    ) -> Located {
        let Some(path) = self.paths.get_mut(&id) else { return Located::Refused };
        let here = same_network(&path.network(), &arrived.network);
        if self.side == Side::Client {
            // RFC 9000 section 9: packets from unknown server addresses are discarded. Our own
            // address may be any that we used.
            let known = path.network().remote == arrived.network.remote;
            return if known { Located::Here } else { Located::Refused };
        }
        if here {
            if newest {
                path.note_peer_uses(arrived.dcid);
            }
            return Located::Here;
        }
        if !self.config.migration {
            return Located::Refused;
        }
        let probing = Frames::new(payload).all(|frame| frame.is_ok_and(|f| f.is_probing()));
        if newest && !probing && !path.is_closing() && self.follow(now, id, arrived) {
            return Located::Here;
        }
        self.note_candidate(id, arrived);
        Located::Elsewhere
    }

    /// The peer's newest packet came from other addresses: the path runs there. False if we lack a
    /// connection id for them.
    fn follow(&mut self, now: Instant, id: PathId, arrived: &Arrived) -> bool {
        let Some(path) = self.paths.get_mut(&id) else { return false };
        let to = arrived.network;
        if path.came_from(&to) {
            self.move_back(id);
        } else {
            // A peer that moves without having left us an unused id (section 5.1.1) prefers being
            // linkable to being cut off.
            let Some(cid) = self.cid_towards(id, arrived).or_else(|| self.cids.remote(id)) else {
                return false;
            };
            let mut challenge = [0; 8];
            self.rng.fill_bytes(&mut challenge);
            self.move_path(now, id, to, cid, Some(challenge));
        }
        if let Some(path) = self.paths.get_mut(&id) {
            path.note_peer_uses(arrived.dcid);
        }
        true
    }

    /// What packets to the addresses that a packet came from are to carry (RFC 9000 section 9.5):
    /// what we use already if the peer did not change its own choice, because then it does not know
    /// that it moved; else an id that no other address has seen.
    fn cid_towards(&mut self, id: PathId, arrived: &Arrived) -> Option<ConnectionId> {
        let path = self.paths.get(&id)?;
        if path.peer_uses().is_none_or(|cid| cid == arrived.dcid) {
            return self.cids.remote(id);
        }
        let known = path.candidate_cid(&arrived.network);
        known.filter(|cid| self.cids.knows_remote(id, cid)).or_else(|| self.cids.unused_remote(id))
    }

    /// Counts a packet from elsewhere towards what may be sent there.
    fn note_candidate(&mut self, id: PathId, arrived: &Arrived) {
        let Some(path) = self.paths.get_mut(&id) else { return };
        if path.earn_budget_elsewhere(&arrived.network, arrived.size) {
            // It has a connection id. Should the peer have retired that, answers carry the path's own.
            return;
        }
        let cid = self.cid_towards(id, arrived);
        let Some(path) = self.paths.get_mut(&id) else { return };
        let evicted = match cid {
            Some(cid) => path.add_candidate(arrived.network, cid, arrived.size),
            // The peer gets new ids for those it spent on probing.
            None => path.drop_oldest_candidate(),
        };
        if let Some(cid) = evicted {
            self.retire_remote(id, cid);
        }
    }

    fn move_path(
        &mut self,
        now: Instant,
        id: PathId,
        to: NetworkPath,
        cid: ConnectionId,
        challenge: Option<[u8; 8]>,
    ) {
        let (Some(old), Some(path)) = (self.cids.remote(id), self.paths.get_mut(&id)) else { return };
        // What was the last resort so far is given up for the addresses left now, if those are
        // validated.
        let given_up = path.given_up_by_moving();
        path.move_to(now, to, old, &self.config, challenge);
        self.bottlenecks.forget(id.0);
        match self.side {
            Side::Client => path.trust_address(),
            Side::Server => path.distrust_address(),
        }
        let candidates = path.take_candidates();
        self.cids.use_remote(id, &cid);
        for unused in candidates.chain(given_up).chain([old]) {
            self.retire_remote(id, unused);
        }
        self.events.push_back(Event::Path(PathEvent::Moved(id)));
    }

    fn move_back(&mut self, id: PathId) {
        let (Some(left), Some(path)) = (self.cids.remote(id), self.paths.get_mut(&id)) else { return };
        let Some(cid) = path.move_back() else { return };
        self.bottlenecks.forget(id.0);
        self.cids.use_remote(id, &cid);
        self.retire_remote(id, left);
        self.events.push_back(Event::Path(PathEvent::Moved(id)));
    }

    /// The time for a move has passed.
    pub(super) fn settle_move(&mut self, id: PathId) {
        let Some(path) = self.paths.get_mut(&id) else { return };
        if !path.is_address_validated() {
            return self.move_back(id);
        }
        if let Some(unused) = path.settle() {
            self.retire_remote(id, unused);
        }
    }

    /// Retires one of the peer's connection ids that nothing needs any more.
    fn retire_remote(&mut self, id: PathId, cid: ConnectionId) {
        let Some(path) = self.paths.get(&id) else { return };
        if self.cids.remote(id) == Some(cid) || path.needs_cid(&cid) {
            return;
        }
        if let Some(sequence) = self.cids.retire_remote(id, &cid) {
            // A full queue is the peer's doing, which closes the connection elsewhere.
            let _ = self.owe_retirement(id, sequence);
        }
    }

    // ---- sending

    /// Bytes of the smallest datagram with a PATH_CHALLENGE on a path: a short header with the
    /// longest packet number, the frame, the tag.
    pub(super) fn shortest_challenge(&self, id: PathId) -> Option<usize> {
        Some((1 + self.cids.remote(id)?.len() + 4 + PATH_CHALLENGE_LEN + TAG_LEN).max(MIN_RESETTABLE))
    }

    /// An answer to a probe, or a challenge to the addresses that the path left.
    pub(super) fn send_off_path(&mut self, now: Instant, id: PathId, out: &mut Vec<u8>) -> Option<Transmit> {
        let OffPath { network, cid, frame, size } = self.paths.get_mut(&id)?.next_off_path(now)?;
        let cid = if self.cids.knows_remote(id, &cid) { cid } else { self.cids.remote(id)? };
        let mut builder = self.begin_one_rtt_with(id, cid, size, out)?;
        frame.encode(out);
        builder.ack_eliciting = true;
        builder.pad_to = size;
        self.finish_packet(now, builder, PacketPurpose::OffPath, out)?;
        Some(Transmit { path: network, ecn: None, size: out.len(), segment_size: None })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::client, *};
    use crate::wire::ResetToken;

    /// RFC 9000 section 5.1.2: the peer may retire what it gets answers with while it goes on probing.
    #[test]
    fn probes_from_where_the_connection_id_was_retired_take_no_other() {
        let mut connection = client();
        let cid = |n: u8| ConnectionId::new(&[n; 8]).unwrap();
        let offer = |connection: &mut Connection, n: u8, retire_prior_to| {
            let token = ResetToken([n; 16]);
            connection.cids.on_new(PathId::ZERO, n.into(), retire_prior_to, cid(10 + n), token).unwrap();
        };
        (1..=2).for_each(|n| offer(&mut connection, n, 0));
        let path = connection.paths.get_mut(&PathId::ZERO).unwrap();
        path.note_peer_uses(cid(30));
        let network = NetworkPath { remote: SocketAddr::from(([192, 0, 2, 7], 7)), ..path.network() };
        let arrived = Arrived { network, dcid: cid(31), ecn: None, size: 1_200, datagram: 1_200 };
        connection.note_candidate(PathId::ZERO, &arrived);
        assert_eq!(connection.paths[&PathId::ZERO].candidate_cid(&network), Some(cid(11)));
        (3..=4).for_each(|n| offer(&mut connection, n, 2));
        for _ in 0..3 {
            connection.note_candidate(PathId::ZERO, &arrived);
        }
        assert_eq!(connection.cids.unused_remote(PathId::ZERO), Some(cid(13)), "two are left");
        assert_eq!(connection.cids.unused_remote(PathId::ZERO), Some(cid(14)));
    }
}
