//! [`SendHalf`]: what we send on one stream (RFC 9000 section 3.1).
//!
//! Every byte between `base` (first unacknowledged) and `next` (first never sent) is in exactly one
//! place: in `acked`, in `lost` (waiting to be sent again), or under way in one packet that answers
//! for it.

use std::ops::Range;

use smallvec::SmallVec;

use super::flow::Credit;
use super::queue::{Class, FIRST_BYTES, QUANTUM};
use super::send_buffer::SendBuffer;
use super::sent::{SentStreamFrames, StreamRange};
use crate::range_set::RangeSet;
use crate::wire::{StreamHeader, StreamId, VarInt};

/// Whether the end of the stream is known, sent and acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fin {
    /// The application may still write.
    Open,
    /// To be sent for the first time, after the last byte.
    Unsent,
    /// Under way.
    Sent,
    /// To be sent again.
    Lost,
    /// The peer knows it.
    Acked,
}

/// A reset that has been decided on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reset {
    /// Application error code.
    pub(super) code: VarInt,
    /// Bytes of the stream that count for flow control.
    pub(super) final_size: u64,
    /// Bytes that are delivered nevertheless, all that the buffer ever holds from now on.
    pub(super) reliable_size: u64,
    /// Whether it is told only once these are delivered, since the peer knows RESET_STREAM alone.
    withheld: bool,
    /// Whether the peer knows it.
    pub(super) acked: bool,
}

/// What a send half contributes to the connection's totals.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct SendTally {
    /// Bytes to be sent again.
    pub(super) lost: u64,
    /// Bytes never sent.
    pub(super) unsent: u64,
    /// Bytes in the buffer.
    pub(super) held: u64,
    /// 1 if the end of the stream is to be sent (again).
    pub(super) fins: u64,
}

impl SendTally {
    /// Adds `after` and takes away `before`, which has been added earlier.
    pub(super) fn replace(&mut self, before: Self, after: Self) {
        self.lost = self.lost + after.lost - before.lost;
        self.unsent = self.unsent + after.unsent - before.unsent;
        self.held = self.held + after.held - before.held;
        self.fins = self.fins + after.fins - before.fins;
    }
}

/// Whether writing frames should go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wrote {
    /// Nothing (more) is owed.
    Everything,
    /// The packet is full.
    NoRoom,
}

/// A frame with fewer bytes than this is only made if all that is left fits, or nothing else is in
/// the packet.
const MIN_FRAGMENT: u32 = 32;

/// The sending half of a stream.
#[derive(Debug)]
pub(super) struct SendHalf {
    id: StreamId,
    buffer: SendBuffer,
    /// Acknowledged beyond the buffer's base.
    acked: RangeSet,
    lost: RangeSet,
    /// First offset never sent.
    next: u64,
    fin: Fin,
    reset: Option<Reset>,
    /// Bytes that are delivered even if the stream is reset.
    pub(super) boundary: u64,
    /// The code of a STOP_SENDING that arrived.
    pub(super) stopped: Option<VarInt>,
    /// Stream-level credit; `used` is what the application has written.
    pub(super) credit: Credit,
    /// Whether the application has ended the stream or knows that the peer did.
    pub(super) app_done: bool,
    /// Whether a blocked write waits for credit of the stream.
    pub(super) wants_credit: bool,
    /// Its number among those whose writes wait for the connection.
    pub(super) writer: Option<u64>,
    pub(super) priority: i32,
    /// Whether the stream is in the queue for lost data.
    pub(super) queued_lost: bool,
    /// In which list of the queue the stream is for new data.
    pub(super) queued_new: Option<Class>,
    /// Bytes that it may send before it is the turn of another.
    turn_left: i64,
}

impl SendHalf {
    pub(super) fn new(id: StreamId, limit: u64) -> Self {
        let mut credit = Credit::default();
        credit.raise(limit);
        Self {
            id,
            buffer: SendBuffer::default(),
            acked: RangeSet::new(),
            lost: RangeSet::new(),
            next: 0,
            fin: Fin::Open,
            reset: None,
            boundary: 0,
            stopped: None,
            credit,
            app_done: false,
            wants_credit: false,
            writer: None,
            priority: 0,
            queued_lost: false,
            queued_new: None,
            turn_left: 0,
        }
    }

    pub(super) fn tally(&self) -> SendTally {
        SendTally {
            lost: self.lost.covered(),
            unsent: self.unsent(),
            held: self.buffer.len(),
            fins: u64::from(self.owes_fin()),
        }
    }

    /// Bytes in the buffer.
    pub(super) fn held(&self) -> u64 {
        self.buffer.len()
    }

    /// Bytes written by the application and never sent.
    pub(super) fn unsent(&self) -> u64 {
        self.buffer.end() - self.next
    }

    /// Whether the end of the stream is to be sent, for the first time or again.
    fn owes_fin(&self) -> bool {
        matches!(self.fin, Fin::Unsent | Fin::Lost)
    }

    pub(super) fn has_lost(&self) -> bool {
        !self.lost.is_empty() || self.fin == Fin::Lost
    }

    pub(super) fn has_new(&self) -> bool {
        self.unsent() > 0 || self.fin == Fin::Unsent
    }

    /// Whether the application may write or finish.
    pub(super) fn is_open(&self) -> bool {
        self.fin == Fin::Open && self.reset.is_none()
    }

    /// What the application has written, ever.
    pub(super) fn written(&self) -> u64 {
        self.buffer.end()
    }

    pub(super) fn reset(&self) -> Option<Reset> {
        self.reset
    }

    /// Whether the peer has everything including the end.
    pub(super) fn is_delivered(&self) -> bool {
        self.fin == Fin::Acked && self.buffer.len() == 0
    }

    /// Whether nothing about this half is of use to anybody any more.
    pub(super) fn is_done(&self) -> bool {
        let is_reset = self.reset.is_some_and(|reset| reset.acked) && self.buffer.len() == 0;
        self.app_done && (self.is_delivered() || is_reset)
    }

    pub(super) fn push(&mut self, data: &[u8]) {
        self.credit.take(data.len() as u64);
        self.buffer.push(data);
    }

    pub(super) fn finish(&mut self) {
        debug_assert!(self.is_open());
        self.fin = Fin::Unsent;
    }

    /// Drops all data but the first `reliable_size` bytes, and ends the stream there or at what has been
    /// sent; returns the bytes that will never be sent. A peer that does not take RESET_STREAM_AT is told
    /// once it has those that are left.
    pub(super) fn start_reset(&mut self, code: VarInt, reliable_size: u64, takes_at: bool) -> u64 {
        let reliable_size = reliable_size.min(self.buffer.end());
        let final_size = self.next.max(reliable_size);
        let never_sent = self.buffer.end() - final_size;
        self.drop_from(reliable_size);
        self.fin = Fin::Open;
        let withheld = !takes_at && self.buffer.len() > 0;
        self.reset = Some(Reset { code, final_size, reliable_size, withheld, acked: false });
        never_sent
    }

    /// Delivers no more than `reliable_size` bytes before the reset; whether that drops any.
    pub(super) fn lower_reset(&mut self, reliable_size: u64) -> bool {
        let Some(mut reset) = self.reset.filter(|reset| reset.reliable_size > reliable_size) else {
            return false;
        };
        if self.buffer.len() == 0 {
            return false;
        }
        self.drop_from(reliable_size);
        reset.withheld &= self.buffer.len() > 0;
        self.reset = Some(Reset { reliable_size, acked: false, ..reset });
        true
    }

    /// Whether the time of a reset that was withheld has come.
    pub(super) fn release_reset(&mut self) -> bool {
        match &mut self.reset {
            Some(reset) if reset.withheld && self.buffer.len() == 0 => {
                reset.withheld = false;
                true
            }
            _ => false,
        }
    }

    /// Whether the peer is to be told of a reset now.
    pub(super) fn owes_reset(&self) -> bool {
        self.reset.is_some_and(|reset| !reset.withheld && !reset.acked)
    }

    /// Drops what was written from `offset` on.
    fn drop_from(&mut self, offset: u64) {
        let end = offset.max(self.buffer.base()).min(self.buffer.end());
        self.buffer.truncate(end);
        self.next = self.next.min(end);
        self.acked.remove(end..u64::MAX);
        self.lost.remove(end..u64::MAX);
    }

    /// Which lists of the queue the stream has to enter, by what changed.
    pub(super) fn enter_queue(&mut self) -> impl Iterator<Item = Class> + use<> {
        let lost = self.has_lost() && !self.queued_lost;
        self.queued_lost |= lost;
        let first = self.has_new() && self.queued_new.is_none();
        if first {
            self.queued_new = Some(Class::First);
            self.turn_left = FIRST_BYTES;
        }
        lost.then_some(Class::Lost).into_iter().chain(first.then_some(Class::First))
    }

    /// The lists of the queue that the stream is in.
    pub(super) fn queued(&self) -> impl Iterator<Item = Class> + use<> {
        self.queued_lost.then_some(Class::Lost).into_iter().chain(self.queued_new)
    }

    /// Whether a turn for new data may begin: not while the stream is in debt for earlier ones.
    pub(super) fn begin_turn(&mut self, class: Class) -> bool {
        if class == Class::Bulk && self.turn_left <= 0 && self.has_new() {
            self.turn_left += QUANTUM;
            return self.turn_left > 0;
        }
        true
    }

    /// After a turn in which so many bytes were sent: where in the queue the stream goes, and
    /// whether to the front; `None` if it leaves. `began` is false if not even the first frame had
    /// room.
    pub(super) fn end_turn(&mut self, class: Class, began: bool, bytes: i64) -> Option<(i32, Class, bool)> {
        if class == Class::Lost {
            self.queued_lost = self.has_lost();
            return self.queued_lost.then_some((self.priority, class, !began));
        }
        self.turn_left -= bytes;
        let (class, front) = match (self.has_new(), class) {
            (true, class) if !began || self.turn_left > 0 => (class, true),
            (true, _) => (Class::Bulk, false),
            // Whoever sends little by little begins anew only once all others have had a turn in
            // which it sent nothing.
            (false, _) if bytes > 0 || class == Class::First => {
                self.turn_left = 0;
                (Class::Bulk, false)
            }
            (false, _) => {
                self.queued_new = None;
                return None;
            }
        };
        self.queued_new = Some(class);
        Some((self.priority, class, front))
    }

    /// Writes STREAM frames for lost ranges, lowest offset first.
    pub(super) fn write_lost(
        &mut self,
        out: &mut Vec<u8>,
        limit: usize,
        sent: &mut SentStreamFrames,
    ) -> Wrote {
        while let Some(range) = self.lost.first() {
            let wanted = self.frame(range, self.owes_fin());
            let Some(frame) = self.encode(wanted, out, limit, sent) else { return Wrote::NoRoom };
            self.lost.remove(frame.offset..frame.end());
            self.note_fin_sent(frame);
        }
        if self.fin == Fin::Lost {
            let end = self.buffer.end();
            let wanted = self.frame(end..end, true);
            let Some(frame) = self.encode(wanted, out, limit, sent) else { return Wrote::NoRoom };
            self.note_fin_sent(frame);
        }
        Wrote::Everything
    }

    /// Writes STREAM frames for what was never sent.
    pub(super) fn write_new(
        &mut self,
        out: &mut Vec<u8>,
        limit: usize,
        sent: &mut SentStreamFrames,
    ) -> Wrote {
        while self.has_new() {
            let wanted = self.frame(self.next..self.buffer.end(), self.owes_fin());
            let Some(frame) = self.encode(wanted, out, limit, sent) else { return Wrote::NoRoom };
            self.next = frame.end();
            self.note_fin_sent(frame);
            sent.fresh = true;
            sent.ends_write |= frame.len > 0 && self.unsent() == 0;
            sent.ends_stream |= frame.fin;
        }
        Wrote::Everything
    }

    /// Writes again what `range` carried and the peer has not acknowledged since. What is queued as
    /// lost leaves the queue, since this packet now answers for it; the rest is marked as a copy.
    pub(super) fn write_again(
        &mut self,
        range: StreamRange,
        out: &mut Vec<u8>,
        limit: usize,
        sent: &mut SentStreamFrames,
    ) -> Wrote {
        let mut pieces: SmallVec<[(Range<u64>, bool); 4]> = SmallVec::new();
        for unacked in self.unacked_within(range) {
            pieces.extend(self.lost.present_within(unacked.clone()).map(|piece| (piece, false)));
            pieces.extend(self.lost.missing_within(unacked).map(|piece| (piece, true)));
        }
        if pieces.is_empty() && self.lacks_fin(range) {
            pieces.push((range.end()..range.end(), self.fin != Fin::Lost));
        }
        for (mut piece, copy) in pieces {
            loop {
                let wanted = StreamRange { copy, ..self.frame(piece.clone(), self.lacks_fin(range)) };
                let Some(frame) = self.encode(wanted, out, limit, sent) else { return Wrote::NoRoom };
                if !copy {
                    self.lost.remove(frame.offset..frame.end());
                    self.note_fin_sent(frame);
                }
                piece.start = frame.end();
                if piece.is_empty() {
                    break;
                }
            }
        }
        Wrote::Everything
    }

    /// Whether the bytes of `range` have not been given up.
    pub(super) fn holds(&self, range: StreamRange) -> bool {
        self.buffer.base() <= range.offset && range.end() <= self.buffer.end()
    }

    /// Appends the bytes of `range`, which are held.
    pub(super) fn copy_held(&self, range: StreamRange, out: &mut Vec<u8>) {
        self.buffer.copy_to(range.offset..range.end(), out);
    }

    /// The parts of `range` that are not acknowledged, of a reset stream only those that it still delivers.
    fn unacked_within(&self, range: StreamRange) -> impl Iterator<Item = Range<u64>> + '_ {
        let start = range.offset.max(self.buffer.base());
        self.acked.missing_within(start..range.end().min(self.buffer.end()).max(start))
    }

    /// Whether the peer may lack something of `range`.
    pub(super) fn is_unacked(&self, range: StreamRange) -> bool {
        self.unacked_within(range).next().is_some() || self.lacks_fin(range)
    }

    /// Whether the peer may lack the end of the stream, if that is in `range`.
    fn lacks_fin(&self, range: StreamRange) -> bool {
        range.fin && self.fin != Fin::Acked && self.reset.is_none()
    }

    /// A frame for as much of `range` as a frame can hold, with the end of the stream if `fin` and
    /// it reaches there. It is to answer for its bytes.
    fn frame(&self, range: Range<u64>, fin: bool) -> StreamRange {
        let len = (range.end - range.start).min(u64::from(u32::MAX >> 2)) as u32;
        let fin = fin && range.start + u64::from(len) == self.buffer.end();
        StreamRange { id: self.id, offset: range.start, len, fin, copy: false }
    }

    /// Encodes as much of `frame` as fits (RFC 9000 section 19.8, always with a length) and notes
    /// it in `sent`; `None` if too little fits.
    fn encode(
        &self,
        mut frame: StreamRange,
        out: &mut Vec<u8>,
        limit: usize,
        sent: &mut SentStreamFrames,
    ) -> Option<StreamRange> {
        let room = limit.checked_sub(out.len())?;
        let fits = StreamHeader::max_data(frame.id, frame.offset, room, true)?.min(frame.len as usize) as u32;
        if fits < frame.len {
            let too_little = if sent.ranges.is_empty() { 1 } else { MIN_FRAGMENT };
            if fits < too_little {
                return None;
            }
            frame.len = fits;
            frame.fin = false;
        }
        let StreamRange { id, offset, fin, .. } = frame;
        StreamHeader { id, offset, fin, data_len: Some(frame.len as usize) }.encode(out);
        self.buffer.copy_to(frame.offset..frame.end(), out);
        sent.ranges.push(frame);
        Some(frame)
    }

    fn note_fin_sent(&mut self, frame: StreamRange) {
        if frame.fin {
            self.fin = Fin::Sent;
        }
    }

    /// The peer has `range`, by whatever copy.
    pub(super) fn on_acked(&mut self, range: StreamRange) {
        if self.lacks_fin(range) {
            self.fin = Fin::Acked;
        }
        let start = range.offset.max(self.buffer.base());
        let end = range.end().min(self.buffer.end());
        self.acked.insert(start..end);
        self.lost.remove(start..end);
        if self.acked.min() == Some(self.buffer.base())
            && let Some(prefix) = self.acked.pop_first()
        {
            self.buffer.advance(prefix.end);
        }
    }

    /// The packet that answered for `range` is lost: what is not acknowledged must be sent again.
    /// Returns how much.
    pub(super) fn on_lost(&mut self, range: StreamRange) -> u64 {
        if range.copy {
            return 0;
        }
        if range.fin && self.fin == Fin::Sent {
            self.fin = Fin::Lost;
        }
        let before = self.lost.covered();
        let unacked: SmallVec<[Range<u64>; 4]> = self.unacked_within(range).collect();
        for piece in unacked {
            self.lost.insert(piece);
        }
        self.lost.covered() - before
    }

    /// The peer knows of the reset; whether in the way that it is told now.
    pub(super) fn on_reset_acked(&mut self, reliable_size: u64) -> bool {
        match &mut self.reset {
            Some(reset) if reset.reliable_size == reliable_size => {
                reset.acked = true;
                true
            }
            _ => false,
        }
    }
}
