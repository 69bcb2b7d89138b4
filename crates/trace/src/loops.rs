//! How long it takes from the capture point to an end of a connection and back, measured all along.
//!
//! A packet that passes towards an end is answered by one that acknowledges its last byte, or that
//! echoes its timestamp (RFC 7323): the time between is the loop through that end, with whatever
//! the end took to answer. The two loops of a connection add up to its round-trip time, and say
//! where the capture was made: at the end whose loop takes no time.

use serde::Serialize;
use units::{Duration, Instant};

use crate::segment::{Segment, Stamps, TcpFlags};

/// A loop that is so much shorter than the other one has the capture point at its end.
const AT_AN_END: u64 = 8;
/// An end that has nothing to say answers late: the least of so many samples is believed.
const RECENT: usize = 4;
/// An answer that took longer says nothing of the network.
const LONGEST: Duration = Duration::from_secs(8);

/// Where, on a packet's way, it was captured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CapturePoint {
    /// At its sender, or so near that the sender's answers pass at once.
    Sender,
    /// Between.
    Middle,
    /// At its receiver.
    Receiver,
    /// Nothing was answered yet, or only one direction was captured.
    Unknown,
}

impl CapturePoint {
    /// All, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Sender, Self::Middle, Self::Receiver, Self::Unknown];
}

/// From the capture point through one end and back.
#[derive(Clone, Copy, Default, Debug)]
struct Loop {
    least: Option<Duration>,
    /// The latest samples, and how many there were, counted on from [`RECENT`] round and round.
    latest: [Duration; RECENT],
    samples: u8,
    /// A byte that waits for its acknowledgement, and a timestamp for its echo.
    byte: Option<(u32, Instant)>,
    /// Something before the byte was sent again: it may have waited for that.
    behind: bool,
    stamp: Option<Stamp>,
    last_stamp: Option<u32>,
}

/// Where a packet begins, beside where what was sent before ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begins {
    /// There, or it takes no sequence numbers.
    Next,
    /// Before: its answer would be ambiguous (Karn's rule), and it may come from a timer.
    Again,
    /// Behind: something before it was lost or overtaken, which may have been the answer.
    Ahead,
}

/// A timestamp that waits for its echo.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    value: u32,
    since: Instant,
    /// It came with something that is acknowledged.
    asks: bool,
}

/// Both loops of a connection, by the place of the end.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Loops([Loop; 2]);

impl Loops {
    /// The next packet.
    pub(crate) fn on_segment(&mut self, segment: &Segment, begins: Begins, at: Instant) {
        self.0[segment.from].answer(segment, begins, at);
        self.0[1 - segment.from].ask(segment, begins == Begins::Again, at);
    }

    /// The least time through the end at `end`.
    pub(crate) fn least(&self, end: usize) -> Option<Duration> {
        self.0[end].least
    }

    /// The time through the end at `end` of late.
    pub(crate) fn recent(&self, end: usize) -> Option<Duration> {
        self.0[end].recent().iter().copied().min()
    }

    /// The connection's round-trip time of late.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        Some(self.recent(0)? + self.recent(1)?)
    }

    /// The longest that it took of late.
    pub(crate) fn longest(&self) -> Option<Duration> {
        let longest = |end: usize| self.0[end].recent().iter().copied().max();
        Some(longest(0)? + longest(1)?)
    }

    /// Where packets from the end at `from` were captured.
    pub(crate) fn point(&self, from: usize) -> CapturePoint {
        let (Some(near), Some(far)) = (self.least(from), self.least(1 - from)) else {
            return CapturePoint::Unknown;
        };
        if near * AT_AN_END <= far || near + far < Duration::from_millis(1) {
            CapturePoint::Sender
        } else if far * AT_AN_END <= near {
            CapturePoint::Receiver
        } else {
            CapturePoint::Middle
        }
    }
}

impl Loop {
    fn recent(&self) -> &[Duration] {
        &self.latest[..RECENT.min(usize::from(self.samples))]
    }

    /// A packet that comes from the end.
    fn answer(&mut self, segment: &Segment, begins: Begins, at: Instant) {
        let late = begins != Begins::Next;
        let reaches = |above: u32, end: u32| (above.wrapping_sub(end) as i32) >= 0;
        if let (Some((end, since)), true) = (self.byte, segment.acknowledges())
            && (reaches(segment.ack, end)
                || segment.sack.is_some_and(|(from, to)| reaches(to, end) && !reaches(from, end)))
        {
            self.byte = None;
            let unsure = late || (self.behind && reaches(segment.ack, end));
            self.sample(unsure, at.saturating_duration_since(since));
        }
        if let (Some(stamp), Some(Stamps { echo, .. })) = (self.stamp, segment.stamps) {
            let ahead = echo.wrapping_sub(stamp.value) as i32;
            if ahead >= 0 {
                self.stamp = None;
            }
            // A bare acknowledgement is not acknowledged: whoever has no data to send in return
            // echoes its timestamp when there is something else to answer.
            if ahead == 0 && (stamp.asks || segment.payload > 0) {
                self.sample(late, at.saturating_duration_since(stamp.since));
            }
        }
    }

    /// A packet that goes to the end.
    fn ask(&mut self, segment: &Segment, again: bool, at: Instant) {
        let stale = |since: Instant| at.saturating_duration_since(since) > LONGEST;
        let end = segment.seq.wrapping_add(segment.occupied());
        let repeated = |byte: u32| again && (end.wrapping_sub(byte) as i32) >= 0;
        if self.byte.is_some_and(|(byte, since)| repeated(byte) || stale(since)) {
            self.byte = None;
        }
        self.behind |= again;
        // A SYN is repeated after a second or more: what answers, answers the latest.
        let clear = !again || segment.flags.has(TcpFlags::SYN);
        if clear && self.byte.is_none() && segment.occupies() {
            (self.byte, self.behind) = (Some((end, at)), false);
        }
        // The answer to a SYN that was sent again may answer either, and be sent again itself.
        let opens = again && segment.flags.has(TcpFlags::SYN);
        if opens || self.stamp.is_some_and(|stamp| stale(stamp.since)) {
            self.stamp = None;
        }
        // Only the first packet with a timestamp: clocks tick slower than packets pass.
        if let Some(Stamps { value, .. }) = segment.stamps {
            if self.last_stamp != Some(value) && self.stamp.is_none() {
                self.stamp = Some(Stamp { value, since: at, asks: segment.occupies() });
            }
            self.last_stamp = Some(value);
        }
    }

    fn sample(&mut self, unsure: bool, took: Duration) {
        if unsure || took > LONGEST {
            return;
        }
        self.least = Some(self.least.map_or(took, |least| least.min(took)));
        self.latest[usize::from(self.samples) % RECENT] = took;
        self.samples =
            if usize::from(self.samples) + 1 == 2 * RECENT { RECENT as u8 } else { self.samples + 1 };
    }
}
