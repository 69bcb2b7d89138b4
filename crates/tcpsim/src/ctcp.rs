//! CTCP: a transport of its own beside TCP, in blocks of random linear combinations instead of
//! retransmissions.
//!
//! CTCP sections 3 and 4. What to send is decided by `recovery::ctcp_blocks`, how much by the
//! controller `ctcp` of the crate `congestion`, and p is `recovery::ctcp_loss`: the transport's own
//! parts. Degrees of freedom are those of `fec`'s code for what really arrived.
//!
//! | paper                   | here                                              |
//! |-------------------------|---------------------------------------------------|
//! | seqno                   | [`Segment::seq`] of a data packet                  |
//! | block number, seed      | `header::Data`                                    |
//! | ack_seqno               | [`Segment::seq`] of an acknowledgement             |
//! | ack_currblk, ack_currdof| `header::Acknowledgement`                          |
//! | tokens                  | the controller's window, less what is under way (CTCP-A6) |
//! | T(seqno)                | travels with the packet and returns                |
//!
//! # Departures
//! - RTO = max(minimum, sRTT + 4 rttvar) of [`Tcp`], from the last acknowledgement (CTCP-A14);
//!   after one nothing is under way (CTCP-A7).
//! - A gap is what the sender takes for lost at once; a late acknowledgement still brings its
//!   degree of freedom, by the receiver's report.
//! - There is no handshake: connections are open from the start, as TCP's are by default here.
//! - What is rebuilt is delivered as soon as it is known, not when its block is complete.
//!
//! # Bounds
//! The sender's blocks by [`Limits`]; the receiver keeps as many, and ignores packets of later
//! ones.

mod header;
mod receiver;
mod sender;

use congestion::ControllerKind;
use netsim::fabric::{Class, Packet};
use recovery::ctcp_blocks::Limits;
use units::Duration;

use self::{header::Symbol, receiver::Receiver, sender::Sender};
use crate::{
    Profile, SchemeKind, Tcp,
    record::FlowId,
    segment::{Kind, Segment},
    transport::{Alarm, Direction, Endpoints, Io, Protocol, Timer, Transport, Written},
};

/// Parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ctcp {
    /// Blocks: their size, and how many.
    pub limits: Limits,
    /// Weight of one packet in the loss average. Default 1/128 (CTCP-A14).
    pub mu: f64,
    /// Congestion control. Default `ctcp`.
    pub controller: ControllerKind,
}

impl Default for Ctcp {
    fn default() -> Self {
        Self { limits: Limits::default(), mu: recovery::ctcp_loss::MU, controller: ControllerKind::Ctcp }
    }
}

impl Ctcp {
    /// TCP's parameters as far as CTCP has them: 8 tokens to begin with, Linux's timers (CTCP-A14).
    pub fn tcp() -> Tcp {
        Tcp { initial_window: 8, ..Tcp::default() }
    }

    /// A profile.
    pub fn profile(self) -> Profile {
        Profile { tcp: Self::tcp(), scheme: SchemeKind::transport(self) }
    }
}

impl Protocol for Ctcp {
    fn name(&self) -> &'static str {
        "ctcp"
    }

    fn connect(&self, ends: Endpoints) -> Box<dyn Transport> {
        Box::new(Connection {
            sender: Sender::new(&ends.tcp, *self),
            receiver: Receiver::new(self.limits),
            ends,
            written: Written::default(),
            alarm: Alarm::default(),
        })
    }
}

/// Both ends of a CTCP connection.
#[derive(Debug)]
struct Connection {
    ends: Endpoints,
    sender: Sender,
    receiver: Receiver,
    written: Written,
    alarm: Alarm,
}

impl Connection {
    /// Sends what the tokens allow and the blocks need.
    fn push(&mut self, io: &mut Io<'_>) {
        let now = io.now();
        while let Some((body, header)) = self.sender.next(&self.ends.tcp, now) {
            let payload = self.ends.tcp.mss; // shorter ones are padded
            let body = Segment { payload, ..body };
            let packet = self.ends.packet(Direction::ToReceiver, Class::Data, body);
            self.count(io, packet.size, matches!(header.symbol, Symbol::Coded { .. }));
            io.send(packet, self.sender.window());
        }
        self.arm(io);
    }

    fn count(&self, io: &mut Io<'_>, size: u32, coded: bool) {
        io.totals().packets += 1;
        io.totals().bytes += u64::from(size);
        io.totals().parities += u64::from(coded);
        io.totals().extra_bytes += if coded { u64::from(size) } else { 0 };
        if let Some(record) = io.record(self.written.oldest()) {
            record.packets += 1;
            record.extra += u32::from(coded);
        }
    }

    /// Sets the event of the next deadline.
    fn arm(&mut self, io: &mut Io<'_>) {
        // A deadline that is past and changed nothing must not come back at the same moment.
        let deadline = self.sender.deadline().max(io.now() + Duration::from_nanos(1));
        self.alarm.set(io, deadline, Timer::Subflow(0));
    }
}

impl Transport for Connection {
    fn endpoints(&self) -> &Endpoints {
        &self.ends
    }

    fn write(&mut self, io: &mut Io<'_>, bytes: u64, flow: FlowId) {
        let packets = bytes.max(1).div_ceil(u64::from(self.ends.tcp.mss));
        let end = self.sender.add(u32::try_from(packets).unwrap_or(u32::MAX));
        self.written.push(end, flow);
        self.push(io);
    }

    fn on_packet(&mut self, io: &mut Io<'_>, packet: &Packet<Segment>) {
        if packet.body.kind == Kind::Ack {
            self.sender.on_ack(&self.ends.tcp, io.now(), &packet.body);
            if self.ends.ends_with_its_flow() && self.sender.is_idle() {
                io.close();
            }
            return self.push(io);
        }
        let repaired = self.receiver.on_packet(&packet.body);
        io.totals().repaired += u64::from(repaired);
        io.totals().useful += u64::from(repaired > 0);
        self.written.on_delivered(io, self.receiver.delivered());
        let body = self.receiver.acknowledge(&packet.body);
        io.send(self.ends.packet(Direction::ToSender, Class::Control, body), 0);
    }

    fn on_timer(&mut self, io: &mut Io<'_>, _timer: Timer) {
        let now = io.now();
        if !self.alarm.rings(now) {
            return;
        }
        if self.sender.on_deadline(&self.ends.tcp, now) {
            io.totals().timeouts += 1;
            if let Some(record) = io.record(self.written.oldest()) {
                record.timeouts += 1;
            }
        }
        self.push(io);
    }

    /// Padded packets included.
    fn delivered(&self) -> u32 {
        self.receiver.delivered()
    }

    /// Tokens in whole packets.
    fn window(&self) -> u32 {
        self.sender.window()
    }
}
