//! The two links of a path, whatever carries packets to and from them.

use netsim::{Delivered, Link, LinkConfig, LinkStats, Seed};
use quinn_udp::EcnCodepoint;
use units::{Duration, Instant};

/// What one direction of a path has done.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct DirectionStats {
    /// Counters of the link. Sizes there include the headers of IP and UDP.
    pub link: LinkStats,
    /// Packets inside the link now.
    pub in_link: u64,
    /// Packets sent on to their receiver.
    pub sent: u64,
    /// Packets that the kernel refused to send.
    pub send_failed: u64,
    /// Packets whose client had been evicted when they came out of the link.
    pub orphaned: u64,
    /// The longest time between when a packet should have left the link and when it was sent on,
    /// since the path was made or [`Emulator::forget_lateness`](crate::Emulator::forget_lateness)
    /// was called. Packets of UDP come into the link when the kernel had them; those of a TUN device, which
    /// does not tell, when they are read.
    pub max_late: Duration,
    /// The sum of these times over all packets: divide by the link's `delivered` for the mean.
    pub total_late: Duration,
}

/// A packet inside a link.
#[derive(Clone)]
pub(crate) struct Packet {
    pub(crate) payload: Box<[u8]>,
    /// Of a UDP path's packet; a TUN path's carries it in its IP header.
    pub(crate) ecn: Option<EcnCodepoint>,
    /// Of a UDP path's packet.
    pub(crate) client: u64,
}

/// A link from client to server and one back.
pub(crate) struct Links {
    pub(crate) up: OneWay,
    pub(crate) down: OneWay,
}

impl Links {
    /// Links that start at `now`.
    pub(crate) fn new(up: &LinkConfig, down: &LinkConfig, seed: Seed, now: Instant) -> Self {
        let [up_seed, down_seed] = Self::seeds(seed);
        Self { up: OneWay::new(up, up_seed, now), down: OneWay::new(down, down_seed, now) }
    }

    /// Starts all randomness afresh, as if the links had been made with `seed`.
    pub(crate) fn reseed(&mut self, now: Instant, seed: Seed) {
        let [up_seed, down_seed] = Self::seeds(seed);
        self.up.link.reseed(now, up_seed);
        self.down.link.reseed(now, down_seed);
    }

    /// Starts the schedules afresh, as if the links began at `now`.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.up.link.restart(now);
        self.down.link.restart(now);
    }

    fn seeds(seed: Seed) -> [Seed; 2] {
        [seed.child("up", 0), seed.child("down", 0)]
    }

    /// Begins to look for the longest lateness anew.
    pub(crate) fn forget_lateness(&mut self) {
        self.up.counted.max_late = Duration::ZERO;
        self.down.counted.max_late = Duration::ZERO;
    }

    /// When a link has something to deliver next.
    pub(crate) fn next_delivery(&self) -> Option<Instant> {
        [&self.up, &self.down].into_iter().filter_map(|way| way.link.next_delivery()).min()
    }
}

/// A link with its counters.
pub(crate) struct OneWay {
    pub(crate) link: Link<Packet>,
    /// What whoever carries packets has counted; [`stats`](Self::stats) adds what the link has.
    pub(crate) counted: DirectionStats,
}

impl OneWay {
    fn new(config: &LinkConfig, seed: Seed, now: Instant) -> Self {
        Self { link: Link::new(config, seed, now), counted: DirectionStats::default() }
    }

    /// Takes the next packet out that has come to the link's end by `now`, and notes how late that
    /// is.
    pub(crate) fn deliver(&mut self, now: Instant) -> Option<Delivered<Packet>> {
        let delivered = self.link.deliver(now)?;
        let late = now - delivered.at;
        self.counted.max_late = self.counted.max_late.max(late);
        self.counted.total_late += late;
        Some(delivered)
    }

    pub(crate) fn stats(&self) -> DirectionStats {
        DirectionStats { link: self.link.stats(), in_link: self.link.in_link() as u64, ..self.counted }
    }
}
