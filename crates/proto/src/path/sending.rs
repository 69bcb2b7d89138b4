//! What a path notes of packets that leave, and whether more may: window, pacing, and the reason
//! why it stopped.

use rand_chacha::rand_core::RngCore;
use units::{BitRate, Duration, Instant};

use super::{
    Path,
    loss::LossRecovery,
    resent::Resent,
    sent::{Coding, Content, SentFrames, SentPacket},
    source::Source,
    space::Space,
};
use crate::{Ecn, PacketPurpose, crypto::Level};

/// In such a time congestion control lets a datagram go at least, whatever the round-trip time: where the clock
/// has jumped ahead before an ACK came, that may be hours, and the ACKs that would tell the right one are those
/// of packets which pacing holds back.
const LONGEST_GAP: Duration = Duration::from_secs(4);

/// A packet that has just been sealed.
pub(crate) struct NewPacket {
    pub(crate) number: u64,
    pub(crate) level: Level,
    pub(crate) size: usize,
    pub(crate) purpose: PacketPurpose,
    pub(crate) ack_eliciting: bool,
    pub(crate) frames: SentFrames,
    /// What is kept of its plaintext.
    pub(crate) source: Source,
}

impl NewPacket {
    /// Whether its ACK or loss will say something about the path.
    pub(crate) fn is_measured(&self) -> bool {
        self.ack_eliciting && self.purpose.is_measured()
    }

    /// Marked packets are those whose fate will be known.
    fn may_be_marked(&self) -> bool {
        let answered = self.ack_eliciting || self.level != Level::OneRtt;
        answered && self.purpose != PacketPurpose::OffPath
    }
}

impl Path {
    /// A packet leaves: it is recorded in its space, and counts towards window, pacing and the
    /// amplification limit.
    pub(crate) fn on_packet_sent(&mut self, now: Instant, of: Space<'_>, packet: NewPacket) {
        let (measured, size) = (packet.is_measured(), packet.size as u64);
        if packet.level == Level::OneRtt {
            if packet.frames.told.is_some() {
                self.space.received.on_packet_with_ack(now, packet.ack_eliciting);
            }
            if packet.frames.carries_data() || packet.frames.timed {
                self.quiet.on_activity(now);
            }
        }
        if packet.purpose != PacketPurpose::OffPath {
            self.address.budget.sent += size;
        }
        let (number, data) = (packet.number, of.is_data());
        let ecn = self.mark_for(&packet);
        let record = self.recovery.record(now, packet, ecn);
        if measured {
            self.last_activity = now;
            self.recovery.enter_flight(now, size, data);
        }
        let space = of.or(&mut self.space);
        space.on_sent(number, record);
        if self.recovery.measured.ecn.marked_last() {
            space.ecn.on_sent();
        }
    }

    /// Leaves a packet number out if that is due, and names a record that had better count as lost,
    /// if there is one.
    pub(crate) fn skip_number_if_due(&mut self, rng: &mut impl RngCore) -> Option<u64> {
        self.space.skip_number_if_due(rng);
        self.space.overdue()
    }

    /// Bytes that may be in flight: the controller's window, or what the application and the
    /// amplification limit leave of it.
    pub(crate) fn window(&self) -> u64 {
        let measured = &self.recovery.measured;
        let allowed = measured.controller.window().min(self.limits_window());
        allowed.min(measured.in_flight.saturating_add(self.budget_beside_challenges()))
    }

    /// Bytes that may still be put in flight.
    pub(crate) fn spare_window(&self) -> u64 {
        self.window().saturating_sub(self.in_flight())
    }

    /// Whether a datagram of full size may be put in flight.
    pub(crate) fn has_spare_datagram(&self) -> bool {
        self.spare_window() >= self.datagram_size() as u64
    }

    /// A batch leaves now; returns how it is marked.
    pub(crate) fn on_transmit(&mut self, now: Instant) -> Option<Ecn> {
        let measured = &mut self.recovery.measured;
        let marked = measured.ecn.marked_last();
        measured.ecn.on_transmit(now, measured.rtt.pto_base());
        marked.then_some(Ecn::Ect0)
    }

    /// The pacer holds a packet back until then.
    pub(crate) fn paced_until(&self) -> Option<Instant> {
        self.paced_until
    }

    pub(crate) fn wait_for_pacer(&mut self, until: Instant) {
        self.paced_until = Some(until);
    }

    pub(crate) fn forget_pacer(&mut self) {
        self.paced_until = None;
    }

    /// Nothing more leaves now: was it for want of data or of window? (RFC 9002 section 7.8;
    /// waiting for the pacer is neither.)
    pub(crate) fn note_limits(&mut self) {
        let spare = self.has_spare_datagram() && self.paced_until.is_none();
        self.recovery.app_limited = spare || self.is_held_back();
    }

    /// Fills the pacer up to now; returns how long it holds back a full datagram.
    pub(super) fn pace(&mut self, now: Instant) -> Duration {
        let (rate, size) = (self.pacing_rate(), self.datagram_size() as u64);
        let pacer = &mut self.recovery.measured.pacer;
        pacer.refill(now, rate);
        pacer.wait(size, rate)
    }

    /// The mark that a packet leaves with. Where a move is not settled, lost challenges bring the
    /// path back before a second timeout could blame the marks.
    fn mark_for(&self, packet: &NewPacket) -> Option<Ecn> {
        let recovery = &self.recovery;
        let settled = self.previous.is_none();
        let marked =
            settled && packet.may_be_marked() && recovery.measured.ecn.marks(recovery.timeouts.count());
        marked.then_some(Ecn::Ect0)
    }

    fn pacing_rate(&self) -> BitRate {
        self.limited(self.controllers_rate())
    }

    /// The rate at which congestion control lets packets go.
    pub(super) fn controllers_rate(&self) -> BitRate {
        let measured = &self.recovery.measured;
        if measured.rtt.first_sample_at().is_none() {
            return BitRate(u64::MAX);
        }
        let least = BitRate(self.datagram_size() as u64 * 8_000_000_000 / LONGEST_GAP.as_nanos());
        measured.controller.pacing_rate(&measured.rtt.for_congestion()).max(least)
    }
}

impl LossRecovery {
    /// Counts a packet; returns its record if anybody is to answer it.
    fn record(&mut self, now: Instant, packet: NewPacket, ecn: Option<Ecn>) -> Option<SentPacket> {
        let measured = &mut self.measured;
        measured.ecn.on_packet(now, ecn, packet.ack_eliciting);
        self.counters.packets_sent += 1;
        self.counters.bytes_sent += packet.size as u64;
        match packet.purpose {
            PacketPurpose::Copy => self.counters.copies_sent += 1,
            PacketPurpose::Repair => self.counters.repair_symbols_sent += 1,
            PacketPurpose::MtuProbe => measured.mtu.on_sent(),
            PacketPurpose::Data | PacketPurpose::Probe | PacketPurpose::OffPath => {}
        }
        if !packet.ack_eliciting {
            self.counters.untracked += 1;
            return None;
        }
        Some(SentPacket {
            sent_at: now,
            size: packet.size as u16,
            epoch: measured.epoch,
            purpose: packet.purpose,
            frames: packet.frames,
            source: packet.source,
            resent: Resent::No,
            coding: Coding::None,
            content: Content::Awaited,
            ecn,
        })
    }

    fn enter_flight(&mut self, now: Instant, size: u64, data: bool) {
        let measured = &mut self.measured;
        measured.in_flight += size;
        self.loss.on_sent(1);
        if data {
            measured.history.on_sent();
            measured.steadiness.on_sent(now);
        }
        measured.pacer.on_sent(size);
        measured.controller.on_sent(now, size, measured.in_flight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetworkPath, config::TransportConfig, wire::PathId};

    #[test]
    fn a_path_whose_clock_has_jumped_ahead_goes_on_within_seconds() {
        let end = |port: u16| ([127, 0, 0, 1], port).into();
        let network = NetworkPath { local: end(1), remote: end(2) };
        let mut path = Path::new(PathId::ZERO, network, &TransportConfig::default(), Instant::ORIGIN);
        let weeks = Duration::from_secs(3_000_000);
        path.recovery.measured.rtt.update(Instant::ORIGIN, weeks, Duration::ZERO);
        assert_eq!(path.pace(Instant::ORIGIN), Duration::ZERO, "a burst");
        path.recovery.measured.pacer.on_sent(12_000);
        assert_eq!(path.pace(Instant::ORIGIN), LONGEST_GAP);
    }
}
