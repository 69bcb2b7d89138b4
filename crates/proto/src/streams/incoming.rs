//! Frames about streams that arrive.
//!
//! Every method checks what RFC 9000 asks for, and the error says which rule the peer broke. Frames
//! for streams that are forgotten change nothing.

use super::outgoing::ControlKey;
use super::recv::PeerReset;
use super::{MAX_GAPS, StreamEvent, Streams};
use crate::wire::{Dir, MAX_VARINT, StreamId, TransportError, VarInt};

/// The largest count of streams that ids can name (RFC 9000 section 4.6).
const MAX_STREAM_COUNT: u64 = 1 << 60;

impl Streams {
    /// STREAM (RFC 9000 section 19.8).
    ///
    /// # Errors
    /// STREAM_STATE_ERROR, STREAM_LIMIT_ERROR, FLOW_CONTROL_ERROR, FINAL_SIZE_ERROR,
    /// FRAME_ENCODING_ERROR, and INTERNAL_ERROR if the connection has more than [`MAX_GAPS`] gaps.
    pub fn on_stream(
        &mut self,
        id: StreamId,
        offset: u64,
        data: &[u8],
        fin: bool,
    ) -> Result<(), TransportError> {
        self.check_receiving(id)?;
        let end = offset.saturating_add(data.len() as u64);
        if end > MAX_VARINT {
            return Err(TransportError::frame_encoding_error("stream data beyond offset 2^62 - 1"));
        }
        if !self.receive_up_to(id, end, fin)? {
            return Ok(());
        }
        let news = self.with_recv(id, |half| {
            let news = half.data.insert(offset, data);
            news || fin && half.is_complete()
        });
        if self.gaps > MAX_GAPS {
            return Err(TransportError::internal_error("too many gaps in stream data"));
        }
        self.update_stream_window(id);
        if news == Some(true) {
            self.events.push(StreamEvent::Readable(id));
        }
        Ok(())
    }

    /// RESET_STREAM (RFC 9000 section 19.4).
    ///
    /// # Errors
    /// STREAM_STATE_ERROR, STREAM_LIMIT_ERROR, FLOW_CONTROL_ERROR, FINAL_SIZE_ERROR.
    pub fn on_reset_stream(
        &mut self,
        id: StreamId,
        code: VarInt,
        final_size: u64,
    ) -> Result<(), TransportError> {
        let before = self.peer_reset(id)?;
        if before.is_some_and(|before| before.reliable_size > 0 && before.code != code) {
            return Err(code_changed());
        }
        self.on_reset(id, PeerReset { code, reliable_size: 0 }, final_size)
    }

    /// RESET_STREAM_AT (draft-ietf-quic-reliable-stream-reset sections 4 and 5).
    ///
    /// # Errors
    /// As [`on_reset_stream`](Self::on_reset_stream), and FRAME_ENCODING_ERROR.
    pub fn on_reset_stream_at(
        &mut self,
        id: StreamId,
        code: VarInt,
        final_size: u64,
        reliable_size: u64,
    ) -> Result<(), TransportError> {
        if reliable_size > final_size {
            return Err(TransportError::frame_encoding_error("more to deliver than the final size"));
        }
        if self.peer_reset(id)?.is_some_and(|before| before.code != code) {
            return Err(code_changed());
        }
        self.on_reset(id, PeerReset { code, reliable_size }, final_size)
    }

    /// The reset of a stream that has come already; opens the stream if it is new.
    fn peer_reset(&mut self, id: StreamId) -> Result<Option<PeerReset>, TransportError> {
        self.check_receiving(id)?;
        Ok(self.recv.get(&id).and_then(|half| half.reset))
    }

    /// Takes in a reset, of which only what it promises less than an earlier one is news.
    fn on_reset(&mut self, id: StreamId, reset: PeerReset, final_size: u64) -> Result<(), TransportError> {
        let was_complete = self.recv.get(&id).is_some_and(|half| half.is_complete());
        // Everything up to a FIN is here: the application may as well have it (section 3.2).
        if !self.receive_up_to(id, final_size, true)? || was_complete {
            return Ok(());
        }
        // Who reads it already gets what had all come before, as that section allows, too.
        let is_accepted = self.is_local(id) || id.index() < self.remote[id.dir() as usize].accepted;
        let unread = self.with_recv(id, |half| {
            let promised =
                half.reset.map_or(u64::MAX, |before| before.reliable_size).min(reset.reliable_size);
            half.reset = Some(PeerReset { reliable_size: promised, ..reset });
            if promised > 0 || is_accepted && half.is_complete() { 0 } else { half.discard() }
        });
        self.consume(unread.unwrap_or(0));
        self.recount_stream(id);
        self.events.push(StreamEvent::Readable(id));
        Ok(())
    }

    /// Checks data up to `end`, which is the final size if `is_final`, and counts it for flow
    /// control. Returns whether anybody wants the data: not so if the stream is forgotten or stopped, or
    /// reset and all is here that the reset promises.
    fn receive_up_to(&mut self, id: StreamId, end: u64, is_final: bool) -> Result<bool, TransportError> {
        let Some(half) = self.recv.get_mut(&id) else { return Ok(false) };
        let grown = half.check(end, is_final)?;
        if grown > self.window.remaining() {
            return Err(TransportError::flow_control_error("data beyond the limit of the connection"));
        }
        self.window.receive(grown);
        half.window.receive(grown);
        if let Some(network) = self.network {
            half.measure_from(network.now);
        }
        if is_final {
            half.final_size = Some(end);
            self.control.remove(&ControlKey::MaxStreamData(id));
            self.control.remove(&ControlKey::StopSending(id));
            self.recount_stream(id);
        }
        let Some(half) = self.recv.get_mut(&id) else { return Ok(false) };
        if half.due_reset().is_some() {
            return Ok(false);
        }
        if half.stopped.is_some() {
            let ended = half.final_size.is_some();
            let unwanted = half.discard();
            self.consume(unwanted);
            if ended {
                self.forget_recv(id);
            }
            return Ok(false);
        }
        if self.window.is_update_due() {
            self.control.insert(ControlKey::MaxData);
        }
        Ok(true)
    }

    /// STOP_SENDING (RFC 9000 section 19.5): answered with a reset, as section 3.5 demands.
    ///
    /// # Errors
    /// STREAM_STATE_ERROR, STREAM_LIMIT_ERROR.
    pub fn on_stop_sending(&mut self, id: StreamId, code: VarInt) -> Result<(), TransportError> {
        self.check_sending(id)?;
        let Some(half) = self.send.get_mut(&id) else { return Ok(()) };
        if half.stopped.is_some() || half.is_delivered() {
            return Ok(());
        }
        if half.reset().is_some() {
            // What was to be delivered first is wanted no more.
            self.lower_reset(id, 0);
            return Ok(());
        }
        half.stopped = Some(code);
        self.start_reset(id, code, 0);
        self.events.push(StreamEvent::Stopped { id, code });
        Ok(())
    }

    /// MAX_DATA (RFC 9000 section 19.9).
    pub fn on_max_data(&mut self, limit: u64) {
        self.raise_data_limit(limit);
    }

    /// MAX_STREAM_DATA (RFC 9000 section 19.10).
    ///
    /// # Errors
    /// STREAM_STATE_ERROR, STREAM_LIMIT_ERROR.
    pub fn on_max_stream_data(&mut self, id: StreamId, limit: u64) -> Result<(), TransportError> {
        self.check_sending(id)?;
        self.raise_stream_data_limit(id, limit);
        Ok(())
    }

    /// MAX_STREAMS (RFC 9000 section 19.11).
    ///
    /// # Errors
    /// FRAME_ENCODING_ERROR for more streams than ids can name.
    pub fn on_max_streams(&mut self, dir: Dir, limit: u64) -> Result<(), TransportError> {
        check_stream_count(limit)?;
        self.raise_streams_limit(dir, limit);
        Ok(())
    }

    /// DATA_BLOCKED (RFC 9000 section 19.12): whatever credit there is, is announced now.
    pub fn on_data_blocked(&mut self, _limit: u64) {
        if self.window.can_grow() {
            self.control.insert(ControlKey::MaxData);
        }
    }

    /// STREAM_DATA_BLOCKED (RFC 9000 section 19.13).
    ///
    /// # Errors
    /// STREAM_STATE_ERROR, STREAM_LIMIT_ERROR.
    pub fn on_stream_data_blocked(&mut self, id: StreamId, _limit: u64) -> Result<(), TransportError> {
        self.check_receiving(id)?;
        if self.recv.get(&id).is_some_and(|half| half.wants_more() && half.window.can_grow()) {
            self.control.insert(ControlKey::MaxStreamData(id));
        }
        Ok(())
    }

    /// STREAMS_BLOCKED (RFC 9000 section 19.14).
    ///
    /// # Errors
    /// FRAME_ENCODING_ERROR for more streams than ids can name.
    pub fn on_streams_blocked(&mut self, dir: Dir, limit: u64) -> Result<(), TransportError> {
        check_stream_count(limit)?;
        if self.remote[dir as usize].window.can_grow() {
            self.control.insert(ControlKey::MaxStreams(dir));
        }
        Ok(())
    }

    /// Whether the peer may send data on `id`; opens the stream if it is new.
    fn check_receiving(&mut self, id: StreamId) -> Result<(), TransportError> {
        if !self.can_receive(id) {
            return Err(TransportError::stream_state_error(
                "the peer sends on a stream that only we send on",
            ));
        }
        self.check_exists(id)
    }

    /// Whether the peer may receive data on `id`; opens the stream if it is new.
    fn check_sending(&mut self, id: StreamId) -> Result<(), TransportError> {
        if !self.can_send(id) {
            return Err(TransportError::stream_state_error(
                "the peer receives on a stream that only it sends on",
            ));
        }
        self.check_exists(id)
    }

    /// Opens a peer's stream and all of its kind before it (RFC 9000 section 3.2), within the limit
    /// we set.
    fn check_exists(&mut self, id: StreamId) -> Result<(), TransportError> {
        let dir = id.dir();
        if self.is_local(id) {
            return if id.index() < self.local[dir as usize].opened {
                Ok(())
            } else {
                Err(TransportError::stream_state_error("a stream that we have not opened"))
            };
        }
        let window = &mut self.remote[dir as usize].window;
        let opened = window.received();
        if id.index() < opened {
            return Ok(());
        }
        let new = id.index() + 1 - opened;
        if new > window.remaining() {
            return Err(TransportError::stream_limit_error("more streams than allowed"));
        }
        window.receive(new);
        if window.is_update_due() {
            self.control.insert(ControlKey::MaxStreams(dir));
        }
        for index in opened..=id.index() {
            self.create(StreamId::new(id.initiator(), dir, index));
        }
        self.events.push(StreamEvent::Opened { dir });
        Ok(())
    }
}

fn code_changed() -> TransportError {
    TransportError::stream_state_error("the code of a reset changed")
}

fn check_stream_count(count: u64) -> Result<(), TransportError> {
    if count > MAX_STREAM_COUNT {
        return Err(TransportError::frame_encoding_error("a count of more than 2^60 streams"));
    }
    Ok(())
}
