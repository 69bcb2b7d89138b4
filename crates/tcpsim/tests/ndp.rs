//! NDP in networks that trim: incast, losses of whatever it sends, and what it leaves behind.

use mendpath_tcpsim::{Profile, Sim, Tcp, Totals, ndp::Ndp};
use netsim::{
    Loss, Seed,
    fabric::{
        Balancing, Direction, Failure, Fault, Line, LinkId, Options, PortStats, Trim,
        balance::{Balancer, Choice},
        topology::ParallelPaths,
    },
};
use units::{BitRate, Duration, Instant, LossRate};

/// The last bits of a label are a path: source routing.
struct ByLabel;

impl Balancer for ByLabel {
    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        (choice.label & 15) as usize
    }
}

fn options(seed: u64, faults: Vec<Fault>) -> Options {
    let balancing = Balancing::Custom(|_, _| Box::new(ByLabel));
    Options { seed: Seed(seed), balancing, faults, ..Options::default() }
}

/// FUSO's testbed, whose switches trim.
fn network(trim: Trim) -> ParallelPaths {
    let fuso = ParallelPaths::fuso();
    ParallelPaths { between: fuso.between.with_trim(trim), down: fuso.down.with_trim(trim), ..fuso }
}

fn profile() -> Profile {
    Ndp { paths: 3, ..Ndp::default() }.profile(Tcp::fuso())
}

/// `senders` answers of 64 KB from the other five hosts to the first, at once.
fn incast(senders: u32, trim: Trim, options: &Options) -> Sim {
    let mut sim = Sim::new(&network(trim).build(), options).unwrap();
    let ndp = sim.add_profile(profile());
    for n in 0..senders {
        sim.add_flow(ndp, 1 + n % 5, 0, 65_536, Instant::ORIGIN).unwrap();
    }
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(10)).unwrap();
    assert!(sim.is_done(), "{senders} senders: {:?}", sim.totals());
    sim
}

fn longest(sim: &Sim) -> Duration {
    sim.flows().iter().filter_map(|flow| flow.completion_time()).max().unwrap()
}

/// The port that leads to the receiver.
fn bottleneck(sim: &mut Sim) -> PortStats {
    let link = ParallelPaths::fuso().access(0);
    sim.fabric().port_stats(link.backward()).unwrap()
}

/// How long the answers take on the receiver's line if it is never idle: 45 packets each, the last
/// shorter.
fn ideal(senders: u32) -> Duration {
    let bytes = 65_536 + 45 * 40;
    BitRate::from_mbps(1_000).time_to_send(u64::from(senders) * bytes)
}

#[test]
fn incast_takes_little_longer_than_its_bytes_do_and_nobody_times_out() {
    for senders in [1, 4, 16, 70] {
        let mut sim = incast(senders, Trim::default(), &options(1, Vec::new()));
        let (took, ideal) = (longest(&sim), ideal(senders));
        // Two round trips of 280 us, and headers: at most four of 64 bytes for a packet, while the
        // first windows come.
        let most = ideal.as_micros() * 112 / 100 + 560;
        assert!(took.as_micros() <= most, "{senders}: {took:?}, ideal {ideal:?}");
        let (totals, port, stats) = (sim.totals(), bottleneck(&mut sim), sim.fabric().stats());
        assert_eq!((totals.timeouts, totals.duplicates, stats.dropped), (0, 0, 0), "{senders}");
        assert_eq!(port.trimmed > 0, senders > 1, "{senders}: {port:?}");
        assert!(port.deepest_packets <= 8 && port.deepest_header_bytes <= 12_000, "{port:?}");
        // What was trimmed, anywhere, is what was sent again.
        let trimmed: u64 = (0..9)
            .flat_map(|link| [LinkId(link).forward(), LinkId(link).backward()])
            .map(|port| sim.fabric().port_stats(port).unwrap().trimmed)
            .sum();
        assert_eq!(totals.retransmissions, trimmed, "{senders}");
        // No connection has more than a window of PULLs waiting.
        assert!(totals.most_pulls <= u64::from(senders) * 24, "{senders}: {}", totals.most_pulls);
        assert!(senders < 16 || totals.most_pulls > 100, "{senders}: {}", totals.most_pulls);
    }
}

/// The first packet is at the receiver after three links of 12 us and three wires of 46.666 us; the
/// others follow back to back, over three paths.
#[test]
fn one_sender_fills_the_line_from_the_first_packet_on() {
    let mut sim = Sim::new(&network(Trim::default()).build(), &options(1, Vec::new())).unwrap();
    let ndp = sim.add_profile(profile());
    let flow = sim.add_flow(ndp, 5, 0, 24 * 1_460, Instant::ORIGIN).unwrap();
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(1)).unwrap();
    let time = sim.flow(flow).unwrap().completion_time().unwrap();
    assert_eq!(time.as_nanos(), (24 + 2) * 12_000 + 3 * 46_666);
    let sent: Vec<u64> =
        (0..3).map(|n| sim.fabric().port_stats(LinkId(n).backward()).unwrap().sent).collect();
    assert_eq!(sent, [8, 8, 8], "each path in turn");
}

/// As TCP, NDP needs a way to find what is gone without a trace: headers, ACKs, NACKs and PULLs.
#[test]
fn whatever_is_lost_it_comes_to_an_end() {
    let loss = Loss::Bernoulli(LossRate::new(0.05).unwrap());
    let failure = Failure::Loss { loss, data_only: false, before_rate: false };
    let faults: Vec<Fault> = (0..9)
        .map(|link| Fault { link: LinkId(link), direction: Direction::Both, failure: failure.clone() })
        .collect();
    for seed in 1..=3 {
        let sim = incast(20, Trim::default(), &options(seed, faults.clone()));
        let Totals { timeouts, finished, .. } = sim.totals();
        assert_eq!(finished, 20);
        assert!(timeouts > 0);
    }
}

/// The queue of headers has room for two: of hundreds that are dropped, each is found by a timeout.
#[test]
fn headers_without_room_are_found_by_timeouts() {
    let trim = Trim { header_queue_bytes: 128, ..Trim::default() };
    let mut sim = incast(20, trim, &options(1, Vec::new()));
    let (port, totals) = (bottleneck(&mut sim), sim.totals());
    assert!(port.dropped > 100 && port.deepest_header_bytes == 128, "{port:?}");
    assert!(totals.timeouts > 0 && totals.finished == 20, "{totals:?}");
}

#[test]
fn a_connection_pushes_what_comes_when_all_has_arrived() {
    let mut sim = Sim::new(&network(Trim::default()).build(), &options(1, Vec::new())).unwrap();
    let ndp = sim.add_profile(profile());
    let connection = sim.connect(ndp, 5, 0).unwrap();
    let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
    let flows: Vec<_> = [(0, 100_000), (10, 100_000), (20, 1), (21, 1_460), (21, 70_000)]
        .map(|(ms, bytes)| sim.write(connection, bytes, at(ms)).unwrap())
        .into();
    sim.run_until_done(at(1_000)).unwrap();
    let time = |n: usize| sim.flow(flows[n]).unwrap().completion_time().unwrap();
    assert_eq!(time(0), time(1), "no memory of the first");
    // 69 packets, of which the first 24 fill a round trip and the others come at their pace.
    assert!(time(1).as_micros() < 69 * 12 + 280, "{:?}", time(1));
    assert!(time(2).as_micros() < 150 && time(3).as_micros() < 180 && time(4).as_micros() < 900);
    assert_eq!((sim.totals().timeouts, sim.totals().retransmissions), (0, 0));
    assert_eq!(sim.delivered(connection), Some(69 + 69 + 1 + 1 + 48));
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let run = |seed| {
        let mut sim = incast(30, Trim::default(), &options(seed, Vec::new()));
        (sim.fabric().trace_hash(), sim.totals())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}

/// Without trimming packets are lost as with anybody; nothing waits for headers that do not come.
#[test]
fn in_a_network_that_drops_it_lives_on_timeouts() {
    let line = Line::new(BitRate::from_mbps(1_000), Duration::from_micros(46), 20);
    let network = ParallelPaths { between: line, down: line, ..ParallelPaths::fuso() };
    let mut sim = Sim::new(&network.build(), &options(1, Vec::new())).unwrap();
    let ndp = sim.add_profile(profile());
    for n in 0..8 {
        sim.add_flow(ndp, 1 + n % 5, 0, 65_536, Instant::ORIGIN).unwrap();
    }
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(60)).unwrap();
    assert!(sim.is_done() && sim.totals().timeouts > 0, "{:?}", sim.totals());
}
