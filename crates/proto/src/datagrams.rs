//! Application datagrams (RFC 9221): bounded queues in both directions.

#[cfg(test)]
mod tests;
mod turns;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
    num::NonZeroUsize,
    time::Duration,
};

use bytes::Bytes;
use units::Instant;

use self::turns::Turns;
use crate::{PathId, wire::DatagramHeader};

/// What keeping a received datagram costs beyond its bytes: its place in the queue and its
/// allocation.
const OVERHEAD: usize = 64;
/// Datagrams that may wait for one of a flow to be taken: it may have to be put before them.
const MOST_IN_TURNS: usize = 4_096;

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
    /// Datagrams of the same priority leave by turns of their flows, by bytes: one that sends little
    /// does not wait for what others have waiting. Where the send buffer is full (or 4,096 datagrams
    /// wait), the one makes room that would leave last, if that is one of a flow, behind this one, and
    /// this one has no `room`. Beyond 512 flows that are ahead of others at a time, those of one more leave
    /// last, and maybe not in the order of the calls. `None`: all that say so are one flow, and no datagram
    /// of it is dropped for others.
    pub flow: Option<u32>,
    /// With a deadline: of so many frames like the one it belongs to, one may be incomplete when that has
    /// come. Repair is sized by it, within the bounds that repair has (docs/datagrams.md); of datagrams that
    /// share a packet, or the repair of several, the strictest counts. Less than 2 counts as 2. `None`: as
    /// the recovery scheme says, which is one of 500 with `auto` and `streaming`.
    pub one_late_in: Option<u32>,
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

    /// It leaves in its flow's turn.
    #[must_use]
    pub fn flow(mut self, flow: u32) -> Self {
        self.flow = Some(flow);
        self
    }

    /// Of so many frames one may be incomplete at its deadline.
    #[must_use]
    pub fn one_late_in(mut self, frames: u32) -> Self {
        self.one_late_in = Some(frames);
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
    flow: Option<u32>,
    one_late_in: Option<u32>,
    /// Where it begins in its flow, in bytes: those that begin first leave first.
    start: u64,
}

impl Outgoing {
    /// An empty datagram still takes a place, or a queue of them would know no bound.
    fn takes(&self) -> usize {
        self.data.len().max(1)
    }

    /// What has a smaller one leaves first.
    fn turn(&self) -> (Reverse<i32>, u64) {
        (Reverse(self.priority), self.start)
    }
}

/// A datagram with a deadline that a packet carries.
#[derive(Clone, Debug)]
pub(crate) struct TimedDatagram {
    pub(crate) data: Bytes,
    pub(crate) deadline: Instant,
    pub(crate) priority: i32,
    one_late_in: Option<u32>,
}

impl TimedDatagram {
    /// The probability with which it may miss its deadline, where the scheme takes `otherwise`.
    pub(crate) fn may_miss(&self, otherwise: f64) -> f64 {
        self.one_late_in.map_or(otherwise, |frames| 1.0 / f64::from(frames.max(2)))
    }
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
    /// By falling priority, and by where they begin.
    outgoing: VecDeque<Outgoing>,
    /// Once there was a datagram of a flow.
    turns: Option<Box<Turns>>,
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
    /// Once fewer bytes than that wait the application is told of room, since a datagram was refused for
    /// want of it: of several that were, the first that there is room for again.
    blocked: Option<NonZeroUsize>,
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
        let DatagramOptions { priority, apart, steady, room, flow, one_late_in, .. } = options;
        let start = self.start(flow, priority);
        let datagram = Outgoing { data, deadline, priority, apart, steady, flow, one_late_in, start };
        let (takes, limit) = (datagram.takes(), self.outgoing_limit.min(room.unwrap_or(usize::MAX)));
        let (place, most) = (self.place(&datagram), flow.map_or(usize::MAX, |_| MOST_IN_TURNS));
        if flow.is_some() && room.is_none() {
            self.make_room(takes, place);
        }
        if !self.has_room_for(takes, limit, most) {
            // Half of the queue, so that nobody is woken for each packet, and enough for what is refused,
            // or it would ask and be refused without end.
            let left = (limit / 2).min(limit.saturating_sub(takes));
            let left = if self.outgoing.len() < most { left } else { left.min(self.outgoing_bytes / 2) };
            self.blocked = self.blocked.max(Some(NonZeroUsize::MIN.saturating_add(left)));
            return false;
        }
        self.outgoing_bytes += takes;
        self.earliest = [self.earliest, deadline].into_iter().flatten().min();
        if let Some(turns) = &mut self.turns {
            turns.set_end(flow, priority, start + takes as u64);
        }
        self.outgoing.insert(place, datagram);
        true
    }

    /// Where a datagram begins: at 0 as long as there are no flows, all in the order of the calls.
    fn start(&mut self, flow: Option<u32>, priority: i32) -> u64 {
        if flow.is_some() && self.turns.is_none() {
            self.begin_turns();
        }
        let Some(turns) = &mut self.turns else { return 0 };
        let outgoing = &self.outgoing;
        turns.start(flow, priority, |priority| {
            let next = outgoing.partition_point(|waiting| waiting.priority > priority);
            outgoing.get(next).filter(|next| next.priority == priority).map(|next| next.start)
        })
    }

    /// The first flow is there: what waits without one, which all began at 0, has its turns, too, from now on.
    fn begin_turns(&mut self) {
        let mut turns = Turns::default();
        let (mut of, mut end) = (None, 0);
        for waiting in &mut self.outgoing {
            if of.replace(waiting.priority) != Some(waiting.priority) {
                end = 0;
            }
            waiting.start = end;
            end += waiting.takes() as u64;
            turns.set_end(None, waiting.priority, end);
        }
        self.turns = Some(Box::new(turns));
    }

    /// Behind how many of those that wait it leaves.
    fn place(&self, new: &Outgoing) -> usize {
        let leaves_first = |waiting: &Outgoing| waiting.turn() <= new.turn();
        match self.outgoing.back() {
            Some(last) if !leaves_first(last) => self.outgoing.partition_point(leaves_first),
            _ => self.outgoing.len(),
        }
    }

    /// Drops those of flows that would leave last, and behind a new one at `place`, until there is room.
    /// None of them where that would not be enough.
    fn make_room(&mut self, takes: usize, place: usize) {
        for _ in 0..self.in_the_way(takes, place).unwrap_or(0) {
            let Some(last) = self.outgoing.pop_back() else { break };
            self.outgoing_bytes -= last.takes();
            self.dropped += 1;
            // Its flow has not got that far.
            if let Some(turns) = &mut self.turns {
                turns.set_end(last.flow, last.priority, last.start);
            }
        }
    }

    /// How many would have to go for a new one at `place`; `None` if some of them may not.
    fn in_the_way(&self, takes: usize, place: usize) -> Option<usize> {
        let mut behind = self.outgoing.range(place..).rev().take_while(|waiting| waiting.flow.is_some());
        let (mut left, mut bytes) = (self.outgoing.len(), self.outgoing_bytes);
        while left > 0 && (bytes + takes > self.outgoing_limit || left >= MOST_IN_TURNS) {
            bytes -= behind.next()?.takes();
            left -= 1;
        }
        Some(self.outgoing.len() - left)
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
        let is_late = |waiting: &Outgoing| waiting.deadline.is_some_and(|deadline| deadline < arrival);
        self.pass_on_turns(is_late);
        let before = self.outgoing.len();
        let bytes = &mut self.outgoing_bytes;
        self.outgoing.retain(|waiting| {
            let keep = !is_late(waiting);
            *bytes -= if keep { 0 } else { waiting.takes() };
            keep
        });
        self.expired += (before - self.outgoing.len()) as u64;
        self.earliest = self.outgoing.iter().filter_map(|waiting| waiting.deadline).min();
    }

    /// Those that are late give their turns to what their flows have waiting behind them: a flow that sends
    /// more than its share would pay for what has not left, and by and by get nothing.
    fn pass_on_turns(&mut self, is_late: impl Fn(&Outgoing) -> bool) {
        let Some(turns) = &mut self.turns else { return };
        // Where the next one begins of those flows that lose some.
        let mut next = BTreeMap::new();
        for waiting in &mut self.outgoing {
            let of = (waiting.flow, waiting.priority);
            if is_late(waiting) {
                next.entry(of).or_insert(waiting.start);
            } else if let Some(start) = next.get_mut(&of) {
                waiting.start = waiting.start.min(*start);
                *start = waiting.start + waiting.takes() as u64;
            }
        }
        for ((flow, priority), end) in next {
            turns.set_end(flow, priority, end);
        }
        self.outgoing.make_contiguous().sort_by_key(Outgoing::turn);
    }

    /// Datagrams that were not sent because they could not have arrived in time.
    pub(crate) fn expired(&self) -> u64 {
        self.expired
    }

    /// An empty queue takes any datagram, since a larger limit than it has will never come.
    fn has_room_for(&self, bytes: usize, limit: usize, most: usize) -> bool {
        let fits = self.outgoing_bytes + bytes <= limit && self.outgoing.len() < most;
        self.outgoing.is_empty() || fits
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
                    let Outgoing { data, priority, one_late_in, .. } = next;
                    timed.push(TimedDatagram { data, deadline, priority, one_late_in });
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
        let unblocked = self.blocked.is_some_and(|below| self.outgoing_bytes < below.get());
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
