//! CTCP: a transport of its own beside TCP, in blocks of random linear combinations instead of retransmissions.
//!
//! CTCP sections 3 and 4. What to send is decided by `recovery::ctcp_blocks`, how much by the controller `ctcp` of the crate `congestion`, and
//! p is `recovery::ctcp_loss`: the transport's own parts. Degrees of freedom are those of `fec`'s code for what really arrived.
//!
//! | paper                   | here                                              |
//! |-------------------------|---------------------------------------------------|
//! | seqno                   | [`Segment::seq`] of a data packet                  |
//! | block number, seed      | `blocks[0].0`                                     |
//! | ack_seqno               | [`Segment::seq`] of an acknowledgement             |
//! | ack_currblk, ack_currdof| `blocks[0]` of an acknowledgement                  |
//! | tokens                  | the controller's window, less what is under way (CTCP-A6) |
//! | T(seqno)                | travels with the packet and returns                |
//!
//! # Departures
//! - RTO = max(minimum, sRTT + 4 rttvar) of [`Tcp`], from the last acknowledgement (CTCP-A14); after one nothing is under way (CTCP-A7).
//! - A gap is what the sender takes for lost at once; a late acknowledgement still brings its degree of freedom, by the receiver's report.
//! - There is no handshake: connections are open from the start, as TCP's are by default here.
//! - What is rebuilt is delivered as soon as it is known, not when its block is complete.
//!
//! # Bounds
//! The sender's blocks by [`Limits`]; the receiver keeps as many, and ignores packets of later ones.

mod receiver;
mod sender;

use std::sync::Arc;

use congestion::ControllerKind;
use netsim::fabric::{Class, Ecn, HostId, Packet};
use recovery::ctcp_blocks::Limits;
use units::{Duration, Instant};

use self::{receiver::Receiver, sender::Sender};
use crate::{
    Profile, Tcp,
    connection::{Message, scheme::Io},
    segment::{Kind, Segment},
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
        Profile { tcp: Self::tcp(), scheme: crate::SchemeKind::Ctcp(self) }
    }
}

/// Both ends of a CTCP connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) from: HostId,
    pub(crate) to: HostId,
    pub(crate) profile: Arc<Profile>,
    label: u32,
    sender: Sender,
    receiver: Receiver,
    /// What was written and has not arrived yet.
    messages: std::collections::VecDeque<Message>,
    last_record: u32,
    /// When the next event is set; [`Instant::MAX`] if none is.
    event_at: Instant,
    pub(crate) one_shot: bool,
    pub(crate) finished: bool,
}

impl Connection {
    pub(crate) fn new(
        from: HostId,
        to: HostId,
        profile: &Arc<Profile>,
        parameters: Ctcp,
        label: u32,
    ) -> Self {
        Self {
            from,
            to,
            profile: profile.clone(),
            label,
            sender: Sender::new(&profile.tcp, parameters),
            receiver: Receiver::new(parameters.limits),
            messages: std::collections::VecDeque::new(),
            last_record: u32::MAX,
            event_at: Instant::MAX,
            one_shot: false,
            finished: false,
        }
    }

    /// The application writes `bytes` (at least 1), remembered as record `record`.
    pub(crate) fn write(&mut self, io: &mut Io<'_>, bytes: u64, record: u32) {
        let packets = bytes.max(1).div_ceil(u64::from(self.profile.tcp.mss));
        let end = self.sender.add(u32::try_from(packets).unwrap_or(u32::MAX));
        self.messages.push_back(Message { end, tail: 0, record });
        self.last_record = record;
        self.push(io);
    }

    /// Packets of data that the receiver has without a hole.
    pub(crate) fn delivered(&self) -> u32 {
        self.receiver.delivered()
    }

    /// Tokens in whole packets.
    pub(crate) fn window(&self) -> u32 {
        self.sender.window()
    }

    /// Sends what the tokens allow and the blocks need.
    fn push(&mut self, io: &mut Io<'_>) {
        let now = io.now();
        while let Some(body) = self.sender.next(&self.profile.tcp, now) {
            let payload = self.profile.tcp.mss; // shorter ones are padded
            let body = Segment { conn: io.conn, payload, ..body };
            let size = u32::from(payload) + u32::from(self.profile.tcp.header);
            self.count(io, size, sender::is_coded(&body));
            let (src, dst, label) = (self.from, self.to, self.label);
            let (ecn, class) = (Ecn::NotCapable, Class::Data);
            io.send(Packet { src, dst, label, size, ecn, class, body }, self.sender.window());
        }
        self.arm(io);
    }

    fn count(&self, io: &mut Io<'_>, size: u32, coded: bool) {
        io.totals.packets += 1;
        io.totals.bytes += u64::from(size);
        io.totals.parities += u64::from(coded);
        io.totals.extra_bytes += if coded { u64::from(size) } else { 0 };
        let record = self.messages.front().map_or(self.last_record, |message| message.record);
        if let Some(record) = io.record(record) {
            record.packets += 1;
            record.extra += u32::from(coded);
        }
    }

    /// A packet of this connection reached the host that it was for.
    pub(crate) fn receive(&mut self, io: &mut Io<'_>, packet: &Packet<Segment>) {
        if packet.body.kind == Kind::Ack {
            self.sender.on_ack(&self.profile.tcp, io.now(), &packet.body);
            self.finished = self.one_shot && self.sender.is_idle();
            return self.push(io);
        }
        let repaired = self.receiver.on_packet(&packet.body);
        io.totals.repaired += u64::from(repaired);
        io.totals.useful += u64::from(repaired > 0);
        while let Some(message) = self.messages.front().filter(|m| m.end <= self.receiver.delivered()) {
            io.finish(message.record);
            self.messages.pop_front();
        }
        let body = Segment { conn: io.conn, ..self.receiver.acknowledge(&packet.body) };
        let size = u32::from(self.profile.tcp.header);
        let (src, dst, label) = (self.to, self.from, self.label);
        io.send(Packet { src, dst, label, size, ecn: Ecn::NotCapable, class: Class::Control, body }, 0);
    }

    /// The event is due. It may be one that no deadline belongs to any more.
    pub(crate) fn on_timer(&mut self, io: &mut Io<'_>) {
        let now = io.now();
        if self.event_at != now {
            return;
        }
        self.event_at = Instant::MAX;
        if self.sender.on_deadline(&self.profile.tcp, now) {
            io.totals.timeouts += 1;
            let record = self.messages.front().map_or(self.last_record, |message| message.record);
            if let Some(record) = io.record(record) {
                record.timeouts += 1;
            }
        }
        self.push(io);
    }

    /// Sets the event of the next deadline, unless an earlier one is set: that one will look again.
    fn arm(&mut self, io: &mut Io<'_>) {
        // A deadline that is past and changed nothing must not come back at the same moment.
        let deadline = self.sender.deadline().max(io.now() + Duration::from_nanos(1));
        if deadline < self.event_at {
            self.event_at = deadline;
            io.set_sub_timer(deadline, 0);
        }
    }
}
