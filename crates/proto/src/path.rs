//! One path: its addresses, and the books that are kept of what travels between them.
//!
//! A path is told what happens and answers with an outcome; its fields are its own. The connection
//! hands outcomes on to streams, policy and repair.
//!
//! | it is told                            | in            | outcome                            |
//! |---------------------------------------|---------------|------------------------------------|
//! | [`Path::on_packet_sent`]              | `sending`     |                                    |
//! | [`Path::on_ack_received`] and the like | `newly_acked` | [`newly_acked::NewlyAcked`]       |
//! | [`Path::detect_lost`]                 | `loss`        | [`loss::LossOutcome`]              |
//! | [`Path::on_probe_timeout`]            | `probe`       | how many in a row                  |
//! | [`Path::on_response`] and the like    | `validation`  | whether it opens, or is given up   |
//! | [`Path::move_to`] and the like        | `addresses`   | connection ids to give back        |

pub(crate) mod addresses;
mod delivery;
pub(crate) mod ecn;
mod late;
pub(crate) mod lifecycle;
pub(crate) mod limits;
pub(crate) mod loss;
mod measured;
mod mtu;
pub(crate) mod newly_acked;
mod pacer;
pub(crate) mod probe;
mod protected;
mod quiet;
pub(crate) mod received;
mod reordering;
mod resent;
pub(crate) mod rtt;
pub(crate) mod sending;
pub(crate) mod sent;
pub(crate) mod snapshot;
pub(crate) mod source;
pub(crate) mod space;
pub(crate) mod status;
mod steadiness;
pub(crate) mod table;
pub(crate) mod validation;

use units::{Duration, Instant};

use self::{
    addresses::{Candidate, Previous},
    lifecycle::Lifecycle,
    loss::LossRecovery,
    measured::Measured,
    protected::{Protection, Unreported},
    quiet::Quiet,
    received::ReceivedPackets,
    rtt::RttEstimator,
    sent::{Epoch, SentPacket, SentPackets},
    space::PacketSpace,
    status::PathStatuses,
    validation::PeerAddress,
};
use crate::{
    GRANULARITY, NetworkPath, PathLimits,
    config::TransportConfig,
    keys::PhaseBounds,
    path_store::{Finding, Remembered},
    stats::PathStats,
    wire::{ConnectionId, PathId},
};

/// Our max_ack_delay: the longest that an ACK waits for company (RFC 9000 section 18.2).
pub(crate) const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

/// Longest round trip of a path within one site, where larger packets than Ethernet's are at home.
const SHORT_PATH: Duration = Duration::from_millis(2);
/// Bytes that a path has sent before it is asked for more than what is usual: short connections are
/// over by then.
const BUSY_PATH: u64 = 256 << 10;

/// Counters that only ever grow.
#[derive(Clone, Copy, Debug, Default)]
struct PathCounters {
    packets_sent: u64,
    bytes_sent: u64,
    packets_received: u64,
    bytes_received: u64,
    packets_lost: u64,
    bytes_lost: u64,
    spurious_losses: u64,
    packets_acked: u64,
    /// Pure ACKs, lost probes for the MTU, packets given up with their keys, old probes of a silence.
    untracked: u64,
    copies_sent: u64,
    repair_symbols_sent: u64,
    packets_rebuilt_by_peer: u64,
    packets_mended: u64,
    unprotected: u64,
}

/// A path of a connection.
pub(crate) struct Path {
    id: PathId,
    network: NetworkPath,
    lifecycle: Lifecycle,
    /// What is known of the peer's address.
    address: PeerAddress,
    /// Where the path was before it moved, until the move is settled.
    previous: Option<Box<Previous>>,
    /// Where the peer probes from.
    candidates: Vec<Candidate>,
    /// Which of our connection ids the peer's newest packet carried.
    peer_uses: Option<ConnectionId>,
    next_epoch: Epoch,
    status: PathStatuses,
    limits: PathLimits,
    space: PacketSpace,
    recovery: LossRecovery,
    /// Where the current key phase begins in its packet numbers.
    phase: PhaseBounds,
    /// Whether what the application waits for has stopped coming.
    quiet: Quiet,
    /// The pacer holds a packet back until then.
    paced_until: Option<Instant>,
    last_activity: Instant,
    protection: Protection,
    /// Packets of the peer on this path that were rebuilt and that no RECOVERED has named yet.
    unreported: Unreported,
}

impl Path {
    pub(crate) fn new(id: PathId, network: NetworkPath, config: &TransportConfig, now: Instant) -> Self {
        let epoch = Epoch::default();
        Self {
            id,
            network,
            lifecycle: Lifecycle::Validating,
            address: PeerAddress::default(),
            previous: None,
            candidates: Vec::new(),
            peer_uses: None,
            next_epoch: epoch.next(),
            status: PathStatuses::default(),
            limits: PathLimits::default(),
            space: PacketSpace::default(),
            recovery: LossRecovery::new(Measured::new(config, &network, now, epoch)),
            phase: PhaseBounds::default(),
            quiet: Quiet::default(),
            paced_until: None,
            last_activity: now,
            protection: Protection::default(),
            unreported: Unreported::default(),
        }
    }

    // ---- what there is to know

    pub(crate) fn id(&self) -> PathId {
        self.id
    }

    /// The addresses that it runs between.
    pub(crate) fn network(&self) -> NetworkPath {
        self.network
    }

    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.recovery.measured.rtt
    }

    /// Bytes in flight, all packet number spaces together.
    pub(crate) fn in_flight(&self) -> u64 {
        self.recovery.measured.in_flight
    }

    /// The controller's window, whatever the amplification limit.
    pub(crate) fn congestion_window(&self) -> u64 {
        self.recovery.measured.controller.window()
    }

    /// What was learnt of the network between its addresses.
    pub(crate) fn learnt(&self) -> Remembered {
        let measured = &self.recovery.measured;
        Remembered {
            history: measured.history,
            carried: measured.controller.resumption().carried,
            rtt: measured.rtt.first_sample_at().map(|_| measured.rtt.smoothed()),
            ..Remembered::new()
        }
    }

    /// What it has shown of the load between its addresses, since the last time.
    pub(crate) fn take_finding(&mut self, now: Instant) -> Finding {
        let measured = &mut self.recovery.measured;
        let evidence = measured.controller.load_evidence();
        Finding { now, began_with: measured.take_beginning(), evidence }
    }

    /// Whether it has shown something since the last time. At rest it shows nothing.
    pub(crate) fn has_news(&self) -> bool {
        let measured = &self.recovery.measured;
        measured.in_flight > 0 || measured.has_beginning()
    }

    /// Bytes of the largest datagram.
    pub(crate) fn datagram_size(&self) -> usize {
        usize::from(self.recovery.measured.mtu.current())
    }

    /// How long the ACK of a lone packet waits for a second one: an eighth of a round trip, so that
    /// it costs the sender little, and no more than we told the peer.
    pub(crate) fn ack_delay(&self) -> Duration {
        (self.rtt().smoothed() / 8).clamp(GRANULARITY, MAX_ACK_DELAY)
    }

    /// The packet number space of its application data.
    pub(crate) fn space(&self) -> &PacketSpace {
        &self.space
    }

    /// The records of un-ACKed packets with application data.
    pub(crate) fn sent(&self) -> &SentPackets {
        &self.space.sent
    }

    /// One of them.
    pub(crate) fn sent_mut(&mut self, number: u64) -> Option<&mut SentPacket> {
        self.space.sent.get_mut(number)
    }

    /// Which packets with application data have arrived.
    pub(crate) fn received(&self) -> &ReceivedPackets {
        &self.space.received
    }

    pub(crate) fn received_mut(&mut self) -> &mut ReceivedPackets {
        &mut self.space.received
    }

    /// Where the current key phase begins in its packet numbers.
    pub(crate) fn phase(&self) -> &PhaseBounds {
        &self.phase
    }

    pub(crate) fn phase_mut(&mut self) -> &mut PhaseBounds {
        &mut self.phase
    }

    // ---- keys

    /// Keys of the next phase are in use.
    pub(crate) fn on_key_update(&mut self) {
        self.phase.on_update(self.space.next_number(), self.space.received.largest());
    }

    /// What is sent from now on is the first that the peer can only read with 1-RTT keys.
    pub(crate) fn begin_one_rtt(&mut self) {
        self.phase.first_sent = self.space.next_number();
    }

    // ---- packets that come

    /// A packet of so many bytes has been authenticated.
    pub(crate) fn on_packet_received(&mut self, now: Instant, bytes: u64) {
        self.recovery.counters.packets_received += 1;
        self.recovery.counters.bytes_received += bytes;
        self.last_activity = now;
    }

    /// The path has carried more than probes and their answers.
    pub(crate) fn on_activity(&mut self, now: Instant) {
        self.quiet.on_activity(now);
    }

    /// It has brought a datagram to somebody who can be moved.
    pub(crate) fn on_datagram(&mut self) {
        self.quiet.on_datagram();
    }

    /// Whether more of them may follow.
    pub(crate) fn awaits_datagrams(&self) -> bool {
        self.quiet.awaits_datagrams()
    }

    /// When the peer is to be asked whether it is still there, though nothing is in flight.
    pub(crate) fn silence_deadline(
        &self,
        max_ack_delay: Duration,
        idle_timeout: Option<Duration>,
    ) -> Option<Instant> {
        let idle = self.is_open() && !self.owes_probe() && !self.space.has_ack_eliciting_in_flight();
        let probe_timeout = self.rtt().pto_base() + max_ack_delay;
        if idle { self.quiet.due(probe_timeout, idle_timeout) } else { None }
    }

    /// It has been silent for long enough: a probe asks, with an ACK, since the last ones may have
    /// been lost with whatever is awaited.
    pub(crate) fn ask_after_silence(&mut self, now: Instant) {
        self.quiet.on_asked();
        self.ask_for_probe();
        self.space.received.owe_again(now);
    }

    /// Whether it has been asked since anything else moved.
    pub(crate) fn asks_after_silence(&self) -> bool {
        self.quiet.has_asked()
    }

    /// Nobody waits for anything of it.
    pub(crate) fn settle_silence(&mut self) {
        self.quiet.settle();
    }

    // ---- packets that nobody will answer

    /// A packet number space of the handshake is given up, with what it had in flight.
    pub(crate) fn on_space_discarded(&mut self, space: &PacketSpace) {
        let LossRecovery { measured, timeouts, counters, .. } = &mut self.recovery;
        measured.leave_flight(space.sent.iter().map(|(_, p)| u64::from(p.size)).sum());
        counters.untracked += space.sent.len() as u64;
        timeouts.end_backoff();
        let marked = space.sent.iter().filter(|(_, p)| p.is_marked());
        marked.for_each(|(_, p)| measured.ecn.on_forgotten(p.sent_at));
    }

    /// The server took no early data: nothing of it will be answered.
    pub(crate) fn forget_early_data(&mut self) {
        for packet in self.space.take_all() {
            self.recovery.counters.untracked += 1;
            self.recovery.measured.leave_flight(u64::from(packet.size));
        }
    }

    /// A Retry came: everything sent so far is sent again. Returns the early data, whose bytes are
    /// no longer in flight; `initial` are those of Initial packets.
    pub(crate) fn on_retry(&mut self, now: Instant, initial: u64) -> Vec<SentPacket> {
        let early = self.space.take_all();
        let bytes = early.iter().map(|packet| u64::from(packet.size)).sum::<u64>();
        self.recovery.measured.leave_flight(initial + bytes);
        self.end_backoff();
        self.touch(now);
        early
    }

    /// Lends the records, so that they can be changed beside the rest of the connection; they must
    /// come back before anything else happens on the path.
    pub(crate) fn lend_sent(&mut self) -> SentPackets {
        core::mem::take(&mut self.space.sent)
    }

    pub(crate) fn return_sent(&mut self, sent: SentPackets) {
        self.space.sent = sent;
    }

    /// The path is gone, and with it its records.
    pub(crate) fn into_packets(self) -> impl Iterator<Item = SentPacket> {
        self.space.sent.into_packets()
    }

    /// Nothing has happened for long.
    pub(crate) fn rest(&mut self) {
        self.space.rest();
        self.unreported.rest();
        self.protection.rest();
        self.candidates.shrink_to_fit();
    }

    // ---- size of datagrams

    /// The peer accepts no more than `limit` bytes.
    pub(crate) fn clamp_mtu(&mut self, limit: u16) {
        let measured = &mut self.recovery.measured;
        measured.mtu.clamp(limit);
        measured.tell_mtu();
    }

    /// Whether it would help to know what the local link carries, which is asked once: the path is
    /// short, busy, and has lost nothing (docs/decisions/0041-jumbo-datagrams.md).
    pub(crate) fn ask_for_link(&mut self) -> bool {
        let LossRecovery { measured, counters, .. } = &mut self.recovery;
        let short = measured.rtt.first_sample_at().is_some() && measured.rtt.min() <= SHORT_PATH;
        let busy = counters.bytes_sent >= BUSY_PATH && counters.packets_lost == 0;
        short && busy && measured.mtu.ask_for_link()
    }

    /// Datagrams of `size` bytes are to be tried.
    pub(crate) fn try_beyond(&mut self, size: u16) {
        self.recovery.measured.mtu.on_link(size);
    }

    /// The connection has another path: what one carries must fit the other.
    pub(crate) fn leave_beyond(&mut self) {
        let measured = &mut self.recovery.measured;
        measured.mtu.leave_beyond();
        measured.tell_mtu();
    }

    /// Size of the MTU probe that may leave now.
    pub(crate) fn mtu_probe(&mut self, now: Instant) -> Option<u16> {
        if !self.works() || !self.address.validated {
            return None;
        }
        let room = self.spare_window();
        self.recovery.measured.mtu.due(now, room)
    }

    // ---- what recovery does on the path

    /// It carried a copy of another packet.
    pub(crate) fn count_copy(&mut self) {
        self.recovery.counters.copies_sent += 1;
    }

    /// The peer rebuilt one of its packets.
    pub(crate) fn count_rebuilt_by_peer(&mut self) {
        self.recovery.counters.packets_rebuilt_by_peer += 1;
    }

    /// It carried a packet that coding cannot protect.
    pub(crate) fn count_unprotected(&mut self) {
        self.recovery.counters.unprotected += 1;
    }

    pub(crate) fn stats(&self) -> PathStats {
        let LossRecovery { measured, loss, counters: c, .. } = &self.recovery;
        let resumption = measured.controller.resumption();
        PathStats {
            id: self.id,
            network: self.network,
            state: self.state(),
            limits: self.limits,
            address_validated: self.address.validated,
            rtt: measured.rtt.smoothed().into(),
            rtt_min: measured.rtt.min().into(),
            rtt_variance: measured.rtt.variance().into(),
            window: measured.controller.window(),
            in_flight: measured.in_flight,
            mtu: measured.mtu.current(),
            packets_sent: c.packets_sent,
            packets_received: c.packets_received,
            packets_missing: self.space.received.missing(),
            gaps_forgotten: self.space.received.gaps_forgotten(),
            bytes_sent: c.bytes_sent,
            bytes_received: c.bytes_received,
            packets_lost: c.packets_lost,
            bytes_lost: c.bytes_lost,
            spurious_losses: c.spurious_losses,
            packets_acknowledged: c.packets_acked,
            packets_outstanding: self.space.sent.len() as u64,
            packets_untracked: c.untracked,
            pto_count: self.pto_count(),
            ecn: measured.ecn.state(),
            ecn_ce: measured.ecn.ce(),
            loss_estimate: loss.estimate(),
            chance_loss: measured.history.observed(),
            left_out: false,
            bottleneck: None,
            packets_mended: c.packets_mended,
            copies_sent: c.copies_sent,
            repair_symbols_sent: c.repair_symbols_sent,
            packets_rebuilt_by_peer: c.packets_rebuilt_by_peer,
            packets_unprotected: c.unprotected,
            jumps: resumption.jumps,
            retreats: resumption.retreats,
        }
    }
}

#[cfg(test)]
impl Path {
    /// Begins with a fresh packet number space.
    pub(crate) fn forget_space_for_test(&mut self) {
        self.space = PacketSpace::default();
    }

    /// A packet is on record that nobody has sent.
    pub(crate) fn record_for_test(&mut self, number: u64, packet: SentPacket) {
        self.space.on_sent(number, Some(packet));
    }
}
