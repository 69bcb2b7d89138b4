//! What must leave on a certain path, before data are considered: path validation, probes of the
//! datagram size, and probes that ask for an ACK.

use smallvec::SmallVec;
use units::Instant;

use super::{Connection, packet::Built};
use crate::{
    PacketPurpose, Transmit,
    path::{
        probe::Company,
        validation::{ValidationDatagram, Width},
    },
    wire::{Frame, PathChallenge, PathId, PathResponse, Side},
};

/// Probe timeouts in a row after which a client takes an answer for one that may not leave.
const UNANSWERED_PROBES: u32 = 2;
/// A PATH_RESPONSE frame.
const PATH_RESPONSE_LEN: usize = 9;

impl Connection {
    /// The next datagram that may leave on its path alone, path by path.
    pub(super) fn transmit_path_bound(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        let ids: SmallVec<[PathId; 8]> =
            self.paths.values().filter(|p| !p.is_closing()).map(|p| p.id()).collect();
        for id in ids {
            if self.paths[&id].has_off_path()
                && let Some(transmit) = self.send_off_path(now, id, out)
            {
                return Some(transmit);
            }
            let mtu_probe = self.mtu_probe(now, id);
            let validation =
                if self.paths[&id].owes_validation() { self.send_validation(now, id, out) } else { None };
            // An answer that may not leave keeps no probe back, which has no deadline any more.
            let built = validation.or_else(|| match mtu_probe {
                Some(size) => self.send_mtu_probe(now, id, size, out),
                None if self.paths[&id].may_send_probe() => self.send_probe(now, id, out),
                None => None,
            });
            if built.is_some() {
                return self.transmit(now, id, out, None);
            }
        }
        None
    }

    /// PATH_CHALLENGE and PATH_RESPONSE.
    fn send_validation(&mut self, now: Instant, id: PathId, out: &mut Vec<u8>) -> Option<Built> {
        let shortest = self.shortest_challenge(id)?;
        let path = self.paths.get_mut(&id)?;
        let ValidationDatagram { size, width } = path.plan_validation(now, shortest)?;
        let responses = path.take_responses();
        let mut builder = self.begin_one_rtt(id, size, out)?;
        if let Some(data) = self.next_challenge(now, id, width) {
            PathChallenge(data).encode(out);
        }
        if !responses.is_empty() {
            // RFC 9000 section 9.3.3: more than a probe, so that nobody else can have moved the
            // path for long.
            Frame::Ping.encode(out);
        }
        let room = builder.limit.saturating_sub(out.len()) / PATH_RESPONSE_LEN;
        for data in responses.into_iter().take(room) {
            PathResponse(data).encode(out);
        }
        self.write_ack(now, id, &mut builder, out);
        builder.ack_eliciting = true;
        builder.pad_to = if width == Width::Full { size } else { 0 };
        self.finish_packet(now, builder, PacketPurpose::Probe, out)
    }

    /// Size of the MTU probe that may leave now.
    fn mtu_probe(&mut self, now: Instant, id: PathId) -> Option<u16> {
        let confirmed = self.handshake.is_confirmed();
        if confirmed { self.paths.get_mut(&id)?.mtu_probe(now) } else { None }
    }

    /// PING and PADDING of the size that the path may carry.
    fn send_mtu_probe(&mut self, now: Instant, id: PathId, size: u16, out: &mut Vec<u8>) -> Option<Built> {
        let size = usize::from(size);
        let mut builder = self.begin_one_rtt(id, size, out)?;
        Frame::Ping.encode(out);
        builder.ack_eliciting = true;
        builder.pad_to = size;
        self.finish_packet(now, builder, PacketPurpose::MtuProbe, out)
    }

    /// A packet that asks for an ACK, regardless of the window: waiting data, or the oldest
    /// un-ACKed data again, or PING.
    fn send_probe(&mut self, now: Instant, id: PathId, out: &mut Vec<u8>) -> Option<Built> {
        let (start, alone) = (out.len(), self.company_of(id) == Company::Alone);
        let path = self.paths.get_mut(&id)?;
        let (size, newer) = path.take_probe();
        let carries_data = alone && path.is_suspect() && path.is_open() && path.may_carry_data();
        // A server that has followed us to another address may owe us an answer and not be allowed to
        // send it, or learn of that address by a question into a silence, and have to challenge it
        // before long: a full datagram pays for three (RFC 9000 section 8.1).
        let asks = path.asks_after_silence() || path.pto_count() >= UNANSWERED_PROBES;
        let pays = alone && self.side == Side::Client && asks;
        if carries_data && let Some(built) = self.send_coded_probe(now, id, size, out) {
            return Some(built);
        }
        let mut builder = self.begin_one_rtt(id, size, out)?;
        self.write_ack(now, id, &mut builder, out);
        // Nothing is entrusted to a path that is not validated: once the amplification limit is
        // reached, nobody would miss it there.
        if carries_data {
            self.abandon_again();
            if self.has_pending() {
                self.write_all(&mut builder, out);
            }
            // Nothing waits, or nothing that fits.
            if !builder.ack_eliciting {
                self.write_oldest_again(id, newer, &mut builder, out);
            }
        }
        if !builder.ack_eliciting {
            Frame::Ping.encode(out);
            builder.ack_eliciting = true;
        }
        if pays {
            builder.pad_to = start + size;
        }
        self.finish_packet(now, builder, PacketPurpose::Probe, out)
    }
}
