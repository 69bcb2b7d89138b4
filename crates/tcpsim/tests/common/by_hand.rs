//! A network on which every event can be worked out by hand, to the nanosecond.
//!
//! Host 0 sends to host 1. Its link takes 1 ms per full segment and 10 ms of delay; everything else
//! is 1,000 times faster. A segment that starts to be sent at `t` arrives at `t` + 11,001 us, and
//! its acknowledgement is back 10,000.054 us later. All segments of the initial window are written
//! at 0 and leave one per ms, so segment `k` arrives at `(k + 1) ms + 10,001 us`, and its
//! acknowledgement at `(k + 1) ms + 20,001.054 us`.

use mendpath_tcpsim::{FlowRecord, Profile, Sim, Totals};
use netsim::{
    Loss,
    fabric::{Direction, Failure, Fault, Line, LinkId, Options, Topology},
};
use units::{BitRate, Duration, Instant};

/// A millisecond.
pub const MS: u64 = 1_000_000;
/// From the start of sending until arrival.
pub const THERE: u64 = 11_001_000;
/// The acknowledgement of segment `k` of the first window.
pub const fn ack(k: u64) -> u64 {
    (k + 1) * MS + 20_001_054
}

/// The network.
pub fn network() -> Topology {
    let slow = Line::new(BitRate::from_mbps(12), Duration::from_millis(10), 10_000);
    let fast = Line { rate: BitRate::from_mbps(12_000), delay: Duration::ZERO, ..slow };
    let back = Line { rate: BitRate::from_mbps(12_000), ..slow };
    let mut topology = Topology::new(2, 1);
    topology.attach(0, 0, slow, back);
    topology.attach(1, 0, fast, fast);
    topology
}

/// One flow of `segments` full segments; the sender's packets with the indices `lost`, those of a
/// handshake included, are lost.
pub fn run(profile: Profile, segments: u64, lost: &[u64]) -> (FlowRecord, Totals) {
    let loss = Loss::nth(lost.iter().copied());
    let failure = Failure::Loss { loss, data_only: false, before_rate: false };
    let faults = vec![Fault { link: LinkId(0), direction: Direction::Forward, failure }];
    let mut sim = Sim::new(&network(), &Options { faults, ..Options::default() }).unwrap();
    let id = sim.add_profile(profile);
    let flow = sim.add_flow(id, 0, 1, segments * 1_460, Instant::ORIGIN).unwrap();
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(30)).unwrap();
    (*sim.flow(flow).unwrap(), sim.totals())
}
