//! The receiving end of a sub-flow: what has arrived, and when to acknowledge it.

use units::Instant;

use crate::{
    Tcp,
    ranges::Ranges,
    segment::{CWR, DSACK, ECE, Kind, REPAIRED, Segment},
};

/// What a data segment means for the acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// Acknowledge now.
    Now,
    /// An earlier deadline, or this one, acknowledges it.
    Wait,
}

/// What a data segment brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// The next one in order, with nothing missing behind it.
    InOrder,
    /// A new one beside a gap.
    OutOfOrder,
    /// Nothing: it was here before.
    Duplicate,
}

impl Arrival {
    /// Whether it was not here before.
    pub(crate) fn is_new(self) -> bool {
        self != Self::Duplicate
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver {
    /// Everything below has arrived.
    pub(crate) next: u32,
    /// What has arrived beyond.
    pub(crate) ahead: Ranges,
    /// Numbers in the blocks that were reported last, most recent first (RFC 2018 section 4).
    recent: [u32; 3],
    /// Segments since the last acknowledgement.
    owed: u8,
    /// Acknowledgements sent, as far as they matter.
    answered: u8,
    /// When an acknowledgement is due at the latest; [`Instant::MAX`] if none is owed.
    pub(crate) ack_at: Instant,
    /// RFC 3168: echo until CWR.
    echo: bool,
    /// RFC 8257 section 3.2: the last segment was marked.
    last_marked: bool,
    duplicate: bool,
    repaired: bool,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self { ack_at: Instant::MAX, ..Self::default() }
    }

    /// Whether segment `seq` is here.
    pub(crate) fn has(&self, seq: u32) -> bool {
        seq < self.next || self.ahead.around(seq).is_some()
    }

    /// Notes the arrival of `seq`.
    #[inline]
    pub(crate) fn arrive(&mut self, seq: u32) -> Arrival {
        if seq == self.next {
            self.next += 1;
            if self.ahead.is_empty() {
                return Arrival::InOrder;
            }
            while let Some(end) = self.ahead.take_first_at(self.next) {
                self.next = end;
            }
            return Arrival::OutOfOrder;
        }
        let mut fresh = false;
        if seq > self.next {
            self.ahead.insert(seq, seq + 1, |_, _| fresh = true);
            if self.recent[0] != seq
                && self.ahead.around(self.recent[0]).is_none_or(|r| !(r.0..r.1).contains(&seq))
            {
                self.recent = [seq, self.recent[0], self.recent[1]];
            } else {
                self.recent[0] = seq;
            }
        }
        if fresh { Arrival::OutOfOrder } else { Arrival::Duplicate }
    }

    /// A loss was repaired without the sender: the next acknowledgement says so.
    pub(crate) fn note_repair(&mut self) {
        self.repaired = true;
    }

    /// Whether to acknowledge at once (RFC 5681 section 4.2, RFC 8257 section 3.2).
    #[inline]
    pub(crate) fn reply(
        &mut self,
        tcp: &Tcp,
        now: Instant,
        arrival: Arrival,
        marked: bool,
        flags: u8,
    ) -> Reply {
        let change = tcp.ecn && marked != self.last_marked;
        self.last_marked = marked;
        if flags & CWR != 0 {
            self.echo = false;
        }
        self.echo |= marked;
        self.duplicate |= !arrival.is_new();
        self.owed = self.owed.saturating_add(1);
        let quick = self.answered < tcp.quick_acks;
        if arrival != Arrival::InOrder || change || self.repaired || quick || self.owed >= tcp.ack_every {
            return Reply::Now;
        }
        self.ack_at = self.ack_at.min(now + tcp.ack_delay);
        Reply::Wait
    }

    /// The acknowledgement of everything so far. `accurate` echoes the last segment's mark (DCTCP),
    /// otherwise the echo stays until the sender has reacted.
    #[inline]
    pub(crate) fn acknowledge(&mut self, accurate: bool) -> Segment {
        self.answered = self.answered.saturating_add(1);
        let mut ack = Segment { kind: Kind::Ack, seq: self.next, ..Segment::default() };
        if if accurate { self.last_marked } else { self.echo } {
            ack.flags |= ECE;
        }
        if self.duplicate {
            ack.flags |= DSACK;
        }
        if self.repaired {
            ack.flags |= REPAIRED;
        }
        if !self.ahead.is_empty() {
            self.report(&mut ack);
        }
        (self.owed, self.ack_at, self.duplicate, self.repaired) = (0, Instant::MAX, false, false);
        ack
    }

    /// The blocks reported most recently, then the highest others, three in all.
    fn report(&mut self, ack: &mut Segment) {
        let recent = self.recent.iter().filter_map(|seq| self.ahead.around(*seq));
        for block in recent.chain(self.ahead.iter().rev().take(4)) {
            ack.add_sack_block(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;

    fn arrive(receiver: &mut Receiver, tcp: &Tcp, seq: u32) -> Option<Segment> {
        let arrival = receiver.arrive(seq);
        let reply = receiver.reply(tcp, Instant::ORIGIN, arrival, false, 0);
        (reply == Reply::Now).then(|| receiver.acknowledge(false))
    }

    #[test]
    fn sack_blocks_are_the_most_recent_ones() {
        let (mut receiver, tcp) = (Receiver::new(), Tcp::default());
        for seq in [1, 3, 5, 7] {
            arrive(&mut receiver, &tcp, seq);
        }
        let ack = arrive(&mut receiver, &tcp, 8).unwrap();
        assert_eq!((ack.seq, ack.sacks), (0, 3));
        assert!(ack.sack_blocks().eq([(7, 9), (5, 6), (3, 4)]));
        assert!(arrive(&mut receiver, &tcp, 2).unwrap().sack_blocks().eq([(1, 4), (7, 9), (5, 6)]));
        let ack = arrive(&mut receiver, &tcp, 0).unwrap();
        assert_eq!((ack.seq, ack.sacks), (4, 2));
        let ack = arrive(&mut receiver, &tcp, 0).unwrap();
        assert!(ack.has(DSACK));
    }

    #[test]
    fn every_second_segment_is_acknowledged_and_gaps_at_once() {
        let tcp = Tcp { ack_every: 2, ..Tcp::default() };
        let mut receiver = Receiver::new();
        assert_eq!(arrive(&mut receiver, &tcp, 0), None);
        assert_eq!(receiver.ack_at, Instant::ORIGIN + Duration::from_millis(40));
        assert_eq!(arrive(&mut receiver, &tcp, 1).unwrap().seq, 2);
        assert_eq!(receiver.ack_at, Instant::MAX);
        assert_eq!(arrive(&mut receiver, &tcp, 3).unwrap().seq, 2);
        assert_eq!(arrive(&mut receiver, &tcp, 2).unwrap().seq, 4);
    }

    #[test]
    fn the_first_acknowledgements_are_quick() {
        let tcp = Tcp { ack_every: 2, quick_acks: 3, ..Tcp::default() };
        let mut receiver = Receiver::new();
        let acks: Vec<_> = (0..8).map(|seq| arrive(&mut receiver, &tcp, seq).map(|ack| ack.seq)).collect();
        assert_eq!(acks, [Some(1), Some(2), Some(3), None, Some(5), None, Some(7), None]);
    }
}
