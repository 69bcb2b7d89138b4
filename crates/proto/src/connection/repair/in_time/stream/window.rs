//! The window of one priority, and when its symbols leave.

use std::collections::VecDeque;

use recovery::streaming::{Lane, MAX_WINDOW, Pace, Sizing, Window};
use units::{Duration, Instant};

use crate::{by_path::ByPath, wire::PathId};

/// Symbols that leave between packets cut their numbers into runs, of which the headroom of a packet
/// names only so many (`HEADROOM`): beyond that they leave two at a time, or more.
const RUNS: u16 = 8;

/// A packet in the window.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection::repair::in_time) struct Member {
    pub(in crate::connection::repair::in_time) number: u64,
    /// Bytes of its plaintext.
    pub(in crate::connection::repair::in_time) len: usize,
    /// When repair must leave at the latest.
    pub(in crate::connection::repair::in_time) latest: Instant,
    /// The probability with which it may miss its deadline.
    pub(in crate::connection::repair::in_time) may_miss: f64,
}

/// Packets of one path and one priority.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) priority: i32,
    /// The path that symbols leave on.
    pub(super) on: PathId,
    members: VecDeque<Member>,
    /// For how long after its sending repair was of use to the last packet.
    useful: Duration,
    sizing: ByPath<Sizing>,
    pace: Pace,
    /// How many symbols leave together.
    group: u16,
    /// How many of these are still to leave.
    left: u16,
    due: Due,
}

/// When symbols are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Never,
    At(Instant),
    /// Now, if a window has room.
    Now,
}

impl Class {
    pub(super) fn new(priority: i32) -> Self {
        Self {
            priority,
            on: PathId::ZERO,
            members: VecDeque::new(),
            useful: Duration::ZERO,
            sizing: ByPath::new(),
            pace: Pace::default(),
            group: 1,
            left: 0,
            due: Due::Never,
        }
    }

    // ---- what is in it

    /// A packet has left.
    pub(super) fn push(&mut self, now: Instant, member: Member) {
        if self.members.len() >= usize::from(MAX_WINDOW) {
            self.members.pop_front();
        }
        self.members.push_back(member);
        self.useful = member.latest - now;
    }

    /// Keeps the packets that are wanted and that repair is still of use to.
    pub(super) fn prune(&mut self, now: Instant, is_wanted: impl Fn(u64) -> bool) {
        self.members.retain(|member| member.latest >= now && is_wanted(member.number));
    }

    pub(super) fn packets(&self) -> u16 {
        self.members.len() as u16
    }

    /// Bytes of its packets.
    pub(super) fn bytes(&self) -> u64 {
        self.members.iter().map(|member| member.len as u64).sum()
    }

    /// Bytes of a symbol over them.
    pub(super) fn symbol_len(&self) -> u64 {
        self.members.iter().map(|member| member.len as u64).max().unwrap_or(0)
    }

    /// The smallest probability with which one of its packets may miss its deadline; 1 if there are none.
    pub(super) fn may_miss(&self) -> f64 {
        self.members.iter().map(|member| member.may_miss).fold(1.0, f64::min)
    }

    /// When repair of the newest packet must leave at the latest; `None` if there is none.
    pub(super) fn latest(&self) -> Option<Instant> {
        self.members.back().map(|member| member.latest)
    }

    /// The numbers of the packets, as far as they lie less than `span` below the newest.
    pub(super) fn within(&self, span: u64) -> impl Iterator<Item = u64> {
        let newest = self.members.back().map_or(0, |member| member.number);
        self.members.iter().map(|member| member.number).filter(move |number| newest - number < span)
    }

    // ---- when symbols leave

    /// How many symbols are wanted while a packet is of use, if they leave on this path.
    pub(super) fn wanted(&mut self, on: PathId, window: Window, lane: Lane, target: f64) -> u16 {
        self.sizing.get_or_default(on).symbols(window, lane, target)
    }

    /// So many symbols leave while a packet is of use, on the path `on`; `between` the packets if it is
    /// theirs.
    pub(super) fn plan(&mut self, now: Instant, symbols: u16, (on, between): (PathId, bool)) {
        self.on = on;
        self.pace.set(now, symbols, self.useful);
        if self.due != Due::Now {
            self.group = if between { symbols.div_ceil(RUNS).max(1) } else { 1 };
            self.due = self.pace.due(self.group).map_or(Due::Never, Due::At);
            self.on_deadline(now);
        }
    }

    /// Nothing can be repaired, or needs to be.
    pub(super) fn rest(&mut self, now: Instant) {
        self.pace.set(now, 0, self.useful);
        (self.due, self.left) = (Due::Never, 0);
    }

    /// There is no room for its symbols.
    pub(super) fn wait(&mut self, until: Instant) {
        self.due = Due::At(until);
    }

    pub(super) fn is_due(&self) -> bool {
        self.due == Due::Now
    }

    pub(super) fn wakes_at(&self) -> Option<Instant> {
        if let Due::At(at) = self.due { Some(at) } else { None }
    }

    /// Takes note of the time.
    pub(super) fn on_deadline(&mut self, now: Instant) {
        if self.wakes_at().is_some_and(|at| at <= now) {
            self.left = self.left.max(self.group);
            self.due = Due::Now;
        }
    }

    /// A symbol has left, or could not be made. True if it was the last of its group: the stream is to
    /// be decided about again.
    pub(super) fn on_symbol(&mut self, now: Instant) -> bool {
        self.pace.on_sent(now);
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.due = Due::Never;
        }
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + MS * ms
    }

    fn class(packets: u64) -> Class {
        let mut class = Class::new(0);
        for number in 0..packets {
            let (len, may_miss) = (100 + number as usize, 1.0 / (number + 2) as f64);
            class.push(at(0), Member { number, len, latest: at(90), may_miss });
        }
        class
    }

    #[test]
    fn the_window_is_bounded() {
        let class = class(1_000);
        assert_eq!(class.packets(), MAX_WINDOW);
        assert_eq!((class.symbol_len(), class.latest()), (1_099, Some(at(90))));
        assert_eq!(class.may_miss(), 1.0 / 1_001.0, "of the strictest");
        assert_eq!(class.within(10).collect::<Vec<_>>(), (990..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn groups_leave_together_and_rest_ends_them() {
        let mut class = class(40);
        // Sixteen symbols in 90 ms, two at a time: the first after one and a half of their intervals.
        class.plan(at(0), 16, (PathId(0), true));
        let due = class.wakes_at().unwrap();
        assert!(!class.is_due() && due > at(8) && due < at(9), "{due}");
        class.on_deadline(due);
        assert!(class.is_due() && !class.on_symbol(due) && class.is_due() && class.on_symbol(due));
        assert!(!class.is_due() && class.wakes_at().is_none(), "until it is decided about");
        class.plan(due, 16, (PathId(1), false));
        assert_eq!(class.wakes_at().map(|next| next - due < MS * 6), Some(true), "one at a time");
        class.rest(due);
        assert_eq!((class.wakes_at(), class.is_due()), (None, false));
    }
}
