//! A controller of the crate `congestion` as a sub-flow's window: bytes there, segments here.
//!
//! # Departures
//! - Its smallest window is one segment, which is what a timeout leaves. A reduction stops there,
//!   too: RFC 5681 (equation 4) and RFC 9438 (section 4.6) leave two, and so do Reno here and the
//!   kernel's rules of CUBIC.
//! - After an idle time the slow start threshold is forgotten with the window; RFC 5681 section 4.1
//!   keeps it.
//! - What was sent before a reduction does not grow the window (RFC 9002 section 7.3.2), where Reno
//!   here grows it from the end of recovery on.

use congestion::{Ack, Config, Controller, ControllerKind, Loss, PathWindow, Phase};
use units::{Duration, Instant};

use crate::own::Acked;
use crate::{Tcp, rtt::RttEstimator};

#[derive(Debug)]
pub(crate) struct Shared {
    controller: Box<dyn Controller>,
    mss: u64,
}

fn config(tcp: &Tcp, window: u32) -> Config {
    Config {
        initial_window_packets: u64::from(window),
        minimum_window_packets: 1,
        max_datagram_size: u64::from(tcp.mss),
        cubic_rules: tcp.cubic_rules,
        ..Config::default()
    }
}

impl Shared {
    pub(super) fn new(kind: ControllerKind, tcp: &Tcp, window: u32) -> Self {
        Self { controller: kind.build(&config(tcp, window)), mss: u64::from(tcp.mss) }
    }

    pub(super) fn window(&self) -> u32 {
        u32::try_from(self.controller.window() / self.mss).unwrap_or(u32::MAX).max(1)
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.controller.state().phase == Phase::SlowStart
    }

    pub(super) fn inter_loss(&self) -> u64 {
        self.controller.inter_loss()
    }

    pub(super) fn on_ack(&mut self, acked: &Acked, rtt: &RttEstimator, group: &[PathWindow]) {
        let ack = Ack {
            now: acked.now,
            bytes: u64::from(acked.segments) * self.mss,
            largest_sent_at: acked.sent_at,
            in_flight_before: u64::from(acked.flight) * self.mss,
            app_limited: !acked.limited || acked.in_recovery,
            // Of TCP's echoes only DCTCP's say which segments were marked; others repeat the last
            // one until CWR.
            ce_bytes: if acked.marked { u64::from(acked.segments) * self.mss } else { 0 },
            rtt: rtt.seen(),
            ..Ack::default()
        };
        self.controller.on_ack(&ack, group);
    }

    /// A segment was sent; `pipe` segments are in the network with it. Cubic stops its clock by
    /// this while it is idle.
    pub(super) fn on_sent(&mut self, now: Instant, pipe: u32) {
        self.controller.on_sent(now, self.mss, u64::from(pipe) * self.mss);
    }

    /// TCP decides by sequence numbers that this is a new loss event, so it is told as a loss of
    /// now.
    pub(super) fn on_loss(&mut self, now: Instant, rtt: &RttEstimator, group: &[PathWindow]) {
        let loss = Loss { now, bytes: self.mss, packets: 1, largest_sent_at: now, rtt: rtt.seen() };
        self.controller.on_loss(&loss, group);
    }

    pub(super) fn on_mark(&mut self, now: Instant) {
        self.controller.on_ecn_ce(now, now);
    }

    pub(super) fn on_timeout(&mut self, now: Instant, first: bool, rtt: &RttEstimator) {
        if first {
            self.on_loss(now, rtt, &[]);
        }
        self.controller.on_persistent_congestion(now);
    }

    /// A new controller, which knows no threshold either.
    pub(super) fn restart(&mut self, tcp: &Tcp, initial: u32, _idle: Duration) {
        if self.window() > initial {
            self.controller = self.controller.kind().build(&config(tcp, initial));
        }
    }
}
