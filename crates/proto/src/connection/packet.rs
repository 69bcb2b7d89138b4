//! How a packet is built: header, frames, sealing, and the record that is kept of it.

use units::{Duration, Instant};

use super::{ACK_DELAY_EXPONENT, Connection};
use crate::{
    PacketPurpose,
    crypto::{self, Level, TAG_LEN},
    datagrams::TimedDatagram,
    path::{
        Path,
        received::Told,
        sending::NewPacket,
        sent::{ControlFrame, SentFrames},
        source::Source,
        space::Space,
    },
    policy::RecoveryEvent,
    wire::{
        ConnectionId, Frame, HeaderPositions, LongHeader, MaxPathId, NewConnectionId, NewToken, PacketKind,
        PathAbandon, PathCidsBlocked, PathId, PathStatus, PathsBlocked, RetireConnectionId, Runs,
        ShortHeader, TransportErrorCode, encode_ack, encode_recovered, packet_number_len,
    },
};

/// A peer that has forgotten us answers packets of this size with a stateless reset, which must be
/// smaller and still look like a packet (RFC 9000 section 10.3).
pub(super) const MIN_RESETTABLE: usize = 43;

/// A packet under construction at the end of the output buffer.
pub(super) struct PacketBuilder {
    pub(super) path: PathId,
    pub(super) level: Level,
    pub(super) number: u64,
    at: HeaderPositions,
    /// The buffer may not grow beyond this; the tag is left out.
    pub(super) limit: usize,
    pub(super) frames: SentFrames,
    pub(super) ack_eliciting: bool,
    /// Pad the datagram to this size.
    pub(super) pad_to: usize,
    /// Where the stream data written last ends in the buffer; 0 if there is none.
    pub(super) data_end: usize,
    /// The datagrams with deadlines among its frames.
    pub(super) timed: Vec<TimedDatagram>,
}

/// A finished packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Built {
    pub(super) number: u64,
    pub(super) size: usize,
}

impl PacketBuilder {
    /// Whether no frame has been written yet.
    pub(super) fn is_empty(&self, out: &[u8]) -> bool {
        out.len() == self.at.payload
    }

    /// Bytes of the datagram that it may fill.
    pub(super) fn room(&self) -> usize {
        self.limit + TAG_LEN - self.at.start
    }
}

impl Connection {
    /// Starts a 1-RTT packet of at most `max_size` bytes on `path`.
    pub(super) fn begin_one_rtt(
        &self,
        id: PathId,
        max_size: usize,
        out: &mut Vec<u8>,
    ) -> Option<PacketBuilder> {
        self.begin_one_rtt_with(id, self.cids.remote(id)?, max_size, out)
    }

    /// Starts a 1-RTT packet that may fill a datagram of `path`.
    pub(super) fn begin_full(&self, id: PathId, out: &mut Vec<u8>) -> Option<PacketBuilder> {
        let path = self.paths.get(&id)?;
        self.begin_on(path, self.cids.remote(id)?, path.datagram_size(), out)
    }

    /// The same as [`begin_one_rtt`](Self::begin_one_rtt), to one of the peer's other connection
    /// ids.
    pub(super) fn begin_one_rtt_with(
        &self,
        id: PathId,
        dcid: ConnectionId,
        max_size: usize,
        out: &mut Vec<u8>,
    ) -> Option<PacketBuilder> {
        self.begin_on(self.paths.get(&id)?, dcid, max_size, out)
    }

    fn begin_on(
        &self,
        path: &Path,
        dcid: ConnectionId,
        max_size: usize,
        out: &mut Vec<u8>,
    ) -> Option<PacketBuilder> {
        let number = path.space().next_number();
        let start = out.len();
        let key_phase = self.handshake.one_rtt.as_ref()?.bit();
        let header = ShortHeader { dcid, spin: false, key_phase };
        let at = header.encode(number, packet_number_len(number, path.space().number_base()), out);
        Some(PacketBuilder {
            path: path.id(),
            level: Level::OneRtt,
            number,
            at,
            limit: start + max_size - TAG_LEN,
            frames: SentFrames::default(),
            ack_eliciting: false,
            pad_to: 0,
            data_end: 0,
            timed: Vec::new(),
        })
    }

    /// Starts an Initial, Handshake or 0-RTT packet that ends at `end` of the buffer at most, and is no
    /// longer than its header can say.
    pub(super) fn begin_long(&self, level: Level, end: usize, out: &mut Vec<u8>) -> Option<PacketBuilder> {
        let (kind, space) = match level {
            Level::Initial => (PacketKind::Initial, &self.handshake.space(level)?.space),
            Level::Handshake => (PacketKind::Handshake, &self.handshake.space(level)?.space),
            Level::ZeroRtt | Level::OneRtt => (PacketKind::ZeroRtt, self.paths.of_handshake()?.space()),
        };
        let scid = self.cids.local(PathId::ZERO, 0)?.cid;
        let dcid = self.cids.remote(PathId::ZERO)?;
        let number = space.next_number();
        let token = match &self.handshake.first {
            Some(first) if level == Level::Initial => &first.token[..],
            _ => &[],
        };
        let header = LongHeader { kind, token, dcid, scid };
        let at = header.encode(number, packet_number_len(number, space.number_base()), out);
        Some(PacketBuilder {
            path: PathId::ZERO,
            level,
            number,
            at,
            limit: end.min(at.pn_offset + HeaderPositions::MAX_LENGTH).checked_sub(TAG_LEN)?,
            frames: SentFrames::default(),
            ack_eliciting: false,
            pad_to: 0,
            data_end: 0,
            timed: Vec::new(),
        })
    }

    /// Seals the packet and records it; `None`, and nothing left in the buffer, if it has no
    /// frames.
    pub(super) fn finish_packet(
        &mut self,
        now: Instant,
        mut builder: PacketBuilder,
        purpose: PacketPurpose,
        out: &mut Vec<u8>,
    ) -> Option<Built> {
        let at = builder.at;
        if builder.is_empty(out) {
            out.truncate(at.start);
            return None;
        }
        // Long enough to take a sample for header protection, whatever the packet number's length.
        let mut shortest = at.pn_offset + 4;
        if builder.level == Level::OneRtt && builder.ack_eliciting {
            shortest = shortest.max(at.start + MIN_RESETTABLE - TAG_LEN);
        }
        let padded = builder.pad_to.saturating_sub(TAG_LEN).max(shortest);
        out.resize(out.len().max(padded), 0);
        let source = self.keep_source(&builder, purpose, out);
        let guarded = self.guard(now, &mut builder, &out[at.payload..]);
        self.observe_sent(now, &builder, purpose, out.len() + TAG_LEN - at.start, &out[at.payload..]);
        if !self.seal(&builder, out) {
            out.truncate(at.start);
            let reason = "packet protection keys are used up";
            self.fail(now, crate::TransportError::new(TransportErrorCode::AEAD_LIMIT_REACHED, reason));
            return None;
        }
        let built = Built { number: builder.number, size: out.len() - at.start };
        let name = (builder.path, builder.number);
        self.record(now, builder, purpose, source, built);
        if let Some(guarded) = guarded {
            self.follow_timed(now, name, guarded);
        }
        Some(built)
    }

    /// Seals a packet; false once its keys are worn out (RFC 9001 section 6.6). Saying so may still
    /// use them.
    fn seal(&mut self, builder: &PacketBuilder, out: &mut Vec<u8>) -> bool {
        let open = !self.state.is_closed();
        let (keys, sealed) = match builder.level {
            Level::OneRtt => {
                let Some(keys) = &mut self.handshake.one_rtt else { return false };
                keys.sealed += 1;
                (keys.local(), keys.sealed)
            }
            Level::ZeroRtt => {
                let Some(keys) = &self.early.keys else { return false };
                ((&*keys.packet, &*keys.header), builder.number + 1)
            }
            level => {
                let Some(space) = self.handshake.space(level) else { return false };
                // Packet numbers count what these keys sealed.
                ((&*space.keys.local.packet, &*space.keys.local.header), builder.number + 1)
            }
        };
        let worn_out = sealed > keys.0.confidentiality_limit() && open;
        !worn_out && crypto::seal(keys, builder.path, builder.number, out, &builder.at).is_ok()
    }

    /// Keeps what coding needs of a packet that it may have to protect, and that is about to be sealed.
    fn keep_source(&mut self, builder: &PacketBuilder, purpose: PacketPurpose, out: &[u8]) -> Source {
        let wanted = purpose == PacketPurpose::Data && builder.frames.carries_data();
        if !wanted || !self.repair.keeps_sources() || builder.level != Level::OneRtt {
            return Source::Nothing;
        }
        let plaintext = &out[builder.at.payload..];
        if self.repair.codes_later()
            && builder.data_end == out.len()
            && let [range] = builder.frames.streams.ranges[..]
            && let Some(head) = Source::head(&plaintext[..plaintext.len() - range.len as usize])
        {
            debug_assert!({
                let mut made = Vec::new();
                head.write_plaintext(&[range], &self.streams, &mut made);
                made == plaintext
            });
            return head;
        }
        match self.repair.keep(plaintext) {
            Some(plaintext) => Source::Plaintext(plaintext),
            None => {
                if let Some(path) = self.paths.get_mut(&builder.path) {
                    path.count_unprotected();
                }
                Source::Nothing
            }
        }
    }

    fn record(
        &mut self,
        now: Instant,
        builder: PacketBuilder,
        purpose: PacketPurpose,
        source: Source,
        built: Built,
    ) {
        let PacketBuilder { path: id, level, number, frames, ack_eliciting, .. } = builder;
        let packet = NewPacket { number, level, size: built.size, purpose, ack_eliciting, frames, source };
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += built.size as u64;
        if ack_eliciting && !core::mem::replace(&mut self.idle.sent_since_heard, true) {
            self.restart_idle_timer(now);
        }
        let data = matches!(level, Level::OneRtt | Level::ZeroRtt);
        if data && packet.is_measured() {
            self.repair.on_event(now, &RecoveryEvent::Sent { path: id });
        }
        let Some(path) = self.paths.get_mut(&id) else { return };
        let space = match level {
            Level::OneRtt | Level::ZeroRtt => Space::Data,
            level => match self.handshake.space_mut(level) {
                Some(space) => Space::Handshake(&mut space.space),
                None => return,
            },
        };
        path.on_packet_sent(now, space, packet);
        if level == Level::OneRtt
            && let Some(overdue) = path.skip_number_if_due(&mut self.rng)
        {
            self.give_up_packet(now, id, overdue);
        }
    }

    /// Appends the ACK owed in a space, if any (PATH_ACK once multipath is negotiated).
    pub(super) fn write_ack(
        &mut self,
        now: Instant,
        of: PathId,
        builder: &mut PacketBuilder,
        out: &mut Vec<u8>,
    ) {
        let multipath = self.path_ids.limits.is_some();
        let path = self.paths.get_mut(&of);
        let rtt = path.as_ref().map_or(Duration::ZERO, |p| p.rtt().smoothed());
        let follows_update = path.as_ref().is_some_and(|p| p.phase().first_received.is_some());
        let received = match builder.level {
            Level::OneRtt => path.map(|p| p.received_mut()),
            level => self.handshake.space_mut(level).map(|s| s.space.received_mut()),
        };
        let Some(received) = received.filter(|r| r.owes_ack()) else { return };
        let (path, delay) = match builder.level {
            Level::OneRtt => {
                (multipath.then_some(of), received.ack_delay(now).as_micros() >> ACK_DELAY_EXPONENT)
            }
            _ => (None, 0),
        };
        let room = builder.limit.saturating_sub(out.len());
        let ranges = received.ranges(now, rtt);
        let named = encode_ack(path, delay, received.ecn_counts(), ranges.iter().cloned(), room, out);
        if named > 0 {
            let told = received.on_ack_sent();
            // What came late comes last, and is what did not fit.
            let told = if named < ranges.len() { told.map(Told::without_late) } else { told };
            builder.frames.told = told.map(|told| (of, told));
            if builder.level == Level::OneRtt && follows_update {
                self.note_update_acknowledged();
            }
        }
    }

    /// Appends waiting frames outside of streams, as many as fit.
    pub(super) fn write_control(&mut self, builder: &mut PacketBuilder, out: &mut Vec<u8>) {
        while let Some(frame) = self.control.front().copied() {
            let before = out.len();
            self.encode_control(&frame, out);
            if out.len() > builder.limit {
                out.truncate(before);
                break;
            }
            builder.ack_eliciting |= out.len() > before;
            if let ControlFrame::Recovered { path } = frame {
                // Not retransmitted, therefore not on record.
                if self.paths.get_mut(&path).is_some_and(|p| p.on_reported()) {
                    continue;
                }
            } else if out.len() > before {
                builder.frames.control.push(frame);
            }
            self.control.pop_front();
            if frame == ControlFrame::MaxPathId {
                self.on_paths_allowed();
            }
        }
    }

    /// Encodes a control frame with today's values; nothing if it has become moot.
    pub(super) fn encode_control(&self, frame: &ControlFrame, out: &mut Vec<u8>) {
        let path_field = |path: PathId| (path != PathId::ZERO).then_some(path);
        match *frame {
            ControlFrame::HandshakeDone => Frame::HandshakeDone.encode(out),
            ControlFrame::NewToken if self.new_token.is_empty() => {}
            ControlFrame::NewToken => NewToken { token: &self.new_token }.encode(out),
            ControlFrame::NewConnectionId { path, sequence, .. } => {
                if let Some(cid) = self.cids.local(path, sequence) {
                    NewConnectionId {
                        path: path_field(path),
                        sequence,
                        // One that was lost and leaves again may be among those that are to be given up,
                        // and asks for none above it (RFC 9000 section 19.15).
                        retire_prior_to: self.cids.retire_prior_to(path).min(sequence),
                        id: cid.cid,
                        reset_token: cid.token,
                    }
                    .encode(out);
                }
            }
            ControlFrame::RetireConnectionId { path, sequence } => {
                RetireConnectionId { path: path_field(path), sequence }.encode(out);
            }
            ControlFrame::PathAbandon { path } => {
                PathAbandon { path, error_code: self.path_ids.abandon_code(path) }.encode(out);
            }
            ControlFrame::PathStatus { path } => {
                if let Some(p) = self.paths.get(&path) {
                    let (sequence, status) = p.local_status();
                    PathStatus { path, sequence, backup: status.is_backup() }.encode(out);
                }
            }
            ControlFrame::MaxPathId => {
                if self.path_ids.limits.is_some() {
                    MaxPathId { maximum: self.allowed_path_id() }.encode(out);
                }
            }
            ControlFrame::PathsBlocked => {
                if let Some(max) = self.path_ids.limits {
                    PathsBlocked { maximum: max.remote }.encode(out);
                }
            }
            ControlFrame::PathCidsBlocked { path } => {
                let next_sequence = self.cids.next_remote_sequence(path);
                PathCidsBlocked { path, next_sequence }.encode(out);
            }
            ControlFrame::Recovered { path } => {
                if let Some(p) = self.paths.get(&path).filter(|p| p.next_report().next().is_some()) {
                    encode_recovered(path, Runs::new(p.next_report()), out);
                }
            }
        }
    }

    /// Appends waiting CRYPTO data of the packet's level.
    pub(super) fn write_crypto(&mut self, builder: &mut PacketBuilder, out: &mut Vec<u8>) {
        let limit = builder.limit;
        while let Some(range) = self.handshake.crypto_mut(builder.level).write_frame(out, limit) {
            builder.frames.crypto.push(range);
            builder.ack_eliciting = true;
        }
    }
}
