//! What a controller goes by of the paths that share its bottleneck: together they are one flow.
//!
//! | symbol    | here                                                | unit  |
//! |-----------|-----------------------------------------------------|-------|
//! | w_i       | this path's window                                  | bytes |
//! | W         | windows of all paths of the group that are in use   | bytes |
//! | w_i / W   | `Group::part`                                       | none  |
//!
//! - *Growth*: with segments of w_i / W of their size, a window follows w_i / W of the curve of a
//!   single flow of window W, whatever the number of paths (CUBIC's K and its Reno-friendly region
//!   included).
//! - *Congestion* that one path finds is answered by all, once: as a single flow of window W would.
//!   It is told by its time: what a path follows is the time of the one that it began with, so that
//!   no answer is answered again.
//!
//! LIA (RFC 6356) instead halves the growth once more and lets only one path answer, which is the
//! same on average, with larger and later steps.
//!
//! # Invariants
//! On its own, or with siblings that share nothing or have nothing in flight, a path's part is 1,
//! and it follows nobody.

use units::{Duration, Instant};

use crate::PathWindow;

/// A change of its part by less than this factor is none.
const SAME: f64 = 1.5;

/// How a path is coupled with others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Group {
    /// When it last began to have others in use beside it; congestion before that was not the
    /// group's.
    since: Option<Instant>,
    /// It has been found to share its bottleneck, and has given up what it had on its own.
    joined: bool,
    /// When the latest congestion was found that this path has answered.
    congested_at: Option<Instant>,
}

impl Group {
    /// The part of the group's window that is this path's: 1 if it is on its own.
    pub(crate) fn part(group: &[PathWindow]) -> f64 {
        let Some(own) = group.iter().find(|path| path.is_self) else { return 1.0 };
        let own = own.window.max(1);
        let all = members(group).fold(own, |sum, path| sum.saturating_add(path.window));
        own as f64 / all as f64
    }

    /// Whether a part is another one than that which is gone by.
    pub(crate) fn is_other(known: f64, part: f64) -> bool {
        known > part * SAME || part > known * SAME || (part == 1.0) != (known == 1.0)
    }

    /// Whether the path has just been found to share its bottleneck.
    pub(crate) fn joins(&mut self, group: &[PathWindow]) -> bool {
        let joined =
            core::mem::replace(&mut self.joined, group.iter().any(|path| path.shared && !path.is_self));
        self.joined && !joined
    }

    /// Looks at the siblings. When congestion was found by one that this path has not answered.
    pub(crate) fn look(&mut self, now: Instant, group: &[PathWindow]) -> Option<Instant> {
        if members(group).next().is_none() {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(now);
        let latest = members(group).filter_map(|path| path.congested_at).max()?;
        (latest > since && Some(latest) > self.congested_at).then_some(latest)
    }

    /// Congestion that was found at `at` has been answered.
    pub(crate) fn on_answered(&mut self, at: Instant) {
        self.congested_at = Some(at);
    }

    pub(crate) fn congested_at(&self) -> Option<Instant> {
        self.congested_at
    }
}

/// The siblings that share the bottleneck and are in use.
fn members(group: &[PathWindow]) -> impl Iterator<Item = &PathWindow> {
    let counts =
        |p: &&PathWindow| p.shared && !p.is_self && p.in_flight > 0 && p.smoothed_rtt > Duration::ZERO;
    group.iter().filter(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    /// A sibling with a window in kB, and one's own of 30 kB.
    fn with(sibling: PathWindow) -> Vec<PathWindow> {
        let own = PathWindow { window: 30_000, is_self: true, shared: true, ..PathWindow::default() };
        vec![own, sibling]
    }

    fn sibling(window: u64, congested_ms: Option<u64>) -> PathWindow {
        PathWindow {
            path: 1,
            window,
            in_flight: window,
            smoothed_rtt: Duration::from_millis(30),
            shared: true,
            congested_at: congested_ms.map(at),
            ..PathWindow::default()
        }
    }

    #[test]
    fn a_path_is_a_part_of_those_that_share_and_are_in_use() {
        assert_eq!(Group::part(&with(sibling(60_000, None))), 1.0 / 3.0);
        let idle = PathWindow { in_flight: 0, ..sibling(60_000, None) };
        let separate = PathWindow { shared: false, ..sibling(60_000, None) };
        let unknown = PathWindow { smoothed_rtt: Duration::ZERO, ..sibling(60_000, None) };
        for alone in [with(idle), with(separate), with(unknown), Vec::new()] {
            assert_eq!(Group::part(&alone), 1.0);
        }
        assert!(!Group::is_other(0.5, 0.6) && Group::is_other(0.5, 0.8) && Group::is_other(0.5, 0.3));
        assert!(Group::is_other(1.0, 0.9) && Group::is_other(0.9, 1.0) && !Group::is_other(1.0, 1.0));
    }

    #[test]
    fn congestion_is_answered_once_and_an_answer_is_no_congestion() {
        let mut group = Group::default();
        // What was before it had company is not its own.
        assert_eq!(group.look(at(100), &with(sibling(60_000, Some(90)))), None);
        assert_eq!(group.look(at(200), &with(sibling(60_000, Some(190)))), Some(at(190)));
        group.on_answered(at(190));
        assert_eq!(group.look(at(210), &with(sibling(60_000, Some(190)))), None);
        // Its own is newer than the sibling's, which will answer it with that time.
        group.on_answered(at(300));
        assert_eq!(group.look(at(310), &with(sibling(60_000, Some(300)))), None);
        assert_eq!(group.look(at(410), &with(sibling(60_000, Some(400)))), Some(at(400)));
        // Apart for a while.
        let separate = PathWindow { shared: false, ..sibling(60_000, Some(500)) };
        assert_eq!(group.look(at(510), &with(separate)), None);
        assert_eq!(group.look(at(520), &with(sibling(60_000, Some(500)))), None);
    }

    #[test]
    fn a_path_joins_once_and_rests_do_not_part_it() {
        let mut group = Group::default();
        assert!(!group.joins(&with(PathWindow { shared: false, ..sibling(1, None) })));
        assert!(group.joins(&with(sibling(1, None))));
        let idle = PathWindow { in_flight: 0, ..sibling(1, None) };
        assert!(!group.joins(&with(idle)) && !group.joins(&with(sibling(1, None))));
        assert!(!group.joins(&with(PathWindow { shared: false, ..sibling(1, None) })));
        assert!(group.joins(&with(sibling(1, None))));
    }
}
