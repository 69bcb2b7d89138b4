//! Hosts connected by pairs of links, on a virtual clock.
//!
//! A small event loop for tests of whole protocols: a host is nothing but an address, its protocol
//! lives with the caller.
//!
//! ```
//! use mendpath_netsim::{LinkConfig, Network, Seed};
//! use units::{Duration, Instant};
//!
//! let mut net = Network::new(Seed(1));
//! let link: LinkConfig = "rate=8mbit,delay=5ms".parse().unwrap();
//! net.connect("client", "server", &link, &link);
//! net.send("client", "server", b"ping", 1_000);
//!
//! // The next deadline of the hosts, here 1 s, bounds the step; without an arrival the clock stands there.
//! let deadline = Instant::ORIGIN + Duration::from_secs(1);
//! let arrival = net.poll(deadline).unwrap();
//! assert_eq!((arrival.from, arrival.to, arrival.packet), ("client", "server", b"ping"));
//! assert_eq!(net.now(), Instant::ORIGIN + Duration::from_millis(6));
//! assert!(net.poll(deadline).is_none());
//! assert_eq!(net.now(), deadline);
//! ```

use std::collections::BTreeMap;

use units::Instant;

use crate::{Delivered, EventQueue, Link, LinkConfig, Offered, Seed, TraceHash};

/// Names a duplex path of a [`Network`], in order of [`connect`](Network::connect).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PathId(pub usize);

/// A direction of a duplex path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// From the first to the second address given to [`connect`](Network::connect).
    Forward,
    /// Back.
    Backward,
}

/// What became of a packet given to [`Network::send`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sent {
    /// It was offered to the link that leads there.
    Link(Offered),
    /// No link leads there: the packet is gone, which [`Network::unrouted`] counts.
    NoRoute,
}

/// A packet that reached its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival<A, T> {
    /// The sender's address.
    pub from: A,
    /// The receiver's address.
    pub to: A,
    /// The packet.
    pub packet: T,
    /// Size in bytes, as sent.
    pub size: u64,
    /// Whether a queue on the way asked for a CE mark.
    pub ce: bool,
}

/// One direction of a path with the addresses it connects.
struct Edge<A, T> {
    from: A,
    to: A,
    link: Link<T>,
    /// The earliest wake-up in the event queue, so that there is one event per link, not one per
    /// packet.
    wake: Option<Instant>,
    /// The link behind it, which it shares with others.
    behind: Option<usize>,
}

/// A link that several edges lead into. Its packets know from which they come, and whether that has
/// marked them.
struct Shared<T> {
    link: Link<(usize, bool, T)>,
    wake: Option<Instant>,
}

/// What an event wakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Element {
    Edge(usize),
    Shared(usize),
}

/// A deterministic network of duplex paths between addresses of type `A`, carrying packets of type
/// `T`.
///
/// Same seed, same calls: same arrivals and same [`trace_hash`](Self::trace_hash).
pub struct Network<A, T> {
    now: Instant,
    seed: Seed,
    /// Forward and backward link of path i at 2 i and 2 i + 1.
    edges: Vec<Edge<A, T>>,
    routes: BTreeMap<(A, A), usize>,
    shared: Vec<Shared<T>>,
    events: EventQueue<Element>,
    trace: TraceHash,
    unrouted: u64,
}

/// What a trace entry is about; the discriminants are part of the trace.
#[derive(Clone, Copy)]
enum Traced {
    Offered = 1,
    NoRoute = 2,
    Arrived = 3,
    Changed = 4,
}

impl<A: Ord + Copy, T: Clone> Network<A, T> {
    /// A network without paths at [`Instant::ORIGIN`].
    pub fn new(seed: Seed) -> Self {
        Self {
            now: Instant::ORIGIN,
            seed,
            edges: Vec::new(),
            shared: Vec::new(),
            routes: BTreeMap::new(),
            events: EventQueue::new(),
            trace: TraceHash::new(),
            unrouted: 0,
        }
    }

    /// Adds a path between `a` and `b`. Packets between these addresses take it from now on, also
    /// if an earlier path connects them. Scheduled changes of the links count from now.
    pub fn connect(&mut self, a: A, b: A, forward: &LinkConfig, backward: &LinkConfig) -> PathId {
        let id = PathId(self.edges.len() / 2);
        let seed = self.seed.child("path", id.0 as u64);
        for (from, to, config, name) in [(a, b, forward, "forward"), (b, a, backward, "backward")] {
            let link = Link::new(config, seed.child(name, 0), self.now);
            self.routes.insert((from, to), self.edges.len());
            self.edges.push(Edge { from, to, link, wake: None, behind: None });
        }
        id
    }

    /// Lets one direction of several paths run through one more link, a bottleneck that they share:
    /// what a path's own link delivers goes into it, and out of it to where the path leads.
    ///
    /// # Panics
    /// If a path is not of this network.
    pub fn share(&mut self, paths: &[PathId], direction: Direction, config: &LinkConfig) {
        let behind = self.shared.len();
        let seed = self.seed.child("shared", behind as u64);
        self.shared.push(Shared { link: Link::new(config, seed, self.now), wake: None });
        for path in paths {
            self.edges[edge_index(*path, direction)].behind = Some(behind);
        }
    }

    /// Takes one direction of a path out of the link that it shares.
    ///
    /// # Panics
    /// If the path is not of this network.
    pub fn separate(&mut self, path: PathId, direction: Direction) {
        self.edges[edge_index(path, direction)].behind = None;
    }

    /// Sends a packet at the present time.
    pub fn send(&mut self, from: A, to: A, packet: T, size: u64) -> Sent {
        let Some(index) = self.routes.get(&(from, to)).copied() else {
            self.unrouted += 1;
            self.record(Traced::NoRoute, u64::MAX, size);
            return Sent::NoRoute;
        };
        let fate = self.edges[index].link.offer(self.now, packet, size);
        self.record(Traced::Offered, index as u64, size);
        self.trace.record(fate as u64);
        self.schedule(index);
        Sent::Link(fate)
    }

    /// Advances the clock to the next arrival, or to `limit` if none comes by then.
    pub fn poll(&mut self, limit: Instant) -> Option<Arrival<A, T>> {
        while self.events.next_time().is_some_and(|at| at <= limit) {
            let Some((at, element)) = self.events.pop() else { break };
            self.now = self.now.max(at);
            let arrival = match element {
                Element::Edge(index) => self.poll_edge(at, index),
                Element::Shared(index) => self.poll_shared(at, index),
            };
            if arrival.is_some() {
                return arrival;
            }
        }
        if limit < Instant::MAX {
            self.now = self.now.max(limit);
        }
        None
    }

    /// What a path's own link delivers has arrived, or goes on into the link behind it.
    fn poll_edge(&mut self, at: Instant, index: usize) -> Option<Arrival<A, T>> {
        let edge = &mut self.edges[index];
        if edge.wake == Some(at) {
            edge.wake = None;
        }
        let (delivered, behind) = (edge.link.deliver(self.now), edge.behind);
        self.schedule(index);
        let delivered = delivered?;
        let Delivered { packet, size, ce, .. } = delivered;
        let Some(behind) = behind else { return Some(self.arrive(index, packet, size, ce)) };
        self.shared[behind].link.offer(self.now, (index, ce, packet), size);
        self.schedule_shared(behind);
        None
    }

    fn poll_shared(&mut self, at: Instant, index: usize) -> Option<Arrival<A, T>> {
        let shared = &mut self.shared[index];
        if shared.wake == Some(at) {
            shared.wake = None;
        }
        let delivered = shared.link.deliver(self.now);
        self.schedule_shared(index);
        let Delivered { packet: (edge, before, packet), size, ce, .. } = delivered?;
        Some(self.arrive(edge, packet, size, before || ce))
    }

    fn arrive(&mut self, index: usize, packet: T, size: u64, ce: bool) -> Arrival<A, T> {
        self.record(Traced::Arrived, index as u64, size);
        let Edge { from, to, .. } = self.edges[index];
        Arrival { from, to, packet, size, ce }
    }

    /// When [`poll`](Self::poll) has something to do next; at the earliest then a packet arrives.
    pub fn next_event(&self) -> Option<Instant> {
        self.events.next_time()
    }

    /// The present.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// One direction of a path, to look at.
    ///
    /// # Panics
    /// If the path is not of this network.
    pub fn link(&self, path: PathId, direction: Direction) -> &Link<T> {
        &self.edges[edge_index(path, direction)].link
    }

    /// Changes one direction of a path: cut, restore, set rate, and so on. `change` gets the
    /// present time.
    ///
    /// # Panics
    /// If the path is not of this network.
    pub fn change<R>(
        &mut self,
        path: PathId,
        direction: Direction,
        change: impl FnOnce(&mut Link<T>, Instant) -> R,
    ) -> R {
        let index = edge_index(path, direction);
        let result = change(&mut self.edges[index].link, self.now);
        self.record(Traced::Changed, index as u64, 0);
        self.schedule(index);
        result
    }

    /// Changes both directions of a path alike, see [`change`](Self::change).
    pub fn change_both(&mut self, path: PathId, mut change: impl FnMut(&mut Link<T>, Instant)) {
        self.change(path, Direction::Forward, &mut change);
        self.change(path, Direction::Backward, &mut change);
    }

    /// The paths, in order of their making.
    pub fn paths(&self) -> impl Iterator<Item = PathId> + use<A, T> {
        (0..self.edges.len() / 2).map(PathId)
    }

    /// Packets inside all links.
    pub fn in_network(&self) -> usize {
        let shared = self.shared.iter().map(|shared| shared.link.in_link());
        self.edges.iter().map(|edge| edge.link.in_link()).chain(shared).sum()
    }

    /// Packets that were sent to where no link leads.
    pub fn unrouted(&self) -> u64 {
        self.unrouted
    }

    /// Hash over every event so far with its time, and over what [`trace`](Self::trace) was given.
    pub fn trace_hash(&self) -> u64 {
        self.trace.get()
    }

    /// Adds a word of the caller's to the trace, such as a hash of what a host did.
    pub fn trace(&mut self, word: u64) {
        self.trace.record(word);
    }

    fn record(&mut self, what: Traced, edge: u64, size: u64) {
        for word in [self.now.as_nanos(), what as u64, edge, size] {
            self.trace.record(word);
        }
    }

    /// Makes sure that the link is woken in time. An event that has become too early does no harm.
    fn schedule(&mut self, index: usize) {
        let edge = &mut self.edges[index];
        if let Some(next) = sooner(edge.link.next_delivery(), &mut edge.wake, self.now) {
            self.events.push(next, Element::Edge(index));
        }
    }

    fn schedule_shared(&mut self, index: usize) {
        let shared = &mut self.shared[index];
        if let Some(next) = sooner(shared.link.next_delivery(), &mut shared.wake, self.now) {
            self.events.push(next, Element::Shared(index));
        }
    }
}

/// When a link is to be woken for its next `delivery`, which `wake` says from then on; `None` if it is woken
/// by then, or nothing is to come.
#[inline]
fn sooner(delivery: Option<Instant>, wake: &mut Option<Instant>, now: Instant) -> Option<Instant> {
    let next = delivery?.max(now);
    let is_sooner = next < Instant::MAX && wake.is_none_or(|wake| next < wake);
    is_sooner.then(|| *wake.insert(next))
}

fn edge_index(path: PathId, direction: Direction) -> usize {
    path.0 * 2 + usize::from(direction == Direction::Backward)
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;

    const END: Instant = Instant::from_nanos(60_000_000_000);

    fn config(text: &str) -> LinkConfig {
        text.parse().unwrap()
    }

    #[test]
    fn a_link_is_woken_once_for_the_earliest_of_its_deliveries() {
        let (at, mut wake) = (Instant::from_nanos, None);
        for (delivery, expected) in [
            (None, None),
            (Some(Instant::MAX), None),
            (Some(at(9)), Some(at(9))),
            (Some(at(9)), None),
            (Some(at(12)), None),
            // What is overdue is due now.
            (Some(at(1)), Some(at(5))),
            (Some(at(2)), None),
        ] {
            assert_eq!(sooner(delivery, &mut wake, at(5)), expected, "{delivery:?}");
        }
        assert_eq!(wake, Some(at(5)));
    }

    /// Two hosts that send back what they get over two unlike paths; returns arrivals and trace
    /// hash.
    fn ping_pong(seed: u64, extra_path: bool) -> (Vec<(Instant, u32)>, u64) {
        let mut net = Network::new(Seed(seed));
        net.connect(
            1u16,
            2,
            &config("rate=10mbit,delay=5ms,loss=1%"),
            &config("delay=5ms,jitter=2ms,reorder"),
        );
        net.connect(
            3,
            4,
            &config("rate=1mbit,delay=20ms,duplicate=2%,outage=1s-2s"),
            &config("loss=1%,burst=2"),
        );
        if extra_path {
            net.connect(5, 6, &config("loss=50%"), &config(""));
        }
        for n in 0..100 {
            net.send(1, 2, n, 1_000);
            net.send(3, 4, n + 100, 500);
        }
        let mut seen = Vec::new();
        while let Some(arrival) = net.poll(END) {
            seen.push((net.now(), arrival.packet));
            if seen.len() < 5_000 {
                net.send(arrival.to, arrival.from, arrival.packet, arrival.size);
            }
        }
        (seen, net.trace_hash())
    }

    #[test]
    fn same_seed_same_trace() {
        let (seen, hash) = ping_pong(1, false);
        assert!(seen.len() > 1_000, "{}", seen.len());
        assert!(seen.is_sorted_by_key(|(at, _)| *at));
        assert_eq!(ping_pong(1, false), (seen.clone(), hash));
        let (other_seen, other_hash) = ping_pong(2, false);
        assert_ne!(other_hash, hash);
        assert_ne!(other_seen, seen);
    }

    #[test]
    fn another_element_changes_no_draw() {
        assert_eq!(ping_pong(1, true), ping_pong(1, false));
    }

    #[test]
    fn the_trace_is_the_same_on_every_platform() {
        let mut net = Network::new(Seed(42));
        net.connect(1u8, 2, &config("rate=10mbit,delay=5ms,jitter=1ms,loss=5%"), &config(""));
        (0..100).for_each(|n| _ = net.send(1, 2, n, 100 + n));
        while net.poll(END).is_some() {}
        assert_eq!(net.trace_hash(), 17_449_457_317_350_645_814);
    }

    #[test]
    fn a_shared_link_carries_no_more_than_its_rate_and_separates_what_it_carries() {
        let mut net = Network::new(Seed(1));
        let paths = [(1u8, 2), (3, 4)].map(|(a, b)| net.connect(a, b, &config("delay=5ms"), &config("")));
        net.share(&paths, Direction::Forward, &config("rate=8mbit,queue=20000"));
        for n in 0..20 {
            net.send(1, 2, n, 1_000);
            net.send(3, 4, n + 100, 1_000);
        }
        assert_eq!(net.in_network(), 40);
        let mut seen = Vec::new();
        while let Some(arrival) = net.poll(END) {
            assert_eq!(
                (arrival.from, arrival.packet < 100),
                if arrival.to == 2 { (1, true) } else { (3, false) }
            );
            seen.push(net.now());
        }
        // One packet is being sent and twenty wait; a millisecond each.
        assert_eq!(seen.len(), 21);
        assert_eq!(seen.last(), Some(&(Instant::ORIGIN + Duration::from_millis(5 + 21))));
        net.separate(paths[1], Direction::Forward);
        let sent = net.now();
        net.send(3, 4, 0, 1_000);
        assert!(net.poll(END + Duration::from_secs(1)).is_some());
        assert_eq!(net.now(), sent + Duration::from_millis(5));
    }

    #[test]
    fn a_mark_stays_on_the_way_through_a_shared_link() {
        let mut net = Network::new(Seed(1));
        let path = net.connect(1u8, 2, &config("rate=8mbit,ecn=1p"), &config(""));
        net.share(&[path], Direction::Forward, &config("delay=5ms"));
        (0..4).for_each(|n| _ = net.send(1, 2, n, 1_000));
        // One is being sent; the last finds two waiting.
        let marks: Vec<bool> = std::iter::from_fn(|| net.poll(END)).map(|arrival| arrival.ce).collect();
        assert_eq!(marks, [false, false, false, true]);
    }

    #[test]
    fn unknown_destinations_are_counted() {
        let mut net = Network::new(Seed(1));
        net.connect('a', 'b', &config(""), &config(""));
        assert_eq!(net.send('a', 'c', (), 1), Sent::NoRoute);
        assert_eq!(net.send('a', 'b', (), 1), Sent::Link(Offered::Accepted));
        assert_eq!((net.unrouted(), net.in_network()), (1, 1));
    }

    #[test]
    fn a_held_path_goes_on_after_it_is_restored_by_hand() {
        let mut net = Network::new(Seed(1));
        let path = net.connect('a', 'b', &config("delay=1ms"), &config("delay=1ms"));
        net.change_both(path, |link, now| link.cut(now, crate::link::OutageKind::Hold));
        net.send('a', 'b', 7, 100);
        let at = Instant::ORIGIN + Duration::from_secs(3);
        assert!(net.poll(at).is_none());
        assert_eq!((net.now(), net.next_event()), (at, None));
        net.change_both(path, |link, now| link.restore(now));
        assert_eq!(net.poll(END).map(|arrival| arrival.packet), Some(7));
        assert_eq!(net.now(), at + Duration::from_millis(1));
        assert_eq!(net.link(path, Direction::Forward).stats().delivered, 1);
    }

    #[test]
    fn a_newer_path_takes_over_the_route() {
        let mut net = Network::new(Seed(1));
        let old = net.connect('a', 'b', &config("delay=9ms"), &config(""));
        net.send('a', 'b', 1, 100);
        let new = net.connect('a', 'b', &config("delay=1ms"), &config(""));
        net.send('a', 'b', 2, 100);
        let order: Vec<i32> = std::iter::from_fn(|| net.poll(END)).map(|arrival| arrival.packet).collect();
        assert_eq!(order, [2, 1]);
        for path in [old, new] {
            assert_eq!(net.link(path, Direction::Forward).stats().delivered, 1);
        }
        assert_eq!(net.paths().collect::<Vec<_>>(), [old, new]);
    }
}
