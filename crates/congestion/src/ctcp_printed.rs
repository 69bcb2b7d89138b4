//! CTCP's Algorithm 2 as the paper prints it, beside our [`Ctcp`](crate::Ctcp), which is mended: what
//! the rule itself does, for whoever wants to know.
//!
//! Kim et al., "Network Coded TCP (CTCP)", section 4.3.
//!
//! | paper                     | here                                   | unit    |
//! |---------------------------|----------------------------------------|---------|
//! | tokens                    | window / maximum datagram size         | packets |
//! | RTT                       | the sample of the ACK that shows the gap | time  |
//! | RTT_min                   | the smallest sample of all             | time    |
//! | beta = RTT_min / RTT      | `CtcpPrinted::beta`                    | none    |
//!
//! Against [`Ctcp`](crate::Ctcp): the latest sample instead of the smallest of a round trip, no
//! jitter subtracted, an RTT_min that never expires and is never doubted, no halving where most of a
//! round trip is lost. So jitter looks like a queue, and a link whose route got longer looks full
//! for ever: decision 0008 has the figures. On a path with a steady delay it is the fairer of the
//! two (`plans/ctcp-fig4`).
//!
//! # Departures
//! - Tokens are a window (CTCP-A6), the initial number the transport's initial window.
//! - One backoff per round trip, as the paper's text says of TCP (CTCP-A8). Acknowledgements that
//!   show a gap add to the tokens as well, where Algorithm 2 has only those without one add: at 5 %
//!   loss a twentieth more growth.
//! - The paper gives ss_threshold no value, and Algorithm 2's slow start does not look at gaps
//!   (CTCP-A18): here the first gap ends slow start, with a backoff.
//! - Before the first sample, and by a CE mark, the window is halved.
//! - A time-out, that is persistent congestion, starts again from the initial number in slow start,
//!   as printed; RFC 9002 section 7.6.2 would have the minimum window.
//!
//! # Invariants
//! The window is never below the minimum and is reduced at most once per recovery period.

use units::{Duration, Instant};

use crate::{Ack, Config, Controller, ControllerKind, Loss, PathWindow, Rtt, State, aimd::Aimd};

/// The controller of CTCP's Algorithm 2.
#[derive(Clone, Debug)]
pub struct CtcpPrinted {
    window: Aimd,
    /// RTT_min; `None` before a sample.
    min: Option<Duration>,
}

impl CtcpPrinted {
    /// A controller in slow start with the initial window.
    pub fn new(config: &Config) -> Self {
        Self { window: Aimd::new(config), min: None }
    }

    /// Algorithm 1's part of it: RTT_min <- min(RTT, RTT_min). Answers RTT; `None` before a sample.
    fn sample(&mut self, rtt: &Rtt) -> Option<Duration> {
        let latest = Some(rtt.latest).filter(|latest| !latest.is_zero())?;
        self.min = Some(self.min.map_or(latest, |min| min.min(latest)));
        Some(latest)
    }

    /// RTT_min / RTT, by which tokens are multiplied.
    fn beta(&mut self, rtt: &Rtt) -> f64 {
        let (latest, min) = (self.sample(rtt), self.min);
        min.zip(latest).map_or(0.5, |(min, latest)| min.as_secs_f64() / latest.as_secs_f64())
    }
}

impl Controller for CtcpPrinted {
    fn on_ack(&mut self, ack: &Ack, _group: &[PathWindow]) {
        self.sample(&ack.rtt);
        self.window.note_ack(ack);
        if ack.app_limited {
            return;
        }
        // tokens + 1 below the threshold, tokens + 1 / tokens above, for each packet.
        let rest = self.window.slow_start(ack.bytes as f64);
        self.window.add(rest * self.window.segment() / self.window.window());
    }

    fn on_loss(&mut self, loss: &Loss, _group: &[PathWindow]) {
        let beta = self.beta(&loss.rtt);
        self.window.reduce(loss.now, loss.largest_sent_at, beta);
    }

    fn on_persistent_congestion(&mut self, _now: Instant) {
        self.window.collapse();
        self.window.set(self.window.initial(), None);
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        self.window.undo();
    }

    fn on_ecn_ce(&mut self, now: Instant, largest_sent: Instant) {
        self.window.reduce(now, largest_sent, 0.5);
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

    fn state(&self) -> State {
        self.window.state()
    }

    fn kind(&self) -> ControllerKind {
        ControllerKind::CtcpPrinted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1_000;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn rtt(ms: u64) -> Rtt {
        Rtt { latest: Duration::from_millis(ms), ..Rtt::default() }
    }

    fn ack(controller: &mut CtcpPrinted, now: u64, ms: u64) {
        let sent = at(now) - Duration::from_millis(ms);
        let ack = Ack { now: at(now), largest_sent_at: sent, bytes: SIZE, rtt: rtt(ms), ..Ack::default() };
        controller.on_ack(&ack, &[]);
    }

    fn gap(controller: &mut CtcpPrinted, now: u64, ms: u64) {
        let sent = at(now) - Duration::from_millis(ms);
        let loss = Loss { now: at(now), bytes: SIZE, packets: 1, largest_sent_at: sent, rtt: rtt(ms) };
        controller.on_loss(&loss, &[]);
    }

    /// A queue of one bandwidth-delay product halves, an idle path with losses loses nothing, and
    /// the sample of the gap counts, whatever came before.
    #[test]
    fn a_gap_multiplies_by_rtt_min_over_the_latest_rtt() {
        let mut controller = CtcpPrinted::new(&Config::with_max_datagram_size(SIZE));
        for n in 0..20 {
            ack(&mut controller, 100 + n, 50);
        }
        let tokens = controller.window.window();
        gap(&mut controller, 200, 50);
        assert_eq!(controller.window.window(), tokens);
        ack(&mut controller, 300, 50);
        let tokens = controller.window.window();
        gap(&mut controller, 400, 100);
        assert_eq!(controller.window.window(), tokens / 2.0);
        // What was sent before the backoff belongs to it.
        gap(&mut controller, 410, 200);
        assert_eq!(controller.window.window(), tokens / 2.0);
    }

    #[test]
    fn after_a_gap_an_ack_adds_one_over_tokens() {
        let mut controller = CtcpPrinted::new(&Config::with_max_datagram_size(SIZE));
        ack(&mut controller, 100, 50);
        let tokens = controller.window.window() / SIZE as f64;
        assert_eq!(tokens, Config::with_max_datagram_size(SIZE).initial_window() as f64 / 1e3 + 1.0);
        gap(&mut controller, 200, 50);
        ack(&mut controller, 300, 50);
        let after = controller.window.window() / SIZE as f64;
        assert!((after - (tokens + 1.0 / tokens)).abs() < 1e-9, "{after}");
        controller.on_persistent_congestion(at(400));
        assert!(controller.window.in_slow_start());
        assert_eq!(controller.window(), Config::with_max_datagram_size(SIZE).initial_window());
    }
}
