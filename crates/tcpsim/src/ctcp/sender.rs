//! CTCP's sending end: Algorithms 1 to 3 put together.

use std::collections::BTreeMap;

use congestion::{Ack, Config, Controller, Loss, Rtt};
use recovery::{
    PacketNumber, PathId,
    ctcp_blocks::{BlockSchedule, Packet},
    ctcp_loss::{Acked, ShortTermLoss},
};
use units::Instant;

use super::{
    Ctcp,
    header::{Acknowledgement, Data, Symbol},
};
use crate::{Tcp, rtt::RttEstimator, segment::Segment};

/// The only path.
const PATH: PathId = PathId(0);

#[derive(Debug)]
pub(super) struct Sender {
    mss: u64,
    schedule: BlockSchedule,
    loss: ShortTermLoss,
    controller: Box<dyn Controller>,
    rtt: RttEstimator,
    /// seqno_nxt.
    next: u32,
    /// Packets of data that were sent once, and that were written.
    data_next: u32,
    data_end: u32,
    /// Number of the first packet of data in each block that is not decoded.
    firsts: BTreeMap<u64, u32>,
    /// The tokens were all in use when it last tried to send.
    limited: bool,
    /// When time_lastack + RTO is; [`Instant::MAX`] when nothing is outstanding.
    rto_at: Instant,
}

impl Sender {
    pub(super) fn new(tcp: &Tcp, parameters: Ctcp) -> Self {
        let config = Config {
            initial_window_packets: u64::from(tcp.initial_window),
            max_datagram_size: u64::from(tcp.mss),
            ..Config::default()
        };
        Self {
            mss: u64::from(tcp.mss),
            schedule: BlockSchedule::new(parameters.limits),
            loss: ShortTermLoss::new(parameters.mu, 0),
            controller: parameters.controller.build(&config),
            rtt: RttEstimator::default(),
            next: 0,
            data_next: 0,
            data_end: 0,
            firsts: BTreeMap::new(),
            limited: false,
            rto_at: Instant::MAX,
        }
    }

    /// More data was written: the number after its last packet.
    pub(super) fn add(&mut self, packets: u32) -> u32 {
        self.data_end = self.data_end.saturating_add(packets);
        self.data_end
    }

    /// Tokens in whole packets.
    pub(super) fn window(&self) -> u32 {
        u32::try_from(self.controller.window() / self.mss).unwrap_or(u32::MAX).max(1)
    }

    fn under_way(&self) -> u64 {
        u64::from(self.next) - self.loss.expected()
    }

    /// Whether everything written has been decoded.
    pub(super) fn is_idle(&self) -> bool {
        self.data_next == self.data_end && self.schedule.open_blocks() == 0
    }

    /// The next packet, if a token is free and a block needs one.
    pub(super) fn next(&mut self, tcp: &Tcp, now: Instant) -> Option<(Segment, Data)> {
        self.limited = self.under_way() >= u64::from(self.window());
        if self.limited {
            return None;
        }
        let waiting = (self.data_next < self.data_end).then_some(self.mss);
        let p = self.loss.estimate();
        let packet = self.schedule.next(now, waiting, |_| p)?;
        let number = self.next;
        self.next += 1;
        let rtt = if self.rtt.has_sample() { self.rtt.smoothed } else { tcp.initial_rto };
        self.schedule.on_sent(now, packet, PATH, PacketNumber(number.into()), self.mss, rtt);
        if self.rto_at == Instant::MAX {
            self.rto_at = now + self.rtt.rto(tcp);
        }
        let (header, dsn) = self.describe(packet, now);
        let body = Segment { seq: number, dsn, ..Segment::default() };
        Some((body.with(&header), header))
    }

    /// The header of a packet, and the number of its packet of data, or of the block's first one.
    fn describe(&mut self, packet: Packet, now: Instant) -> (Data, u32) {
        let block = packet.block();
        let first = *self.firsts.entry(block).or_insert(self.data_next);
        let (symbol, dsn) = match packet {
            Packet::Source { index, .. } => {
                let dsn = self.data_next;
                self.data_next += 1;
                if self.data_next == self.data_end {
                    self.schedule.close_block();
                }
                (Symbol::Source { index: index.into() }, dsn)
            }
            Packet::Coded { index, .. } => (Symbol::Coded { seed: index }, first),
        };
        let size = match self.schedule.block(block) {
            Some((size, true)) => Some(size.into()),
            _ => None,
        };
        (Data { block: block as u32, symbol, size, sent_at: now }, dsn)
    }

    /// An acknowledgement: Algorithms 1 and 2.
    pub(super) fn on_ack(&mut self, tcp: &Tcp, now: Instant, ack: &Segment) {
        let Acknowledgement { block: current, dof, sent_at } = ack.header();
        self.rtt.sample(now - sent_at);
        self.rtt.reset_backoff();
        let in_flight = self.under_way() * self.mss;
        while self.schedule.current() < u64::from(current) {
            let decoded = self.schedule.current();
            self.schedule.on_decoded(decoded);
        }
        let expected = self.loss.expected();
        let acked = self.loss.on_ack(u64::from(ack.seq));
        for lost in expected..u64::from(ack.seq) {
            self.schedule.on_lost(PATH, PacketNumber(lost));
        }
        // The acknowledgement first: the report counts what it acknowledges already.
        self.schedule.on_acked(now, PATH, PacketNumber(ack.seq.into()), self.rtt.smoothed);
        self.schedule.on_dof(u64::from(current), dof);
        self.firsts = self.firsts.split_off(&self.schedule.current());
        self.control(now, acked, sent_at, in_flight);
        self.rto_at = if self.is_idle() { Instant::MAX } else { now + self.rtt.rto(tcp) };
    }

    /// Algorithm 2.
    fn control(&mut self, now: Instant, acked: Acked, sent_at: Instant, in_flight: u64) {
        let RttEstimator { latest, smoothed, min, variance, .. } = self.rtt;
        let rtt = Rtt { latest, smoothed, min, variance };
        if let Acked::Gap(packets) = acked {
            let (bytes, packets) = (packets * self.mss, u32::try_from(packets).unwrap_or(u32::MAX));
            self.controller.on_loss(&Loss { now, bytes, packets, largest_sent_at: sent_at, rtt }, &[]);
        }
        if acked != Acked::Late {
            let ack = Ack {
                now,
                bytes: self.mss,
                largest_sent_at: sent_at,
                in_flight_before: in_flight,
                app_limited: !self.limited,
                rtt,
                ..Ack::default()
            };
            self.controller.on_ack(&ack, &[]);
        }
    }

    /// The next moment at which something changes by itself.
    pub(super) fn deadline(&self) -> Instant {
        self.rto_at.min(self.schedule.deadline().unwrap_or(Instant::MAX))
    }

    /// A deadline is here. True if it is a time-out.
    pub(super) fn on_deadline(&mut self, tcp: &Tcp, now: Instant) -> bool {
        self.schedule.on_deadline(now);
        if self.rto_at > now {
            return false;
        }
        self.schedule.on_timeout();
        self.loss.on_timeout(u64::from(self.next));
        self.controller.on_persistent_congestion(now);
        self.rtt.back_off();
        self.rto_at = now + self.rtt.rto(tcp);
        true
    }
}
