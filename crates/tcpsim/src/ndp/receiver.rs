//! NDP's receiving end of one connection.

use crate::ranges::Ranges;

/// What a packet brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrived {
    /// Data.
    Data,
    /// A header whose data is missing.
    HeaderOnly,
    /// Nothing that had not arrived before.
    Before,
}

#[derive(Default, Debug)]
pub(super) struct Receiver {
    delivered: u32,
    ahead: Ranges,
    /// After the packet that said it was the last, if it or its header has arrived and nothing of
    /// what is behind it.
    end: Option<u32>,
    /// PULLs sent or waiting.
    pulled: u32,
}

impl Receiver {
    /// Packets without a hole.
    pub(super) fn delivered(&self) -> u32 {
        self.delivered
    }

    /// Whether everything is here that is known to come.
    pub(super) fn is_complete(&self) -> bool {
        self.end.is_some_and(|end| self.delivered >= end)
    }

    fn has(&self, seq: u32) -> bool {
        seq < self.delivered || self.ahead.around(seq).is_some()
    }

    fn note_end(&mut self, seq: u32, last: bool) {
        if last {
            self.end = self.end.max(Some(seq.saturating_add(1)));
        } else if self.end.is_some_and(|end| seq >= end) {
            self.end = None; // more was written
        }
    }

    /// A whole packet, `last` if it says so.
    pub(super) fn on_packet(&mut self, seq: u32, last: bool) -> Arrived {
        self.note_end(seq, last);
        if self.has(seq) {
            return Arrived::Before;
        }
        self.ahead.insert(seq, seq.saturating_add(1), |_, _| {});
        while let Some(end) = self.ahead.take_first_at(self.delivered) {
            self.delivered = end;
        }
        Arrived::Data
    }

    /// A header without its data.
    pub(super) fn on_header(&mut self, seq: u32, last: bool) -> Arrived {
        self.note_end(seq, last);
        if self.has(seq) { Arrived::Before } else { Arrived::HeaderOnly }
    }

    /// PULLs so far.
    pub(super) fn pulled(&self) -> u32 {
        self.pulled
    }

    /// One more waits.
    pub(super) fn pull(&mut self) {
        self.pulled = self.pulled.wrapping_add(1);
    }

    /// So many that waited will not be sent.
    pub(super) fn unpull(&mut self, dropped: u32) {
        self.pulled = self.pulled.wrapping_sub(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_complete_when_all_up_to_the_last_is_here() {
        let mut receiver = Receiver::default();
        assert_eq!(receiver.on_packet(0, false), Arrived::Data);
        assert_eq!(receiver.on_header(2, true), Arrived::HeaderOnly);
        assert_eq!(receiver.on_header(1, false), Arrived::HeaderOnly);
        assert_eq!(receiver.on_packet(2, true), Arrived::Data);
        assert_eq!((receiver.delivered(), receiver.is_complete()), (1, false));
        assert_eq!(receiver.on_packet(1, false), Arrived::Data);
        assert_eq!((receiver.delivered(), receiver.is_complete()), (3, true));
        assert_eq!([receiver.on_packet(1, false), receiver.on_header(2, true)], [Arrived::Before; 2]);
        // More was written, and its last packet is not the first to come.
        assert_eq!(receiver.on_header(3, false), Arrived::HeaderOnly);
        assert!(!receiver.is_complete());
        assert_eq!(receiver.on_packet(4, true), Arrived::Data);
        assert!(!receiver.is_complete());
        assert_eq!(receiver.on_packet(3, false), Arrived::Data);
        assert!(receiver.is_complete());
    }
}
