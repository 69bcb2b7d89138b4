//! SLP at the sending end: which packet of a flow is worth a copy, and what is learnt of it.

use recovery::{
    slp_arbiter::Marks,
    slp_odds::LearntOdds,
    slp_window::{HANDSHAKE_GAP, gap},
};
use units::{Duration, Instant};

use super::{Network, timeout};
use crate::raw::glance::Glance;

/// Bytes of the shortest segment that may be a full one: paths of QUIC carry more.
const LEAST_FULL: usize = 1_000;

/// What a packet of TCP or UDP is to SLP.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::raw) struct Copies {
    /// Packets have left.
    begun: bool,
    /// TCP's next sequence number that never left.
    next: Option<u32>,
    last: Option<Instant>,
    /// The last packet with marks: where it begins, and whether it left twice.
    marked: Option<(u32, Marks, bool)>,
    copied: Option<Instant>,
    /// Bytes of the longest segment so far.
    longest: usize,
}

/// What is to be done about a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::raw) struct Judgement {
    /// Bytes of new data in it.
    pub(in crate::raw) fresh: u64,
    /// Whether a write ends with it.
    pub(in crate::raw) ends_write: bool,
    /// Its copy is to leave so long after it, if there is to be one.
    pub(in crate::raw) copy_after: Option<Duration>,
}

impl Copies {
    /// A packet of `bytes` leaves; `wanted` is whether copies are made at all.
    pub(in crate::raw) fn judge(
        &mut self,
        now: Instant,
        packet: &Glance,
        bytes: usize,
        network: &Network,
        wanted: bool,
        odds: &mut LearntOdds,
    ) -> Judgement {
        let is_first = !std::mem::replace(&mut self.begun, true);
        let silent = self.last.replace(now).map(|last| now.saturating_duration_since(last));
        let (marks, fresh, again) = match *packet {
            // Nobody knows where datagrams end what they say.
            Glance::Udp { payload } => {
                (Marks { handshake: is_first, ..Marks::default() }, payload as u64, false)
            }
            Glance::Tcp { sequence, length, marks, payload } => {
                let marks = Marks { push: marks.push && self.ends_write(payload), ..marks };
                let again = self.again(sequence, length);
                if again {
                    self.learn(sequence, silent.is_some_and(|silent| silent >= network.rtt), odds);
                } else if marks != Marks::default() {
                    self.marked = Some((sequence, marks, false));
                }
                (marks, if again { 0 } else { length.into() }, again)
            }
        };
        let ends_write = marks.push || marks.fin;
        // Retransmissions are for TCP to repeat (SLP-A7), and one copy is under way at a time.
        let alone = self.copied.is_none_or(|at| now.saturating_duration_since(at) >= network.rtt);
        let worth = || network.worth_a_copy(bytes as u64, odds.of(marks), timeout(marks, network.rtt));
        if !wanted || again || marks == Marks::default() || !alone || !worth() {
            return Judgement { fresh, ends_write, copy_after: None };
        }
        self.copied = Some(now);
        if let Some((_, _, twice)) = &mut self.marked {
            *twice = true;
        }
        let packet_time = network.bandwidth.time_to_send(bytes as u64);
        let after =
            if marks.handshake { HANDSHAKE_GAP } else { gap(network.rtt, network.window, packet_time) };
        Judgement { fresh, ends_write, copy_after: Some(after) }
    }

    /// Whether PSH ends a write. Linux sets it as well wherever it cuts one for segmentation offload,
    /// and there segments are full; a write that happens to end with such a one ends in silence.
    fn ends_write(&mut self, payload: usize) -> bool {
        let is_full = payload >= LEAST_FULL && payload == self.longest;
        self.longest = self.longest.max(payload);
        !is_full
    }

    /// Whether a segment has left before; nothing is new in a pure ACK, which is not asked about.
    fn again(&mut self, sequence: u32, length: u32) -> bool {
        if length == 0 {
            return false;
        }
        let end = sequence.wrapping_add(length);
        let again = self.next.is_some_and(|next| end.wrapping_sub(next).cast_signed() <= 0);
        if !again {
            self.next = Some(end);
        }
        again
    }

    /// A packet leaves again: inner TCP has taken the marked one for lost, out of `silence` or as
    /// ACKs told it.
    fn learn(&mut self, sequence: u32, silence: bool, odds: &mut LearntOdds) {
        if let Some((marked, marks, twice)) = self.marked
            && marked == sequence
        {
            if !twice {
                odds.on_lost(marks, silence);
            }
            self.marked = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use recovery::slp_arbiter::TimeoutOdds;

    use super::*;

    const PUSH: Marks = Marks { handshake: false, push: true, fin: false };

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn segment(sequence: u32, length: u32, marks: Marks) -> Glance {
        Glance::Tcp { sequence, length, marks, payload: length as usize }
    }

    #[test]
    fn one_packet_of_a_round_trip_is_copied_if_that_is_worth_it() {
        let (network, mut odds) = (Network::default(), LearntOdds::new(TimeoutOdds::default()));
        let mut flow = Copies::default();
        let mut judge =
            |ms, packet: &Glance, bytes| flow.judge(at(ms), packet, bytes, &network, true, &mut odds);
        let syn = Marks { handshake: true, ..Marks::default() };
        let copied = |fresh, after| Judgement { fresh, ends_write: false, copy_after: after };
        assert_eq!(judge(0, &segment(u32::MAX, 1, syn), 60), copied(1, Some(HANDSHAKE_GAP)));
        assert_eq!(judge(1, &segment(0, 100, PUSH), 140).copy_after, None, "another is under way");
        assert!(judge(150, &segment(100, 100, PUSH), 140).copy_after.is_some());
        assert_eq!(judge(300, &segment(200, 100, Marks::default()), 140), copied(100, None));
        assert_eq!(judge(450, &segment(200, 100, PUSH), 140).copy_after, None, "that is TCP's repetition");
        let mut other = Copies::default();
        let none = other.judge(at(0), &segment(7, 1, syn), 60, &network, false, &mut odds);
        assert_eq!(none, copied(1, None));
    }

    #[test]
    fn a_push_after_a_full_segment_ends_no_write() {
        let (network, mut odds) = (Network::default(), LearntOdds::new(TimeoutOdds::default()));
        let mut flow = Copies::default();
        let ends = [(8, true), (1_300, true), (1_300, false), (1_300, false), (62, true), (62, true)];
        let mut sequence = 0;
        for (length, wanted) in ends {
            let packet = segment(sequence, length, PUSH);
            let judged = flow.judge(at(0), &packet, length as usize, &network, true, &mut odds);
            assert_eq!(judged.ends_write, wanted, "{length} bytes");
            sequence += length;
        }
    }

    #[test]
    fn the_first_packet_over_udp_is_copied() {
        let (network, mut odds) = (Network::default(), LearntOdds::new(TimeoutOdds::default()));
        let mut flow = Copies::default();
        for (ms, copied) in [(0, true), (200, false), (5_000, false)] {
            let judged = flow.judge(at(ms), &Glance::Udp { payload: 40 }, 68, &network, true, &mut odds);
            assert_eq!((judged.copy_after.is_some(), judged.fresh), (copied, 40));
        }
    }

    #[test]
    fn what_is_sent_again_out_of_silence_was_a_timeout() {
        let slow = Network { bandwidth: units::BitRate(1), ..Network::default() };
        let mut odds = LearntOdds::new(TimeoutOdds::default());
        for (flow, (silence, rises)) in [(300, true), (10, false)].into_iter().enumerate() {
            let before = odds.of(PUSH);
            let mut copies = Copies::default();
            let start = flow as u32 * 1_000;
            copies.judge(at(0), &segment(start, 100, PUSH), 140, &slow, true, &mut odds);
            copies.judge(at(silence), &segment(start, 100, PUSH), 140, &slow, true, &mut odds);
            assert_eq!(odds.of(PUSH) > before, rises);
        }
    }
}
