//! The PULLs that wait, of all hosts: a queue per host that its connections share, and a pace.
//!
//! A host sends a PULL at once if its last one was long enough ago, and else when it is; of those
//! that wait, one connection's after the other's. The pace is that of full packets on the
//! receiver's line, so that what is pulled fills it and does not queue before it.

mod answer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use netsim::fabric::{Fabric, HostId, Packet};
use units::{Duration, Instant};

pub(crate) use self::answer::Answer;
use super::Token;
use crate::segment::Segment;

/// How a connection's PULLs are to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// PULLs that were sent or wait so far.
    pub(crate) number: u32,
    /// From one PULL of the host to the next.
    pub(crate) spacing: Duration,
    /// Most that may wait.
    pub(crate) limit: u32,
    /// Paths over which they are spread, in turn.
    pub(crate) paths: u8,
}

/// A connection's PULLs that wait.
#[derive(Debug)]
struct Waiting {
    count: u32,
    /// The number of the last one that was sent.
    number: u32,
    terms: Terms,
    /// As it is to be sent, but for its number.
    packet: Packet<Segment>,
}

/// A host's.
#[derive(Debug)]
struct Queue {
    /// Connections with PULLs, whose turn is next first.
    turns: VecDeque<u32>,
    waiting: BTreeMap<u32, Waiting>,
    total: u64,
    /// When the next may be sent.
    next_at: Instant,
}

impl Default for Queue {
    fn default() -> Self {
        let (turns, waiting) = (VecDeque::new(), BTreeMap::new());
        Self { turns, waiting, total: 0, next_at: Instant::ORIGIN }
    }
}

impl Queue {
    /// The next one, which leaves at `now`.
    fn take(&mut self, now: Instant) -> Option<Packet<Segment>> {
        let conn = self.turns.pop_front()?;
        let waiting = self.waiting.get_mut(&conn)?;
        waiting.count -= 1;
        waiting.number = waiting.number.wrapping_add(1);
        self.total -= 1;
        self.next_at = now + waiting.terms.spacing;
        let body = waiting.packet.body.with(&Answer::Pull { number: waiting.number });
        let path = waiting.number % u32::from(waiting.terms.paths.max(1));
        let packet = Packet { label: waiting.packet.label | path, body, ..waiting.packet };
        if waiting.count > 0 {
            self.turns.push_back(conn);
        } else {
            self.waiting.remove(&conn);
        }
        Some(packet)
    }
}

/// All hosts'.
#[derive(Default, Debug)]
pub(crate) struct Pulls {
    hosts: BTreeMap<HostId, Queue>,
    /// When hosts whose PULLs wait send their next.
    due: BTreeSet<(Instant, HostId)>,
    most: u64,
}

impl Pulls {
    /// Most that have waited at one host.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// The host that sends `packet` has one more PULL for its connection. False if the connection's
    /// limit is reached, and there is none.
    pub(crate) fn add(
        &mut self,
        fabric: &mut Fabric<Segment>,
        packet: &Packet<Segment>,
        terms: Terms,
    ) -> bool {
        let (host, conn, now) = (packet.src, packet.body.conn, fabric.now());
        let queue = self.hosts.entry(host).or_default();
        let waiting = queue.waiting.entry(conn).or_insert_with(|| {
            queue.turns.push_back(conn);
            Waiting { count: 0, number: terms.number, terms, packet: *packet }
        });
        if waiting.count >= terms.limit {
            return false;
        }
        waiting.count += 1;
        queue.total += 1;
        self.most = self.most.max(queue.total);
        if queue.total == 1 {
            self.plan(fabric, now, host);
        }
        true
    }

    /// Sends a host's next PULL if its time has come, and plans the one behind it.
    fn plan(&mut self, fabric: &mut Fabric<Segment>, now: Instant, host: HostId) {
        let Some(queue) = self.hosts.get_mut(&host) else { return };
        if queue.next_at <= now
            && let Some(packet) = queue.take(now)
        {
            fabric.send(packet);
        }
        if queue.total > 0 {
            self.due.insert((queue.next_at, host));
            fabric.set_timer(queue.next_at, Token::Pulls.pack());
        }
    }

    /// Sends what is due.
    pub(crate) fn send_due(&mut self, fabric: &mut Fabric<Segment>) {
        let now = fabric.now();
        while let Some((at, host)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, host));
            self.plan(fabric, now, host);
        }
    }

    /// A connection needs no more: how many of its PULLs are gone.
    pub(crate) fn forget(&mut self, host: HostId, conn: u32) -> u32 {
        let Some(queue) = self.hosts.get_mut(&host) else { return 0 };
        let Some(waiting) = queue.waiting.remove(&conn) else { return 0 };
        queue.turns.retain(|other| *other != conn);
        queue.total -= u64::from(waiting.count);
        if queue.total == 0 {
            self.due.remove(&(queue.next_at, host));
        }
        waiting.count
    }
}

#[cfg(test)]
mod tests {
    use netsim::fabric::{Hosts, Line, Options, Topology};
    use units::BitRate;

    use super::*;
    use crate::segment::Kind;

    const SPACING: Duration = Duration::from_micros(12);

    /// Notes PULLs: when (us), which connection's, and the number.
    #[derive(Default)]
    struct Seen {
        pulls: Pulls,
        got: Vec<(u64, u32, u32)>,
    }

    impl Hosts<Segment> for Seen {
        fn receive(&mut self, fabric: &mut Fabric<Segment>, _host: HostId, packet: Packet<Segment>) {
            if let Answer::Pull { number } = packet.body.header() {
                self.got.push(((fabric.now() - Instant::ORIGIN).as_micros(), packet.body.conn, number));
            }
        }

        fn timer(&mut self, fabric: &mut Fabric<Segment>, token: u32) {
            assert_eq!(Token::unpack(token), Token::Pulls);
            self.pulls.send_due(fabric);
        }
    }

    /// Three hosts on wires that take no time for a packet of no bytes.
    fn fabric() -> Fabric<Segment> {
        let line = Line::new(BitRate::from_mbps(1_000), Duration::ZERO, 1_000);
        let mut topology = Topology::new(3, 1);
        for host in 0..3 {
            topology.attach(host, 0, line, line);
        }
        Fabric::new(&topology, &Options::default()).unwrap()
    }

    fn add(seen: &mut Seen, fabric: &mut Fabric<Segment>, host: u32, conn: u32, number: u32) -> bool {
        let body = Segment { conn, kind: Kind::Ack, ..Segment::default() };
        let packet = Packet { src: HostId(host), dst: HostId(2), body, ..Packet::default() };
        seen.pulls.add(fabric, &packet, Terms { number, spacing: SPACING, limit: 4, paths: 3 })
    }

    fn run(seen: &mut Seen, fabric: &mut Fabric<Segment>, us: u64) {
        fabric.run(seen, Instant::ORIGIN + Duration::from_micros(us)).unwrap();
    }

    #[test]
    fn a_host_sends_one_per_packet_time_whatever_connections_ask_for() {
        let (mut seen, mut fabric) = (Seen::default(), fabric());
        for number in 0..3 {
            assert!(add(&mut seen, &mut fabric, 0, 7, number));
        }
        for number in 10..12 {
            assert!(add(&mut seen, &mut fabric, 0, 9, number));
        }
        run(&mut seen, &mut fabric, 100);
        let expected = [(0, 7, 1), (12, 7, 2), (24, 9, 11), (36, 7, 3), (48, 9, 12)];
        assert_eq!(seen.got, expected);
        assert_eq!(seen.pulls.most(), 4, "the first left at once");
        // After a pause at once, after a short one when it is time.
        assert!(add(&mut seen, &mut fabric, 0, 7, 3));
        run(&mut seen, &mut fabric, 105);
        assert!(add(&mut seen, &mut fabric, 0, 7, 4));
        run(&mut seen, &mut fabric, 200);
        assert_eq!(seen.got[5..], [(100, 7, 4), (112, 7, 5)]);
        assert!(seen.pulls.due.is_empty() && seen.pulls.hosts[&HostId(0)].waiting.is_empty());
    }

    #[test]
    fn hosts_have_paces_of_their_own() {
        let (mut seen, mut fabric) = (Seen::default(), fabric());
        for number in 0..2 {
            add(&mut seen, &mut fabric, 0, 1, number);
            add(&mut seen, &mut fabric, 1, 2, number);
        }
        run(&mut seen, &mut fabric, 100);
        assert_eq!(seen.got, [(0, 1, 1), (0, 2, 1), (12, 1, 2), (12, 2, 2)]);
    }

    #[test]
    fn no_more_wait_than_the_limit_and_none_of_who_needs_none() {
        let (mut seen, mut fabric) = (Seen::default(), fabric());
        let taken = (0..9).filter(|number| add(&mut seen, &mut fabric, 0, 1, *number)).count();
        assert_eq!(taken, 5, "one has left, four wait");
        add(&mut seen, &mut fabric, 0, 2, 0);
        assert_eq!(seen.pulls.most(), 5);
        assert_eq!(seen.pulls.forget(HostId(0), 1), 4);
        assert_eq!(seen.pulls.forget(HostId(0), 1), 0);
        run(&mut seen, &mut fabric, 100);
        assert_eq!(seen.got, [(0, 1, 1), (12, 2, 1)]);
        // None is left to be sent at a time that was planned.
        add(&mut seen, &mut fabric, 0, 1, 1);
        add(&mut seen, &mut fabric, 0, 1, 2);
        assert_eq!(seen.pulls.forget(HostId(0), 1), 1);
        assert!(seen.pulls.due.is_empty());
        run(&mut seen, &mut fabric, 200);
        assert_eq!(seen.got.len(), 3);
    }
}
