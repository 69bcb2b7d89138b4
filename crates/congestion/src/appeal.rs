//! Reductions that are taken back: what was answered as congestion although no queue was in sight,
//! and turns out to have been chance.
//!
//! A controller that sees no queue has to decide about a loss before it can know. It decides for
//! congestion, and gives the window up at once, for the sake of others. What comes after that tells.
//! A load that was too much loses nothing more once it is smaller; chance goes on. So what was given
//! up since the last congestion with a queue comes back when
//!
//! - losses are known to be chance by the delays at which they come
//!   ([`DelayAtLoss`](crate::delay_at_loss::DelayAtLoss)), and
//! - one more comes without a queue, at a load that is clearly below that of the reduction and below
//!   what the path carries ([`LOWER`]).
//!
//! It is not more than the path *carries*: what a round trip delivers, times the shortest over its
//! own round-trip time, so that what only filled a queue does not count. So nothing is taken back
//! that another flow has taken over for long.
//!
//! A queue that a sender's own bursts fill and that is empty in between shows no delay, and looks
//! like chance in all of this. Therefore only [`MOST`] appeals succeed. Where losses are chance, what
//! bursts there are is known by then ([`Chance`](crate::chance::Chance)).
//!
//! Nor does a flow appeal that is still short ([`SHORT`]).
//!
//! Windows in bytes.
//!
//! # Invariants
//! What comes back is at most the window of before, and at most what the path carries.

/// The part of what is to come back that the window has to be below.
const LOWER: f64 = 0.85;
/// What is left of the most that the path has carried after a round trip with less.
const CARRIED_DECAY: f64 = 0.99;
/// How many appeals succeed.
const MOST: u8 = 4;
/// What must have been delivered before one does, in bytes. A crowd that overflows a queue is made of
/// short flows, each of which sees few losses and none of the others.
const SHORT: u64 = 1 << 20;

/// A window as it was before it was reduced.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Former {
    /// Its size.
    pub(crate) window: u64,
    /// Whether it was slow start that the reduction ended.
    pub(crate) slow_start: bool,
}

/// What was given up without a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Appeal {
    /// Before the first of the reductions that may be taken back.
    former: Option<Former>,
    /// What the path carries in a round trip.
    carried: f64,
    /// What it has delivered in all.
    delivered: u64,
    /// How many appeals have succeeded.
    granted: u8,
}

impl Appeal {
    /// A round trip has delivered `delivered` bytes, and its smallest round-trip time was the
    /// route's over `backoff`.
    pub(crate) fn on_round(&mut self, delivered: u64, backoff: f64) {
        self.carried = (delivered as f64 * backoff).max(CARRIED_DECAY * self.carried);
        self.delivered = self.delivered.saturating_add(delivered);
    }

    /// The window is about to be reduced, from `former`, with a queue in sight or none.
    pub(crate) fn on_answer(&mut self, former: Former, has_queue: bool) {
        self.former = if has_queue { None } else { Some(self.former.unwrap_or(former)) };
    }

    /// What was given up was given up for good.
    pub(crate) fn settle(&mut self) {
        self.former = None;
    }

    /// It is another path.
    pub(crate) fn forget(&mut self) {
        (self.former, self.carried) = (None, 0.0);
    }

    /// A packet was lost by chance, without a queue and with a window of `window`: what the window
    /// is to be, and whether slow start is to go on.
    pub(crate) fn on_chance(&mut self, window: u64) -> Option<Former> {
        let former = self.former?;
        let back = former.window.min(self.carried as u64);
        if self.granted == MOST || self.delivered < SHORT || window as f64 >= LOWER * back as f64 {
            return None;
        }
        self.granted += 1;
        self.former = None;
        Some(Former { window: back, ..former })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn former(window: u64) -> Former {
        Former { window, slow_start: false }
    }

    /// One that has carried 100 kB, of which half waited in a queue.
    fn appeal() -> Appeal {
        let mut appeal = Appeal::default();
        while appeal.delivered < SHORT {
            appeal.on_round(200_000, 0.5);
        }
        appeal
    }

    #[test]
    fn a_short_flow_takes_nothing_back() {
        let mut appeal = Appeal::default();
        appeal.on_round(SHORT - 1, 1.0);
        appeal.on_answer(former(90_000), false);
        assert_eq!(appeal.on_chance(44_000), None);
        appeal.on_round(1, 1.0);
        assert_eq!(appeal.on_chance(44_000), Some(former(90_000)));
    }

    #[test]
    fn what_was_given_up_in_several_steps_comes_back_at_once() {
        let mut appeal = appeal();
        appeal.on_answer(former(90_000), false);
        appeal.on_answer(former(63_000), false);
        assert_eq!(appeal.on_chance(44_000), Some(former(90_000)));
        assert_eq!(appeal.on_chance(44_000), None, "once");
    }

    #[test]
    fn no_more_comes_back_than_the_path_carries() {
        let mut appeal = appeal();
        appeal.on_answer(former(300_000), false);
        assert_eq!(appeal.on_chance(85_000), None, "that is hardly a lower load");
        assert_eq!(appeal.on_chance(84_000), Some(former(100_000)));
        let mut late = self::appeal();
        late.on_answer(former(300_000), false);
        (0..100).for_each(|_| late.on_round(10_000, 1.0));
        assert!(late.on_chance(10_000).is_some_and(|back| back.window < 40_000), "another has it now");
    }

    #[test]
    fn what_a_queue_has_asked_for_is_gone() {
        let mut appeal = appeal();
        appeal.on_answer(former(90_000), false);
        appeal.on_answer(former(63_000), true);
        assert_eq!(appeal.on_chance(44_000), None);
        appeal.on_answer(former(44_000), false);
        appeal.settle();
        assert_eq!(appeal.on_chance(20_000), None);
    }

    #[test]
    fn few_appeals_succeed() {
        let mut appeal = appeal();
        let granted = (0..20).filter(|_| {
            appeal.on_answer(former(90_000), false);
            appeal.on_chance(63_000).is_some()
        });
        assert_eq!(granted.count(), usize::from(MOST));
    }

    #[test]
    fn slow_start_goes_on() {
        let mut appeal = appeal();
        appeal.on_answer(Former { window: 90_000, slow_start: true }, false);
        appeal.on_answer(former(63_000), false);
        assert_eq!(appeal.on_chance(40_000), Some(Former { window: 90_000, slow_start: true }));
        assert_eq!(appeal.on_chance(40_000), None);
    }

    #[test]
    fn another_path_has_carried_nothing() {
        let mut appeal = appeal();
        appeal.on_answer(former(90_000), false);
        appeal.forget();
        appeal.on_answer(former(90_000), false);
        assert_eq!(appeal.on_chance(40_000), None);
    }
}
