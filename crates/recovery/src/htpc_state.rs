//! HTPC's view of the network: how many packets are blocked, and how many are lost, lately.
//!
//! HTPC, "Redundancy adjustment", equations 1 and the text before equation 4. One object per flow,
//! told of every data packet and every acknowledgement.
//!
//! | paper           | here                          | unit        |
//! |-----------------|-------------------------------|-------------|
//! | T               | [`Sampling::period`]          | time        |
//! | n, n_b          | acknowledgements of a period, and those that took too long | packets |
//! | b = n_b / n     | [`NetworkState::blocking`]    | probability |
//! | average RTT     | [`NetworkState::mean_rtt`]    | time        |
//! | PL = n_d / n_t  | [`NetworkState::loss`]        | probability |
//!
//! # Departures
//! - The average is over the flow's whole life, n and n_b over the last complete period of 500 us;
//!   a period without acknowledgements keeps the value of the one before (HTPC-A4). As CAPS's code:
//!   no periods, and a smallest RTT that counts as blocked.
//! - The paper measures PL and does not use it. Here it may count as blocking, b' = max(b, PL), off
//!   by default (HTPC-A5).
//!
//! # Invariants
//! Both are between 0 and 1, and 0 before the first period with an acknowledgement is complete
//! unless [`Sampling::at_first`] says otherwise.

use units::{Duration, Instant};

/// What counts as blocked, and over which time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampling {
    /// T. `None` counts from the flow's start. Default 500 us.
    pub period: Option<Duration>,
    /// An RTT above this many times the average is blocked. Default 2.
    pub factor: u32,
    /// An RTT below is never blocked. Default zero; CAPS's code has 200 us.
    pub least: Duration,
    /// Whether losses count as blocking too. Default no.
    pub count_losses: bool,
    /// b before the first complete period with an acknowledgement. Default 0: a flow's first window
    /// is not protected.
    pub at_first: f64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            period: Some(Duration::from_micros(500)),
            factor: 2,
            least: Duration::ZERO,
            count_losses: false,
            at_first: 0.0,
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Counts {
    sent: u64,
    lost: u64,
    acks: u64,
    blocked: u64,
}

/// A share, or what it was before if there is nothing to share.
fn share(part: u64, whole: u64, before: f64) -> f64 {
    if whole == 0 { before } else { (part as f64 / whole as f64).min(1.0) }
}

/// The estimates of one flow.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct NetworkState {
    sampling: Sampling,
    /// When the current period began; `None` before the first event.
    since: Option<Instant>,
    counts: Counts,
    blocking: f64,
    loss: f64,
    /// Sum and number of the RTTs so far, in ns.
    rtts: (u128, u64),
}

impl NetworkState {
    /// Nothing is known yet.
    pub fn new(sampling: Sampling) -> Self {
        Self { sampling, blocking: sampling.at_first.clamp(0.0, 1.0), ..Self::default() }
    }

    /// A data packet was sent, `again` if it is a retransmission: which stands for a loss.
    pub fn on_sent(&mut self, now: Instant, again: bool) {
        self.roll(now);
        self.counts.sent += 1;
        self.counts.lost += u64::from(again);
    }

    /// An acknowledgement arrived, `rtt` after what it acknowledges was sent.
    pub fn on_ack(&mut self, now: Instant, rtt: Duration) {
        self.roll(now);
        let late = self.rtts.1 > 0 && rtt > self.mean_rtt() * u64::from(self.sampling.factor);
        self.counts.acks += 1;
        self.counts.blocked += u64::from(late && rtt >= self.sampling.least);
        self.rtts = (self.rtts.0 + u128::from(rtt.as_nanos()), self.rtts.1 + 1);
    }

    /// The average over all samples; zero without any.
    pub fn mean_rtt(&self) -> Duration {
        Duration::from_nanos((self.rtts.0 / u128::from(self.rtts.1.max(1))) as u64)
    }

    /// b: the share of packets that take more than twice the average RTT. With
    /// [`Sampling::count_losses`] at least [`loss`](Self::loss).
    pub fn blocking(&mut self, now: Instant) -> f64 {
        self.roll(now);
        if self.sampling.count_losses { self.blocking.max(self.loss) } else { self.blocking }
    }

    /// PL: the share of transmissions that were retransmissions.
    pub fn loss(&mut self, now: Instant) -> f64 {
        self.roll(now);
        self.loss
    }

    /// Takes the counts over if the period is complete.
    fn roll(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let Some(period) = self.sampling.period else {
            self.take_over();
            return;
        };
        let periods = (now - since).as_nanos() / period.as_nanos().max(1);
        if periods > 0 {
            self.take_over();
            self.counts = Counts::default();
            self.since = Some(since + period * periods);
        }
    }

    fn take_over(&mut self) {
        self.blocking = share(self.counts.blocked, self.counts.acks, self.blocking);
        self.loss = share(self.counts.lost, self.counts.sent, self.loss);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ORIGIN + Duration::from_micros(us)
    }

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn blocked_is_more_than_twice_the_average_over_the_last_period() {
        let mut state = NetworkState::default();
        for (when, rtt) in [(0, 100), (100, 100), (200, 100), (300, 400)] {
            state.on_ack(at(when), us(rtt)); // average before the last: 100
        }
        assert_eq!(state.blocking(at(499)), 0.0); // the period is not complete
        assert_eq!(state.blocking(at(500)), 0.25);
        assert_eq!(state.mean_rtt(), us(175));
        state.on_ack(at(600), us(350)); // exactly twice is not more than twice
        assert_eq!(state.blocking(at(1_000)), 0.0);
    }

    #[test]
    fn a_period_without_acknowledgements_keeps_the_value() {
        let mut state = NetworkState::default();
        state.on_ack(at(0), us(100));
        state.on_ack(at(10), us(500));
        assert_eq!(state.blocking(at(600)), 0.5);
        assert_eq!(state.blocking(at(90_000)), 0.5);
        state.on_ack(at(90_100), us(100));
        assert_eq!(state.blocking(at(90_400)), 0.5); // periods keep their grid: 90,000 to 90,500
        assert_eq!(state.blocking(at(90_500)), 0.0);
    }

    #[test]
    fn losses_are_counted_and_used_only_if_asked_for() {
        for (count_losses, blocking) in [(false, 0.0), (true, 0.25)] {
            let mut state = NetworkState::new(Sampling { count_losses, ..Sampling::default() });
            for again in [false, false, true, false] {
                state.on_sent(at(1), again);
            }
            state.on_ack(at(2), us(100));
            assert_eq!((state.loss(at(501)), state.blocking(at(501))), (0.25, blocking));
        }
    }

    #[test]
    fn what_is_assumed_at_first_ends_with_the_first_measurement() {
        let mut state = NetworkState::new(Sampling { at_first: 0.1, ..Sampling::default() });
        assert_eq!(state.blocking(at(0)), 0.1);
        state.on_ack(at(100), us(100));
        assert_eq!((state.blocking(at(400)), state.blocking(at(600))), (0.1, 0.0));
    }

    #[test]
    fn the_reading_of_caps_code_counts_from_the_start() {
        let sampling = Sampling { period: None, least: us(200), ..Sampling::default() };
        let mut state = NetworkState::new(sampling);
        for (when, rtt) in [(0, 50), (1, 150), (2, 300), (5_000, 60)] {
            state.on_ack(at(when), us(rtt));
        }
        assert_eq!(state.blocking(at(5_000)), 0.25); // 150 is above twice 50, and too small
    }
}
