//! Loss detection and congestion control of one path (RFC 9002 sections 6 and 7).
//!
//! [`LossRecovery`] keeps the books; `newly_acked` and `probe` have its share of ACKs and probe
//! timeouts. What it finds lost it takes off the books and hands out as a [`LossOutcome`]: streams,
//! policy and repair have to hear of it.

use congestion::PathWindow;
use recovery::{PacketNumber, PathLoss};
use units::{Duration, Instant};

use super::{
    Path, PathCounters,
    delivery::Delivery,
    measured::Measured,
    mtu,
    probe::ProbeTimeouts,
    reordering::{LossEvent, LostPacket, ReorderingThresholds},
    rtt::RttEstimator,
    sent::{Removed, SentPacket},
    space::{PacketSpace, Space},
};
use crate::PacketPurpose;

/// Probe timeouts' worth of silence that establish persistent congestion (RFC 9002 section 7.6.1).
const PERSISTENT_CONGESTION_THRESHOLD: u64 = 3;
/// Probe timeouts for which a lost packet is remembered.
pub(super) const SPURIOUS_HORIZON: u64 = 8;

/// The state of RFC 9002 for one path.
pub(super) struct LossRecovery {
    pub(super) measured: Measured,
    pub(super) thresholds: ReorderingThresholds,
    pub(super) event: LossEvent,
    pub(super) timeouts: ProbeTimeouts,
    pub(super) delivery: Delivery,
    /// Loss history as FUSO and CoFUSO estimate it.
    pub(super) loss: PathLoss,
    /// The sender last stopped for want of data, not of window (RFC 9002 section 7.8).
    pub(super) app_limited: bool,
    pub(super) counters: PathCounters,
}

/// What the loss of a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossKind {
    /// The path lost it: controller and loss estimate have heard of it.
    OnPath,
    /// The path may carry no more than it does (RFC 9000 section 14.4).
    MtuProbe,
    /// It was off the path, or left before the path moved: today's addresses are not to blame.
    Elsewhere,
}

/// A packet that was declared lost.
#[derive(Debug)]
pub(crate) struct DeclaredLost {
    pub(crate) number: u64,
    pub(crate) kind: LossKind,
    /// A probe timeout has passed since it left.
    pub(crate) timed_out: bool,
    /// It left into a long silence while another path answered: it says nothing of the chance that the next packet
    /// is lost.
    silent: bool,
    pub(crate) packet: SentPacket,
}

/// What a round of loss detection has taken off a path's books. The buffers are used again.
#[derive(Debug, Default)]
pub(crate) struct LossOutcome {
    numbers: Vec<u64>,
    /// In number order.
    pub(crate) packets: Vec<DeclaredLost>,
    /// How many of them the path lost.
    pub(crate) on_path: u64,
}

impl LossOutcome {
    fn clear(&mut self) {
        self.numbers.clear();
        self.packets.clear();
        self.on_path = 0;
    }
}

/// What a round of loss detection is about.
struct Round<'a> {
    now: Instant,
    max_ack_delay: Duration,
    /// Whether its packets carry application data.
    data: bool,
    group: &'a [PathWindow],
}

/// What the packets lost in one round say together.
#[derive(Default)]
struct Losses {
    bytes: u64,
    newest: Option<Instant>,
    /// The smallest of the path's largest datagrams among them, in bytes.
    full: Option<u16>,
    /// Whether one that every path should carry is among them.
    base: bool,
    /// Those that left into a long silence.
    silent: u64,
}

impl Path {
    /// Declares packets of a space lost by number or age (RFC 9002 section 6.1). `group` is what
    /// coupled controllers see.
    pub(crate) fn detect_lost(
        &mut self,
        now: Instant,
        of: Space<'_>,
        max_ack_delay: Duration,
        group: &[PathWindow],
        lost: &mut LossOutcome,
    ) {
        lost.clear();
        let round = Round { now, max_ack_delay, data: of.is_data(), group };
        let space = of.or(&mut self.space);
        let LossRecovery { measured, thresholds, .. } = &self.recovery;
        space.detect_lost(now, &measured.rtt, thresholds, &mut lost.numbers);
        let narrow = self.recovery.declare_lost(&round, space, lost);
        if narrow {
            self.ask_for_width();
        }
    }

    /// Declares one packet with application data lost, whatever loss detection would say.
    pub(crate) fn give_up(
        &mut self,
        now: Instant,
        number: u64,
        max_ack_delay: Duration,
        group: &[PathWindow],
        lost: &mut LossOutcome,
    ) {
        lost.clear();
        lost.numbers.push(number);
        let round = Round { now, max_ack_delay, data: true, group };
        if self.recovery.declare_lost(&round, &mut self.space, lost) {
            self.ask_for_width();
        }
    }
}

impl LossRecovery {
    pub(super) fn new(measured: Measured) -> Self {
        Self {
            measured,
            thresholds: ReorderingThresholds::default(),
            event: LossEvent::default(),
            timeouts: ProbeTimeouts::default(),
            delivery: Delivery::default(),
            loss: PathLoss::default(),
            app_limited: true,
            counters: PathCounters::default(),
        }
    }

    /// The path runs elsewhere: neither its reordering nor its rate is known.
    pub(super) fn forget_reordering(&mut self) {
        self.delivery.forget_rate();
        (self.thresholds, self.event) = (ReorderingThresholds::default(), LossEvent::default());
    }

    /// Takes the packets that `lost` names off the books. True if the path seems to carry small
    /// packets alone.
    fn declare_lost(&mut self, round: &Round<'_>, space: &mut PacketSpace, lost: &mut LossOutcome) -> bool {
        if lost.numbers.is_empty() {
            return false;
        }
        let persistent = self.is_persistent_congestion(space, round.max_ack_delay, &lost.numbers);
        let silence = persistent && self.timeouts.in_company();
        space.lost.forget_before(self.lost_horizon(round));
        let mut losses = Losses::default();
        let mut is_probed = false;
        for &number in &lost.numbers {
            let Some(packet) = space.remove(number, Removed::Lost) else { continue };
            let kind = self.judge_loss(round, &packet);
            // Data goes elsewhere once the path is probed. Copies follow the probes (docs/decisions/0042).
            let silent = silence
                && match packet.purpose {
                    PacketPurpose::Probe => true,
                    PacketPurpose::Copy => is_probed,
                    _ => false,
                };
            is_probed = silent;
            if kind == LossKind::OnPath {
                if self.measured.mtu.is_full(packet.size) {
                    losses.full = Some(losses.full.map_or(packet.size, |least| least.min(packet.size)));
                }
                losses.base |= mtu::is_base(packet.size);
                losses.bytes += u64::from(packet.size);
                losses.newest = losses.newest.max(Some(packet.sent_at));
                losses.silent += u64::from(silent);
                lost.on_path += 1;
                space.lost.push(LostPacket { number, sent_at: packet.sent_at, event: 0, silent });
            }
            let timed_out = self.timeouts.last().is_some_and(|at| at >= packet.sent_at);
            lost.packets.push(DeclaredLost { number, kind, timed_out, silent, packet });
        }
        let Some(newest) = losses.newest else { return false };
        let (event, narrow) = self.on_packets_lost(round, lost.on_path, newest, &losses);
        if round.data {
            self.learn_losses(round.now, lost);
        }
        if persistent {
            self.measured.controller.on_persistent_congestion(round.now);
            self.measured.rtt.on_persistent_congestion(round.now);
        }
        space.lost.assign_last(lost.on_path as usize, event);
        narrow
    }

    /// Notes what the loss of a single packet says of the path.
    fn judge_loss(&mut self, round: &Round<'_>, packet: &SentPacket) -> LossKind {
        let measured = &mut self.measured;
        if packet.is_marked() {
            measured.ecn.on_lost(packet.sent_at);
        }
        let here = packet.epoch == measured.epoch;
        if here && packet.probes_mtu(measured.mtu.current()) {
            measured.mtu.on_lost(round.now, packet.size);
            self.counters.untracked += 1;
            if packet.is_in_flight() {
                measured.leave_flight(u64::from(packet.size));
            }
            return LossKind::MtuProbe;
        }
        if !here || !packet.is_in_flight() {
            self.counters.untracked += 1;
            return LossKind::Elsewhere;
        }
        LossKind::OnPath
    }

    /// Remembers how the path loses, unless a queue has overflowed. What left into a long silence says nothing: the
    /// probes of an hour are thousands.
    fn learn_losses(&mut self, now: Instant, lost: &LossOutcome) {
        let measured = &mut self.measured;
        let dropped = measured.rtt.shows_queue() || measured.controller.suspects_load();
        for packet in lost.packets.iter().filter(|packet| packet.kind == LossKind::OnPath && !packet.silent) {
            if dropped {
                measured.history.on_dropped();
            } else {
                measured.history.on_lost(PacketNumber(packet.number));
                measured.steadiness.on_lost(now, packet.number);
            }
        }
    }

    /// Packets of the path are lost (RFC 9002 appendix B.8). Returns the number of the loss event,
    /// and whether the path seems to carry small packets alone.
    fn on_packets_lost(
        &mut self,
        round: &Round<'_>,
        packets: u64,
        largest_sent_at: Instant,
        losses: &Losses,
    ) -> (u32, bool) {
        let Losses { bytes, full, base, silent, .. } = *losses;
        let measured = &mut self.measured;
        measured.leave_flight(bytes);
        self.counters.packets_lost += packets;
        self.counters.bytes_lost += bytes;
        self.loss.on_lost(packets - silent);
        let (now, rtt) = (round.now, measured.rtt.for_congestion());
        let loss = congestion::Loss { now, bytes, packets: packets as u32, largest_sent_at, rtt };
        let window = measured.controller.window();
        measured.controller.on_loss(&loss, round.group);
        let reduced = measured.controller.window() < window;
        self.thresholds.on_lost(now, largest_sent_at);
        let event = self.event.on_lost(packets, reduced);
        if full.is_some_and(|size| measured.mtu.on_full_lost(now, size)) {
            measured.tell_mtu();
        }
        (event, base && measured.mtu.on_base_lost())
    }

    /// Whether packets about to be declared lost establish persistent congestion (RFC 9002 section
    /// 7.6.2). Only those that are found lost together are looked at: after a silence that long,
    /// one ACK finds them all.
    fn is_persistent_congestion(
        &self,
        space: &PacketSpace,
        max_ack_delay: Duration,
        numbers: &[u64],
    ) -> bool {
        let rtt = &self.measured.rtt;
        let Some(first_sample_at) = rtt.first_sample_at() else { return false };
        let period = (rtt.pto_base() + max_ack_delay) * PERSISTENT_CONGESTION_THRESHOLD;
        space.longest_loss(numbers, first_sample_at) > period
    }

    /// ACKs of lost packets that were sent before this moment come too late to matter.
    fn lost_horizon(&self, round: &Round<'_>) -> Instant {
        round.now - (self.measured.rtt.pto_base() + round.max_ack_delay) * SPURIOUS_HORIZON
    }
}

impl PacketSpace {
    /// Finds the packets that are lost by now, in number order, and sets the time at which the next
    /// one would be.
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
            if largest_acked - number < thresholds.packets() && packet.sent_at + delay > now {
                // Those above are younger, and were overtaken by fewer.
                self.loss_time = Some(packet.sent_at + delay);
                break;
            }
            lost.push(number);
        }
    }

    /// The longest time between two of the packets `lost`, which are about to be removed, with no
    /// acknowledged packet between them. Packets sent up to `first_sample_at`, before there was a
    /// round-trip time, do not count (RFC 9002 section 7.6.2).
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
    use super::*;
    use crate::{
        NetworkPath, TransportConfig,
        crypto::Level,
        path::{
            MAX_ACK_DELAY,
            newly_acked::NewlyAcked,
            probe::Company,
            sending::NewPacket,
            sent::SentFrames,
            source::Source,
            space::test_support::{at, space_with},
        },
        wire::PathId,
    };

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
        lost.iter().for_each(|n| drop(space.remove(*n, Removed::Lost)));
        assert_eq!(space.loss_time, Some(at(92)));
        space.detect_lost(at(92), &rtt_of(80), &ReorderingThresholds::default(), &mut lost);
        assert_eq!(lost, [2]);
    }

    #[test]
    fn persistent_congestion_spans_lost_packets_with_no_acknowledged_one_between() {
        // Sent at 0 to 9 ms; 4 bears only an ACK and has no record, 7 was acknowledged.
        let mut space = PacketSpace::default();
        for n in 0..10 {
            space.on_sent(n, (n != 4).then(|| SentPacket::for_test(at(n))));
        }
        space.remove(7, Removed::Acked);
        let ms = Duration::from_millis;
        assert_eq!(space.longest_loss(&[1, 2, 3, 5, 6, 8, 9], at(0)), ms(5));
        assert_eq!(space.longest_loss(&[1, 2, 3, 5, 6, 8, 9], at(2)), ms(3), "3 to 6");
        assert_eq!(space.longest_loss(&[6, 8], at(0)), Duration::ZERO);
    }

    /// A path of 50 ms.
    fn path() -> Path {
        let end = |port: u16| ([127, 0, 0, 1], port).into();
        let network = NetworkPath { local: end(1), remote: end(2) };
        let mut path = Path::new(PathId::ZERO, network, &TransportConfig::default(), at(0));
        path.recovery.measured.rtt = rtt_of(50);
        path
    }

    fn send(path: &mut Path, ms: u64, purpose: PacketPurpose) {
        let packet = NewPacket {
            number: path.space.next_number(),
            level: Level::OneRtt,
            size: 1_200,
            purpose,
            ack_eliciting: true,
            frames: SentFrames::default(),
            source: Source::Nothing,
        };
        path.on_packet_sent(at(ms), Space::Data, packet);
    }

    /// The latest packet is acknowledged, and none before it. Returns how many the path has lost.
    fn answer_latest(path: &mut Path, ms: u64) -> u64 {
        let latest = path.space.next_number() - 1;
        path.space.on_ack(latest, [latest..=latest].into_iter(), &mut NewlyAcked::default()).unwrap();
        let mut lost = LossOutcome::default();
        path.detect_lost(at(ms), Space::Data, MAX_ACK_DELAY, &[], &mut lost);
        lost.on_path
    }

    /// A path falls silent for a minute: three packets with data, and the probes of each second after them.
    fn silent_for_a_minute(company: Company) -> Path {
        let mut path = path();
        for n in 0..3 {
            send(&mut path, 1_000 + n, PacketPurpose::Data);
        }
        for n in 2..=62 {
            path.on_probe_timeout(at(n * 1_000), company);
            send(&mut path, n * 1_000, PacketPurpose::Probe);
        }
        assert_eq!(answer_latest(&mut path, 62_050), 63, "all but the last probe");
        assert_eq!(path.stats().packets_lost, 63, "statistics hide nothing");
        path
    }

    #[test]
    fn probes_of_a_silence_are_no_chance_losses_where_another_path_answers() {
        let path = silent_for_a_minute(Company::Another);
        assert_eq!(path.recovery.loss.lost(), 3);
        assert!(path.known_loss() < 0.03, "three of 64, and fifty: {}", path.known_loss());
    }

    #[test]
    fn probes_of_a_silence_are_losses_like_others_where_no_path_answers() {
        let path = silent_for_a_minute(Company::Alone);
        assert_eq!(path.recovery.loss.lost(), 63);
        assert!(path.known_loss() > 0.5, "{}", path.known_loss());
    }

    /// A packet and its copy, and then the probes of a silence of seven seconds, with the copies that follow them.
    fn copied_into_a_silence(company: Company) -> Path {
        let mut path = path();
        send(&mut path, 1_000, PacketPurpose::Data);
        send(&mut path, 1_001, PacketPurpose::Copy);
        for n in 2..=8 {
            path.on_probe_timeout(at(n * 1_000), company);
            send(&mut path, n * 1_000, PacketPurpose::Probe);
            let copies = if n < 8 { 6 } else { 0 };
            (1..=copies).for_each(|nth| send(&mut path, n * 1_000 + nth * 6, PacketPurpose::Copy));
        }
        assert_eq!(answer_latest(&mut path, 8_050), 44, "all but the last probe");
        path
    }

    #[test]
    fn copies_that_follow_the_probes_of_a_silence_say_no_more_than_those() {
        let path = copied_into_a_silence(Company::Another);
        assert_eq!(path.recovery.loss.lost(), 2, "what left before it");
        assert!(path.known_loss() < 0.05, "{}", path.known_loss());
        let path = copied_into_a_silence(Company::Alone);
        assert_eq!(path.recovery.loss.lost(), 44);
        assert!(path.known_loss() > 0.3, "{}", path.known_loss());
    }

    /// As of a link that holds back what it has, and lets it go in another order. They were not counted: the path's
    /// other losses, of which each took one back, have not come with them.
    #[test]
    fn what_left_into_a_silence_and_comes_late_takes_no_other_loss_back() {
        let mut path = copied_into_a_silence(Company::Another);
        let known = |path: &Path| (path.recovery.loss.lost(), path.known_loss());
        let (before, mut newly) = (known(&path), NewlyAcked::default());
        path.space.on_ack(44, [2..=44].into_iter(), &mut newly).unwrap();
        assert_eq!(newly.spurious.len(), 42);
        path.recovery.on_spurious_losses(at(8_060), &newly);
        assert_eq!(known(&path), before);
        path.space.on_ack(44, [0..=1].into_iter(), &mut newly).unwrap();
        path.recovery.on_spurious_losses(at(8_060), &newly);
        assert_eq!(path.recovery.loss.lost(), 0, "what left before it was counted");
    }

    /// As of an interface that leads nowhere any more, while another carries everything.
    #[test]
    fn of_a_silence_without_end_the_latest_probes_are_on_record() {
        let mut path = path();
        send(&mut path, 1_000, PacketPurpose::Data);
        for n in 2..=2_000 {
            path.on_probe_timeout(at(n * 1_000), Company::Another);
            send(&mut path, n * 1_000, PacketPurpose::Probe);
        }
        let stats = path.stats();
        assert_eq!((stats.packets_sent, stats.packets_outstanding), (2_000, 257), "of the data, too");
        assert_eq!((stats.packets_untracked, stats.packets_lost), (2_000 - 257, 0));
        assert_eq!(stats.in_flight, 257 * 1_200);
        assert_eq!(answer_latest(&mut path, 2_000_050), 256, "all but the last probe");
        assert_eq!(path.recovery.loss.lost(), 1, "and the data is what the path has lost by chance");
    }

    #[test]
    fn a_route_that_is_longer_after_a_silence_is_soon_no_queue() {
        let mut path = path();
        send(&mut path, 1_000, PacketPurpose::Data);
        send(&mut path, 20_000, PacketPurpose::Probe);
        send(&mut path, 30_000, PacketPurpose::Probe);
        let ms = Duration::from_millis;
        path.recovery.measured.rtt.update(at(30_600), ms(600), Duration::ZERO);
        assert_eq!(answer_latest(&mut path, 30_600), 2);
        path.recovery.measured.rtt.update(at(39_900), ms(600), Duration::ZERO);
        assert!(path.rtt().shows_queue() && path.rtt().min() == ms(50));
        path.recovery.measured.rtt.update(at(41_000), ms(600), Duration::ZERO);
        assert!(!path.rtt().shows_queue() && path.rtt().min() == ms(600));
        assert_eq!(path.rtt().smoothed(), ms(600), "the average of three samples has not come so far");
    }

    #[test]
    fn a_probe_that_is_lost_without_a_silence_is_a_loss_like_others() {
        let mut path = path();
        path.on_probe_timeout(at(1_000), Company::Another);
        send(&mut path, 1_000, PacketPurpose::Probe);
        send(&mut path, 1_300, PacketPurpose::Data);
        assert_eq!((answer_latest(&mut path, 1_350), path.recovery.loss.lost()), (1, 1));
        assert!(path.known_loss() > 0.0);
    }
}
