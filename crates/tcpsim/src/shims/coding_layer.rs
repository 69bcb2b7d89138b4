//! A coding layer between TCP and IP: random linear combinations over units of one window of source
//! packets.
//!
//! HTPC, "Design overview" and "Redundancy adjustment".
//!
//! | paper                 | here                                          |
//! |-----------------------|-----------------------------------------------|
//! | encoding buffer       | none: a combination is named, not computed     |
//! | coding unit, k = w_c  | a run of new packets, [`Unit`]                |
//! | r                     | [`Rule::coded`]                               |
//! | flag bit of coded packets | [`Kind::Extra`]                           |
//! | network state from RTTs | [`NetworkState`], by the layer's own time stamps |
//!
//! # Departures
//! - A unit takes its size from the window at its first packet, and ends early with a write, or
//!   after one average RTT (HTPC-A8). It has at most 255 packets, the code's limit.
//! - Retransmissions pass uncoded; coded packets ignore TCP's window (HTPC-A9).
//! - A stamp of a packet's sending time travels with it and returns with the acknowledgement that
//!   it causes, less what the receiving end held the packet; like all of the layer's header it
//!   takes no bytes here.
//! - The average RTT for which the receiving end holds packets, if it does (HTPC-A10), is the
//!   sending end's, which alone has samples; it travels with source packets. Until the first that
//!   has one, the receiving end holds for 1 ms.
//! - SYN and pure ACKs pass as they are; FIN is on the last data packet, which is coded.

use netsim::fabric::{Class, Ecn, Packet};
use recovery::htpc_state::{NetworkState, Sampling};
use units::{Duration, Instant};

use super::{
    header::{Coded, Source, Stamp},
    order::Order,
    unit_decoder::UnitDecoder,
};
use crate::{
    record::FlowId,
    segment::{Kind, PSH, Segment},
    shim::Shim,
    transport::{Alarm, Io, Timer},
};

pub use super::order::Delivery;

/// What every coding layer has.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Common {
    /// How b and PL are measured.
    pub sampling: Sampling,
    /// When the receiving end hands packets up.
    pub delivery: Delivery,
    /// A unit stays open until it is full or a write ends, however long that takes (HTPC-A8).
    /// Default off.
    pub units_wait: bool,
    /// b is that of all flows that the host sends together, where the paper leaves open whose
    /// acknowledgements n counts. Default off: each flow its own.
    pub host_wide: bool,
}

/// A coding unit that is complete, as a rule sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unit {
    /// k: its source packets, at least 1.
    pub packets: u32,
    /// D: bytes that the flow's application had sent before it, without repetitions.
    pub sent_before: u64,
    /// Bytes of the flow's whole message.
    pub flow_bytes: u64,
    /// b.
    pub blocking: f64,
}

/// What tells one coding layer from another.
pub trait Rule: Send + std::fmt::Debug {
    /// r: how many coded packets follow a unit.
    fn coded(&mut self, unit: &Unit) -> u32;

    /// How packets of a flow of this size are marked for switches.
    fn class(&self, flow_bytes: u64) -> Class {
        let _ = flow_bytes;
        Class::Data
    }
}

/// The unit that is being sent.
#[derive(Clone, Copy, Debug)]
struct OpenUnit {
    first: u32,
    packets: u32,
    /// k, from the window.
    full: u32,
    sent_before: u64,
    /// When it closes in any case.
    until: Instant,
    /// Its largest packet: what a coded one looks like.
    model: Packet<Segment>,
}

/// Both ends.
#[derive(Debug)]
pub(super) struct CodingLayer<R> {
    rule: R,
    state: NetworkState,
    common: Common,
    flow_bytes: u64,
    flow: FlowId,
    /// The next number that was never sent.
    next: u32,
    sent: u64,
    unit: Option<OpenUnit>,
    decoder: UnitDecoder,
    order: Order,
    /// The average RTT that the sending end told last, zero if none.
    told_rtt: Duration,
    /// The stamp that the next acknowledgement returns.
    echo: Stamp,
    /// Rings when a hole is given up.
    alarm: Alarm,
    rebuilt: Vec<u32>,
    released: Vec<super::order::Released>,
}

/// How long a hole is waited for before the sending end has told an average RTT.
const UNKNOWN_RTT: Duration = Duration::from_millis(1);

impl<R: Rule> CodingLayer<R> {
    pub(super) fn new(common: Common, rule: R) -> Self {
        Self {
            rule,
            state: NetworkState::new(common.sampling),
            common,
            flow_bytes: 0,
            flow: FlowId::NONE,
            next: 0,
            sent: 0,
            unit: None,
            decoder: UnitDecoder::default(),
            order: Order::new(common.delivery),
            told_rtt: Duration::ZERO,
            echo: Stamp::default(),
            alarm: Alarm::default(),
            rebuilt: Vec::new(),
            released: Vec::new(),
        }
    }

    fn send_data(&mut self, io: &mut Io<'_>, mut packet: Packet<Segment>, window: u32) {
        let now = io.now();
        let again = packet.body.seq < self.next;
        self.state.on_sent(now, again);
        if self.common.host_wide {
            io.state_of(packet.src, self.common.sampling).on_sent(now, again);
        }
        packet.class = self.rule.class(self.flow_bytes);
        packet.body = packet.body.with(&Source { stamp: Stamp::at(now), mean_rtt: self.state.mean_rtt() });
        io.send(packet, window);
        if !again {
            self.next = packet.body.seq + 1;
            self.join_unit(io, &packet, window);
        }
    }

    /// A new packet joins the open unit, or opens one.
    fn join_unit(&mut self, io: &mut Io<'_>, packet: &Packet<Segment>, window: u32) {
        let now = io.now();
        let rtt = self.state.mean_rtt();
        let mut unit = self.unit.unwrap_or_else(|| {
            let until = if rtt.is_zero() || self.common.units_wait { Instant::MAX } else { now + rtt };
            io.set_timer(until, Timer::Layer);
            let full = window.clamp(1, fec::MAX_SOURCES as u32);
            let (first, sent_before) = (packet.body.seq, self.sent);
            OpenUnit { first, packets: 0, full, sent_before, until, model: *packet }
        });
        unit.packets += 1;
        if packet.size > unit.model.size {
            unit.model = *packet;
        }
        self.sent += u64::from(packet.body.payload);
        self.unit = Some(unit);
        if unit.packets >= unit.full || packet.body.has(PSH) {
            self.close_unit(io);
        }
    }

    /// The unit is complete: its coded packets follow.
    fn close_unit(&mut self, io: &mut Io<'_>) {
        let Some(unit) = self.unit.take() else { return };
        let now = io.now();
        let blocking = match self.common.host_wide {
            true => io.state_of(unit.model.src, self.common.sampling).blocking(now),
            false => self.state.blocking(now),
        };
        let OpenUnit { first, packets, sent_before, model, .. } = unit;
        let flow_bytes = self.flow_bytes;
        let coded = self.rule.coded(&Unit { packets, sent_before, flow_bytes, blocking });
        for index in 0..coded {
            let mut packet = model;
            packet.ecn = Ecn::NotCapable;
            packet.body = Segment {
                conn: io.connection(),
                payload: model.body.payload,
                kind: Kind::Extra,
                ..Segment::default()
            }
            .with(&Coded { first, end: first + packets, index, stamp: Stamp::at(now) });
            io.send_coded(packet, self.flow);
        }
    }

    /// A source packet arrived at the receiving end.
    fn receive_data(&mut self, io: &mut Io<'_>, packet: Packet<Segment>, up: &mut Vec<Packet<Segment>>) {
        let Source { stamp, mean_rtt } = packet.body.header();
        // One of the first window may come after others: it does not unsay what they told.
        if !mean_rtt.is_zero() {
            self.told_rtt = mean_rtt;
        }
        self.decoder.on_source(packet.body.seq, &mut self.rebuilt);
        let is_dropped = !self.order.arrive(io.now(), packet, &mut self.released);
        // TCP counts those that it sees.
        io.totals().duplicates += u64::from(is_dropped);
        self.hand_up(io, &packet, stamp, up);
    }

    fn receive_coded(&mut self, io: &mut Io<'_>, packet: Packet<Segment>, up: &mut Vec<Packet<Segment>>) {
        let Coded { first, end, index, stamp } = packet.body.header();
        self.decoder.on_coded(first, end, index, &mut self.rebuilt);
        self.hand_up(io, &packet, stamp, up);
    }

    /// How long a hole is waited for: one average RTT.
    fn hole_timeout(&self) -> Duration {
        if self.told_rtt.is_zero() { UNKNOWN_RTT } else { self.told_rtt }
    }

    /// Hands up what was rebuilt, as if it had come with `by` and its stamp, and what may go up in
    /// order.
    fn hand_up(
        &mut self,
        io: &mut Io<'_>,
        by: &Packet<Segment>,
        stamp: Stamp,
        up: &mut Vec<Packet<Segment>>,
    ) {
        let now = io.now();
        let mut rebuilt = std::mem::take(&mut self.rebuilt);
        for seq in rebuilt.drain(..) {
            io.count_repair(self.flow);
            let mut packet = *by;
            packet.body = Segment {
                conn: io.connection(),
                seq,
                dsn: seq,
                payload: by.body.payload,
                ..Segment::default()
            }
            .with(&stamp);
            self.order.arrive(now, packet, &mut self.released);
        }
        self.rebuilt = rebuilt;
        self.release(io, up);
    }

    /// Gives up holes whose time is over, and hands up all that may go. The alarm is set for the next
    /// one; if the average has grown when it rings, it is set again.
    fn release(&mut self, io: &mut Io<'_>, up: &mut Vec<Packet<Segment>>) {
        let timeout = self.hole_timeout();
        self.order.give_up(io.now(), timeout, &mut self.released);
        up.extend(self.released.drain(..).map(|(packet, waited)| with_delay(packet, waited)));
        if let Some(at) = self.order.deadline(timeout) {
            self.alarm.set(io, at, Timer::Layer);
        }
    }
}

/// The packet with a stamp that leaves the time it waited out of the RTT. What else its layer told
/// has been read.
fn with_delay(mut packet: Packet<Segment>, waited: Duration) -> Packet<Segment> {
    let stamp: Stamp = packet.body.header();
    packet.body = packet.body.with(&stamp.later_by(waited));
    packet
}

impl<R: Rule> Shim for CodingLayer<R> {
    fn on_write(&mut self, bytes: u64, flow: FlowId) {
        (self.flow_bytes, self.flow) = (bytes, flow);
    }

    fn on_send(&mut self, io: &mut Io<'_>, mut packet: Packet<Segment>, window: u32) {
        match packet.body.kind {
            Kind::Data => return self.send_data(io, packet, window),
            // With one sub-flow the data level's number repeats the sub-flow's: the stamp travels
            // in its place.
            Kind::Ack => packet.body.dsn = self.echo.0,
            Kind::Syn | Kind::SynAck | Kind::Extra | Kind::Foreign => {}
        }
        io.send(packet, window);
    }

    fn on_arrival(&mut self, io: &mut Io<'_>, mut packet: Packet<Segment>, up: &mut Vec<Packet<Segment>>) {
        match packet.body.kind {
            Kind::Data => self.receive_data(io, packet, up),
            Kind::Extra => self.receive_coded(io, packet, up),
            Kind::Ack => {
                let now = io.now();
                let rtt = Stamp(packet.body.dsn).age(now);
                self.state.on_ack(now, rtt);
                if self.common.host_wide {
                    io.state_of(packet.dst, self.common.sampling).on_ack(now, rtt);
                }
                packet.body.dsn = packet.body.seq;
                up.push(packet);
            }
            Kind::Syn | Kind::SynAck | Kind::Foreign => up.push(packet),
        }
    }

    fn on_deliver(&mut self, packet: &Packet<Segment>) {
        if packet.body.kind == Kind::Data {
            self.echo = packet.body.header();
        }
    }

    fn on_timer(&mut self, io: &mut Io<'_>, up: &mut Vec<Packet<Segment>>) {
        let now = io.now();
        if self.unit.is_some_and(|unit| unit.until <= now) {
            self.close_unit(io);
        }
        self.alarm.rings(now);
        self.release(io, up);
    }
}

#[cfg(test)]
mod tests {
    use netsim::fabric::{Fabric, Options, topology::Dumbbell};
    use units::BitRate;

    use super::*;
    use crate::{shims::PerWindow, transport::Books};

    /// A layer that delivers in order is at work at time 0.
    fn in_order(work: impl FnOnce(&mut CodingLayer<PerWindow>, &mut Io<'_>)) {
        let network = Dumbbell::new(1, BitRate::from_mbps(100), Duration::from_millis(10), 100).build();
        let mut fabric = Fabric::new(&network, &Options::default()).unwrap();
        let mut books = Books::default();
        let common = Common { delivery: Delivery::InOrder, ..Common::default() };
        let mut layer = CodingLayer::new(common, PerWindow::default());
        work(&mut layer, &mut Io::new(&mut fabric, &mut books, 0));
    }

    /// Source packets arrive; what goes up.
    fn arrive(
        layer: &mut CodingLayer<PerWindow>,
        io: &mut Io<'_>,
        seqs: &[u32],
        mean_rtt: Duration,
    ) -> Vec<u32> {
        let mut up = Vec::new();
        for &seq in seqs {
            let body =
                Segment { seq, ..Segment::default() }.with(&Source { stamp: Stamp::at(io.now()), mean_rtt });
            layer.on_arrival(io, Packet { body, ..Packet::default() }, &mut up);
        }
        up.iter().map(|packet| packet.body.seq).collect()
    }

    #[test]
    fn the_sending_end_tells_how_long_a_hole_is_waited_for() {
        in_order(|layer, io| {
            // What the sending end measures is not known at the other.
            layer.state.on_ack(io.now(), Duration::from_millis(50));
            assert!(arrive(layer, io, &[1], Duration::ZERO).is_empty());
            assert_eq!(layer.hole_timeout(), UNKNOWN_RTT);
            let told = Duration::from_micros(2_560);
            assert!(arrive(layer, io, &[3], told).is_empty());
            assert_eq!(layer.hole_timeout(), told);
            assert_eq!(arrive(layer, io, &[0], Duration::ZERO), [0, 1]);
            assert_eq!(layer.hole_timeout(), told);
        });
    }

    #[test]
    fn a_second_copy_of_what_waits_counts_as_a_duplicate_and_goes_no_further() {
        in_order(|layer, io| {
            assert_eq!(arrive(layer, io, &[2, 2, 1, 0, 1], Duration::ZERO), [0, 1, 2, 1]);
            // The last went up to TCP, which counts it.
            assert_eq!(io.totals().duplicates, 1);
        });
    }
}
