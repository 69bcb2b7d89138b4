//! Moves the packets of a raw tunnel between a device and a connection, the same at both ends.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use mendpath::{PathState, PathStats};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval},
};
use tunnel::raw::{
    Coding, Incoming, IncomingConfig, IncomingCounters, Outgoing, OutgoingConfig, OutgoingCounters, Queue,
    QueueCounters, clamp_segments, wire::USUAL_OVERHEAD,
};

use super::{
    device::{Device, Outbox},
    seen::Seen,
};
use crate::{
    association::{PacketTunnel, Via},
    packet_row::PacketRow,
};

/// Packets of one kind before the others get their turn.
const ROUND: usize = 64;
/// Flows that wait at once and no longer leave out a path that loses packets.
const MANY_FLOWS: usize = 8;
/// Bytes from the device that wait for the connection: a round trip's worth of a fast one.
const MOST_QUEUED: usize = 1 << 20;
/// How often the paths are looked at, and silent flows forgotten.
const LOOK: Duration = Duration::from_millis(250);
/// How long what is sent beside packets waits where the connection had no room for it: what fills that
/// leaves by itself, and nobody says so.
const AGAIN: Duration = Duration::from_millis(5);
/// The largest packet of a device at either end.
pub(crate) const MTU: u16 = 1_500;

/// What one end lets pass.
pub(crate) trait Guard {
    /// Whether a packet from the device may go to the other end.
    fn may_leave(&mut self, packet: &[u8]) -> bool;

    /// What becomes of a packet from the other end.
    fn judge(&mut self, packet: &[u8]) -> Verdict;
}

/// What becomes of a packet from the other end.
pub(crate) enum Verdict {
    /// The device gets it.
    Pass,
    /// Nothing.
    Drop,
    /// The other end gets this instead.
    Answer(Vec<u8>),
}

/// Counts of both directions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sent: OutgoingCounters,
    pub(crate) received: IncomingCounters,
    /// Packets that were too large for a datagram.
    pub(crate) large: u64,
    /// Packets that found no room between the connection and here.
    pub(crate) crowded: u64,
    pub(crate) queue: QueueCounters,
}

impl Counts {
    /// For statistics.
    pub(crate) fn row(&self) -> PacketRow {
        let Self { sent, received, large, crowded, queue } = self;
        PacketRow {
            packets_sent: sent.packets,
            bytes_sent: sent.bytes,
            packets_received: received.packets,
            bytes_received: received.bytes,
            large: *large,
            crowded: *crowded,
            overdue: queue.overdue,
            overflowed: queue.overflowed,
            doubles: received.doubles,
            held: received.held,
            late: received.late,
            given_up: received.given_up,
            malformed: received.malformed,
            copies: sent.copies,
            combinations: sent.combinations,
            extra_bytes: sent.extra_bytes,
            extras_dropped: sent.extras_dropped,
            combinations_received: received.combinations,
            rebuilt: received.rebuilt,
            unkept: received.unkept,
            forgotten: sent.forgotten + received.forgotten,
            flows: sent.flows + received.flows,
            held_bytes: received.held_bytes,
            kept_bytes: sent.kept_bytes + received.kept_bytes,
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.large += other.large;
        self.crowded += other.crowded;
        self.queue += other.queue;
    }
}

/// Counts that others look at.
pub(crate) type SharedCounts = Arc<Mutex<Counts>>;

/// One tunnel at work.
pub(crate) struct Link<'a, G> {
    tunnel: PacketTunnel,
    outgoing: Outgoing,
    incoming: Incoming,
    device: &'a Device,
    guard: G,
    started: Instant,
    /// What the device has given.
    queue: Queue,
    /// Datagrams for which the connection has had no room, at most a few.
    waiting: VecDeque<Bytes>,
    /// Packets for the device.
    outbox: Outbox,
    /// Before that there is no room for what is sent beside packets.
    extras_after: units::Instant,
    /// Packets of the other end that the device did not get, and bytes of them.
    refused: (u64, u64),
    large: u64,
    seen: Seen,
    counts: SharedCounts,
}

impl<'a, G: Guard> Link<'a, G> {
    pub(crate) fn new(
        tunnel: PacketTunnel,
        coding: Coding,
        device: &'a Device,
        guard: G,
        counts: SharedCounts,
    ) -> Self {
        let prefix = tunnel.prefix().to_vec();
        let config = OutgoingConfig { prefix, coding, ..OutgoingConfig::default() };
        Self {
            outgoing: Outgoing::new(config),
            incoming: Incoming::new(IncomingConfig::default()),
            tunnel,
            device,
            guard,
            started: Instant::now(),
            queue: Queue::new(MOST_QUEUED),
            waiting: VecDeque::new(),
            outbox: Outbox::default(),
            extras_after: units::Instant::ORIGIN,
            refused: (0, 0),
            large: 0,
            seen: Seen::default(),
            counts,
        }
    }

    /// Carries `packets` from the device and what the other end sends, until either ends.
    pub(crate) async fn run(mut self, packets: &mut mpsc::Receiver<Vec<u8>>) {
        let connection = self.tunnel.connection().clone();
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (next, via) = (self.waiting.front().cloned(), self.via());
            let unblocked = async {
                match next {
                    Some(datagram) => PacketTunnel::send_wait(&connection, datagram, via).await,
                    None => std::future::pending().await,
                }
            };
            let deadline = self.deadline();
            let timer = async {
                match deadline {
                    Some(at) => {
                        tokio::time::sleep_until(self.started + (at - units::Instant::ORIGIN).into()).await
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                arrived = self.tunnel.receive() => {
                    let Some(arrived) = arrived else { return };
                    let more = std::iter::from_fn(|| self.tunnel.try_receive());
                    let arrived: Vec<_> = std::iter::once(arrived).chain(more.take(ROUND - 1)).collect();
                    self.hand_over(|incoming, now, out| {
                        arrived.iter().for_each(|datagram| incoming.handle(&datagram.packet, now, out));
                    });
                }
                packet = packets.recv() => {
                    let Some(packet) = packet else { return };
                    let now = self.now();
                    self.queue.push(packet, now);
                    for _ in 1..ROUND {
                        let Ok(packet) = packets.try_recv() else { break };
                        self.queue.push(packet, now);
                    }
                    self.send_queued();
                }
                () = unblocked => {
                    self.waiting.pop_front();
                    self.send_queued();
                }
                () = timer => {
                    self.hand_over(|incoming, now, out| incoming.on_timer(now, out));
                    self.outgoing.on_timer(self.now());
                    self.send_queued();
                }
                _ = look.tick() => self.look(),
            }
        }
    }

    fn now(&self) -> units::Instant {
        units::Instant::ORIGIN + self.started.elapsed().into()
    }

    /// When something is to be done that no packet asks for. What is sent beside packets has no say while it
    /// may not leave: it would be due all the time.
    fn deadline(&self) -> Option<units::Instant> {
        let due = if self.waiting.is_empty() { self.outgoing.extra_due() } else { None };
        let extra = due.map(|due| due.max(self.extras_after));
        [self.incoming.deadline(), self.outgoing.deadline(), extra].into_iter().flatten().min()
    }

    /// The largest packet that fits a datagram.
    fn largest(&self) -> usize {
        let datagram = self.tunnel.connection().max_datagram_size().unwrap_or(0);
        datagram.saturating_sub(self.tunnel.prefix().len() + USUAL_OVERHEAD)
    }

    /// A flow's TCP slows down for each loss, so a path that loses packets takes more than it gives,
    /// unless there are so many flows that they fill the paths all the same.
    fn via(&self) -> Via {
        if self.queue.flows() > MANY_FLOWS { Via::AllPaths } else { Via::SteadyPaths }
    }

    /// Sends as much as the connection takes.
    fn send_queued(&mut self) {
        loop {
            // Up to one more than there is room for: the connection tells when it has some for that.
            let mut room = self.waiting.is_empty().then(|| self.tunnel.room());
            while let Some(left) = room
                && let Some(packet) = self.queue.pop(self.now())
            {
                let datagram = self.leaves(packet);
                room = left.checked_sub(datagram.as_ref().map_or(0, Bytes::len));
                self.waiting.extend(datagram);
            }
            if self.waiting.is_empty() {
                // Nothing that is new waits.
                return self.send_extras();
            }
            let via = self.via();
            self.large += self.tunnel.send(&mut self.waiting, via);
            if !self.waiting.is_empty() {
                return;
            }
        }
    }

    /// Sends copies and combinations that are due, as long as the connection has room for the longest.
    fn send_extras(&mut self) {
        let now = self.now();
        let longest = self.tunnel.connection().max_datagram_size().unwrap_or(0);
        self.extras_after = loop {
            if self.tunnel.room() < longest {
                break now + AGAIN.into();
            }
            let Some(extra) = self.outgoing.next_extra(now) else { break now };
            let (is_copy, bytes) = (extra.is_copy, extra.datagram.len());
            if !self.tunnel.send_again(extra.datagram.into()) {
                self.outgoing.refused(is_copy, bytes);
            }
        };
    }

    /// A packet of the device, as a datagram if it may leave.
    fn leaves(&mut self, mut packet: Vec<u8>) -> Option<Bytes> {
        if !self.guard.may_leave(&packet) {
            return None;
        }
        let most = self.largest();
        clamp_segments(&mut packet, most);
        Some(self.outgoing.handle(&packet, most, self.now()).into())
    }

    /// Hands over to the device what `take` lets through.
    fn hand_over(&mut self, take: impl FnOnce(&mut Incoming, units::Instant, &mut dyn FnMut(&[u8]))) {
        let (now, most) = (self.now(), self.largest());
        let mut out = Passed {
            outbox: &mut self.outbox,
            guard: &mut self.guard,
            refused: &mut self.refused,
            answers: Vec::new(),
            most,
        };
        take(&mut self.incoming, now, &mut |packet| out.take(packet));
        let answers = out.answers;
        self.device.write_all(&mut self.outbox);
        for answer in answers {
            // Errors are worth no memory.
            if self.waiting.is_empty() {
                self.waiting.push_back(self.outgoing.handle(&answer, self.largest(), now).into());
                self.large += self.tunnel.send(&mut self.waiting, Via::AllPaths);
            }
        }
    }

    /// From time to time.
    fn look(&mut self) {
        let now = self.now();
        self.outgoing.expire(now);
        self.incoming.expire(now);
        let paths = self.tunnel.connection().path_stats();
        self.incoming.set_path_spread(spread(&paths).into());
        if let Some(network) = self.seen.network(&paths) {
            self.incoming.set_rtt(network.rtt);
            self.outgoing.set_network(network);
        }
        self.tell();
    }
}

impl<G> Link<'_, G> {
    fn tell(&self) {
        let mut received = self.incoming.counters();
        received.packets -= self.refused.0;
        received.bytes -= self.refused.1;
        let counts = Counts {
            sent: self.outgoing.counters(),
            received,
            large: self.large,
            crowded: self.tunnel.dropped(),
            queue: self.queue.counters(),
        };
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = counts;
    }
}

impl<G> Drop for Link<'_, G> {
    fn drop(&mut self) {
        self.tell();
        // Nothing waits any more; the rest is what there was.
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        (counts.sent.flows, counts.sent.kept_bytes) = (0, 0);
        (counts.received.flows, counts.received.held_bytes, counts.received.kept_bytes) = (0, 0, 0);
    }
}

/// Where packets of the other end go.
struct Passed<'a, G> {
    outbox: &'a mut Outbox,
    guard: &'a mut G,
    refused: &'a mut (u64, u64),
    answers: Vec<Vec<u8>>,
    /// The largest packet that fits a datagram of this end.
    most: usize,
}

impl<G: Guard> Passed<'_, G> {
    fn take(&mut self, packet: &[u8]) {
        match self.guard.judge(packet) {
            // What a SYN asks for leaves from here, and the other end knows what fits its own datagrams.
            Verdict::Pass => {
                clamp_segments(self.outbox.push(packet), self.most);
                return;
            }
            Verdict::Drop => {}
            Verdict::Answer(answer) => self.answers.push(answer),
        }
        self.refused.0 += 1;
        self.refused.1 += packet.len() as u64;
    }
}

/// How far the one-way delays of the paths in use lie apart, as far as round-trip times tell.
fn spread(paths: &[PathStats]) -> Duration {
    let active = paths.iter().filter(|path| path.state == PathState::Active);
    let rtts = active.map(|path| path.rtt);
    let (least, most) = (rtts.clone().min(), rtts.max());
    most.zip(least).map_or(Duration::ZERO, |(most, least)| (most - least) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct All;

    impl Guard for All {
        fn may_leave(&mut self, _: &[u8]) -> bool {
            true
        }

        fn judge(&mut self, packet: &[u8]) -> Verdict {
            if packet == FORBIDDEN { Verdict::Drop } else { Verdict::Pass }
        }
    }

    const FORBIDDEN: &[u8] = b"forbidden";

    #[tokio::test]
    async fn what_the_device_does_not_get_is_not_counted_as_received() {
        let (tunnel, _server) = PacketTunnel::for_test().await;
        let (device, _other) = Device::for_test();
        let counts = SharedCounts::default();
        let mut link = Link::new(tunnel, Coding::None, &device, All, counts.clone());
        for packet in [FORBIDDEN, &syn(1), FORBIDDEN] {
            let datagram = [&[0][..], packet].concat();
            link.hand_over(|incoming, now, out| incoming.handle(&datagram, now, out));
        }
        drop(link);
        let received = counts.lock().unwrap().received;
        assert_eq!((received.packets, received.bytes), (1, 40));
    }

    /// A SYN from a port, whose loss would cost TCP a second.
    fn syn(port: u16) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend(port.to_be_bytes());
        packet.extend([0, 80, 0, 0, 0, 7, 0, 0, 0, 0, 0x50, 2, 1, 0, 0, 0, 0, 0]);
        packet
    }

    /// The other end of a path may have found out sooner that larger packets pass it.
    #[tokio::test]
    async fn a_syn_asks_for_segments_that_fit_the_datagrams_of_both_ends() {
        let (tunnel, _server) = PacketTunnel::for_test().await;
        let (device, other) = Device::for_test();
        let mut link = Link::new(tunnel, Coding::None, &device, All, SharedCounts::default());
        let mut packet = syn(1);
        // Four bytes of options: segments as large as they may be.
        (packet[3], packet[32]) = (44, 0x60);
        packet.extend([2, 4, 0xff, 0xff]);
        let limit = link.largest();
        let datagram = [&[0][..], &packet[..]].concat();
        link.hand_over(|incoming, now, out| incoming.handle(&datagram, now, out));
        let mut came = [0; 100];
        assert_eq!(other.recv(&mut came).unwrap(), 44);
        assert_eq!(usize::from(u16::from_be_bytes([came[42], came[43]])), limit - 40);
    }

    /// A copy that is due while the connection is full must not wake the link again and again.
    #[tokio::test]
    async fn a_copy_that_may_not_leave_wakes_nobody() {
        let (tunnel, _server) = PacketTunnel::for_test().await;
        let (device, _other) = Device::for_test();
        let mut link = Link::new(tunnel, Coding::Slp, &device, All, SharedCounts::default());
        assert_eq!(link.deadline(), None);
        let left = link.leaves(syn(1)).unwrap();
        assert!(link.deadline().is_some(), "its copy is to follow");
        link.waiting.push_back(left);
        assert_eq!(link.deadline(), None, "something waits, and goes first");
        link.waiting.clear();
        assert!(link.deadline().is_some());
    }

    /// Else one after the other would be taken out and refused, as long as there is room for less than that.
    #[tokio::test]
    async fn a_copy_waits_until_there_is_room_for_all_of_it() {
        let (tunnel, _server) = PacketTunnel::for_test().await;
        let (device, _other) = Device::for_test();
        let mut link = Link::new(tunnel, Coding::Slp, &device, All, SharedCounts::default());
        assert!(link.leaves(syn(1)).is_some());
        // Its copy is due.
        link.started -= Duration::from_millis(50);
        // Nothing leaves meanwhile, as the connection's own task has no turn.
        let (mut room, mut fill, left) = (link.tunnel.room(), VecDeque::new(), 20);
        while room > left {
            let length = (room - left).min(1_100);
            fill.push_back(Bytes::from(vec![0; length]));
            room -= length;
        }
        assert_eq!(link.tunnel.send(&mut fill, Via::AllPaths), 0);
        link.send_queued();
        let counters = link.outgoing.counters();
        assert_eq!((link.tunnel.room(), counters.copies, counters.extras_dropped), (left, 0, 0));
        assert_eq!(link.deadline(), Some(link.extras_after), "it is looked again, and not at once");
        // A second later it would be of no use, and nobody looks for room for it.
        link.started -= Duration::from_secs(1);
        link.outgoing.on_timer(link.now());
        assert_eq!((link.deadline(), link.outgoing.counters().extras_dropped), (None, 1));
    }

    /// Nobody would wake the link where all that was taken out just fits.
    #[tokio::test]
    async fn what_waits_in_the_queue_has_something_blocked_before_it() {
        let (tunnel, _server) = PacketTunnel::for_test().await;
        let (device, _other) = Device::for_test();
        let mut link = Link::new(tunnel, Coding::None, &device, All, SharedCounts::default());
        // Nothing leaves meanwhile, as the connection's own task has no turn.
        let mut room = link.tunnel.room();
        while room > 0 {
            let length = room.min(1_100);
            let mut packet = syn(1);
            // Behind the prefix stand the context, the flow and a number below 64, a byte each.
            packet.resize(length - link.tunnel.prefix().len() - 3, 0);
            let bytes = (packet.len() as u16).to_be_bytes();
            packet[2..4].copy_from_slice(&bytes);
            let now = link.now();
            link.queue.push(packet, now);
            room -= length;
        }
        let now = link.now();
        link.queue.push(syn(1), now);
        link.send_queued();
        assert_eq!((link.tunnel.room(), link.waiting.len()), (0, 1));
        link.send_queued();
        assert_eq!(link.waiting.len(), 1, "and no more than that");
    }
}
