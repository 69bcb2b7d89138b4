//! What happened to single flows, packet by packet: the analysis of a tail.
//!
//! [`Sim::watch`](crate::Sim::watch) names the flows; [`Timelines`] has their events after the run,
//! and [`text`] prints them. Watching changes nothing: the trace is the same. A flow is watched on
//! every connection that carries it, from when it is written until all of it has arrived.

pub mod text;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use netsim::fabric::{Packet, PacketEvent, PortId};
use units::Instant;

use crate::{
    record::{FlowId, Totals},
    schemes::cofuso::Parity,
    segment::{COPIED, Kind, PARITY, Segment},
};

/// Most events that are kept of one flow; later ones are counted.
pub const MAX_EVENTS: usize = 1 << 15;

/// How a data packet came to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sending {
    /// For the first time.
    New,
    /// Once more on its own sub-flow: a retransmission, or Proactive's duplicate.
    Again,
    /// A copy of another sub-flow's packet.
    Copy,
    /// A coded packet.
    Parity {
        /// The sub-flow that it protects; of a layer below TCP its own.
        of: u8,
        /// First segment of its block, and how many there are; zeros if the scheme is not CoFUSO.
        block: (u32, u32),
    },
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The application wrote the flow.
    Written {
        /// How much.
        bytes: u64,
    },
    /// The opening of the sub-flow was sent.
    Opening,
    /// It was answered.
    Open,
    /// The sender sent a data packet.
    Sent {
        /// Its number on the sub-flow.
        seq: u32,
        /// Its number in the connection's data.
        dsn: u32,
        /// Why.
        how: Sending,
    },
    /// A data packet does not arrive.
    Lost {
        /// Its number on the sub-flow.
        seq: u32,
        /// The port that dropped it, or behind which a failure took it.
        port: PortId,
        /// The queue was full.
        dropped: bool,
    },
    /// An acknowledgement, or a packet of the handshake, does not arrive.
    ReplyLost {
        /// Everything below was acknowledged.
        seq: u32,
        /// As for data.
        port: PortId,
        /// As for data.
        dropped: bool,
    },
    /// An acknowledgement reached the sender.
    Acked {
        /// Everything below has arrived.
        seq: u32,
        /// SACK blocks: first included, last excluded. Unused ones are empty.
        blocks: [(u32, u32); 3],
    },
    /// The receiver got segments from a copy or a coded packet that it had not.
    Repaired {
        /// How many.
        segments: u64,
    },
    /// Fast recovery began.
    Recovery,
    /// The retransmission timer ran out.
    Timeout,
    /// A tail loss probe was sent.
    Probe,
    /// All of it has arrived.
    Finished,
}

/// When, and on which connection and sub-flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// The connection.
    pub conn: u32,
    /// The sub-flow.
    pub sub: u8,
    /// What.
    pub what: What,
}

/// A flow's events.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Timeline {
    /// In the order of their happening, at most [`MAX_EVENTS`].
    pub events: Vec<Event>,
    /// How many more there were.
    pub left_out: u64,
}

impl Timeline {
    /// Both, in the order of their happening: a request's and its response's.
    pub fn with(mut self, other: Self) -> Self {
        self.events.extend(other.events);
        self.events.sort_by_key(|event| event.at);
        Self { left_out: self.left_out + other.left_out, ..self }
    }
}

/// The timelines of the watched flows; clones are the same ones.
#[derive(Clone, Debug)]
pub struct Timelines(Arc<Mutex<Log>>);

impl Timelines {
    pub(crate) fn new(flows: &[FlowId]) -> Self {
        let wanted = flows.iter().map(|flow| flow.0).collect();
        Self(Arc::new(Mutex::new(Log { wanted, ..Log::default() })))
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a flow so far; empty if it is not watched.
    pub fn of(&self, flow: FlowId) -> Timeline {
        self.log().timelines.get(&flow.0).cloned().unwrap_or_default()
    }
}

/// What is being written down.
#[derive(Default, Debug)]
pub(crate) struct Log {
    wanted: BTreeSet<u32>,
    /// The watched flows that a connection carries now.
    carried: BTreeMap<u32, Vec<u32>>,
    /// The next new number of each sub-flow of such a connection.
    next: BTreeMap<(u32, u8), u32>,
    timelines: BTreeMap<u32, Timeline>,
    /// Sums when the connection began to act, and how long its timelines were.
    before: Totals,
    marks: Vec<(u32, usize)>,
}

impl Log {
    /// The application writes flow `record` on a connection whose sub-flows' next numbers are
    /// `next`.
    pub(crate) fn write(&mut self, at: Instant, conn: u32, record: u32, bytes: u64, next: &[u32]) {
        if !self.wanted.contains(&record) {
            return;
        }
        self.carried.entry(conn).or_default().push(record);
        for (sub, next) in (0..).zip(next) {
            self.next.insert((conn, sub), *next);
        }
        self.note(Event { at, conn, sub: 0, what: What::Written { bytes } });
    }

    /// All of flow `record` has arrived.
    pub(crate) fn finish(&mut self, at: Instant, record: u32) {
        let carriers: Vec<u32> =
            self.carried.iter().filter(|(_, all)| all.contains(&record)).map(|(conn, _)| *conn).collect();
        for conn in &carriers {
            self.note(Event { at, conn: *conn, sub: 0, what: What::Finished });
        }
        for conn in carriers {
            if let Some(all) = self.carried.get_mut(&conn) {
                all.retain(|other| *other != record);
                if all.is_empty() {
                    self.carried.remove(&conn);
                    self.next.retain(|(other, _), _| *other != conn);
                }
            }
        }
    }

    fn note(&mut self, event: Event) {
        for record in self.carried.get(&event.conn).into_iter().flatten() {
            push(self.timelines.entry(*record).or_default(), event);
        }
    }

    /// The network took a packet, or lost it.
    pub(crate) fn on_packet_event(&mut self, at: Instant, sight: PacketEvent, packet: &Packet<Segment>) {
        let body = &packet.body;
        let (conn, sub) = (body.conn, body.sub);
        if body.kind == Kind::Foreign || !self.carried.contains_key(&conn) {
            return;
        }
        let data = matches!(body.kind, Kind::Data | Kind::Extra);
        let what = match sight {
            PacketEvent::Sent if data => self.sent(body),
            PacketEvent::Sent if body.kind == Kind::Syn => What::Opening,
            PacketEvent::Sent => return,
            PacketEvent::Dropped(port) | PacketEvent::Lost(port) => {
                let (seq, dropped) = (body.seq, matches!(sight, PacketEvent::Dropped(_)));
                if data { What::Lost { seq, port, dropped } } else { What::ReplyLost { seq, port, dropped } }
            }
        };
        self.note(Event { at, conn, sub, what });
    }

    fn sent(&mut self, body: &Segment) -> What {
        let next = self.next.entry((body.conn, body.sub)).or_default();
        let again = body.kind == Kind::Data && body.seq < *next;
        if body.kind == Kind::Data {
            *next = (*next).max(body.seq + 1);
        }
        let how = if again {
            Sending::Again
        } else if body.has(PARITY) {
            let parity: Parity = body.header();
            Sending::Parity { of: parity.sub as u8, block: (parity.first, parity.k.into()) }
        } else if body.kind == Kind::Extra {
            Sending::Parity { of: body.sub, block: (0, 0) }
        } else if body.has(COPIED) {
            Sending::Copy
        } else {
            Sending::New
        };
        What::Sent { seq: body.seq, dsn: body.dsn, how }
    }

    /// A packet reached a host of a connection, which is about to act on it.
    pub(crate) fn on_arrival(&mut self, at: Instant, body: &Segment) {
        let what = match body.kind {
            Kind::Ack => {
                let mut blocks = [(0, 0); 3];
                blocks.iter_mut().zip(body.sack_blocks()).for_each(|(to, block)| *to = block);
                What::Acked { seq: body.seq, blocks }
            }
            Kind::SynAck => What::Open,
            _ => return,
        };
        self.note(Event { at, conn: body.conn, sub: body.sub, what });
    }

    /// A connection is about to act: what it counts belongs before what it sends.
    pub(crate) fn begin(&mut self, conn: u32, totals: &Totals) {
        self.before = *totals;
        self.marks.clear();
        for record in self.carried.get(&conn).into_iter().flatten() {
            self.marks
                .push((*record, self.timelines.get(record).map_or(0, |timeline| timeline.events.len())));
        }
    }

    /// It has acted.
    pub(crate) fn end(&mut self, at: Instant, conn: u32, sub: u8, totals: &Totals) {
        let grown = |of: fn(&Totals) -> u64| of(totals) - of(&self.before);
        let segments = grown(|totals| totals.repaired);
        let counted = [
            (segments, What::Repaired { segments }),
            (grown(|totals| totals.recoveries), What::Recovery),
            (grown(|totals| totals.timeouts), What::Timeout),
            (grown(|totals| totals.probes), What::Probe),
        ];
        for (_, what) in counted.into_iter().filter(|(count, _)| *count > 0) {
            for (record, mark) in &mut self.marks {
                let timeline = self.timelines.entry(*record).or_default();
                if timeline.events.len() >= MAX_EVENTS {
                    timeline.left_out += 1;
                } else {
                    timeline.events.insert(*mark, Event { at, conn, sub, what });
                    *mark += 1;
                }
            }
        }
    }
}

fn push(timeline: &mut Timeline, event: Event) {
    if timeline.events.len() >= MAX_EVENTS {
        timeline.left_out += 1;
    } else {
        timeline.events.push(event);
    }
}
