//! What the completion times of short flows are made of, on HTPC's fabric of 256 hosts under
//! web-search traffic.
//!
//! From the moment a flow is complete its history is walked back: the packet that completed it, the
//! acknowledgement that let that packet go, the packet that caused the acknowledgement, and so on
//! to the start. Every nanosecond of the completion time belongs to one step: on the way (sending
//! and propagation), waiting in a queue, waiting for a timer, held by a layer below TCP.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use clap::Args;
use netsim::fabric::{
    Balancing, Line, Node, Options, Packet, PortId, Topology, topology::LeafSpine, workload::FlowSpec,
};
use tcpsim::{
    FlowRecord, Profile, SchemeKind, Sim, Tcp,
    segment::{Kind, Segment},
    shims::header::Coded,
};
use units::{Duration, Instant};

use super::htpc_fabric;

const EXAMPLES: &str = "\
Examples:
  mendpath-tools critical-path                  # load 0.8, 2,000 flows, one seed
  mendpath-tools critical-path 1.2 2000 htpc    # load, flows, one scheme";

/// What the completion times of short flows are made of, on HTPC's fabric of 256 hosts under
/// web-search traffic.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    what: htpc_fabric::Arguments,
}

/// Where packets wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Sender,
    ToSpine,
    ToLeaf,
    ToReceiver,
}

/// One packet's way from host to host.
#[derive(Clone, Copy, Debug)]
struct Leg {
    sent: u64,
    /// By [`Place`], in ns.
    waits: [u64; 4],
    /// Sending and propagation.
    moving: u64,
    kind: Kind,
    /// A retransmission.
    again: bool,
}

/// What arrived at the ends of a flow's connection, in order.
#[derive(Default)]
struct History {
    next: u32,
    /// Coded packets and data at the receiver, acknowledgements at the sender.
    arrived: [Vec<(u64, Leg)>; 2],
    dropped: u32,
}

/// A port, for the time that its packets wait: what it accepts is sent in order.
struct Port {
    place: Place,
    line: Line,
    free_at: u64,
}

/// A packet at a moment: when it reaches the next node, connection, what it is, its number, and
/// which of several coded ones.
type Key = (u64, u32, u8, u32, u32);

/// Follows the packets of short flows.
#[derive(Default)]
struct Log {
    flows: Vec<Option<History>>,
    under_way: BTreeMap<Key, Vec<Leg>>,
}

fn key(at: u64, body: &Segment) -> Key {
    let (number, index) = if body.kind == Kind::Extra {
        let Coded { first, index, .. } = body.header();
        (first, index)
    } else {
        (body.seq, 0)
    };
    (at, body.conn, body.kind as u8, number, index)
}

impl Log {
    fn see(&mut self, port: &mut Port, now: u64, packet: &Packet<Segment>) {
        let starts = port.free_at.max(now);
        let takes = port.line.rate.time_to_send(u64::from(packet.size)).as_nanos();
        port.free_at = starts + takes;
        let arrives = port.free_at + port.line.delay.as_nanos();
        let body = &packet.body;
        let Some(Some(history)) = self.flows.get_mut(body.conn as usize) else { return };
        let mut leg = if port.place == Place::Sender {
            let again = body.kind == Kind::Data && body.seq < history.next;
            if body.kind == Kind::Data {
                history.next = history.next.max(body.seq + 1);
            }
            Leg { sent: now, waits: [0; 4], moving: 0, kind: body.kind, again }
        } else {
            let here = key(now, body);
            let Some(legs) = self.under_way.get_mut(&here) else { return };
            let Some(leg) = legs.pop() else { return };
            if legs.is_empty() {
                self.under_way.remove(&here);
            }
            leg
        };
        leg.waits[port.place as usize] += starts - now;
        leg.moving += arrives - starts;
        if port.place == Place::ToReceiver {
            history.arrived[usize::from(body.kind == Kind::Ack)].push((arrives, leg));
        } else {
            self.under_way.entry(key(arrives, body)).or_default().push(leg);
        }
    }
}

/// Where a completion time went, in ns; and what the way was like.
#[derive(Clone, Copy, Default, Debug)]
struct Parts {
    moving: u64,
    waits: [u64; 4],
    /// Of acknowledgements, anywhere.
    ack_waits: u64,
    /// Until a retransmission timer of TCP.
    timeout: u64,
    /// Until a unit was closed by its timer, so that coded packets left.
    unit: u64,
    /// In the layer, for its order.
    held: u64,
    rounds: u64,
    /// Whether a retransmission, or a coded packet, is on the way.
    again: bool,
    coded: bool,
}

/// Walks a flow's history back from its end.
fn walk(history: &History, record: &FlowRecord) -> Parts {
    let mut parts = Parts::default();
    let (start, mut at) = (record.started.as_nanos(), record.finished.as_nanos());
    let latest = |way: usize, at: u64| {
        let arrived = &history.arrived[way];
        arrived.iter().rev().find(|(arrives, _)| *arrives <= at).copied()
    };
    while let Some((arrives, leg)) = latest(0, at) {
        parts.held += at - arrives;
        parts.moving += leg.moving;
        (0..4).for_each(|place| parts.waits[place] += leg.waits[place]);
        parts.rounds += 1;
        parts.again |= leg.again;
        parts.coded |= leg.kind == Kind::Extra;
        at = leg.sent;
        if at <= start {
            break;
        }
        let (before, ack) = latest(1, at).map_or((start, None), |(arrives, ack)| (arrives, Some(ack)));
        let gap = at - before.min(at);
        if leg.kind == Kind::Extra {
            parts.unit += gap
        } else {
            parts.timeout += gap
        }
        let Some(ack) = ack else { break };
        parts.moving += ack.moving;
        parts.ack_waits += ack.waits.iter().sum::<u64>();
        at = ack.sent;
    }
    parts
}

const SHORT: u64 = 100_000;

/// Taps every port.
fn follow(sim: &mut Sim, topology: &Topology, network: &LeafSpine, flows: &[FlowSpec]) -> Arc<Mutex<Log>> {
    // A flow's connection has its number, as flows begin in their order.
    let history = |flow: &FlowSpec| (flow.bytes < SHORT).then(History::default);
    let log = Arc::new(Mutex::new(Log { flows: flows.iter().map(history).collect(), ..Log::default() }));
    let mut tap = |id: PortId, place: Place, line: Line| {
        let (log, mut port) = (Arc::clone(&log), Port { place, line, free_at: 0 });
        let see = move |now: Instant, packet: &Packet<Segment>| {
            log.lock().expect("one thread").see(&mut port, now.as_nanos(), packet);
        };
        sim.fabric().add_tap(id, Box::new(see));
    };
    for (link, ends) in topology.ends() {
        let (there, back) = match ends {
            (Node::Host(_), _) => ((Place::Sender, network.up), (Place::ToReceiver, network.down)),
            _ => ((Place::ToSpine, network.fabric), (Place::ToLeaf, network.fabric)),
        };
        tap(link.forward(), there.0, there.1);
        tap(link.backward(), back.0, back.1);
    }
    log
}

/// The parts of every short flow, by completion time.
fn simulate(
    scheme: SchemeKind,
    balancing: Balancing,
    load: f64,
    flows: usize,
) -> Vec<(FlowRecord, Parts, u32)> {
    let network = htpc_fabric::network();
    let topology = network.build();
    let mut sim =
        Sim::new(&topology, &Options { balancing, ..Options::default() }).expect("a sound topology");
    // As in the plans: ns-2 has no Early Retransmit (HTPC-A17).
    let tcp = Tcp { receive_window: 256, early_retransmit: false, ..Tcp::default() };
    let profile = sim.add_profile(Profile { tcp, scheme });
    let flows = htpc_fabric::traffic(&network, load, flows);
    sim.add_flows(profile, &flows).expect("hosts exist");
    let log = follow(&mut sim, &topology, &network, &flows);
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(1_000)).expect("within limits");

    let mut log = log.lock().expect("one thread");
    let lost: Vec<u32> = log.under_way.keys().map(|key| key.1).collect();
    for conn in lost {
        if let Some(Some(history)) = log.flows.get_mut(conn as usize) {
            history.dropped += 1;
        }
    }
    let mut found = Vec::new();
    for (record, history) in sim.flows().iter().zip(&mut log.flows) {
        let Some(history) = history else { continue };
        history.arrived.iter_mut().for_each(|way| way.sort_by_key(|(arrives, _)| *arrives));
        if record.completion_time().is_some() {
            found.push((*record, walk(history, record), history.dropped));
        }
    }
    found.sort_by_key(|(record, ..)| record.completion_time());
    found
}

/// A line of the table: means over the flows from one share of the ranks to another.
fn line(name: &str, flows: &[(FlowRecord, Parts, u32)], shares: (f64, f64)) {
    let rank = |share: f64| ((share * flows.len() as f64) as usize).min(flows.len());
    let band = &flows[rank(shares.0)..rank(shares.1)];
    let count = band.len().max(1) as f64;
    let ms = |of: &dyn Fn(&(FlowRecord, Parts, u32)) -> u64| {
        band.iter().map(|flow| of(flow) as f64).sum::<f64>() / count / 1e6
    };
    let share = |of: &dyn Fn(&(FlowRecord, Parts, u32)) -> bool| {
        band.iter().filter(|flow| of(flow)).count() as f64 / count * 100.0
    };
    let wait = |place: Place| ms(&|flow| flow.1.waits[place as usize]);
    println!(
        "| {name} | {:.1}-{:.1} % | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} |",
        shares.0 * 100.0,
        shares.1 * 100.0,
        ms(&|flow| flow.0.completion_time().unwrap_or_default().as_nanos()),
        ms(&|flow| flow.1.moving),
        wait(Place::Sender),
        wait(Place::ToSpine),
        wait(Place::ToLeaf),
        wait(Place::ToReceiver),
        ms(&|flow| flow.1.ack_waits),
        ms(&|flow| flow.1.timeout),
        ms(&|flow| flow.1.unit),
        ms(&|flow| flow.1.held),
        ms(&|flow| flow.1.rounds) * 1e6,
        share(&|flow| flow.1.again),
        share(&|flow| flow.1.coded),
        share(&|flow| flow.2 > 0),
        share(&|flow| flow.0.timeouts > 0),
        ms(&|flow| flow.0.bytes) * 1e3,
    );
}

/// Prints the table.
pub fn run(Arguments { what }: &Arguments) {
    let (load, flows, schemes) = (what.load, what.flows(2_000), what.schemes());
    println!(
        "Short flows at load {load}, {flows} flows of all sizes. Means in ms over the flows of these ranks; shares in %.\n"
    );
    println!(
        "| scheme | ranks | completion | on the way | wait: sender | to spine | to leaf | to receiver | of ACKs | timeout | unit's timer | \
         held | rounds | retransmission on the way | coded packet on the way | lost a packet | timed out | KB |"
    );
    println!("|{}", " --- |".repeat(18));
    for (name, scheme, balancing) in schemes {
        let flows = simulate(scheme, balancing, load, flows);
        for shares in [(0.45, 0.55), (0.97, 0.99), (0.99, 1.0)] {
            line(name, &flows, shares);
        }
    }
}
