//! SLP over packets with numbers of their own: which packet gets a duplicate, when it is due, and
//! that there is one at a time.
//!
//! SLP sections II-C1 and II-C2 (figure 5): arbiter -> window check -> duplicator -> pacing.
//! [`slp_window`](crate::slp_window) is the same rule over TCP's sequence space; here the copy is a
//! packet like any other, counted in its path's window by whoever sends it.
//!
//! | paper                     | here                                  | unit  |
//! |---------------------------|---------------------------------------|-------|
//! | dup_seq                   | [`Duplicate::path`], [`Duplicate::number`] |  |
//! | dup_bytes > 0             | [`Duplicates::pending`], [`Duplicates::is_outstanding`] | |
//! | next + 2 pkt_size <= high_acked + cwnd | `spare >= bytes` when asked: the original is in flight already | bytes |
//! | pacing gap                | [`gap`](crate::slp_window::gap)       | time  |
//!
//! # Departures
//! - "One duplicate per window" is one duplicate until the original or the copy is acknowledged or
//!   both are given up; the original of a lost copy may not be duplicated again (SLP-A7).
//! - A copy that has not left when its original is acknowledged, or [`OVERDUE`] gaps after it was
//!   due, is not sent any more: it would save nothing.
//! - The copy may take another path than the original; then `spare` is that path's.
//!
//! # Invariants
//! At most one duplicate is pending or outstanding. Packets without a gain are never duplicated.

use units::{Duration, Instant};

use crate::{PacketNumber, PathId, slp_arbiter::Conditions};

/// Gaps after which a duplicate that the window or the pacer held back is given up.
pub const OVERDUE: u64 = 8;

/// A packet that has just been sent, as the arbiter sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Original {
    /// The path that it was sent on.
    pub path: PathId,
    /// Its packet number.
    pub number: PacketNumber,
    /// Its size in bytes.
    pub bytes: u64,
    /// q: how probably its loss leads to a timeout, see
    /// [`LearntOdds`](crate::slp_odds::LearntOdds).
    pub odds: f64,
}

/// A duplicate that is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Duplicate {
    /// The path of the original.
    pub path: PathId,
    /// The original's packet number.
    pub number: PacketNumber,
    /// The original's size in bytes.
    pub bytes: u64,
    /// When the copy may leave.
    pub due: Instant,
    /// When it is too late for it.
    pub expires: Instant,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum State {
    #[default]
    Idle,
    /// Waits for its gap.
    Pending(Duplicate),
    /// Both are under way.
    Outstanding {
        original: (PathId, PacketNumber),
        copy: (PathId, PacketNumber),
        original_lost: bool,
        copy_lost: bool,
    },
}

/// The one duplicate of a connection (or of a path) at a time.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Duplicates {
    state: State,
}

impl Duplicates {
    /// No duplicate is under way.
    pub fn new() -> Self {
        Self::default()
    }

    /// `original` was sent. Plans its duplicate for `gap` later, if the arbiter finds it worthwhile
    /// under `conditions` (of the path of the original), `spare` bytes are left in the window of
    /// the path for the copy, and no other is under way. Returns whether.
    pub fn on_sent(
        &mut self,
        now: Instant,
        original: &Original,
        conditions: &Conditions,
        spare: u64,
        gap: Duration,
    ) -> bool {
        self.expire(now);
        let wanted = self.state == State::Idle
            && spare >= original.bytes
            && conditions.worth_duplicating(original.bytes, original.odds);
        if wanted {
            let Original { path, number, bytes, .. } = *original;
            let (due, expires) = (now + gap, now + gap + gap * OVERDUE);
            self.state = State::Pending(Duplicate { path, number, bytes, due, expires });
        }
        wanted
    }

    /// The duplicate that waits to be sent, due or not.
    pub fn pending(&self) -> Option<Duplicate> {
        match self.state {
            State::Pending(duplicate) => Some(duplicate),
            State::Idle | State::Outstanding { .. } => None,
        }
    }

    /// The duplicate to send now, if `spare` bytes are left in the window of the path for it.
    pub fn next(&mut self, now: Instant, spare: u64) -> Option<Duplicate> {
        self.expire(now);
        self.pending().filter(|duplicate| duplicate.due <= now && spare >= duplicate.bytes)
    }

    /// The pending duplicate was sent as packet `number` of `path`.
    pub fn on_duplicated(&mut self, path: PathId, number: PacketNumber) {
        if let State::Pending(duplicate) = self.state {
            self.state = State::Outstanding {
                original: (duplicate.path, duplicate.number),
                copy: (path, number),
                original_lost: false,
                copy_lost: false,
            };
        }
    }

    /// The pending duplicate cannot be sent: its packet is gone, or not to be copied.
    pub fn abandon(&mut self) {
        if self.pending().is_some() {
            self.state = State::Idle;
        }
    }

    /// Whether a duplicate and its original are both under way.
    pub fn is_outstanding(&self) -> bool {
        matches!(self.state, State::Outstanding { .. })
    }

    /// Packet `number` of `path` was acknowledged.
    pub fn on_acked(&mut self, path: PathId, number: PacketNumber) {
        let packet = (path, number);
        let over = match self.state {
            State::Idle => false,
            State::Pending(duplicate) => packet == (duplicate.path, duplicate.number),
            State::Outstanding { original, copy, .. } => packet == original || packet == copy,
        };
        if over {
            self.state = State::Idle;
        }
    }

    /// Packet `number` of `path` was declared lost. A pending duplicate of it is not needed any
    /// more: its data is sent again anyway.
    pub fn on_lost(&mut self, path: PathId, number: PacketNumber) {
        let packet = (path, number);
        match &mut self.state {
            State::Pending(duplicate) if packet == (duplicate.path, duplicate.number) => {
                self.state = State::Idle
            }
            State::Outstanding { original, copy, original_lost, copy_lost } => {
                *original_lost |= packet == *original;
                *copy_lost |= packet == *copy;
                if *original_lost && *copy_lost {
                    self.state = State::Idle;
                }
            }
            State::Idle | State::Pending(_) => {}
        }
    }

    /// A timeout, or a path was closed: nothing counts as under way any more (SLP-A8).
    pub fn on_timeout(&mut self) {
        self.state = State::Idle;
    }

    /// When [`next`](Self::next) may have a new answer although nothing has happened.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        self.pending().map(|d| d.due).filter(|&due| due > now)
    }

    fn expire(&mut self, now: Instant) {
        if self.pending().is_some_and(|duplicate| now > duplicate.expires) {
            self.state = State::Idle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: Duration = Duration::from_millis(5);

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn push(number: u64) -> Original {
        Original { path: PathId(0), number: PacketNumber(number), bytes: 1_000, odds: 0.1 }
    }

    fn send(duplicates: &mut Duplicates, now: u64, number: u64) -> bool {
        duplicates.on_sent(at(now), &push(number), &Conditions::default(), 50_000, GAP)
    }

    #[test]
    fn leaves_after_the_gap_and_is_the_only_one_until_either_is_acknowledged() {
        for acked in [(0, 7), (1, 3)] {
            let mut duplicates = Duplicates::new();
            assert!(send(&mut duplicates, 0, 7));
            assert_eq!((duplicates.next(at(4), 9_000), duplicates.deadline(at(4))), (None, Some(at(5))));
            assert_eq!(duplicates.next(at(5), 999), None); // no window
            assert_eq!(duplicates.next(at(5), 1_000).map(|d| d.number), Some(PacketNumber(7)));
            duplicates.on_duplicated(PathId(1), PacketNumber(3));
            assert!(duplicates.is_outstanding() && !send(&mut duplicates, 6, 8));
            duplicates.on_acked(PathId(0), PacketNumber(6));
            assert!(!send(&mut duplicates, 7, 9));
            duplicates.on_acked(PathId(acked.0), PacketNumber(acked.1));
            assert!(send(&mut duplicates, 8, 10));
        }
    }

    #[test]
    fn the_arbiter_and_the_window_decide() {
        let plain = Original { odds: 0.0, ..push(1) };
        let slow = Conditions { bandwidth: units::BitRate(1_000_000), ..Conditions::default() };
        let mut duplicates = Duplicates::new();
        assert!(!duplicates.on_sent(at(0), &plain, &Conditions::default(), 50_000, GAP));
        assert!(!duplicates.on_sent(at(0), &push(1), &slow, 50_000, GAP));
        assert!(!duplicates.on_sent(at(0), &push(1), &Conditions::default(), 999, GAP));
        assert_eq!(duplicates, Duplicates::new());
        assert!(duplicates.on_sent(at(0), &push(1), &Conditions::default(), 1_000, GAP));
    }

    #[test]
    fn late_needless_and_abandoned_duplicates_are_dropped() {
        let mut duplicates = Duplicates::new();
        send(&mut duplicates, 0, 7);
        assert!(duplicates.next(at(45), 9_000).is_some());
        assert_eq!(duplicates.next(at(46), 9_000), None); // eight gaps late
        send(&mut duplicates, 50, 8);
        duplicates.on_acked(PathId(0), PacketNumber(8));
        assert_eq!(duplicates.pending(), None);
        send(&mut duplicates, 60, 9);
        duplicates.on_lost(PathId(0), PacketNumber(9));
        assert_eq!(duplicates.pending(), None);
        send(&mut duplicates, 70, 10);
        duplicates.abandon();
        assert!(send(&mut duplicates, 70, 11));
    }

    #[test]
    fn a_loss_of_one_keeps_the_other_under_way() {
        let mut duplicates = Duplicates::new();
        send(&mut duplicates, 0, 7);
        duplicates.on_duplicated(PathId(1), PacketNumber(3));
        duplicates.on_lost(PathId(1), PacketNumber(3));
        assert!(duplicates.is_outstanding());
        duplicates.on_lost(PathId(1), PacketNumber(3)); // told again
        assert!(duplicates.is_outstanding());
        duplicates.on_lost(PathId(0), PacketNumber(7));
        assert!(!duplicates.is_outstanding());
        send(&mut duplicates, 9, 8);
        duplicates.on_duplicated(PathId(1), PacketNumber(4));
        duplicates.on_timeout();
        assert_eq!(duplicates, Duplicates::new());
    }
}
