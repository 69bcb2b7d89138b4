//! What became of the packets that carried frames about streams.

use super::outgoing::ControlKey;
use super::sent::{SentStreamFrames, StreamControl};
use super::{StreamEvent, Streams};

impl Streams {
    /// The packet with `sent` arrived, or its content did by other means (a repaired packet).
    /// Idempotent; the same bytes may be acknowledged through any number of packets, also after
    /// [`on_lost`](Self::on_lost).
    pub fn on_acked(&mut self, sent: &SentStreamFrames) {
        for &range in &sent.ranges {
            let news = self.with_send(range.id, |half| {
                let before = half.is_delivered();
                half.on_acked(range);
                (!before && half.is_delivered(), half.release_reset())
            });
            match news {
                Some((true, _)) => self.events.push(StreamEvent::Finished(range.id)),
                Some((_, true)) => _ = self.control.insert(ControlKey::ResetStream(range.id)),
                _ => {}
            }
        }
        for &frame in &sent.control {
            self.on_control_acked(frame);
        }
        if !self.writers.is_empty() {
            self.wake_acknowledged(sent);
        }
    }

    fn on_control_acked(&mut self, frame: StreamControl) {
        match frame {
            StreamControl::MaxData(limit) => self.window.on_acked(limit),
            StreamControl::MaxStreams { dir, limit } => self.remote[dir as usize].window.on_acked(limit),
            StreamControl::MaxStreamData { id, limit } => {
                if let Some(half) = self.recv.get_mut(&id) {
                    half.window.on_acked(limit);
                }
            }
            StreamControl::ResetStream { id, reliable_size } => {
                if self.with_send(id, |half| half.on_reset_acked(reliable_size)) == Some(true) {
                    self.control.remove(&ControlKey::ResetStream(id));
                }
            }
            StreamControl::StopSending(id) => {
                self.control.remove(&ControlKey::StopSending(id));
                if let Some(half) = self.recv.get_mut(&id) {
                    half.stop_acked = true;
                }
            }
            StreamControl::DataBlocked(_)
            | StreamControl::StreamDataBlocked { .. }
            | StreamControl::StreamsBlocked { .. } => {}
        }
    }

    /// The packet with `sent` is lost, or is given up on (the first PTO of its path, an abandoned
    /// path): what it answers for and the peer has not acknowledged becomes pending again. Calling
    /// it again for the same record does nothing; a late acknowledgement of it still counts.
    pub fn on_lost(&mut self, sent: &mut SentStreamFrames) {
        if std::mem::replace(&mut sent.requeued, true) {
            return;
        }
        for &range in &sent.ranges {
            let requeued = self.with_send(range.id, |half| half.on_lost(range));
            self.requeued += requeued.unwrap_or(0);
        }
        for &frame in &sent.control {
            if self.is_relevant(frame) {
                self.control.insert(key_of(frame));
            }
        }
    }

    /// Whether the peer may lack something of `sent` that it still needs: bytes or an end of a
    /// stream that is not acknowledged, or a control frame that no newer one has replaced.
    #[cfg(test)]
    pub fn unacked_remaining(&self, sent: &SentStreamFrames) -> bool {
        self.unacked_data(sent) || sent.control.iter().any(|&frame| self.is_relevant(frame))
    }

    /// Whether the peer may lack stream data of `sent`: whether
    /// [`write_ranges`](Self::write_ranges) would write any.
    pub fn unacked_data(&self, sent: &SentStreamFrames) -> bool {
        sent.ranges.iter().any(|&range| self.send.get(&range.id).is_some_and(|half| half.is_unacked(range)))
    }

    /// Whether losing `frame` leaves the peer without something that it should know.
    pub(super) fn is_relevant(&self, frame: StreamControl) -> bool {
        match frame {
            StreamControl::MaxData(limit) => self.window.matters(limit),
            StreamControl::MaxStreams { dir, limit } => self.remote[dir as usize].window.matters(limit),
            StreamControl::MaxStreamData { id, limit } => {
                self.recv.get(&id).is_some_and(|half| half.wants_more() && half.window.matters(limit))
            }
            StreamControl::ResetStream { id, reliable_size } => self
                .send
                .get(&id)
                .and_then(|half| half.reset())
                .is_some_and(|reset| !reset.acked && reset.reliable_size == reliable_size),
            StreamControl::StopSending(id) => self.recv.get(&id).is_some_and(|half| half.wants_stop()),
            StreamControl::DataBlocked(limit) => self.credit.is_blocked_at(limit),
            StreamControl::StreamDataBlocked { id, limit } => {
                self.send.get(&id).is_some_and(|half| half.is_open() && half.credit.is_blocked_at(limit))
            }
            StreamControl::StreamsBlocked { dir, limit } => {
                self.local[dir as usize].credit.is_blocked_at(limit)
            }
        }
    }
}

const fn key_of(frame: StreamControl) -> ControlKey {
    match frame {
        StreamControl::MaxData(_) => ControlKey::MaxData,
        StreamControl::MaxStreamData { id, .. } => ControlKey::MaxStreamData(id),
        StreamControl::MaxStreams { dir, .. } => ControlKey::MaxStreams(dir),
        StreamControl::ResetStream { id, .. } => ControlKey::ResetStream(id),
        StreamControl::StopSending(id) => ControlKey::StopSending(id),
        StreamControl::DataBlocked(_) => ControlKey::DataBlocked,
        StreamControl::StreamDataBlocked { id, .. } => ControlKey::StreamDataBlocked(id),
        StreamControl::StreamsBlocked { dir, .. } => ControlKey::StreamsBlocked(dir),
    }
}
