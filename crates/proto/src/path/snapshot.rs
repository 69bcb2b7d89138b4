//! How a path shows itself to policies and schedulers.

use congestion::{Hold, Load, PathWindow, Phase};
use units::{Duration, Instant};

use super::Path;
use crate::{GRANULARITY, PathSnapshot, wire::PathId};

/// Delivered packets that every path is credited with when its loss rate is estimated for the
/// scheduler: one loss among the first ten packets must not make a path look useless.
const LOSS_PRIOR: u64 = 100;

/// What a snapshot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// For a scheduler, which does not ask what could be protected.
    Scheduling,
    /// For what mends losses: a recovery policy, or the copies of what is late.
    Recovery,
}

impl Path {
    /// The share that the path is known to have lost by chance, in this connection or earlier ones.
    pub(crate) fn known_loss(&self) -> f64 {
        self.recovery.measured.history.observed()
    }

    /// What policies see of the path. `takes_data`: new data may use it.
    pub(crate) fn snapshot(
        &mut self,
        now: Instant,
        view: View,
        max_ack_delay: Duration,
        takes_data: bool,
    ) -> PathSnapshot {
        let pacing_wait = self.pace(now);
        if view == View::Recovery {
            self.move_marks();
        }
        let (measured, loss) = (&self.recovery.measured, &self.recovery.loss);
        let rtt = &measured.rtt;
        PathSnapshot {
            id: self.id,
            window: self.window(),
            in_flight: measured.in_flight,
            mtu: self.datagram_size() as u64,
            rtt: rtt.smoothed(),
            min_rtt: rtt.min(),
            expected_rtt: self.expected_rtt(now),
            delivery_rate: self.delivery_rate(),
            next_ack: self.space.oldest_sent_at().map_or(Duration::ZERO, |sent| self.next_ack(sent, now)),
            ack_spread: self.ack_spread(),
            rtt_variance: rtt.variance(),
            ack_delay: max_ack_delay,
            probe_timeout: rtt.pto_base() + max_ack_delay,
            measured: rtt.first_sample_at().is_some(),
            loss: loss.estimate(),
            loss_rate: loss.lost() as f64 / (loss.transmitted() + LOSS_PRIOR) as f64,
            history: if measured.controller.blames_load() {
                measured.history.seen()
            } else {
                measured.history
            },
            steady: measured.steadiness.is_steady(now),
            slow_start: measured.controller.state().phase == Phase::SlowStart,
            pacing_wait,
            ever_sent: loss.ever_sent(),
            usable: takes_data && (view == View::Scheduling || self.may_carry_recovery()),
            carries_data: takes_data && !self.is_suspect(),
            silent: self.is_suspect()
                && self.may_carry_recovery()
                && !self.is_backup()
                && self.may_send_datagram(),
            protectable: view == View::Recovery && self.is_protectable(),
        }
    }

    /// Time until the ACK of a packet that left at `sent`. If that is overdue by more than the
    /// round-trip time varies, the path may be dead: then a full round trip, as if it had been sent
    /// only now.
    fn next_ack(&self, sent: Instant, now: Instant) -> Duration {
        let rtt = self.rtt();
        let (due, variance) = (sent + rtt.smoothed(), rtt.variance().max(GRANULARITY));
        if now <= due + variance { due - now } else { rtt.smoothed() + variance }
    }

    /// What coupled controllers see of the path, when that of path `of` asks, but for whether both
    /// share a bottleneck.
    pub(crate) fn sibling_of(&self, of: PathId) -> PathWindow {
        let measured = &self.recovery.measured;
        let rtt = &measured.rtt;
        PathWindow {
            path: self.id.0,
            window: measured.controller.window(),
            in_flight: measured.in_flight,
            smoothed_rtt: rtt.first_sample_at().map_or(Duration::ZERO, |_| rtt.smoothed()),
            slow_start: measured.controller.state().phase == Phase::SlowStart,
            is_self: self.id == of,
            inter_loss: measured.controller.inter_loss(),
            shared: false,
            congested_at: measured.controller.congested_at(),
        }
    }

    /// What the search for shared bottlenecks sees of the path.
    pub(crate) fn load(&self) -> Load {
        let controller = &self.recovery.measured.controller;
        let steady = controller.is_steady() && !self.recovery.app_limited && self.is_open();
        Load { window: controller.window(), steady }
    }

    /// Keeps the path to less than its window.
    pub(crate) fn hold(&mut self, hold: &Hold) {
        self.recovery.measured.controller.hold(hold.window, hold.until);
    }
}
