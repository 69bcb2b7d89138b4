//! What a server's streams should do, as plainly as possible: a flag for every byte.

use std::collections::BTreeMap;

use proto::{
    Dir, Read, ReadError, Side, StreamId, VarInt,
    fuzzing::StreamsConfig,
    wire::{MAX_VARINT, Stream, TransportErrorCode, TransportParameters},
};

type Answer = Result<(), TransportErrorCode>;

/// The byte at an offset of a stream, in either direction.
pub(super) fn byte(id: StreamId, offset: u64) -> u8 {
    (offset.wrapping_mul(31) ^ offset >> 8 ^ id.0.wrapping_mul(77)) as u8
}

/// What arrives on one stream.
#[derive(Default)]
struct Recv {
    arrived: Vec<bool>,
    contiguous: u64,
    read: u64,
    highest: u64,
    limit: u64,
    final_size: Option<u64>,
    /// The code of a reset, and how much is read before it.
    reset: Option<(VarInt, u64)>,
    stopped: bool,
    gone: bool,
}

impl Recv {
    /// Whether all that a reset promises has come.
    fn reset_is_due(&self) -> bool {
        self.reset.is_some_and(|(_, promised)| promised <= self.contiguous)
    }
}

/// What we send on one stream.
#[derive(Default)]
struct Send {
    written: u64,
    /// Offset up to which anything was in a packet.
    sent: u64,
    limit: u64,
}

/// All streams of a connection's server.
pub(super) struct Model {
    recv: BTreeMap<StreamId, Recv>,
    send: BTreeMap<StreamId, Send>,
    /// Streams opened by the client, of either kind.
    opened: [u64; 2],
    /// How many of them were accepted.
    accepted: [u64; 2],
    /// How many the client may open, as announced.
    pub(super) streams_limit: [u64; 2],
    /// Bytes the client may send, as announced, and the sum of the highest offsets.
    pub(super) limit: u64,
    received: u64,
    /// Bytes we may send.
    pub(super) max_data: u64,
    window: u64,
    peer: TransportParameters,
}

impl Model {
    pub(super) fn new(config: &StreamsConfig, peer: &TransportParameters) -> Self {
        Self {
            recv: BTreeMap::new(),
            send: BTreeMap::new(),
            opened: [0; 2],
            accepted: [0; 2],
            streams_limit: [config.max_concurrent_bidi, config.max_concurrent_uni],
            limit: config.receive_window,
            received: 0,
            max_data: peer.initial_max_data.into_inner(),
            window: config.first_window(),
            peer: peer.clone(),
        }
    }

    /// Read offset, highest offset and limit of a stream.
    pub(super) fn landmarks(&self, id: StreamId) -> (u64, u64, u64) {
        self.recv.get(&id).map_or((0, 0, self.window), |recv| (recv.read, recv.highest, recv.limit))
    }

    pub(super) fn gaps(&self) -> usize {
        let live = self.recv.values().filter(|recv| !recv.gone && !recv.stopped);
        // Each gap ends where something arrived.
        live.map(|recv| recv.arrived.windows(2).filter(|pair| !pair[0] && pair[1]).count()).sum()
    }

    // ---- from the peer

    pub(super) fn may_receive_on(&mut self, id: StreamId) -> Answer {
        if id.dir() == Dir::Uni && id.initiator() == Side::Server {
            return Err(TransportErrorCode::STREAM_STATE_ERROR);
        }
        self.exists(id)
    }

    pub(super) fn may_send_to(&mut self, id: StreamId) -> Answer {
        if id.dir() == Dir::Uni && id.initiator() == Side::Client {
            return Err(TransportErrorCode::STREAM_STATE_ERROR);
        }
        self.exists(id)
    }

    fn exists(&mut self, id: StreamId) -> Answer {
        if id.initiator() == Side::Server {
            let known = self.recv.contains_key(&id) || self.send.contains_key(&id);
            return if known { Ok(()) } else { Err(TransportErrorCode::STREAM_STATE_ERROR) };
        }
        let dir = id.dir() as usize;
        if id.index() >= self.streams_limit[dir] {
            return Err(TransportErrorCode::STREAM_LIMIT_ERROR);
        }
        for index in self.opened[dir]..=id.index() {
            self.create(StreamId::new(Side::Client, id.dir(), index));
        }
        self.opened[dir] = self.opened[dir].max(id.index() + 1);
        Ok(())
    }

    fn create(&mut self, id: StreamId) {
        let ours = id.initiator() == Side::Server;
        if id.dir() == Dir::Bi || !ours {
            self.recv.insert(id, Recv { limit: self.window, ..Recv::default() });
        }
        if id.dir() == Dir::Bi || ours {
            let limit = match (id.dir(), ours) {
                (Dir::Uni, _) => self.peer.initial_max_stream_data_uni.into_inner(),
                (Dir::Bi, true) => self.peer.initial_max_stream_data_bidi_remote.into_inner(),
                (Dir::Bi, false) => self.peer.initial_max_stream_data_bidi_local.into_inner(),
            };
            self.send.insert(id, Send { limit, ..Send::default() });
        }
    }

    /// Data up to `end`; returns whether anybody wants it.
    fn receive_up_to(&mut self, id: StreamId, end: u64, fin: bool) -> Result<bool, TransportErrorCode> {
        let recv = self.recv.get_mut(&id).expect("it was opened");
        if recv.gone {
            return Ok(false);
        }
        let contradiction = match recv.final_size {
            Some(size) => end > size || fin && end != size,
            None => fin && end < recv.highest,
        };
        if contradiction {
            return Err(TransportErrorCode::FINAL_SIZE_ERROR);
        }
        let grown = end.saturating_sub(recv.highest);
        if end > recv.limit && grown > 0 || self.received + grown > self.limit {
            return Err(TransportErrorCode::FLOW_CONTROL_ERROR);
        }
        self.received += grown;
        recv.highest = recv.highest.max(end);
        if fin {
            recv.final_size = Some(end);
        }
        if recv.stopped && recv.final_size.is_some() {
            recv.gone = true;
        }
        Ok(!recv.stopped && !recv.reset_is_due())
    }

    pub(super) fn on_stream(&mut self, id: StreamId, offset: u64, len: u64, fin: bool) -> Answer {
        self.may_receive_on(id)?;
        let end = offset.saturating_add(len);
        if end > MAX_VARINT {
            return Err(TransportErrorCode::FRAME_ENCODING_ERROR);
        }
        if self.receive_up_to(id, end, fin)? && len > 0 {
            let recv = self.recv.get_mut(&id).expect("it was opened");
            let (offset, end) = (offset as usize, end as usize);
            if recv.arrived.len() < end {
                recv.arrived.resize(end, false);
            }
            recv.arrived[offset..end].fill(true);
            while recv.arrived.get(recv.contiguous as usize) == Some(&true) {
                recv.contiguous += 1;
            }
        }
        Ok(())
    }

    /// RESET_STREAM, or RESET_STREAM_AT if something is to be read nevertheless.
    pub(super) fn on_reset(&mut self, id: StreamId, code: VarInt, size: u64, at: Option<u64>) -> Answer {
        if at.is_some_and(|at| at > size) {
            return Err(TransportErrorCode::FRAME_ENCODING_ERROR);
        }
        self.may_receive_on(id)?;
        let accepted = id.initiator() == Side::Server || id.index() < self.accepted[id.dir() as usize];
        let recv = &self.recv[&id];
        let complete = recv.final_size == Some(recv.contiguous);
        if let Some((before, promised)) = recv.reset
            && !recv.gone
            && (at.is_some() || promised > 0)
            && before != code
        {
            return Err(TransportErrorCode::STREAM_STATE_ERROR);
        }
        if self.receive_up_to(id, size, true)? && !complete {
            let recv = self.recv.get_mut(&id).expect("it was opened");
            let promised = recv.reset.map_or(u64::MAX, |(_, promised)| promised).min(at.unwrap_or(0));
            recv.reset = Some((code, promised));
            if promised == 0 && !(accepted && recv.contiguous == size) {
                recv.arrived.clear();
                recv.contiguous = recv.read;
            }
        }
        Ok(())
    }

    /// The application took all streams of a kind that there are.
    pub(super) fn accept(&mut self, dir: Dir) {
        self.accepted[dir as usize] = self.opened[dir as usize];
    }

    pub(super) fn raise_stream(&mut self, id: StreamId, limit: u64) {
        if let Some(send) = self.send.get_mut(&id) {
            send.limit = send.limit.max(limit);
        }
    }

    // ---- to the peer

    pub(super) fn raise_ours(&mut self, id: StreamId, limit: u64) {
        let recv = self.recv.get_mut(&id).expect("only what exists is allowed more");
        recv.limit = recv.limit.max(limit);
    }

    pub(super) fn check_sent(&mut self, frame: &Stream<'_>) {
        let send = self.send.get_mut(&frame.id).expect("only what exists is sent");
        let end = frame.offset + frame.data.len() as u64;
        assert!(end <= send.written, "nobody wrote that");
        assert!(end <= send.limit, "beyond the stream's limit");
        assert!(frame.data.iter().zip(frame.offset..).all(|(&b, at)| b == byte(frame.id, at)));
        send.sent = send.sent.max(end);
        assert!(self.send.values().map(|s| s.sent).sum::<u64>() <= self.max_data, "beyond MAX_DATA");
    }

    // ---- the application

    pub(super) fn on_opened(&mut self, id: StreamId) {
        self.create(id);
    }

    pub(super) fn written(&self, id: StreamId) -> u64 {
        self.send.get(&id).map_or(0, |send| send.written)
    }

    pub(super) fn on_written(&mut self, id: StreamId, n: u64) {
        self.send.get_mut(&id).expect("it was written to").written += n;
    }

    /// Returns whether the stream could be stopped.
    pub(super) fn stop(&mut self, id: StreamId) -> bool {
        match self.recv.get_mut(&id) {
            Some(recv) if !recv.gone && !recv.stopped => {
                recv.stopped = true;
                recv.gone = recv.final_size.is_some();
                true
            }
            _ => false,
        }
    }

    pub(super) fn read(&mut self, id: StreamId, want: usize) -> Result<Read, ReadError> {
        let recv = self.recv.get_mut(&id).filter(|recv| !recv.gone).ok_or(ReadError::Unknown)?;
        if recv.stopped {
            return Err(ReadError::Closed);
        }
        if let Some((code, _)) = recv.reset
            && recv.reset_is_due()
            && recv.read == recv.contiguous
        {
            recv.gone = true;
            return Err(ReadError::Reset(code));
        }
        if recv.final_size == Some(recv.read) {
            recv.gone = true;
            return Ok(Read::Finished);
        }
        let n = (want as u64).min(recv.contiguous - recv.read);
        recv.read += n;
        if n == 0 { Err(ReadError::Blocked) } else { Ok(Read::Data(n as usize)) }
    }
}
