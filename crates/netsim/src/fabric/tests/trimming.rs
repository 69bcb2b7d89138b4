//! A port that trims, in a network.

use super::*;

/// What arrived: when (ns), the packet's number, its size and class.
#[derive(Default)]
struct Sizes(Vec<(u64, u32, u32, Class)>);

impl Hosts<u32> for Sizes {
    fn receive(&mut self, fabric: &mut Fabric<u32>, _host: HostId, packet: Packet<u32>) {
        self.0.push((fabric.now().as_nanos(), packet.body, packet.size, packet.class));
    }

    fn timer(&mut self, _fabric: &mut Fabric<u32>, _token: u32) {}
}

/// From host 0 at 1 Gbit/s to host 1 at 10 Mbit/s, where 1,250 bytes take 1 ms.
fn fabric(down: Line, faults: Vec<Fault>) -> Fabric<u32> {
    let line = Line::new(BitRate::from_mbps(1_000), Duration::from_millis(5), 10_000);
    let mut topology = Topology::new(2, 1);
    topology.attach(0, 0, line, line);
    topology.attach(1, 0, line, down);
    Fabric::new(&topology, &Options { faults, ..Options::default() }).unwrap()
}

fn down() -> Line {
    Line::new(BitRate::from_mbps(10), Duration::from_millis(5), 1_000)
}

/// Sends `count` packets of a class at once, and lets all arrive.
fn burst(fabric: &mut Fabric<u32>, count: u32, class: Class) -> Vec<(u64, u32, u32, Class)> {
    for n in 0..count {
        fabric.send(Packet { class, ecn: Ecn::Capable, ..packet(0, 1, n) });
    }
    let mut sizes = Sizes::default();
    fabric.run(&mut sizes, fabric.now() + Duration::from_secs(1)).unwrap();
    sizes.0
}

const PORT: PortId = LinkId(1).backward();

#[test]
fn a_burst_arrives_whole_or_as_headers_and_headers_first() {
    let mut fabric = fabric(down().with_trim(Trim::default()), Vec::new());
    let got = burst(&mut fabric, 20, Class::Trimmable);
    let whole = got.iter().filter(|got| got.2 == 1_250).count();
    let headers = got.iter().filter(|got| got.2 == 64 && got.3 == Class::Header).count();
    // One is sent when the others come within 190 us, eight wait.
    assert_eq!((whole, headers, got.len()), (9, 11, 20));
    let mut numbers: Vec<u32> = got.iter().map(|got| got.1).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..20), "each once");
    // The first packet, then ten headers, one packet, the last header, and the rest.
    let order: Vec<bool> = got.iter().map(|got| got.3 == Class::Header).collect();
    let expected: Vec<bool> = (0..20).map(|n| matches!(n, 1..=10 | 12)).collect();
    assert_eq!(order, expected);
    let stats = fabric.port_stats(PORT).unwrap();
    assert_eq!((stats.sent, stats.trimmed, stats.dropped, stats.deepest_packets), (20, 11, 0, 8));
    assert_eq!(stats.deepest_header_bytes, 11 * 64);
    // The line was never idle: nine packets, eleven headers, and the two wires.
    let bytes = 9 * 1_250 + 11 * 64;
    assert_eq!(got.last().unwrap().0, 10_000 + 10_000_000 + bytes * 800);
    assert_eq!((fabric.packets(), fabric.stats().delivered), (0, 20));
}

#[test]
fn what_has_no_room_among_the_headers_is_dropped() {
    let trim = Trim { header_queue_bytes: 3 * 64, ..Trim::default() };
    let mut fabric = fabric(down().with_trim(trim), Vec::new());
    let (sender, seen) = std::sync::mpsc::channel();
    fabric.watch(Box::new(move |_, sight, packet| sender.send((sight, packet.body)).unwrap()));
    let got = burst(&mut fabric, 40, Class::Trimmable);
    let stats = fabric.port_stats(PORT).unwrap();
    assert_eq!((stats.trimmed, stats.deepest_header_bytes, stats.deepest_packets), (3, 192, 8));
    assert_eq!((got.len(), stats.dropped, fabric.stats().dropped), (12, 28, 28));
    let dropped: Vec<u32> = seen
        .try_iter()
        .filter(|(sight, _)| *sight == PacketEvent::Dropped(PORT))
        .map(|(_, number)| number)
        .collect();
    assert!(dropped.iter().all(|number| got.iter().all(|got| got.1 != *number)));
    // The last in the queue was dropped as well as what came: not all in the order of their coming.
    assert_eq!((dropped.len(), fabric.packets()), (28, 0));
    assert!(!dropped.is_sorted(), "{dropped:?}");
}

#[test]
fn control_of_such_a_transport_overtakes_data() {
    let mut fabric = fabric(down().with_trim(Trim::default()), Vec::new());
    for n in 0..4 {
        fabric.send(Packet { class: Class::Trimmable, ..packet(0, 1, n) });
    }
    fabric.send(Packet { class: Class::Header, size: 40, ..packet(0, 1, 4) });
    let got = burst(&mut fabric, 0, Class::Data);
    assert_eq!(got.iter().map(|got| got.1).collect::<Vec<_>>(), [0, 4, 1, 2, 3]);
    // Elsewhere it waits like anything else.
    let mut fabric = self::fabric(down(), Vec::new());
    for (n, class) in (0..).zip([Class::Trimmable, Class::Trimmable, Class::Header]) {
        fabric.send(Packet { class, ..packet(0, 1, n) });
    }
    let got = burst(&mut fabric, 0, Class::Data);
    assert_eq!(got.iter().map(|got| got.1).collect::<Vec<_>>(), [0, 1, 2]);
}

/// With its limit, its marks and its losses.
#[test]
fn to_whoever_is_not_trimmed_it_is_the_port_that_it_was() {
    let line = down().with_queue(QueueLimit::Bytes(20_000)).with_mark(Mark::Bytes(5_000));
    let lossy = || {
        let loss = Loss::nth([2, 5, 14]);
        let failure = Failure::Loss { loss, data_only: false, before_rate: false };
        vec![Fault { link: LinkId(1), direction: Direction::Backward, failure }]
    };
    let run = |line, class| {
        let mut fabric = fabric(line, lossy());
        let got: Vec<_> = (1..30).step_by(7).map(|count| burst(&mut fabric, count, class)).collect();
        (got, fabric.trace_hash(), fabric.port_stats(PORT).unwrap())
    };
    for class in [Class::Data, Class::ShortData, Class::Control] {
        let (got, trace, stats) = run(line.with_trim(Trim::default()), class);
        assert_eq!(run(line, class), (got, trace, stats));
        assert!(stats.marked > 0 && stats.dropped > 0 && stats.lost == 3, "{stats:?}");
    }
}

#[test]
fn waiting_counts_both_queues() {
    let mut fabric = fabric(down().with_trim(Trim::default()), Vec::new());
    for n in 0..12 {
        fabric.send(Packet { class: Class::Trimmable, ..packet(0, 1, n) });
    }
    let mut sizes = Sizes::default();
    fabric.run(&mut sizes, Instant::from_nanos(5_200_000)).unwrap();
    assert_eq!(fabric.waiting(PORT), Some((11, 8 * 1_250 + 3 * 64)));
    assert_eq!(fabric.line_rate(HostId(1)), Some(BitRate::from_mbps(1_000)));
    assert_eq!(fabric.line_rate(HostId(2)), None);
}

#[test]
fn equal_seeds_trim_equally() {
    let run = |seed| {
        let line = Line::new(BitRate::from_mbps(1_000), Duration::from_millis(5), 10_000);
        let mut topology = Topology::new(2, 1);
        topology.attach(0, 0, line, line);
        topology.attach(1, 0, line, down().with_trim(Trim::default()));
        let options = Options { seed: Seed(seed), ..Options::default() };
        let mut fabric = Fabric::new(&topology, &options).unwrap();
        burst(&mut fabric, 40, Class::Trimmable).into_iter().map(|got| got.1).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
