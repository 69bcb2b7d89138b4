//! The clustering against the simulator's own record: captures of simulated TCP, whose every
//! timeout is known.

use std::{
    io::Write,
    sync::{Arc, Mutex},
};

use mendpath_trace::{Analyzer, LinkLayer, Options, Report};
use netsim::{
    Seed,
    fabric::{Failure, Fault, LinkId, Options as Network, topology::Dumbbell},
};
use tcpsim::{Profile, Sim, Tcp};
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

/// What a connection's retransmissions were.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Truth {
    Fast,
    Timeout,
    /// Some of each.
    Mixed,
}

/// 600 flows of 1 to 120 segments over 100 Mbit/s with loss in both directions, captured at the
/// sender; and what the simulator says of each.
fn simulate(loss: f64, rtt_ms: u64) -> (Vec<Truth>, Vec<Captured>) {
    let topology = Dumbbell::new(1, BitRate::from_mbps(100), Duration::from_millis(rtt_ms), 1_000).build();
    let failure = Failure::random(LossRate::new(loss).unwrap());
    let faults = vec![Fault::both(Dumbbell::BOTTLENECK, failure)];
    let mut sim = Sim::new(&topology, &Network { seed: Seed(7), faults, ..Network::default() }).unwrap();
    let tcp = sim.add_profile(Profile::tcp(Tcp { handshake: true, ..Tcp::default() }));
    let files = [Memory::default(), Memory::default()];
    for (port, file) in [LinkId(0).forward(), LinkId(0).backward()].into_iter().zip(&files) {
        sim.capture(port, file.clone(), 1_460).unwrap();
    }
    for n in 0..600_u64 {
        let at = Instant::ORIGIN + Duration::from_millis(500) * n;
        sim.add_flow(tcp, 0, 1, (1 + n * 7 % 120) * 1_460, at).unwrap();
    }
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(10_000)).unwrap();
    let truth = sim.flows().iter().map(|flow| match (flow.timeouts, flow.retransmissions) {
        (0, _) => Truth::Fast,
        (timeouts, sent_again) if timeouts == sent_again => Truth::Timeout,
        _ => Truth::Mixed,
    });
    let mut captured: Vec<Captured> = files.iter().flat_map(packets).collect();
    captured.sort_by_key(|(at, ..)| *at);
    (truth.collect(), captured)
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
fn the_clusters_agree_with_the_simulators_own_record() {
    for (loss, rtt_ms) in [(0.01, 20), (0.02, 60), (0.05, 20)] {
        let (truth, captured) = simulate(loss, rtt_ms);
        let report = analyse(&captured);
        let (mut right, mut judged, mut timeouts) = (0, 0, 0);
        for packet in &report.lost_packets {
            let syn = packet.flags.contains("SYN");
            let truth = match truth
                [connection(if syn && packet.flags.contains("ACK") { &packet.to } else { &packet.from })]
            {
                _ if syn => Truth::Timeout,
                truth => truth,
            };
            if truth != Truth::Mixed {
                judged += 1;
                timeouts += u32::from(truth == Truth::Timeout);
                right += u32::from(packet.timeout == (truth == Truth::Timeout));
            }
        }
        let share = f64::from(right) / f64::from(judged);
        println!(
            "{:.0} % loss, {rtt_ms} ms: {right} of {judged} ({:.1} %) in the right group, {timeouts} of them timeouts, by {}",
            loss * 100.0,
            share * 100.0,
            report.grouping.by
        );
        assert!(judged > 50 && timeouts > 10, "{judged} {timeouts}");
        assert!(share >= 0.95, "{loss}: {share}\n{}", mendpath_trace::text(&report));
    }
}
