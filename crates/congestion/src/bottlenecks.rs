//! Which paths of a connection meet in one bottleneck, found out by experiment.
//!
//! Ours. RFC 8382 groups flows whose one-way delays look alike: their skewness, variability,
//! oscillation and loss. A sender's own round-trip times look alike for other reasons, too: ACKs of
//! all paths may return on one, and two paths that began together fill two equal queues in
//! lockstep. So the cause is asked for instead: one path is *held* to less than its window for two
//! round trips, just enough to take out most of the queue that it sees, and
//!
//! - if the other path's delay falls by as much as its own, they stand in the same queue;
//! - if it does not, they do not.
//!
//! What cannot be told by that, such as where there is no queue or where it falls by less than it
//! varies by itself, is told again later, and seldom.
//!
//! | symbol      | here                                                           | unit |
//! |-------------|----------------------------------------------------------------|------|
//! | S           | `Cycle::span`: the longest round-trip time of the paths        | time |
//! | d_A         | fall of the held path's mean delay                             | s    |
//! | d_B         | fall of another one's in the same time                         | s    |
//! | sigma^2     | variance of a path's mean from span to span without a hold     | s^2  |
//! | q           | queue that the path sees, `Watch::queue`                       | time |
//!
//! A cycle, in spans S by when packets were *sent*: 0 to 1 and 2 to 3 tell what means vary by,
//! the hold lasts from 3 to 5, and 4 to 5 is compared with 2 to 3.
//!
//! # Invariants
//! - At most one path is held at a time, for two spans, and by no more than half of its window. The
//!   hold ends by itself.
//! - A connection with a single path in use is never held, nor one without a queue.
//! - At most [`MAX_PATHS`] paths are watched; others count as sharing nothing.

mod evidence;
mod watch;

use units::{Duration, Instant};

use self::{
    evidence::Evidence,
    watch::{Span, Watch},
};
use crate::Ack;

/// Most paths that are watched.
pub const MAX_PATHS: usize = 8;
/// Shortest span, for the sake of its number of samples.
const LEAST_SPAN: Duration = Duration::from_millis(10);
/// How long nothing is tried once everything is known: the longer of the two.
const REST: Duration = Duration::from_secs(10);
const REST_SPANS: u64 = 100;
/// How long nothing is tried after an experiment that told nothing, in spans; doubled each time.
const RETRY_SPANS: u64 = 6;
/// A path that was not heard of for so long is not in use.
const SILENCE: Duration = Duration::from_secs(1);

/// What a path's controller says of it when it takes an ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Its window in bytes; while the path is held, what it is held to.
    pub window: u64,
    /// Whether it is past slow start, tries nothing itself, and has enough to send.
    pub steady: bool,
}

/// A path is to keep to less than its window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// The path.
    pub path: u32,
    /// What may be in flight, in bytes.
    pub window: u64,
    /// Until then.
    pub until: Instant,
}

/// Finds out which paths of a connection share a bottleneck.
#[derive(Clone, Debug, Default)]
pub struct Bottlenecks {
    watches: Vec<Watch>,
    evidence: Evidence,
    cycle: Option<Cycle>,
    /// When the next cycle may begin.
    next: Instant,
    /// Experiments without a result, one after the other.
    vain: u32,
    experiments: u64,
}

/// One experiment.
#[derive(Clone, Copy, Debug)]
struct Cycle {
    start: Instant,
    span: Duration,
    held: Option<Held>,
}

/// The path that is held, and since when.
#[derive(Clone, Copy, Debug)]
struct Held {
    path: u32,
    at: Instant,
}

impl Cycle {
    /// Which of the three spans a packet sent at `sent_at` belongs to.
    fn span_of(&self, sent_at: Instant) -> Option<Span> {
        let within = |from: Instant| sent_at >= from && sent_at < from + self.span;
        match self.held {
            Some(held) if within(held.at + self.span) => Some(Span::During),
            _ if within(self.start) => Some(Span::Earlier),
            _ if within(self.start + self.span * 2) => Some(Span::Before),
            _ => None,
        }
    }

    /// When its next step is due: the hold, or the verdict, for which the last packets must have
    /// been answered.
    fn due(&self) -> Instant {
        match self.held {
            None => self.start + self.span * 3,
            Some(held) => held.at + self.span * 3 + self.span / 4,
        }
    }
}

impl Bottlenecks {
    /// A path was sent an ACK. Returns whether a path is to be held from now on.
    pub fn on_ack(&mut self, path: u32, ack: &Ack, load: Load) -> Option<Hold> {
        let cycle = self.cycle;
        let watch = self.watch(path)?;
        watch.on_ack(ack, load, cycle.and_then(|cycle| cycle.span_of(ack.largest_sent_at)));
        match cycle {
            None if ack.now >= self.next => self.begin(ack.now),
            Some(cycle) if ack.now >= cycle.due() => match cycle.held {
                None => return self.hold(ack.now, cycle),
                Some(held) => self.judge(ack.now, cycle, held),
            },
            _ => {}
        }
        None
    }

    /// A path is gone, or runs elsewhere.
    pub fn forget(&mut self, path: u32) {
        self.watches.retain(|watch| watch.path != path);
        self.evidence.forget(path);
        self.cycle = None;
        self.next = Instant::ORIGIN;
        self.vain = 0;
    }

    /// Whether two paths were found to share a bottleneck, if only by way of a third.
    pub fn share(&self, a: u32, b: u32) -> bool {
        a == b || self.group(a).is_some_and(|group| self.group(b) == Some(group))
    }

    /// The least path that shares a bottleneck with `path`, which names the group; `None` if
    /// `path` is not known to share one.
    pub fn group(&self, path: u32) -> Option<u32> {
        self.evidence.group(path)
    }

    /// How often a path was held to find out.
    pub fn experiments(&self) -> u64 {
        self.experiments
    }

    fn watch(&mut self, path: u32) -> Option<&mut Watch> {
        if let Some(at) = self.watches.iter().position(|watch| watch.path == path) {
            return self.watches.get_mut(at);
        }
        if self.watches.len() >= MAX_PATHS {
            return None;
        }
        // Most connections have one path.
        self.watches.reserve_exact(1);
        self.watches.push(Watch::new(path));
        self.watches.last_mut()
    }

    fn in_use(&self, now: Instant) -> impl Iterator<Item = &Watch> {
        self.watches.iter().filter(move |watch| watch.is_heard(now, SILENCE))
    }

    /// Begins a cycle if there is more than one path to compare.
    fn begin(&mut self, now: Instant) {
        if self.in_use(now).filter(|watch| watch.is_steady()).count() < 2 {
            return;
        }
        let longest = self.in_use(now).map(Watch::smoothed).max().unwrap_or_default();
        self.cycle = Some(Cycle { start: now, span: longest.max(LEAST_SPAN), held: None });
        self.watches.iter_mut().for_each(Watch::begin);
    }

    /// Holds the path whose turn it is, if there is one whose queue would show it.
    fn hold(&mut self, now: Instant, cycle: Cycle) -> Option<Hold> {
        let willing = self.watches.iter_mut().filter(|watch| watch.may_be_held());
        let Some(watch) = willing.min_by_key(|watch| (watch.held_at(), watch.path)) else {
            // A cycle without a hold costs nothing.
            self.cycle = None;
            self.next =
                now + cycle.span * if self.watches.iter().any(Watch::is_spoilt) { 0 } else { RETRY_SPANS };
            return None;
        };
        let (path, window) = (watch.path, watch.hold(now));
        self.watches.iter_mut().filter(|watch| watch.path != path).for_each(Watch::note_window);
        self.cycle = Some(Cycle { held: Some(Held { path, at: now }), ..cycle });
        self.experiments += 1;
        Some(Hold { path, window, until: now + cycle.span * 2 })
    }

    /// Compares what became of the delays.
    fn judge(&mut self, now: Instant, cycle: Cycle, held: Held) {
        self.watches.iter_mut().for_each(Watch::learn_noise);
        let own = self.watches.iter_mut().find(|watch| watch.path == held.path).and_then(Watch::own_falls);
        let mut told = false;
        for watch in self.watches.iter().filter(|watch| watch.path != held.path) {
            if let (Some(own), Some(other)) = (own, watch.falls()) {
                self.evidence.weigh(now, [held.path, watch.path], [own, other], watch.noise());
                told = true;
            }
        }
        self.end(now, cycle.span, told);
    }

    /// The cycle is over; `told`: with a result.
    fn end(&mut self, now: Instant, span: Duration, told: bool) {
        self.cycle = None;
        let settled = |counts: fn(&Watch) -> bool| {
            let paths = self.watches.iter().filter(|watch| counts(watch)).map(|watch| watch.path);
            self.evidence.is_settled(now, paths)
        };
        // Of a path that carries too little to be compared nothing is to be found out now. Of one that
        // lost packets meanwhile there is; if it is the only one, that cycle had no result.
        let (compared, all) = (settled(Watch::is_compared), settled(Watch::is_in_question));
        let goes_on = told && !compared;
        self.vain = if goes_on || all { 0 } else { (self.vain + 1).min(16) };
        let rest = REST.max(span * REST_SPANS);
        let wait = if all {
            rest
        } else if goes_on {
            Duration::ZERO
        } else {
            (span * RETRY_SPANS * (1 << (self.vain - 1).min(16))).min(rest)
        };
        self.next = now + wait;
    }
}

#[cfg(test)]
mod tests;
