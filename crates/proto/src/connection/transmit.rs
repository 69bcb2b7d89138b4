//! Which packet is next: the order of docs/decisions/0001-transport-core.md.

use recovery::PacketNumber;
use smallvec::SmallVec;
use units::{Duration, Instant};

use super::{
    Connection,
    close::{CloseFrame, State},
    packet::Built,
    repair::Next,
};
use crate::{
    GRANULARITY, PacketPurpose, PathSnapshot, Transmit,
    crypto::{Level, TAG_LEN},
    path::{Path, snapshot::View, validation::MIN_USEFUL_SIZE},
    policy::SentData,
    steady::is_left_out,
    wire::{Frame, PathId, Side},
};

/// Smallest datagram that carries a client's Initial, or a path challenge (RFC 9000 sections 8.2.1
/// and 14.1).
pub(super) const MIN_INITIAL_SIZE: usize = 1_200;
/// A long header, CONNECTION_CLOSE without a reason, and the tag.
const MIN_CLOSE_SIZE: usize = 100;
/// The same with a short header.
const MIN_SHORT_CLOSE_SIZE: usize = 64;
/// A Handshake packet is only added to a datagram that has at least this much room left.
const MIN_COALESCED: usize = 128;
/// A packet with application datagrams that lacks less than this many bytes is filled up with
/// PADDING, so that it can leave together with others: only full packets do.
const NEARLY_FULL: usize = 32;
/// Bytes of a batch of several datagrams at most: what one system call sends.
const LARGEST_BATCH: usize = 65_507;

impl Connection {
    /// The next datagrams to send, appended to `out`, which the caller has cleared: up to
    /// `max_datagrams` of equal size, no more than 65,507 bytes of several, all for one network path.
    /// `None` when nothing is to be sent now.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        max_datagrams: usize,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        match &self.state {
            State::Open => {}
            State::Closing(closing) => {
                let briefly = closing.briefly;
                let transmit = self.transmit_close(now, out);
                if briefly {
                    self.drain();
                }
                return transmit;
            }
            State::Draining { .. } | State::Drained => return None,
        }
        self.tell_streams(now);
        if self.datagrams.has_deadlines() {
            self.datagrams.expire(self.earliest_arrival(now));
        }
        if let Some(transmit) = self.transmit_handshake(now, out) {
            return Some(transmit);
        }
        if !self.may_send_one_rtt() {
            return self.transmit_zero_rtt(now, out);
        }
        let max_datagrams = max_datagrams.min(self.early_batch());
        if max_datagrams == 0 {
            // No full datagram may leave, but what is owed for early data is small.
            return self.transmit_acks(now, out);
        }
        self.update_keys_if_due();
        let transmit = self
            .transmit_path_bound(now, out)
            .or_else(|| self.transmit_batch(now, max_datagrams.max(1), out))
            .or_else(|| self.transmit_acks(now, out));
        self.observe_reasons(now);
        if transmit.is_none() {
            self.note_limits();
            self.give_back();
            debug_assert_eq!(
                self.neglected(now),
                None,
                "next at {:?}: {:?}",
                self.poll_timeout(),
                self.paths()
            );
        }
        transmit
    }

    pub(super) fn transmit(
        &mut self,
        now: Instant,
        id: PathId,
        out: &[u8],
        segment_size: Option<usize>,
    ) -> Option<Transmit> {
        let path = self.paths.get_mut(&id)?;
        let ecn = path.on_transmit(now);
        Some(Transmit { path: path.network(), ecn, size: out.len(), segment_size })
    }

    // ---- 1: closing

    fn transmit_close(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        while let State::Closing(closing) = &mut self.state
            && let Some(id) = closing.pending.pop()
        {
            let close = closing.close.clone();
            if self.write_close(now, id, &close, out).is_some() {
                return self.transmit(now, id, out, None);
            }
        }
        None
    }

    /// A datagram that says goodbye on this path, if one may leave there: whoever has not shown that it receives
    /// gets one within the amplification limit, or none.
    fn write_close(&mut self, now: Instant, id: PathId, close: &CloseFrame, out: &mut Vec<u8>) -> Option<()> {
        let budget = self.paths.get(&id)?.amplification_budget();
        let size = MIN_INITIAL_SIZE.min(usize::try_from(budget).unwrap_or(usize::MAX));
        // RFC 9000 section 10.2.3: what the peer may be able to read.
        let levels: &[Level] = match (self.handshake.is_complete(), self.handshake.is_confirmed()) {
            (true, true) => &[Level::OneRtt],
            (true, false) => &[Level::Handshake, Level::OneRtt],
            (false, _) => &[Level::Initial, Level::Handshake],
        };
        for &level in levels {
            let least = if level == Level::OneRtt { MIN_SHORT_CLOSE_SIZE } else { MIN_CLOSE_SIZE };
            if size < out.len() + least {
                continue;
            }
            let builder = match level {
                Level::OneRtt => self.begin_one_rtt(id, size - out.len(), out),
                // Those of the handshake go to path 0's connection id, and so does what comes with them
                // (RFC 9000 section 12.2).
                level if id == PathId::ZERO => self.begin_long(level, size, out),
                _ => None,
            };
            let Some(mut builder) = builder else { continue };
            let room = builder.limit.saturating_sub(out.len());
            close.frame(level != Level::OneRtt).fitted(room).encode(out);
            if level == Level::Initial
                && self.side == Side::Client
                && self.handshake.space(Level::Handshake).is_none()
            {
                builder.pad_to = MIN_INITIAL_SIZE;
            }
            self.finish_packet(now, builder, PacketPurpose::Probe, out);
        }
        (!out.is_empty()).then_some(())
    }

    // ---- 2: handshake

    /// Initial and Handshake packets, coalesced into one datagram.
    fn transmit_handshake(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        let path = self.paths.of_handshake()?;
        let free = self.may_send_flight(path);
        let mut levels: SmallVec<[Level; 2]> = SmallVec::new();
        let pending = |level: &Level| self.handshake_pending(*level, free);
        levels.extend([Level::Initial, Level::Handshake].into_iter().filter(pending));
        let budget = path.amplification_budget();
        if levels.is_empty() || budget < MIN_USEFUL_SIZE {
            return None;
        }
        let size = path.datagram_size().min(usize::try_from(budget).unwrap_or(usize::MAX));
        let (mut needs_padding, mut fresh, mut ack_eliciting) = (false, false, false);
        for (i, &level) in levels.iter().enumerate() {
            let Some(mut builder) = self.begin_long(level, size, out) else { continue };
            self.write_ack(now, PathId::ZERO, &mut builder, out);
            let unsent = self.handshake.crypto(level).unsent();
            if free {
                self.write_crypto(&mut builder, out);
            }
            fresh |= self.handshake.crypto(level).unsent() > unsent;
            let Some(space) = self.handshake.space_mut(level) else { continue };
            if core::mem::take(&mut space.probe_due) && !builder.ack_eliciting {
                Frame::Ping.encode(out);
                builder.ack_eliciting = true;
            }
            ack_eliciting |= builder.ack_eliciting;
            let padded = level == Level::Initial && (self.side == Side::Client || builder.ack_eliciting);
            needs_padding |= padded && !builder.is_empty(out);
            let another = levels.get(i + 1).is_some() && out.len() + TAG_LEN + MIN_COALESCED <= size;
            if needs_padding && !another {
                builder.pad_to = MIN_INITIAL_SIZE.min(size);
            }
            let built = self.finish_packet(now, builder, PacketPurpose::Data, out);
            if built.is_some() && level == Level::Handshake && self.side == Side::Client {
                // RFC 9001 section 4.9.1: the first Handshake packet ends the Initial level.
                self.discard_space(Level::Initial);
            }
            if !another {
                break;
            }
        }
        if out.is_empty() {
            return None;
        }
        if ack_eliciting {
            self.on_handshake_probe_sent();
        }
        self.note_flight(now, fresh, out.len() as u64);
        self.transmit(now, PathId::ZERO, out, None)
    }

    fn handshake_pending(&self, level: Level, free: bool) -> bool {
        let Some(space) = self.handshake.space(level) else { return false };
        let waits = free && self.handshake.crypto(level).has_pending();
        waits || space.probe_due || space.space.received().owes_ack()
    }

    /// Whether CRYPTO data of the handshake may leave: within the window, as a probe, or if there
    /// is nothing whose ACK or loss would be noticed, since data of other levels may hold the
    /// window and wait for the handshake.
    fn may_send_flight(&self, path: &Path) -> bool {
        path.has_spare_datagram()
            || self.handshake.probes > 0
            || !self.handshake.spaces().any(|s| s.space.has_ack_eliciting_in_flight())
    }

    // ---- 3: what must leave on a certain path, in path_bound.rs

    // ---- 4 and 5: data on the scheduler's path, else recovery on the policy's

    fn transmit_batch(&mut self, now: Instant, max_datagrams: usize, out: &mut Vec<u8>) -> Option<Transmit> {
        for path in self.paths.values_mut() {
            path.forget_pacer();
        }
        self.begin_batch();
        let mut batch: Option<(PathId, usize)> = None;
        for _ in 0..max_datagrams {
            let before = out.len();
            let Some(id) = self.build_next(now, batch.map(|(id, _)| id), out) else { break };
            let size = out.len() - before;
            let segment = batch.get_or_insert((id, size)).1;
            // Only full datagrams can be followed by others.
            let mtu = self.paths.get(&id).map_or(0, |p| p.datagram_size());
            let full = size == mtu - self.repair.headroom() && segment == size;
            if !full || out.len() + size > LARGEST_BATCH {
                break;
            }
        }
        let (id, segment) = batch?;
        self.transmit(now, id, out, (out.len() > segment).then_some(segment))
    }

    /// Appends one packet with data or for recovery; to a batch, only what goes over its path and is
    /// no longer than what it began with.
    fn build_next(&mut self, now: Instant, batch: Option<PathId>, out: &mut Vec<u8>) -> Option<PathId> {
        if batch.is_some() && !self.has_pending() && !self.recovery_follows() {
            return None;
        }
        let mut next = self.next_packet(now);
        // A batch is of data alone.
        if batch.is_some() && matches!(next, Next::Copy { .. } | Next::Combination { .. }) {
            return None;
        }
        if let Next::Copy { packet, of, on } = next {
            if self.send_copy_ahead(now, packet, of, on, out) {
                return Some(on);
            }
            next = self.next_packet(now);
        }
        if let Next::Combination { block, index } = next {
            return self.build_combination(now, block, index, out);
        }
        if !self.has_pending() {
            return self
                .build_in_time(now, out)
                .or_else(|| self.build_recovery(now, out))
                .or_else(|| self.build_reinjection(now, out));
        }
        let queued =
            self.streams.sendable_bytes() + self.datagrams.pending_bytes() + self.control.len() as u64 * 32;
        let id = match batch {
            None => self.choose_path(now, queued, 0)?,
            Some(id) if self.batch_goes_on(now, id, queued) => id,
            Some(_) => return None,
        };
        if let Next::Source(place) = next
            && !self.may_join(now, place.block, id)
        {
            // The block is closed now: the next packet is of another.
            return self.build_next(now, batch, out);
        }
        let control = self.control.len();
        let built = self.build_data(now, id, next, out);
        let is_open = !self.state.is_closed();
        if built.is_none() && is_open && (self.control.len() < control || !self.has_pending()) {
            // Nothing of it mattered any more, or fits: then the combination, recovery, or what may not leave
            // over this path.
            return self.build_next(now, batch, out);
        }
        built.map(|_| id)
    }

    /// Whether packets for recovery may follow others in a batch: there is but one path for them, and
    /// none is longer than a full packet with data.
    fn recovery_follows(&self) -> bool {
        self.paths.values().len() == 1 && self.repair.headroom() == 0
    }

    /// The scheduler's choice among the paths that carry packets of `size` bytes. If it is none,
    /// the paths' deadlines say when to ask again.
    pub(super) fn choose_path(&mut self, now: Instant, queued: u64, size: usize) -> Option<PathId> {
        let mut snapshots = core::mem::take(&mut self.scratch.snapshots);
        self.take_snapshots(now, View::Scheduling, &mut snapshots);
        snapshots.retain(|s| s.mtu >= size as u64);
        self.leave_out_unsteady(size, &mut snapshots);
        if size == 0 && self.leaves_apart(&snapshots) {
            snapshots.retain(|s| Some(s.id) != self.datagrams.avoided_path());
        }
        let chosen = self.scheduler.select(now, &snapshots, queued);
        if chosen.is_none() {
            for held in snapshots.iter().filter(|s| s.has_window() && !s.pacing_wait.is_zero()) {
                self.wait_for_pacer(now, held.id, held.pacing_wait);
            }
            // Should the ACK that a path waits for not come in time, the scheduler must be asked
            // again.
            for full in snapshots.iter().filter(|s| s.usable && !s.has_window() && s.in_flight > 0) {
                self.wait_for_pacer(
                    now,
                    full.id,
                    full.next_ack + full.rtt_variance.max(GRANULARITY) + GRANULARITY,
                );
            }
        }
        self.scratch.snapshots = snapshots;
        chosen
    }

    /// Whether a datagram waits that is to take another path than the one before it, and has one
    /// over which it comes early enough to be of use.
    fn leaves_apart(&self, paths: &[PathSnapshot]) -> bool {
        let Some(avoided) = self.datagrams.avoided_path() else { return false };
        let rtt = paths.iter().find(|s| s.id == avoided).map_or(Duration::MAX, |s| s.rtt);
        let serves = |s: &PathSnapshot| s.usable && s.has_window() && s.rtt / 2 <= rtt;
        paths.iter().any(|s| s.id != avoided && serves(s))
    }

    /// Tells datagrams which paths those that are `steady` leave out, and takes these away if such
    /// a one is next, and nothing else waits.
    fn leave_out_unsteady(&mut self, size: usize, paths: &mut Vec<PathSnapshot>) {
        let left_out = paths.iter().filter(|path| is_left_out(path, paths));
        self.datagrams.leave_out(left_out.map(|path| path.id));
        if size == 0 && !self.has_more_than_datagrams() {
            paths.retain(|s| !self.datagrams.leaves_out(s.id));
        }
    }

    /// Whether the scheduler has the next packet follow those of the batch that has begun on a path.
    /// Of what it saw then, that path alone has changed.
    fn batch_goes_on(&mut self, now: Instant, id: PathId, queued: u64) -> bool {
        let mut snapshots = core::mem::take(&mut self.scratch.snapshots);
        let seen = snapshots.iter_mut().find(|s| s.id == id);
        if let (Some(seen), usable, delay) = (seen, self.usable(), self.peer_max_ack_delay())
            && let Some(path) = self.paths.get_mut(&id)
        {
            *seen = path.snapshot(now, View::Scheduling, delay, usable(path));
        } else {
            self.take_snapshots(now, View::Scheduling, &mut snapshots);
        }
        let is_avoided = self.datagrams.avoided_path() == Some(id) && self.leaves_apart(&snapshots);
        let is_left_out = self.datagrams.leaves_out(id) && !self.has_more_than_datagrams();
        let goes_on = !is_avoided && !is_left_out && self.scheduler.stays(now, id, &snapshots, queued);
        self.scratch.snapshots = snapshots;
        goes_on
    }

    fn build_data(&mut self, now: Instant, id: PathId, next: Next, out: &mut Vec<u8>) -> Option<Built> {
        let mut builder = self.begin_full(id, out)?;
        builder.limit -= self.repair.headroom();
        self.write_ack(now, id, &mut builder, out);
        if next == Next::Control {
            self.write_control(&mut builder, out);
            let before = out.len();
            self.streams.write_control(out, builder.limit, &mut builder.frames.streams);
            builder.ack_eliciting |= out.len() > before;
        } else {
            self.write_all(&mut builder, out);
            if builder.frames.datagram && builder.limit.saturating_sub(out.len()) < NEARLY_FULL {
                out.resize(out.len().max(builder.limit), 0);
            }
        }
        let carries_data = builder.frames.carries_data();
        let (marks, fresh) = (builder.frames.marks(), builder.frames.streams.fresh);
        let place = self.place_of(next, id, &builder.frames);
        let built = self.finish_packet(now, builder, PacketPurpose::Data, out)?;
        let source = place.and_then(|place| self.on_source_built(id, built.number, place));
        if carries_data {
            let Built { number, size } = built;
            let rtt = self.paths.get(&id)?.expected_rtt(now);
            let (number, bytes) = (PacketNumber(number), size as u64);
            self.tell_policy(now, &SentData { path: id, number, bytes, marks, fresh, source, rtt });
        }
        Some(built)
    }

    /// Frames that wait: control, CRYPTO, flow control, datagrams, stream data.
    pub(super) fn write_all(&mut self, builder: &mut super::packet::PacketBuilder, out: &mut Vec<u8>) {
        self.write_control(builder, out);
        self.write_crypto(builder, out);
        self.write_streams_and_datagrams(builder, out);
    }

    pub(super) fn write_streams_and_datagrams(
        &mut self,
        builder: &mut super::packet::PacketBuilder,
        out: &mut Vec<u8>,
    ) {
        let (limit, before) = (builder.limit, out.len());
        self.streams.write_control(out, limit, &mut builder.frames.streams);
        let before_data = out.len();
        // What does not fit a probe, which may be small, may well fit the path.
        let full = self.paths.get(&builder.path).map_or(0, Path::datagram_size);
        let drops = builder.is_empty(out) && builder.room() + self.repair.headroom() >= full;
        let written = self.datagrams.write(builder.path, out, limit, drops, &mut builder.timed);
        // What is followed until its deadline is not protected twice.
        let followed = !builder.timed.is_empty() && self.repair.follows_datagrams();
        builder.frames.timed |= !builder.timed.is_empty();
        builder.frames.datagram |= written.any && (written.untimed || !followed);
        self.streams.write_data(out, limit, &mut builder.frames.streams);
        builder.data_end = out.len();
        if out.len() > before_data {
            self.end_bulk_run();
        }
        builder.ack_eliciting |= out.len() > before;
    }

    pub(super) fn has_pending(&self) -> bool {
        self.datagrams.has_pending() || self.has_more_than_datagrams()
    }

    fn has_more_than_datagrams(&self) -> bool {
        !self.control.is_empty()
            || self.streams.has_pending()
            || self.handshake.crypto(Level::OneRtt).has_pending()
    }

    pub(super) fn has_window(&self, id: PathId) -> bool {
        self.paths.get(&id).is_some_and(|p| p.is_open() && p.has_spare_datagram())
    }

    // ---- ACKs that found no company

    fn transmit_acks(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        let due = |p: &&Path| {
            !p.is_closing() && p.may_ack() && p.received().ack_deadline().is_some_and(|t| t <= now)
        };
        let path = self.paths.values().find(due)?;
        let (id, budget) =
            (path.id(), usize::try_from(path.budget_beside_challenges()).unwrap_or(usize::MAX));
        let mut builder = self.begin_one_rtt(id, MIN_INITIAL_SIZE.min(budget), out)?;
        self.write_ack(now, id, &mut builder, out);
        self.ask_for_ack(now, id, &mut builder, out);
        self.finish_packet(now, builder, PacketPurpose::Probe, out)?;
        self.transmit(now, id, out, None)
    }

    // ---- what policies see

    /// Fills `snapshots` with every path that carries data or has carried it. What is protectable
    /// is only looked up for recovery.
    pub(super) fn take_snapshots(&mut self, now: Instant, view: View, snapshots: &mut Vec<PathSnapshot>) {
        snapshots.clear();
        let usable = self.usable();
        let max_ack_delay = self.peer_max_ack_delay();
        for path in self.paths.values_mut().filter(|p| p.is_open()) {
            let takes_data = usable(path);
            snapshots.push(path.snapshot(now, view, max_ack_delay, takes_data));
        }
    }

    pub(super) fn wait_for_pacer(&mut self, now: Instant, id: PathId, wait: Duration) {
        if let Some(path) = self.paths.get_mut(&id) {
            path.wait_for_pacer(now + wait);
        }
    }

    /// Nothing more leaves now: was it for want of data or of window? (RFC 9002 section 7.8;
    /// waiting for the pacer is neither.)
    fn note_limits(&mut self) {
        for path in self.paths.values_mut() {
            path.note_limits();
        }
    }
}
