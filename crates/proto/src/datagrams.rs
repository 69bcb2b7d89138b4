//! Application datagrams (RFC 9221): bounded queues in both directions.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::wire::DatagramHeader;

/// What keeping a received datagram costs beyond its bytes: its place in the queue and its
/// allocation.
const OVERHEAD: usize = 64;

/// Datagrams waiting to be sent, and received ones waiting to be read.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    outgoing: VecDeque<Bytes>,
    outgoing_bytes: usize,
    outgoing_limit: usize,
    incoming: VecDeque<Bytes>,
    incoming_bytes: usize,
    incoming_limit: usize,
    /// What the last datagram that was refused for want of room takes; the application is told when
    /// it is there.
    blocked: Option<usize>,
    dropped: u64,
}

impl Datagrams {
    pub(crate) fn new(outgoing_limit: usize, incoming_limit: usize) -> Self {
        Self { outgoing_limit, incoming_limit, ..Self::default() }
    }

    /// Changes how many bytes of received datagrams are kept from now on.
    pub(crate) fn set_incoming_limit(&mut self, bytes: usize) {
        self.incoming_limit = bytes;
    }

    /// Queues a datagram; false if there is no room.
    pub(crate) fn send(&mut self, data: Bytes) -> bool {
        // An empty datagram still takes a place, or a queue of them would know no bound.
        let takes = data.len().max(1);
        if !self.has_room_for(takes) {
            self.blocked = Some(takes);
            return false;
        }
        self.outgoing_bytes += takes;
        self.outgoing.push_back(data);
        true
    }

    /// An empty queue takes any datagram, since a larger limit than it has will never come.
    fn has_room_for(&self, bytes: usize) -> bool {
        self.outgoing.is_empty() || self.outgoing_bytes + bytes <= self.outgoing_limit
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Bytes waiting, for the scheduler.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.outgoing_bytes as u64
    }

    /// Appends the datagrams that fit below `limit`; those that fit no packet at all are dropped.
    /// Returns whether any was written.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, limit: usize, packet_is_empty: bool) -> bool {
        let start = out.len();
        while let Some(next) = self.outgoing.front() {
            let len = DatagramHeader::len(next.len(), true) + next.len();
            let fits = out.len() + len <= limit;
            if !fits && (out.len() > start || !packet_is_empty) {
                break;
            }
            let Some(next) = self.outgoing.pop_front() else { break };
            self.outgoing_bytes -= next.len().max(1);
            if fits {
                DatagramHeader { data_len: Some(next.len()) }.encode(out);
                out.extend_from_slice(&next);
            } else {
                self.dropped += 1;
            }
        }
        out.len() > start
    }

    /// Whether to tell the application that there is room again: half of the queue, so that it is not
    /// woken for each packet, and enough for what was refused, or it would ask and be refused without
    /// end.
    pub(crate) fn take_unblocked(&mut self) -> bool {
        let half = self.outgoing_bytes * 2 <= self.outgoing_limit;
        let unblocked = half && self.blocked.is_some_and(|bytes| self.has_room_for(bytes));
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

    #[test]
    fn queues_are_bounded_even_for_empty_datagrams() {
        let mut datagrams = Datagrams::new(10, 10 * (OVERHEAD + 1));
        assert_eq!((0..20).map(|_| usize::from(datagrams.send(Bytes::new()))).sum::<usize>(), 10);
        for n in 0..20 {
            datagrams.on_received(&[n]);
        }
        assert_eq!(datagrams.receive().as_deref(), Some(&[10][..]), "the oldest were dropped");
        assert_eq!(datagrams.dropped(), 10);
        assert!(!datagrams.on_received(&[0; 600]));
        assert!(!datagrams.take_unblocked());
        let mut out = Vec::new();
        assert!(datagrams.write(&mut out, 1_200, true));
        assert!(datagrams.take_unblocked());
    }

    #[test]
    fn who_was_refused_is_told_once_there_is_room_for_that_and_not_before() {
        let mut datagrams = Datagrams::new(2_000, 0);
        assert!(datagrams.send(Bytes::from(vec![0; 900])));
        assert!(!datagrams.send(Bytes::from(vec![0; 1_200])));
        assert!(!datagrams.take_unblocked(), "half of the queue is free, and that is too little");
        let mut out = Vec::new();
        assert!(datagrams.write(&mut out, 1_200, true));
        assert!(datagrams.take_unblocked());
        assert!(!datagrams.take_unblocked(), "once");
        assert!(datagrams.send(Bytes::from(vec![0; 1_200])));
    }

    #[test]
    fn a_datagram_larger_than_the_queue_waits_until_that_is_empty() {
        let mut datagrams = Datagrams::new(100, 0);
        assert!(datagrams.send(Bytes::from(vec![0; 50])));
        assert!(!datagrams.send(Bytes::from(vec![0; 200])));
        assert!(!datagrams.take_unblocked());
        assert!(datagrams.write(&mut Vec::new(), 1_200, true));
        assert!(datagrams.take_unblocked());
        assert!(datagrams.send(Bytes::from(vec![0; 200])));
        assert!(!datagrams.send(Bytes::from(vec![0; 1])), "one, and no more");
    }

    #[test]
    fn what_fits_no_packet_is_dropped_not_stuck() {
        let mut datagrams = Datagrams::new(10_000, 10_000);
        assert!(datagrams.send(Bytes::from(vec![0; 2_000])));
        assert!(datagrams.send(Bytes::from(vec![1; 100])));
        let mut out = Vec::new();
        assert!(datagrams.write(&mut out, 1_200, true));
        assert_eq!(out.len(), 103);
        assert_eq!(datagrams.dropped(), 1);
    }
}
