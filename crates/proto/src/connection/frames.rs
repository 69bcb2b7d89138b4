//! From the payload of a packet to its frames, and from each to the subsystem that it concerns.

use units::Instant;

use super::{Connection, handshake::max_datagram_frame_size};
use crate::{
    Event, NetworkPath,
    crypto::Level,
    keys::KeyPhase,
    path::sent::ControlFrame,
    wire::{
        DatagramHeader, Frame, Frames, NewConnectionId, PathId, RangeLimits, RetireConnectionId, Side,
        Stream, TransportError, TransportErrorCode,
    },
};

/// RETIRE_CONNECTION_ID frames on their way at once, per path that may be open: twice our
/// active_connection_id_limit (RFC 9000 section 5.1.2).
const MAX_RETIRING: usize = 8;

/// Where a frame came from.
#[derive(Clone, Copy)]
pub(super) struct FrameContext {
    pub(super) level: Level,
    pub(super) path: PathId,
    /// The keys of its packet, at the 1-RTT level.
    pub(super) phase: KeyPhase,
    /// Its packet did not arrive but was rebuilt from repair symbols.
    pub(super) rebuilt: bool,
    /// Where it came from, if not from where its path runs.
    pub(super) elsewhere: Option<NetworkPath>,
}

impl FrameContext {
    /// Of a packet that came from where its path runs, with the present keys.
    pub(super) fn new(level: Level, path: PathId) -> Self {
        Self { level, path, phase: KeyPhase::Current, rebuilt: false, elsewhere: None }
    }
}

/// What a packet turned out to hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contents {
    pub(super) ack_eliciting: bool,
    /// It may be a source symbol of the peer's.
    pub(super) worth_rebuilding: bool,
    /// It has stream data.
    pub(super) stream_data: bool,
}

impl Connection {
    /// Deals with the frames of a packet.
    pub(super) fn on_payload(
        &mut self,
        now: Instant,
        context: FrameContext,
        payload: &[u8],
    ) -> Result<Contents, TransportError> {
        let kind = context.level.kind();
        let mut contents = Contents::default();
        let (mut active, mut symbols) = (false, 0);
        for frame in Frames::with_limits(payload, RangeLimits { packets: 256, ranges: 256 }) {
            let frame = frame?;
            if !frame.is_allowed_in(kind) {
                return Err(TransportError::new(
                    TransportErrorCode::PROTOCOL_VIOLATION,
                    "frame not allowed in this packet",
                )
                .in_frame(frame.frame_type()));
            }
            symbols +=
                u32::from(matches!(frame, Frame::Repair(_) | Frame::Combination(_)) && !context.rebuilt);
            if symbols > 1 {
                let reason = "more than one repair symbol in a packet";
                return Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason)
                    .in_frame(frame.frame_type()));
            }
            contents.ack_eliciting |= frame.is_ack_eliciting();
            contents.worth_rebuilding |= frame.is_worth_rebuilding();
            contents.stream_data |= matches!(frame, Frame::Stream(_));
            active |= frame.is_ack_eliciting() && !is_probe(&frame);
            self.on_frame(now, context, frame)?;
            if self.state.is_closed() {
                break;
            }
        }
        if active && let Some(path) = self.paths.get_mut(&context.path) {
            path.on_activity(now);
        }
        Ok(contents)
    }

    fn on_frame(
        &mut self,
        now: Instant,
        context: FrameContext,
        frame: Frame<'_>,
    ) -> Result<(), TransportError> {
        self.check_negotiated(&frame)?;
        if context.rebuilt && is_void_if_rebuilt(&frame) {
            return Ok(());
        }
        match frame {
            Frame::Padding { .. } | Frame::Ping => Ok(()),
            Frame::NewToken(f) => self.on_new_token(f.token),
            Frame::Ack(ack) => {
                let delay = ack.delay.saturating_mul(1_000 << self.peer.ack_delay_exponent.min(20));
                self.on_ack(now, context, &ack, units::Duration::from_nanos(delay))
            }
            Frame::Crypto(crypto) => self.on_crypto(now, context.level, crypto.offset, crypto.data),
            Frame::Stream(stream) => self.on_stream(context.level, &stream),
            Frame::ResetStream(f) => self.streams.on_reset_stream(f.id, f.error_code, f.final_size),
            Frame::ResetStreamAt(f) => {
                self.streams.on_reset_stream_at(f.id, f.error_code, f.final_size, f.reliable_size)
            }
            Frame::StopSending(f) => self.streams.on_stop_sending(f.id, f.error_code),
            Frame::MaxData(f) => {
                self.streams.on_max_data(f.maximum);
                Ok(())
            }
            Frame::MaxStreamData(f) => self.streams.on_max_stream_data(f.id, f.maximum),
            Frame::MaxStreams(f) => self.streams.on_max_streams(f.dir, f.maximum),
            Frame::DataBlocked(f) => {
                self.streams.on_data_blocked(f.limit);
                Ok(())
            }
            Frame::StreamDataBlocked(f) => self.streams.on_stream_data_blocked(f.id, f.limit),
            Frame::StreamsBlocked(f) => self.streams.on_streams_blocked(f.dir, f.limit),
            Frame::Datagram(d) => self.on_datagram(context.path, d.data),
            Frame::ConnectionClose(close) => {
                self.on_connection_close(now, &close);
                Ok(())
            }
            Frame::HandshakeDone => self.on_handshake_done(),
            Frame::NewConnectionId(f) => self.on_new_connection_id(&f),
            Frame::RetireConnectionId(f) => self.on_retire_connection_id(&f),
            Frame::PathChallenge(f) => self.on_path_challenge(context, f.0),
            Frame::PathResponse(f) => self.on_path_response(now, f.0),
            Frame::PathAbandon(f) => self.on_path_abandon(now, f.path, f.error_code),
            Frame::PathStatus(f) => self.on_path_status(f.path, f.backup, f.sequence),
            Frame::MaxPathId(f) => self.on_max_path_id(f.maximum),
            Frame::PathsBlocked(f) => self.on_paths_blocked(f.maximum),
            Frame::PathCidsBlocked(f) => self.on_path_cids_blocked(f.path, f.next_sequence),
            Frame::Repair(repair) => self.on_repair(now, &repair),
            Frame::Recovered(recovered) => self.on_recovered(now, &recovered),
            Frame::Combination(combination) => self.on_combination(now, &combination),
        }
    }

    fn on_stream(&mut self, level: Level, stream: &Stream<'_>) -> Result<(), TransportError> {
        if level == Level::ZeroRtt {
            self.note_early_stream(stream.id);
        }
        self.streams.on_stream(stream.id, stream.offset, stream.data, stream.fin)?;
        self.check_gaps_of_stranger()
    }

    /// A frame of an extension that was not negotiated is an unknown frame.
    fn check_negotiated(&self, frame: &Frame<'_>) -> Result<(), TransportError> {
        use crate::wire::Extension;
        let negotiated = match frame.extension() {
            // Of datagrams it is a matter of their length.
            None | Some(Extension::Datagram) => true,
            Some(Extension::Multipath) => return self.check_path_id(frame),
            Some(Extension::Repair) => self.config.repair.accept && self.peer.repair,
            Some(Extension::ResetStreamAt) => self.config.reset_stream_at,
        };
        if negotiated {
            return Ok(());
        }
        let reason = "frame of an extension that was not negotiated";
        Err(TransportError::new(TransportErrorCode::FRAME_ENCODING_ERROR, reason)
            .in_frame(frame.frame_type()))
    }

    /// Multipath frames are refused unless both sides offered the extension, and for path ids that
    /// we do not allow (draft-ietf-quic-multipath-21 section 4).
    fn check_path_id(&self, frame: &Frame<'_>) -> Result<(), TransportError> {
        let violation = |code, reason| Err(TransportError::new(code, reason).in_frame(frame.frame_type()));
        let Some(max) = self.path_ids.limits else {
            let reason = "multipath frame without multipath";
            return violation(TransportErrorCode::FRAME_ENCODING_ERROR, reason);
        };
        match frame.path_id() {
            Some(id) if id > max.local => {
                let reason = "path id above the maximum that we allow";
                violation(TransportErrorCode::PROTOCOL_VIOLATION, reason)
            }
            _ => Ok(()),
        }
    }

    /// A datagram of the application. A client notes that more may follow: should its address change,
    /// it is the one that has to speak up.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if the frame, which may have come without a length, is longer than what we have
    /// declared, or we take none (RFC 9221 section 3).
    fn on_datagram(&mut self, id: PathId, data: &[u8]) -> Result<(), TransportError> {
        let longest = usize::from(max_datagram_frame_size(&self.config));
        if DatagramHeader::len(data.len(), false) + data.len() > longest {
            let reason = "DATAGRAM longer than max_datagram_frame_size";
            return Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason));
        }
        self.end_bulk_run();
        if self.side == Side::Client
            && let Some(path) = self.paths.get_mut(&id)
        {
            path.on_datagram();
        }
        // However many there are, it is one piece of news: thousands of empty ones fit into a packet.
        if self.datagrams.on_received(data)
            && !self.events.iter().any(|event| matches!(event, Event::DatagramReceived))
        {
            self.events.push_back(Event::DatagramReceived);
        }
        Ok(())
    }

    fn on_handshake_done(&mut self) -> Result<(), TransportError> {
        if self.side == Side::Server {
            return Err(TransportError::new(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "HANDSHAKE_DONE from a client",
            ));
        }
        if !self.handshake.is_confirmed() {
            self.confirm_handshake();
        }
        Ok(())
    }

    fn on_new_connection_id(&mut self, frame: &NewConnectionId) -> Result<(), TransportError> {
        let path = frame.path.unwrap_or(PathId::ZERO);
        if self.path_ids.limits.map_or(path != PathId::ZERO, |max| path > max.local) {
            return Err(TransportError::new(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "connection id for a path id that is not allowed",
            ));
        }
        if self.path_is_gone(path) {
            return Ok(());
        }
        let retired =
            self.cids.on_new(path, frame.sequence, frame.retire_prior_to, frame.id, frame.reset_token)?;
        for sequence in retired {
            self.owe_retirement(path, sequence)?;
        }
        Ok(())
    }

    /// A connection id of the peer's is not used any more, and the peer must hear of it.
    pub(super) fn owe_retirement(&mut self, path: PathId, sequence: u64) -> Result<(), TransportError> {
        let frame = ControlFrame::RetireConnectionId { path, sequence };
        if self.control.contains(&frame) {
            return Ok(());
        }
        self.cids.on_retiring(MAX_RETIRING * self.config.max_paths.clamp(1, 64) as usize)?;
        self.queue_control(frame)
    }

    fn on_retire_connection_id(&mut self, frame: &RetireConnectionId) -> Result<(), TransportError> {
        let (path, sequence) = (frame.path.unwrap_or(PathId::ZERO), frame.sequence);
        // What has not left yet nobody can know (RFC 9000 section 19.16). Hundreds of such frames fit a
        // packet, each of which would have another one made.
        if self.control.contains(&ControlFrame::NewConnectionId { path, sequence, again: false }) {
            let reason = "a connection id was retired that was never sent";
            return Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason));
        }
        if let Some(cid) = self.cids.on_retire(path, sequence)? {
            self.retire_cid(cid);
            self.issue_cids()?;
        }
        Ok(())
    }
}

/// Whether a frame says nothing in a packet that was rebuilt. Its ACKs and challenges are old news
/// about a path it did not travel. Repair symbols are never source symbols, so one inside it is an
/// attempt to make us recurse.
fn is_void_if_rebuilt(frame: &Frame<'_>) -> bool {
    matches!(
        frame,
        Frame::Ack(_)
            | Frame::PathChallenge(_)
            | Frame::PathResponse(_)
            | Frame::Repair(_)
            | Frame::Combination(_)
    )
}

/// Whether a frame only asks whether somebody is there, or answers that.
fn is_probe(frame: &Frame<'_>) -> bool {
    matches!(frame, Frame::Ping | Frame::PathChallenge(_) | Frame::PathResponse(_))
}
