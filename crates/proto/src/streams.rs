//! Streams and flow control of one connection (RFC 9000 sections 2 to 4 and 19.4 to 19.14), without
//! I/O.
//!
//! [`Streams`] owns every send and receive half, the credit in both directions, and what is waiting
//! to be sent. It decides *what* goes into packets, never when or on which path, and knows no
//! packet: a packet's record keeps a [`SentStreamFrames`], and hands it back when the packet is
//! acknowledged or lost. Bytes are kept here only.
//!
//! # Memory
//! Everything is bounded: send buffers by [`StreamsConfig::send_buffer`], receive buffers by
//! [`StreamsConfig::receive_window`] (holes included), gaps by [`MAX_GAPS`], streams by the two
//! stream limits (ours for those the peer opens, the peer's for those the application opens).
//! Within these bounds [`memory`] and [`room`] share: what some streams hold never stops the
//! others.
//!
//! # Loss
//! Each byte in flight is answered for by exactly one packet; other packets that carry it are
//! copies ([`sent::StreamRange::copy`]). An acknowledgement counts from whichever packet it comes,
//! a loss only from the one that answers. So nothing is queued twice, whatever recovery scheme made
//! the copies.
//!
//! # Life of a half
//! A send half is forgotten once the peer acknowledged everything (or the reset, and what is delivered
//! before it), *and* the application ended it: by `finish`, by `reset`, or by a `write` or `finish` that
//! returned `Stopped`. A receive half is forgotten once the application read `Finished` or `Reset`, or
//! stopped it and the final size is known. When no half is left, the stream counts as closed; frames
//! for it are ignored.

mod application;
mod assembler;
mod config;
mod error;
mod event;
mod feedback;
mod flow;
mod incoming;
mod memory;
mod outgoing;
mod pieces;
mod queue;
mod recv;
mod room;
mod send;
mod send_buffer;
mod sent;
#[cfg(test)]
mod tests;
mod writers;

use std::collections::{BTreeMap, BTreeSet};

use units::{Duration, Instant};

pub use config::{ReceiveLimits, StreamsConfig};
pub use error::{Chunk, CloseError, FinishError, Read, ReadChunk, ReadError, ReceiveEnd, WriteError};
pub use event::StreamEvent;
#[cfg(test)]
use sent::StreamControl;
pub use sent::{SentStreamFrames, StreamRange};

use crate::spare_room::SpareRoom as _;
use crate::wire::{Dir, Side, StreamId, TransportParameters};
use event::EventQueue;
use flow::{Credit, Window};
use memory::Memory;
pub use memory::initial_stream_window;
pub use outgoing::Again;
use outgoing::ControlKey;
use queue::SendQueue;
use recv::RecvHalf;
use room::Room;
use send::{SendHalf, SendTally};

/// The most gaps in received stream data that a connection bears, over all streams; one more closes
/// it. Only a peer that means harm, or a loss of tens of thousands of single packets in one round
/// trip, gets there.
pub const MAX_GAPS: usize = 65_536;

/// What is known of the network, over all paths that are in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// The present.
    pub now: Instant,
    /// The longest of the round trips.
    pub rtt: Duration,
    /// Bytes that must be at hand so that the paths never wait for the application.
    pub need: u64,
}

/// What the streams of a connection hold at the moment, and its high-water marks.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct StreamsStats {
    /// Bytes in send buffers: written by the application and not acknowledged up to there.
    pub send_buffered: u64,
    /// Bytes in receive buffers, holes included.
    pub receive_buffered: u64,
    /// The most that `receive_buffered` has been.
    pub receive_buffered_max: u64,
    /// Gaps in received data now.
    pub gaps: usize,
    /// The most gaps there have been at once.
    pub gaps_max: usize,
    /// Bytes that streams may hold beyond what each has from the start, promised by windows that
    /// grew or held in buffers.
    pub windows_grown: u64,
    /// The largest window of a stream that may still grow.
    pub largest_window: u64,
    /// Stream bytes that had to be queued again because of loss, ever.
    pub requeued: u64,
    /// Streams with at least one half that is not forgotten.
    pub open: usize,
}

/// Streams of one kind that we open.
#[derive(Default, Debug)]
struct LocalStreams {
    /// `used` is the number opened.
    credit: Credit,
    opened: u64,
    /// Whether an `open` failed since the last `Available`.
    wanted: bool,
}

/// Streams of one kind that the peer opens.
#[derive(Debug)]
struct RemoteStreams {
    /// `received` is the number opened, `consumed` the number closed.
    window: Window,
    /// How many the application has accepted.
    accepted: u64,
}

/// Stream-level limits that the peer's transport parameters give to new streams.
#[derive(Clone, Copy, Default, Debug)]
struct PeerStreamLimits {
    /// Bidirectional streams that we open.
    bidi_ours: u64,
    /// Bidirectional streams that the peer opens.
    bidi_theirs: u64,
    /// Unidirectional streams that we open.
    uni: u64,
}

/// All streams of a connection.
///
/// Polling order: after any call, drain [`poll_event`](Self::poll_event); while
/// [`has_pending`](Self::has_pending), build packets with [`write_control`](Self::write_control)
/// and [`write_data`](Self::write_data). Every [`SentStreamFrames`] that these fill must come back
/// once, through [`on_acked`](Self::on_acked) or [`on_lost`](Self::on_lost); an abandoned path's
/// records count as lost.
#[derive(Debug)]
pub struct Streams {
    side: Side,
    /// Whether the peer takes RESET_STREAM_AT.
    peer_takes_reset_at: bool,
    config: StreamsConfig,
    send: BTreeMap<StreamId, SendHalf>,
    recv: BTreeMap<StreamId, RecvHalf>,
    local: [LocalStreams; 2],
    remote: [RemoteStreams; 2],
    peer: PeerStreamLimits,
    /// Connection-level credit for our data; `used` is what the application has written.
    credit: Credit,
    /// Connection-level credit for the peer's data.
    window: Window,
    /// How much of it which stream may have.
    memory: Memory,
    /// What our transport parameters gave every stream from the start.
    promised_per_stream: u64,
    /// What is known of the network; nothing at first.
    network: Option<Network>,
    /// How much of the send buffer which stream may have.
    room: Room,
    totals: SendTally,
    receive_buffered: u64,
    receive_buffered_max: u64,
    gaps: usize,
    gaps_max: usize,
    requeued: u64,
    /// Streams with something to send.
    queue: SendQueue,
    /// Control frames waiting.
    control: BTreeSet<ControlKey>,
    /// Streams whose writes wait for the connection, by number in the order they came.
    writers: BTreeMap<u64, StreamId>,
    next_writer: u64,
    events: EventQueue,
}

const DIRS: [Dir; 2] = [Dir::Bi, Dir::Uni];

impl Streams {
    /// No streams yet. Until [`set_peer_limits`](Self::set_peer_limits) nothing can be opened or
    /// written.
    pub fn new(side: Side, config: &StreamsConfig) -> Self {
        let remote = |dir| RemoteStreams { window: Window::new(config.max_concurrent(dir)), accepted: 0 };
        Self {
            side,
            peer_takes_reset_at: false,
            config: config.clone(),
            send: BTreeMap::new(),
            recv: BTreeMap::new(),
            local: Default::default(),
            remote: DIRS.map(remote),
            peer: PeerStreamLimits::default(),
            credit: Credit::default(),
            window: Window::new(config.receive_window),
            memory: Memory::new(config.receive_window),
            promised_per_stream: config.first_window(),
            network: None,
            room: Room::new(config.send_buffer),
            totals: SendTally::default(),
            receive_buffered: 0,
            receive_buffered_max: 0,
            gaps: 0,
            gaps_max: 0,
            requeued: 0,
            queue: SendQueue::default(),
            control: BTreeSet::new(),
            writers: BTreeMap::new(),
            next_writer: 0,
            events: EventQueue::default(),
        }
    }

    /// Nothing has happened for long: gives back what streams that are gone have left.
    pub(crate) fn rest(&mut self) {
        self.send.give_back();
        self.recv.give_back();
        self.control.give_back();
        self.writers.give_back();
        self.queue.rest();
        self.events.rest();
    }

    /// Takes over the limits in the peer's transport parameters.
    ///
    /// May be called with remembered parameters (0-RTT) and then with the real ones; limits only
    /// ever grow, which RFC 9000 section 7.4.1 demands of a server that accepts 0-RTT. The caller
    /// checks that it keeps to that.
    pub fn set_peer_limits(&mut self, peer: &TransportParameters) {
        self.peer = PeerStreamLimits {
            bidi_ours: peer.initial_max_stream_data_bidi_remote.into_inner(),
            bidi_theirs: peer.initial_max_stream_data_bidi_local.into_inner(),
            uni: peer.initial_max_stream_data_uni.into_inner(),
        };
        self.peer_takes_reset_at = peer.reset_stream_at;
        self.raise_data_limit(peer.initial_max_data.into_inner());
        self.raise_streams_limit(Dir::Bi, peer.initial_max_streams_bidi.into_inner());
        self.raise_streams_limit(Dir::Uni, peer.initial_max_streams_uni.into_inner());
        let ids: Vec<StreamId> = self.send.keys().copied().collect();
        for id in ids {
            self.raise_stream_data_limit(id, self.initial_send_limit(id));
        }
    }

    /// Whether there is any stream to receive on.
    pub fn may_receive(&self) -> bool {
        !self.recv.is_empty()
    }

    /// Whether the peer owes data on any stream: neither all of it nor a reset has come, and the
    /// application has not stopped it.
    pub fn awaits_data(&self) -> bool {
        self.recv.values().any(RecvHalf::awaits_data)
    }

    /// Raises what the peer may send and open, at once and for all streams; limits that would fall
    /// stay as they are, since what was promised cannot be taken back (RFC 9000 section 4.1).
    pub fn raise_limits(&mut self, limits: &ReceiveLimits) {
        let config = &mut self.config;
        config.receive_window = config.receive_window.max(limits.receive_window);
        config.stream_receive_window = config.stream_receive_window.max(limits.stream_receive_window);
        config.max_concurrent_bidi = config.max_concurrent_bidi.max(limits.max_concurrent_bidi);
        config.max_concurrent_uni = config.max_concurrent_uni.max(limits.max_concurrent_uni);
        let streams = config.max_concurrent(Dir::Bi) + config.max_concurrent(Dir::Uni);
        let initial = initial_stream_window(config.receive_window, streams);
        config.initial_stream_window = config.initial_stream_window.max(initial);
        self.memory.set_window(self.config.receive_window);
        if self.window.widen(self.config.receive_window) {
            self.control.insert(ControlKey::MaxData);
        }
        let first = self.config.first_window();
        for (id, half) in &mut self.recv {
            if half.window.widen(first) && half.wants_more() {
                self.control.insert(ControlKey::MaxStreamData(*id));
            }
        }
        for dir in DIRS {
            if self.remote[dir as usize].window.widen(self.config.max_concurrent(dir)) {
                self.control.insert(ControlKey::MaxStreams(dir));
            }
        }
    }

    /// What the peer may send and open.
    pub fn receive_limits(&self) -> ReceiveLimits {
        let StreamsConfig {
            receive_window,
            stream_receive_window,
            max_concurrent_bidi,
            max_concurrent_uni,
            ..
        } = self.config;
        ReceiveLimits { receive_window, stream_receive_window, max_concurrent_bidi, max_concurrent_uni }
    }

    /// The next piece of news for the application.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        self.events.pop()
    }

    /// Memory in use, and counters.
    pub fn stats(&self) -> StreamsStats {
        let receive_only = self.recv.keys().filter(|id| !self.send.contains_key(id)).count();
        StreamsStats {
            send_buffered: self.totals.held,
            receive_buffered: self.receive_buffered,
            receive_buffered_max: self.receive_buffered_max,
            gaps: self.gaps,
            gaps_max: self.gaps_max,
            windows_grown: self.memory.grown(),
            largest_window: self
                .recv
                .values()
                .filter(|h| h.wants_more())
                .map(|h| h.window.size())
                .max()
                .unwrap_or(0),
            requeued: self.requeued,
            open: self.send.len() + receive_only,
        }
    }

    /// Gaps in received data now.
    pub fn gaps(&self) -> usize {
        self.gaps
    }

    fn is_local(&self, id: StreamId) -> bool {
        id.initiator() == self.side
    }

    fn can_send(&self, id: StreamId) -> bool {
        id.dir() == Dir::Bi || self.is_local(id)
    }

    fn can_receive(&self, id: StreamId) -> bool {
        id.dir() == Dir::Bi || !self.is_local(id)
    }

    fn initial_send_limit(&self, id: StreamId) -> u64 {
        match (id.dir(), self.is_local(id)) {
            (Dir::Uni, _) => self.peer.uni,
            (Dir::Bi, true) => self.peer.bidi_ours,
            (Dir::Bi, false) => self.peer.bidi_theirs,
        }
    }

    /// Makes the halves of a new stream.
    fn create(&mut self, id: StreamId) {
        if self.can_send(id) {
            self.send.insert(id, SendHalf::new(id, self.initial_send_limit(id)));
        }
        if self.can_receive(id) {
            let mut half = RecvHalf::new(self.promised_per_stream);
            if self.is_local(id) {
                // Told along with the first bytes that we send.
                self.advance(&mut half);
            } else if half.window.widen(self.config.first_window()) {
                // The limits have been raised since our transport parameters left.
                self.control.insert(ControlKey::MaxStreamData(id));
            }
            self.recv.insert(id, half);
        }
    }

    /// Changes a send half and then everything that depends on it: totals, queues, and whether it
    /// still exists.
    fn with_send<R>(&mut self, id: StreamId, change: impl FnOnce(&mut SendHalf) -> R) -> Option<R> {
        let half = self.send.get_mut(&id)?;
        let before = half.tally();
        let result = change(half);
        self.totals.replace(before, half.tally());
        for class in half.enter_queue() {
            self.queue.push_back(half.priority, class, id);
        }
        if half.is_done() {
            self.forget_send(id);
        }
        Some(result)
    }

    /// Changes a receive half and then the totals that depend on it.
    fn with_recv<R>(&mut self, id: StreamId, change: impl FnOnce(&mut RecvHalf) -> R) -> Option<R> {
        let half = self.recv.get_mut(&id)?;
        let (buffered, gaps) = (half.data.buffered(), half.data.gaps());
        let result = change(half);
        self.receive_buffered = self.receive_buffered + half.data.buffered() - buffered;
        self.gaps = self.gaps + half.data.gaps() - gaps;
        self.receive_buffered_max = self.receive_buffered_max.max(self.receive_buffered);
        self.gaps_max = self.gaps_max.max(self.gaps);
        Some(result)
    }

    /// Forgets a send half that is done.
    fn forget_send(&mut self, id: StreamId) {
        let Some(half) = self.send.remove(&id) else { return };
        for class in half.queued() {
            self.queue.remove(half.priority, class, id);
        }
        if let Some(number) = half.writer {
            self.writers.remove(&number);
        }
        self.control.remove(&ControlKey::ResetStream(id));
        self.control.remove(&ControlKey::StreamDataBlocked(id));
        self.note_half_closed(id);
    }

    /// Forgets a receive half, all of whose credit has been given back.
    fn forget_recv(&mut self, id: StreamId) {
        self.with_recv(id, |half| half.data.discard());
        if let Some(half) = self.recv.remove(&id) {
            self.memory.replace_grown(half.grown, 0);
            self.memory.replace_advanced(half.advanced, 0);
        }
        self.control.remove(&ControlKey::StopSending(id));
        self.control.remove(&ControlKey::MaxStreamData(id));
        self.note_half_closed(id);
    }

    /// Gives the peer credit for a new stream when one of its own is closed in both directions.
    fn note_half_closed(&mut self, id: StreamId) {
        if self.is_local(id) || self.send.contains_key(&id) || self.recv.contains_key(&id) {
            return;
        }
        let window = &mut self.remote[id.dir() as usize].window;
        window.consume(1);
        if window.is_update_due() {
            self.control.insert(ControlKey::MaxStreams(id.dir()));
        }
    }

    /// Gives connection-level credit back to the peer.
    fn consume(&mut self, n: u64) {
        self.window.consume(n);
        if self.window.is_update_due() {
            self.control.insert(ControlKey::MaxData);
        }
    }

    fn raise_data_limit(&mut self, limit: u64) {
        let had_none = self.credit.available() == 0;
        if self.credit.raise(limit) {
            self.control.remove(&ControlKey::DataBlocked);
            // Else nobody waits for it, and a packet with hundreds of such frames would have all writers looked
            // through for each.
            if had_none {
                self.wake_those_without_any();
            }
            self.wake_writers();
        }
    }

    fn raise_stream_data_limit(&mut self, id: StreamId, limit: u64) {
        let Some(half) = self.send.get_mut(&id) else { return };
        if half.credit.raise(limit) {
            self.control.remove(&ControlKey::StreamDataBlocked(id));
            if std::mem::take(&mut half.wants_credit) {
                self.add_writer(id);
                self.wake_writers();
                self.wake_if_room(id);
            }
        }
    }

    fn raise_streams_limit(&mut self, dir: Dir, limit: u64) {
        let local = &mut self.local[dir as usize];
        if local.credit.raise(limit) {
            self.control.remove(&ControlKey::StreamsBlocked(dir));
            if std::mem::take(&mut local.wanted) {
                self.events.push(StreamEvent::Available { dir });
            }
        }
    }

    /// Tells what is known of the network: call it before what follows from datagrams and timers,
    /// and before packets are built.
    pub fn note_network(&mut self, network: Network) {
        self.network = Some(network);
        self.room.set_need(network.need);
    }

    /// Widens a window before anything was read of it, as far as memory allows.
    fn advance(&mut self, half: &mut RecvHalf) {
        let first = self.config.first_window();
        let advance = self.memory.advance().min(self.config.stream_receive_window - first);
        if advance >= first && half.grown == 0 {
            half.window.widen(first + advance);
            self.memory.replace_advanced(half.advanced, advance);
            half.advanced = advance;
        }
        half.window.widen(first);
        self.recount(half);
    }

    /// Enters in the books what a stream may hold by now.
    fn recount(&mut self, half: &mut RecvHalf) {
        let grown = half.growth(self.config.first_window());
        self.memory.replace_grown(half.grown, grown);
        half.grown = grown;
    }

    /// Fits a stream's window to the rate at which it is read, within what memory allows.
    fn tune(&mut self, id: StreamId) {
        let Some(mut half) = self.recv.remove(&id) else { return };
        let demand = self.network.and_then(|network| half.demand(network.now, network.rtt));
        if half.wants_more() && self.network.is_some() {
            if half.grown == 0 {
                self.advance(&mut half);
            }
            let first = self.config.first_window();
            let earned = self.memory.earned(half.window.consumed());
            let most = first.saturating_add(self.memory.share(half.grown).min(earned));
            let most = most.min(self.config.stream_receive_window);
            let size = half.window.size();
            match demand {
                Some(demand) if demand > size && most > size => {
                    half.window.widen(demand.min(most));
                    // It has earned what it was given in advance.
                    self.memory.replace_advanced(half.advanced, 0);
                    half.advanced = 0;
                }
                Some(demand) if demand < size / 2 && self.memory.is_short() => {
                    half.window.narrow(demand.max(size / 2).max(first));
                }
                _ => {}
            }
        }
        self.recount(&mut half);
        self.recv.insert(id, half);
    }
}
