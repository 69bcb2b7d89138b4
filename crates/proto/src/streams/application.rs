//! What the application does with streams.

use super::{Chunk, CloseError, FinishError, Read, ReadChunk, ReadError, ReceiveEnd, Streams, WriteError};
use super::{outgoing::ControlKey, recv::RecvHalf, send::SendHalf};
use crate::wire::{Dir, StreamId, VarInt};

impl Streams {
    /// Opens a stream; `None` when the peer allows no more of this kind now, which an `Available`
    /// event ends.
    pub fn open(&mut self, dir: Dir) -> Option<StreamId> {
        let local = &mut self.local[dir as usize];
        if local.credit.available() == 0 {
            local.wanted = true;
            if local.credit.note_blocked() {
                self.control.insert(ControlKey::StreamsBlocked(dir));
            }
            return None;
        }
        local.credit.take(1);
        let id = StreamId::new(self.side, dir, local.opened);
        local.opened += 1;
        self.create(id);
        Some(id)
    }

    /// The next stream that the peer opened, in the order of ids.
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        let remote = &mut self.remote[dir as usize];
        if remote.accepted == remote.window.received() {
            return None;
        }
        let id = StreamId::new(self.side.peer(), dir, remote.accepted);
        remote.accepted += 1;
        Some(id)
    }

    /// Takes over bytes to send; returns how many, possibly fewer than given.
    ///
    /// As much is taken as the stream's credit, the connection's credit and the stream's share of
    /// the send buffer allow, so whatever was taken can be sent at once and one stream that the
    /// peer does not read never blocks the others. After [`WriteError::Blocked`] a `Writable` event
    /// follows; after a short write call again.
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        let half = self.send.get_mut(&id).ok_or(WriteError::Unknown)?;
        if !half.app_done
            && let Some(code) = half.stopped
        {
            self.with_send(id, |half| half.app_done = true);
            return Err(WriteError::Stopped(code));
        }
        if !half.is_open() {
            return Err(half.stopped.map_or(WriteError::Closed, WriteError::Stopped));
        }
        let room = self.room.available(self.totals.held, half.held());
        let allowed = half.credit.available().min(self.credit.available()).min(room);
        let n = allowed.min(data.len() as u64);
        if n == 0 && !data.is_empty() {
            self.note_write_blocked(id);
            return Err(WriteError::Blocked);
        }
        self.credit.take(n);
        self.with_send(id, |half| half.push(&data[..n as usize]));
        self.tell_advance(id);
        Ok(n as usize)
    }

    /// With the first bytes of a stream that we open, the peer hears of a window that was widened
    /// before.
    fn tell_advance(&mut self, id: StreamId) {
        let is_news = |half: &RecvHalf| half.wants_more() && half.advanced > 0 && half.window.is_untold();
        if self.is_local(id) && self.recv.get(&id).is_some_and(is_news) {
            self.control.insert(ControlKey::MaxStreamData(id));
        }
    }

    /// Remembers what a blocked write waits for, and tells the peer if it is the peer's limit.
    fn note_write_blocked(&mut self, id: StreamId) {
        let Some(half) = self.send.get_mut(&id) else { return };
        if half.credit.available() == 0 {
            half.wants_credit = true;
            if half.credit.note_blocked() {
                self.control.insert(ControlKey::StreamDataBlocked(id));
            }
            return;
        }
        self.add_writer(id);
        if self.credit.available() == 0 && self.credit.note_blocked() {
            self.control.insert(ControlKey::DataBlocked);
        }
    }

    /// Ends the stream after what has been written. A `Finished` event follows when the peer has
    /// everything.
    pub fn finish(&mut self, id: StreamId) -> Result<(), FinishError> {
        let half = self.send.get(&id).ok_or(FinishError::Unknown)?;
        let result = match half.stopped {
            Some(code) => Err(FinishError::Stopped(code)),
            None if !half.is_open() => return Err(FinishError::Closed),
            None => Ok(()),
        };
        self.with_send(id, |half| {
            half.app_done = true;
            if result.is_ok() {
                half.finish();
            }
        });
        self.tell_advance(id);
        result
    }

    /// Abandons the stream: of what is beyond the reliable boundary, nothing that is not sent yet will
    /// be, nor what is lost. `code` is the application's.
    ///
    /// A finished stream may be reset while the peer lacks some of it, and so may one with
    /// [`reset_when_delivered`](Self::reset_when_delivered), whose code stays. After the peer stopped the
    /// stream this only says that the application knows.
    pub fn reset(&mut self, id: StreamId, code: VarInt) -> Result<(), CloseError> {
        let half = self.send.get(&id).ok_or(CloseError::Unknown)?;
        let boundary = half.boundary;
        if half.reset().is_some() && half.app_done {
            return if self.lower_reset(id, boundary) { Ok(()) } else { Err(CloseError::Closed) };
        }
        if half.reset().is_none() {
            self.start_reset(id, code, boundary);
        }
        self.with_send(id, |half| half.app_done = true);
        Ok(())
    }

    /// What was written so far is delivered even if the stream is reset, unless the peer stops it.
    pub fn set_reliable_boundary(&mut self, id: StreamId) -> Result<(), CloseError> {
        let half = self.send.get_mut(&id).ok_or(CloseError::Unknown)?;
        if !half.is_open() {
            return Err(CloseError::Closed);
        }
        half.boundary = half.written();
        Ok(())
    }

    /// The code with which the peer has stopped a sending half. Who takes a stream over asks: the
    /// `Stopped` event may have come before.
    pub fn stop_code(&self, id: StreamId) -> Option<VarInt> {
        self.send.get(&id)?.stopped
    }

    /// As [`reset`](Self::reset), but what was written is delivered first, as if more were to follow;
    /// refused where nothing can follow.
    pub fn reset_when_delivered(&mut self, id: StreamId, code: VarInt) -> Result<(), CloseError> {
        let half = self.send.get(&id).ok_or(CloseError::Unknown)?;
        if !half.is_open() {
            return Err(CloseError::Closed);
        }
        let written = half.written();
        self.start_reset(id, code, written);
        self.with_send(id, |half| half.app_done = true);
        Ok(())
    }

    /// Drops a stream's data from `reliable_size` on, and makes the reset pending as soon as the peer
    /// can be told.
    pub(super) fn start_reset(&mut self, id: StreamId, code: VarInt, reliable_size: u64) {
        let takes_at = self.peer_takes_reset_at;
        if let Some(never_sent) = self.with_send(id, |half| half.start_reset(code, reliable_size, takes_at)) {
            let had_none = self.credit.available() == 0;
            self.credit.give_back(never_sent);
            // The MAX_DATA that comes next finds some, and has nobody told first.
            if had_none && never_sent > 0 {
                self.wake_those_without_any();
            }
            self.control.remove(&ControlKey::StreamDataBlocked(id));
            self.tell_reset(id);
        }
    }

    /// Gives up of what was to be delivered before a reset all beyond `reliable_size`; whether there was
    /// any.
    pub(super) fn lower_reset(&mut self, id: StreamId, reliable_size: u64) -> bool {
        let lowered = self.with_send(id, |half| half.lower_reset(reliable_size)) == Some(true);
        if lowered {
            self.tell_reset(id);
        }
        lowered
    }

    /// Makes the reset of a stream pending if it is due. Others may write instead.
    fn tell_reset(&mut self, id: StreamId) {
        if self.send.get(&id).is_some_and(SendHalf::owes_reset) {
            self.control.insert(ControlKey::ResetStream(id));
        }
        self.wake_writers();
    }

    /// Declares that the application reads no more of the stream, and asks the peer to stop
    /// sending. `code` is the application's.
    pub fn stop(&mut self, id: StreamId, code: VarInt) -> Result<(), CloseError> {
        let half = self.recv.get(&id).ok_or(CloseError::Unknown)?;
        if half.stopped.is_some() {
            return Err(CloseError::Closed);
        }
        let unread = self.with_recv(id, |half| {
            half.stopped = Some(code);
            half.discard()
        });
        self.consume(unread.unwrap_or(0));
        self.recount_stream(id);
        self.control.remove(&ControlKey::MaxStreamData(id));
        if self.recv.get(&id).is_some_and(|half| half.wants_stop()) {
            self.control.insert(ControlKey::StopSending(id));
        } else {
            self.forget_recv(id);
        }
        Ok(())
    }

    /// Reads the next bytes in order into `buf`. A `Readable` event announces more after
    /// [`ReadError::Blocked`].
    pub fn read(&mut self, id: StreamId, buf: &mut [u8]) -> Result<Read, ReadError> {
        if self.is_at_end(id)? {
            return Ok(Read::Finished);
        }
        let n = self.with_recv(id, |half| half.data.read(buf)).unwrap_or(0);
        self.note_read(id, n);
        Ok(Read::Data(n))
    }

    /// As [`read`](Self::read), without a buffer: the next bytes in order, at most `max`.
    pub fn read_chunk(&mut self, id: StreamId, max: usize) -> Result<ReadChunk, ReadError> {
        if self.is_at_end(id)? {
            return Ok(ReadChunk::Finished);
        }
        let chunk = self.with_recv(id, |half| {
            let offset = half.data.read_offset();
            Chunk { offset, bytes: half.data.take(max) }
        });
        let chunk = chunk.ok_or(ReadError::Unknown)?;
        self.note_read(id, chunk.bytes.len());
        Ok(ReadChunk::Data(chunk))
    }

    /// What has arrived of the end of a stream, without reading: a `Readable` event announces it
    /// after `None`. A half that was read to its end is unknown.
    pub fn receive_end(&self, id: StreamId) -> Result<Option<ReceiveEnd>, ReadError> {
        let half = self.recv.get(&id).ok_or(ReadError::Unknown)?;
        if half.stopped.is_some() {
            return Err(ReadError::Closed);
        }
        let complete = half.is_complete().then_some(ReceiveEnd::Complete);
        Ok(half.due_reset().map(ReceiveEnd::Reset).or(complete))
    }

    /// Whether all was read, after which the half is forgotten; if not, there is something to read.
    fn is_at_end(&mut self, id: StreamId) -> Result<bool, ReadError> {
        let half = self.recv.get(&id).ok_or(ReadError::Unknown)?;
        if half.stopped.is_some() {
            return Err(ReadError::Closed);
        }
        // What had all come before the reset is read before it (RFC 9000 section 3.2), and so is what it
        // promises.
        if let Some(code) = half.due_reset()
            && half.data.contiguous() == half.data.read_offset()
        {
            let unread = self.with_recv(id, RecvHalf::discard);
            self.consume(unread.unwrap_or(0));
            self.forget_recv(id);
            return Err(ReadError::Reset(code));
        }
        if half.is_read_to_end() {
            self.forget_recv(id);
            return Ok(true);
        }
        if half.data.contiguous() == half.data.read_offset() {
            return Err(ReadError::Blocked);
        }
        Ok(false)
    }

    /// The application has read so many bytes.
    fn note_read(&mut self, id: StreamId, n: usize) {
        if let Some(half) = self.recv.get_mut(&id) {
            half.window.consume(n as u64);
        }
        self.consume(n as u64);
        self.recount_stream(id);
        self.update_stream_window(id);
    }

    /// Bytes that were written to a stream and that the peer does not have yet, as far as it has said
    /// so; zero of one that is over.
    pub fn undelivered(&self, id: StreamId) -> u64 {
        self.send.get(&id).map_or(0, |half| half.held())
    }

    /// Sets the priority of a stream's data, what was written before included; higher goes first, 0
    /// is the default. Unknown streams are ignored.
    pub fn set_priority(&mut self, id: StreamId, priority: i32) {
        let Some(half) = self.send.get_mut(&id) else { return };
        let before = std::mem::replace(&mut half.priority, priority);
        if before != priority {
            for class in half.queued() {
                self.queue.remove(before, class, id);
                self.queue.push_back(priority, class, id);
            }
        }
    }

    /// Enters in the books that a stream holds less, or will get no more.
    pub(super) fn recount_stream(&mut self, id: StreamId) {
        let first = self.config.first_window();
        if let Some(half) = self.recv.get_mut(&id)
            && half.grown > 0
        {
            let grown = half.growth(first);
            self.memory.replace_grown(half.grown, grown);
            half.grown = grown;
        }
    }

    /// Makes MAX_STREAM_DATA pending if it is time.
    pub(super) fn update_stream_window(&mut self, id: StreamId) {
        let is_due = |half: &RecvHalf| half.is_outgrown() || half.wants_more() && half.window.is_update_due();
        if self.recv.get(&id).is_some_and(is_due) {
            self.control.insert(ControlKey::MaxStreamData(id));
        }
    }
}
