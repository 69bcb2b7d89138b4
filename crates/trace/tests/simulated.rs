//! The analysis against the simulator's own record: captures of simulated TCP, of whose every
//! retransmission the reason is known.

use std::{
    collections::BTreeMap,
    io::Write,
    sync::{Arc, Mutex},
};

use mendpath_trace::{Analyzer, Class, LinkLayer, Options, Report, Resent};
use netsim::{
    Seed,
    fabric::{Failure, Fault, LinkId, Options as Network, topology::Dumbbell},
};
use tcpsim::{
    FlowId, Profile, Sim, Tcp, Tlp,
    timeline::{Sending, Timeline, What},
};
use units::{BitRate, Duration, Instant, LossRate};

/// A capture in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A packet of a capture: when, its headers, its length on the wire.
type Captured = (Instant, Vec<u8>, u32);

/// The packets of a pcapng file as the simulator writes it: little-endian, in nanoseconds.
fn packets(file: &Memory) -> Vec<Captured> {
    let bytes = file.0.lock().unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut found) = (0, Vec::new());
    while at < bytes.len() {
        if word(at) == 6 {
            let time = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
            let (kept, long) = (word(at + 20) as usize, word(at + 24));
            found.push((Instant::from_nanos(time), bytes[at + 28..at + 28 + kept].to_vec(), long));
        }
        at += word(at + 4) as usize;
    }
    found
}

/// Why the simulator's sender sent a packet again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Reason {
    Timer,
    Fast,
    GoBackN,
}

/// A scenario: loss in each direction, round trip, and the sender's TCP.
struct Scenario {
    name: &'static str,
    loss: f64,
    rtt_ms: u64,
    tcp: Tcp,
}

fn scenarios() -> Vec<Scenario> {
    let tcp = Tcp { handshake: true, ..Tcp::default() };
    let recent = Tcp { rack: true, prr: true, tlp: Some(Tlp::default()), ack_every: 2, ..tcp.clone() };
    let linux = Tcp {
        fack: true,
        rto_above_srtt: true,
        sack_timing: true,
        ack_every: 2,
        quick_acks: 16,
        ..tcp.clone()
    };
    vec![
        Scenario { name: "RFC 6675", loss: 0.01, rtt_ms: 20, tcp: tcp.clone() },
        Scenario { name: "RFC 6675", loss: 0.02, rtt_ms: 60, tcp: tcp.clone() },
        Scenario { name: "RFC 6675", loss: 0.05, rtt_ms: 20, tcp },
        Scenario { name: "RACK, TLP, PRR", loss: 0.03, rtt_ms: 60, tcp: recent },
        Scenario { name: "FACK as in older Linux", loss: 0.03, rtt_ms: 100, tcp: linux },
    ]
}

/// 600 flows of 1 to 120 segments over 100 Mbit/s with loss in both directions, captured at the
/// sender; and why each flow's retransmissions were sent, in their order.
fn simulate(scenario: &Scenario) -> (Vec<Vec<Reason>>, Vec<Captured>) {
    let rtt = Duration::from_millis(scenario.rtt_ms);
    let topology = Dumbbell::new(1, BitRate::from_mbps(100), rtt, 1_000).build();
    let failure = Failure::random(LossRate::new(scenario.loss).unwrap());
    let faults = vec![Fault::both(Dumbbell::BOTTLENECK, failure)];
    let mut sim = Sim::new(&topology, &Network { seed: Seed(7), faults, ..Network::default() }).unwrap();
    let tcp = sim.add_profile(Profile::tcp(scenario.tcp.clone()));
    let files = [Memory::default(), Memory::default()];
    for (port, file) in [LinkId(0).forward(), LinkId(0).backward()].into_iter().zip(&files) {
        sim.capture(port, file.clone(), 1_460).unwrap();
    }
    let flows: Vec<FlowId> = (0..600_u64)
        .map(|n| {
            let at = Instant::ORIGIN + Duration::from_millis(500) * n;
            sim.add_flow(tcp, 0, 1, (1 + n * 7 % 120) * 1_460, at).unwrap()
        })
        .collect();
    let timelines = sim.watch(&flows);
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(10_000)).unwrap();
    let truth = flows.iter().map(|&flow| reasons(&timelines.of(flow))).collect();
    let mut captured: Vec<Captured> = files.iter().flat_map(packets).collect();
    captured.sort_by_key(|(at, ..)| *at);
    (truth, captured)
}

/// The reasons of a flow's retransmissions: a timer's packet leaves with it, and what it gave up is
/// sent again until all of it is acknowledged.
fn reasons(timeline: &Timeline) -> Vec<Reason> {
    let (mut timer, mut high, mut gave_up, mut found) = (None, 0, 0, Vec::new());
    for event in &timeline.events {
        match event.what {
            What::Timeout => (timer, gave_up) = (Some(event.at), high),
            What::Probe => timer = Some(event.at),
            What::Sent { seq, how: Sending::Again, .. } => {
                found.push(match timer {
                    Some(at) if at == event.at => Reason::Timer,
                    _ if seq < gave_up => Reason::GoBackN,
                    _ => Reason::Fast,
                });
                timer = None;
            }
            What::Sent { seq, .. } => high = high.max(seq + 1),
            What::Acked { seq, .. } if seq >= gave_up => gave_up = 0,
            _ => {}
        }
    }
    found
}

fn analyse(captured: &[Captured]) -> Report {
    let mut analyzer = Analyzer::new(Options { listed: usize::MAX, ..Options::default() });
    for (at, bytes, long) in captured {
        analyzer.packet(*at, LinkLayer::Raw, bytes, *long);
    }
    analyzer.finish()
}

/// The connection of a sender's address: its port holds the number.
fn connection(address: &str) -> usize {
    let port: usize = address.rsplit(':').next().unwrap().parse().unwrap();
    (port & 0x7fff) >> 4
}

#[test]
fn the_classes_agree_with_the_simulators_own_record() {
    for scenario in scenarios() {
        let (truth, captured) = simulate(&scenario);
        let report = analyse(&captured);
        let mut found: BTreeMap<usize, Vec<&Resent>> = BTreeMap::new();
        // The record is of data.
        for packet in report.resent.iter().filter(|packet| !packet.flags.contains("SYN")) {
            found.entry(connection(&packet.from)).or_default().push(packet);
        }
        let mut counts: BTreeMap<Reason, (u32, u32)> = BTreeMap::new();
        for (flow, packets) in found {
            // The record ends with the flow; what was under way then may be sent again later.
            assert!(packets.len() >= truth[flow].len(), "flow {flow}: every retransmission is found");
            for (packet, reason) in packets.iter().zip(&truth[flow]) {
                let class = match reason {
                    Reason::Timer => Class::Timeout,
                    Reason::Fast => Class::Fast,
                    Reason::GoBackN => Class::GoBackN,
                };
                let count = counts.entry(*reason).or_default();
                count.0 += u32::from(packet.class == class);
                count.1 += 1;
            }
        }
        println!(
            "{}, {:.0} % loss, {} ms: {counts:?}",
            scenario.name,
            scenario.loss * 100.0,
            scenario.rtt_ms
        );
        let sum = counts.values().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        let timers = counts[&Reason::Timer];
        assert!(sum.1 > 300 && timers.1 > 5, "{counts:?}");
        assert!(timers.0 * 100 >= timers.1 * 97 && sum.0 * 100 >= sum.1 * 97, "{counts:?}");
    }
}
