//! One packet number space: what was sent in it, what arrived, and loss detection over it (RFC 9002 section 6.1).

use units::{Duration, Instant};

use crate::{
    ecn::SpaceEcn,
    received::ReceivedPackets,
    rtt::RttEstimator,
    sent::{SentPacket, SentPackets},
    wire::{TransportError, TransportErrorCode},
};

/// Later packets that must be ACKed before an earlier one counts as lost (RFC 9002 section 6.1.1).
const PACKET_THRESHOLD: u64 = 3;

/// One packet number space.
#[derive(Debug, Default)]
pub(crate) struct PacketSpace {
    pub(crate) sent: SentPackets,
    pub(crate) received: ReceivedPackets,
    pub(crate) ecn: SpaceEcn,
    pub(crate) largest_acked: Option<u64>,
    /// When the oldest packet below the largest ACKed one becomes lost by age.
    pub(crate) loss_time: Option<Instant>,
    pub(crate) last_ack_eliciting_at: Option<Instant>,
    ack_eliciting_in_flight: u32,
}

/// The packets that one ACK frame newly acknowledged.
#[derive(Debug, Default)]
pub(crate) struct NewlyAcked {
    pub(crate) packets: Vec<(u64, SentPacket)>,
    /// Send time of the frame's largest packet, if it is new: the RTT sample's start.
    pub(crate) largest_sent_at: Option<Instant>,
    /// The frame reported new CE marks: when the largest packet that it acknowledged was sent.
    pub(crate) ce_sent_at: Option<Instant>,
}

impl PacketSpace {
    pub(crate) fn on_sent(&mut self, number: u64, packet: Option<SentPacket>) {
        if let Some(packet) = packet.as_ref().filter(|p| p.in_flight) {
            self.last_ack_eliciting_at = Some(packet.sent_at);
            self.ack_eliciting_in_flight += 1;
        }
        self.sent.insert(number, packet);
    }

    pub(crate) fn has_ack_eliciting_in_flight(&self) -> bool {
        self.ack_eliciting_in_flight > 0
    }

    /// Takes a record out, because it was ACKed, lost, or its space is given up.
    pub(crate) fn remove(&mut self, number: u64) -> Option<SentPacket> {
        let packet = self.sent.remove(number)?;
        self.ack_eliciting_in_flight -= u32::from(packet.in_flight);
        Some(packet)
    }

    /// Applies an ACK frame's ranges (newest first) and moves the newly acknowledged records into `newly`.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION for a packet number that was never sent (RFC 9000 section 13.1).
    pub(crate) fn on_ack(
        &mut self,
        largest: u64,
        ranges: impl Iterator<Item = core::ops::RangeInclusive<u64>>,
        newly: &mut NewlyAcked,
    ) -> Result<(), TransportError> {
        if largest >= self.sent.next_number() {
            return Err(TransportError::new(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "ACK for a packet that was never sent",
            ));
        }
        let is_new = self.largest_acked.is_none_or(|l| largest > l);
        newly.packets.clear();
        newly.ce_sent_at = None;
        newly.largest_sent_at = self.sent.get(largest).filter(|_| is_new).map(|p| p.sent_at);
        self.largest_acked = Some(self.largest_acked.map_or(largest, |l| l.max(largest)));
        for range in ranges {
            let Some(oldest) = self.sent.oldest().filter(|oldest| oldest <= range.end()) else { break };
            for number in (*range.start()).max(oldest)..=*range.end() {
                if let Some(packet) = self.remove(number) {
                    newly.packets.push((number, packet));
                }
            }
        }
        Ok(())
    }

    /// Finds the packets that are lost by now, in number order, and sets the time at which the next one would be.
    pub(crate) fn detect_lost(&mut self, now: Instant, rtt: &RttEstimator, lost: &mut Vec<u64>) {
        lost.clear();
        self.loss_time = None;
        let Some(largest_acked) = self.largest_acked else { return };
        let delay: Duration = rtt.loss_delay();
        for (number, packet) in self.sent.iter() {
            if number > largest_acked {
                break;
            }
            if largest_acked - number >= PACKET_THRESHOLD || packet.sent_at + delay <= now {
                lost.push(number);
            } else {
                let due = packet.sent_at + delay;
                self.loss_time = Some(self.loss_time.map_or(due, |t| t.min(due)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        space.detect_lost(at(50), &rtt_of(80), &mut lost);
        assert_eq!(lost, [0, 1]);
        // 2 and 3 wait for 9/8 of the RTT after they were sent.
        lost.iter().for_each(|n| drop(space.remove(*n)));
        assert_eq!(space.loss_time, Some(at(92)));
        space.detect_lost(at(92), &rtt_of(80), &mut lost);
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
}
