//! Frames about streams that leave.

use super::Streams;
use super::queue::Class;
use super::send::{Reset, Wrote};
use super::sent::{SentStreamFrames, StreamControl, StreamRange};
use crate::wire::{self, Dir, StreamId};

/// A control frame that waits to be sent. Its values are looked up when it is written, so they are
/// never stale. The order is the order of sending: first what ends things, then what lets the peer
/// go on, then what only informs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum ControlKey {
    ResetStream(StreamId),
    StopSending(StreamId),
    MaxData,
    MaxStreamData(StreamId),
    MaxStreams(Dir),
    DataBlocked,
    StreamDataBlocked(StreamId),
    StreamsBlocked(Dir),
}

/// How much of what a packet carried was written again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Again {
    /// Nothing was left to write, or not even the first frame fitted.
    Nothing,
    /// There was no room for all that is not acknowledged.
    Part,
    /// All that is not acknowledged.
    All,
}

impl Streams {
    /// Bytes of stream data that could be sent now: lost ones, and new ones. Flow control never
    /// stands in the way of these, since only what it allows is taken over from the application. A
    /// lone FIN and control frames do not count.
    pub fn sendable_bytes(&self) -> u64 {
        self.totals.lost + self.totals.unsent
    }

    /// Bytes of stream data that have left, ever, each counted once: of what was written, credit was taken for
    /// all but what a reset has kept back.
    pub(crate) fn first_sent_bytes(&self) -> u64 {
        self.credit.used() - self.totals.unsent
    }

    /// Bytes that were taken from the application and have not been acknowledged.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.totals.held
    }

    /// Bytes among [`sendable_bytes`](Self::sendable_bytes) that were lost before.
    #[cfg(test)]
    pub fn lost_bytes(&self) -> u64 {
        self.totals.lost
    }

    /// Whether any frame is waiting.
    pub fn has_pending(&self) -> bool {
        self.has_control() || self.has_data()
    }

    /// Whether [`write_control`](Self::write_control) has something to write.
    pub fn has_control(&self) -> bool {
        !self.control.is_empty()
    }

    /// Whether [`write_data`](Self::write_data) has something to write: bytes or the end of a
    /// stream.
    pub fn has_data(&self) -> bool {
        self.sendable_bytes() > 0 || self.totals.fins > 0
    }

    /// Appends the waiting control frames to `out`, as many as fit while `out.len() <= limit`, and
    /// notes them in `sent`.
    pub fn write_control(&mut self, out: &mut Vec<u8>, limit: usize, sent: &mut SentStreamFrames) {
        while let Some(&key) = self.control.first() {
            let start = out.len();
            let Some(frame) = self.encode_control(key, out) else {
                self.control.pop_first();
                continue;
            };
            if out.len() > limit {
                out.truncate(start);
                return;
            }
            self.note_advertised(frame);
            self.control.pop_first();
            sent.control.push(frame);
        }
    }

    /// Encodes a control frame with its current values; `None` if there is no use for it any more.
    fn encode_control(&mut self, key: ControlKey, out: &mut Vec<u8>) -> Option<StreamControl> {
        Some(match key {
            ControlKey::ResetStream(id) => {
                let reset = self.send.get(&id)?.reset().filter(|reset| !reset.acked)?;
                let Reset { code: error_code, final_size, reliable_size, .. } = reset;
                if reliable_size > 0 && self.peer_takes_reset_at {
                    wire::ResetStreamAt { id, error_code, final_size, reliable_size }.encode(out);
                } else {
                    wire::ResetStream { id, error_code, final_size }.encode(out);
                }
                StreamControl::ResetStream { id, reliable_size }
            }
            ControlKey::StopSending(id) => {
                let half = self.recv.get(&id).filter(|half| half.wants_stop())?;
                wire::StopSending { id, error_code: half.stopped? }.encode(out);
                StreamControl::StopSending(id)
            }
            ControlKey::MaxData => encode_credit(StreamControl::MaxData(self.window.target()), out)?,
            ControlKey::MaxStreamData(id) => {
                self.tune(id);
                let limit = self.recv.get(&id).filter(|half| half.wants_more())?.window.target();
                encode_credit(StreamControl::MaxStreamData { id, limit }, out)?
            }
            ControlKey::MaxStreams(dir) => {
                let limit = self.remote[dir as usize].window.target();
                encode_credit(StreamControl::MaxStreams { dir, limit }, out)?
            }
            ControlKey::DataBlocked => {
                let limit = self.credit.limit();
                wire::DataBlocked { limit }.encode(out);
                StreamControl::DataBlocked(limit)
            }
            ControlKey::StreamDataBlocked(id) => {
                let limit = self.send.get(&id)?.credit.limit();
                wire::StreamDataBlocked { id, limit }.encode(out);
                StreamControl::StreamDataBlocked { id, limit }
            }
            ControlKey::StreamsBlocked(dir) => {
                let limit = self.local[dir as usize].credit.limit();
                wire::StreamsBlocked { dir, limit }.encode(out);
                StreamControl::StreamsBlocked { dir, limit }
            }
        })
    }

    /// Remembers the limits that a written frame announces.
    fn note_advertised(&mut self, frame: StreamControl) {
        match frame {
            StreamControl::MaxData(_) => self.window.advertise(),
            StreamControl::MaxStreams { dir, .. } => self.remote[dir as usize].window.advertise(),
            StreamControl::MaxStreamData { id, .. } => {
                if let Some(half) = self.recv.get_mut(&id) {
                    half.window.advertise();
                }
            }
            _ => {}
        }
    }

    /// Appends stream data to `out`, as much as fits while `out.len() <= limit`, and notes it in
    /// `sent`, in the order of [`SendQueue`](super::queue::SendQueue). Every frame carries its
    /// length.
    pub fn write_data(&mut self, out: &mut Vec<u8>, limit: usize, sent: &mut SentStreamFrames) {
        while let Some(turn) = self.queue.pop() {
            let already = sent.ranges.len();
            let (mut wrote, mut back) = (Wrote::Everything, None);
            let before = out.len();
            self.with_send(turn.id, |half| {
                if !half.begin_turn(turn.class) {
                    back = Some((half.priority, turn.class, false));
                    return;
                }
                wrote = match turn.class {
                    Class::Lost => half.write_lost(out, limit, sent),
                    Class::First | Class::Bulk => half.write_new(out, limit, sent),
                };
                let began = wrote == Wrote::Everything || sent.ranges.len() > already;
                let bytes = sent.ranges[already..].iter().map(|range| i64::from(range.len)).sum();
                back = half.end_turn(turn.class, began, bytes);
            });
            match back {
                Some((priority, class, true)) => self.queue.push_front(priority, class, turn.id),
                Some((priority, class, false)) => self.queue.push_back(priority, class, turn.id),
                None => {}
            }
            self.queue.charge(turn, (out.len() - before) as u64);
            if wrote == Wrote::NoRoom {
                return;
            }
        }
    }

    /// Whether the bytes of `range` are still held: neither has everything up to one of them been
    /// acknowledged, nor has the stream been reset.
    pub fn holds(&self, range: StreamRange) -> bool {
        self.send.get(&range.id).is_some_and(|half| half.holds(range))
    }

    /// Appends the bytes of `range`, which are held.
    pub fn copy_held(&self, range: StreamRange, out: &mut Vec<u8>) {
        if let Some(half) = self.send.get(&range.id) {
            half.copy_held(range, out);
        }
    }

    /// Reinjection: appends what `ranges` carried once more, minus what has been acknowledged
    /// since, as much as fits while `out.len() <= limit`.
    ///
    /// The new packet answers for those bytes that were waiting as lost, and for no others.
    pub fn write_ranges(
        &mut self,
        ranges: &[StreamRange],
        out: &mut Vec<u8>,
        limit: usize,
        sent: &mut SentStreamFrames,
    ) -> Again {
        let start = out.len();
        let mut again = Again::All;
        for &range in ranges {
            let wrote = self.with_send(range.id, |half| half.write_again(range, out, limit, sent));
            if wrote == Some(Wrote::NoRoom) {
                again = Again::Part;
                break;
            }
        }
        if out.len() > start { again } else { Again::Nothing }
    }

    /// Reinjection: appends the credit that `control` announced once more, as far as the peer may lack it and as
    /// much as fits while `out.len() <= limit`. What answers a request may be as long as it allows, and no longer.
    pub fn write_credit_again(
        &mut self,
        control: &[StreamControl],
        out: &mut Vec<u8>,
        limit: usize,
        sent: &mut SentStreamFrames,
    ) {
        for &frame in control.iter().filter(|frame| self.is_relevant(**frame)) {
            let start = out.len();
            let Some(frame) = encode_credit(frame, out) else { continue };
            if out.len() > limit {
                out.truncate(start);
                return;
            }
            sent.control.push(frame);
        }
    }
}

/// Encodes a frame that gives credit; `None`, and nothing is written, if it is another one.
fn encode_credit(frame: StreamControl, out: &mut Vec<u8>) -> Option<StreamControl> {
    match frame {
        StreamControl::MaxData(maximum) => wire::MaxData { maximum }.encode(out),
        StreamControl::MaxStreamData { id, limit: maximum } => {
            wire::MaxStreamData { id, maximum }.encode(out)
        }
        StreamControl::MaxStreams { dir, limit: maximum } => wire::MaxStreams { dir, maximum }.encode(out),
        _ => return None,
    }
    Some(frame)
}
