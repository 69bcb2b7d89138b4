//! The coding layer on virtual time: windows of segments over a link that loses some.

use std::collections::BTreeMap;

use etherparse::PacketBuilder;
use mendpath_tunnel::raw::{Coding, Incoming, IncomingConfig, Network, Outgoing, OutgoingConfig};
use units::{BitRate, Duration, Instant};

const DELAY: Duration = Duration::from_millis(25);
const RTT: Duration = Duration::from_millis(50);

/// A segment of 1,000 bytes; the last of a response ends a write.
fn segment(port: u16, number: u32, is_last: bool) -> Vec<u8> {
    let ip = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let mut tcp = ip.tcp(80, port, 1 + number * 1_000, 60_000).ack(1);
    if is_last {
        tcp = tcp.psh();
    }
    let mut bytes = Vec::new();
    tcp.write(&mut bytes, &[number as u8; 1_000]).unwrap();
    bytes
}

/// What came of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// Segments that never came, or came after one behind them.
    missed: u32,
    extra: u64,
}

/// Sends responses of 40 segments, in windows of 10 and 30, one after the other.
fn run(coding: Coding, permille: u64, flows: u16) -> Outcome {
    let mut outgoing = Outgoing::new(OutgoingConfig { coding, ..OutgoingConfig::default() });
    let mut incoming = Incoming::new(IncomingConfig::default());
    let loss = permille as f64 / 1e3;
    outgoing.set_network(Network { loss, bandwidth: BitRate::from_mbps(100), rtt: RTT, window: 100 });
    incoming.set_rtt(RTT);
    let mut sends: BTreeMap<(Instant, u64), Vec<u8>> = BTreeMap::new();
    for flow in 0..flows {
        for number in 0..40 {
            let window = if number < 10 { Duration::ZERO } else { RTT };
            let at = Instant::ORIGIN + Duration::from_millis(200) * u64::from(flow) + window;
            sends.insert((at, sends.len() as u64), segment(flow, number, number == 39));
        }
    }
    let mut link: BTreeMap<(Instant, u64), Vec<u8>> = BTreeMap::new();
    let mut delivered: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
    let (mut count, mut random) = (0, 7_u64);
    loop {
        let first = [&sends, &link].map(|queue| queue.keys().next().map(|key| key.0));
        let timers = [outgoing.deadline(), outgoing.extra_due(), incoming.deadline()];
        let due = first.into_iter().chain(timers).flatten().min();
        let Some(now) = due else { break };
        let mut leaving = Vec::new();
        while sends.first_key_value().is_some_and(|((at, _), _)| *at <= now) {
            let (_, packet) = sends.pop_first().unwrap();
            leaving.push(outgoing.handle(&packet, 1_400, now));
        }
        outgoing.on_timer(now);
        leaving.extend(std::iter::from_fn(|| outgoing.next_extra(now)).map(|extra| extra.datagram));
        for datagram in leaving {
            count += 1;
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if (random >> 33) % 1_000 >= permille {
                link.insert((now + DELAY, count), datagram);
            }
        }
        let mut sink = |packet: &[u8]| {
            let port = u16::from_be_bytes([packet[22], packet[23]]);
            let number = u32::from_be_bytes(packet[24..28].try_into().unwrap()) / 1_000;
            assert!(packet[40..].iter().all(|byte| u32::from(*byte) == number));
            delivered.entry(port).or_default().push(number);
        };
        while link.first_key_value().is_some_and(|((at, _), _)| *at <= now) {
            let (_, datagram) = link.pop_first().unwrap();
            incoming.handle(&datagram, now, &mut sink);
        }
        incoming.on_timer(now, &mut sink);
    }
    let mut missed = 0;
    for numbers in delivered.values() {
        let unique: std::collections::BTreeSet<&u32> = numbers.iter().collect();
        assert_eq!(unique.len(), numbers.len(), "no segment goes on twice");
        let behind = numbers.windows(2).filter(|pair| pair[0] > pair[1]).count();
        missed += (40 - numbers.len() + behind) as u32;
    }
    assert_eq!((outgoing.counters().kept_bytes, incoming.counters().held_bytes), (0, 0));
    assert_eq!(incoming.counters().malformed, 0);
    Outcome { missed, extra: outgoing.counters().extra_bytes }
}

#[test]
fn losses_are_brought_back_in_order_and_once() {
    for permille in [20, 50] {
        let [none, slp, htpc, auto] = Coding::ALL.map(|coding| run(coding, permille, 200));
        assert!(none.missed > 100 && none.extra == 0, "{none:?}");
        assert!(slp.missed < none.missed && slp.extra > 0, "the last segments are copied: {slp:?}");
        assert!(htpc.missed * 3 < none.missed * 2, "{htpc:?} {none:?}");
        assert!(auto.missed * 4 < none.missed && auto.missed <= htpc.missed, "{auto:?} {none:?}");
        assert_eq!(auto, run(Coding::Auto, permille, 200), "the same again");
    }
}

#[test]
fn nothing_is_sent_beside_packets_where_nothing_is_lost() {
    assert_eq!(run(Coding::Auto, 0, 20), Outcome::default());
}

#[test]
fn what_is_kept_for_combinations_is_bounded() {
    let most = 100_000;
    let config = OutgoingConfig { coding: Coding::Auto, most_kept: most, ..OutgoingConfig::default() };
    let mut outgoing = Outgoing::new(config);
    let mut incoming = Incoming::new(IncomingConfig { most_kept: most / 2, ..IncomingConfig::default() });
    for port in 0..50 {
        for number in 0..20 {
            let datagram = outgoing.handle(&segment(port, number, false), 1_400, Instant::ORIGIN);
            incoming.handle(&datagram, Instant::ORIGIN, &mut |_| ());
            assert!(outgoing.counters().kept_bytes <= most && incoming.counters().kept_bytes <= most / 2);
        }
    }
    assert!(outgoing.counters().kept_bytes > most / 2 && incoming.counters().unkept > 0);
    outgoing.on_timer(Instant::ORIGIN + RTT * 4);
    assert_eq!(outgoing.counters().kept_bytes, 0);
    incoming.expire(Instant::ORIGIN + Duration::from_secs(1));
    assert_eq!(incoming.counters().kept_bytes, 0);
}
