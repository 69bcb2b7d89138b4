//! Which clock sent a packet again: an acknowledgement that had just come, or a timer.
//!
//! TCP sends on two occasions: an acknowledgement comes, or a timer expires. So what leaves at once
//! after an acknowledgement was brought about by it, and what leaves out of silence by the timer.
//! What acknowledgements bring about after a timer is the rest of the window that the timer gave
//! up: go-back-N. The paper tells them by the interval alone; see [`Grouping`](crate::Grouping).
//!
//! All is judged at the capture point. There an answer to an acknowledgement passes one loop through
//! the sender later ([`Loops`]), which is no time at all if the capture was made at the sender.
//!
//! A packet that leaves neither at once after an acknowledgement nor so late that a timer can have
//! expired is paced, was delayed, or waited for reordered ones (RFC 8985): it counts as brought
//! about by acknowledgements. And acknowledgements of later packets may come while the timer of the
//! first one runs out: if that had been sent again before, and nothing was acknowledged for as long
//! as a timer takes, it was the timer.

use std::collections::VecDeque;

use serde::Serialize;
use units::{Duration, Instant};

use crate::segment::TcpFlags;

/// What brought a packet back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A timer: the retransmission timeout, or the tail loss probe of RFC 8985.
    Timeout,
    /// Acknowledgements.
    Fast,
    /// Acknowledgements too, but after a timeout: the rest of what it gave up.
    GoBackN,
}

impl Class {
    /// All, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Timeout, Self::Fast, Self::GoBackN];
}

/// Trains of acknowledgements that are remembered.
const TRAINS: usize = 32;
/// How much later than the loop through the sender its answer may pass, at least; and as a share of
/// the loop.
const LATE: Duration = Duration::from_millis(3);
const LATE_SHARE: u64 = 4;
/// How much sooner than the least loop an answer may pass: ends do not always take the same time.
const SOON: Duration = Duration::from_micros(100);
/// Packets that follow each other faster leave on one occasion.
const BURST: Duration = Duration::from_millis(2);
/// No timer is shorter.
const LEAST_TIMER: Duration = Duration::from_millis(2);
/// No probe waits for less.
const LEAST_PROBE: Duration = Duration::from_millis(10);
/// How much longer than the round trip a timer runs, at least, in halves of it: a probe waits for
/// two round trips, reordered packets are given a quarter of one. What RFC 8985 learns of a packet
/// that was lost again takes two.
const HALF: u64 = 1;
const REPEATED: u64 = 3;
/// But not more than what Linux adds, with some allowance.
const LONGER: Duration = Duration::from_millis(150);
/// What timers are late by who wait for reordered packets: Linux adds two of its ticks.
const REORDERED: Duration = Duration::from_millis(25);
/// The least timer where no round-trip time is known.
const UNKNOWN_TIMER: Duration = Duration::from_millis(150);

/// Acknowledgements that passed within a fraction of the loop.
#[derive(Clone, Copy, Debug)]
struct Train {
    first: Instant,
    last: Instant,
    /// Everything below is acknowledged.
    acked: u64,
    /// When the latest acknowledgement passed that acknowledged something new.
    advanced: Instant,
    /// The latest of them said that later packets arrived.
    told: bool,
}

/// Why the sender's latest packet left.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum Occasion {
    #[default]
    Application,
    Acknowledgement,
    Timer,
}

/// What is known of the round trip when a packet is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// The least and the latest time of the loop through the sender.
    pub(crate) near: (Duration, Duration),
    /// The least round trip so far, the whole one of late, and the longest of late.
    pub(crate) least: Option<Duration>,
    pub(crate) round_trip: Option<Duration>,
    pub(crate) longest: Option<Duration>,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Says {
    /// More has arrived.
    More,
    /// More has arrived, and something behind a packet that is missing.
    MoreAndMissed,
    /// What the one before said: something is missing.
    Again,
}

/// A packet that is sent again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// One beyond everything that was sent so far.
    pub(crate) high: u64,
    /// 1 if it is sent again for the first time.
    pub(crate) attempt: u8,
    /// When it was last sent, if that was seen.
    pub(crate) since: Option<Instant>,
}

/// One direction's clocks.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    trains: VecDeque<Train>,
    /// When the latest packet left, and why.
    burst: (Instant, Occasion),
    /// When the sender last started its timer for want of anything in flight, or since it sent the
    /// first unacknowledged packet again.
    restarted: Instant,
    /// When anything was last sent again.
    repaired: Option<Instant>,
    /// What the receiver missed while later packets arrived, and when it last said so.
    missed: VecDeque<(u64, Instant)>,
    /// After a timeout: where what it gave up ends, and how far it has been sent again.
    recover: Option<u64>,
    again_to: u64,
    /// Where the new data ends that is sent after a timeout instead of what it gave up; 0 if
    /// nothing is.
    tries: u64,
    /// When an acknowledgement passed that shows the timeout to have been needless.
    taken_back: Option<Instant>,
}

impl Clock {
    /// An acknowledgement passes towards the sender: everything below `acked` is acknowledged.
    pub(crate) fn on_ack(&mut self, acked: u64, says: Says, at: Instant, measured: &Measured) {
        let (new, near) = (says != Says::Again, measured.near.1);
        if new && self.is_needless(acked) {
            self.taken_back.get_or_insert(at);
        }
        if says != Says::More {
            self.on_missed(acked, at);
        }
        // What no answer can belong to any more.
        let old = at - (near + near / LATE_SHARE + LATE);
        while self.trains.len() == TRAINS || self.trains.get(1).is_some_and(|train| train.last < old) {
            self.trains.pop_front();
        }
        let advanced = match self.trains.back() {
            Some(train) if !new => train.advanced,
            _ => at,
        };
        // One acknowledgement may say both: that more has arrived, and that something is missing.
        let train = Train { first: at, last: at, acked, advanced, told: says != Says::More };
        match self.trains.back_mut() {
            Some(latest) if at.saturating_duration_since(latest.first) <= near / 16 => {
                *latest = Train { first: latest.first, ..train };
            }
            _ => self.trains.push_back(train),
        }
    }

    /// Whether `acked` shows that the timeout was needless (RFC 5682): before the sender goes back, it covers
    /// what was not sent again since, nor was reported to be there.
    fn is_needless(&self, acked: u64) -> bool {
        let told = self.trains.back().is_some_and(|train| train.told);
        let goes_back = self.recover.is_none() || self.tries == 0;
        !goes_back && !told && acked > self.again_to
    }

    /// The sender gives nothing up any more once it knows that the timeout was needless and acts on it: it
    /// sends new data, or waits to be told what is lost.
    fn take_back(&mut self, at: Instant, measured: &Measured) {
        if self.taken_back.is_some_and(|heard| heard <= at - soonest(measured.near.0)) {
            (self.recover, self.taken_back) = (None, None);
        }
    }

    /// Whether the receiver has said that something is missing with the acknowledgement that shows the timeout
    /// to have been needless, or since.
    fn is_told_why(&self) -> bool {
        let latest = self.missed.back().map(|(_, latest)| *latest);
        self.taken_back.is_some_and(|heard| latest >= Some(heard))
    }

    /// The receiver misses what begins at `acked`.
    fn on_missed(&mut self, acked: u64, at: Instant) {
        match self.missed.back_mut() {
            Some((missed, latest)) if *missed == acked => *latest = at,
            _ => self.missed.push_back((acked, at)),
        }
        if self.missed.len() > TRAINS {
            self.missed.pop_front();
        }
    }

    /// A packet leaves that was never sent before.
    pub(crate) fn on_new(&mut self, new: &Again, at: Instant, measured: &Measured) {
        self.take_back(at, measured);
        let acked = self.known(at, measured).map(|train| train.acked);
        if acked.is_none_or(|acked| acked >= new.high) {
            self.restarted = at;
        }
        // What the sender gave up is behind it only once it knows so: near the receiver, the
        // acknowledgement of all of it has passed long before.
        if self.recover.is_some_and(|recover| acked.is_some_and(|acked| acked >= recover)) {
            self.recover = None;
        }
        // F-RTO (RFC 5682) sends new data first; what a timer gives up then ends behind that.
        if let Some(recover) = self.recover
            && self.tries == new.high
        {
            (self.recover, self.tries) = (Some(recover.max(new.end)), new.end);
        }
        let occasion = if self.is_answer(at, measured) {
            Occasion::Acknowledgement
        } else if self.follows(at) {
            self.burst.1
        } else {
            Occasion::Application
        };
        self.burst = (at, occasion);
    }

    /// A packet leaves again: what brought it back.
    pub(crate) fn on_again(
        &mut self,
        again: &Again,
        flags: TcpFlags,
        at: Instant,
        measured: &Measured,
    ) -> Class {
        // Nothing but a timer sends a SYN again.
        if flags.has(TcpFlags::SYN) {
            self.burst = (at, Occasion::Timer);
            self.repaired = Some(at);
            return Class::Timeout;
        }
        if self.is_told_why() {
            self.take_back(at, measured);
        }
        let acked = self.known(at, measured).map_or(0, |train| train.acked);
        let first = again.start <= acked;
        let given_up = self.recover.is_some_and(|recover| again.start < recover);
        let occasion = if given_up && again.start >= self.again_to && self.is_soon(at, measured) {
            // The timer sends one packet. What follows it, an acknowledgement brings about, also if
            // it all arrived before: then the sender did not know.
            Occasion::Acknowledgement
        } else if !first && again.end < again.high {
            // The retransmission timer sends the first packet, a probe the last one.
            Occasion::Acknowledgement
        } else if self.is_unheard(again, measured)
            || (is_late(again, at, measured) && self.is_untold(again, given_up, at))
        {
            Occasion::Timer
        } else {
            self.occasion(first && again.attempt > 1, at, measured)
        };
        self.burst = (at, occasion);
        self.repaired = Some(at);
        if first {
            self.restarted = at;
        }
        match occasion {
            Occasion::Timer => {
                // The tail loss probe sends the last packet again and gives nothing up.
                if first {
                    (self.recover, self.again_to) = (Some(again.high), again.end);
                    (self.tries, self.taken_back) = (again.high, None);
                }
                Class::Timeout
            }
            _ if given_up => {
                self.again_to = self.again_to.max(again.end);
                (self.tries, self.taken_back) = (0, None);
                Class::GoBackN
            }
            _ => Class::Fast,
        }
    }

    /// Whether nothing at all has reached the sender since it last sent the packet.
    fn is_unheard(&self, again: &Again, measured: &Measured) -> bool {
        let heard = self.trains.back().map(|train| train.last + measured.near.0);
        match (again.since, heard) {
            (Some(since), Some(heard)) => heard <= since,
            _ => false,
        }
    }

    /// Whether no acknowledgement can have told the sender that the packet is lost: nothing was sent
    /// after it, or what was sent is not said to have arrived; unless it is gone back to.
    fn is_untold(&self, again: &Again, given_up: bool, at: Instant) -> bool {
        let Some(since) = again.since else { return false };
        if self.trains.is_empty() {
            return false;
        }
        // The arrival of what was sent again later tells as well (RFC 8985).
        let last = again.end >= again.high && self.repaired.is_none_or(|repaired| repaired < since);
        let told = match self.missed.iter().rev().find(|(missed, _)| *missed <= again.start) {
            Some((_, latest)) => *latest >= since,
            // There may have been more than are remembered.
            None => self.missed.len() == TRAINS,
        };
        // A timer sends one packet, not one of many.
        let one_of_many = self.follows(at) && self.repaired == Some(self.burst.0);
        last || !(given_up || told || one_of_many)
    }

    /// Whether a packet leaves after an acknowledgement, or sooner after the one before than a timer
    /// can expire.
    fn is_soon(&self, at: Instant, measured: &Measured) -> bool {
        let least = measured.round_trip.map_or(UNKNOWN_TIMER, |round_trip| round_trip * 3 / 2);
        at.saturating_duration_since(self.burst.0) < least.max(BURST) || self.is_answer(at, measured)
    }

    /// Why a packet leaves again; `repeated` if it is the first unacknowledged one, and has left
    /// again before.
    fn occasion(&self, repeated: bool, at: Instant, measured: &Measured) -> Occasion {
        if self.is_answer(at, measured) {
            let timer = repeated && self.can_expire(REPEATED, at, measured);
            return if timer { Occasion::Timer } else { Occasion::Acknowledgement };
        }
        if self.follows(at) && self.burst.1 != Occasion::Application {
            return self.burst.1;
        }
        if self.can_expire(HALF, at, measured) { Occasion::Timer } else { Occasion::Acknowledgement }
    }

    /// Whether a timer can have expired, longer by `halves` of a round trip than that, that was
    /// started when something new was acknowledged or the first unacknowledged packet was sent.
    fn can_expire(&self, halves: u64, at: Instant, measured: &Measured) -> bool {
        let longer = |round_trip: Duration| round_trip + (round_trip * halves / 2).min(LONGER);
        let least = |rtt: Option<Duration>| rtt.map_or(UNKNOWN_TIMER, |rtt| longer(rtt).max(LEAST_TIMER));
        let Some(train) = self.known(at, measured) else {
            return at.saturating_duration_since(self.restarted) >= least(measured.round_trip);
        };
        // Who was told that later packets arrived sends no probe, but may wait whether they were
        // reordered.
        let least = if train.told { least(measured.longest) + REORDERED } else { least(measured.round_trip) };
        let started = (train.advanced + measured.near.1).max(self.restarted);
        at.saturating_duration_since(started) >= least
    }

    /// Whether the packet leaves together with the one before.
    fn follows(&self, at: Instant) -> bool {
        at.saturating_duration_since(self.burst.0) <= BURST
    }

    /// Whether an acknowledgement reached the sender just before.
    fn is_answer(&self, at: Instant, measured: &Measured) -> bool {
        let (least, recent) = measured.near;
        let late = LATE.max(recent / LATE_SHARE);
        let from = at - (recent + late);
        let to = at - soonest(least);
        self.trains.iter().rev().any(|train| train.first <= to && train.last >= from)
    }

    /// The latest acknowledgements that the sender can have known of.
    fn known(&self, at: Instant, measured: &Measured) -> Option<&Train> {
        let to = at - soonest(measured.near.0);
        self.trains.iter().rev().find(|train| train.first <= to)
    }
}

/// How soon an answer passes, if the loop took `least` so far.
fn soonest(least: Duration) -> Duration {
    (least * 7 / 8).saturating_sub(SOON)
}

/// Whether the packet leaves again as late as a timer can, which waits for a round trip at least.
fn is_late(again: &Again, at: Instant, measured: &Measured) -> bool {
    let least = measured.least.map_or(UNKNOWN_TIMER, |least| least.max(LEAST_PROBE));
    again.since.is_some_and(|since| at.saturating_duration_since(since) >= least)
}
