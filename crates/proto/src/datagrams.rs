//! Application datagrams (RFC 9221): bounded queues in both directions.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use units::Instant;

use crate::{PathId, wire::DatagramHeader};

/// What keeping a received datagram costs beyond its bytes: its place in the queue and its
/// allocation.
const OVERHEAD: usize = 64;

/// How a datagram is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatagramOptions {
    /// For how long it is of use, from the call on until the peer has it. What cannot arrive in
    /// time is not sent; what may not is protected (docs/datagrams.md). `None`: for ever, and
    /// nothing is done about it in particular.
    pub within: Option<Duration>,
    /// Of those that wait, datagrams of higher priority leave first; equal ones in the order of the
    /// calls. 0.
    pub priority: i32,
    /// How many bytes may wait together with it: a short queue for what is of little use when it is
    /// late, whatever the send buffer. `None`: the send buffer.
    pub room: Option<usize>,
    /// It repeats what the datagrams before it carry: it never shares a packet with one of them,
    /// and leaves over another path than the last of them if one has room. `false`.
    pub apart: bool,
    /// Each loss costs it much, as it does a TCP inside: it leaves out paths that lose packets by
    /// chance, while others that do not carry more than such a TCP would have with them (two losses
    /// among 500 packets, for half a minute and longer). `false`.
    pub steady: bool,
}

impl DatagramOptions {
    /// As [`send_datagram`](crate::Connection::send_datagram) sends.
    pub fn new() -> Self {
        Self::default()
    }

    /// It is of no use later than that.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// Higher ones leave first.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Refused if more than so many bytes would wait.
    #[must_use]
    pub fn room(mut self, bytes: usize) -> Self {
        self.room = Some(bytes);
        self
    }

    /// Not to be lost together with those before it.
    #[must_use]
    pub fn apart(mut self) -> Self {
        self.apart = true;
        self
    }

    /// Not over paths that lose packets by chance, if others are good enough.
    #[must_use]
    pub fn steady(mut self) -> Self {
        self.steady = true;
        self
    }
}

/// A datagram that waits to be sent.
#[derive(Debug)]
struct Outgoing {
    data: Bytes,
    deadline: Option<Instant>,
    priority: i32,
    apart: bool,
    steady: bool,
}

impl Outgoing {
    /// An empty datagram still takes a place, or a queue of them would know no bound.
    fn takes(&self) -> usize {
        self.data.len().max(1)
    }
}

/// A datagram with a deadline that a packet carries.
#[derive(Clone, Debug)]
pub(crate) struct TimedDatagram {
    pub(crate) data: Bytes,
    pub(crate) deadline: Instant,
    pub(crate) priority: i32,
}

/// What was written to a packet.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Whether anything was.
    pub(crate) any: bool,
    /// Whether any of it has no deadline.
    pub(crate) untimed: bool,
}

/// Datagrams waiting to be sent, and received ones waiting to be read.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    /// By falling priority.
    outgoing: VecDeque<Outgoing>,
    /// The path of the last datagram that left.
    last_path: Option<PathId>,
    /// Paths that those that are `steady` leave out.
    left_out: Vec<PathId>,
    /// No deadline of those that wait is earlier.
    earliest: Option<Instant>,
    expired: u64,
    outgoing_bytes: usize,
    outgoing_limit: usize,
    incoming: VecDeque<Bytes>,
    incoming_bytes: usize,
    incoming_limit: usize,
    /// With how many bytes that wait the application is told of room, since a datagram was refused for
    /// want of it: of several that were, the first that there is room for again.
    blocked: Option<usize>,
    dropped: u64,
}

impl Datagrams {
    pub(crate) fn new(outgoing_limit: usize, incoming_limit: usize) -> Self {
        Self { outgoing_limit, incoming_limit, ..Self::default() }
    }

    /// The longest datagram of which one is kept within so many bytes.
    pub(crate) fn longest_kept(limit: usize) -> usize {
        limit.saturating_sub(OVERHEAD)
    }

    /// Changes how many bytes of received datagrams are kept from now on.
    pub(crate) fn set_incoming_limit(&mut self, bytes: usize) {
        self.incoming_limit = bytes;
    }

    /// Queues a datagram; false if there is no room.
    pub(crate) fn send(&mut self, data: Bytes, deadline: Option<Instant>, options: DatagramOptions) -> bool {
        let DatagramOptions { priority, apart, steady, room, .. } = options;
        let datagram = Outgoing { data, deadline, priority, apart, steady };
        let (takes, limit) = (datagram.takes(), self.outgoing_limit.min(room.unwrap_or(usize::MAX)));
        if !self.has_room_for(takes, limit) {
            // Half of the queue, so that nobody is woken for each packet, and enough for what is refused,
            // or it would ask and be refused without end.
            let left = (limit / 2).min(limit.saturating_sub(takes));
            self.blocked = self.blocked.max(Some(left));
            return false;
        }
        self.outgoing_bytes += takes;
        self.earliest = [self.earliest, deadline].into_iter().flatten().min();
        let place = match self.outgoing.back() {
            Some(last) if last.priority < priority => {
                self.outgoing.partition_point(|waiting| waiting.priority >= priority)
            }
            _ => self.outgoing.len(),
        };
        self.outgoing.insert(place, datagram);
        true
    }

    /// Whether a datagram with a deadline may be waiting.
    pub(crate) fn has_deadlines(&self) -> bool {
        self.earliest.is_some()
    }

    /// Drops those that wait although their deadline is before `arrival`, when they would be there
    /// at the earliest.
    pub(crate) fn expire(&mut self, arrival: Instant) {
        if self.earliest.is_none_or(|earliest| earliest >= arrival) {
            return;
        }
        let before = self.outgoing.len();
        let bytes = &mut self.outgoing_bytes;
        self.outgoing.retain(|waiting| {
            let keep = waiting.deadline.is_none_or(|deadline| deadline >= arrival);
            *bytes -= if keep { 0 } else { waiting.takes() };
            keep
        });
        self.expired += (before - self.outgoing.len()) as u64;
        self.earliest = self.outgoing.iter().filter_map(|waiting| waiting.deadline).min();
    }

    /// Datagrams that were not sent because they could not have arrived in time.
    pub(crate) fn expired(&self) -> u64 {
        self.expired
    }

    /// An empty queue takes any datagram, since a larger limit than it has will never come.
    fn has_room_for(&self, bytes: usize, limit: usize) -> bool {
        self.outgoing.is_empty() || self.outgoing_bytes + bytes <= limit
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Bytes waiting, for the scheduler.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.outgoing_bytes as u64
    }

    /// The path that the next one should not take, if it is to be apart from the last.
    pub(crate) fn avoided_path(&self) -> Option<PathId> {
        let is_apart = self.outgoing.front().is_some_and(|next| next.apart);
        if is_apart { self.last_path } else { None }
    }

    /// Which paths those that are `steady` leave out.
    pub(crate) fn leave_out(&mut self, paths: impl Iterator<Item = PathId>) {
        self.left_out.clear();
        self.left_out.extend(paths);
    }

    /// Whether those that are `steady` leave out this path.
    pub(crate) fn are_left_out_of(&self, path: PathId) -> bool {
        self.left_out.contains(&path)
    }

    /// Whether the next one waits for another path than this.
    pub(crate) fn leaves_out(&self, path: PathId) -> bool {
        self.outgoing.front().is_some_and(|next| next.steady) && self.are_left_out_of(path)
    }

    /// Appends the datagrams that fit below `limit` of a packet of `path`. Where that has as much room as
    /// any of the path, which `drops` says, those that do not fit are dropped. Those with a deadline are
    /// added to `timed`.
    pub(crate) fn write(
        &mut self,
        path: PathId,
        out: &mut Vec<u8>,
        limit: usize,
        drops: bool,
        timed: &mut Vec<TimedDatagram>,
    ) -> Written {
        let start = out.len();
        let mut untimed = false;
        let takes_any = !self.are_left_out_of(path);
        while let Some(next) = self.outgoing.front()
            && (takes_any || !next.steady)
        {
            let len = DatagramHeader::len(next.data.len(), true) + next.data.len();
            let fits = out.len() + len <= limit;
            // What is repaired apart, by priority, leaves apart.
            let differs =
                next.deadline.is_some() && timed.last().is_some_and(|t| t.priority != next.priority);
            let is_first = out.len() == start;
            let leaves_apart = !is_first && (next.apart || differs);
            let is_too_long = !fits && is_first && drops;
            let waits = !fits && !is_too_long;
            if waits || leaves_apart {
                break;
            }
            let Some(next) = self.outgoing.pop_front() else { break };
            self.outgoing_bytes -= next.takes();
            if is_too_long {
                self.dropped += 1;
                continue;
            }
            DatagramHeader { data_len: Some(next.data.len()) }.encode(out);
            out.extend_from_slice(&next.data);
            match next.deadline {
                Some(deadline) => {
                    timed.push(TimedDatagram { data: next.data, deadline, priority: next.priority })
                }
                None => untimed = true,
            }
        }
        if self.outgoing.is_empty() {
            self.earliest = None;
        }
        if out.len() > start {
            self.last_path = Some(path);
        }
        Written { any: out.len() > start, untimed }
    }

    /// Whether to tell the application that there is room again.
    pub(crate) fn take_unblocked(&mut self) -> bool {
        let unblocked = self.blocked.is_some_and(|left| self.outgoing_bytes <= left);
        if unblocked {
            self.blocked = None;
        }
        unblocked
    }

    /// Keeps a received datagram, dropping the oldest ones over the limit. Returns whether it is
    /// kept.
    pub(crate) fn on_received(&mut self, data: &[u8]) -> bool {
        if data.len() + OVERHEAD > self.incoming_limit {
            self.dropped += 1;
            return false;
        }
        self.incoming_bytes += data.len() + OVERHEAD;
        self.incoming.push_back(Bytes::copy_from_slice(data));
        while self.incoming_bytes > self.incoming_limit {
            let Some(oldest) = self.incoming.pop_front() else { break };
            self.incoming_bytes -= oldest.len() + OVERHEAD;
            self.dropped += 1;
        }
        true
    }

    pub(crate) fn receive(&mut self) -> Option<Bytes> {
        let data = self.incoming.pop_front()?;
        self.incoming_bytes -= data.len() + OVERHEAD;
        Some(data)
    }

    /// Datagrams dropped in either direction for want of room.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(datagrams: &mut Datagrams, out: &mut Vec<u8>) -> bool {
        datagrams.write(PathId(0), out, 1_200, true, &mut Vec::new()).any
    }

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + units::Duration::from_millis(ms)
    }

    #[test]
    fn higher_priority_leaves_first_and_equal_ones_in_order() {
        let mut datagrams = Datagrams::new(1_000, 0);
        for (byte, priority) in [(0, 0), (1, 5), (2, 0), (3, 5), (4, -1), (5, 9)] {
            assert!(datagrams.send(Bytes::from(vec![byte]), None, DatagramOptions::new().priority(priority)));
        }
        let mut out = Vec::new();
        assert!(write(&mut datagrams, &mut out));
        let order: Vec<u8> = out.chunks(3).map(|frame| frame[2]).collect();
        assert_eq!(order, [5, 1, 3, 0, 2, 4]);
    }

    #[test]
    fn what_cannot_arrive_in_time_is_dropped_and_leaves_its_room() {
        let mut datagrams = Datagrams::new(100, 0);
        for ms in [150, 100, 200] {
            assert!(datagrams.send(Bytes::from(vec![0; 30]), Some(at(ms)), DatagramOptions::new()));
        }
        assert!(!datagrams.send(Bytes::from(vec![0; 30]), None, DatagramOptions::new()));
        datagrams.expire(at(100));
        assert_eq!(datagrams.expired(), 0, "to arrive then is in time");
        datagrams.expire(at(160));
        assert_eq!((datagrams.expired(), datagrams.pending_bytes()), (2, 30));
        assert!(datagrams.send(Bytes::from(vec![0; 60]), None, DatagramOptions::new()));
        let mut timed = Vec::new();
        let written = datagrams.write(PathId(0), &mut Vec::new(), 1_200, true, &mut timed);
        assert!(written.any && written.untimed);
        assert_eq!(timed.iter().map(|t| t.deadline).collect::<Vec<_>>(), [at(200)]);
        datagrams.expire(at(1_000));
        assert_eq!(datagrams.expired(), 2, "what has left does not expire");
        assert!(!datagrams.has_deadlines());
    }

    #[test]
    fn what_is_apart_shares_no_packet_with_what_was_before_it() {
        let mut datagrams = Datagrams::new(1_000, 0);
        for (byte, apart) in [(0, false), (1, true), (2, false), (3, true), (4, true)] {
            let options = DatagramOptions { apart, ..DatagramOptions::new() };
            assert!(datagrams.send(Bytes::from(vec![byte]), None, options));
        }
        let mut packet = |path| {
            let (avoided, mut out) = (datagrams.avoided_path(), Vec::new());
            let any = datagrams.write(PathId(path), &mut out, 1_200, true, &mut Vec::new()).any;
            any.then(|| (avoided, out.chunks(3).map(|frame| frame[2]).collect::<Vec<u8>>()))
        };
        assert_eq!(packet(5), Some((None, vec![0])));
        assert_eq!(packet(6), Some((Some(PathId(5)), vec![1, 2])));
        assert_eq!(packet(7), Some((Some(PathId(6)), vec![3])));
        assert_eq!(packet(7), Some((Some(PathId(7)), vec![4])));
        assert_eq!(packet(7), None);
    }

    #[test]
    fn queues_are_bounded_even_for_empty_datagrams() {
        let mut datagrams = Datagrams::new(10, 10 * (OVERHEAD + 1));
        assert_eq!(
            (0..20)
                .map(|_| usize::from(datagrams.send(Bytes::new(), None, DatagramOptions::new())))
                .sum::<usize>(),
            10
        );
        for n in 0..20 {
            datagrams.on_received(&[n]);
        }
        assert_eq!(datagrams.receive().as_deref(), Some(&[10][..]), "the oldest were dropped");
        assert_eq!(datagrams.dropped(), 10);
        assert!(!datagrams.on_received(&[0; 600]));
        assert!(!datagrams.take_unblocked());
        let mut out = Vec::new();
        assert!(write(&mut datagrams, &mut out));
        assert!(datagrams.take_unblocked());
    }

    #[test]
    fn who_was_refused_is_told_once_there_is_room_for_that_and_not_before() {
        let mut datagrams = Datagrams::new(2_000, 0);
        assert!(datagrams.send(Bytes::from(vec![0; 900]), None, DatagramOptions::new()));
        assert!(!datagrams.send(Bytes::from(vec![0; 1_200]), None, DatagramOptions::new()));
        assert!(!datagrams.take_unblocked(), "half of the queue is free, and that is too little");
        let mut out = Vec::new();
        assert!(write(&mut datagrams, &mut out));
        assert!(datagrams.take_unblocked());
        assert!(!datagrams.take_unblocked(), "once");
        assert!(datagrams.send(Bytes::from(vec![0; 1_200]), None, DatagramOptions::new()));
    }

    #[test]
    fn a_datagram_larger_than_the_queue_waits_until_that_is_empty() {
        let mut datagrams = Datagrams::new(100, 0);
        assert!(datagrams.send(Bytes::from(vec![0; 50]), None, DatagramOptions::new()));
        assert!(!datagrams.send(Bytes::from(vec![0; 200]), None, DatagramOptions::new()));
        assert!(!datagrams.take_unblocked());
        assert!(write(&mut datagrams, &mut Vec::new()));
        assert!(datagrams.take_unblocked());
        assert!(datagrams.send(Bytes::from(vec![0; 200]), None, DatagramOptions::new()));
        assert!(!datagrams.send(Bytes::from(vec![0; 1]), None, DatagramOptions::new()), "one, and no more");
    }

    #[test]
    fn who_wants_a_short_queue_is_refused_and_told_by_its_own_measure() {
        let mut datagrams = Datagrams::new(100_000, 0);
        assert!(datagrams.send(Bytes::from(vec![0; 900]), None, DatagramOptions::new().room(2_000)));
        assert!(datagrams.send(Bytes::from(vec![0; 900]), None, DatagramOptions::new().room(2_000)));
        assert!(!datagrams.send(Bytes::from(vec![0; 900]), None, DatagramOptions::new().room(2_000)));
        assert!(!datagrams.take_unblocked(), "nothing has left");
        assert!(write(&mut datagrams, &mut Vec::new()));
        assert!(datagrams.take_unblocked());
        assert!(
            datagrams.send(Bytes::from(vec![0; 50_000]), None, DatagramOptions::new()),
            "others have all of it"
        );
    }

    /// Who waits for the send buffer does not wait for somebody else's short queue to be empty.
    #[test]
    fn of_several_that_were_refused_the_first_that_has_room_is_told() {
        let (all, few) = (DatagramOptions::new(), DatagramOptions::new().room(2_000));
        for refused in [[all, few], [few, all]] {
            let mut datagrams = Datagrams::new(10_000, 0);
            (0..10).for_each(|_| assert!(datagrams.send(Bytes::from(vec![0; 1_000]), None, all)));
            for options in refused {
                assert!(!datagrams.send(Bytes::from(vec![0; 1_000]), None, options));
            }
            for left in (5..10).rev() {
                assert!(!datagrams.take_unblocked());
                assert!(write(&mut datagrams, &mut Vec::new()));
                assert_eq!(datagrams.pending_bytes(), left * 1_000);
            }
            assert!(datagrams.take_unblocked(), "half of the send buffer is free");
            // Who is refused then is told by their own measure.
            assert!(!datagrams.send(Bytes::from(vec![0; 1_000]), None, few));
            (0..3).for_each(|_| assert!(write(&mut datagrams, &mut Vec::new())));
            assert!(!datagrams.take_unblocked());
            assert!(write(&mut datagrams, &mut Vec::new()));
            assert!(datagrams.take_unblocked());
        }
    }

    #[test]
    fn what_fits_no_packet_is_dropped_not_stuck() {
        let mut datagrams = Datagrams::new(10_000, 10_000);
        assert!(datagrams.send(Bytes::from(vec![0; 2_000]), None, DatagramOptions::new()));
        assert!(datagrams.send(Bytes::from(vec![1; 100]), None, DatagramOptions::new()));
        let mut out = Vec::new();
        assert!(write(&mut datagrams, &mut out));
        assert_eq!(out.len(), 103);
        assert_eq!(datagrams.dropped(), 1);
    }
}
