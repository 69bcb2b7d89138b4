//! Congestion windows, in segments.

mod dctcp;
mod reno;
mod shared;

use congestion::PathWindow;
use units::{Duration, Instant};

use crate::{
    CongestionKind, Tcp,
    own::{Acked, WindowControl},
    rtt::RttEstimator,
};

pub(crate) use dctcp::Dctcp;
pub(crate) use reno::Reno;
pub(crate) use shared::Shared;

/// The window of one sub-flow. The two that need no allocation are here, all others in a box.
#[derive(Debug)]
pub(crate) enum Control {
    Reno(Reno),
    Dctcp(Dctcp),
    Shared(Box<Shared>),
    Own(Box<dyn WindowControl>),
}

impl Control {
    pub(crate) fn new(tcp: &Tcp, window: u32) -> Self {
        match &tcp.congestion {
            CongestionKind::Reno => Self::Reno(Reno::new(window)),
            CongestionKind::Dctcp => Self::Dctcp(Dctcp::new(window)),
            CongestionKind::Shared(kind) => Self::Shared(Box::new(Shared::new(*kind, tcp, window))),
            CongestionKind::Custom(own) => Self::Own(own.make(window)),
        }
    }

    /// The window in whole segments, at least 1.
    #[inline]
    pub(crate) fn window(&self) -> u32 {
        match self {
            Self::Reno(reno) => reno.window(),
            Self::Dctcp(dctcp) => dctcp.reno.window(),
            Self::Shared(shared) => shared.window(),
            Self::Own(own) => (own.window() as u32).max(1),
        }
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        match self {
            Self::Reno(reno) => reno.in_slow_start(),
            Self::Dctcp(dctcp) => dctcp.reno.in_slow_start(),
            Self::Shared(shared) => shared.in_slow_start(),
            Self::Own(own) => own.in_slow_start(),
        }
    }

    /// Whether it wants to see the other sub-flows.
    pub(crate) fn looks_at_siblings(&self) -> bool {
        matches!(self, Self::Shared(_) | Self::Own(_))
    }

    /// What OLIA wants to know of the sub-flow's siblings.
    pub(crate) fn inter_loss(&self) -> u64 {
        if let Self::Shared(shared) = self { shared.inter_loss() } else { 0 }
    }

    #[inline]
    pub(crate) fn on_ack(&mut self, acked: &Acked, rtt: &RttEstimator, group: &[PathWindow]) {
        match self {
            Self::Reno(reno) => reno.on_ack(acked),
            Self::Dctcp(dctcp) => dctcp.on_ack(acked),
            Self::Shared(shared) => shared.on_ack(acked, rtt, group),
            Self::Own(own) => own.on_ack(acked, &rtt.seen(), group),
        }
    }

    /// A segment was sent; `pipe` segments are in the network with it.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Instant, pipe: u32) {
        if let Self::Shared(shared) = self {
            shared.on_sent(now, pipe);
        }
    }

    /// Fast recovery begins with `flight` segments outstanding.
    pub(crate) fn on_loss(&mut self, now: Instant, flight: u32, rtt: &RttEstimator, group: &[PathWindow]) {
        match self {
            Self::Reno(reno) => reno.on_loss(flight),
            Self::Dctcp(dctcp) => dctcp.reno.on_loss(flight),
            Self::Shared(shared) => shared.on_loss(now, rtt, group),
            Self::Own(own) => own.on_loss(now, flight),
        }
    }

    /// A mark was echoed for the first time in a window.
    pub(crate) fn on_mark(&mut self, now: Instant, flight: u32) {
        match self {
            Self::Reno(reno) => reno.on_loss(flight),
            Self::Dctcp(dctcp) => dctcp.on_mark(),
            Self::Shared(shared) => shared.on_mark(now),
            Self::Own(own) => own.on_mark(now, flight),
        }
    }

    /// The retransmission timer ran out; `first` unless it is a repetition for the same segment.
    pub(crate) fn on_timeout(&mut self, now: Instant, flight: u32, first: bool, rtt: &RttEstimator) {
        match self {
            Self::Reno(reno) => reno.on_timeout(flight, first),
            Self::Dctcp(dctcp) => dctcp.reno.on_timeout(flight, first),
            Self::Shared(shared) => shared.on_timeout(now, first, rtt),
            Self::Own(own) => own.on_timeout(now, flight, first),
        }
    }

    /// Nothing was sent for an RTO: the window is at most `initial` again.
    pub(crate) fn restart(&mut self, tcp: &Tcp, initial: u32, idle: Duration) {
        match self {
            Self::Reno(reno) => reno.restart(initial),
            Self::Dctcp(dctcp) => dctcp.reno.restart(initial),
            Self::Shared(shared) => shared.restart(tcp, initial, idle),
            Self::Own(own) => own.on_idle(initial),
        }
    }
}
