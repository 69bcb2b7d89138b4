//! One packet number space: what was sent in it, what arrived, and loss detection over it (RFC 9002 section 6.1).

use std::collections::VecDeque;

use rand_chacha::rand_core::RngCore;
use units::{Duration, Instant};

use crate::{
    path::{
        ecn::SpaceEcn,
        newly_acked::NewlyAcked,
        received::ReceivedPackets,
        reordering::{LostPackets, ReorderingThresholds},
        rtt::RttEstimator,
        sent::{SentPacket, SentPackets},
    },
    wire::{TransportError, TransportErrorCode},
};

/// Left-out packet numbers remembered; a peer that guesses ahead hits the latest ones.
const MAX_SKIPPED: usize = 4;
/// Packets between left-out numbers: this many and as many again at random.
const SKIP_EVERY: u32 = 256;

/// Packet numbers without a record that may lie among the records, beyond those in flight: more than the ACKs of a round trip at any rate. More
/// are there only when the peer has us send ACKs by the ten thousand and acknowledges nothing.
const MAX_UNRECORDED: u64 = 32_768;

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
    /// The records of un-ACKed packets.
    pub(crate) fn sent(&self) -> &SentPackets {
        &self.sent
    }

    /// The next packet's number.
    pub(crate) fn next_number(&self) -> u64 {
        self.sent.next_number()
    }

    pub(crate) fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
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

    /// When the last packet left that asks for an ACK, or a probe timeout passed since.
    pub(crate) fn last_ack_eliciting_at(&self) -> Option<Instant> {
        self.last_ack_eliciting_at
    }

    /// A probe timeout has passed: a fresh start for the next one, also if no probe can leave.
    pub(crate) fn restart_probe_timer(&mut self, now: Instant) {
        self.last_ack_eliciting_at = Some(now);
    }

    /// Takes every record out: nobody will answer them.
    pub(crate) fn take_all(&mut self) -> Vec<SentPacket> {
        let sent = self.sent.oldest().unwrap_or(0)..self.sent.next_number();
        sent.filter_map(|number| self.remove(number, false)).collect()
    }

    pub(super) fn on_sent(&mut self, number: u64, packet: Option<SentPacket>) {
        if let Some(packet) = packet.as_ref().filter(|p| p.is_in_flight()) {
            self.last_ack_eliciting_at = Some(packet.sent_at);
            self.ack_eliciting_in_flight += 1;
        }
        self.sent.insert(number, packet);
    }

    pub(crate) fn has_ack_eliciting_in_flight(&self) -> bool {
        self.ack_eliciting_in_flight > 0
    }

    /// Leaves a packet number out now and then, at random: a peer that acknowledges it has not seen what it acknowledges
    /// (RFC 9000 section 21.4). Loss detection may take a packet for lost one number too early next to it, which is as rare and harmless
    /// as reordering.
    pub(super) fn skip_number_if_due(&mut self, rng: &mut impl RngCore) {
        let next = self.sent.next_number();
        let due = *self.next_skip.get_or_insert_with(|| next + u64::from(rng.next_u32() % SKIP_EVERY));
        if next < due {
            return;
        }
        self.sent.insert(next, None);
        if self.skipped.len() == MAX_SKIPPED {
            self.skipped.pop_front();
        }
        self.skipped.push_back(next);
        self.next_skip = Some(next + u64::from(SKIP_EVERY + rng.next_u32() % SKIP_EVERY));
    }

    /// The oldest record, if so many packet numbers without one follow that it had better count as lost: what it holds up takes memory.
    pub(super) fn overdue(&self) -> Option<u64> {
        let oldest = self.sent.oldest()?;
        let span = self.sent.next_number() - oldest;
        (span > MAX_UNRECORDED + 2 * u64::from(self.ack_eliciting_in_flight)).then_some(oldest)
    }

    /// Takes a record out, because its packet was `acked`, or lost.
    pub(super) fn remove(&mut self, number: u64, acked: bool) -> Option<SentPacket> {
        let packet = self.sent.remove(number, acked)?;
        self.ack_eliciting_in_flight -= u32::from(packet.is_in_flight());
        Some(packet)
    }

    /// Applies an ACK frame's ranges (newest first) and moves the newly acknowledged records into `newly`.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION for a packet number that was never sent (RFC 9000 sections 13.1 and 21.4). What the frame said of others may
    /// have been applied by then.
    pub(super) fn on_ack(
        &mut self,
        largest: u64,
        ranges: impl Iterator<Item = core::ops::RangeInclusive<u64>>,
        newly: &mut NewlyAcked,
    ) -> Result<(), TransportError> {
        let never_sent = || {
            let reason = "ACK for a packet that was never sent";
            TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason)
        };
        if largest >= self.sent.next_number() {
            return Err(never_sent());
        }
        let is_new = self.largest_acked.is_none_or(|l| largest > l);
        newly.packets.clear();
        newly.spurious.clear();
        newly.ce_sent_at = None;
        newly.raised_largest = is_new;
        let sample = if is_new { self.sent.get(largest) } else { None };
        newly.largest_sent_at = sample.map(|p| p.sent_at);
        newly.largest_epoch = sample.map(|p| p.epoch).unwrap_or_default();
        newly.ce_packets = 0;
        self.largest_acked = Some(self.largest_acked.map_or(largest, |l| l.max(largest)));
        for range in ranges {
            if self.skipped.iter().any(|number| range.contains(number)) {
                return Err(never_sent());
            }
            self.lost.take(&range, &mut newly.spurious);
            let Some(oldest) = self.sent.oldest().filter(|oldest| oldest <= range.end()) else { continue };
            for number in (*range.start()).max(oldest)..=*range.end() {
                if let Some(packet) = self.remove(number, true) {
                    newly.packets.push((number, packet));
                }
            }
        }
        Ok(())
    }

    /// Finds the packets that are lost by now, in number order, and sets the time at which the next one would be.
    pub(super) fn detect_lost(
        &mut self,
        now: Instant,
        rtt: &RttEstimator,
        thresholds: &ReorderingThresholds,
        lost: &mut Vec<u64>,
    ) {
        lost.clear();
        self.loss_time = None;
        let Some(largest_acked) = self.largest_acked else { return };
        let delay = thresholds.age(rtt);
        for (number, packet) in self.sent.iter() {
            if number > largest_acked {
                break;
            }
            if largest_acked - number >= thresholds.packets() || packet.sent_at + delay <= now {
                lost.push(number);
            } else {
                let due = packet.sent_at + delay;
                self.loss_time = Some(self.loss_time.map_or(due, |t| t.min(due)));
            }
        }
    }

    /// The longest time between two of the packets `lost`, which are about to be removed, with no acknowledged packet between them.
    /// Packets sent up to `first_sample_at`, before there was a round-trip time, do not count (RFC 9002 section 7.6.2).
    pub(super) fn longest_loss(&self, lost: &[u64], first_sample_at: Instant) -> Duration {
        let mut longest = Duration::ZERO;
        let mut run: Option<(u64, Instant)> = None;
        for &number in lost {
            let Some(packet) = self.sent.get(number) else { continue };
            if !packet.is_in_flight() || packet.sent_at <= first_sample_at {
                continue;
            }
            let began = run.filter(|(last, _)| !self.sent.any_acked_between(*last, number));
            let began = began.map_or(packet.sent_at, |(_, began)| began);
            run = Some((number, began));
            longest = longest.max(packet.sent_at - began);
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng;

    use super::*;
    use crate::path::reordering::LostPacket;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn space_with(packets: u64) -> PacketSpace {
        let mut space = PacketSpace::default();
        for n in 0..packets {
            space.on_sent(n, Some(SentPacket::for_test(at(n))));
        }
        space
    }

    fn rtt_of(ms: u64) -> RttEstimator {
        let mut rtt = RttEstimator::new(Duration::from_millis(333));
        rtt.update(at(0), Duration::from_millis(ms), Duration::ZERO);
        rtt
    }

    #[test]
    fn three_later_packets_make_one_lost() {
        let mut space = space_with(6);
        let mut newly = NewlyAcked::default();
        space.on_ack(4, [4..=4].into_iter(), &mut newly).unwrap();
        assert_eq!(newly.largest_sent_at, Some(at(4)));
        let mut lost = Vec::new();
        space.detect_lost(at(50), &rtt_of(80), &ReorderingThresholds::default(), &mut lost);
        assert_eq!(lost, [0, 1]);
        // 2 and 3 wait for 9/8 of the RTT after they were sent.
        lost.iter().for_each(|n| drop(space.remove(*n, false)));
        assert_eq!(space.loss_time, Some(at(92)));
        space.detect_lost(at(92), &rtt_of(80), &ReorderingThresholds::default(), &mut lost);
        assert_eq!(lost, [2]);
    }

    #[test]
    fn acks_are_counted_once_and_checked() {
        let mut space = space_with(3);
        let mut newly = NewlyAcked::default();
        space.on_ack(1, [0..=1].into_iter(), &mut newly).unwrap();
        assert_eq!(newly.packets.len(), 2);
        space.on_ack(1, [0..=1].into_iter(), &mut newly).unwrap();
        assert!(newly.packets.is_empty() && newly.largest_sent_at.is_none());
        assert!(space.has_ack_eliciting_in_flight());
        assert!(space.on_ack(3, [3..=3].into_iter(), &mut newly).is_err());
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
        assert_eq!(space.skipped.len(), MAX_SKIPPED);
        let left_out = space.skipped[1];
        assert!(space.on_ack(left_out + 1, [left_out + 1..=left_out + 1].into_iter(), &mut newly).is_ok());
        assert!(space.on_ack(left_out + 1, [left_out..=left_out + 1].into_iter(), &mut newly).is_err());
    }

    #[test]
    fn a_loss_that_was_none_is_reported_once() {
        let mut space = space_with(5);
        let mut newly = NewlyAcked::default();
        space.on_ack(4, [4..=4].into_iter(), &mut newly).unwrap();
        space.remove(0, false);
        space.lost.push(LostPacket { number: 0, sent_at: at(0), event: 7 });
        for expected in [1, 0] {
            space.on_ack(4, [4..=4, 0..=0].into_iter(), &mut newly).unwrap();
            assert_eq!(newly.spurious.len(), expected);
        }
    }

    #[test]
    fn persistent_congestion_spans_lost_packets_with_no_acknowledged_one_between() {
        // Sent at 0 to 9 ms; 4 bears only an ACK and has no record, 7 was acknowledged.
        let mut space = PacketSpace::default();
        for n in 0..10 {
            space.on_sent(n, (n != 4).then(|| SentPacket::for_test(at(n))));
        }
        space.remove(7, true);
        let ms = Duration::from_millis;
        assert_eq!(space.longest_loss(&[1, 2, 3, 5, 6, 8, 9], at(0)), ms(5));
        assert_eq!(space.longest_loss(&[1, 2, 3, 5, 6, 8, 9], at(2)), ms(3), "3 to 6");
        assert_eq!(space.longest_loss(&[6, 8], at(0)), Duration::ZERO);
    }
}
