//! A port that trims: two queues beside the wire. What is sent next is decided when the packet
//! before it has left, so those that wait are not yet in the list of what is under way.
//!
//! The decisions are made late, at the next event of the port, in the order of their times: nothing
//! arrived at the queues in between.

use std::collections::VecDeque;

use units::{BitRate, Instant};

use super::{
    super::{
        packet::Class,
        pool::{NONE, Pool},
        trim::{State, Verdict, Waiting},
    },
    Fate, Offered, PortMut,
};

/// What such a port has besides. The port's own counts of what waits are those of the data.
#[derive(Debug)]
pub(super) struct Trimming {
    policy: State,
    data: VecDeque<u32>,
    headers: VecDeque<u32>,
    header_bytes: u64,
}

impl Trimming {
    pub(super) fn new(policy: State) -> Self {
        Self { policy, data: VecDeque::new(), headers: VecDeque::new(), header_bytes: 0 }
    }

    /// Packets and bytes in the queue of headers.
    pub(super) fn headers(&self) -> (u32, u64) {
        (self.headers.len() as u32, self.header_bytes)
    }
}

impl PortMut<'_> {
    fn take_trimming(&mut self) -> Option<Box<Trimming>> {
        self.port.apart.as_mut()?.trimming.take()
    }

    fn put_trimming_back(&mut self, trimming: Box<Trimming>) {
        self.port.apart.get_or_insert_default().trimming = Some(trimming);
    }

    /// Begins every transmission that is due by `now`.
    pub(super) fn send_due<B: Default>(&mut self, now: Instant, pool: &mut Pool<B>) {
        let Some(mut trimming) = self.take_trimming() else { return };
        while self.port.free_at <= now.as_nanos() {
            let (data, headers) = (trimming.data.len(), trimming.headers.len());
            if data + headers == 0 {
                break;
            }
            let is_header = trimming.policy.next_is_header(data, headers);
            let queue = if is_header { &mut trimming.headers } else { &mut trimming.data };
            let Some(slot) = queue.pop_front() else { break };
            let size = u64::from(pool.flight(slot).head.size);
            if is_header {
                trimming.header_bytes -= size;
            } else {
                self.port.waiting_packets -= 1;
                self.port.waiting_bytes -= size;
            }
            // One that left before it is under way, or nothing would have waited.
            self.send(self.port.free_at, slot, pool);
        }
        self.put_trimming_back(trimming);
    }

    /// A packet's transmission begins at `starts`.
    fn send<B: Default>(&mut self, starts: u64, slot: u32, pool: &mut Pool<B>) -> Offered {
        let size = pool.flight(slot).head.size;
        self.transmit(starts, size);
        if self.port.last != NONE {
            pool.flight(self.port.last).next_leaves = self.port.free_at;
        }
        self.append(slot, pool)
    }

    /// A packet arrives that its failures do not take before the port; true if they take it behind.
    pub(super) fn offer_trimming<B: Default>(
        &mut self,
        now: Instant,
        slot: u32,
        fate: Fate,
        pool: &mut Pool<B>,
    ) -> (Offered, bool) {
        self.send_due(now, pool);
        let Some(mut trimming) = self.take_trimming() else { return (Offered::Gone, false) };
        let offered = if self.terms.rate == BitRate(0) {
            self.stats.dropped += 1;
            Offered::Gone
        } else if self.port.free_at <= now.as_nanos() {
            self.mark(slot, 0, 0, pool);
            self.send(now.as_nanos(), slot, pool)
        } else {
            self.queue(&mut trimming, slot, pool)
        };
        self.put_trimming_back(trimming);
        let lost = fate == Fate::LostOnTheWire && offered != Offered::Gone;
        self.stats.lost += u64::from(lost);
        (offered, lost)
    }

    /// A packet joins a queue, whole or not, or is dropped.
    fn queue<B: Default>(&mut self, trimming: &mut Trimming, slot: u32, pool: &mut Pool<B>) -> Offered {
        let head = pool.flight(slot).head;
        let (packets, bytes) = (self.port.waiting_packets, self.port.waiting_bytes);
        let last = trimming.data.back().copied();
        let waiting = Waiting {
            packets,
            header_bytes: trimming.header_bytes,
            has_room: self.terms.has_room(packets, bytes, head.size),
            last_is_trimmable: last.is_some_and(|last| pool.flight(last).head.class == Class::Trimmable),
        };
        match trimming.policy.on_arrival(head.class, head.size, waiting) {
            Verdict::Data => self.queue_data(trimming, slot, pool),
            Verdict::Header => self.queue_header(trimming, slot, pool),
            Verdict::Trim => {
                self.trim(trimming, slot, pool);
                self.queue_header(trimming, slot, pool);
            }
            Verdict::TrimLast => {
                self.trim_last(trimming, pool);
                self.queue_data(trimming, slot, pool);
            }
            Verdict::Drop => {
                self.stats.dropped += 1;
                return Offered::Gone;
            }
        }
        Offered::Queued
    }

    fn queue_data<B: Default>(&mut self, trimming: &mut Trimming, slot: u32, pool: &mut Pool<B>) {
        self.mark(slot, self.port.waiting_packets, self.port.waiting_bytes, pool);
        self.stats.met_bytes += self.port.waiting_bytes;
        self.count_waiting(pool.flight(slot).head.size);
        trimming.data.push_back(slot);
    }

    fn queue_header<B: Default>(&mut self, trimming: &mut Trimming, slot: u32, pool: &mut Pool<B>) {
        trimming.header_bytes += u64::from(pool.flight(slot).head.size);
        self.stats.deepest_header_bytes = self.stats.deepest_header_bytes.max(trimming.header_bytes);
        trimming.headers.push_back(slot);
    }

    /// Takes a packet's payload.
    fn trim<B: Default>(&mut self, trimming: &Trimming, slot: u32, pool: &mut Pool<B>) {
        let head = &mut pool.flight(slot).head;
        head.size = trimming.policy.trimmed(head.size);
        head.class = Class::Header;
        self.stats.trimmed += 1;
    }

    /// Takes the payload of the last packet of data, and drops it if its header has no room.
    fn trim_last<B: Default>(&mut self, trimming: &mut Trimming, pool: &mut Pool<B>) {
        let Some(last) = trimming.data.pop_back() else { return };
        self.port.waiting_packets -= 1;
        self.port.waiting_bytes -= u64::from(pool.flight(last).head.size);
        let size = trimming.policy.trimmed(pool.flight(last).head.size);
        if trimming.policy.has_room_for_header(trimming.header_bytes, size) {
            self.trim(trimming, last, pool);
            self.queue_header(trimming, last, pool);
        } else {
            self.drop_waiting(last);
        }
    }
}
