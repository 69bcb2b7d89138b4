//! CoDel: active queue management by how long packets wait (RFC 8289).
//!
//! Decided for each packet when its transmission would begin. While packets have waited at least
//! `target` for a whole `interval`, one is dropped, and further ones at intervals that shrink with
//! the root of their number, until one waited less. The last packet of a queue is never dropped.
//!
//! | RFC 8289 section 5            | here                        |
//! |-------------------------------|-----------------------------|
//! | TARGET, INTERVAL              | [`Codel`]                   |
//! | first_above_time_             | `first_above`               |
//! | dropping_, drop_next_, count_, lastcount_ | the fields of [`State`] |
//! | dodeque                       | `State::is_above`           |
//! | deque                         | [`State::on_start`], a packet at a time |
//! | control_law                   | `Codel::after`              |
//!
//! The RFC's `deque` goes through several packets in one call where it drops. Here every call is
//! for one, and `State::just` remembers which drop it follows.

use units::{Duration, Instant};

/// A full packet: a queue that holds no more is never too long (RFC 8289 section 4.4).
const MAX_PACKET: u64 = 1_514;
/// A state of dropping that begins within so many intervals after the last goes on where that was.
const SOON_INTERVALS: u64 = 16;

/// Parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Codel {
    /// A queue's delay that is tolerated for good. Default 5 ms (RFC 8289 section 4.3).
    pub target: Duration,
    /// How long the delay may be above, at first: about a large round-trip time. Default 100 ms.
    pub interval: Duration,
    /// Packets whose transport understands marks are marked instead of dropped (RFC 8289
    /// section 3.1). Default off.
    pub marks: bool,
}

impl Default for Codel {
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100), marks: false }
    }
}

impl Codel {
    /// When the next drop is due, after the `count`-th at `at`.
    fn after(&self, at: Instant, count: u32) -> Instant {
        let gap = self.interval.as_nanos() as f64 / f64::from(count.max(1)).sqrt();
        at + Duration::from_nanos(gap as u64)
    }
}

/// What becomes of a packet whose transmission would begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is sent.
    Send,
    /// It is marked and sent.
    Mark,
    /// It is dropped; the next one, if there is one, is asked about at the same moment.
    Drop,
}

/// Which drop the packet follows that is asked about now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Just {
    Nothing,
    /// The first of a state of dropping: what follows it is sent.
    Entered,
    /// A further one.
    Dropped,
}

/// What CoDel remembers of a queue.
#[derive(Clone, Debug)]
pub struct State {
    parameters: Codel,
    /// When the delay will have been above the target for an interval, if it is.
    first_above: Option<Instant>,
    dropping: bool,
    next: Instant,
    count: u32,
    count_before: u32,
    just: Just,
}

impl State {
    /// That of an empty queue.
    pub fn new(parameters: Codel) -> Self {
        Self {
            parameters,
            first_above: None,
            dropping: false,
            next: Instant::ORIGIN,
            count: 0,
            count_before: 0,
            just: Just::Nothing,
        }
    }

    /// A packet that has `waited` would be sent at `now`, and leaves `left` bytes behind in the
    /// queue; `markable` if its transport understands marks.
    pub fn on_start(&mut self, now: Instant, waited: Duration, left: u64, markable: bool) -> Verdict {
        let above = self.is_above(now, waited, left);
        let marks = self.parameters.marks && markable;
        match std::mem::replace(&mut self.just, Just::Nothing) {
            Just::Entered => {
                self.enter(now);
                return Verdict::Send;
            }
            Just::Dropped if above => self.next = self.parameters.after(self.next, self.count),
            Just::Dropped | Just::Nothing => {}
        }
        if !self.dropping {
            return match (above, marks) {
                (false, _) => Verdict::Send,
                (true, false) => self.drop(Just::Entered),
                (true, true) => {
                    self.enter(now);
                    Verdict::Mark
                }
            };
        }
        self.dropping = above;
        if !above || now < self.next {
            return Verdict::Send;
        }
        self.count = self.count.saturating_add(1);
        if marks {
            self.next = self.parameters.after(self.next, self.count);
            return Verdict::Mark;
        }
        self.drop(Just::Dropped)
    }

    fn drop(&mut self, just: Just) -> Verdict {
        self.just = just;
        Verdict::Drop
    }

    /// Whether the delay has been above the target for an interval.
    fn is_above(&mut self, now: Instant, waited: Duration, left: u64) -> bool {
        if waited < self.parameters.target || left <= MAX_PACKET {
            self.first_above = None;
            return false;
        }
        let due = *self.first_above.get_or_insert(now + self.parameters.interval);
        now >= due
    }

    /// The state of dropping begins, as often as the last one ended with if that was just now.
    fn enter(&mut self, now: Instant) {
        let more = self.count.saturating_sub(self.count_before);
        let soon = self.parameters.interval * SOON_INTERVALS;
        let again = more > 1 && now.saturating_duration_since(self.next) < soon;
        self.dropping = true;
        self.count = if again { more } else { 1 };
        self.next = self.parameters.after(now, self.count);
        self.count_before = self.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    /// What becomes of packets that start every 10 ms from `from` to `to`, all having waited 20 ms,
    /// with enough behind them: the times of those that are not sent as they are.
    fn not_sent(state: &mut State, (from, to): (u64, u64), markable: bool) -> Vec<(u64, Verdict)> {
        let mut found = Vec::new();
        for ms in (from..to).step_by(10) {
            loop {
                let verdict = state.on_start(at(ms), Duration::from_millis(20), 10_000, markable);
                if verdict != Verdict::Send {
                    found.push((ms, verdict));
                }
                if verdict != Verdict::Drop {
                    break;
                }
            }
        }
        found
    }

    /// Above from 0 ms: first drop when an interval is over, at 100; then after 100 / sqrt(1),
    /// 100 / sqrt(2) and 100 / sqrt(3) ms more, at 200, 270.7 and 328.4; every packet is asked about
    /// at a multiple of 10 ms.
    #[test]
    fn drops_come_at_intervals_that_shrink_with_the_root_of_their_number() {
        let mut state = State::new(Codel::default());
        let dropped: Vec<u64> = not_sent(&mut state, (0, 340), false).into_iter().map(|(ms, _)| ms).collect();
        assert_eq!(dropped, [100, 200, 280, 330]);
    }

    #[test]
    fn a_short_wait_ends_it_and_a_return_soon_goes_on_where_it_was() {
        let mut state = State::new(Codel::default());
        // The fifth follows 50 ms behind the fourth: at 328.4 + 50 = 378.4.
        assert_eq!(not_sent(&mut state, (0, 390), false).len(), 5);
        assert_eq!(state.on_start(at(390), Duration::from_millis(4), 10_000, false), Verdict::Send);
        // Above again from 400: the first after an interval. Four more than at the last beginning
        // were dropped, so the next one comes 100 / sqrt(4) ms later.
        let dropped: Vec<u64> =
            not_sent(&mut state, (400, 560), false).into_iter().map(|(ms, _)| ms).collect();
        assert_eq!(dropped, [500, 550]);
    }

    #[test]
    fn the_last_packet_of_a_queue_is_never_dropped() {
        let mut state = State::new(Codel::default());
        for ms in (0..2_000).step_by(10) {
            let verdict = state.on_start(at(ms), Duration::from_secs(1), MAX_PACKET, false);
            assert_eq!(verdict, Verdict::Send);
        }
    }

    #[test]
    fn marks_come_where_drops_would() {
        let mut state = State::new(Codel { marks: true, ..Codel::default() });
        let marked = not_sent(&mut state, (0, 340), true);
        assert_eq!(marked, [100, 200, 280, 330].map(|ms| (ms, Verdict::Mark)));
        // What understands none is dropped.
        let mut state = State::new(Codel { marks: true, ..Codel::default() });
        assert!(not_sent(&mut state, (0, 340), false).iter().all(|(_, verdict)| *verdict == Verdict::Drop));
    }
}
