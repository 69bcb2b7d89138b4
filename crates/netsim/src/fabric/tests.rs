mod trimming;

use units::{BitRate, Duration, Instant, LossRate};

use super::{
    topology::{Dumbbell, FatTree, LeafSpine, ParallelPaths, TenRouters, Wiring},
    workload::SizeTable,
    *,
};
use crate::{Loss, Seed};

/// Records what arrives, and answers timers by sending one packet from host 0 to the last one.
#[derive(Default)]
struct Sink {
    got: Vec<Arrival>,
    timers: Vec<(u64, u32)>,
}

impl Hosts<u32> for Sink {
    fn receive(&mut self, fabric: &mut Fabric<u32>, host: HostId, packet: Packet<u32>) {
        self.got.push((fabric.now().as_nanos(), host.0, packet.body, packet.ecn));
    }

    fn timer(&mut self, fabric: &mut Fabric<u32>, token: u32) {
        self.timers.push((fabric.now().as_nanos(), token));
    }
}

fn packet(src: u32, dst: u32, body: u32) -> Packet<u32> {
    Packet { src: HostId(src), dst: HostId(dst), label: body, size: 1_250, body, ..Packet::default() }
}

/// Two hosts at 10 Mbit/s: 1 ms per packet and link, 5 ms of delay per link.
fn two_hosts(queue: QueueLimit, mark: Option<Mark>, faults: Vec<Fault>) -> Fabric<u32> {
    let wide = Line::new(BitRate(0), Duration::from_millis(5), 0);
    let line = Line { rate: BitRate::from_mbps(10), queue, mark, ..wide };
    let up = Line::new(BitRate::from_mbps(10), Duration::from_millis(5), 1_000);
    let mut topology = Topology::new(2, 1);
    topology.attach(0, 0, Line { rate: BitRate::from_mbps(1_000), ..up }, up);
    topology.attach(1, 0, up, line);
    Fabric::new(&topology, &Options { faults, ..Options::default() }).unwrap()
}

/// When a packet came, where, its number and its mark.
type Arrival = (u64, u32, u32, Ecn);

fn arrivals(fabric: &mut Fabric<u32>, count: u32) -> Vec<Arrival> {
    for n in 0..count {
        let sent = Packet { ecn: Ecn::Capable, ..packet(0, 1, n) };
        fabric.send(sent);
    }
    let mut sink = Sink::default();
    fabric.run(&mut sink, Instant::ORIGIN + Duration::from_secs(1)).unwrap();
    sink.got
}

#[test]
fn a_packet_takes_its_serialisation_and_delays() {
    let mut fabric = two_hosts(QueueLimit::Packets(10), None, Vec::new());
    let got = arrivals(&mut fabric, 3);
    // 10 us up at 1 Gbit/s + 5 ms, then 1 ms each at 10 Mbit/s + 5 ms.
    assert_eq!(got.iter().map(|got| got.0).collect::<Vec<_>>(), [11_010_000, 12_010_000, 13_010_000]);
    let stats = fabric.stats();
    assert_eq!((stats.hops, stats.sent, stats.delivered, stats.most_events), (6, 3, 3, 2));
    assert_eq!(fabric.packets(), 0);
}

#[test]
fn the_tail_is_dropped_and_marks_start_at_the_threshold() {
    // Five arrive within 40 us: one is sent, two wait, two find the queue full.
    let mut fabric = two_hosts(QueueLimit::Packets(2), Some(Mark::Packets(1)), Vec::new());
    let got = arrivals(&mut fabric, 5);
    let kept: Vec<_> = got.iter().map(|got| (got.2, got.3)).collect();
    assert_eq!(kept, [(0, Ecn::Capable), (1, Ecn::Capable), (2, Ecn::Marked)]);
    let stats = fabric.port_stats(LinkId(1).backward()).unwrap();
    assert_eq!((stats.sent, stats.dropped, stats.marked, stats.deepest_packets), (3, 2, 1, 2));
    assert_eq!(fabric.stats().dropped, 2);

    let mut fabric = two_hosts(QueueLimit::Bytes(2_600), Some(Mark::Bytes(1_250)), Vec::new());
    assert_eq!(arrivals(&mut fabric, 5).len(), 3);
    assert_eq!(fabric.port_stats(LinkId(1).backward()).unwrap().deepest_bytes, 2_500);
}

#[test]
fn failures_take_packets_where_they_say() {
    let nth = |before_rate| Failure::Loss { loss: Loss::nth([0]), data_only: true, before_rate };
    let down = |failure| Fault { link: LinkId(1), direction: Direction::Backward, failure };
    // Lost on the wire: the others wait as if it were there. Lost before: they do not.
    let times = |fault| arrivals(&mut two_hosts(QueueLimit::Packets(9), None, vec![fault]), 2)[0].0;
    assert_eq!(times(down(nth(false))), 12_010_000);
    assert_eq!(times(down(nth(true))), 11_020_000);
    let count = |fault| arrivals(&mut two_hosts(QueueLimit::Packets(9), None, vec![fault]), 9).len();
    assert_eq!(count(down(Failure::BlackHole)), 0);
    // What is lost on the wire keeps its slot until it would have arrived, and no longer.
    let mut fabric = two_hosts(QueueLimit::Packets(9), None, vec![down(Failure::BlackHole)]);
    assert_eq!(arrivals(&mut fabric, 3).len(), 0);
    assert_eq!((fabric.packets(), fabric.stats().lost), (0, 3));
    let outage =
        |from, until| Failure::Outage { from: Instant::from_nanos(from), until: Instant::from_nanos(until) };
    assert_eq!(count(down(outage(0, 5_030_000))), 7); // the first two reach the switch before 5.03 ms
    assert_eq!(
        count(Fault { link: LinkId(1), direction: Direction::Forward, failure: Failure::BlackHole }),
        9
    );
}

#[test]
fn limits_hold() {
    let limits = Limits { packets: 3, timers: 2 };
    let topology = Dumbbell::new(1, BitRate::from_mbps(10), Duration::from_millis(1), 100).build();
    let mut fabric = Fabric::new(&topology, &Options { limits, ..Options::default() }).unwrap();
    let sent = (0..5).filter(|n| fabric.send(packet(0, 1, *n))).count();
    assert_eq!((sent, fabric.stats().no_room), (3, 2));
    let mut sink = Sink::default();
    for token in 0..2 {
        fabric.set_timer(Instant::from_nanos(7), token);
    }
    fabric.set_timer(Instant::MAX, 9);
    fabric.run(&mut sink, Instant::from_nanos(8)).unwrap();
    assert_eq!(sink.timers, [(7, 0), (7, 1)]);
    for token in 0..3 {
        fabric.set_timer(Instant::from_nanos(20), token);
    }
    let error = fabric.run(&mut sink, Instant::from_nanos(30)).unwrap_err();
    assert!(matches!(error, RunError::TooManyTimers { limit: 2, .. }));
}

/// How many distinct ports of level `level` packets with different labels from host 0 to `dst`
/// take.
fn spread(topology: &Topology, balancing: Balancing, dst: u32, level: u8) -> (usize, u64) {
    let options = Options { balancing, seed: Seed(5), ..Options::default() };
    let mut fabric: Fabric<u32> = Fabric::new(topology, &options).unwrap();
    let mut sink = Sink::default();
    for label in 0..400 {
        fabric.send(packet(0, dst, label));
    }
    fabric.run(&mut sink, Instant::ORIGIN + Duration::from_secs(10)).unwrap();
    assert_eq!(sink.got.len(), 400);
    let used = |link: &LinkId| fabric.port_stats(link.forward()).unwrap().sent > 0;
    (topology.links_at(level).filter(used).count(), fabric.stats().hops / 400)
}

#[test]
fn topologies_have_the_paths_that_their_papers_say() {
    let racks = ParallelPaths::fuso().build();
    assert_eq!(spread(&racks, Balancing::FlowHash, 5, 1), (3, 3));
    let fat = FatTree::fuso().build();
    assert_eq!((fat.hosts(), fat.switches(), fat.links()), (64, 20, 96));
    assert_eq!(spread(&fat, Balancing::FlowHash, 63, 2), (4, 6)); // four paths between pods
    assert_eq!(spread(&fat, Balancing::FlowHash, 9, 1).1, 4); // within a pod: over an aggregation switch
    for (wiring, core, hops) in [(Wiring::Mesh4x4, 16, 5), (Wiring::Layers242, 16, 6)] {
        let routers = TenRouters::cofuso(wiring).build();
        assert_eq!(TenRouters::core_links(&routers).len(), core);
        assert_eq!(spread(&routers, Balancing::FlowHash, 19, topology::ten_routers::CORE), (core, hops));
    }
    let rates = (BitRate::from_mbps(1_000), BitRate::from_mbps(1_000));
    let leaves = LeafSpine::new(4, 4, 16, rates, 1_000).build();
    assert_eq!(spread(&leaves, Balancing::FlowHash, 63, 1).1, 4);
    assert_eq!(spread(&leaves, Balancing::Spray, 63, 1).1, 4);
}

#[test]
fn balancing_schemes_differ_as_they_should() {
    let topology = ParallelPaths::fuso().build();
    let one_flow = |balancing| {
        let mut fabric: Fabric<u32> =
            Fabric::new(&topology, &Options { balancing, ..Options::default() }).unwrap();
        for n in 0..300 {
            fabric.send(Packet { label: 7, ..packet(0, 5, n) });
        }
        fabric.run(&mut Sink::default(), Instant::ORIGIN + Duration::from_secs(1)).unwrap();
        (0..3).map(|n| fabric.port_stats(ParallelPaths::path(n).forward()).unwrap().sent).collect::<Vec<_>>()
    };
    assert_eq!(one_flow(Balancing::FlowHash).iter().filter(|sent| **sent > 0).count(), 1);
    assert!(one_flow(Balancing::Spray).iter().all(|sent| (70..130).contains(sent)));

    struct Shortest;
    impl Balancer for Shortest {
        fn choose(&mut self, choice: &balance::Choice<'_>) -> usize {
            (0..choice.waiting.len()).min_by_key(|port| choice.waiting[*port]).unwrap_or(0)
        }
    }
    let custom = one_flow(Balancing::Custom(|_, _| Box::new(Shortest)));
    assert_eq!(custom.iter().sum::<u64>(), 300);
}

#[test]
fn unsound_topologies_are_refused() {
    let line = Line::new(BitRate::from_mbps(1), Duration::ZERO, 1);
    let refused = |topology: &Topology| Fabric::<u32>::new(topology, &Options::default()).unwrap_err();
    assert_eq!(refused(&Topology::new(1, 1)), TopologyError::HostLinks { host: 0, links: 0 });
    let mut topology = Topology::new(1, 1);
    topology.attach(0, 3, line, line);
    assert_eq!(refused(&topology), TopologyError::UnknownSwitch { link: 0, switch: 3, switches: 1 });
    let mut topology = Topology::new(1, 1);
    topology.attach(4, 0, line, line);
    assert_eq!(refused(&topology), TopologyError::UnknownHost { link: 0, host: 4, hosts: 1 });
    let mut topology = Topology::new(2, 0);
    topology.link(Node::Host(HostId(0)), Node::Host(HostId(1)), line, 0);
    assert_eq!(refused(&topology), TopologyError::NoSwitch { link: 0 });
    let faults = vec![Fault::both(LinkId(9), Failure::BlackHole)];
    let dumbbell = Dumbbell::new(1, BitRate::from_mbps(1), Duration::from_millis(1), 5).build();
    let error = Fabric::<u32>::new(&dumbbell, &Options { faults, ..Options::default() }).unwrap_err();
    assert_eq!(error, TopologyError::UnknownLink { link: 9, links: 3 });
}

#[test]
fn lossy_links_follow_levels_and_rates() {
    let topology = FatTree::fuso().build();
    let rates = SizeTable::named("fuso_lossy_link_rate_textfit").unwrap();
    let draw = |seed| failure::lossy_links(&topology, 5, &[0.22, 0.24, 0.54], &rates, Seed(seed));
    let mut upper = 0;
    for seed in 0..200 {
        let faults = draw(seed);
        assert_eq!(faults.len(), 5);
        let mut links: Vec<_> = faults.iter().map(|fault| fault.link).collect();
        upper += links.iter().filter(|link| topology.links_at(2).any(|l| l == **link)).count();
        links.sort();
        links.dedup();
        assert_eq!(links.len(), 5);
        for fault in &faults {
            let Failure::Loss { loss, .. } = &fault.failure else { panic!("{fault:?}") };
            assert!((0.01..=0.6).contains(&loss.stationary().get()));
        }
    }
    assert!((490..=590).contains(&upper), "{upper}"); // 54 % of 1,000
    assert_eq!(draw(3), draw(3));
    let all = failure::lossy_links(&topology, 1_000, &[0.5, 0.5, 0.0], &rates, Seed(1));
    assert_eq!(all.len(), 80); // levels without share are never touched
}

#[test]
fn equal_runs_have_equal_hashes() {
    let run = |seed| {
        let topology = FatTree::fuso().build();
        let rate = LossRate::new(0.1).unwrap();
        let faults = vec![Fault::both(LinkId(70), Failure::random(rate))];
        let options = Options { seed: Seed(seed), balancing: Balancing::Spray, faults, ..Options::default() };
        let mut fabric: Fabric<u32> = Fabric::new(&topology, &options).unwrap();
        for n in 0..64 {
            for to in 0..64 {
                if n != to {
                    fabric.send(packet(n, to, n));
                }
            }
        }
        fabric.run(&mut Sink::default(), Instant::ORIGIN + Duration::from_secs(1)).unwrap();
        (fabric.trace_hash(), fabric.stats())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}

#[test]
fn a_tap_sees_what_the_port_accepts() {
    let mut fabric = two_hosts(QueueLimit::Packets(2), None, Vec::new());
    let (sender, seen) = std::sync::mpsc::channel();
    fabric.add_tap(LinkId(1).backward(), Box::new(move |at, packet| sender.send((at, packet.body)).unwrap()));
    arrivals(&mut fabric, 5);
    assert_eq!(seen.try_iter().map(|(_, body)| body).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn a_watcher_sees_what_is_sent_and_what_does_not_arrive() {
    let failure = Failure::Loss { loss: Loss::nth([1]), data_only: true, before_rate: false };
    let fault = Fault { link: LinkId(1), direction: Direction::Backward, failure };
    let mut fabric = two_hosts(QueueLimit::Packets(2), None, vec![fault]);
    let (sender, seen) = std::sync::mpsc::channel();
    fabric.watch(Box::new(move |_, sight, packet| sender.send((sight, packet.body)).unwrap()));
    let arrived = arrivals(&mut fabric, 5).len();
    let seen: Vec<_> = seen.try_iter().collect();
    let port = LinkId(1).backward();
    let of = |wanted| -> Vec<u32> {
        seen.iter().filter(|(sight, _)| *sight == wanted).map(|(_, body)| *body).collect()
    };
    assert_eq!(of(PacketEvent::Sent), [0, 1, 2, 3, 4]);
    assert_eq!(of(PacketEvent::Lost(port)), [1]);
    assert_eq!(of(PacketEvent::Dropped(port)), [3, 4]);
    assert_eq!((arrived, seen.len()), (2, 8));
}

/// 300 packets at once, through a port that CoDel manages: what arrives, and marks.
fn through_codel(codel: Codel) -> (Fabric<u32>, Vec<Arrival>) {
    let line = Line::new(BitRate::from_mbps(10), Duration::from_millis(5), 1_000);
    let mut topology = Topology::new(2, 1);
    topology.attach(0, 0, Line { rate: BitRate::from_mbps(1_000), ..line }, line);
    topology.attach(1, 0, line, line.with_codel(codel));
    let mut fabric = Fabric::new(&topology, &Options::default()).unwrap();
    let got = arrivals(&mut fabric, 300);
    (fabric, got)
}

/// Packet n comes at 5.01 + 0.01 n ms and starts at 5.01 + n: number 6 is the first that waited 5 ms,
/// at 11.01, and number 106 starts an interval later. It is dropped, 107 takes its place. The next
/// drops are due at 211.01, where number 207 would start, and 100 / sqrt(2) later, at 281.7: number
/// 279 would start at 282.01. The fourth would be due at 339.4, when all is sent.
#[test]
fn codel_drops_what_would_start_when_the_queue_was_too_long_for_an_interval() {
    let (fabric, got) = through_codel(Codel::default());
    let arrived: Vec<u32> = got.iter().map(|got| got.2).collect();
    let missing: Vec<u32> = (0..300).filter(|n| !arrived.contains(n)).collect();
    assert_eq!(missing, [106, 207, 279]);
    assert_eq!(got.last().unwrap().0, 307_010_000, "297 packets of 1 ms each, and two wires");
    let port = fabric.port_stats(LinkId(1).backward()).unwrap();
    assert_eq!((port.sent, port.dropped, port.marked), (297, 3, 0));
    assert_eq!((fabric.stats().dropped, fabric.packets()), (3, 0));
}

/// Nothing moves up, so the second and third come at numbers 206 and 277.
#[test]
fn codel_marks_what_can_be_marked_instead() {
    let (fabric, got) = through_codel(Codel { marks: true, ..Codel::default() });
    let marked: Vec<u32> = got.iter().filter(|got| got.3 == Ecn::Marked).map(|got| got.2).collect();
    assert_eq!((marked, got.len()), (vec![106, 206, 277], 300));
    let port = fabric.port_stats(LinkId(1).backward()).unwrap();
    assert_eq!((port.sent, port.dropped, port.marked), (300, 0, 3));
}

#[test]
fn codel_leaves_a_short_queue_alone_and_the_end_of_a_full_one() {
    let none = Codel { target: Duration::from_secs(1), ..Codel::default() };
    assert_eq!(through_codel(none).1.len(), 300);
    let (fabric, got) = {
        let line = Line::new(BitRate::from_mbps(10), Duration::from_millis(5), 20);
        let mut topology = Topology::new(2, 1);
        topology.attach(
            0,
            0,
            Line { queue: QueueLimit::Packets(1_000), rate: BitRate::from_mbps(1_000), ..line },
            line,
        );
        topology.attach(1, 0, line, line.with_codel(Codel::default()));
        let mut fabric = Fabric::new(&topology, &Options::default()).unwrap();
        let got = arrivals(&mut fabric, 300);
        (fabric, got)
    };
    // One is on the wire and twenty wait; the queue is full for the others, and empty long before
    // an interval is over.
    assert_eq!((got.len(), fabric.stats().dropped, fabric.packets()), (23, 277, 0));
}
