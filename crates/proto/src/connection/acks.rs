//! ACKs and losses: what a path finds out about its packets goes to whoever has to know.
//!
//! The path does what RFC 9002 asks (`path/newly_acked.rs`, `path/loss.rs`) and answers with an
//! outcome. Here its packets are handed on, to the recovery policy, CTCP's blocks, streams, the
//! handshake and repair.

use recovery::PacketNumber;
use units::{Duration, Instant};

use super::{Connection, Event, PathEvent, frames::FrameContext, packet::PacketBuilder};
use crate::{
    crypto::Level,
    path::{
        Path,
        loss::{DeclaredLost, LossKind, LossOutcome},
        newly_acked::{Answer, Backoff, NewlyAcked},
        sent::{ControlFrame, SentFrames, SentPacket},
        space::Space,
    },
    policy::{self, RecoveryEvent},
    wire::{Ack, Frame, PathId, Side, TransportError, TransportErrorCode},
};

impl Connection {
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        context: FrameContext,
        ack: &Ack<'_>,
        delay: Duration,
    ) -> Result<(), TransportError> {
        let id = ack.path.unwrap_or(PathId::ZERO);
        let mut newly = self.scratch.acked.take().unwrap_or_default();
        let Some((path, space)) = self.path_and_space(context.level, id) else {
            self.scratch.acked = Some(newly);
            return self.check_ack_of_unknown_path(id);
        };
        let result = path.on_ack_received(now, space, ack, &mut newly);
        if result.is_ok() {
            self.on_late_arrivals(now, id, &newly);
            self.on_newly_acked(now, context.level, ack, delay, &mut newly);
        }
        self.scratch.acked = Some(newly);
        result?;
        match context.level {
            Level::OneRtt => self.on_ack_in_phase(now, id, ack.largest, context.phase),
            _ => Ok(()),
        }
    }

    /// A path, and the packet number space of a level's packets on it.
    fn path_and_space(&mut self, level: Level, id: PathId) -> Option<(&mut Path, Space<'_>)> {
        let path = self.paths.get_mut(&id)?;
        let space = match level {
            Level::OneRtt | Level::ZeroRtt => Space::Data,
            level => Space::Handshake(&mut self.handshake.space_mut(level)?.space),
        };
        Some((path, space))
    }

    /// An ACK for a path that is gone is late; one for a path that never was is a lie.
    fn check_ack_of_unknown_path(&self, id: PathId) -> Result<(), TransportError> {
        if self.path_is_gone(id) || id == PathId::ZERO {
            return Ok(());
        }
        Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, "ACK for a path that never existed"))
    }

    /// Packets that were declared lost have arrived after all.
    fn on_late_arrivals(&mut self, now: Instant, id: PathId, newly: &NewlyAcked) {
        self.stats.spurious_losses += newly.spurious.len() as u64;
        for _ in &newly.spurious {
            self.repair.on_event(now, &RecoveryEvent::SpuriousLoss { path: id });
        }
        for packet in &newly.spurious {
            self.on_timed_acked(id, packet.number);
            self.cover_in_blocks(now, id, packet.number, None);
        }
    }

    // ---- packets that were acknowledged

    fn on_newly_acked(
        &mut self,
        now: Instant,
        level: Level,
        ack: &Ack<'_>,
        delay: Duration,
        newly: &mut NewlyAcked,
    ) {
        if newly.packets.is_empty() {
            return;
        }
        let id = ack.path.unwrap_or(PathId::ZERO);
        let delay =
            if level == Level::OneRtt { delay.min(self.peer_max_ack_delay()) } else { Duration::ZERO };
        self.confirm_by_ack(level, id, ack.largest);
        let backoff = self.backoff_after_ack(level);
        let Some((path, space)) = self.path_and_space(level, id) else { return };
        let answer = path.on_newly_acked(now, space, ack.ecn, delay, backoff, newly);
        let rtt = path.expected_rtt(now);
        if answer == Answer::AfterSilence && path.is_open() && level == Level::OneRtt {
            self.events.push_back(Event::Path(PathEvent::Resumed(id)));
        }
        // From where they are: records are large.
        let mut packets = core::mem::take(&mut newly.packets);
        for (number, packet) in &mut packets {
            self.on_packet_acked(now, level, id, *number, rtt, packet);
        }
        packets.clear();
        newly.packets = packets;
        let group = self.take_group(id);
        self.detect_lost(now, level, id, &group);
        if let Some(path) = self.paths.get_mut(&id) {
            path.resume(&self.config.path_store);
            let ack = path.on_packets_acked(now, newly, &group);
            let load = path.load();
            self.remember_at_rest(now, id);
            self.look_for_bottlenecks(id, &ack, load);
        }
        self.scratch.group = group;
        self.observe_metrics(now, id);
    }

    /// An ACK of 1-RTT data, not of 0-RTT, shows a client that the server has finished (RFC 9001
    /// section 4.1.2).
    fn confirm_by_ack(&mut self, level: Level, id: PathId, largest: u64) {
        let unconfirmed = self.side == Side::Client && !self.handshake.is_confirmed();
        if unconfirmed
            && level == Level::OneRtt
            && self.paths.get(&id).is_some_and(|p| largest >= p.phase().first_sent)
        {
            self.confirm_handshake();
        }
    }

    fn backoff_after_ack(&self, level: Level) -> Backoff {
        let validated =
            self.handshake.is_complete() || self.side == Side::Server || level == Level::Handshake;
        if validated { Backoff::Ends } else { Backoff::Stays }
    }

    /// Tells everybody who waits for it that a packet has arrived.
    fn on_packet_acked(
        &mut self,
        now: Instant,
        level: Level,
        id: PathId,
        number: u64,
        rtt: Duration,
        packet: &mut SentPacket,
    ) {
        let Some(path) = self.paths.get_mut(&id) else { return };
        let in_flight = packet.is_in_flight();
        path.on_delivered(now, packet.epoch, packet.size);
        if level == Level::OneRtt {
            let acked = RecoveryEvent::Acked { path: id, number: PacketNumber(number), in_flight, rtt };
            self.repair.on_event(now, &acked);
            self.on_acked_in_blocks(now, id, number, packet);
            if packet.frames.timed {
                self.on_timed_acked(id, number);
            }
        }
        let SentPacket { frames, source, .. } = packet;
        self.repair.recycle(source.take_plaintext());
        self.streams.on_acked(&frames.streams);
        self.on_control_delivered(&frames.control);
        for range in &frames.crypto {
            self.handshake.crypto_mut(level).on_acked(*range);
        }
        if let Some((of, told)) = frames.told
            && level == Level::OneRtt
            && let Some(path) = self.paths.get_mut(&of)
        {
            path.received_mut().on_ack_acknowledged(told);
        }
        if let Some((of, number)) = frames.copy_of {
            // A copy has either the stream data of a packet, or its datagrams.
            if !frames.carries_data() {
                self.on_copied_datagrams_delivered(now, of, number);
            } else if !frames.copies_part {
                self.on_copy_delivered(now, of, number);
            }
        }
    }

    /// Makes a packet with nothing but an ACK ask for one now and then, within the window (RFC 9000
    /// section 13.2.4).
    pub(super) fn ask_for_ack(
        &mut self,
        now: Instant,
        id: PathId,
        builder: &mut PacketBuilder,
        out: &mut Vec<u8>,
    ) {
        let Some(path) = self.paths.get(&id) else { return };
        let wanted = path.received().is_ack_wanted(now, path.rtt().smoothed());
        // A path that is suspect is probed anyway.
        let may = path.works() && path.has_spare_datagram();
        if wanted && may && !builder.is_empty(out) && out.len() < builder.limit {
            Frame::Ping.encode(out);
            builder.ack_eliciting = true;
        }
    }

    /// Lets the search for shared bottlenecks see an ACK, and holds a path to less than its window
    /// if that is what it needs.
    fn look_for_bottlenecks(&mut self, id: PathId, ack: &congestion::Ack, load: congestion::Load) {
        let is_open = self.paths.get(&id).is_some_and(Path::is_open);
        let hold = is_open.then(|| self.bottlenecks.on_ack(id.0, ack, load)).flatten();
        if let Some((hold, path)) = hold.and_then(|h| Some((h, self.paths.get_mut(&PathId(h.path))?))) {
            path.hold(&hold);
        }
    }

    // ---- packets that were lost

    /// What coupled controllers see: every open path's window. The buffer goes back to where it
    /// came from.
    fn take_group(&mut self, id: PathId) -> Vec<congestion::PathWindow> {
        let mut group = core::mem::take(&mut self.scratch.group);
        group.clear();
        group.extend(self.paths.values().filter(|p| p.is_open()).map(|p| congestion::PathWindow {
            shared: self.bottlenecks.share(id.0, p.id().0),
            ..p.sibling_of(id)
        }));
        group
    }

    /// The time has come at which packets of a level on a path are lost by age.
    pub(super) fn on_loss_timeout(&mut self, now: Instant, level: Level, id: PathId) {
        let group = self.take_group(id);
        self.detect_lost(now, level, id, &group);
        self.scratch.group = group;
        self.remember_at_rest(now, id);
    }

    /// An exchange over a path is over once nothing of it is under way any more, be it that the last of it was
    /// answered or that it was lost: what it has taught may serve another connection. A path that is closed has
    /// said so already.
    fn remember_at_rest(&mut self, now: Instant, id: PathId) {
        if !self.handshake.is_confirmed() {
            return;
        }
        let Some(path) = self.paths.get_mut(&id) else { return };
        if path.in_flight() == 0 && path.rtt().first_sample_at().is_some() && !path.is_closing() {
            let found = path.take_finding(now);
            self.config.path_store.remember(&path.network(), path.learnt(), &found);
        }
    }

    /// Declares packets lost by number or age, and hands them on.
    fn detect_lost(&mut self, now: Instant, level: Level, id: PathId, group: &[congestion::PathWindow]) {
        let max_ack_delay = self.peer_max_ack_delay();
        let mut lost = core::mem::take(&mut self.scratch.lost);
        if let Some((path, space)) = self.path_and_space(level, id) {
            path.detect_lost(now, space, max_ack_delay, group, &mut lost);
            self.on_lost(now, level, id, &mut lost);
        }
        self.scratch.lost = lost;
    }

    /// Declares a packet lost that holds up too many others.
    pub(super) fn give_up_packet(&mut self, now: Instant, id: PathId, number: u64) {
        let max_ack_delay = self.peer_max_ack_delay();
        let group = self.take_group(id);
        let mut lost = core::mem::take(&mut self.scratch.lost);
        if let Some(path) = self.paths.get_mut(&id) {
            path.give_up(now, number, max_ack_delay, &group, &mut lost);
            self.on_lost(now, Level::OneRtt, id, &mut lost);
        }
        (self.scratch.lost, self.scratch.group) = (lost, group);
    }

    /// Tells everybody who has to know of packets that a path has lost.
    fn on_lost(&mut self, now: Instant, level: Level, id: PathId, lost: &mut LossOutcome) {
        if lost.packets.is_empty() {
            return;
        }
        self.stats.packets_lost += lost.on_path;
        let rtt = self.paths.get(&id).map_or(Duration::ZERO, |path| path.expected_rtt(now));
        for lost in lost.packets.drain(..) {
            self.observe_lost(now, level, id, lost.number);
            if lost.kind == LossKind::OnPath {
                self.stats.bytes_lost += u64::from(lost.packet.size);
            }
            if lost.kind == LossKind::MtuProbe {
                continue;
            }
            if level == Level::OneRtt {
                let event = RecoveryEvent::Lost(policy::LostPacket {
                    path: id,
                    number: PacketNumber(lost.number),
                    marks: lost.packet.frames.marks(),
                    timed_out: lost.timed_out,
                    copied: lost.packet.is_copied(),
                    coded: lost.packet.is_coded(),
                    in_flight: lost.packet.is_in_flight(),
                    counts: lost.kind == LossKind::OnPath,
                    rtt,
                });
                self.repair.on_event(now, &event);
            }
            self.on_packet_lost(now, level, id, lost);
        }
    }

    fn on_packet_lost(&mut self, now: Instant, level: Level, id: PathId, lost: DeclaredLost) {
        let DeclaredLost { number, kind, mut packet, .. } = lost;
        // What had the datagrams alone says nothing of a copy of the stream data. A copy on a path that was silent has
        // been taken for lost before: by now there may be another.
        if let Some((of, original)) = packet.frames.copy_of
            && packet.frames.carries_data()
            && !packet.is_resent()
        {
            self.on_copy_lost(of, original);
        }
        // Only what counts as lost can count as mended.
        if kind == LossKind::OnPath {
            self.note_lost_for_recovery(now, id, number, &packet);
        }
        if level == Level::OneRtt {
            self.on_lost_in_blocks(id, number, &mut packet);
            if packet.frames.timed {
                self.repair.on_timed_lost(id, number);
            }
        }
        self.repair.recycle(packet.source.take_plaintext());
        if !packet.is_rebuilt() {
            self.requeue(level, &mut packet.frames);
        }
    }

    /// Makes what a packet carried pending again, unless it was delivered otherwise.
    pub(super) fn requeue(&mut self, level: Level, frames: &mut SentFrames) {
        self.streams.on_lost(&mut frames.streams);
        for range in frames.crypto.drain(..) {
            self.handshake.crypto_mut(level).on_lost(range);
        }
        for mut frame in frames.control.drain(..) {
            if let ControlFrame::NewConnectionId { again, .. } = &mut frame {
                *again = true;
            }
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
            match *frame {
                ControlFrame::PathAbandon { path } => self.on_abandon_told(path),
                // Whatever copy of it comes next has become moot.
                ControlFrame::NewToken => self.new_token = Vec::new(),
                _ => {}
            }
        }
        self.settle_control(frames);
    }

    /// Control frames have reached the peer, or are of no use to it any more.
    fn settle_control(&mut self, frames: &[ControlFrame]) {
        for _ in frames.iter().filter(|f| matches!(f, ControlFrame::RetireConnectionId { .. })) {
            self.cids.on_retired();
        }
    }

    fn still_matters(&self, frame: &ControlFrame) -> bool {
        match *frame {
            ControlFrame::NewConnectionId { path, sequence, .. } => self.cids.local(path, sequence).is_some(),
            ControlFrame::Recovered { .. } => false,
            ControlFrame::PathStatus { path } => self.paths.contains_key(&path),
            ControlFrame::NewToken => !self.new_token.is_empty(),
            // Informational: the application asks again if it still wants to.
            ControlFrame::PathsBlocked | ControlFrame::PathCidsBlocked { .. } => false,
            _ => true,
        }
    }
}
