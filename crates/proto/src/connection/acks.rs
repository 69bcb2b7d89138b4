//! ACKs, loss detection and probe timeouts (RFC 9002 sections 5, 6 and 7.6).

use recovery::PacketNumber;
use units::{Duration, Instant};

use super::{Connection, Event, PathEvent, packet::PacketBuilder, receive::FrameContext};
use crate::{
    crypto::Level,
    mtu,
    path::Path,
    policy::{self, RecoveryEvent},
    reordering::LostPacket,
    sent::{ControlFrame, SentFrames, SentPacket},
    space::{NewlyAcked, PacketSpace},
    wire::{Ack, Frame, PathId, Side, TransportError, TransportErrorCode},
};

/// Probe timeouts' worth of silence that establish persistent congestion (RFC 9002 section 7.6.1).
const PERSISTENT_CONGESTION_THRESHOLD: u64 = 3;
/// Datagrams that a probe timeout of the handshake sends (RFC 9002 section 6.2.4).
const HANDSHAKE_PROBES: u8 = 2;
/// Of each, what headers, ACKs and tags of two packets take.
const PROBE_OVERHEAD: u64 = 200;
/// Probe timeouts for which a lost packet is remembered.
const SPURIOUS_HORIZON: u64 = 8;

impl Connection {
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        context: FrameContext,
        ack: &Ack<'_>,
        delay: Duration,
    ) -> Result<(), TransportError> {
        let id = ack.path.unwrap_or(PathId::ZERO);
        let mut acked = core::mem::take(&mut self.scratch.acked);
        let space = match context.level {
            Level::OneRtt => self.paths.get_mut(&id).map(|p| &mut p.space),
            level => self.handshake.space_mut(level).map(|s| &mut s.space),
        };
        let Some(space) = space else {
            self.scratch.acked = acked;
            return self.check_ack_of_unknown_path(id);
        };
        let raised = space.largest_acked.is_none_or(|largest| ack.largest > largest);
        let result = space.on_ack(ack.largest, ack.ranges(), &mut acked);
        if result.is_ok() && !acked.spurious.is_empty() {
            self.on_spurious_losses(now, id, ack.largest, &acked.spurious);
        }
        if result.is_ok() && !acked.packets.is_empty() {
            let delay = if context.level == Level::OneRtt {
                delay.min(self.peer_max_ack_delay())
            } else {
                Duration::ZERO
            };
            let of_one_rtt = self.paths.get(&id).is_some_and(|p| ack.largest >= p.phase.first_sent);
            if context.level == Level::OneRtt
                && of_one_rtt
                && self.side == Side::Client
                && !self.handshake.is_confirmed()
            {
                // An ACK of 1-RTT data, not of 0-RTT, shows that the server has finished (RFC 9001 section 4.1.2).
                self.confirm_handshake();
            }
            // Counts that were overtaken by later ones say nothing (RFC 9000 section 13.4.2.1).
            if raised {
                self.check_ecn(context.level, id, ack, &mut acked);
            }
            self.on_newly_acked(now, context.level, id, delay, &mut acked);
        }
        self.scratch.acked = acked;
        result?;
        match context.level {
            Level::OneRtt => self.on_ack_in_phase(now, id, ack.largest, context.phase),
            _ => Ok(()),
        }
    }

    /// An ACK for a path that is gone is late; one for a path that never was is a lie.
    fn check_ack_of_unknown_path(&self, id: PathId) -> Result<(), TransportError> {
        if self.path_is_gone(id) || id == PathId::ZERO {
            return Ok(());
        }
        Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, "ACK for a path that never existed"))
    }

    /// Makes a packet with nothing but an ACK ask for one now and then, within the window (RFC 9000 section 13.2.4).
    pub(super) fn ask_for_ack(
        &mut self,
        now: Instant,
        id: PathId,
        builder: &mut PacketBuilder,
        out: &mut Vec<u8>,
    ) {
        let Some(path) = self.paths.get(&id) else { return };
        let wanted = path.space.received.is_ack_wanted(now, path.rtt.smoothed());
        // A path that is suspect is probed anyway.
        let may = path.is_open() && !path.is_suspect() && self.has_window(id);
        if wanted && may && !builder.is_empty(out) && out.len() < builder.limit {
            Frame::Ping.encode(out);
            builder.ack_eliciting = true;
        }
    }

    fn on_newly_acked(
        &mut self,
        now: Instant,
        level: Level,
        id: PathId,
        delay: Duration,
        acked: &mut NewlyAcked,
    ) {
        let packets = &mut acked.packets;
        let Some(path) = self.paths.get_mut(&id) else { return };
        // A packet from before the path moved says nothing about where it runs now (RFC 9000 section 9.4).
        let sample = acked.largest_sent_at.filter(|_| acked.largest_epoch == path.epoch);
        if let Some(sent_at) = sample {
            path.rtt.update(now, now - sent_at, delay);
        }
        if path.pto_count > 0
            && (self.handshake.is_complete() || self.side == Side::Server || level == Level::Handshake)
        {
            path.pto_count = 0;
            if path.is_open() && level == Level::OneRtt {
                self.events.push_back(Event::Path(PathEvent::Recovered(id)));
            }
        }
        let in_flight_before = path.in_flight;
        let bytes: u64 = packets
            .iter()
            .filter(|(_, p)| p.in_flight && p.epoch == path.epoch)
            .map(|(_, p)| u64::from(p.size))
            .sum();
        path.in_flight = path.in_flight.saturating_sub(bytes);
        path.delivered += bytes;
        path.counters.packets_acked += packets.len() as u64;
        let here = packets.iter().filter(|(_, p)| p.epoch == path.epoch);
        if let Some((_, newest)) = here.max_by_key(|(_, p)| p.sent_at) {
            path.delivery_sample = Some((path.delivered - newest.delivered_before, now - newest.sent_at));
        }
        let newest = packets.iter().map(|(_, p)| p.sent_at).max();
        let marked = acked.ce_packets.min(packets.len() as u64);
        let ce_bytes = bytes * marked / (packets.len() as u64).max(1);
        for (number, packet) in packets.drain(..) {
            if level == Level::OneRtt {
                let rtt = self.paths.get(&id).map_or(Duration::ZERO, Path::expected_rtt);
                let (number, in_flight) = (PacketNumber(number), packet.in_flight);
                self.repair.on_event(now, &RecoveryEvent::Acked { path: id, number, in_flight, rtt });
                self.on_acked_in_blocks(now, id, number.0, &packet);
            }
            self.on_packet_acked(now, level, id, packet);
        }
        match level {
            Level::OneRtt => self.detect_lost(now, id),
            level => self.detect_lost_in_handshake(now, level),
        }
        let mut group = core::mem::take(&mut self.scratch.group);
        self.fill_group(id, &mut group);
        if let Some(path) = self.paths.get_mut(&id) {
            if let Some(sent_at) = acked.ce_sent_at {
                path.controller.on_ecn_ce(now, sent_at);
            }
            let ack = congestion::Ack {
                now,
                bytes,
                largest_sent_at: newest.unwrap_or(now),
                in_flight_before,
                app_limited: path.app_limited,
                ce_bytes,
                rtt: path.rtt.for_congestion(),
            };
            path.controller.on_ack(&ack, &group);
            // An exchange is over: what it has taught may serve another connection.
            if path.in_flight == 0 && self.handshake.is_confirmed() {
                self.config.loss_store.remember(&path.network, &path.history);
            }
        }
        self.scratch.group = group;
        self.observe_metrics(now, id);
    }

    /// Packets that were declared lost have arrived after all: the path reorders (RFC 9002 section 6.1). A packet that was merely rebuilt
    /// is not among them: it stays a loss (docs/decisions/0003-recovered.md).
    fn on_spurious_losses(&mut self, now: Instant, id: PathId, largest: u64, spurious: &[LostPacket]) {
        let Some(path) = self.paths.get_mut(&id) else { return };
        let mut undo = false;
        for packet in spurious {
            path.patience.on_spurious(largest.saturating_sub(packet.number), now - packet.sent_at, &path.rtt);
            undo |= path.loss_event.on_spurious(packet.event);
        }
        let spurious_loss = RecoveryEvent::SpuriousLoss { path: id };
        spurious.iter().for_each(|_| self.repair.on_event(now, &spurious_loss));
        let packets = spurious.len() as u64;
        path.loss.on_spurious_loss(packets);
        spurious.iter().for_each(|_| path.history.on_spurious());
        path.counters.spurious_losses += packets;
        self.stats.spurious_losses += packets;
        if undo {
            path.controller.on_spurious_loss(now);
        }
        for packet in spurious {
            self.cover_in_blocks(now, id, packet.number, None);
        }
    }

    /// Compares the counts of an ACK with the marked packets that it acknowledges. New CE marks are one congestion event, dated by
    /// the largest packet, so that the controller reacts once per round trip (RFC 9002 section 7.3.2 and appendix B.9).
    fn check_ecn(&mut self, level: Level, id: PathId, ack: &Ack<'_>, acked: &mut NewlyAcked) {
        let Some(path) = self.paths.get_mut(&id).filter(|p| p.ecn.is_in_use()) else { return };
        let space = match level {
            Level::OneRtt => &mut path.space.ecn,
            level => match self.handshake.space_mut(level) {
                Some(space) => &mut space.space.ecn,
                None => return,
            },
        };
        let marked = acked.packets.iter().filter(|(_, p)| p.marked).map(|(_, p)| p.sent_at);
        let result = space.on_ack(ack.ecn, marked.clone().count() as u64);
        acked.ce_packets = result.as_ref().map_or(0, |&ce| ce);
        if result.is_ok_and(|ce| ce > 0) {
            let newest = acked.packets.iter().map(|(_, p)| p.sent_at).max();
            acked.ce_sent_at = acked.largest_sent_at.or(newest);
        }
        path.ecn.on_checked(result, marked);
    }

    fn on_packet_acked(&mut self, now: Instant, level: Level, id: PathId, packet: SentPacket) {
        let SentPacket { frames, payload, size, epoch, .. } = packet;
        self.repair.recycle(payload);
        self.streams.on_acked(&frames.streams);
        self.on_control_delivered(&frames.control);
        for range in &frames.crypto {
            self.handshake.crypto_mut(level).on_acked(*range);
        }
        if let Some(largest) = frames.acked_up_to.1.filter(|_| level == Level::OneRtt)
            && let Some(path) = self.paths.get_mut(&frames.acked_up_to.0)
        {
            path.space.received.on_ack_acknowledged(largest);
        }
        if let Some((of, number)) = frames.copy_of {
            self.on_copy_delivered(of, number);
        }
        if let Some(path) = self.paths.get_mut(&id).filter(|p| p.epoch == epoch)
            && path.mtu.on_delivered(now, size)
        {
            path.controller.on_mtu(u64::from(size));
            path.pacer.set_burst(self.config.initial_window_packets * u64::from(size));
        }
    }

    /// What coupled controllers see: every open path's window.
    fn fill_group(&self, id: PathId, group: &mut Vec<congestion::PathWindow>) {
        group.clear();
        group.extend(self.paths.values().filter(|p| p.is_open()).map(|p| congestion::PathWindow {
            path: p.id.0,
            window: p.controller.window(),
            in_flight: p.in_flight,
            smoothed_rtt: p.rtt.first_sample_at().map_or(Duration::ZERO, |_| p.rtt.smoothed()),
            slow_start: p.controller.state().phase == congestion::Phase::SlowStart,
            is_self: p.id == id,
            inter_loss: p.controller.inter_loss(),
        }));
    }

    /// Declares packets of a path lost by number or age.
    pub(super) fn detect_lost(&mut self, now: Instant, id: PathId) {
        let mut lost = core::mem::take(&mut self.scratch.lost);
        if let Some(path) = self.paths.get_mut(&id) {
            path.space.detect_lost(now, &path.rtt, &path.patience, &mut lost);
            self.on_lost(now, Level::OneRtt, id, &lost);
        }
        self.scratch.lost = lost;
    }

    /// The same for Initial or Handshake packets, which travel on path 0.
    pub(super) fn detect_lost_in_handshake(&mut self, now: Instant, level: Level) {
        let mut lost = core::mem::take(&mut self.scratch.lost);
        if let (Some(path), Some(space)) = (self.paths.get(&PathId::ZERO), self.handshake.space_mut(level)) {
            space.space.detect_lost(now, &path.rtt, &path.patience, &mut lost);
            self.on_lost(now, level, PathId::ZERO, &lost);
        }
        self.scratch.lost = lost;
    }

    pub(super) fn on_lost(&mut self, now: Instant, level: Level, id: PathId, numbers: &[u64]) {
        if numbers.is_empty() {
            return;
        }
        let persistent = self.is_persistent_congestion(level, id, numbers);
        let horizon = self.lost_horizon(now, id);
        let (mut bytes, mut newest, mut unmeasured, mut event, mut remembered) =
            (0, Instant::ORIGIN, 0, 0, 0);
        if let Some(space) = self.space_mut(level, id) {
            space.lost.forget_before(horizon);
        }
        let (mut full_lost, mut base_lost) = (false, false);
        for &number in numbers {
            let Some(packet) = self.space_mut(level, id).and_then(|s| s.remove(number, false)) else {
                continue;
            };
            self.observe_lost(now, level, id, number);
            if let Some(path) = self.paths.get_mut(&id).filter(|_| packet.marked) {
                path.ecn.on_lost(packet.sent_at);
            }
            if let Some(path) = self
                .paths
                .get_mut(&id)
                .filter(|p| packet.epoch == p.epoch && packet.probes_mtu(p.mtu.current()))
            {
                path.mtu.on_lost(now, packet.size);
                path.counters.untracked += 1;
                if packet.in_flight {
                    path.in_flight = path.in_flight.saturating_sub(u64::from(packet.size));
                }
                unmeasured += 1;
                continue;
            }
            let counts = self.paths.get(&id).is_some_and(|p| packet.in_flight && p.epoch == packet.epoch);
            self.tell_policy_of_loss(now, level, (id, number), &packet, counts);
            let path = self.paths.get_mut(&id);
            if let Some(path) = path.filter(|p| !packet.in_flight || p.epoch != packet.epoch) {
                // Off the path, or where it ran before it moved: its addresses of today are not to blame.
                path.counters.untracked += 1;
                self.on_packet_lost(level, id, number, packet);
                unmeasured += 1;
                continue;
            }
            full_lost |= self.paths.get(&id).is_some_and(|p| p.mtu.is_full(packet.size));
            base_lost |= mtu::is_base(packet.size);
            bytes += u64::from(packet.size);
            newest = newest.max(packet.sent_at);
            if let Some(space) = self.space_mut(level, id) {
                space.lost.push(LostPacket { number, sent_at: packet.sent_at, event });
                remembered += 1;
            }
            self.on_packet_lost(level, id, number, packet);
        }
        let packets = numbers.len() as u64 - unmeasured;
        if packets == 0 {
            return;
        }
        self.stats.packets_lost += packets;
        let mut group = core::mem::take(&mut self.scratch.group);
        self.fill_group(id, &mut group);
        if let Some(path) = self.paths.get_mut(&id) {
            path.in_flight = path.in_flight.saturating_sub(bytes);
            path.counters.packets_lost += packets;
            path.counters.bytes_lost += bytes;
            path.loss.on_lost(packets);
            let loss = congestion::Loss {
                now,
                bytes,
                packets: packets as u32,
                largest_sent_at: newest,
                rtt: path.rtt.for_congestion(),
            };
            let window = path.controller.window();
            path.controller.on_loss(&loss, &group);
            let reduced = path.controller.window() < window;
            if reduced {
                path.patience.on_loss_event();
            }
            event = path.loss_event.on_lost(packets, reduced);
            if full_lost && path.mtu.on_full_lost(now) {
                path.controller.on_mtu(u64::from(path.mtu.current()));
            }
            if base_lost && path.mtu.on_base_lost() {
                path.ask_for_width();
            }
            if persistent {
                path.controller.on_persistent_congestion(now);
            }
        }
        self.scratch.group = group;
        if let Some(space) = self.space_mut(level, id) {
            space.lost.assign_last(remembered, event);
        }
    }

    fn tell_policy_of_loss(
        &mut self,
        now: Instant,
        level: Level,
        (id, number): (PathId, u64),
        packet: &SentPacket,
        counts: bool,
    ) {
        let Some(path) = self.paths.get_mut(&id).filter(|_| level == Level::OneRtt) else { return };
        match counts {
            true if path.rtt.shows_queue() => path.history.on_dropped(),
            true => path.history.on_lost(PacketNumber(number)),
            false => {}
        }
        let lost = RecoveryEvent::Lost(policy::LostPacket {
            path: id,
            number: PacketNumber(number),
            marks: packet.frames.marks(),
            timed_out: path.last_pto.is_some_and(|at| at >= packet.sent_at),
            copied: packet.copied,
            in_flight: packet.in_flight,
            counts,
        });
        self.repair.on_event(now, &lost);
    }

    /// ACKs of lost packets that were sent before this moment come too late to matter.
    fn lost_horizon(&self, now: Instant, id: PathId) -> Instant {
        let pto =
            self.paths.get(&id).map_or(Duration::ZERO, |p| p.rtt.pto_base() + self.peer_max_ack_delay());
        now - pto * SPURIOUS_HORIZON
    }

    fn space_mut(&mut self, level: Level, id: PathId) -> Option<&mut PacketSpace> {
        match level {
            Level::OneRtt => self.paths.get_mut(&id).map(|p| &mut p.space),
            level => self.handshake.space_mut(level).map(|s| &mut s.space),
        }
    }

    /// Whether packets about to be declared lost establish persistent congestion (RFC 9002 section 7.6.2). Only those that are found
    /// lost together are looked at: after a silence that long, one ACK finds them all.
    fn is_persistent_congestion(&mut self, level: Level, id: PathId, numbers: &[u64]) -> bool {
        let max_ack_delay = self.peer_max_ack_delay();
        let Some(path) = self.paths.get(&id) else { return false };
        let Some(first_sample_at) = path.rtt.first_sample_at() else { return false };
        let period = (path.rtt.pto_base() + max_ack_delay) * PERSISTENT_CONGESTION_THRESHOLD;
        self.space_mut(level, id).is_some_and(|s| s.longest_loss(numbers, first_sample_at) > period)
    }

    fn on_packet_lost(&mut self, level: Level, id: PathId, number: u64, mut packet: SentPacket) {
        self.note_lost_for_recovery(id, number, &packet);
        if level == Level::OneRtt {
            self.on_lost_in_blocks(id, number, &mut packet);
        }
        self.repair.recycle(core::mem::take(&mut packet.payload));
        if !packet.repaired {
            self.requeue(level, &mut packet.frames);
        }
    }

    /// Makes what a packet carried pending again, unless it was delivered otherwise.
    pub(super) fn requeue(&mut self, level: Level, frames: &mut SentFrames) {
        self.streams.on_lost(&mut frames.streams);
        for range in frames.crypto.drain(..) {
            self.handshake.crypto_mut(level).on_lost(range);
        }
        for frame in frames.control.drain(..) {
            if self.still_matters(&frame) && !self.control.contains(&frame) {
                self.control.push_front(frame);
            } else {
                self.settle_control(&[frame]);
            }
        }
    }

    /// Control frames have reached the peer.
    pub(super) fn on_control_delivered(&mut self, frames: &[ControlFrame]) {
        for frame in frames {
            if let ControlFrame::PathAbandon { path } = *frame {
                self.on_abandon_told(path);
            }
        }
        self.settle_control(frames);
    }

    /// Control frames have reached the peer, or are of no use to it any more.
    pub(super) fn settle_control(&mut self, frames: &[ControlFrame]) {
        for _ in frames.iter().filter(|f| matches!(f, ControlFrame::RetireConnectionId { .. })) {
            self.cids.on_retired();
        }
    }

    fn still_matters(&self, frame: &ControlFrame) -> bool {
        match *frame {
            ControlFrame::NewConnectionId { path, sequence } => self.cids.local(path, sequence).is_some(),
            ControlFrame::Recovered { .. } => false,
            ControlFrame::PathStatus { path } => self.paths.contains_key(&path),
            // Informational: the application asks again if it still wants to.
            ControlFrame::PathsBlocked | ControlFrame::PathCidsBlocked { .. } => false,
            _ => true,
        }
    }

    /// A path's packets have not been answered for a probe timeout.
    pub(super) fn on_probe_timeout(&mut self, now: Instant, id: PathId) {
        let another_works = self.another_path_works(id);
        let Some(path) = self.paths.get_mut(&id) else { return };
        path.pto_count += 1;
        path.last_pto = Some(now);
        path.ecn.on_silence(path.pto_count);
        path.probes_due = if another_works { 1 } else { 2 };
        if path.mtu.on_silence(now, path.pto_count) {
            path.controller.on_mtu(u64::from(path.mtu.current()));
        }
        // A fresh start for the next interval, also if no probe can leave.
        path.space.last_ack_eliciting_at = Some(now);
        if path.pto_count == 1 && path.is_open() {
            self.events.push_back(Event::Path(PathEvent::Suspect(id)));
        }
        let count = path.pto_count;
        self.observe_timeout(now, id, count);
        self.repair.on_event(now, &RecoveryEvent::PathTimeout { path: id, moved: another_works });
        if another_works {
            self.move_data_off(id);
        }
    }

    /// Makes everything un-ACKed of a path pending for the others. The records stay: a late ACK is still an ACK.
    pub(super) fn move_data_off(&mut self, id: PathId) {
        let Some(path) = self.paths.get_mut(&id) else { return };
        let mut space = core::mem::take(&mut path.space);
        let first = space.sent.oldest().unwrap_or(0);
        for number in first..space.sent.next_number() {
            let Some(packet) = space.sent.get_mut(number) else { continue };
            packet.reinjected = true;
            if !packet.repaired {
                let block = packet.block;
                self.requeue_for_other_paths(block, &mut packet.frames);
            }
        }
        if let Some(path) = self.paths.get_mut(&id) {
            path.space = space;
        }
    }

    /// The handshake's packets have not been answered for a probe timeout: two datagrams of what is oldest leave again, whatever the flight
    /// has (RFC 9002 section 6.2.4). Their ACK shows which others are lost.
    pub(super) fn on_handshake_probe_timeout(&mut self, now: Instant) {
        self.handshake.probes = HANDSHAKE_PROBES;
        let path = self.path_zero();
        path.pto_count += 1;
        path.ecn.on_silence(path.pto_count);
        let complete = self.handshake.is_complete();
        let path = self.path_zero();
        path.last_activity = now;
        if complete {
            // RFC 9002 section 6.2.4: what is in flight in other spaces is probed, too. A server that has all it needs of the handshake
            // hears nothing else, and learns from nothing else that the client's address has changed.
            path.probes_due = path.probes_due.max(1);
        }
        let datagram = self.path_zero().datagram_size() as u64;
        let mut room = u64::from(HANDSHAKE_PROBES) * datagram.saturating_sub(PROBE_OVERHEAD);
        for level in [Level::Initial, Level::Handshake] {
            let Some(space) = self.handshake.space_mut(level) else { continue };
            let in_flight = space.space.has_ack_eliciting_in_flight();
            let newest = level == Level::Handshake || self.handshake.space(Level::Handshake).is_none();
            if !in_flight && !newest {
                continue;
            }
            let Some(space) = self.handshake.space_mut(level) else { continue };
            space.probe_due = true;
            space.space.last_ack_eliciting_at = Some(now);
            room -= self.oldest_again(level, room);
        }
    }
}
