//! One path: its addresses, validation, round-trip time, window and packet number space.

use std::collections::BTreeSet;

use congestion::Controller;
use recovery::{PathLoss, loss_history::LossHistory};
use smallvec::SmallVec;
use units::{BitRate, Duration, Instant};

use crate::{
    NetworkPath,
    config::TransportConfig,
    ecn::PathEcn,
    keys::PhaseBounds,
    migration::{Budget, Candidate, Previous},
    mtu::MtuSearch,
    pacer::Pacer,
    quiet::Quiet,
    reordering::{LossEvent, LostPackets, Patience},
    rtt::{GRANULARITY, RttEstimator},
    space::PacketSpace,
    stats::{PathState, PathStats},
    wire::{ConnectionId, PathId},
};

/// PATH_RESPONSEs owed at once; further challenges are ignored (the peer repeats those it needs).
const MAX_RESPONSES: usize = 4;
/// Our max_ack_delay: the longest that an ACK waits for company (RFC 9000 section 18.2).
pub(crate) const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// PATH_CHALLENGEs sent before a path that never answered is given up.
pub(crate) const MAX_CHALLENGES: u32 = 6;
/// Bytes of the amplification limit that are kept for challenges: two small ones.
pub(crate) const CHALLENGE_RESERVE: u64 = 128;
/// A round-trip time this much above the minimum shows a standing queue.
const QUEUE_SIGN: f64 = 1.25;
/// Bytes that a delivery rate sample must span: fewer say more about the sender than about the path.
const MIN_DELIVERY_SAMPLE: u64 = 8 * 1_200;
/// Longest time between probes of a silent path: its return is noticed within this.
const MAX_PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The same for a connection's only path, where probes may meet nothing but a full queue.
pub(crate) const MAX_PROBE_INTERVAL_ALONE: Duration = Duration::from_secs(4);

/// Path validation that we drive (RFC 9000 section 8.2).
#[derive(Debug, Default)]
pub(crate) struct Validation {
    /// The data of the last challenge; only it may be answered.
    pub(crate) challenge: Option<[u8; 8]>,
    pub(crate) challenges_sent: u32,
    /// A challenge must leave now.
    pub(crate) due: bool,
    /// When to repeat it.
    pub(crate) retry_at: Option<Instant>,
    /// Packets that had arrived on the path when the last challenge left.
    pub(crate) heard: u64,
    /// The last challenge left in a datagram too small to show that the path carries 1,200 bytes.
    pub(crate) small: bool,
}

impl Validation {
    pub(crate) fn is_under_way(&self) -> bool {
        self.due || self.challenge.is_some()
    }
}

/// Why a path may or may not carry data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// Our challenge has not been answered yet.
    Validating,
    /// Carries data.
    Open,
    /// Abandoned by either side; kept until late packets have passed, and until the peer is known to know of it. As long as it does not, it
    /// may have no other path to us: what it says on this one must be heard.
    Closing { until: Instant, told: bool },
}

/// Counters that only ever grow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathCounters {
    pub(crate) packets_sent: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) packets_received: u64,
    pub(crate) bytes_received: u64,
    pub(crate) packets_lost: u64,
    pub(crate) bytes_lost: u64,
    pub(crate) spurious_losses: u64,
    pub(crate) packets_acked: u64,
    /// Pure ACKs, lost probes for the MTU, packets given up with their keys.
    pub(crate) untracked: u64,
    pub(crate) copies_sent: u64,
    pub(crate) repair_sent: u64,
    pub(crate) repaired_by_peer: u64,
    pub(crate) mended: u64,
    pub(crate) unprotected: u64,
}

/// A path of a connection.
pub(crate) struct Path {
    pub(crate) id: PathId,
    pub(crate) network: NetworkPath,
    pub(crate) lifecycle: Lifecycle,
    /// The peer's address has shown that it receives (RFC 9000 section 8): no amplification limit.
    pub(crate) address_validated: bool,
    pub(crate) validation: Validation,
    /// What this address sent and got, as long as it is not validated.
    pub(crate) budget: Budget,
    /// Where the path was before it moved, until the move is settled.
    pub(crate) previous: Option<Box<Previous>>,
    /// Where the peer probes from.
    pub(crate) candidates: Vec<Candidate>,
    /// Which of our connection ids the peer's newest packet carried.
    pub(crate) peer_uses: Option<ConnectionId>,
    /// Numbers the networks that the path has run over. Packets of another epoch say nothing about the present one.
    pub(crate) epoch: u32,
    pub(crate) next_epoch: u32,
    pub(crate) responses: SmallVec<[[u8; 8]; MAX_RESPONSES]>,
    pub(crate) rtt: RttEstimator,
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) pacer: Pacer,
    /// Loss history as FUSO and CoFUSO estimate it.
    pub(crate) loss: PathLoss,
    /// How the network between its addresses loses, remembered for the next connections.
    pub(crate) history: LossHistory,
    pub(crate) space: PacketSpace,
    /// Whether what the application waits for has stopped coming.
    pub(crate) quiet: Quiet,
    pub(crate) ecn: PathEcn,
    /// Where the current key phase begins in its packet numbers.
    pub(crate) phase: PhaseBounds,
    pub(crate) patience: Patience,
    pub(crate) loss_event: LossEvent,
    /// Bytes in flight, all packet number spaces together.
    pub(crate) in_flight: u64,
    /// Probe timeouts since the last new ACK.
    pub(crate) pto_count: u32,
    /// When the last probe timeout was.
    pub(crate) last_pto: Option<Instant>,
    /// Probes that may leave regardless of the window.
    pub(crate) probes_due: u8,
    /// The sender last stopped for want of data, not of window (RFC 9002 section 7.8).
    pub(crate) app_limited: bool,
    /// The pacer holds a packet back until then.
    pub(crate) paced_until: Option<Instant>,
    /// Either side asked to use other paths first (PATH_STATUS_BACKUP).
    pub(crate) local_backup: bool,
    pub(crate) remote_backup: bool,
    pub(crate) local_status_sequence: u64,
    pub(crate) remote_status_sequence: Option<u64>,
    pub(crate) last_activity: Instant,
    pub(crate) mtu: MtuSearch,
    /// Bytes acknowledged so far.
    pub(crate) delivered: u64,
    /// Bytes acknowledged while the newest acknowledged packet was on its way, and how long that was.
    pub(crate) delivery_sample: Option<(u64, Duration)>,
    /// Packets below this number are not protectable any more.
    pub(crate) protected_below: u64,
    /// No un-ACKed packet below this number can become a source symbol any more.
    pub(crate) coded_below: u64,
    /// Below this packet number everything has been copied, coded or delivered.
    pub(crate) exposed_below: u64,
    pub(crate) lost_protected: LostProtected,
    /// Packets of the peer on this path that were rebuilt and that no RECOVERED has named yet.
    pub(crate) unreported: Unreported,
    pub(crate) counters: PathCounters,
}

/// Numbers of protected packets that were declared lost lately: news of their copies or repair may still come.
#[derive(Debug, Default)]
pub(crate) struct LostProtected(BTreeSet<u64>);

impl LostProtected {
    const LIMIT: usize = 1_024;

    pub(crate) fn push(&mut self, number: u64) {
        if self.0.len() == Self::LIMIT {
            self.0.pop_first();
        }
        self.0.insert(number);
    }

    /// Removes `number`; false if it is not there.
    pub(crate) fn take(&mut self, number: u64) -> bool {
        self.0.remove(&number)
    }
}

/// Numbers of rebuilt packets that wait for a RECOVERED frame, ascending.
#[derive(Debug, Default)]
pub(crate) struct Unreported(Vec<u64>);

impl Unreported {
    /// More are not reported: the peer then resends their data in vain, once.
    const LIMIT: usize = 1_024;
    /// Most packets of one frame. Scattered as they may be, it fits a packet of the smallest size beside a long ACK.
    const FRAME: usize = 64;

    pub(crate) fn push(&mut self, number: u64) {
        if let Err(at) = self.0.binary_search(&number)
            && self.0.len() < Self::LIMIT
        {
            self.0.insert(at, number);
        }
    }

    /// What the next frame names.
    pub(crate) fn next(&self) -> impl Iterator<Item = u64> + Clone + '_ {
        self.0.iter().copied().take(Self::FRAME)
    }

    /// The frame has been written; true if there is more for another.
    pub(crate) fn on_reported(&mut self) -> bool {
        self.0.drain(..self.0.len().min(Self::FRAME));
        !self.0.is_empty()
    }
}

/// What was found out about the network between two addresses.
#[derive(Debug)]
pub(crate) struct Measured {
    epoch: u32,
    in_flight: u64,
    rtt: RttEstimator,
    controller: Box<dyn Controller>,
    pacer: Pacer,
    mtu: MtuSearch,
    ecn: PathEcn,
    history: LossHistory,
}

impl Measured {
    /// Nothing yet.
    pub(crate) fn new(config: &TransportConfig, network: &NetworkPath, now: Instant, epoch: u32) -> Self {
        let mtu = MtuSearch::new(config.initial_datagram_size, config.max_datagram_size);
        let size = u64::from(mtu.current());
        let controller = config.controller.build(&congestion::Config {
            initial_window_packets: config.initial_window_packets,
            max_datagram_size: size,
            ..congestion::Config::default()
        });
        let pacer = Pacer::new(now, config.initial_window_packets * size);
        let (rtt, ecn) = (RttEstimator::new(config.initial_rtt.into()), PathEcn::new(config.ecn));
        let history = config.loss_store.recall(network);
        Self { epoch, in_flight: 0, rtt, controller, pacer, mtu, ecn, history }
    }
}

impl Path {
    pub(crate) fn new(id: PathId, network: NetworkPath, config: &TransportConfig, now: Instant) -> Self {
        let Measured { epoch, rtt, controller, pacer, mtu, ecn, history, .. } =
            Measured::new(config, &network, now, 0);
        Self {
            id,
            network,
            lifecycle: Lifecycle::Validating,
            address_validated: false,
            validation: Validation::default(),
            budget: Budget::default(),
            previous: None,
            candidates: Vec::new(),
            peer_uses: None,
            epoch,
            next_epoch: epoch + 1,
            responses: SmallVec::new(),
            rtt,
            pacer,
            controller,
            loss: PathLoss::default(),
            history,
            space: PacketSpace::default(),
            quiet: Quiet::default(),
            phase: PhaseBounds::default(),
            patience: Patience::default(),
            loss_event: LossEvent::default(),
            ecn,
            in_flight: 0,
            pto_count: 0,
            last_pto: None,
            probes_due: 0,
            app_limited: true,
            paced_until: None,
            local_backup: false,
            remote_backup: false,
            local_status_sequence: 0,
            remote_status_sequence: None,
            last_activity: now,
            mtu,
            delivered: 0,
            delivery_sample: None,
            protected_below: 0,
            coded_below: 0,
            exposed_below: 0,
            lost_protected: LostProtected::default(),
            unreported: Unreported::default(),
            counters: PathCounters::default(),
        }
    }

    /// Puts other measurements in place of the present ones, which it returns.
    pub(crate) fn swap_measured(&mut self, new: Measured) -> Measured {
        let Measured { epoch, in_flight, rtt, controller, pacer, mtu, ecn, history } = new;
        self.delivery_sample = None;
        (self.patience, self.loss_event) = (Patience::default(), LossEvent::default());
        self.space.lost = LostPackets::default();
        Measured {
            epoch: core::mem::replace(&mut self.epoch, epoch),
            in_flight: core::mem::replace(&mut self.in_flight, in_flight),
            rtt: core::mem::replace(&mut self.rtt, rtt),
            controller: core::mem::replace(&mut self.controller, controller),
            pacer: core::mem::replace(&mut self.pacer, pacer),
            mtu: core::mem::replace(&mut self.mtu, mtu),
            ecn: core::mem::replace(&mut self.ecn, ecn),
            history: core::mem::replace(&mut self.history, history),
        }
    }

    /// Puts old measurements back; what was in flight then and has been answered since counts no more.
    pub(crate) fn restore(&mut self, old: Measured) {
        self.swap_measured(old);
        let here = self.space.sent.iter().filter(|(_, p)| p.in_flight && p.epoch == self.epoch);
        self.in_flight = here.map(|(_, p)| u64::from(p.size)).sum();
    }

    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Closing { .. })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.lifecycle == Lifecycle::Open
    }

    pub(crate) fn is_suspect(&self) -> bool {
        self.pto_count > 0
    }

    /// Bytes of the largest datagram.
    pub(crate) fn datagram_size(&self) -> usize {
        usize::from(self.mtu.current())
    }

    /// Bytes that may be in flight: the controller's window, or what the amplification limit leaves of it.
    pub(crate) fn window(&self) -> u64 {
        self.controller.window().min(self.in_flight.saturating_add(self.budget_beside_challenges()))
    }

    /// Bytes that may still be put in flight.
    pub(crate) fn spare_window(&self) -> u64 {
        self.window().saturating_sub(self.in_flight)
    }

    /// Bytes that may be sent before the peer's address is validated.
    pub(crate) fn amplification_budget(&self) -> u64 {
        if self.address_validated {
            return u64::MAX;
        }
        self.budget.left()
    }

    /// What the amplification limit leaves to anything but challenges. Without the answer to one no more is ever allowed, so that
    /// nothing else may take the last of it.
    pub(crate) fn budget_beside_challenges(&self) -> u64 {
        match self.amplification_budget() {
            u64::MAX => u64::MAX,
            budget if self.validation.is_under_way() => budget.saturating_sub(CHALLENGE_RESERVE),
            budget => budget,
        }
    }

    /// Whether the amplification limit leaves room for a small packet.
    pub(crate) fn may_send_something(&self) -> bool {
        self.budget_beside_challenges() >= 64
    }

    pub(crate) fn pacing_rate(&self) -> BitRate {
        if self.rtt.first_sample_at().is_none() {
            return BitRate(u64::MAX);
        }
        self.controller.pacing_rate(&self.rtt.for_congestion())
    }

    /// Time between probes: the PTO with exponential backoff (RFC 9002 section 6.2), capped so that a path's return is noticed.
    ///
    /// The first probe waits for a whole PTO, whatever that is. The others go by the shortest round trip: samples taken while a host stood
    /// still may have made the PTO minutes long, and where probes are lost, no other sample comes soon.
    pub(crate) fn probe_interval(&self, max_ack_delay: Duration, alone: bool) -> Duration {
        let base = self.rtt.pto_base() + max_ack_delay;
        let cap = if alone { MAX_PROBE_INTERVAL_ALONE } else { MAX_PROBE_INTERVAL };
        if self.pto_count == 0 {
            return base;
        }
        (base * (1 << self.pto_count.min(16))).min(cap.max(self.rtt.min() * 3 + max_ack_delay))
    }

    /// Round-trip time to expect of a packet sent next. On a path whose queue builds up it follows from what is in flight and the rate at
    /// which the path delivers (Little's law), since smoothed samples lag by the queue that was added after they were sent. Until the path
    /// has shown its rate, it is trusted with the rate of slow start's pacer, a window in half a round trip: on a thin path the tenth
    /// packet of the first burst arrives long after the first.
    pub(crate) fn expected_rtt(&self) -> Duration {
        let (min, latest, smoothed) = (self.rtt.min(), self.rtt.latest_adjusted(), self.rtt.smoothed());
        let Some((bytes, time)) = self.rate_sample() else {
            let part = self.in_flight as f64 / self.controller.window().max(1) as f64;
            return smoothed + (smoothed / 2).mul_f64(part.min(1.0));
        };
        if latest > min.mul_f64(QUEUE_SIGN) {
            return time.mul_f64(self.in_flight as f64 / bytes as f64).max(smoothed);
        }
        smoothed
    }

    /// The last delivery rate sample, if it spans enough.
    fn rate_sample(&self) -> Option<(u64, Duration)> {
        self.delivery_sample.filter(|(bytes, time)| *bytes >= MIN_DELIVERY_SAMPLE && !time.is_zero())
    }

    /// The rate at which the path has delivered lately.
    pub(crate) fn delivery_rate(&self) -> Option<BitRate> {
        let (bytes, time) = self.rate_sample()?;
        Some(BitRate((bytes as f64 * 8.0 / time.as_secs_f64()) as u64))
    }

    /// How long the ACK of a lone packet waits for a second one: an eighth of a round trip, so that it costs the sender little, and no
    /// more than we told the peer.
    pub(crate) fn ack_delay(&self) -> Duration {
        (self.rtt.smoothed() / 8).clamp(GRANULARITY, MAX_ACK_DELAY)
    }

    /// Asks for a challenge with fresh data.
    pub(crate) fn start_validation(&mut self) {
        self.validation = Validation { due: true, ..Validation::default() };
    }

    /// Only small packets seem to get through: a challenge of full size finds out, unless one is under way.
    pub(crate) fn ask_for_width(&mut self) {
        let asking = self.validation.due || self.validation.challenge.is_some();
        if self.is_open() && self.address_validated && self.previous.is_none() && !asking {
            self.start_validation();
        }
    }

    /// Notes a PATH_CHALLENGE to answer.
    pub(crate) fn on_challenge(&mut self, data: [u8; 8]) {
        if self.responses.len() < MAX_RESPONSES && !self.responses.contains(&data) {
            self.responses.push(data);
        }
    }

    /// Whether `data` answers our challenge; if so the path is validated. Returns true the first time.
    pub(crate) fn on_response(&mut self, now: Instant, data: [u8; 8]) -> bool {
        if let Some(previous) = self.previous.as_mut().filter(|p| p.validation.challenge == Some(data)) {
            previous.validation = Validation::default();
        }
        if self.validation.challenge != Some(data) {
            return false;
        }
        // A small datagram has not shown that full ones get through (RFC 9000 section 8.2.3).
        let again = self.validation.small;
        self.validation = Validation { due: again, ..Validation::default() };
        self.address_validated = true;
        if let Some(previous) = &mut self.previous {
            previous.settles_at = previous.settles_at.min(now + previous.late);
        }
        if self.lifecycle != Lifecycle::Validating {
            return false;
        }
        self.lifecycle = Lifecycle::Open;
        true
    }

    pub(crate) fn stats(&self) -> PathStats {
        let state = match self.lifecycle {
            Lifecycle::Closing { .. } => PathState::Closing,
            Lifecycle::Validating => PathState::Validating,
            Lifecycle::Open if self.is_suspect() => PathState::Suspect,
            Lifecycle::Open if self.local_backup || self.remote_backup => PathState::Backup,
            Lifecycle::Open => PathState::Active,
        };
        let c = &self.counters;
        PathStats {
            id: self.id,
            network: self.network,
            state,
            address_validated: self.address_validated,
            rtt: self.rtt.smoothed().into(),
            rtt_min: self.rtt.min().into(),
            rtt_variance: self.rtt.variance().into(),
            window: self.controller.window(),
            in_flight: self.in_flight,
            mtu: self.mtu.current(),
            packets_sent: c.packets_sent,
            packets_received: c.packets_received,
            bytes_sent: c.bytes_sent,
            bytes_received: c.bytes_received,
            packets_lost: c.packets_lost,
            bytes_lost: c.bytes_lost,
            spurious_losses: c.spurious_losses,
            packets_acknowledged: c.packets_acked,
            packets_outstanding: self.space.sent.len() as u64,
            packets_untracked: c.untracked,
            pto_count: self.pto_count,
            ecn: self.ecn.state(),
            ecn_ce: self.ecn.ce(),
            loss_estimate: self.loss.estimate(),
            packets_recovered: c.mended,
            copies_sent: c.copies_sent,
            repair_sent: c.repair_sent,
            repair_used: c.repaired_by_peer,
            repair_wasted: c.repair_sent.saturating_sub(c.repaired_by_peer),
            packets_unprotected: c.unprotected,
        }
    }
}
