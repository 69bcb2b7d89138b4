//! The connections that are being followed, found by their ends, with a limit on their number and
//! on what they remember.

use std::hash::{BuildHasherDefault, DefaultHasher};

use units::Instant;

use crate::{connection::Connection, options::Limits, segment::Pair};

/// Hashed with fixed keys and never iterated: the order of nothing depends on it.
#[allow(clippy::disallowed_types, reason = "the hasher is fixed and the map is never iterated")]
type Places = std::collections::HashMap<Pair, usize, BuildHasherDefault<DefaultHasher>>;

const NONE: usize = usize::MAX;

/// Why a connection left the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// It was closed, or silent for long.
    Over,
    /// To make room, while it was open.
    Evicted,
    /// The capture ended in its midst.
    UnderWay,
}

#[derive(Debug)]
struct Slot {
    connection: Option<Connection>,
    /// Neighbours in a list: the one heard of before and the one after.
    earlier: usize,
    later: usize,
    /// Which list it is in.
    closed: bool,
    /// What it remembers, in packets.
    capacity: usize,
}

/// A list of slots, from the one silent longest to the latest.
#[derive(Clone, Copy, Debug)]
struct List {
    oldest: usize,
    latest: usize,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    limits: Limits,
    places: Places,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Open and closed connections.
    lists: [List; 2],
    remembered: usize,
}

impl Table {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits: Limits { connections: limits.connections.max(1), ..limits },
            places: Places::default(),
            slots: Vec::new(),
            free: Vec::new(),
            lists: [List { oldest: NONE, latest: NONE }; 2],
            remembered: 0,
        }
    }

    /// Where the connection between `pair` is.
    pub(crate) fn find(&self, pair: &Pair) -> Option<usize> {
        self.places.get(pair).copied()
    }

    /// A connection that is not there yet. There must be room.
    pub(crate) fn insert(&mut self, connection: Connection) -> usize {
        let pair = connection.pair;
        let slot =
            Slot { connection: Some(connection), earlier: NONE, later: NONE, closed: false, capacity: 0 };
        let place = match self.free.pop() {
            Some(place) => {
                self.slots[place] = slot;
                place
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        self.places.insert(pair, place);
        self.append(place);
        place
    }

    pub(crate) fn connection(&mut self, place: usize) -> &mut Connection {
        self.slots[place].connection.as_mut().expect("a place that `find` or `insert` gave is taken")
    }

    /// The connection was heard of: it is the latest of its list, and what it remembers may have
    /// changed.
    pub(crate) fn heard(&mut self, place: usize) {
        let connection = self.connection(place);
        let (closed, capacity) = (connection.closed, connection.capacity());
        self.remembered = self.remembered + capacity - self.slots[place].capacity;
        self.slots[place].capacity = capacity;
        if self.lists[usize::from(closed)].latest != place {
            self.unlink(place);
            self.slots[place].closed = closed;
            self.append(place);
        }
    }

    /// Takes out the connection at `place`.
    pub(crate) fn remove(&mut self, place: usize) -> Connection {
        self.unlink(place);
        let slot = &mut self.slots[place];
        let connection = slot.connection.take().expect("a place that `find` or `insert` gave is taken");
        self.remembered -= slot.capacity;
        self.free.push(place);
        self.places.remove(&connection.pair);
        connection
    }

    /// Whether one more connection would be one too many.
    pub(crate) fn is_full(&self) -> bool {
        self.places.len() >= self.limits.connections
    }

    /// Whether the connections together remember too much.
    pub(crate) fn is_heavy(&self) -> bool {
        self.remembered > self.limits.packets
    }

    /// Takes out the connection that is missed least: the closed one that has been silent longest,
    /// or else the open one.
    pub(crate) fn evict(&mut self) -> Option<(Connection, Left)> {
        let [open, closed] = self.lists.map(|list| list.oldest);
        if closed != NONE {
            return Some((self.remove(closed), Left::Over));
        }
        (open != NONE).then(|| (self.remove(open), Left::Evicted))
    }

    /// Takes out a connection that has been silent too long at `now`.
    pub(crate) fn expired(&mut self, now: Instant) -> Option<Connection> {
        let idle = [self.limits.idle, self.limits.closed_idle];
        for (list, idle) in self.lists.into_iter().zip(idle) {
            let silent = |slot: &Slot| {
                let latest = slot.connection.as_ref().map_or(now, |connection| connection.latest);
                now.saturating_duration_since(latest) > idle
            };
            if list.oldest != NONE && silent(&self.slots[list.oldest]) {
                return Some(self.remove(list.oldest));
            }
        }
        None
    }

    /// Takes out any connection, in a fixed order.
    pub(crate) fn drain(&mut self) -> Option<Connection> {
        let oldest = self.lists.iter().map(|list| list.oldest).find(|&oldest| oldest != NONE)?;
        Some(self.remove(oldest))
    }

    fn append(&mut self, place: usize) {
        let list = &mut self.lists[usize::from(self.slots[place].closed)];
        let before = list.latest;
        list.latest = place;
        if before == NONE {
            list.oldest = place;
        } else {
            self.slots[before].later = place;
        }
        self.slots[place].earlier = before;
        self.slots[place].later = NONE;
    }

    fn unlink(&mut self, place: usize) {
        let (earlier, later) = (self.slots[place].earlier, self.slots[place].later);
        let list = &mut self.lists[usize::from(self.slots[place].closed)];
        if earlier == NONE {
            list.oldest = later
        } else {
            self.slots[earlier].later = later
        }
        let list = &mut self.lists[usize::from(self.slots[place].closed)];
        if later == NONE { list.latest = earlier } else { self.slots[later].earlier = earlier }
    }
}
