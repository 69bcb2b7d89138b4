//! How many packets per second one core analyses, and how much memory it takes.
//!
//! It makes a capture of modelled connections in memory and reads it over and over, each time with
//! other addresses and later, as one endless capture would be. Run it with `--release`.

#[path = "../../trace/tests/support/tcp_model.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod tcp_model;
#[path = "../../trace/tests/support/wire.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod wire;

use std::io::Read;

use clap::Args;
use tcp_model::{mix, ordinary};
use trace::{Analyzer, Options, read_capture};
use wire::{Capture, Packet};

/// How many packets per second one core analyses, and how much memory it takes.
#[derive(Args)]
pub struct Arguments {
    /// Packets to be analysed.
    #[arg(long, default_value_t = 20_000_000)]
    packets: u64,
}

/// A capture that repeats: the same connections between other hosts, some minutes later.
struct Endless {
    header: Vec<u8>,
    records: Vec<u8>,
    starts: Vec<usize>,
    place: usize,
    rounds: u64,
    span_s: u32,
}

impl Endless {
    fn new(rounds: u64) -> Self {
        let packets: Vec<Packet> =
            mix(&ordinary(2_000, 0.01, 1)).into_iter().map(|(packet, _)| packet).collect();
        let span_s = (packets.last().map_or(0, |packet| packet.at_ns) / 1_000_000_000) as u32;
        let mut capture = Capture::new(wire::Format::PcapNanoseconds, wire::Link::Ethernet, 96);
        let mut starts = Vec::new();
        for packet in &packets {
            starts.push(capture.bytes().len() - 24);
            capture.push(packet);
        }
        let bytes = capture.bytes();
        Self { header: bytes[..24].to_vec(), records: bytes[24..].to_vec(), starts, place: 0, rounds, span_s }
    }

    fn per_round(&self) -> u64 {
        self.starts.len() as u64
    }

    /// Later by a round, and every client's address one higher in a byte that the model leaves
    /// zero.
    fn next_round(&mut self) {
        self.rounds -= 1;
        self.place = 0;
        for &start in &self.starts {
            let second = &mut self.records[start..start + 4];
            let later = u32::from_le_bytes([second[0], second[1], second[2], second[3]]) + self.span_s;
            second.copy_from_slice(&later.to_le_bytes());
            let ip = start + 16 + 14;
            let client = if self.records[ip] == 0x45 { [12, 16] } else { [8, 24] };
            for place in client {
                self.records[ip + place + 1] = self.records[ip + place + 1].wrapping_add(1);
            }
        }
    }
}

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if !self.header.is_empty() {
            let given = self.header.len().min(out.len());
            out[..given].copy_from_slice(&self.header[..given]);
            self.header.drain(..given);
            return Ok(given);
        }
        if self.place == self.records.len() && self.rounds > 1 {
            self.next_round();
        }
        let given = (self.records.len() - self.place).min(out.len());
        out[..given].copy_from_slice(&self.records[self.place..self.place + given]);
        self.place += given;
        Ok(given)
    }
}

/// Runs it.
#[allow(clippy::disallowed_methods, reason = "it measures time")]
pub fn run(arguments: &Arguments) {
    let mut endless = Endless::new(1);
    endless.rounds = arguments.packets.div_ceil(endless.per_round()).max(1);
    println!("{} packets per round, {} rounds", endless.per_round(), endless.rounds);
    let mut analyzer = Analyzer::new(Options::default());
    let before = std::time::Instant::now();
    let file = read_capture("endless", endless, &mut analyzer, &mut |_| ());
    let took = before.elapsed().as_secs_f64();
    let report = analyzer.finish();
    println!("{} packets, {:.2} GB, {took:.2} s", file.packets, file.bytes as f64 / 1e9);
    println!("{:.2} million packets/s", file.packets as f64 / took / 1e6);
    println!(
        "{} connections, {} retransmissions, {} evicted, warnings {:?}",
        report.connections.total,
        report.retransmissions.seen_before,
        report.connections.evicted,
        report.warnings
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown here");
    println!("peak memory {}", peak.trim_start_matches("VmHWM:").trim());
}
