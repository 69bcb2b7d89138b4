//! The trait that every congestion controller implements.

use core::fmt;

use units::{BitRate, Instant};

use crate::{Ack, Carried, ControllerKind, Loss, PathWindow, Phase, Precedents, Resumption, Rtt, State};

/// Evidence above which it is beyond doubt that losses are the load's: one loss is never enough.
const SURELY_LOAD: f32 = 2.0;

/// How much of one path may be in flight.
///
/// # Contract
/// - `now` never goes back from call to call.
/// - In one round of feedback the order is: [`on_loss`](Self::on_loss), then
///   [`on_persistent_congestion`](Self::on_persistent_congestion), then
///   [`on_ecn_ce`](Self::on_ecn_ce), then [`on_ack`](Self::on_ack); other orders are safe but may
///   grow the window by one ACK frame's worth more.
/// - `group` holds every usable path of the connection, in path id order, as it was before the
///   event. Controllers that are not coupled ignore it, and `&[]` is allowed: a coupled controller
///   then behaves as on a single path.
/// - The window never falls below [`Config::minimum_window`](crate::Config::minimum_window).
pub trait Controller: Send + fmt::Debug {
    /// A packet of `bytes` that counts as in flight was sent; `in_flight` includes it.
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        let _ = (now, bytes, in_flight);
    }

    /// An ACK frame newly acknowledged in-flight packets. One call per ACK frame, none if it
    /// acknowledged nothing new.
    fn on_ack(&mut self, ack: &Ack, group: &[PathWindow]);

    /// Loss detection declared packets lost. One call per round of loss detection; the controller
    /// itself reacts once per recovery period (RFC 9002 section 7.3.2), which it tells by
    /// [`Loss::largest_sent_at`].
    fn on_loss(&mut self, loss: &Loss, group: &[PathWindow]);

    /// Persistent congestion was established (RFC 9002 section 7.6), by losses already told to
    /// [`on_loss`](Self::on_loss).
    fn on_persistent_congestion(&mut self, now: Instant);

    /// Every packet whose loss caused the latest reduction has been acknowledged after all: the
    /// network reordered them. Undoes the reduction if the algorithm can and nothing else has
    /// reduced the window since.
    fn on_spurious_loss(&mut self, now: Instant) {
        let _ = now;
    }

    /// An ACK frame reported new ECN-CE marks; `largest_sent` is when the largest packet it
    /// acknowledged was sent. Counts as a loss event without lost packets (RFC 9002 section 7.1).
    fn on_ecn_ce(&mut self, now: Instant, largest_sent: Instant);

    /// The path's maximum datagram size is now `max_datagram_size` bytes of UDP payload.
    fn on_mtu(&mut self, max_datagram_size: u64);

    /// The window is `window` bytes from now on, at least the minimum: something else than this
    /// controller knows what the path bears. Slow start goes on up to `ssthresh`, without a
    /// threshold if there is none; reductions before cannot be undone any more.
    fn set_window(&mut self, window: u64, ssthresh: Option<u64>);

    /// The congestion window in bytes: a packet may leave if it keeps the bytes in flight at or
    /// below this.
    fn window(&self) -> u64;

    /// What sibling paths' controllers are told about this one in [`PathWindow::inter_loss`]. 0
    /// from those that do not count.
    fn inter_loss(&self) -> u64 {
        0
    }

    /// When the latest congestion was found that the window was reduced for, on this path or on one
    /// that shares its bottleneck. `None` from those that do not couple by bottleneck.
    fn congested_at(&self) -> Option<Instant> {
        None
    }

    /// How much losses have spoken for the load so far: the logarithm of odds, above 0 if they were the
    /// load's, below if they were chance. 0 from those that do not ask.
    fn load_evidence(&self) -> f32 {
        0.0
    }

    /// Whether what is lost now is thought to be lost for the load that the path has, so that it
    /// says nothing of what the path loses by chance.
    fn suspects_load(&self) -> bool {
        self.load_evidence() > 0.0
    }

    /// Whether it is beyond doubt that packets are lost for the load, so that more packets mend nothing.
    fn blames_load(&self) -> bool {
        self.load_evidence() > SURELY_LOAD
    }

    /// Whether what was lost may have been chance for all that is known, although it was answered as congestion: no
    /// queue stands, and it is not beyond doubt that packets are lost for the load. Those that do not ask are sure.
    fn is_in_doubt(&self) -> bool {
        false
    }

    /// Begins with what earlier connections have found of the path's load. Those that do not ask do not
    /// mind.
    fn recall(&mut self, precedents: &Precedents) {
        let _ = precedents;
    }

    /// Whether the path could be held: it is past slow start, and the window is as large as the
    /// controller thinks right. Those that do not couple by bottleneck never are.
    fn is_steady(&self) -> bool {
        false
    }

    /// Keeps the window at `window` bytes at most, until `until`: an experiment of
    /// [`Bottlenecks`](crate::Bottlenecks). Nothing is to be learnt from that but by who asked.
    fn hold(&mut self, window: u64, until: Instant) {
        let _ = (window, until);
    }

    /// Takes what an earlier connection has seen the path carry, to begin with. Those that do not
    /// resume do not mind.
    fn resume_from(&mut self, carried: Carried) {
        let _ = carried;
    }

    /// What is known for other connections. Nothing from those that do not resume.
    fn resumption(&self) -> Resumption {
        Resumption::default()
    }

    /// The rate at which to spread packets: 1.25 times window over smoothed round-trip time, twice
    /// in slow start (RFC 9002 section 7.7). Unlimited before the first RTT sample, and never zero:
    /// that would be for ever.
    fn pacing_rate(&self, rtt: &Rtt) -> BitRate {
        let (gain_num, gain_den) = match self.state().phase {
            Phase::SlowStart => (2, 1),
            Phase::CongestionAvoidance | Phase::Recovery => (5, 4),
        };
        let nanos = u128::from(rtt.smoothed.as_nanos());
        if nanos == 0 {
            return BitRate(u64::MAX);
        }
        let bits = u128::from(self.window()) * 8 * gain_num * 1_000_000_000;
        let rate = bits / (nanos * gain_den);
        BitRate(u64::try_from(rate).unwrap_or(u64::MAX).max(1))
    }

    /// What the controller is doing, for statistics.
    fn state(&self) -> State;

    /// Which algorithm this is.
    fn kind(&self) -> ControllerKind;

    /// The algorithm's name, as [`ControllerKind`] parses it.
    fn name(&self) -> &'static str {
        self.kind().name()
    }
}
