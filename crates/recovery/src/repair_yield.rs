//! `auto`: whether repair mends anything.
//!
//! Ours. The planner ([`repair_size`](crate::repair_size)) takes repair to be lost independently of
//! what it repairs, or nearly so. Where a buffer overflows (the receiver's socket, a short queue)
//! repair that leaves right behind its packets meets the same full buffer: it mends next to nothing,
//! and is some of what overflows. More loss asks for more repair, and that makes more loss. So what
//! recovery mends of the losses that it had protected is counted, and where that is hardly anything
//! repair is left out, but for a trial now and then.
//!
//! # Episodes
//! Losses that are declared within a round trip of the first are one episode and count once, by the share
//! of them that was mended: a path that was cut says as much as a single packet. And symbols leave after
//! all that they repair, so that what they mend is known after the last of its losses: counted by
//! themselves, all but one of a response's losses would count as lost for good.
//!
//! # Invariants
//! Nothing is in vain before some twenty episodes. What mends again is found out by trials.

use units::{Duration, Instant};

/// Weight of earlier episodes for each new one: the last 64 or so count.
const KEPT: f64 = 1.0 - 1.0 / 64.0;
/// Episodes, by their weights, before which nothing is said.
const ENOUGH: f64 = 20.0;
/// Repair is in vain if it mends less than this of what is lost. Independent losses leave it all but
/// the loss rate; where it is less than a quarter, hardly a percentile of completion times tells.
const VAIN: f64 = 0.25;
/// It is so until it mends this much of what is lost. Between the two lies what it makes better by
/// being left out.
const WORTH_IT: f64 = 0.5;
/// Of so many times that repair in vain is wanted, it is sent once.
const TRIALS: u32 = 16;

/// What has become of the losses that recovery had protected, of one path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RepairYield {
    episodes: f64,
    mended: f64,
    latest: Option<Episode>,
    in_vain: bool,
    left_out: u32,
}

/// Losses that were declared within a round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Episode {
    until: Instant,
    lost: u32,
    mended: u32,
}

impl RepairYield {
    /// A packet that recovery had protected is declared lost on a path whose round-trip time is `rtt`.
    pub fn on_lost(&mut self, now: Instant, rtt: Duration) {
        match &mut self.latest {
            Some(episode) if now <= episode.until => episode.lost += 1,
            latest => {
                if let Some(over) = latest.replace(Episode::new(now + rtt)) {
                    self.on_episode(over);
                }
            }
        }
    }

    /// What a packet that is declared lost carried has arrived by its repair. News that comes after
    /// the next episode has begun counts there.
    pub fn on_mended(&mut self) {
        if let Some(latest) = &mut self.latest {
            latest.mended += 1;
        }
    }

    fn on_episode(&mut self, Episode { lost, mended, .. }: Episode) {
        self.episodes = self.episodes * KEPT + 1.0;
        self.mended = self.mended * KEPT + f64::from(mended.min(lost)) / f64::from(lost);
        let bound = if self.in_vain { WORTH_IT } else { VAIN };
        self.in_vain = self.episodes >= ENOUGH && self.mended < bound * self.episodes;
    }

    /// Repair is wanted: whether it is to be left out, as it is in vain and this is no trial.
    pub fn leaves_out(&mut self) -> bool {
        if !self.in_vain {
            return false;
        }
        self.left_out = (self.left_out + 1) % TRIALS;
        self.left_out != 0
    }
}

impl Episode {
    fn new(until: Instant) -> Self {
        Self { until, lost: 1, mended: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(1);

    /// Episodes of `lost` packets each, of which `mended` are mended.
    fn episodes(watched: &mut RepairYield, from: u64, count: u64, lost: u32, mended: u32) {
        for n in from..from + count {
            let now = Instant::ORIGIN + RTT * (2 * n);
            (0..lost).for_each(|_| watched.on_lost(now, RTT));
            (0..mended).for_each(|_| watched.on_mended());
        }
    }

    #[test]
    fn what_mends_nothing_is_left_out_but_for_trials() {
        let mut watched = RepairYield::default();
        episodes(&mut watched, 0, 20, 3, 0);
        assert!(!watched.in_vain && !watched.leaves_out());
        episodes(&mut watched, 20, 10, 3, 0);
        assert!(watched.in_vain);
        let sent = (0..320).filter(|_| !watched.leaves_out()).count();
        assert_eq!(sent, 20);
    }

    #[test]
    fn chance_and_bursts_are_worth_their_repair() {
        for (lost, mended) in [(1, 1), (4, 2), (3, 1)] {
            let mut watched = RepairYield::default();
            episodes(&mut watched, 0, 1_000, lost, mended);
            assert!(!watched.in_vain, "{mended} of {lost}");
        }
    }

    #[test]
    fn what_mends_all_losses_of_a_round_trip_at_once_mends_all_of_them() {
        let mut watched = RepairYield::default();
        for n in 0..100 {
            let begun = Instant::ORIGIN + RTT * (2 * n);
            (0..5).for_each(|nth| watched.on_lost(begun + RTT / 5 * nth, RTT));
            (0..5).for_each(|_| watched.on_mended());
        }
        assert_eq!(watched.mended, watched.episodes);
    }

    #[test]
    fn a_path_that_was_cut_counts_once() {
        let mut watched = RepairYield::default();
        episodes(&mut watched, 0, 1, 10_000, 0);
        episodes(&mut watched, 1, 30, 1, 1);
        assert!(!watched.in_vain);
    }

    #[test]
    fn what_mends_again_is_sent_again() {
        let mut watched = RepairYield::default();
        episodes(&mut watched, 0, 500, 1, 0);
        assert!(watched.in_vain);
        episodes(&mut watched, 500, 30, 1, 1);
        assert!(watched.in_vain, "it may be better because repair is left out");
        episodes(&mut watched, 530, 30, 1, 1);
        assert!(!watched.in_vain);
    }

    #[test]
    fn news_of_what_nobody_lost_is_nothing() {
        let mut watched = RepairYield::default();
        watched.on_mended();
        assert_eq!(watched, RepairYield::default());
    }
}
