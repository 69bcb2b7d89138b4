//! The frame of the coupled controllers: Reno, with an increase and a decrease that look at the
//! sibling paths.
//!
//! # Departures
//! - A sibling with nothing in flight or without a round-trip time sample is left out of every sum:
//!   its window is not being used, so it competes with nobody. (The documents assume that every
//!   path always has data.)
//! - A path whose own round-trip time is not known yet, or that is not in the group, behaves as on
//!   a single path.
//! - The sums are taken when an ACK arrives, never cached (RFC 6356 section 4.1 leaves that open).
//!
//! # Invariants
//! On a single path each of them is Reno: one packet per round trip, halved by loss.

use core::fmt;

use units::Instant;

use crate::{Ack, Config, Controller, ControllerKind, Loss, PathWindow, State, aimd::Aimd};

/// One path that counts in a coupled controller's sums.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its window in bytes.
    pub window: f64,
    /// Its smoothed round-trip time in seconds, above zero.
    pub rtt: f64,
    /// l: bytes between its losses, see [`PathWindow::inter_loss`].
    pub inter_loss: f64,
}

impl Member {
    /// The rate x = w / rtt in bytes per second.
    pub fn rate(&self) -> f64 {
        self.window / self.rtt
    }
}

/// This path and its siblings, as far as they count.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a> {
    /// This path.
    pub own: Member,
    group: &'a [PathWindow],
}

impl<'a> Members<'a> {
    pub(crate) fn new(window: f64, inter_loss: u64, group: &'a [PathWindow]) -> Self {
        let rtt = group.iter().find(|p| p.is_self).map_or(0.0, |p| p.smoothed_rtt.as_secs_f64());
        let (rtt, group) = if rtt > 0.0 { (rtt, group) } else { (1.0, &group[..0]) };
        Self { own: Member { window, rtt, inter_loss: inter_loss as f64 }, group }
    }

    /// All that count, this path first.
    pub fn all(&self) -> impl Iterator<Item = Member> + use<'a> {
        let counts = |p: &&PathWindow| !p.is_self && p.in_flight > 0 && !p.smoothed_rtt.is_zero();
        let siblings = self.group.iter().filter(counts).map(|p| Member {
            window: p.window as f64,
            rtt: p.smoothed_rtt.as_secs_f64(),
            inter_loss: p.inter_loss as f64,
        });
        core::iter::once(self.own).chain(siblings)
    }

    /// The sum of all rates in bytes per second.
    pub fn total_rate(&self) -> f64 {
        self.all().map(|member| member.rate()).sum()
    }
}

/// What tells one coupled controller from another. Not nameable outside of the crate.
pub trait Coupling: fmt::Debug + Send + 'static {
    /// Which algorithm this is.
    const KIND: ControllerKind;

    /// By how many packets' worth of bytes to grow for each byte acknowledged in congestion
    /// avoidance: 1 / window on a single path.
    fn increase(&self, members: &Members<'_>) -> f64;

    /// What a loss leaves of the window: one half on a single path.
    fn decrease(&self, members: &Members<'_>) -> f64 {
        let _ = members;
        0.5
    }

    /// `bytes` were acknowledged.
    fn on_acked(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// The window has been reduced by a loss.
    fn on_reduced(&mut self) {}

    /// See [`PathWindow::inter_loss`].
    fn inter_loss(&self) -> u64 {
        0
    }
}

/// A coupled controller.
#[derive(Clone, Debug)]
pub struct Coupled<C> {
    window: Aimd,
    coupling: C,
}

impl<C: Default> Coupled<C> {
    /// A controller in slow start with the initial window.
    pub fn new(config: &Config) -> Self {
        Self { window: Aimd::new(config), coupling: C::default() }
    }
}

impl<C: Coupling> Coupled<C> {
    fn members<'a>(&self, group: &'a [PathWindow]) -> Members<'a> {
        Members::new(self.window.window(), self.coupling.inter_loss(), group)
    }
}

impl<C: Coupling> Controller for Coupled<C> {
    fn on_ack(&mut self, ack: &Ack, group: &[PathWindow]) {
        self.coupling.on_acked(ack.bytes);
        let bytes = self.window.on_ack(ack);
        if bytes > 0.0 {
            let increase = self.coupling.increase(&self.members(group));
            self.window.add(bytes * self.window.segment() * increase);
        }
    }

    fn on_loss(&mut self, loss: &Loss, group: &[PathWindow]) {
        let factor = self.coupling.decrease(&self.members(group));
        if self.window.reduce(loss.now, loss.largest_sent_at, factor) {
            self.coupling.on_reduced();
        }
    }

    fn on_persistent_congestion(&mut self, _now: Instant) {
        self.window.collapse();
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        self.window.undo();
    }

    fn on_ecn_ce(&mut self, now: Instant, largest_sent: Instant) {
        if self.window.reduce(now, largest_sent, 0.5) {
            self.coupling.on_reduced();
        }
        self.window.confirm();
    }

    fn on_mtu(&mut self, max_datagram_size: u64) {
        self.window.on_mtu(max_datagram_size);
    }

    fn set_window(&mut self, window: u64, ssthresh: Option<u64>) {
        self.window.set(window, ssthresh);
    }

    fn window(&self) -> u64 {
        self.window.window() as u64
    }

    fn inter_loss(&self) -> u64 {
        self.coupling.inter_loss()
    }

    fn state(&self) -> State {
        self.window.state()
    }

    fn kind(&self) -> ControllerKind {
        C::KIND
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use units::Duration;

    use super::*;

    /// A group of paths (window in bytes, RTT in ms, bytes between losses); `own` is the index of
    /// the path asked about.
    pub(crate) fn group(paths: &[(u64, u64, u64)], own: usize) -> Vec<PathWindow> {
        let window = |(i, &(window, rtt, inter_loss)): (usize, &(u64, u64, u64))| PathWindow {
            path: i as u32,
            window,
            in_flight: window,
            smoothed_rtt: Duration::from_millis(rtt),
            slow_start: false,
            is_self: i == own,
            inter_loss,
            ..PathWindow::default()
        };
        paths.iter().enumerate().map(window).collect()
    }

    /// Growth of path `own` in packets per round trip, as a multiple of Reno's.
    pub(crate) fn growth<C: Coupling>(coupling: &C, paths: &[(u64, u64, u64)], own: usize) -> f64 {
        let group = group(paths, own);
        let (window, _, inter_loss) = paths[own];
        coupling.increase(&Members::new(window as f64, inter_loss, &group)) * window as f64
    }

    /// What a loss on path `own` leaves of its window.
    pub(crate) fn left<C: Coupling>(coupling: &C, paths: &[(u64, u64, u64)], own: usize) -> f64 {
        let group = group(paths, own);
        coupling.decrease(&Members::new(paths[own].0 as f64, paths[own].2, &group))
    }

    /// What holds for each coupling on one path, with any idle or unknown sibling.
    pub(crate) fn is_reno_on_a_single_path<C: Coupling + Default>() {
        let coupling = C::default();
        for alone in [&[(20_000, 30, 9_000)][..], &[(5_000, 200, 0)]] {
            assert!((growth(&coupling, alone, 0) - 1.0).abs() < 1e-12, "{coupling:?}");
            assert_eq!(left(&coupling, alone, 0), 0.5);
        }
        let mut idle = group(&[(20_000, 30, 9_000), (90_000, 10, 90_000), (90_000, 0, 0)], 0);
        idle[1].in_flight = 0;
        let increase = coupling.increase(&Members::new(20_000.0, 9_000, &idle));
        assert!((increase * 20_000.0 - 1.0).abs() < 1e-12, "{coupling:?}: {increase}");
        let stranger = group(&[(20_000, 30, 0), (20_000, 30, 0)], 7);
        let increase = coupling.increase(&Members::new(20_000.0, 0, &stranger));
        assert!((increase * 20_000.0 - 1.0).abs() < 1e-12, "{coupling:?}: {increase}");
    }
}
