//! A path's share of an ACK (RFC 9002 appendix A.7).
//!
//! 1. [`Path::on_ack_received`] takes the records out that the frame answers.
//! 2. [`Path::on_newly_acked`] learns from them: ECN, round-trip time, what is in flight. Then the
//!    connection tells streams, policy and repair what has arrived, and with it
//!    [`Path::on_delivered`], packet by packet.
//! 3. [`Path::detect_lost`] finds what the ACK leaves behind.
//! 4. [`Path::on_packets_acked`] tells the controller.

use congestion::PathWindow;
use units::{Duration, Instant};

use super::{
    MAX_ACK_DELAY, Path,
    loss::{LossRecovery, SPURIOUS_HORIZON},
    reordering::LostPacket,
    sent::{Epoch, SentPacket},
    space::{PacketSpace, Space},
};
use crate::wire::{Ack, EcnCounts, TransportError, TransportErrorCode};

/// The packets that one ACK frame newly acknowledged, and what they say. The buffers are used
/// again.
#[derive(Debug, Default)]
pub(crate) struct NewlyAcked {
    pub(crate) packets: Vec<(u64, SentPacket)>,
    /// Packets that had been declared lost.
    pub(crate) spurious: Vec<LostPacket>,
    /// The largest number acknowledged before.
    largest_before: Option<u64>,
    /// The frame names a larger one.
    pub(super) raised_largest: bool,
    /// Send time of the frame's largest packet, if it is new: the RTT sample's start.
    pub(super) largest_sent_at: Option<Instant>,
    /// The path's epoch at that time.
    pub(super) largest_epoch: Epoch,
    /// The frame reported new CE marks: when the largest packet that it acknowledged was sent.
    pub(super) ce_sent_at: Option<Instant>,
    /// How many new CE marks it reported.
    pub(super) ce_packets: u64,
    /// When the newest of the packets was sent.
    pub(super) newest_sent_at: Option<Instant>,
    /// Bytes in flight that it acknowledged, those of them that were marked CE, and what was in
    /// flight before.
    pub(super) bytes: u64,
    pub(super) ce_bytes: u64,
    pub(super) in_flight_before: u64,
}

/// Whether an ACK ends the backoff of probe timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backoff {
    /// It does.
    Ends,
    /// Not as long as a client does not know that the server has validated its address (RFC 9002
    /// section 6.2.1).
    Stays,
}

/// Whether a path that had stopped answering has just answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It had not stopped.
    Expected,
    /// Probe timeouts had passed, here or where the path ran before.
    AfterSilence,
}

impl Path {
    /// An ACK frame: moves the records of what it newly acknowledges into `newly`. What was
    /// declared lost and has arrived after all is among them, too: the path reorders (RFC 9002
    /// section 6.1). A packet that was merely rebuilt is not: it stays a loss
    /// (docs/decisions/0003-recovered.md).
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION for a packet number that was never sent.
    pub(crate) fn on_ack_received(
        &mut self,
        now: Instant,
        of: Space<'_>,
        ack: &Ack<'_>,
        newly: &mut NewlyAcked,
    ) -> Result<(), TransportError> {
        of.or(&mut self.space).on_ack(ack.largest, ack.ranges(), newly)?;
        if !newly.spurious.is_empty() {
            self.recovery.on_spurious_losses(now, newly);
        }
        Ok(())
    }

    /// The frame has newly acknowledged packets. `delay` is what the peer says it waited.
    pub(crate) fn on_newly_acked(
        &mut self,
        now: Instant,
        of: Space<'_>,
        counts: Option<EcnCounts>,
        delay: Duration,
        backoff: Backoff,
        newly: &mut NewlyAcked,
    ) -> Answer {
        // Counts that were overtaken by later ones say nothing (RFC 9000 section 13.4.2.1).
        let space = of.or(&mut self.space);
        space.on_answered(now);
        if newly.raised_largest {
            self.recovery.check_ecn(space, counts, newly);
        }
        self.recovery.on_newly_acked(now, delay, newly);
        if backoff == Backoff::Ends && self.recovery.timeouts.end_backoff() {
            return Answer::AfterSilence;
        }
        Answer::Expected
    }

    /// A packet that left in an epoch has arrived, and shows what size gets through.
    pub(crate) fn on_delivered(&mut self, now: Instant, epoch: Epoch, size: u16) {
        let measured = &mut self.recovery.measured;
        if measured.epoch == epoch && measured.mtu.on_delivered(now, size) {
            measured.tell_mtu();
        }
    }

    /// The controller's share of an ACK, once its losses are known. `group` is what coupled
    /// controllers see. Returns what the controller was told.
    pub(crate) fn on_packets_acked(
        &mut self,
        now: Instant,
        newly: &NewlyAcked,
        group: &[PathWindow],
    ) -> congestion::Ack {
        let LossRecovery { measured, app_limited, .. } = &mut self.recovery;
        if let Some(sent_at) = newly.ce_sent_at {
            measured.controller.on_ecn_ce(now, sent_at);
        }
        let ack = congestion::Ack {
            now,
            bytes: newly.bytes,
            largest_sent_at: newly.newest_sent_at.unwrap_or(now),
            in_flight_before: newly.in_flight_before,
            app_limited: *app_limited,
            ce_bytes: newly.ce_bytes,
            rtt: measured.rtt.for_congestion(),
            adjusted_rtt: measured
                .rtt
                .first_sample_at()
                .map_or(Duration::ZERO, |_| measured.rtt.latest_adjusted()),
        };
        measured.controller.on_ack(&ack, group);
        ack
    }
}

impl NewlyAcked {
    /// By how many numbers packets that were acknowledged before have overtaken packet `number`.
    fn overtaken_by(&self, number: u64) -> Option<u64> {
        self.largest_before?.checked_sub(number)
    }
}

impl LossRecovery {
    /// Packets that were declared lost have arrived after all.
    pub(super) fn on_spurious_losses(&mut self, now: Instant, newly: &NewlyAcked) {
        let mut undo = false;
        // They are on record until others are lost, through a pause as well. The ACK of what arrived before it may
        // have been lost; the one that comes after it says nothing of how late that was.
        let horizon = (self.measured.rtt.pto_base() + MAX_ACK_DELAY) * SPURIOUS_HORIZON;
        self.thresholds.on_spurious_ack();
        for packet in &newly.spurious {
            let overtaken_by = newly.overtaken_by(packet.number).unwrap_or(0);
            let age = self.timeouts.known_age(now - packet.sent_at, &self.measured.rtt);
            let age = age.filter(|age| *age <= horizon);
            self.thresholds.on_spurious(overtaken_by, age.unwrap_or_default(), &self.measured.rtt);
            if let Some(age) = age
                && self.thresholds.is_reordering_known()
            {
                self.measured.rtt.update(now, age, Duration::ZERO);
            }
            undo |= self.event.on_spurious(packet.event);
        }
        // What was not counted as lost takes no other loss back.
        let counted = newly.spurious.iter().filter(|packet| !packet.silent).count();
        for _ in 0..counted {
            self.measured.history.on_spurious();
            self.measured.steadiness.on_spurious();
        }
        self.loss.on_spurious_loss(counted as u64);
        self.counters.spurious_losses += newly.spurious.len() as u64;
        if undo {
            self.measured.controller.on_spurious_loss(now);
        }
    }

    /// Compares the counts of an ACK with the marked packets that it acknowledges. New CE marks are
    /// one congestion event, dated by the largest packet, so that the controller reacts once per
    /// round trip (RFC 9002 section 7.3.2 and appendix B.9).
    fn check_ecn(&mut self, space: &mut PacketSpace, counts: Option<EcnCounts>, newly: &mut NewlyAcked) {
        let ecn = &mut self.measured.ecn;
        if !ecn.is_in_use() {
            return;
        }
        let marked = newly.packets.iter().filter(|(_, p)| p.is_marked()).map(|(_, p)| p.sent_at);
        let result = space.ecn.on_ack(counts, marked.clone().count() as u64);
        newly.ce_packets = result.as_ref().map_or(0, |&ce| ce);
        if result.is_ok_and(|ce| ce > 0) {
            let newest = newly.packets.iter().map(|(_, p)| p.sent_at).max();
            newly.ce_sent_at = newly.largest_sent_at.or(newest);
        }
        ecn.on_checked(result, marked);
    }

    /// Packets that were overtaken have arrived. Where they are known to come late, they are what
    /// round trips take as much as those that nothing overtook, which alone would be measured
    /// otherwise (RFC 9002 section 5.1). They are acknowledged at once.
    fn on_late(&mut self, now: Instant, newly: &NewlyAcked) {
        let Self { measured, thresholds, timeouts, .. } = self;
        for (number, packet) in newly.packets.iter().filter(|(_, p)| p.went_over(measured.epoch)) {
            if let Some(overtaken_by) = newly.overtaken_by(*number) {
                let age = timeouts.known_age(now - packet.sent_at, &measured.rtt);
                thresholds.on_late(overtaken_by, age.unwrap_or_default(), &measured.rtt);
                if let Some(age) = age
                    && thresholds.is_reordering_known()
                {
                    measured.rtt.update(now, age, Duration::ZERO);
                }
            }
        }
    }

    /// Round-trip time, what is in flight, and the rate of delivery.
    fn on_newly_acked(&mut self, now: Instant, delay: Duration, newly: &mut NewlyAcked) {
        self.on_late(now, newly);
        let measured = &mut self.measured;
        // A packet from before the path moved says nothing about where it runs now (RFC 9000
        // section 9.4). Nor does one whose ACK this host has slept through.
        if let Some(age) = newly.largest_sent_at.map(|sent_at| now - sent_at)
            && newly.largest_epoch == measured.epoch
            && self.timeouts.account_for(age - delay, &measured.rtt)
        {
            measured.on_round_trip(now, age, delay);
        }
        let (packets, epoch) = (&newly.packets, measured.epoch);
        let here = packets.iter().map(|(_, p)| p).filter(|p| p.went_over(epoch));
        newly.in_flight_before = measured.in_flight;
        newly.bytes = here.clone().filter(|p| p.is_in_flight()).map(|p| u64::from(p.size)).sum();
        measured.leave_flight(newly.bytes);
        if let Some(newest) = here.map(|p| p.sent_at).max() {
            self.delivery.on_acked(now, newly.bytes, newest, &measured.rtt);
        }
        self.counters.packets_acked += packets.len() as u64;
        newly.newest_sent_at = packets.iter().map(|(_, p)| p.sent_at).max();
        let count = packets.len() as u64;
        newly.ce_bytes = newly.bytes * newly.ce_packets.min(count) / count.max(1);
    }
}

impl PacketSpace {
    /// Applies an ACK frame's ranges (newest first) and moves the newly acknowledged records into
    /// `newly`.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION for a packet number that was never sent (RFC 9000 sections 13.1 and
    /// 21.4). What the frame said of others may have been applied by then.
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
        newly.largest_before = self.largest_acked;
        newly.raised_largest = is_new;
        // What left for other addresses says nothing about the path's (RFC 9000 section 9.4).
        let sample = self.sent.get(largest).filter(|p| is_new && p.went_over(p.epoch));
        newly.largest_sent_at = sample.map(|p| p.sent_at);
        newly.largest_epoch = sample.map(|p| p.epoch).unwrap_or_default();
        newly.ce_packets = 0;
        self.largest_acked = Some(self.largest_acked.map_or(largest, |l| l.max(largest)));
        for range in ranges {
            if self.has_left_out(&range) {
                return Err(never_sent());
            }
            self.lost.take(&range, &mut newly.spurious);
            let mut from = *range.start();
            while let Some(number) = self.sent.next_recorded(from, *range.end()) {
                self.move_acked(number, &mut newly.packets);
                from = number + 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        NetworkPath, PacketPurpose, TransportConfig,
        path::{
            probe::{Company, Urgency},
            sent::Removed,
            space::test_support::{at, space_with},
        },
        wire::{ConnectionId, PathId},
    };

    /// To 192.0.2.`host`.
    fn network(host: u8) -> NetworkPath {
        let end = |host: u8, port: u16| ([192, 0, 2, host], port).into();
        NetworkPath { local: end(1, 1), remote: end(host, 2) }
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
    fn acks_of_packets_from_before_a_move_tell_the_new_controller_no_round_trip_time() {
        let config = TransportConfig::default();
        let mut path = Path::new(PathId::ZERO, network(2), &config, at(0));
        path.recovery.measured.on_round_trip(at(0), Duration::from_millis(50), Duration::ZERO);
        path.record_for_test(0, SentPacket::for_test(at(0)));
        path.move_to(at(10), network(3), ConnectionId::EMPTY, &config, None);
        let epoch = path.recovery.measured.epoch;
        path.record_for_test(1, SentPacket { epoch, ..SentPacket::for_test(at(10)) });
        let mut newly = NewlyAcked::default();
        let mut acked = |number: u64, now| {
            path.space.on_ack(number, [number..=number].into_iter(), &mut newly).unwrap();
            path.on_newly_acked(now, Space::Data, None, Duration::ZERO, Backoff::Ends, &mut newly);
            path.on_packets_acked(now, &newly, &[])
        };
        let told = acked(0, at(50));
        assert_eq!((told.rtt, told.adjusted_rtt), (congestion::Rtt::default(), Duration::ZERO));
        let told = acked(1, at(610));
        assert_eq!((told.rtt.latest, told.rtt.min), (Duration::from_millis(600), Duration::from_millis(600)));
    }

    fn path_of_50_ms() -> Path {
        let mut path = Path::new(PathId::ZERO, network(2), &TransportConfig::default(), at(0));
        path.recovery.measured.on_round_trip(at(0), Duration::from_millis(50), Duration::ZERO);
        path
    }

    /// One packet is acknowledged, and no other.
    fn acked(path: &mut Path, number: u64, now: Instant) {
        let mut newly = NewlyAcked::default();
        path.space.on_ack(number, [number..=number].into_iter(), &mut newly).unwrap();
        path.on_newly_acked(now, Space::Data, None, Duration::ZERO, Backoff::Ends, &mut newly);
    }

    /// As on a laptop whose clock goes on while it sleeps. One sample of hours made the probe timeout hours long, and
    /// the idle timeout three of those.
    #[test]
    fn acks_that_this_host_has_slept_through_tell_no_round_trip_time() {
        const HOURS: u64 = 10_000_000;
        for timer_comes_first in [false, true] {
            let mut path = path_of_50_ms();
            for number in 0..2 {
                path.record_for_test(number, SentPacket::for_test(at(number)));
            }
            let before = path.rtt().pto_base();
            if timer_comes_first {
                path.on_probe_timeout(at(HOURS), Company::Alone);
            }
            acked(&mut path, 0, at(HOURS));
            path.record_for_test(2, SentPacket::for_test(at(HOURS)));
            acked(&mut path, 1, at(HOURS + 1));
            assert_eq!((path.rtt().pto_base(), path.rtt().latest()), (before, Duration::from_millis(50)));
            acked(&mut path, 2, at(HOURS + 60));
            assert_eq!(path.rtt().latest(), Duration::from_millis(60));
        }
    }

    /// Nor for how long what comes late is to be waited for, whether it was declared lost or not; by how many it was
    /// overtaken does count.
    #[test]
    fn late_packets_whose_acks_this_host_has_slept_through_ask_for_no_patience() {
        let awake = at(10_000_000);
        for was_lost in [false, true] {
            let mut path = path_of_50_ms();
            let recovery = &mut path.recovery;
            for _ in 0..3 {
                recovery.thresholds.on_spurious_ack();
                recovery.thresholds.on_spurious(4, Duration::from_millis(50), &recovery.measured.rtt);
            }
            assert!(recovery.thresholds.is_reordering_known());
            let before = recovery.thresholds.age(&recovery.measured.rtt);
            let late = SentPacket::for_test(at(0));
            let mut newly = NewlyAcked { largest_before: Some(16), ..NewlyAcked::default() };
            if was_lost {
                newly.spurious.push(LostPacket { number: 7, sent_at: late.sent_at, event: 0, silent: false });
                recovery.on_spurious_losses(awake, &newly);
            } else {
                newly.packets.push((7, late));
                recovery.on_late(awake, &newly);
            }
            let LossRecovery { thresholds, measured, .. } = recovery;
            assert_eq!((thresholds.age(&measured.rtt), thresholds.packets()), (before, 10), "{was_lost}");
            assert_eq!(measured.rtt.latest(), Duration::from_millis(50));
        }
    }

    /// A lost packet came late, the ACK of that was lost, and the application paused: the next ACK names it. That made
    /// the probe timeout of a path of 36 ms last for seconds, and a lost packet after the pause a standstill.
    #[test]
    fn what_came_late_before_a_pause_tells_no_round_trip_time_after_it() {
        let mut path = path_of_50_ms();
        let recovery = &mut path.recovery;
        for _ in 0..3 {
            recovery.thresholds.on_spurious_ack();
            recovery.thresholds.on_spurious(4, Duration::from_millis(50), &recovery.measured.rtt);
        }
        let state = |recovery: &LossRecovery| {
            let rtt = &recovery.measured.rtt;
            (recovery.thresholds.age(rtt), rtt.pto_base(), rtt.latest())
        };
        let before = state(recovery);
        let mut newly = NewlyAcked { largest_before: Some(16), ..NewlyAcked::default() };
        newly.spurious.push(LostPacket { number: 7, sent_at: at(0), event: 0, silent: false });
        recovery.on_spurious_losses(at(8_400), &newly);
        assert_eq!(state(recovery), before);
        newly.spurious[0].sent_at = at(8_300);
        recovery.on_spurious_losses(at(8_400), &newly);
        assert_eq!(recovery.measured.rtt.latest(), Duration::from_millis(100), "without a pause it does");
    }

    #[test]
    fn a_first_ack_that_this_host_has_slept_through_tells_no_round_trip_time() {
        let mut path = Path::new(PathId::ZERO, network(2), &TransportConfig::default(), at(0));
        path.record_for_test(0, SentPacket::for_test(at(0)));
        acked(&mut path, 0, at(10_000_000));
        assert_eq!(path.rtt().first_sample_at(), None);
    }

    /// It has probed all the while.
    #[test]
    fn a_way_that_takes_minutes_by_now_is_measured() {
        for company in [Company::Alone, Company::Another] {
            let mut path = path_of_50_ms();
            path.record_for_test(0, SentPacket::for_test(at(1_000)));
            let answer = at(1_000 + 300_000);
            let due = |path: &Path| path.probe_deadline(Duration::ZERO, company, Urgency::Patient).unwrap();
            while due(&path) < answer {
                let now = due(&path);
                path.on_probe_timeout(now, company);
            }
            acked(&mut path, 0, answer);
            assert_eq!(path.rtt().latest(), Duration::from_secs(300), "{company:?}");
        }
    }

    /// As a client's whose translator has forgotten it: it was suspect, it moves, and it answers.
    #[test]
    fn the_answer_that_ends_a_silence_may_come_from_elsewhere() {
        let config = TransportConfig::default();
        let mut path = Path::new(PathId::ZERO, network(2), &config, at(0));
        for number in 0..2 {
            path.record_for_test(number, SentPacket::for_test(at(number)));
        }
        path.on_probe_timeout(at(1_000), Company::Alone);
        assert!(path.is_suspect());
        path.move_to(at(1_500), network(3), ConnectionId::EMPTY, &config, None);
        assert!(!path.is_suspect(), "nobody knows yet");
        let mut newly = NewlyAcked::default();
        let mut acked = |number: u64| {
            path.space.on_ack(number, [number..=number].into_iter(), &mut newly).unwrap();
            path.on_newly_acked(at(1_500), Space::Data, None, Duration::ZERO, Backoff::Ends, &mut newly)
        };
        assert_eq!([acked(0), acked(1)], [Answer::AfterSilence, Answer::Expected]);
    }

    /// A challenge to where the path was, or an answer to who probes from where it may be soon.
    #[test]
    fn packets_to_other_addresses_tell_no_round_trip_time() {
        for (purpose, sample) in [(PacketPurpose::Data, Some(at(2))), (PacketPurpose::OffPath, None)] {
            let mut space = space_with(2);
            space.on_sent(2, Some(SentPacket { purpose, ..SentPacket::for_test(at(2)) }));
            let mut newly = NewlyAcked::default();
            space.on_ack(2, [0..=2].into_iter(), &mut newly).unwrap();
            assert_eq!((newly.packets.len(), newly.largest_sent_at), (3, sample));
        }
    }

    #[test]
    fn a_loss_that_was_none_is_reported_once() {
        let mut space = space_with(5);
        let mut newly = NewlyAcked::default();
        space.on_ack(4, [4..=4].into_iter(), &mut newly).unwrap();
        space.remove(0, Removed::Lost);
        space.lost.push(LostPacket { number: 0, sent_at: at(0), event: 7, silent: false });
        for expected in [1, 0] {
            space.on_ack(4, [4..=4, 0..=0].into_iter(), &mut newly).unwrap();
            assert_eq!(newly.spurious.len(), expected);
        }
    }
}
