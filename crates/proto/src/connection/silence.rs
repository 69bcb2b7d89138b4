//! What a connection does about silence: probe timeouts of paths and of the handshake (RFC 9002
//! section 6.2), and receivers that wait in vain for data (docs/decisions/0013-quiet-receivers.md).

use units::Instant;

use super::{Connection, Event, PathEvent};
use crate::{
    crypto::Level,
    path::{
        Path,
        probe::{Company, Urgency},
    },
    policy::RecoveryEvent,
    wire::PathId,
};

/// Datagrams that a probe timeout of the handshake sends (RFC 9002 section 6.2.4).
const HANDSHAKE_PROBES: u8 = 2;
/// Of each, what headers, ACKs and tags of two packets take.
const PROBE_OVERHEAD: u64 = 200;

impl Connection {
    /// Whether another path carries data and answers.
    pub(super) fn company_of(&self, id: PathId) -> Company {
        let another = self.paths.others(id).any(|p| p.works() && p.may_carry_data());
        if another { Company::Another } else { Company::Alone }
    }

    /// Whether what waits for the path's answer is of use for a moment only.
    pub(super) fn urgency_of(&self, path: &Path) -> Urgency {
        let live = self.datagrams.has_deadlines() || path.awaits_datagrams();
        if live { Urgency::Live } else { Urgency::Patient }
    }

    /// Probes every open path now, with one packet beyond the window, instead of when its timer says
    /// so: whoever learns that the network works again need not wait for the backoff. Nothing
    /// happens before the handshake is complete.
    pub fn probe(&mut self) {
        if self.handshake.is_complete() {
            self.paths.values_mut().filter(|path| path.is_open()).for_each(Path::ask_for_probe);
        }
    }

    /// A path's packets have not been answered for a probe timeout.
    pub(super) fn on_probe_timeout(&mut self, now: Instant, id: PathId) {
        let company = self.company_of(id);
        let another_works = company == Company::Another;
        let Some(path) = self.paths.get_mut(&id) else { return };
        let count = path.on_probe_timeout(now, company);
        if count == 1 && path.is_open() {
            self.events.push_back(Event::Path(PathEvent::Suspect(id)));
        }
        self.observe_timeout(now, id, count);
        self.repair.on_event(now, &RecoveryEvent::PathTimeout { path: id, moved: another_works });
        if another_works {
            self.move_data_off(id);
        }
    }

    /// Makes everything un-ACKed of a path pending for the others. The records stay: a late ACK is
    /// still an ACK. Copies of other paths' packets are not made pending, since those answer for the data, and wait
    /// from now on as if the copies were lost.
    pub(super) fn move_data_off(&mut self, id: PathId) {
        let Some(path) = self.paths.get_mut(&id) else { return };
        let mut sent = path.lend_sent();
        let first = sent.oldest().unwrap_or(0);
        for number in first..sent.next_number() {
            let Some(packet) = sent.get_mut(number) else { continue };
            let was_known = packet.is_resent();
            packet.on_moved();
            if let Some((of, original)) = packet.frames.copy_of
                && packet.frames.carries_data()
                && !was_known
            {
                self.on_copy_lost(of, original);
            }
            if !packet.is_rebuilt() {
                let block = packet.block();
                self.requeue_for_other_paths(block, &mut packet.frames);
            }
        }
        if let Some(path) = self.paths.get_mut(&id) {
            path.return_sent(sent);
        }
    }

    /// The handshake's packets have not been answered for a probe timeout: two datagrams of what is
    /// oldest leave again, whatever the flight has (RFC 9002 section 6.2.4), the same twice if that is
    /// all. Their ACK shows which others are lost.
    pub(super) fn on_handshake_probe_timeout(&mut self, now: Instant) {
        self.handshake.probes = HANDSHAKE_PROBES;
        self.on_flight_timeout(now);
        let complete = self.handshake.is_complete();
        let path = self.path_zero();
        path.on_handshake_probe_timeout(now);
        if complete {
            // RFC 9002 section 6.2.4: what is in flight in other spaces is probed, too. A server
            // that has all it needs of the handshake hears nothing else, and learns from nothing
            // else that the client's address has changed.
            path.ask_for_probe();
        }
        let mut room = u64::from(HANDSHAKE_PROBES) * self.probe_room();
        for level in [Level::Initial, Level::Handshake] {
            let Some(space) = self.handshake.space_mut(level) else { continue };
            let in_flight = space.space.has_ack_eliciting_in_flight();
            let newest = level == Level::Handshake || self.handshake.space(Level::Handshake).is_none();
            if !in_flight && !newest {
                continue;
            }
            let Some(space) = self.handshake.space_mut(level) else { continue };
            space.probe_due = true;
            space.space.restart_probe_timer(now);
            room -= self.oldest_again(level, room);
        }
    }

    /// CRYPTO bytes that a datagram of the handshake has room for.
    fn probe_room(&mut self) -> u64 {
        (self.path_zero().datagram_size() as u64).saturating_sub(PROBE_OVERHEAD)
    }

    /// A datagram of the handshake that asks for an ACK has left. If it was the first of a probe
    /// timeout and has carried all there was, the second carries the same: of a burst of losses that
    /// counts packets, two are behind us by each timeout instead of one.
    pub(super) fn on_handshake_probe_sent(&mut self) {
        let left = self.handshake.probes.saturating_sub(1);
        self.handshake.probes = left;
        if left == 0 || self.handshake.is_complete() || self.has_flight_pending() {
            return;
        }
        self.datagram_of_flight_again();
    }

    /// Makes as much of what is oldest in the handshake's flight pending again as a datagram has room for.
    pub(super) fn datagram_of_flight_again(&mut self) {
        let mut room = self.probe_room();
        for level in [Level::Initial, Level::Handshake] {
            room -= self.oldest_again(level, room);
        }
    }

    // ---- receivers

    /// When a quiet path is to be asked whether the peer is still there. What is in flight has its
    /// own probe timeout.
    pub(super) fn silence_deadline(&self, path: &Path) -> Option<Instant> {
        if !self.handshake.is_confirmed() || !(self.streams.may_receive() || path.awaits_datagrams()) {
            return None;
        }
        path.silence_deadline(self.peer_max_ack_delay(), self.idle.timeout)
    }

    /// It has been quiet for long enough.
    pub(super) fn on_silence(&mut self, now: Instant, id: PathId) {
        let for_streams = self.streams.awaits_data();
        let Some(path) = self.paths.get_mut(&id) else { return };
        if for_streams || path.awaits_datagrams() {
            path.ask_after_silence(now);
        } else {
            path.settle_silence();
        }
    }
}
