//! NDP: a transport of its own beside TCP, for switches that trim packets instead of dropping them
//! (Handley et al., "Re-architecting datacenter networks and stacks for low latency and high
//! performance", SIGCOMM 2017).
//!
//! A sender pushes a first window at the rate of its line, without handshake, each packet over
//! another path. Its receiver answers whatever arrives, a packet by an ACK and a header that lost
//! its payload by a NACK, and puts a PULL for each into a queue that all its connections share.
//! PULLs leave at the pace at which full packets would fill the receiver's line, from one
//! connection after the other. A sender answers each by a packet: first what was NACKed, then new
//! data. So after the first window as much is sent as the receiver can take, and a loss is known
//! within a round trip.
//!
//! | paper                                     | here                                     |
//! |-------------------------------------------|------------------------------------------|
//! | trimming, two queues in switches          | [`netsim::fabric::trim`]                 |
//! | initial window                            | [`Ndp::window`]                          |
//! | packets sprayed in a random permutation of the paths | `Paths`: the last four bits of a label |
//! | pull queue of a host, its pacer           | `transport::pulls`                       |
//! | PULL numbers, which count up              | `transport::pulls::Answer`               |
//! | the last packet says that it is           | [`PSH`]                                  |
//!
//! # Departures, and what the paper leaves open
//! - A header that finds a full queue is dropped, not returned to its sender; a timeout finds it.
//!   The paper's timeout may be as short as a millisecond since next to nothing needs it; this one is
//!   that of [`Tcp`], from when a packet leaves the host, which knows its own queue.
//! - A PULL that gets lost is made good by the next one's number. If all do, or those that a host had
//!   dropped were for data that came later, the sender sends one packet by itself after a timeout of
//!   silence, and again after twice as long.
//! - On a connection that has carried everything, what is written later is pushed as at its
//!   beginning, up to a full first window: its receiver has dropped its PULLs. What is written before
//!   that has the tokens that are left.
//! - A sender keeps PULLs that it has nothing for until there is something: PULLs may overtake
//!   NACKs.
//! - A packet, or header, of what has arrived before is acknowledged and brings no PULL.
//! - All connections have one priority.
//! - Which path a label takes is the switches' matter: with the balancing `sub-flow` and as many
//!   paths as there are, it is the paper's source routing; with `ecmp`, a hash.
//!
//! # Bounds
//! The PULLs that wait for a connection by its window, so those of a host by that and its number of
//! connections ([`Totals::most_pulls`](crate::Totals::most_pulls)); what is under way likewise, but
//! for what timeouts add.

mod receiver;
mod sender;

use netsim::fabric::{Class, Packet};
use units::{BitRate, Duration, Instant};

use self::{
    receiver::{Arrived, Receiver},
    sender::{Sender, Sending},
};
use crate::{
    Profile, SchemeKind, Tcp,
    record::FlowId,
    segment::{Kind, PSH, Segment},
    transport::{
        Alarm, Direction, Endpoints, Io, Protocol, Timer, Transport, Written,
        pulls::{self, Answer},
    },
};

/// Most paths: those that four bits of a label tell apart.
pub const MAX_PATHS: u8 = 16;

/// Parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ndp {
    /// Packets of the first window; at least 1. It should fill a round trip. Default 24: 280 us at
    /// 1 Gbit/s (FUSO's testbed).
    pub window: u32,
    /// Paths over which packets are sprayed, 1 to [`MAX_PATHS`]. Default 16.
    pub paths: u8,
}

impl Default for Ndp {
    fn default() -> Self {
        Self { window: 24, paths: MAX_PATHS }
    }
}

impl Ndp {
    /// A profile with TCP's sizes and timers as far as NDP has them.
    pub fn profile(self, tcp: Tcp) -> Profile {
        Profile { tcp, scheme: SchemeKind::transport(self) }
    }
}

impl Protocol for Ndp {
    fn name(&self) -> &'static str {
        "ndp"
    }

    fn connect(&self, ends: Endpoints) -> Box<dyn Transport> {
        let parameters = Self { window: self.window.max(1), paths: self.paths.clamp(1, MAX_PATHS) };
        Box::new(Connection {
            sender: Sender::new(parameters.window, parameters.paths, ends.conn),
            receiver: Receiver::default(),
            parameters,
            ends,
            written: Written::default(),
            alarm: Alarm::default(),
        })
    }
}

/// Both ends of an NDP connection.
#[derive(Debug)]
struct Connection {
    ends: Endpoints,
    sender: Sender,
    receiver: Receiver,
    parameters: Ndp,
    written: Written,
    alarm: Alarm,
}

impl Connection {
    /// A packet of a class, on the path that the last bits of its label name.
    fn packet(&self, direction: Direction, class: Class, body: Segment, path: u8) -> Packet<Segment> {
        let packet = self.ends.packet(direction, class, body);
        Packet { label: packet.label | u32::from(path), ..packet }
    }

    /// Sends what the tokens allow.
    fn push(&mut self, io: &mut Io<'_>) {
        while let Some(sending) = self.sender.next() {
            self.transmit(io, sending);
        }
        self.arm(io);
    }

    fn transmit(&mut self, io: &mut Io<'_>, sending: Sending) {
        let Sending { seq, tail, again, path } = sending;
        let payload = tail.unwrap_or(self.ends.tcp.mss);
        let flags = if tail.is_some() { PSH } else { 0 };
        let body = Segment { kind: Kind::Data, seq, dsn: seq, payload, flags, ..Segment::default() };
        let packet = self.packet(Direction::ToReceiver, Class::Trimmable, body, path);
        self.count(io, packet.size, again);
        let leaves = self.leaves(io, packet.size);
        io.send(packet, self.parameters.window);
        self.sender.on_sent(seq, leaves, again);
    }

    /// When the last bit of a packet of `size` bytes leaves that is handed to this host's port now.
    fn leaves(&self, io: &mut Io<'_>, size: u32) -> Instant {
        let rate = io.fabric.line_rate(self.ends.from).unwrap_or(BitRate(0));
        let port = io.fabric.uplink(self.ends.from);
        let (_, waiting) = port.and_then(|port| io.fabric.waiting(port)).unwrap_or_default();
        io.now() + rate.time_to_send(waiting + u64::from(size))
    }

    fn count(&self, io: &mut Io<'_>, size: u32, again: bool) {
        io.totals().packets += 1;
        io.totals().bytes += u64::from(size);
        io.totals().retransmissions += u64::from(again);
        if let Some(record) = io.record(self.written.oldest()) {
            record.packets += 1;
            record.retransmissions += u32::from(again);
        }
    }

    /// Sets the event of the next deadline.
    fn arm(&mut self, io: &mut Io<'_>) {
        // A deadline that is past and changed nothing must not come back at the same moment.
        let deadline = self.sender.deadline(&self.ends.tcp).max(io.now() + Duration::from_nanos(1));
        self.alarm.set(io, deadline, Timer::Subflow(0));
    }

    /// Something of this connection's data reached the receiver: `header` if only that.
    fn on_data(&mut self, io: &mut Io<'_>, packet: &Packet<Segment>, header: bool) {
        let body = &packet.body;
        let last = body.has(PSH);
        let arrived = if header {
            self.receiver.on_header(body.seq, last)
        } else {
            self.receiver.on_packet(body.seq, last)
        };
        io.totals().duplicates += u64::from(arrived == Arrived::Before && !header);
        self.written.on_delivered(io, self.receiver.delivered());
        let path = (packet.label & 15) as u8;
        let is_missing = arrived == Arrived::HeaderOnly;
        let answer = if is_missing {
            Answer::Nack { seq: body.seq }
        } else {
            Answer::Ack { seq: body.seq, complete: self.receiver.is_complete() }
        };
        self.answer(io, answer, path);
        if self.receiver.is_complete() {
            let dropped = io.books.pulls.forget(self.ends.to, self.ends.conn);
            self.receiver.unpull(dropped);
        } else if arrived != Arrived::Before {
            self.pull(io);
        }
    }

    fn answer(&self, io: &mut Io<'_>, answer: Answer, path: u8) {
        let seq = self.receiver.delivered();
        let body = Segment { kind: Kind::Ack, seq, dsn: seq, ..Segment::default() }.with(&answer);
        io.send(self.packet(Direction::ToSender, Class::Header, body, path), 0);
    }

    /// Puts a PULL into the host's queue.
    fn pull(&mut self, io: &mut Io<'_>) {
        let tcp = &self.ends.tcp;
        let rate = io.fabric.line_rate(self.ends.to).unwrap_or(BitRate(0));
        let spacing = rate.time_to_send(u64::from(tcp.mss) + u64::from(tcp.header));
        let body = Segment { kind: Kind::Ack, ..Segment::default() };
        let packet = self.ends.packet(Direction::ToSender, Class::Header, body);
        let (fabric, books) = (&mut *io.fabric, &mut *io.books);
        let number = self.receiver.pulled();
        let terms =
            pulls::Terms { number, spacing, limit: self.parameters.window, paths: self.parameters.paths };
        if books.pulls.add(fabric, &packet, terms) {
            self.receiver.pull();
        }
        books.totals.most_pulls = books.totals.most_pulls.max(books.pulls.most());
    }

    fn on_answer(&mut self, io: &mut Io<'_>, body: &Segment) {
        let now = io.now();
        match body.header() {
            Answer::Ack { seq, complete } => self.sender.on_ack(now, seq, complete),
            Answer::Nack { seq } => self.sender.on_nack(now, seq),
            Answer::Pull { number } => self.sender.on_pull(now, number),
        }
        if self.ends.ends_with_its_flow() && self.sender.is_idle() {
            return io.close();
        }
        self.push(io);
    }
}

impl Transport for Connection {
    fn endpoints(&self) -> &Endpoints {
        &self.ends
    }

    fn write(&mut self, io: &mut Io<'_>, bytes: u64, flow: FlowId) {
        let mss = u64::from(self.ends.tcp.mss);
        let packets = u32::try_from(bytes.max(1).div_ceil(mss)).unwrap_or(u32::MAX);
        let tail = (bytes.max(1) - 1) % mss + 1;
        let end = self.sender.write(io.now(), packets, tail as u16);
        self.written.push(end, flow);
        self.push(io);
    }

    fn on_packet(&mut self, io: &mut Io<'_>, packet: &Packet<Segment>) {
        match packet.body.kind {
            Kind::Ack => self.on_answer(io, &packet.body),
            _ => self.on_data(io, packet, packet.class == Class::Header),
        }
    }

    fn on_timer(&mut self, io: &mut Io<'_>, _timer: Timer) {
        let now = io.now();
        if !self.alarm.rings(now) {
            return;
        }
        if let Some(sending) = self.sender.on_deadline(&self.ends.tcp, now) {
            io.totals().timeouts += 1;
            if let Some(record) = io.record(self.written.oldest()) {
                record.timeouts += 1;
            }
            self.transmit(io, sending);
        }
        self.push(io);
    }

    fn delivered(&self) -> u32 {
        self.receiver.delivered()
    }

    /// Packets that may be sent without a PULL.
    fn window(&self) -> u32 {
        self.sender.tokens()
    }

    fn next_numbers(&self) -> Vec<u32> {
        vec![self.sender.next_number()]
    }
}
