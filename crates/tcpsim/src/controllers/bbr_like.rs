//! What BBR (version 1) is to those who share a bottleneck with it: a flow that keeps as much in
//! flight as it believes the path to hold, twice that at most, and does not mind losses.
//!
//! Cardwell and others, "BBR: Congestion-Based Congestion Control", ACM Queue 2016, and
//! draft-cardwell-iccrg-bbr-congestion-control-00, whose sections the names come from. Not BBR: TCP
//! here has no pacing, so the window does what both do there. Among loss-based flows in deep
//! buffers it is BBR's window of two bandwidth-delay products that decides (Ware and others,
//! "Modeling BBR's Interactions with Loss-Based Congestion Control", IMC 2019), and that is exact.
//!
//! | BBR                   | here                                                         |
//! |-----------------------|--------------------------------------------------------------|
//! | BtlBw                 | most segments per second of a round trip, over ten of those  |
//! | RTprop                | smallest RTT sample of ten seconds                           |
//! | pacing rate g x BtlBw | what is in flight at that rate for the smoothed RTT          |
//! | cwnd 2 x BDP          | the window is never larger                                   |
//! | Startup, Drain, ProbeBW, ProbeRTT | [`Phase`]                                        |
//!
//! # Departures
//! - A rate is what a whole round trip acknowledged, not what each acknowledgement shows.
//! - No recovery mode: only a timeout shrinks the window, for one round trip.

use std::collections::VecDeque;

use congestion::{PathWindow, Rtt};
use units::{Duration, Instant};

use crate::own::{Acked, WindowControl};

/// 2 / ln 2 (section 4.3.2.1).
const STARTUP_GAIN: f64 = 2.885;
/// Of the window over what the path holds (section 4.2.3.2).
const WINDOW_GAIN: f64 = 2.0;
/// Gains of ProbeBW, a round trip each (section 4.3.3.1).
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Round trips that BtlBw is looked for in (section 4.1.1.3).
const ROUNDS: usize = 10;
/// RTprop grows stale after this, and ProbeRTT lasts so long (sections 4.1.2.2, 4.3.4).
const STALE: Duration = Duration::from_secs(10);
const PROBE: Duration = Duration::from_millis(200);
/// Segments of ProbeRTT and after a timeout.
const LEAST: f64 = 4.0;
/// Startup ends after so many round trips that brought less than a quarter more.
const FULL_ROUNDS: u32 = 3;
const GROWTH: f64 = 1.25;

/// What it is doing.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Startup,
    Drain,
    /// The place in [`CYCLE`].
    ProbeBw(usize),
    /// Until then.
    ProbeRtt(Instant),
}

/// The window of one connection.
#[derive(Debug)]
pub(super) struct BbrLike {
    initial: f64,
    phase: Phase,
    /// Segments per second of the last round trips.
    rates: VecDeque<f64>,
    /// The smallest RTT, and when it was seen.
    least_rtt: Option<(Duration, Instant)>,
    smoothed: Duration,
    /// When the round trip began, and what has been acknowledged in it.
    round: Option<Instant>,
    acknowledged: u32,
    /// BtlBw when it last grew by [`GROWTH`], and round trips since.
    full_rate: f64,
    full_rounds: u32,
    /// A timeout has run out in this round trip.
    collapsed: bool,
}

impl BbrLike {
    pub(super) fn new(window: u32) -> Self {
        Self {
            initial: f64::from(window.max(1)),
            phase: Phase::Startup,
            rates: VecDeque::new(),
            least_rtt: None,
            smoothed: Duration::ZERO,
            round: None,
            acknowledged: 0,
            full_rate: 0.0,
            full_rounds: 0,
            collapsed: false,
        }
    }

    fn rate(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// Segments that the path holds without a queue.
    fn holds(&self) -> f64 {
        self.rate() * self.least_rtt.map_or(0.0, |(rtt, _)| rtt.as_secs_f64())
    }

    fn gain(&self) -> f64 {
        match self.phase {
            Phase::Startup => STARTUP_GAIN,
            Phase::Drain => 1.0 / STARTUP_GAIN,
            Phase::ProbeBw(place) => CYCLE[place],
            Phase::ProbeRtt(_) => 1.0,
        }
    }

    /// Takes in what a round trip brought, if one is over.
    fn end_round(&mut self, acked: &Acked) {
        self.acknowledged += acked.segments;
        let Some(began) = self.round else {
            (self.round, self.acknowledged) = (Some(acked.now), 0);
            return;
        };
        if acked.sent_at < began || acked.now <= began {
            return;
        }
        let rate = f64::from(self.acknowledged) / (acked.now - began).as_secs_f64();
        (self.round, self.acknowledged, self.collapsed) = (Some(acked.now), 0, false);
        self.rates.push_back(rate);
        if self.rates.len() > ROUNDS {
            self.rates.pop_front();
        }
        self.next_phase(acked);
    }

    /// What to do in the next round trip.
    fn next_phase(&mut self, acked: &Acked) {
        match self.phase {
            Phase::Startup => {
                if self.is_full() {
                    self.phase = Phase::Drain;
                }
            }
            Phase::Drain if f64::from(acked.flight) <= self.holds() => self.phase = Phase::ProbeBw(0),
            Phase::Drain => {}
            Phase::ProbeBw(place) => self.phase = Phase::ProbeBw((place + 1) % CYCLE.len()),
            Phase::ProbeRtt(until) if acked.now >= until => self.phase = Phase::ProbeBw(2),
            Phase::ProbeRtt(_) => {}
        }
    }

    /// Whether the rate has stopped growing.
    fn is_full(&mut self) -> bool {
        let rate = self.rate();
        if rate >= GROWTH * self.full_rate {
            (self.full_rate, self.full_rounds) = (rate, 0);
            return false;
        }
        self.full_rounds += 1;
        self.full_rounds >= FULL_ROUNDS
    }

    /// The smallest RTT; where it is stale, the window goes down for a moment to see it again.
    fn watch_rtt(&mut self, now: Instant, sample: Duration) {
        let stale = self.least_rtt.is_some_and(|(_, seen)| now.saturating_duration_since(seen) > STALE);
        if stale && matches!(self.phase, Phase::ProbeBw(_)) {
            self.phase = Phase::ProbeRtt(now + PROBE);
        }
        if stale || self.least_rtt.is_none_or(|(least, _)| sample <= least) {
            self.least_rtt = Some((sample, now));
        }
    }
}

impl WindowControl for BbrLike {
    fn window(&self) -> f64 {
        if self.collapsed || matches!(self.phase, Phase::ProbeRtt(_)) {
            return LEAST;
        }
        let most = WINDOW_GAIN.max(if self.phase == Phase::Startup { STARTUP_GAIN } else { 0.0 });
        let paced = self.gain() * self.rate() * self.smoothed.as_secs_f64();
        let least = if self.phase == Phase::Startup { self.initial } else { LEAST };
        paced.min(most * self.holds()).max(least)
    }

    fn in_slow_start(&self) -> bool {
        self.phase == Phase::Startup
    }

    fn on_ack(&mut self, acked: &Acked, rtt: &Rtt, _siblings: &[PathWindow]) {
        self.smoothed = rtt.smoothed;
        if !rtt.latest.is_zero() {
            self.watch_rtt(acked.now, rtt.latest);
        }
        self.end_round(acked);
    }

    fn on_loss(&mut self, _now: Instant, _flight: u32) {}

    fn on_timeout(&mut self, _now: Instant, _flight: u32, _first: bool) {
        self.collapsed = true;
    }

    fn on_idle(&mut self, _initial: u32) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Acknowledges a window per round trip of 100 ms over a path that carries a hundred segments in
    /// one; the windows. RTT samples are longer by `more` ms, and by what does not fit and waits.
    fn rounds(bbr: &mut BbrLike, (from, to): (u64, u64), more: u64) -> Vec<u32> {
        let most = 100;
        let at = |n: u64| Instant::ORIGIN + Duration::from_millis(100) * n;
        let windows = (from..to).map(|n| {
            let flight = bbr.window() as u32;
            let rtt =
                Duration::from_millis(100 + more).mul_f64(f64::from(flight.max(most)) / f64::from(most));
            let acked = Acked {
                now: at(n + 1),
                segments: flight.min(most),
                sent_at: at(n),
                flight,
                limited: true,
                in_recovery: false,
                marked: false,
            };
            let rtt = Rtt { latest: rtt, smoothed: rtt, min: rtt, variance: Duration::ZERO };
            bbr.on_ack(&acked, &rtt, &[]);
            bbr.window() as u32
        });
        windows.collect()
    }

    /// A path of 1,000 segments per second and 100 ms holds 100: windows grow by 2.885 until that
    /// is full, and then cycle around it.
    #[test]
    fn it_fills_the_path_and_stays_there() {
        let mut bbr = BbrLike::new(10);
        let windows = rounds(&mut bbr, (0, 40), 0);
        // The first acknowledgement begins the first round trip.
        assert_eq!(windows[..4], [10, 28, 80, 230]);
        let settled = &windows[20..40];
        assert!(settled.iter().all(|window| (75..=200).contains(window)), "{settled:?}");
        assert!(settled.iter().filter(|window| (100..=101).contains(*window)).count() >= 8, "{settled:?}");
    }

    #[test]
    fn losses_change_nothing_and_a_timeout_lasts_for_a_round_trip() {
        let mut bbr = BbrLike::new(10);
        rounds(&mut bbr, (0, 40), 0);
        let window = bbr.window();
        bbr.on_loss(Instant::ORIGIN, 100);
        assert_eq!(bbr.window(), window);
        bbr.on_timeout(Instant::ORIGIN, 100, true);
        assert_eq!(bbr.window(), LEAST);
        rounds(&mut bbr, (40, 41), 0);
        assert!(bbr.window() > 50.0, "{}", bbr.window());
    }

    #[test]
    fn a_stale_round_trip_time_is_looked_for_again() {
        let mut bbr = BbrLike::new(10);
        rounds(&mut bbr, (0, 40), 0);
        let windows = rounds(&mut bbr, (40, 300), 5);
        let probes: Vec<usize> = (0..windows.len()).filter(|round| windows[*round] == LEAST as u32).collect();
        // The last sample of 100 ms came at 4 s: the window is down for 200 ms from 14 s on, and sees
        // 105 ms. So it goes on every ten seconds, as only then nothing waits.
        assert_eq!(probes, [100, 101, 203, 204]);
    }
}
