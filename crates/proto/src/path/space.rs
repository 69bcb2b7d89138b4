//! One packet number space: what was sent in it, and what arrived. What ACKs do to it is in
//! `newly_acked`, loss detection in `loss`.

use std::collections::VecDeque;

use rand_chacha::rand_core::RngCore;
use units::{Duration, Instant};

use super::{
    ecn::SpaceEcn,
    received::ReceivedPackets,
    reordering::LostPackets,
    sent::{Removed, SentPacket, SentPackets},
};

/// Left-out packet numbers remembered at least: a peer that guesses ahead hits the latest ones.
const LEAST_SKIPPED: usize = 4;
/// The most, which are those of a window of 50,000 packets: a peer that takes nothing any more and
/// guesses from far behind what was sent hits the oldest ones that are in flight.
const MAX_SKIPPED: usize = 128;
/// Packets between left-out numbers: this many and as many again at random.
const SKIP_EVERY: u32 = 256;

/// Packet numbers without a record that may lie among the records, beyond those in flight: more
/// than the ACKs of a round trip at any rate. More are there only when the peer has us send ACKs by
/// the ten thousand and acknowledges nothing.
const MAX_UNRECORDED: u64 = 32_768;

/// So many packets may overtake one that leaves, and its number can still be told from theirs. One
/// byte would do for 128, which are some milliseconds on a fast path: later packets would be taken
/// for others, not authenticate, and look lost. It costs a byte from number 129 on.
const MAX_OVERTAKING: u64 = 16_384;

/// One packet number space.
#[derive(Debug, Default)]
pub(crate) struct PacketSpace {
    pub(super) sent: SentPackets,
    pub(super) received: ReceivedPackets,
    pub(super) ecn: SpaceEcn,
    /// Declared lost, but an ACK may still come.
    pub(super) lost: LostPackets,
    pub(super) largest_acked: Option<u64>,
    /// When the oldest packet below the largest ACKed one becomes lost by age.
    pub(super) loss_time: Option<Instant>,
    pub(super) last_ack_eliciting_at: Option<Instant>,
    /// Since when packets wait for an ACK and none has come, or no probe timeout passed.
    unanswered_since: Option<Instant>,
    ack_eliciting_in_flight: u32,
    /// Packet numbers that no packet bears (RFC 9000 section 21.4), and when the next one is due.
    skipped: VecDeque<u64>,
    next_skip: Option<u64>,
}

/// The packet number space that packets belong to.
pub(crate) enum Space<'a> {
    /// Of 0-RTT and 1-RTT packets: the path's own.
    Data,
    /// Of Initial or Handshake packets, which path 0 carries; it ends with their keys.
    Handshake(&'a mut PacketSpace),
}

impl<'a> Space<'a> {
    /// The space itself, given that of the path's data.
    pub(super) fn or(self, data: &'a mut PacketSpace) -> &'a mut PacketSpace {
        match self {
            Self::Data => data,
            Self::Handshake(space) => space,
        }
    }

    pub(super) fn is_data(&self) -> bool {
        matches!(self, Self::Data)
    }
}

impl PacketSpace {
    /// Nothing has happened for long.
    pub(super) fn rest(&mut self) {
        self.sent.release();
        self.received.rest();
        self.lost.rest();
        self.forget_skipped(LEAST_SKIPPED);
        self.skipped.shrink_to_fit();
    }

    /// The records of un-ACKed packets.
    pub(crate) fn sent(&self) -> &SentPackets {
        &self.sent
    }

    /// The next packet's number.
    pub(crate) fn next_number(&self) -> u64 {
        self.sent.next_number()
    }

    /// What the next packet's number is written relative to: the largest ACKed one (RFC 9000 section
    /// 17.1), or an older one if that is nearer than [`MAX_OVERTAKING`].
    pub(crate) fn number_base(&self) -> Option<u64> {
        self.largest_acked.map(|largest| largest.min(self.next_number().saturating_sub(MAX_OVERTAKING)))
    }

    pub(crate) fn received(&self) -> &ReceivedPackets {
        &self.received
    }

    pub(crate) fn received_mut(&mut self) -> &mut ReceivedPackets {
        &mut self.received
    }

    /// When the oldest packet below the largest ACKed one becomes lost by age.
    pub(crate) fn loss_time(&self) -> Option<Instant> {
        self.loss_time
    }

    /// When the oldest packet in flight was sent.
    pub(super) fn oldest_sent_at(&self) -> Option<Instant> {
        self.sent.iter().next().map(|(_, packet)| packet.sent_at)
    }

    /// When the last packet left that asks for an ACK, or a probe timeout passed since.
    pub(crate) fn last_ack_eliciting_at(&self) -> Option<Instant> {
        self.last_ack_eliciting_at
    }

    /// A probe timeout has passed: a fresh start for the next one, also if no probe can leave.
    pub(crate) fn restart_probe_timer(&mut self, now: Instant) {
        (self.last_ack_eliciting_at, self.unanswered_since) = (Some(now), Some(now));
    }

    /// An ACK has answered some packet.
    pub(super) fn on_answered(&mut self, now: Instant) {
        self.unanswered_since = Some(now);
    }

    /// From when a probe timeout of so long counts: the last packet that asks for an ACK (RFC 9002
    /// section 6.2.1). What keeps being sent, and keeps being lost, puts it off once at most: a
    /// PING now and then would do so for ever where the timeout is long.
    pub(super) fn probe_timer_start(&self, timeout: Duration) -> Option<Instant> {
        let last = self.last_ack_eliciting_at?;
        Some(self.unanswered_since.map_or(last, |since| last.min(since + timeout)))
    }

    /// Takes every record out: nobody will answer them.
    pub(crate) fn take_all(&mut self) -> Vec<SentPacket> {
        let sent = self.sent.oldest().unwrap_or(0)..self.sent.next_number();
        sent.filter_map(|number| self.remove(number, Removed::Lost)).collect()
    }

    pub(super) fn on_sent(&mut self, number: u64, packet: Option<SentPacket>) {
        if let Some(packet) = packet.as_ref().filter(|p| p.is_in_flight()) {
            self.last_ack_eliciting_at = Some(packet.sent_at);
            if self.ack_eliciting_in_flight == 0 {
                self.unanswered_since = Some(packet.sent_at);
            }
            self.ack_eliciting_in_flight += 1;
        }
        self.sent.insert(number, packet);
    }

    pub(crate) fn has_ack_eliciting_in_flight(&self) -> bool {
        self.ack_eliciting_in_flight > 0
    }

    /// Leaves a packet number out now and then, at random: a peer that acknowledges it has not seen
    /// what it acknowledges (RFC 9000 section 21.4). Loss detection may take a packet for lost one
    /// number too early next to it, which is as rare and harmless as reordering.
    pub(super) fn skip_number_if_due(&mut self, rng: &mut impl RngCore) {
        let next = self.sent.next_number();
        let due = *self.next_skip.get_or_insert_with(|| next + u64::from(rng.next_u32() % SKIP_EVERY));
        if next < due {
            return;
        }
        self.sent.insert(next, None);
        self.forget_skipped(LEAST_SKIPPED - 1);
        if self.skipped.len() == MAX_SKIPPED {
            self.skipped.pop_front();
        }
        self.skipped.push_back(next);
        self.next_skip = Some(next + u64::from(SKIP_EVERY + rng.next_u32() % SKIP_EVERY));
    }

    /// Forgets left-out numbers before all that is in flight, but for so many of the latest.
    fn forget_skipped(&mut self, least: usize) {
        let oldest = self.sent.oldest().unwrap_or(u64::MAX);
        while self.skipped.len() > least && self.skipped.front().is_some_and(|number| *number < oldest) {
            self.skipped.pop_front();
        }
    }

    /// Whether a number within `range` was left out.
    pub(super) fn has_left_out(&self, range: &core::ops::RangeInclusive<u64>) -> bool {
        let first = self.skipped.partition_point(|number| number < range.start());
        self.skipped.get(first).is_some_and(|number| number <= range.end())
    }

    /// The oldest record, if so many packet numbers without one follow that it had better count as
    /// lost: what it holds up takes memory.
    pub(super) fn overdue(&self) -> Option<u64> {
        let oldest = self.sent.oldest()?;
        let span = self.sent.next_number() - oldest;
        (span > MAX_UNRECORDED + 2 * u64::from(self.ack_eliciting_in_flight)).then_some(oldest)
    }

    /// Moves the record of a packet that was acknowledged to the end of a list.
    pub(super) fn move_acked(&mut self, number: u64, list: &mut Vec<(u64, SentPacket)>) {
        if let Some(packet) = self.sent.vacate(number, Removed::Acked).and_then(Option::take) {
            self.ack_eliciting_in_flight -= u32::from(packet.is_in_flight());
            list.push((number, packet));
        }
    }

    /// Takes a record out.
    pub(super) fn remove(&mut self, number: u64, why: Removed) -> Option<SentPacket> {
        let packet = self.sent.remove(number, why)?;
        self.ack_eliciting_in_flight -= u32::from(packet.is_in_flight());
        Some(packet)
    }
}

#[cfg(test)]
pub(super) mod test_support {
    use units::Duration;

    use super::*;

    pub(in crate::path) fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    /// Packets that left a millisecond apart.
    pub(in crate::path) fn space_with(packets: u64) -> PacketSpace {
        let mut space = PacketSpace::default();
        for n in 0..packets {
            space.on_sent(n, Some(SentPacket::for_test(at(n))));
        }
        space
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng;

    use super::{
        test_support::{at, space_with},
        *,
    };
    use crate::{
        path::newly_acked::NewlyAcked,
        wire::{expand_packet_number, packet_number_len},
    };

    #[test]
    fn numbers_are_told_from_those_of_packets_that_overtake() {
        let mut newly = NewlyAcked::default();
        for (sent, len) in [(100, 1), (128, 1), (129, 2), (40_000, 2)] {
            let mut space = space_with(sent);
            space.on_ack(sent - 1, [sent - 1..=sent - 1].into_iter(), &mut newly).unwrap();
            assert_eq!(packet_number_len(sent, space.number_base()), len, "{sent}");
            let truncated = sent as u32 & (1_u32 << (8 * len)).wrapping_sub(1);
            let overtaken_by = if len == 1 { 127 } else { MAX_OVERTAKING };
            assert_eq!(expand_packet_number(truncated, len, sent + overtaken_by), sent);
        }
    }

    #[test]
    fn an_ack_of_a_left_out_number_is_a_lie() {
        let mut rng = rand_chacha::ChaCha12Rng::from_seed([1; 32]);
        let mut space = PacketSpace::default();
        let mut newly = NewlyAcked::default();
        for _ in 0..2_000 {
            space.on_sent(space.sent.next_number(), Some(SentPacket::for_test(at(0))));
            space.skip_number_if_due(&mut rng);
        }
        assert!(space.skipped.len() >= LEAST_SKIPPED);
        let left_out = space.skipped[1];
        assert!(space.on_ack(left_out + 1, [left_out + 1..=left_out + 1].into_iter(), &mut newly).is_ok());
        assert!(space.on_ack(left_out + 1, [left_out..=left_out + 1].into_iter(), &mut newly).is_err());
    }

    /// A peer that stays 5,000 packets behind what was sent has as many to guess at as one close behind.
    #[test]
    fn a_left_out_number_is_known_while_packets_before_it_are_in_flight() {
        let mut rng = rand_chacha::ChaCha12Rng::from_seed([2; 32]);
        let mut space = PacketSpace::default();
        let mut newly = NewlyAcked::default();
        let mut send = |space: &mut PacketSpace, packets: u32| {
            for _ in 0..packets {
                space.on_sent(space.sent.next_number(), Some(SentPacket::for_test(at(0))));
                space.skip_number_if_due(&mut rng);
            }
        };
        send(&mut space, 10_000);
        let (first, all) = (space.skipped[0], space.sent.next_number());
        assert!(first <= u64::from(SKIP_EVERY), "the first of all");
        assert!(space.on_ack(5_000, [first..=5_000].into_iter(), &mut newly).is_err());
        // Of what is answered the latest are enough.
        (0..all).for_each(|number| _ = space.remove(number, Removed::Lost));
        send(&mut space, 2 * SKIP_EVERY);
        assert_eq!(space.skipped.len(), LEAST_SKIPPED);
        // However many packets are in flight, they are few.
        send(&mut space, 200 * 2 * SKIP_EVERY);
        assert_eq!(space.skipped.len(), MAX_SKIPPED);
        (0..space.sent.next_number()).for_each(|number| _ = space.remove(number, Removed::Lost));
        space.rest();
        assert_eq!(space.skipped.len(), LEAST_SKIPPED);
    }
}
