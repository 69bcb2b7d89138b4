//! Probe timeouts of a path (RFC 9002 section 6.2).

use units::{Duration, Instant};

use super::{Path, loss::LossRecovery, rtt::RttEstimator, sent::Removed};

/// Longest time between probes of a silent path: its return is noticed within this.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// The same for a connection's only path, where probes may meet nothing but a full queue.
pub(crate) const MAX_INTERVAL_ALONE: Duration = Duration::from_secs(4);
/// Probe timeouts of such a path without backoff where something live waits.
const LIVE_TIMEOUTS: u32 = 6;
/// Probe timeouts in a row whose probes are on record: an answer to an earlier one would be minutes late.
const TIMEOUTS_ON_RECORD: u32 = 256;
/// By how much more than its probe timeouts account for a packet may have been in flight for: timers go off late now
/// and then.
const STANDSTILL: Duration = Duration::from_secs(10);

/// Whether another path of the connection answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// No other does.
    Alone,
    /// Another does: what waits can go there.
    Another,
}

/// How long what a path's connection sends, or waits for, is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// For as long as it takes.
    Patient,
    /// For a moment: datagrams with deadlines wait, or a client gets datagrams
    /// (docs/decisions/0039-live-probes.md).
    Live,
}

/// Probe timeouts in a row, and the probes that they ask for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProbeTimeouts {
    /// Since the last new ACK.
    count: u32,
    last: Option<Instant>,
    /// Probes that may leave regardless of the window.
    probes_due: u8,
    /// Whether another path answered at the last one: then probes are many, and of no use but to find out
    /// when the silence ends.
    in_company: bool,
    /// The path had stopped answering when it moved: who was told so is told of its next answer.
    was_silent: bool,
}

impl ProbeTimeouts {
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// When the last one was.
    pub(super) fn last(&self) -> Option<Instant> {
        self.last
    }

    /// Whether another path answered when the last one was.
    pub(super) fn in_company(&self) -> bool {
        self.in_company
    }

    /// Whether a packet may have been in flight for so long while this host ran, as the timeouts since the last new
    /// ACK show. Where it stood still, and its clock did not, no timer went off meanwhile: a laptop that slept, a
    /// process that was stopped. The packet's age says nothing of the way then.
    pub(super) fn account_for(&self, age: Duration, rtt: &RttEstimator) -> bool {
        let first = rtt.pto_base();
        let further = first.max(MAX_INTERVAL_ALONE).max(rtt.min() * 3);
        // What is sent meanwhile puts each of them off once.
        let silence = (first + further * u64::from(self.count)) * 2;
        age <= silence + STANDSTILL
    }

    /// The age of a packet that arrived late, where it [says anything](Self::account_for) of the way.
    pub(super) fn known_age(&self, age: Duration, rtt: &RttEstimator) -> Option<Duration> {
        self.account_for(age, rtt).then_some(age)
    }

    /// Starts to count anew; true if there had been any, on other addresses or here.
    pub(super) fn end_backoff(&mut self) -> bool {
        let was_silent = core::mem::take(&mut self.was_silent);
        core::mem::take(&mut self.count) > 0 || was_silent
    }

    /// The path runs elsewhere.
    pub(super) fn forget(&mut self) {
        self.was_silent |= self.count > 0;
        (self.count, self.probes_due) = (0, 0);
    }

    /// Nothing is to be probed any more.
    pub(super) fn cancel_probes(&mut self) {
        self.probes_due = 0;
    }
}

impl Path {
    /// Whether the path has stopped answering.
    pub(crate) fn is_suspect(&self) -> bool {
        self.recovery.timeouts.count > 0
    }

    /// Probe timeouts since the last new ACK.
    pub(crate) fn pto_count(&self) -> u32 {
        self.recovery.timeouts.count
    }

    /// An ACK has come, or nothing is left that it could answer.
    pub(crate) fn end_backoff(&mut self) {
        self.recovery.timeouts.end_backoff();
    }

    /// Whether a probe must leave, and the amplification limit lets it.
    pub(crate) fn may_send_probe(&self) -> bool {
        self.owes_probe() && self.may_send_datagram()
    }

    /// Whether a probe must leave.
    pub(crate) fn owes_probe(&self) -> bool {
        self.recovery.timeouts.probes_due > 0
    }

    /// At least one probe must leave.
    pub(crate) fn ask_for_probe(&mut self) {
        let due = &mut self.recovery.timeouts.probes_due;
        *due = (*due).max(1);
    }

    /// A probe leaves now; returns its size, and which of the un-ACKed packets it repeats: the
    /// second probe of a timeout repeats the second (RFC 9002 section 6.2.4).
    pub(crate) fn take_probe(&mut self) -> (usize, usize) {
        let timeouts = &mut self.recovery.timeouts;
        timeouts.probes_due -= 1;
        let nth = usize::from(timeouts.probes_due == 0);
        (usize::from(self.recovery.measured.mtu.probe_size(timeouts.count)), nth)
    }

    /// The path's packets have not been answered for a probe timeout; returns how many such
    /// timeouts were in a row.
    pub(crate) fn on_probe_timeout(&mut self, now: Instant, company: Company) -> u32 {
        let (timeouts, measured) = (&mut self.recovery.timeouts, &mut self.recovery.measured);
        timeouts.count += 1;
        timeouts.last = Some(now);
        timeouts.in_company = company == Company::Another;
        measured.ecn.on_silence(timeouts.count);
        timeouts.probes_due = if company == Company::Another { 1 } else { 2 };
        if measured.mtu.on_silence(now, timeouts.count) {
            measured.tell_mtu();
        }
        let (count, probes) = (timeouts.count, timeouts.probes_due);
        self.space.restart_probe_timer(now);
        if count > TIMEOUTS_ON_RECORD {
            (0..probes).for_each(|_| self.forget_oldest_probe());
        }
        count
    }

    /// A path may stay silent for days while another works, with a probe every second that nothing but an
    /// answer would take off the books.
    fn forget_oldest_probe(&mut self) {
        let oldest = self.space.sent.iter().find(|(_, packet)| packet.is_bare_probe());
        let Some((number, _)) = oldest else { return };
        let Some(packet) = self.space.remove(number, Removed::Lost) else { return };
        let LossRecovery { measured, counters, .. } = &mut self.recovery;
        counters.untracked += 1;
        if packet.epoch == measured.epoch {
            measured.leave_flight(u64::from(packet.size));
            if packet.probes_mtu(measured.mtu.current()) {
                measured.mtu.forget_probe();
            }
        }
        if packet.is_marked() {
            measured.ecn.on_forgotten(packet.sent_at);
        }
    }

    /// The handshake's packets, which path 0 carries, have not been answered for a probe timeout.
    pub(crate) fn on_handshake_probe_timeout(&mut self, now: Instant) {
        let (timeouts, measured) = (&mut self.recovery.timeouts, &mut self.recovery.measured);
        timeouts.count += 1;
        measured.ecn.on_silence(timeouts.count);
        self.last_activity = now;
    }

    /// Whether un-ACKed packets are to be probed some time, and no probe is due yet.
    pub(crate) fn awaits_ack(&self) -> bool {
        self.space.has_ack_eliciting_in_flight() && !self.owes_probe()
    }

    /// When they are probed (RFC 9002 section 6.2.1).
    pub(crate) fn probe_deadline(
        &self,
        max_ack_delay: Duration,
        company: Company,
        urgency: Urgency,
    ) -> Option<Instant> {
        let interval = self.probe_interval(max_ack_delay, company, urgency);
        Some(self.space.probe_timer_start(interval)? + interval)
    }

    /// Time between probes: the PTO with exponential backoff (RFC 9002 section 6.2), capped so that
    /// a path's return is noticed. An only path that something live waits for backs off later, and
    /// less far.
    ///
    /// The first probe waits for a whole PTO, whatever that is. The others go by the shortest round
    /// trip: samples taken while a host stood still for seconds, or the peer for longer, may have made
    /// the PTO long, and where probes are lost, no other sample comes soon.
    fn probe_interval(&self, max_ack_delay: Duration, company: Company, urgency: Urgency) -> Duration {
        let (rtt, count) = (self.rtt(), self.pto_count());
        let base = rtt.pto_base() + max_ack_delay;
        if count == 0 {
            return base;
        }
        let (doublings, cap) = match (company, urgency) {
            (Company::Another, _) => (count, MAX_INTERVAL),
            (Company::Alone, Urgency::Live) => (count.saturating_sub(LIVE_TIMEOUTS - 1), MAX_INTERVAL),
            (Company::Alone, Urgency::Patient) => (count, MAX_INTERVAL_ALONE),
        };
        (base * (1 << doublings.min(16))).min(cap.max(rtt.min() * 3 + max_ack_delay))
    }
}
