//! Opening, validating and closing paths (RFC 9000 section 8.2, draft-ietf-quic-multipath-21
//! section 3).

use std::collections::BTreeMap;

use rand_chacha::rand_core::RngCore;
use smallvec::SmallVec;
use units::Instant;

use super::{
    Connection, EndpointEvent, Event, PathError, PathEvent, event::EndpointEventKind, frames::FrameContext,
    handshake::initial_max_path_id,
};
use crate::{
    NetworkPath, PathLimits, PathStatus,
    cids::{ISSUED_IN_USE, ISSUED_UNUSED},
    crypto::TAG_LEN,
    path::{
        Path,
        lifecycle::AbandonedBy,
        sent::ControlFrame,
        validation::{Unanswered, Width},
    },
    policy::RecoveryEvent,
    range_set::RangeSet,
    wire::{ConnectionId, HeaderPositions, PathId, Side, TransportError, TransportErrorCode, VarInt},
};

/// The code with which we give up a path that never answered.
const UNSTABLE_OR_POOR: TransportErrorCode = TransportErrorCode::PATH_UNSTABLE_OR_POOR;

/// Which path ids have been used, and which may be (draft-ietf-quic-multipath-21 sections 3 and 4).
#[derive(Debug)]
pub(super) struct PathIds {
    /// The next that we open.
    next: PathId,
    /// Those that were used and are gone.
    gone: RangeSet,
    /// `None` until multipath is negotiated.
    pub(super) limits: Option<MaxPathIds>,
    /// What is to be said of paths that are closing, and what the peer has said of paths that are not
    /// there yet. Bound: the path ids that may be open at once.
    notes: BTreeMap<PathId, Note>,
    /// The limit that we last said blocks us.
    blocked_at: Option<PathId>,
    /// The connection id that we last said we miss: its path and sequence number.
    cids_blocked_at: Option<(PathId, u64)>,
}

impl Default for PathIds {
    fn default() -> Self {
        Self {
            next: PathId(1),
            gone: RangeSet::default(),
            limits: None,
            notes: BTreeMap::new(),
            blocked_at: None,
            cids_blocked_at: None,
        }
    }
}

/// About a path that is not open.
#[derive(Clone, Copy, Debug)]
enum Note {
    /// The error code of its PATH_ABANDON: it is closing.
    Abandoned(TransportErrorCode),
    /// What the peer wishes for it, with the sequence number: its first packet is yet to come.
    Wished(u64, PathStatus),
}

impl PathIds {
    /// With what a path is abandoned.
    pub(super) fn abandon_code(&self, id: PathId) -> TransportErrorCode {
        match self.notes.get(&id) {
            Some(Note::Abandoned(code)) => *code,
            _ => TransportErrorCode::NO_ERROR,
        }
    }

    #[cfg(test)]
    pub(super) fn keeps_nothing(&self) -> bool {
        self.notes.is_empty()
    }

    /// Keeps what the peer wishes for a path that may yet come, unless it has wished something later.
    fn keep_wish(&mut self, id: PathId, sequence: u64, status: PathStatus) {
        if !matches!(self.notes.get(&id), Some(Note::Wished(latest, _)) if *latest >= sequence) {
            self.notes.insert(id, Note::Wished(sequence, status));
        }
    }
}

/// Bounds of path ids (draft-ietf-quic-multipath-21 section 4.6).
#[derive(Clone, Copy, Debug)]
pub(super) struct MaxPathIds {
    /// What the peer may use, as far as it has been told.
    pub(super) local: PathId,
    pub(super) remote: PathId,
}

impl Connection {
    /// Opens another path (clients only). It carries data once the peer has answered on it: a
    /// `Validated` event tells.
    ///
    /// # Errors
    /// [`PathError`]; `NoConnectionId` right after the handshake means that the peer's connection
    /// ids are still on their way.
    pub fn open_path(&mut self, now: Instant, network: NetworkPath) -> Result<PathId, PathError> {
        if self.state.is_closed() || !self.handshake.is_complete() {
            return Err(PathError::NotReady);
        }
        if self.side == Side::Server {
            return Err(PathError::NotClient);
        }
        let max = self.path_ids.limits.ok_or(PathError::MultipathNotNegotiated)?;
        self.check_migration_allowed(network.remote)?;
        let same = |p: &&Path| p.network() == network && !p.is_closing();
        if let Some(open) = self.paths.values().find(same) {
            return Err(PathError::AlreadyOpen(open.id()));
        }
        let last = max.local.min(max.remote);
        let id = self.next_path_id(last);
        if id > last {
            self.tell_paths_blocked(max.remote);
            return Err(PathError::TooManyPaths { max: self.max_paths() });
        }
        if self.cids.remote(id).is_none() {
            self.tell_cids_blocked(id);
            return Err(PathError::NoConnectionId);
        }
        self.path_ids.next = id.saturating_next();
        self.cids.begin_use(id);
        let mut path = Path::new(id, network, &self.config, now);
        path.trust_address();
        path.start_validation();
        self.leave_jumbo();
        self.add_path(path);
        self.issue_cids().map_err(|_| PathError::NotReady)?;
        Ok(id)
    }

    /// The first id that no path has had; the peer may have given some of them up.
    pub(super) fn next_path_id(&mut self, last: PathId) -> PathId {
        while self.path_ids.next <= last && self.path_is_gone(self.path_ids.next) {
            self.path_ids.next = self.path_ids.next.saturating_next();
        }
        self.path_ids.next
    }

    /// How many paths both sides allow at a time.
    fn max_paths(&self) -> u32 {
        let peers = self.peer.initial_max_path_id.unwrap_or(PathId::ZERO);
        initial_max_path_id(&self.config).min(peers).0.saturating_add(1)
    }

    /// PATHS_BLOCKED, once for every limit.
    fn tell_paths_blocked(&mut self, limit: PathId) {
        let ours = self.path_ids.limits.is_some_and(|max| max.local <= limit);
        if !ours && self.path_ids.blocked_at.replace(limit) != Some(limit) {
            let _ = self.queue_control(ControlFrame::PathsBlocked);
        }
    }

    /// PATH_CIDS_BLOCKED, once for every connection id that we miss.
    pub(super) fn tell_cids_blocked(&mut self, id: PathId) {
        let missing = (id, self.cids.next_remote_sequence(id));
        if self.path_ids.limits.is_some() && self.path_ids.cids_blocked_at.replace(missing) != Some(missing) {
            let _ = self.queue_control(ControlFrame::PathCidsBlocked { path: id });
        }
    }

    /// The peer could open another path if it knew that it may: our last MAX_PATH_ID may be on its
    /// way. Further ids become free as paths end (draft-ietf-quic-multipath-21 section 4.6).
    pub(super) fn on_paths_blocked(&mut self, limit: PathId) -> Result<(), TransportError> {
        match self.path_ids.limits {
            Some(max) if limit < max.local => self.queue_control(ControlFrame::MaxPathId),
            _ => Ok(()),
        }
    }

    /// The peer misses connection ids for a path: those that it may have are on their way, issued when
    /// there was a reason for them.
    pub(super) fn on_path_cids_blocked(&mut self, id: PathId, next: u64) -> Result<(), TransportError> {
        if next > self.cids.next_local_sequence(id) && !self.path_is_gone(id) {
            let reason = "PATH_CIDS_BLOCKED for a sequence number beyond the next";
            return Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason));
        }
        Ok(())
    }

    /// Asks the peer to use other connection ids of ours on a path from now on (RFC 9000 section
    /// 5.1.2), for example because what routes packets to this endpoint needs other ones. False if
    /// it has not yet followed the last request.
    pub fn rotate_cids(&mut self, id: PathId) -> bool {
        if self.state.is_closed() || !self.handshake.is_confirmed() || self.path_is_gone(id) {
            return false;
        }
        self.cids.rotate(id) && self.issue_cids().is_ok()
    }

    /// Abandons a path with an application's error code. Its data moves to the others.
    ///
    /// # Errors
    /// [`PathError::LastPath`] if no other path is there.
    pub fn close_path(&mut self, now: Instant, id: PathId, code: VarInt) -> Result<(), PathError> {
        if self.state.is_closed() || !self.handshake.is_complete() {
            return Err(PathError::NotReady);
        }
        if self.paths.kept(id).is_none() {
            return Err(PathError::Unknown(id));
        }
        if !self.paths.others(id).any(Path::is_open) {
            return Err(PathError::LastPath);
        }
        self.abandon(now, id, TransportErrorCode(code), AbandonedBy::Us);
        Ok(())
    }

    /// What we last wished for a path.
    ///
    /// # Errors
    /// [`PathError::Unknown`] if there is no such path.
    pub fn path_status(&self, id: PathId) -> Result<PathStatus, PathError> {
        let path = self.paths.kept(id).ok_or(PathError::Unknown(id))?;
        Ok(path.local_status().1)
    }

    /// Asks the peer to use a path only while no other works, or takes that back
    /// (PATH_STATUS_BACKUP and PATH_STATUS_AVAILABLE). We do the same.
    ///
    /// # Errors
    /// [`PathError::MultipathNotNegotiated`], or [`PathError::Unknown`] if there is no such path.
    pub fn set_path_status(&mut self, id: PathId, status: PathStatus) -> Result<(), PathError> {
        self.path_ids.limits.ok_or(PathError::MultipathNotNegotiated)?;
        let path = self.paths.kept_mut(id).ok_or(PathError::Unknown(id))?;
        if path.set_status(status) {
            self.queue_control(ControlFrame::PathStatus { path: id }).map_err(|_| PathError::NotReady)?;
        }
        Ok(())
    }

    /// What the application lets a path carry of this side's.
    ///
    /// # Errors
    /// [`PathError::Unknown`] if there is no such path.
    pub fn path_limits(&self, id: PathId) -> Result<PathLimits, PathError> {
        Ok(self.paths.kept(id).ok_or(PathError::Unknown(id))?.limits())
    }

    /// Says what a path may carry of this side's from now on; the peer does not hear of it. What is
    /// in flight there is awaited as ever. While every path that works is paused, nothing leaves
    /// but ACKs and probes.
    ///
    /// # Errors
    /// [`PathError::Unknown`] if there is no such path.
    pub fn set_path_limits(&mut self, id: PathId, limits: PathLimits) -> Result<(), PathError> {
        self.paths.kept_mut(id).ok_or(PathError::Unknown(id))?.set_limits(limits);
        Ok(())
    }

    /// Which paths may carry data now: those that answer and are no backup; without one, those that
    /// answer; without one, all. Never those that are paused. Of those that answer, those that the amplification
    /// limit holds back are left out while another is not, be that a backup: only the peer lets them go on, and no
    /// timer tells a scheduler that waits for such a one to give that up.
    pub(super) fn usable(&self) -> impl Fn(&Path) -> bool + use<> {
        let works = |p: &Path| p.works() && p.may_carry_data();
        let preferred = move |p: &Path| works(p) && !p.is_backup();
        let is_free = move |p: &Path| works(p) && p.may_send_datagram();
        let any_free = self.paths.values().any(is_free);
        let any_free_preferred = self.paths.values().any(|p| is_free(p) && preferred(p));
        let any_preferred = self.paths.values().any(preferred);
        let any_works = self.paths.values().any(works);
        move |p| {
            let open = p.is_open() && p.may_carry_data();
            match any_free {
                true => is_free(p) && (preferred(p) || !any_free_preferred),
                false => open && (preferred(p) || !any_preferred && (works(p) || !any_works)),
            }
        }
    }

    pub(super) fn path_is_gone(&self, id: PathId) -> bool {
        self.path_ids.gone.contains(u64::from(id.0)) || self.paths.is_closing(id)
    }

    /// Bytes of frames that fit a data packet of `path`, headroom for its repair symbol left out. Before
    /// the handshake is complete, a client's fit the packets of either side of that: early ones have long
    /// headers, which cannot say every length, and the server may yet choose a longer connection id, and
    /// decode.
    pub(super) fn payload_room(&self, path: &Path) -> usize {
        let size = path.datagram_size();
        let (size, taken) = if self.may_send_one_rtt() {
            (size, 1 + self.cids.remote(path.id()).map_or(0, |cid| cid.len()) + 4 + self.repair.headroom())
        } else {
            let early = 1 + 4 + 1 + ConnectionId::MAX_LEN + 1 + self.cids.local_len() + 2 + 4;
            let taken = early.max(1 + ConnectionId::MAX_LEN + 4 + self.repair.largest_headroom());
            (size.min(HeaderPositions::MAX_LENGTH), taken)
        };
        size - TAG_LEN - taken
    }

    /// The client's first packet on a new path.
    pub(super) fn accept_path(&mut self, now: Instant, id: PathId, network: NetworkPath) -> bool {
        let allowed = self.path_ids.limits.is_some_and(|max| id <= max.local);
        let allowed = allowed && self.config.migration && self.is_admitted();
        if self.side == Side::Client || !allowed || self.path_is_gone(id) || self.cids.remote(id).is_none() {
            return false;
        }
        let mut path = Path::new(id, network, &self.config, now);
        path.start_validation();
        self.leave_jumbo();
        self.add_path(path);
        self.cids.begin_use(id);
        self.issue_cids().is_ok()
    }

    /// A path is there, of which the peer may have said something before over another.
    fn add_path(&mut self, mut path: Path) {
        if let Some(Note::Wished(sequence, status)) = self.path_ids.notes.remove(&path.id()) {
            path.on_status(sequence, status);
        }
        self.paths.insert(path.id(), path);
    }

    /// The answer goes to where the challenge came from.
    pub(super) fn on_path_challenge(
        &mut self,
        context: FrameContext,
        data: [u8; 8],
    ) -> Result<(), TransportError> {
        let Some(path) = self.paths.get_mut(&context.path) else { return Ok(()) };
        match context.elsewhere {
            None => path.on_challenge(data),
            Some(network) => path.on_challenge_elsewhere(&network, data),
        }
        Ok(())
    }

    /// The answer may come on any path; it validates the one whose challenge it repeats.
    pub(super) fn on_path_response(&mut self, now: Instant, data: [u8; 8]) -> Result<(), TransportError> {
        let answered = |p: &&Path| p.move_is_answered_by(data);
        if self.side == Side::Client
            && let Some(id) = self.paths.values().find(answered).map(|p| p.id())
        {
            // We know that we moved on purpose: nothing is sent from the old address again.
            self.settle_move(id);
        }
        let validated = self.paths.values_mut().find_map(|p| p.on_response(now, data).then_some(p.id()));
        if let Some(id) = validated {
            self.events.push_back(Event::Path(PathEvent::Validated(id)));
            self.repeat_status(id)?;
        }
        Ok(())
    }

    /// What was wished for a path as soon as it was opened may have come before its first packet, over
    /// a faster path: then the peer knew of no path that it could be about, and acknowledged it.
    fn repeat_status(&mut self, id: PathId) -> Result<(), TransportError> {
        match self.paths.get(&id).map(Path::local_status) {
            Some((sequence, _)) if sequence > 0 => self.queue_control(ControlFrame::PathStatus { path: id }),
            _ => Ok(()),
        }
    }

    /// Data for the challenge that is about to be sent on `id`, if one is due.
    pub(super) fn next_challenge(&mut self, now: Instant, id: PathId, width: Width) -> Option<[u8; 8]> {
        let measured = self.paths.values().filter(|p| p.rtt().first_sample_at().is_some());
        let slowest = measured.map(|p| p.rtt().smoothed()).max();
        let path = self.paths.get_mut(&id)?;
        if !path.is_challenge_due() {
            return None;
        }
        let mut fresh = [0; 8];
        self.rng.fill_bytes(&mut fresh);
        Some(path.next_challenge(now, slowest, width, fresh))
    }

    pub(super) fn repeat_challenge(&mut self, now: Instant, id: PathId) {
        // What has never answered, or has stopped to, is no reason to give up another: the peer may
        // not know the one, and may have abandoned the other without being heard.
        let last = !self.paths.others(id).any(Path::works);
        let Some(path) = self.paths.get_mut(&id) else { return };
        match path.on_challenge_timeout(last) {
            Unanswered::Patience => {}
            Unanswered::Abandon => self.abandon(now, id, UNSTABLE_OR_POOR, AbandonedBy::Us),
        }
    }

    /// Whether no other path is left that neither side has abandoned.
    fn is_last_path(&self, id: PathId) -> bool {
        self.paths.others(id).all(Path::is_closing)
    }

    pub(super) fn on_path_abandon(
        &mut self,
        now: Instant,
        id: PathId,
        code: TransportErrorCode,
    ) -> Result<(), TransportError> {
        match self.paths.get(&id) {
            Some(path) if path.is_closing() => {
                self.on_abandon_told(id);
                Ok(())
            }
            Some(_) => {
                let last = self.is_last_path(id);
                self.abandon(now, id, code, AbandonedBy::Peer);
                if !last {
                    return Ok(());
                }
                // Section 3.4: an endpoint that is left without a path closes the connection. Each
                // side may have abandoned the other's last.
                let reason = "no path is left that neither side has abandoned";
                Err(TransportError::new(TransportErrorCode::NO_VIABLE_PATH, reason))
            }
            None if self.path_is_gone(id) => Ok(()),
            // Never opened: its id is used up all the same, and the peer waits for the same word from us
            // (section 3.4).
            None => {
                self.forget_path_id(id)?;
                self.queue_control(ControlFrame::PathAbandon { path: id })
            }
        }
    }

    fn abandon(&mut self, now: Instant, id: PathId, code: TransportErrorCode, by: AbandonedBy) {
        self.leave_path(now, id);
        self.fail_blocks_of(now, id);
        self.move_data_off(id);
        let max_ack_delay = self.peer_max_ack_delay();
        let Some(path) = self.paths.get_mut(&id) else { return };
        path.close(now, max_ack_delay, by);
        self.cids.forget_reset_tokens(id);
        self.repair.on_path_closed(id);
        self.path_ids.notes.insert(id, Note::Abandoned(code));
        self.repair.on_event(now, &RecoveryEvent::PathClosed { path: id });
        self.bottlenecks.forget(id.0);
        if self.queue_control(ControlFrame::PathAbandon { path: id }).is_err() {
            // The queue is full, which is the peer's doing: it will find out.
            self.on_abandon_told(id);
        }
        let by_peer = by == AbandonedBy::Peer;
        self.events.push_back(Event::Path(PathEvent::Closed { path: id, by_peer, code }));
    }

    /// Says once more which paths are abandoned, if the peer may not know: it may have abandoned
    /// the only one left, then it answers nothing on that, and what was lost there is never found
    /// out.
    pub(super) fn abandon_again(&mut self) {
        let untold = self.paths.values().filter(|p| p.is_closing_untold());
        let ids: SmallVec<[PathId; 8]> = untold.map(|p| p.id()).collect();
        for path in ids {
            // A full queue has its own end.
            let _ = self.queue_control(ControlFrame::PathAbandon { path });
        }
    }

    /// The peer knows that a path is abandoned: it has acknowledged the news, or told us the same.
    pub(super) fn on_abandon_told(&mut self, id: PathId) {
        if let Some(path) = self.paths.get_mut(&id) {
            path.on_abandon_told();
        }
    }

    /// Late packets have had their time: everything about the path is forgotten, and the peer may
    /// open another.
    pub(super) fn remove_closed_path(&mut self, id: PathId) {
        if id == PathId::ZERO && !self.handshake.is_confirmed() {
            // Nothing of the handshake can come or leave any more: its deadlines would pass for good, and the
            // other paths would have no probe timeout. What told us of the end came in a 1-RTT packet.
            self.confirm_handshake();
        }
        if let Some(path) = self.paths.remove(&id) {
            // The memory for source symbols is the connection's: what the path still held must go
            // back.
            path.into_packets().for_each(|mut packet| self.repair.recycle(packet.source.take_plaintext()));
        }
        // A full queue only delays what the peer will find out anyway.
        let _ = self.forget_path_id(id);
    }

    fn forget_path_id(&mut self, id: PathId) -> Result<(), TransportError> {
        if self.path_ids.gone.insert(u64::from(id.0)..u64::from(id.0) + 1) == 0 {
            return Ok(());
        }
        self.path_ids.notes.remove(&id);
        for cid in self.cids.forget_path(id) {
            self.retire_cid(cid);
        }
        self.repair.forget_path(id);
        self.queue_control(ControlFrame::MaxPathId)?;
        self.issue_cids()
    }

    /// The largest path id that we allow, which the peer may not have been told yet: as many paths as
    /// configured beside those that are gone.
    pub(super) fn allowed_path_id(&self) -> PathId {
        let gone = u32::try_from(self.path_ids.gone.covered()).unwrap_or(u32::MAX);
        let allowed = PathId(initial_max_path_id(&self.config).0.saturating_add(gone));
        self.path_ids.limits.map_or(allowed, |max| max.local.max(allowed))
    }

    /// MAX_PATH_ID leaves: from now on the peer may use what it allows, and not before (section 4).
    pub(super) fn on_paths_allowed(&mut self) {
        let allowed = self.allowed_path_id();
        if let Some(max) = &mut self.path_ids.limits {
            max.local = allowed;
        }
    }

    pub(super) fn on_path_status(
        &mut self,
        id: PathId,
        backup: bool,
        sequence: u64,
    ) -> Result<(), TransportError> {
        let status = if backup { PathStatus::Backup } else { PathStatus::Available };
        if let Some(path) = self.paths.get_mut(&id) {
            path.on_status(sequence, status);
        } else if !self.path_is_gone(id) {
            // The frame may have overtaken the path's first packet, and be said once.
            self.path_ids.keep_wish(id, sequence, status);
        }
        Ok(())
    }

    pub(super) fn on_max_path_id(&mut self, maximum: PathId) -> Result<(), TransportError> {
        if self.peer.initial_max_path_id.is_some_and(|initial| maximum < initial) {
            let reason = "MAX_PATH_ID below initial_max_path_id";
            return Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason));
        }
        let allowed = self.allowed_path_id();
        if let Some(max) = &mut self.path_ids.limits
            && maximum > max.remote
        {
            let usable = allowed.min(max.remote);
            max.remote = maximum;
            if allowed.min(maximum) > usable {
                return self.issue_cids();
            }
        }
        Ok(())
    }

    /// Keeps the peer supplied with connection ids for every path that may be open.
    pub(super) fn issue_cids(&mut self) -> Result<(), TransportError> {
        let allowed = self.allowed_path_id();
        let last = self.path_ids.limits.map_or(PathId::ZERO, |max| allowed.min(max.remote));
        let limit = self.peer.active_connection_id_limit.into_inner();
        let usable: Vec<_> = self.path_ids.gone.missing_within(0..u64::from(last.0) + 1).flatten().collect();
        for id in usable.into_iter().filter_map(|id| u32::try_from(id).ok()).map(PathId) {
            if self.paths.is_closing(id) {
                continue;
            }
            let wanted = if self.paths.contains_key(&id) { ISSUED_IN_USE } else { ISSUED_UNUSED };
            for cid in self.cids.issue(id, limit.min(wanted), &mut self.rng) {
                self.endpoint_events.push_back(EndpointEvent(EndpointEventKind::NewCid(cid.cid)));
                let (sequence, again) = (cid.sequence, false);
                self.queue_control(ControlFrame::NewConnectionId { path: id, sequence, again })?;
            }
        }
        Ok(())
    }

    pub(super) fn retire_cid(&mut self, cid: ConnectionId) {
        self.endpoint_events.push_back(EndpointEvent(EndpointEventKind::RetiredCid(cid)));
    }
}
