//! How a connection ends (RFC 9000 section 10).

use units::{Duration, Instant};

use super::{Connection, ConnectionError, EndpointEvent, Event, event::EndpointEventKind};
use crate::path::{Path, probe::MAX_INTERVAL_ALONE};
use crate::wire::{ConnectionClose, PathId, TransportError, TransportErrorCode, VarInt};

/// Where a connection is between open and gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// We closed: CONNECTION_CLOSE is repeated when packets still arrive (section 10.2.1).
    Closing(Box<Closing>),
    /// The peer closed: nothing is sent any more (section 10.2.2).
    Draining {
        until: Instant,
    },
    Drained,
}

/// What a connection says once it has closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Closing {
    pub(super) close: CloseFrame,
    pub(super) until: Instant,
    /// Paths on which CONNECTION_CLOSE is to be sent.
    pub(super) pending: Vec<PathId>,
    packets_since: u32,
    next_answer: u32,
    /// Nothing is kept once CONNECTION_CLOSE has left.
    pub(super) briefly: bool,
}

impl State {
    pub(super) fn is_closed(&self) -> bool {
        !matches!(self, Self::Open)
    }

    pub(super) fn is_drained(&self) -> bool {
        matches!(self, Self::Drained)
    }
}

/// CONNECTION_CLOSE as we send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CloseFrame {
    Transport(TransportError),
    Application { code: VarInt, reason: Vec<u8> },
}

impl CloseFrame {
    /// The frame for a 1-RTT packet, or for a handshake packet, which does not reveal the
    /// application's reason (RFC 9000 section 10.2.3).
    pub(super) fn frame(&self, in_handshake: bool) -> ConnectionClose<'_> {
        match self {
            Self::Transport(error) => error.into(),
            Self::Application { .. } if in_handshake => ConnectionClose::Transport {
                error_code: TransportErrorCode::APPLICATION_ERROR,
                frame_type: None,
                reason: &[],
            },
            Self::Application { code, reason } => ConnectionClose::Application { error_code: *code, reason },
        }
    }
}

impl Connection {
    /// Closes the connection on behalf of the application. Streams are not flushed: finish them and
    /// wait for `Finished` first.
    ///
    /// `code` is the application's; a reason that does not fit a packet is cut.
    pub fn close(&mut self, now: Instant, code: VarInt, reason: &[u8]) {
        if self.state.is_closed() {
            return;
        }
        self.leave_paths(now);
        self.enter_closing(now, CloseFrame::Application { code, reason: reason.to_vec() });
        self.events.push_back(Event::ConnectionLost(ConnectionError::LocallyClosed));
    }

    /// Turns a client away on behalf of the application, with words that reach it also while the
    /// handshake is under way: until it is complete they are CONNECTION_REFUSED with this reason,
    /// which anybody on the path can read; then a close with the application's code. What
    /// [`close`](Self::close) says is hidden during the handshake (RFC 9000 section 10.2.3).
    pub fn refuse(&mut self, now: Instant, code: VarInt, reason: &str) {
        if self.handshake.is_complete() {
            return self.close(now, code, reason.as_bytes());
        }
        self.fail(now, TransportError::new(TransportErrorCode::CONNECTION_REFUSED, reason.to_owned()));
    }

    /// Gives way to another client: says so once, if at all, and keeps nothing. For connections
    /// that [`Endpoint::poll_evicted`](crate::Endpoint::poll_evicted) names.
    pub fn evict(&mut self, now: Instant) {
        let reason = "too many clients wait to be let in";
        self.fail(now, TransportError::new(TransportErrorCode::CONNECTION_REFUSED, reason));
        match &mut self.state {
            State::Closing(closing) if !closing.pending.is_empty() => closing.briefly = true,
            _ => self.drain(),
        }
    }

    /// Closes the connection because the peer broke the protocol.
    pub(super) fn fail(&mut self, now: Instant, error: TransportError) {
        if self.state.is_closed() {
            return;
        }
        let lost = ConnectionError::TransportError(error.clone());
        self.enter_closing(now, CloseFrame::Transport(error));
        self.tell_lost(lost);
    }

    /// The connection is lost. What has become of streams before that is told before it: that the peer
    /// has all of one often comes together with the close, and is not asked for later.
    fn tell_lost(&mut self, error: ConnectionError) {
        if self.may_send_data() {
            let news = std::iter::from_fn(|| self.streams.poll_event());
            self.events.extend(news.map(Event::Stream));
        }
        self.events.push_back(Event::ConnectionLost(error));
    }

    fn enter_closing(&mut self, now: Instant, close: CloseFrame) {
        let mut period = self.close_period();
        if self.handshake.is_complete() && !self.paths.values().any(Path::is_open) {
            // The peer has one path left, which it probes now and then: one of these packets must
            // meet an answer, even if the first is lost.
            period = period.max(MAX_INTERVAL_ALONE * 2);
        }
        let until = now + period;
        let pending = self.closing_paths();
        let closing = Closing { close, until, pending, packets_since: 0, next_answer: 1, briefly: false };
        self.state = State::Closing(Box::new(closing));
    }

    /// The peer closed.
    pub(super) fn on_connection_close(&mut self, now: Instant, frame: &ConnectionClose<'_>) {
        if !self.state.is_closed() {
            let error = match frame {
                ConnectionClose::Transport { error_code, reason, .. } => ConnectionError::ConnectionClosed {
                    code: *error_code,
                    reason: String::from_utf8_lossy(reason).into_owned(),
                },
                ConnectionClose::Application { error_code, reason } => {
                    ConnectionError::ApplicationClosed { code: *error_code, reason: reason.to_vec() }
                }
            };
            self.tell_lost(error);
            self.leave_paths(now);
        }
        if !self.state.is_drained() {
            self.state = State::Draining { until: now + self.close_period() };
        }
    }

    /// Somebody closes the connection.
    fn leave_paths(&mut self, now: Instant) {
        let ids: smallvec::SmallVec<[PathId; 8]> = self.paths.keys().copied().collect();
        ids.into_iter().for_each(|id| self.leave_path(now, id));
    }

    /// Somebody closes the connection, or a path of it, while the path works. What was learnt of it serves the
    /// next connection as after an exchange, although not all has been acknowledged: a client may close with the
    /// last byte that it wanted. What its connection was lent would be gone else
    /// (docs/decisions/0018-careful-resume.md). A path at rest has said it all before, and others may have been
    /// lent that, or know better by now.
    pub(super) fn leave_path(&mut self, now: Instant, id: PathId) {
        let confirmed = self.handshake.is_confirmed();
        let Some(path) = self.paths.get_mut(&id).filter(|path| confirmed && path.works()) else { return };
        if path.rtt().first_sample_at().is_some() && path.has_news() {
            let found = path.take_finding(now);
            self.config.path_store.remember(&path.network(), path.learnt(), &found);
        }
    }

    /// Ends at once and silently (RFC 9000 section 10.1).
    pub(super) fn time_out(&mut self) {
        if !self.state.is_closed() {
            self.tell_lost(ConnectionError::TimedOut);
        }
        self.drain();
    }

    /// The peer has forgotten the connection (RFC 9000 section 10.3.1): nothing is sent any more.
    pub(super) fn on_stateless_reset(&mut self, now: Instant) {
        match self.state {
            State::Open => {
                self.tell_lost(ConnectionError::Reset);
                self.state = State::Draining { until: now + self.close_period() };
            }
            // A peer that has forgotten the connection needs no answer any more: that is no reason
            // to stay longer than planned.
            State::Closing(_) => self.state = State::Draining { until: now },
            State::Draining { .. } | State::Drained => {}
        }
    }

    pub(super) fn on_version_mismatch(&mut self) {
        if !self.state.is_closed() {
            self.events.push_back(Event::ConnectionLost(ConnectionError::VersionMismatch));
        }
        self.drain();
    }

    pub(super) fn drain(&mut self) {
        if self.state.is_drained() {
            return;
        }
        self.state = State::Drained;
        self.endpoint_events.push_back(EndpointEvent(EndpointEventKind::Drained));
        self.events.push_back(Event::Drained);
    }

    /// An authentic packet arrived while closing: answered at exponentially growing intervals (RFC
    /// 9000 section 10.2.1).
    pub(super) fn on_packet_while_closing(&mut self) {
        let paths = self.closing_paths();
        if let State::Closing(closing) = &mut self.state {
            closing.packets_since += 1;
            if closing.packets_since >= closing.next_answer {
                closing.pending = paths;
                closing.packets_since = 0;
                closing.next_answer = closing.next_answer.saturating_mul(2);
            }
        }
    }

    /// Every open path: a lossy one alone might not tell the peer. If none is left, the abandoned
    /// ones on which it may still listen.
    fn closing_paths(&self) -> Vec<PathId> {
        if !self.handshake.is_complete() {
            return vec![PathId::ZERO];
        }
        let open: Vec<_> = self.paths.values().filter(|p| p.is_open()).map(|p| p.id()).collect();
        if open.is_empty() { self.paths.keys().copied().collect() } else { open }
    }

    /// Three probe timeouts of the slowest path (RFC 9000 section 10.2), which the peer's delay of ACKs is a
    /// part of (RFC 9002 section 6.2.1).
    fn close_period(&self) -> Duration {
        let slowest =
            self.paths.values().map(|p| p.rtt().pto_base()).max().unwrap_or(Duration::from_millis(100));
        (slowest + self.peer_max_ack_delay()) * 3
    }
}
