//! What a sub-flow has sent and not yet got acknowledged, segment by segment (RFC 6675).

use std::collections::VecDeque;

use units::Instant;

use crate::ranges::Ranges;

/// SACKed.
pub(crate) const SACKED: u8 = 1;
/// Declared lost.
pub(crate) const LOST: u8 = 2;
/// Sent again, and that transmission is neither acknowledged nor lost.
pub(crate) const RESENT: u8 = 4;
/// Was sent again at some time: no RTT sample (Karn).
pub(crate) const EVER_RESENT: u8 = 8;
/// A recovery copy of another sub-flow's packet.
pub(crate) const COPY: u8 = 16;
/// A coded packet.
pub(crate) const CODED: u8 = 32;
/// Was proactively resent on some sub-flow.
pub(crate) const PROTECTED: u8 = 64;

/// One segment under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    pub(crate) dsn: u32,
    pub(crate) payload: u16,
    pub(crate) flags: u8,
}

impl Sent {
    pub(crate) fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

/// The segments in `una..nxt`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    /// The lowest number that is not acknowledged.
    pub(crate) una: u32,
    /// The next number to be used.
    pub(crate) nxt: u32,
    sent: VecDeque<Sent>,
    sacked_ranges: Ranges,
    sacked: u32,
    lost: u32,
    resent: u32,
    /// Without SACK: duplicate acknowledgements, each of which says that some segment has arrived.
    duplicates: u32,
    /// Whatever is below and not SACKed is lost.
    lost_edge: u32,
    /// No segment below is lost and waits to be sent again.
    retransmit_from: u32,
    /// One past the highest segment that was sent again in this recovery (HighRxt).
    pub(crate) high_rxt: u32,
}

/// What an acknowledgement took out.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Taken {
    pub(crate) segments: u32,
    /// When the one of them that was sent last was sent.
    pub(crate) sent_at: Instant,
    /// When the last one was sent that was never sent again and not SACKed before: good for a
    /// sample.
    pub(crate) sample_from: Option<Instant>,
    /// One of them came later than what was sent after it, and was never sent again.
    pub(crate) reordered: bool,
}

impl Scoreboard {
    /// Segments outstanding, SACKed ones included (FlightSize).
    #[inline]
    pub(crate) fn flight(&self) -> u32 {
        self.nxt - self.una
    }

    /// Segments that are in the network (RFC 6675 section 4, SetPipe).
    #[inline]
    pub(crate) fn pipe(&self) -> u32 {
        (self.flight() - self.sacked - self.lost + self.resent).saturating_sub(self.duplicates)
    }

    /// Segments that have arrived, as far as is known: acknowledged or SACKed.
    pub(crate) fn delivered(&self) -> u32 {
        self.una + self.sacked
    }

    pub(crate) fn sacked(&self) -> u32 {
        self.sacked
    }

    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }

    pub(crate) fn resent(&self) -> u32 {
        self.resent
    }

    /// One past the highest SACKed segment; `una` without one.
    pub(crate) fn high_sacked(&self) -> u32 {
        self.sacked_ranges.end().map_or(self.una, |end| end.max(self.una))
    }

    #[inline]
    pub(crate) fn segment(&self, seq: u32) -> Option<&Sent> {
        self.sent.get(seq.checked_sub(self.una)? as usize)
    }

    pub(crate) fn segment_mut(&mut self, seq: u32) -> Option<&mut Sent> {
        self.sent.get_mut(seq.checked_sub(self.una)? as usize)
    }

    /// The segments from `seq` on, with their numbers.
    pub(crate) fn from(&self, seq: u32) -> impl Iterator<Item = (u32, &Sent)> {
        let skip = seq.saturating_sub(self.una).min(self.flight());
        (self.una + skip..).zip(self.sent.range(skip as usize..))
    }

    /// A duplicate acknowledgement without SACK: how many there are. No more than there are
    /// segments above the missing one.
    pub(crate) fn on_duplicate(&mut self) -> u32 {
        self.duplicates = (self.duplicates + 1).min(self.flight().saturating_sub(1));
        self.duplicates
    }

    /// An acknowledgement of `segments` that ends short of the recovery's point (RFC 6582 section
    /// 3.2, a partial one): of them all but the first had arrived before and were counted.
    pub(crate) fn on_partial(&mut self, segments: u32) {
        let most = self.flight().saturating_sub(1);
        self.duplicates = self.duplicates.saturating_sub(segments.saturating_sub(1)).min(most);
        if self.flight() > 0 {
            self.mark_lost(self.una);
        }
    }

    /// What duplicate acknowledgements said is over.
    pub(crate) fn forget_duplicates(&mut self) {
        self.duplicates = 0;
    }

    /// A new segment; its number.
    #[inline]
    pub(crate) fn push(&mut self, sent: Sent) -> u32 {
        self.sent.push_back(sent);
        self.nxt += 1;
        self.nxt - 1
    }

    /// Everything below `ack` has arrived.
    #[inline]
    pub(crate) fn acknowledge(&mut self, ack: u32) -> Taken {
        let mut taken = Taken::default();
        let high = self.high_sacked();
        while self.una < ack {
            let Some(sent) = self.sent.pop_front() else { break };
            self.una += 1;
            taken.segments += 1;
            taken.reordered |= self.una <= high && !sent.has(SACKED | EVER_RESENT);
            taken.sent_at = taken.sent_at.max(sent.at);
            if sent.flags & (SACKED | LOST | RESENT | EVER_RESENT) == 0 {
                taken.sample_from = Some(sent.at);
            } else {
                self.sacked -= u32::from(sent.has(SACKED));
                self.lost -= u32::from(sent.has(LOST));
                self.resent -= u32::from(sent.has(RESENT));
            }
        }
        if !self.sacked_ranges.is_empty() {
            self.sacked_ranges.remove_below(self.una);
        }
        self.retransmit_from = self.retransmit_from.max(self.una);
        taken
    }

    /// A SACK block; how many segments it newly covers, each shown to `each`.
    pub(crate) fn sack(&mut self, from: u32, to: u32, mut each: impl FnMut(u32, &Sent)) -> u32 {
        let (from, to) = (from.max(self.una), to.min(self.nxt));
        let (sent, una) = (&mut self.sent, self.una);
        let (mut fresh, mut lost, mut resent) = (0, 0, 0);
        self.sacked_ranges.insert(from, to, |a, b| {
            for seq in a..b {
                let segment = &mut sent[(seq - una) as usize];
                each(seq, segment);
                lost += u32::from(segment.has(LOST));
                resent += u32::from(segment.has(RESENT));
                segment.flags = (segment.flags | SACKED) & !(LOST | RESENT);
                fresh += 1;
            }
        });
        self.sacked += fresh;
        self.lost -= lost;
        self.resent -= resent;
        fresh
    }

    /// Marks as lost what has `threshold` SACKed segments above it (IsLost), or lies `threshold` or
    /// more below the highest one if `fack`. How many are newly lost.
    pub(crate) fn detect_losses(&mut self, threshold: u32, fack: bool) -> u32 {
        let mut missing = threshold;
        let mut edge = self.una;
        for (start, end) in self.sacked_ranges.iter().rev() {
            if end - start >= missing {
                edge = end - missing;
                break;
            }
            missing -= end - start;
        }
        if fack && self.sacked > 0 {
            edge = edge.max(self.high_sacked().saturating_sub(threshold));
        }
        let from = self.lost_edge.max(self.una);
        self.lost_edge = self.lost_edge.max(edge);
        (from..edge).map(|seq| u32::from(self.mark_lost(seq))).sum()
    }

    /// Marks one segment as lost, unless it is SACKed or lost already. A retransmission that is
    /// lost counts anew.
    pub(crate) fn mark_lost(&mut self, seq: u32) -> bool {
        let Some(sent) = self.sent.get_mut((seq - self.una) as usize) else { return false };
        if sent.has(SACKED) || (sent.has(LOST) && !sent.has(RESENT)) {
            return false;
        }
        self.lost += u32::from(!sent.has(LOST));
        self.resent -= u32::from(sent.has(RESENT));
        sent.flags = (sent.flags | LOST) & !RESENT;
        self.retransmit_from = self.retransmit_from.min(seq);
        true
    }

    /// After a timeout: everything that is not SACKed is lost, sent again or not.
    pub(crate) fn mark_all_lost(&mut self) {
        for seq in self.una..self.nxt {
            self.mark_lost(seq);
        }
        self.retransmit_from = self.una;
        self.lost_edge = self.nxt;
        self.high_rxt = self.una;
    }

    /// The lowest segment that is lost and was not sent again (NextSeg rule 1).
    #[inline]
    pub(crate) fn next_lost(&mut self) -> Option<u32> {
        if self.lost == 0 {
            return None;
        }
        while self.retransmit_from < self.nxt {
            let sent = self.segment(self.retransmit_from)?;
            if sent.has(LOST) && !sent.has(RESENT) {
                return Some(self.retransmit_from);
            }
            self.retransmit_from += 1;
        }
        None
    }

    /// The lowest segment above HighRxt and below the highest SACKed one that is not SACKed
    /// (rule 3).
    pub(crate) fn next_hole(&self) -> Option<u32> {
        let high = self.high_sacked();
        let from = self.high_rxt.max(self.una);
        self.from(from)
            .take_while(|(seq, _)| *seq < high)
            .find(|(_, sent)| !sent.has(SACKED | RESENT))
            .map(|(seq, _)| seq)
    }

    /// The highest segment that is not SACKed, for the rescue (rule 4), unless it was sent again
    /// already: the rescue is for the end of a window that no SACK reaches, and a lost
    /// retransmission costs a timeout in all of the papers.
    pub(crate) fn last_unsacked(&self) -> Option<u32> {
        let last = self.sent.iter().rposition(|sent| !sent.has(SACKED))?;
        (!self.sent[last].has(RESENT)).then(|| self.una + last as u32)
    }

    /// Segment `seq` is sent again.
    pub(crate) fn on_resent(&mut self, seq: u32, now: Instant) {
        let Some(sent) = self.segment_mut(seq) else { return };
        let first = !sent.has(RESENT);
        sent.at = now;
        sent.flags |= RESENT | EVER_RESENT;
        self.resent += u32::from(first);
        self.high_rxt = self.high_rxt.max(seq + 1);
    }

    /// Gives memory back if nothing is under way.
    pub(crate) fn shrink(&mut self) {
        if self.sent.is_empty() && self.sent.capacity() > 0 {
            self.sent = VecDeque::new();
            self.sacked_ranges.shrink();
        }
    }

    /// What the counters must be, counted anew.
    #[cfg(test)]
    pub(crate) fn is_consistent(&self) -> bool {
        let count = |flag| self.sent.iter().filter(|sent| sent.has(flag)).count() as u32;
        (count(SACKED), count(LOST), count(RESENT)) == (self.sacked, self.lost, self.resent)
            && self.sent.len() as u32 == self.flight()
            && self.sent.iter().all(|sent| !(sent.has(SACKED) && sent.has(LOST)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outstanding(count: u32) -> Scoreboard {
        let mut board = Scoreboard::default();
        for dsn in 0..count {
            board.push(Sent { at: Instant::from_nanos(u64::from(dsn) + 1), dsn, payload: 1_460, flags: 0 });
        }
        board
    }

    #[test]
    fn three_sacked_segments_above_make_a_loss() {
        let mut board = outstanding(10);
        assert_eq!(board.sack(1, 3, |_, _| ()), 2);
        assert_eq!(board.detect_losses(3, false), 0);
        assert_eq!(board.sack(1, 5, |_, _| ()), 2);
        assert_eq!(board.detect_losses(3, false), 1);
        assert_eq!((board.next_lost(), board.pipe()), (Some(0), 10 - 4 - 1));
        board.on_resent(0, Instant::ORIGIN);
        assert_eq!((board.next_lost(), board.pipe()), (None, 6));
        let taken = board.acknowledge(5);
        assert_eq!((taken.segments, taken.sample_from), (5, None)); // resent or SACKed: no sample
        assert_eq!(board.pipe(), 5);
        assert!(board.is_consistent());
    }

    #[test]
    fn what_fills_a_hole_without_being_sent_again_was_reordered() {
        let taken = |resent| {
            let mut board = outstanding(4);
            board.sack(2, 3, |_, _| ());
            (0..resent).for_each(|seq| board.on_resent(seq, Instant::ORIGIN));
            board.acknowledge(4)
        };
        assert_eq!([0, 1, 2].map(|resent| taken(resent).reordered), [true, true, false]);
        assert!(!outstanding(4).acknowledge(4).reordered);
    }

    #[test]
    fn fack_looks_at_the_highest_only() {
        let mut board = outstanding(10);
        board.sack(9, 10, |_, _| ());
        assert_eq!(board.detect_losses(3, false), 0);
        assert_eq!(board.detect_losses(3, true), 7); // 0..7
    }

    #[test]
    fn rules_three_and_four() {
        let mut board = outstanding(6);
        board.sack(2, 3, |_, _| ());
        assert_eq!(board.next_hole(), Some(0));
        board.on_resent(0, Instant::ORIGIN);
        assert_eq!(board.next_hole(), Some(1));
        assert_eq!(board.last_unsacked(), Some(5));
    }

    #[test]
    fn counters_hold_under_random_feedback() {
        let mut rng = netsim::Rng::new(netsim::Seed(11));
        for _ in 0..300 {
            let mut board = outstanding(0);
            for step in 0..120 {
                match rng.below(7) {
                    0..=1 => {
                        board.push(Sent { at: Instant::from_nanos(step), dsn: 0, payload: 1, flags: 0 });
                    }
                    2 => {
                        let from = rng.below(140) as u32;
                        board.sack(from, from + rng.below(6) as u32, |_, _| ());
                    }
                    3 => {
                        board.detect_losses(3, rng.chance(0.2));
                    }
                    4 => {
                        if let Some(seq) = board.next_lost() {
                            board.on_resent(seq, Instant::from_nanos(step));
                        }
                    }
                    5 if rng.chance(0.1) => board.mark_all_lost(),
                    _ => {
                        let ack = (board.una + rng.below(4) as u32).min(board.nxt);
                        board.acknowledge(ack);
                    }
                }
                assert!(board.is_consistent(), "{board:?}");
            }
        }
    }
}
