//! The frames of an un-ACKed packet once more, and what it means that either of the two arrives.

use recovery::PacketNumber;
use units::Instant;

use crate::{
    PacketPurpose,
    connection::{
        Connection,
        packet::{Built, PacketBuilder},
    },
    crypto::Level,
    path::{
        Path,
        sent::{Content, SentFrames, SentPacket},
    },
    policy::{Carried, RecoveryAction, RecoveryEvent},
    streams::Again,
    wire::PathId,
};

impl Connection {
    /// Sends the frames of an un-ACKed packet once more, minus what has been acknowledged since.
    /// `None` if nothing was left.
    pub(in crate::connection) fn send_copy(
        &mut self,
        now: Instant,
        of: PathId,
        number: u64,
        on: PathId,
        out: &mut Vec<u8>,
    ) -> Option<Built> {
        let path = self.paths.get_mut(&of)?;
        let packet = path.sent_mut(number)?;
        let here = on == of && packet.is_stuck();
        let before = packet.on_copy_tried();
        let frames = packet.frames.clone();
        path.move_marks();
        if !self.streams.unacked_data(&frames.streams) && frames.crypto.is_empty() {
            return None;
        }
        let mut builder = self.begin_full(on, out)?;
        let wrote = self.write_frames_again(&frames, &mut builder, out);
        builder.frames.copy_of = Some((of, number));
        builder.frames.copies_part = wrote == Again::Part;
        let built = self.finish_packet(now, builder, PacketPurpose::Copy, out)?;
        if let Some(packet) = self.paths.sent_packet_mut(of, number) {
            packet.on_copied(before, here);
        }
        self.stats.copies_sent += 1;
        self.stats.recovery_bytes_sent += built.size as u64;
        Some(built)
    }

    /// Sends a copy that the policy wants before data that waits, if the window has room for it, and the
    /// application lets the path carry copies.
    pub(in crate::connection) fn send_copy_ahead(
        &mut self,
        now: Instant,
        packet: PacketNumber,
        of: PathId,
        on: PathId,
        out: &mut Vec<u8>,
    ) -> bool {
        let may = self.paths.get(&on).is_some_and(Path::may_carry_recovery) && self.has_window(on);
        let built = if may { self.send_copy(now, of, packet.0, on, out) } else { None };
        let carried =
            built.map(|built| Carried { number: PacketNumber(built.number), bytes: built.size as u64 });
        self.repair.policy.on_done(&RecoveryAction::Reinject { packet, of, on }, carried);
        carried.is_some()
    }

    pub(in crate::connection) fn write_frames_again(
        &mut self,
        frames: &SentFrames,
        builder: &mut PacketBuilder,
        out: &mut Vec<u8>,
    ) -> Again {
        let limit = builder.limit;
        let wrote =
            self.streams.write_ranges(&frames.streams.ranges, out, limit, &mut builder.frames.streams);
        for range in &frames.crypto {
            self.handshake.crypto_mut(Level::OneRtt).on_lost(*range);
        }
        self.write_crypto(builder, out);
        self.streams.write_credit_again(&frames.streams.control, out, limit, &mut builder.frames.streams);
        builder.ack_eliciting |= wrote != Again::Nothing;
        wrote
    }

    /// Appends the frames of the oldest un-ACKed packet, or of one `newer` packets after it, once
    /// more, for a probe.
    pub(in crate::connection) fn write_oldest_again(
        &mut self,
        id: PathId,
        newer: usize,
        builder: &mut PacketBuilder,
        out: &mut Vec<u8>,
    ) {
        let Some(path) = self.paths.get(&id) else { return };
        let waiting = path
            .sent()
            .iter()
            .filter(|(_, p)| p.frames.carries_data() && !p.is_rebuilt() && p.block().is_none());
        if let Some(frames) = waiting.take(newer + 1).last().map(|(_, p)| p.frames.clone()) {
            self.write_frames_again(&frames, builder, out);
        }
    }

    /// A recovery copy was acknowledged: if its original is not, that one's data has arrived all
    /// the same.
    pub(in crate::connection) fn on_copy_delivered(&mut self, now: Instant, of: PathId, number: u64) {
        let Some(path) = self.paths.get_mut(&of) else { return };
        match path.sent_mut(number) {
            Some(original) => original.on_arrived(Content::CopyArrived),
            None => _ = self.note_mended(now, of, number),
        }
    }

    /// A copy of a packet's datagrams was acknowledged. Stream data beside them has not arrived with it.
    pub(in crate::connection) fn on_copied_datagrams_delivered(
        &mut self,
        now: Instant,
        of: PathId,
        number: u64,
    ) {
        if self.paths.sent_packet(of, number).is_some_and(|original| !original.frames.carries_data()) {
            self.on_copy_delivered(now, of, number);
        }
        self.on_timed_mended(now, of, number);
    }

    /// A recovery copy was declared lost: its original, if nobody knows what became of that, waits as if there
    /// had been none.
    pub(in crate::connection) fn on_copy_lost(&mut self, of: PathId, number: u64) {
        if let Some(original) = self.paths.sent_packet_mut(of, number) {
            original.on_copy_lost();
        }
    }

    /// A packet was declared lost. If recovery has protected it, the answer may still show that it
    /// was in time.
    pub(in crate::connection) fn note_lost_for_recovery(
        &mut self,
        now: Instant,
        of: PathId,
        number: u64,
        packet: &SentPacket,
    ) {
        if self.paths.get_mut(&of).is_some_and(|p| p.note_lost_protected(number, packet)) {
            self.on_mended(now, of);
        }
    }

    /// The data of a packet that is not on record has arrived. True if it was a loss that this
    /// mends.
    pub(super) fn note_mended(&mut self, now: Instant, of: PathId, number: u64) -> bool {
        let mended = self.paths.get_mut(&of).is_some_and(|p| p.note_mended(number));
        if mended {
            self.on_mended(now, of);
        }
        mended
    }

    fn on_mended(&mut self, now: Instant, path: PathId) {
        self.stats.packets_mended += 1;
        self.repair.on_event(now, &RecoveryEvent::Mended { path });
    }
}
