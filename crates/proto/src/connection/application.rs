//! What the application asks of its streams and datagrams, apart from opening and closing the
//! connection.

use bytes::Bytes;
use units::{Duration, Instant};

use super::{Connection, DatagramError};
use crate::{
    datagrams::DatagramOptions,
    streams::{CloseError, FinishError, Read, ReadChunk, ReadError, ReceiveEnd, ReceiveLimits, WriteError},
    wire::{DatagramHeader, Dir, StreamId, VarInt},
};

impl Connection {
    // ---- streams

    /// Lets the peer send and open more from now on: a server that begins with small limits raises
    /// them once it knows whom it serves. What would fall stays as it is. Call
    /// [`poll_transmit`](Self::poll_transmit) afterwards.
    pub fn raise_receive_limits(&mut self, limits: &ReceiveLimits) {
        self.streams.raise_limits(limits);
    }

    /// Opens a stream; `None` until the peer allows another (an `Available` event tells).
    pub fn open(&mut self, dir: Dir) -> Option<StreamId> {
        self.streams.open(dir)
    }

    /// The next stream that the peer opened, if any.
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        // What came in 0-RTT packets may be a replay as long as the handshake is not complete.
        if self.may_send_data() { self.streams.accept(dir) } else { None }
    }

    /// Hands bytes over for sending; returns how many were taken.
    ///
    /// # Errors
    /// [`WriteError::Blocked`] if none can be taken now: a `Writable` event tells when to try
    /// again.
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        self.streams.write(id, data)
    }

    /// Ends the sending half after what has been written.
    ///
    /// # Errors
    /// [`FinishError`] if the peer has stopped it, it was finished or reset before, or there is no
    /// such half.
    pub fn finish(&mut self, id: StreamId) -> Result<(), FinishError> {
        self.streams.finish(id)
    }

    /// Abandons the sending half (RESET_STREAM with `code`, or RESET_STREAM_AT if it has a
    /// [reliable boundary](Self::set_reliable_boundary)).
    ///
    /// # Errors
    /// [`CloseError`] if it was reset before, or there is no such half.
    pub fn reset(&mut self, id: StreamId, code: VarInt) -> Result<(), CloseError> {
        self.streams.reset(id, code)
    }

    /// The code with which the peer has stopped a sending half. Ask when a stream was accepted: the
    /// [`Stopped`](crate::StreamEvent::Stopped) event may have come before.
    pub fn stop_code(&self, id: StreamId) -> Option<VarInt> {
        self.streams.stop_code(id)
    }

    /// Abandons the sending half once the peer has everything that was written: bytes that were
    /// worth reading before it broke off. A [`reset`](Self::reset) that follows waits for less; the code
    /// stays.
    ///
    /// # Errors
    /// [`CloseError`] if it was finished, reset or stopped before, or there is no such half.
    pub fn reset_when_delivered(&mut self, id: StreamId, code: VarInt) -> Result<(), CloseError> {
        self.streams.reset_when_delivered(id, code)
    }

    /// What was written so far is delivered even if the sending half is reset later, unless the peer
    /// stops it (draft-ietf-quic-reliable-stream-reset). A peer that does not take RESET_STREAM_AT hears of
    /// such a reset once it has these bytes, and its application may still miss them.
    ///
    /// # Errors
    /// [`CloseError`] if it was finished, reset or stopped before, or there is no such half.
    pub fn set_reliable_boundary(&mut self, id: StreamId) -> Result<(), CloseError> {
        self.streams.set_reliable_boundary(id)
    }

    /// Asks the peer to stop sending (STOP_SENDING with `code`) and discards what arrives.
    ///
    /// # Errors
    /// [`CloseError`] if it was stopped before, or there is no such half.
    pub fn stop(&mut self, id: StreamId, code: VarInt) -> Result<(), CloseError> {
        self.streams.stop(id, code)
    }

    /// Reads ordered bytes.
    ///
    /// # Errors
    /// [`ReadError::Blocked`] if none are there: a `Readable` event tells when to try again.
    pub fn read(&mut self, id: StreamId, buffer: &mut [u8]) -> Result<Read, ReadError> {
        let read = self.streams.read(id, buffer)?;
        if let Read::Data(n) = read {
            self.stats.stream_bytes_received += n as u64;
        }
        Ok(read)
    }

    /// Reads ordered bytes, at most `max`, without a buffer: most of them are not copied once more.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_chunk(&mut self, id: StreamId, max: usize) -> Result<ReadChunk, ReadError> {
        let read = self.streams.read_chunk(id, max)?;
        if let ReadChunk::Data(chunk) = &read {
            self.stats.stream_bytes_received += chunk.bytes.len() as u64;
        }
        Ok(read)
    }

    /// What has arrived of the end of a stream, without reading.
    ///
    /// # Errors
    /// [`ReadError`] if it was stopped, or is unknown: as one that was read to its end.
    pub fn receive_end(&self, id: StreamId) -> Result<Option<ReceiveEnd>, ReadError> {
        self.streams.receive_end(id)
    }

    /// Bytes that were written to a stream and that the peer has not acknowledged, counted from the
    /// first of them; zero once it has all, or the stream is over.
    pub fn undelivered(&self, id: StreamId) -> u64 {
        self.streams.undelivered(id)
    }

    /// Streams of higher priority are sent first; equal ones share. Default 0.
    pub fn set_priority(&mut self, id: StreamId, priority: i32) {
        self.streams.set_priority(id, priority);
    }

    // ---- datagrams

    /// The largest datagram that can be sent now in bytes; `None` if the peer takes none.
    pub fn max_datagram_size(&self) -> Option<usize> {
        let peer_limit = self.peer.max_datagram_frame_size.into_inner();
        if !self.may_send_data() || peer_limit == 0 {
            return None;
        }
        let room = self.paths.values().filter(|p| p.is_open()).map(|p| self.payload_room(p)).min()?;
        let room = room.min(usize::try_from(peer_limit).unwrap_or(usize::MAX));
        // Two bytes of length for all that packets of the usual size carry, four in jumbo ones.
        Some(room.saturating_sub(DatagramHeader::len(room.max(64), true)))
    }

    /// Queues an application datagram.
    ///
    /// # Errors
    /// [`DatagramError`] if the peer takes none, it is too large, or too many wait (a
    /// `DatagramsUnblocked` event follows).
    pub fn send_datagram(&mut self, data: Bytes) -> Result<(), DatagramError> {
        self.queue_datagram(data, None, DatagramOptions::new())
    }

    /// Queues an application datagram with a deadline, counted from `now`, a priority among
    /// those that wait, a short queue, or in its flow's turn.
    ///
    /// What cannot arrive in time is dropped before it is sent. What may not is protected if the
    /// recovery scheme does so, as `auto` does
    /// ([`ConnectionStats::timed`](crate::ConnectionStats::timed) has the counts). A peer without
    /// the repair extension may receive it twice.
    ///
    /// # Errors
    /// As [`send_datagram`](Self::send_datagram).
    pub fn send_datagram_with(
        &mut self,
        now: Instant,
        data: Bytes,
        options: DatagramOptions,
    ) -> Result<(), DatagramError> {
        // What is of no use any more leaves its room.
        self.datagrams.expire(self.earliest_arrival(now));
        let deadline = options.within.map(|time| now + Duration::from(time));
        self.queue_datagram(data, deadline, options)
    }

    /// Bytes of application datagrams that wait to be sent.
    pub fn datagrams_waiting(&self) -> u64 {
        self.datagrams.pending_bytes()
    }

    fn queue_datagram(
        &mut self,
        data: Bytes,
        deadline: Option<Instant>,
        options: DatagramOptions,
    ) -> Result<(), DatagramError> {
        let max = self.max_datagram_size().ok_or(DatagramError::Unsupported)?;
        if data.len() > max {
            return Err(DatagramError::TooLarge { max });
        }
        if self.datagrams.send(data, deadline, options) { Ok(()) } else { Err(DatagramError::Blocked) }
    }

    /// The next received application datagram.
    pub fn receive_datagram(&mut self) -> Option<Bytes> {
        if self.may_send_data() { self.datagrams.receive() } else { None }
    }
}
