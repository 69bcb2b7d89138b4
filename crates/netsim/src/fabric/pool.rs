//! Packets under way, in slots that are used again.

use std::hint::black_box;

use super::packet::Head;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Slots are numbers of 31 bits.
const MOST: u32 = (1 << 31) - 1;

/// A packet at a port: it waits, is being sent, or is on the wire. A port's packets are a list
/// through the slots, so that queues take no memory of their own that nobody has touched for long.
/// 32 bytes: two in a cache line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// When the last bit of the one behind it leaves the port: kept here, so that nobody has to look
    /// at that one before its turn.
    pub(super) next_leaves: u64,
    /// The one behind it at the same port, or [`NONE`].
    pub(super) next: u32,
    pub(super) head: Head,
}

const _: () = assert!(size_of::<Flight>() == 32);

/// Holds packets by number; slots are taken again, last freed first, so that the pool stays in the
/// cache.
#[derive(Debug)]
pub(super) struct Pool<B> {
    flights: Vec<Flight>,
    bodies: Vec<Body<B>>,
    free: Vec<u32>,
    limit: u32,
}

/// In a cache line of its own: written where a host sends it, read where one receives it.
#[derive(Debug)]
#[repr(align(64))]
struct Body<B> {
    body: B,
    /// Nobody reads it: [`Pool::ask_ahead`] writes it so that memory brings the line.
    asked: bool,
}

impl<B> Body<B> {
    fn new(body: B) -> Self {
        Self { body, asked: false }
    }
}

impl<B: Default> Pool<B> {
    /// A pool of at most `limit` packets.
    pub(super) fn new(limit: u32) -> Self {
        Self { flights: Vec::new(), bodies: Vec::new(), free: Vec::new(), limit: limit.min(MOST) }
    }

    /// Keeps a packet; `None` when the pool is full.
    #[inline]
    pub(super) fn insert(&mut self, head: Head, body: B) -> Option<u32> {
        let flight = Flight { next_leaves: 0, next: NONE, head };
        if let Some(slot) = self.free.pop() {
            self.flights[slot as usize] = flight;
            self.bodies[slot as usize] = Body::new(body);
            return Some(slot);
        }
        let slot = u32::try_from(self.flights.len()).ok().filter(|slot| *slot < self.limit)?;
        self.flights.push(flight);
        self.bodies.push(Body::new(body));
        Some(slot)
    }

    #[inline]
    pub(super) fn flight(&mut self, slot: u32) -> &mut Flight {
        &mut self.flights[slot as usize]
    }

    /// Takes the body out for a moment; the slot stays.
    #[inline]
    pub(super) fn take(&mut self, slot: u32) -> B {
        std::mem::take(&mut self.bodies[slot as usize].body)
    }

    /// Puts back what [`Pool::take`] took.
    pub(super) fn put_back(&mut self, slot: u32, body: B) {
        self.bodies[slot as usize].body = body;
    }

    /// Takes the body out and frees the slot.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> B {
        self.free.push(slot);
        self.take(slot)
    }

    /// Reads a flight, for an event to come.
    #[inline]
    pub(super) fn read_ahead(&self, slot: u32) {
        black_box(self.flights[slot as usize].next);
    }

    /// Asks memory for a packet's body. A write does not wait for its line as a read would.
    #[inline]
    pub(super) fn ask_ahead(&mut self, slot: u32) {
        self.bodies[slot as usize].asked = true;
    }

    /// The body of a packet that it holds.
    #[inline]
    pub(super) fn body(&self, slot: u32) -> &B {
        &self.bodies[slot as usize].body
    }

    /// Most packets that it has held at once.
    #[inline]
    pub(super) fn most(&self) -> usize {
        self.flights.len()
    }

    /// Packets that it holds.
    pub(super) fn len(&self) -> usize {
        self.flights.len() - self.free.len()
    }
}
