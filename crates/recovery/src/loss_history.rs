//! How a path loses: how much, and in bursts of what length. What `auto` sizes repair by, and what
//! connections to one peer may share.
//!
//! Ours. The papers' estimate ([`PathLoss`](crate::PathLoss)) says how bursts go on and jumps to
//! one half or more after a loss; sizing asks for what to expect of packets that have not been lost
//! yet.
//!
//! | quantity              | estimate                                   |
//! |-----------------------|--------------------------------------------|
//! | loss rate             | (lost + doubt) / (max(sent, since) + 50)   |
//! | doubt                 | 1/2, or 1/200 where queues lose            |
//! | mean burst in packets | (lost + 1) / (bursts + 1), at least 1 / (1 - loss rate) |
//!
//! A path that nothing is known of loses 1 %; after 1,000 packets without a loss it is 0.05 %.
//! Losses of packets with neighbouring numbers are one burst. Packets that full queues drop do not
//! count: protection against those would fill the queues further, and the next exchange will meet
//! them empty. Some of what was counted before will have been dropped as well: each that is known to be
//! takes a quarter of a loss back. Where losses are beyond doubt the queues', what to expect of
//! chance is what was seen of it, and hardly a doubt more ([`LossHistory::seen`]). At [`MEMORY`] packets
//! all counts are halved, so that old times are forgotten and the counts are bounded. What was sent
//! since the last loss counts as far as [`QUIET`] packets: a path that has lost nothing for a long time
//! costs nothing, and the first loss ends that.
//!
//! # Invariants
//! 0 < loss rate < 1; mean burst >= 1; the pair always is a Gilbert model.

use crate::{PacketNumber, gilbert::Gilbert};

/// Packets at which all counts are halved.
pub const MEMORY: u32 = 4_096;
/// Packets without a loss that count at most: after so many, a block of a hundred packets is complete
/// with a probability of 99.9 % as it is.
pub const QUIET: u32 = 65_536;
/// Packets that a history handed to another connection counts for at most.
pub const SHARED: u32 = 512;
/// Packets since the last loss that such a history counts for at most: enough for a response of some
/// thirty packets.
pub const SHARED_QUIET: u32 = 16_384;
/// What a packet that a queue has dropped says of the losses that were taken for chance.
const DROPPED_TOO: f32 = 0.25;
/// Losses that are expected of a path that has shown none, and where those it has shown are the load's.
const DOUBT: f64 = 0.5;
const LITTLE_DOUBT: f64 = 0.005;
/// The largest loss rate that is ever answered.
const MOST: f64 = 0.9;

/// Counts of what one path sent and lost.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct LossHistory {
    sent: u32,
    // Fractions are what is left of few losses after old times were scaled down, again and again.
    lost: f32,
    bursts: f32,
    last_lost: Option<PacketNumber>,
    /// Packets sent since the last loss.
    since: u32,
    /// Whether what was never seen is not expected.
    seen: bool,
}

impl LossHistory {
    /// Nothing sent yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A packet was sent.
    pub fn on_sent(&mut self) {
        self.sent += 1;
        self.since = (self.since + 1).min(QUIET);
        if self.sent >= MEMORY {
            self.scale(MEMORY / 2);
        }
    }

    /// Packet `number` was declared lost. Call in ascending order within one round of loss
    /// detection.
    pub fn on_lost(&mut self, number: PacketNumber) {
        self.since = 0;
        self.lost = (self.lost + 1.0).min(self.sent as f32);
        if self.last_lost.is_none_or(|last| number != last.next()) {
            self.bursts = (self.bursts + 1.0).min(self.lost);
        }
        self.last_lost = Some(number);
    }

    /// A packet was lost to a full queue: it says nothing about what becomes of packets while there
    /// is none.
    pub fn on_dropped(&mut self) {
        self.sent = self.sent.saturating_sub(1).max(self.lost.ceil() as u32);
        self.since = self.since.saturating_sub(1);
        let left = (self.lost - DROPPED_TOO).max(0.0);
        if self.lost > 0.0 {
            self.bursts *= left / self.lost;
            self.lost = left;
        }
    }

    /// A packet that was declared lost has arrived after all.
    pub fn on_spurious(&mut self) {
        self.lost = (self.lost - 1.0).max(0.0);
        self.bursts = self.bursts.min(self.lost);
    }

    /// Packets that the history counts for.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// The loss rate to expect.
    pub fn loss(&self) -> f64 {
        let doubt = if self.seen { LITTLE_DOUBT } else { DOUBT };
        ((f64::from(self.lost) + doubt) / (f64::from(self.sent.max(self.since)) + 50.0)).min(MOST)
    }

    /// The share that was lost, as if fifty more packets had arrived: 0 until the first loss.
    pub fn observed(&self) -> f64 {
        f64::from(self.lost) / (f64::from(self.sent) + 50.0)
    }

    /// The mean number of packets lost in a row to expect.
    pub fn mean_burst(&self) -> f64 {
        let mean = (f64::from(self.lost) + 1.0) / (f64::from(self.bursts) + 1.0);
        // Rounding must not make the model impossible.
        mean.max(1.0 / (1.0 - self.loss()) + 1e-9)
    }

    /// Both, as a model.
    pub fn model(&self) -> Gilbert {
        Gilbert::new(self.loss(), self.mean_burst()).unwrap_or_else(Gilbert::lossless)
    }

    /// The same where more packets than have to be only make it worse: what was never seen to be lost by
    /// chance is hardly expected to be.
    pub fn seen(&self) -> Self {
        Self { seen: true, ..*self }
    }

    /// What to begin with on a new connection over the same path: the same rates, with less weight,
    /// and without packet numbers.
    pub fn shared(&self) -> Self {
        let mut shared = Self { last_lost: None, since: self.since.min(SHARED_QUIET), ..*self };
        if shared.sent > SHARED {
            shared.scale(SHARED);
        }
        shared
    }

    /// The same rates as if only `sent` packets had been seen.
    fn scale(&mut self, sent: u32) {
        let share = sent as f32 / self.sent.max(1) as f32;
        (self.lost, self.bursts, self.sent) = (self.lost * share, self.bursts * share, sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that loses packets n with `lost(n)`.
    fn history(packets: u64, lost: impl Fn(u64) -> bool) -> LossHistory {
        let mut history = LossHistory::new();
        for number in 0..packets {
            history.on_sent();
            if lost(number) {
                history.on_lost(PacketNumber(number));
            }
        }
        history
    }

    /// Each of many short connections over a path adds little, and what it hands on must not wear
    /// off by rounding.
    #[test]
    fn a_rate_survives_any_number_of_connections() {
        let mut history = LossHistory::new();
        for number in 0..100_000 {
            history.on_sent();
            if number % 50 == 0 {
                history.on_lost(PacketNumber(number));
            }
            if number % 30 == 29 {
                history = history.shared();
            }
        }
        assert!((0.017..0.023).contains(&history.loss()), "{}", history.loss());
    }

    #[test]
    fn packets_dropped_by_a_queue_are_as_if_never_sent() {
        let mut clean = history(1_000, |_| false);
        let before = clean.loss();
        for _ in 0..100 {
            clean.on_sent();
            clean.on_dropped();
        }
        assert_eq!(clean.loss(), before);
        let mut all_lost = history(10, |_| true);
        all_lost.on_dropped();
        assert_eq!(all_lost.sent(), 10);
    }

    #[test]
    fn known_drops_take_back_what_was_counted_for_chance() {
        let mut path = history(1_000, |n| n % 100 == 0);
        let bursts = path.mean_burst();
        for _ in 0..20 {
            path.on_sent();
            path.on_dropped();
        }
        assert_eq!(path.lost, 5.0);
        assert!((path.mean_burst() - bursts).abs() < 0.01, "{} and {bursts}", path.mean_burst());
        for _ in 0..100 {
            path.on_sent();
            path.on_dropped();
        }
        assert_eq!((path.lost, path.bursts), (0.0, 0.0));
    }

    #[test]
    fn what_was_not_seen_is_not_expected_where_queues_lose() {
        let clean = history(500, |_| false);
        assert!(
            clean.loss() > 8e-4 && (1e-6..1e-5).contains(&clean.seen().loss()),
            "{}",
            clean.seen().loss()
        );
        let lossy = history(1_000, |n| n % 50 == 0);
        assert!((lossy.seen().loss() - lossy.loss()).abs() < 1e-3, "what was seen is");
        assert!(LossHistory::new().seen().model().loss() > 0.0);
    }

    #[test]
    fn begins_with_one_per_cent_and_unlearns_it() {
        assert_eq!((LossHistory::new().loss(), LossHistory::new().mean_burst() < 1.02), (0.01, true));
        assert!((history(950, |_| false).loss() - 0.0005).abs() < 1e-12);
        assert_eq!(history(950, |_| false).observed(), 0.0);
        assert_eq!(history(950, |n| n % 10 == 0).observed(), 0.095);
    }

    #[test]
    fn finds_rate_and_burst_length() {
        let bursty = history(30_000, |n| n % 150 < 3);
        assert!((bursty.loss() - 0.02).abs() < 0.003, "{}", bursty.loss());
        assert!((bursty.mean_burst() - 3.0).abs() < 0.2, "{}", bursty.mean_burst());
        let single = history(30_000, |n| n % 50 == 0);
        assert!(single.mean_burst() < 1.1, "{}", single.mean_burst());
        assert!((single.model().loss() - single.loss()).abs() < 1e-12);
    }

    #[test]
    fn follows_a_path_that_changes() {
        let mut path = history(20_000, |n| n % 10 == 0);
        assert!((path.loss() - 0.1).abs() < 0.01);
        (0..20_000).for_each(|_| path.on_sent());
        assert!(path.loss() < 0.005, "{}", path.loss());
    }

    #[test]
    fn a_long_time_without_a_loss_counts_until_the_first() {
        let mut path = history(200_000, |_| false);
        assert!((7e-6..8e-6).contains(&path.loss()), "bounded: {}", path.loss());
        assert!((2e-5..4e-5).contains(&path.shared().loss()), "{}", path.shared().loss());
        let mut shared = path.shared();
        shared.on_lost(PacketNumber(0));
        assert!(shared.loss() > 2e-3, "{}", shared.loss());
        path.on_lost(PacketNumber(200_000));
        assert!((3e-4..8e-4).contains(&path.loss()), "{}", path.loss());
        // One loss in a thousand packets is hardly ever taken for none.
        let rare = history(60_000, |n| n % 5_000 == 0);
        assert!((1e-4..5e-4).contains(&rare.loss()), "{}", rare.loss());
    }

    #[test]
    fn a_shared_history_has_the_same_rates_and_less_weight() {
        let path = history(4_000, |n| n % 40 < 2);
        let shared = path.shared();
        assert_eq!(shared.sent(), SHARED);
        assert!(
            (shared.loss() - path.loss()).abs() < 0.01
                && (shared.mean_burst() - path.mean_burst()).abs() < 0.2
        );
        assert_eq!(LossHistory::new().shared(), LossHistory::new());
    }

    #[test]
    fn always_is_a_model_whatever_it_is_told() {
        let mut random = 1_u64;
        let mut path = LossHistory::new();
        for number in 0..100_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            match random >> 61 {
                0..=2 => path.on_sent(),
                3..=5 => path.on_lost(PacketNumber(number)),
                6 => path.on_lost(PacketNumber(number / 2)),
                _ => path.on_spurious(),
            }
            assert!(path.loss() > 0.0 && path.loss() <= MOST && path.mean_burst() >= 1.0);
            assert!((path.model().loss() - path.loss()).abs() < 1e-9);
            assert!(path.sent() <= MEMORY);
        }
    }
}
