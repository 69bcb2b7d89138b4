//! [`RecvHalf`]: what we receive on one stream (RFC 9000 section 3.2).

use units::{Duration, Instant};

use super::assembler::Assembler;
use super::flow::Window;
use crate::wire::{TransportError, VarInt};

/// Below this a window that is too small grows fourfold at a time, above it doubles.
const RAMP: u64 = 1 << 20;

/// So many times what was read of a stream is believed to wait for holes that loss has made, and not
/// a sender that means to fill our memory. In slow start over a lossy path, what was read is two to
/// three doublings behind what has come.
pub(super) const MOST_AHEAD: u64 = 8;
/// So many times what was read is the most that is promised because of how it grows behind holes.
const MOST_EAGER: u64 = 3 * (MOST_AHEAD + 1);

/// A reset that the peer has decided on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PeerReset {
    /// Application error code.
    pub(super) code: VarInt,
    /// Bytes that the application gets nevertheless; only ever less.
    pub(super) reliable_size: u64,
}

/// The receiving half of a stream.
///
/// Credit of the connection is given back as the application reads, or for a whole stream at once
/// when it is reset or stopped; [`Window::consumed`] of the stream counts what has been given back.
#[derive(Debug)]
pub(super) struct RecvHalf {
    pub(super) data: Assembler,
    /// Stream-level credit; `received` is the highest offset seen.
    pub(super) window: Window,
    /// Known from a FIN or a reset.
    pub(super) final_size: Option<u64>,
    /// Of the peer, if it came before everything had arrived.
    pub(super) reset: Option<PeerReset>,
    /// Our code, when the application stopped the stream.
    pub(super) stopped: Option<VarInt>,
    /// Whether the peer knows that we stopped.
    pub(super) stop_acked: bool,
    /// Since when it is measured what comes, and what had come by then.
    measured: Option<(Instant, u64)>,
    /// What came in the last round trip that was measured.
    per_round_trip: u64,
    /// What the books of [`Memory`](super::memory::Memory) say of this stream: growth, and the part
    /// given in advance.
    pub(super) grown: u64,
    pub(super) advanced: u64,
}

impl RecvHalf {
    pub(super) fn new(window: u64) -> Self {
        Self {
            data: Assembler::default(),
            window: Window::new(window),
            final_size: None,
            reset: None,
            stopped: None,
            stop_acked: false,
            measured: None,
            per_round_trip: 0,
            grown: 0,
            advanced: 0,
        }
    }

    /// Begins to measure how fast the stream comes, with its first bytes.
    pub(super) fn measure_from(&mut self, now: Instant) {
        self.measured.get_or_insert((now, 0));
    }

    /// Bytes that have come, but for those that the reader leaves unread: what waits behind a hole
    /// is not the reader's fault. A sender that leaves holes is believed within what was read.
    fn taken(&self) -> u64 {
        let (consumed, data) = (self.window.consumed(), &self.data);
        let behind_holes = data.buffered().saturating_sub(data.contiguous() - data.read_offset());
        consumed + behind_holes.min(consumed.saturating_mul(MOST_AHEAD))
    }

    /// Whether so much has come of late that the window had better grow before more is read.
    pub(super) fn is_outgrown(&self) -> bool {
        let (half, before) = (self.window.size() / 2, self.measured.map_or(0, |(_, before)| before));
        self.wants_more() && self.window.remaining() < half && self.taken().saturating_sub(before) >= half
    }

    /// The window that would not have held the sender back lately, if enough has come to tell: twice what comes in a
    /// round trip, so that the rate may double in the next one and a lost packet may take one more, and what waits
    /// behind holes. Where it grows it has doubled once more until the sender hears of it, and behind a hole twice, as
    /// far as the reader has earned it: nothing is read, and so nothing said, for a round trip. Where the window itself
    /// was in the way, a multiple of it.
    pub(super) fn demand(&mut self, now: Instant, rtt: Duration) -> Option<u64> {
        let taken = self.taken();
        let (since, before) = *self.measured.get_or_insert((now, taken));
        let (elapsed, came) = (now.saturating_duration_since(since), taken.saturating_sub(before));
        let size = self.window.size();
        if elapsed < rtt && came < size / 2 {
            return None;
        }
        self.measured = Some((now, taken.max(before)));
        if elapsed < rtt {
            self.per_round_trip = self.per_round_trip.max(came);
            return Some(size.saturating_mul(if size < RAMP { 4 } else { 2 }));
        }
        let per_rtt = u128::from(came) * u128::from(rtt.as_nanos()) / u128::from(elapsed.as_nanos().max(1));
        let per_rtt = u64::try_from(per_rtt).unwrap_or(u64::MAX);
        let growth = per_rtt.saturating_sub(core::mem::replace(&mut self.per_round_trip, per_rtt));
        let steady = per_rtt.saturating_mul(2);
        let (consumed, held) = (self.window.consumed(), taken - self.window.consumed());
        let growing = growth.saturating_mul(4).min(steady);
        let window = steady.saturating_add(growing).saturating_add(held);
        if held == 0 {
            return Some(window);
        }
        let eager = window.saturating_add(growing);
        Some(eager.min(consumed.saturating_mul(MOST_EAGER)).max(window))
    }

    /// What is promised to the sender beyond `initial`, or still held of it.
    pub(super) fn growth(&self, initial: u64) -> u64 {
        let promised = if self.wants_more() {
            self.window.promised()
        } else {
            self.window.received() - self.window.consumed()
        };
        promised.saturating_sub(initial)
    }

    /// Checks data that reaches to `end`, or a final size of `end`, against what is known of the
    /// final size (RFC 9000 section 4.5) and the stream's window (section 4.1); returns how much
    /// the highest offset grows.
    pub(super) fn check(&self, end: u64, is_final: bool) -> Result<u64, TransportError> {
        let received = self.window.received();
        match self.final_size {
            Some(size) if end > size => return Err(final_size("data beyond the final size")),
            Some(size) if is_final && end != size => return Err(final_size("the final size changed")),
            None if is_final && end < received => return Err(final_size("a final size below data received")),
            _ => {}
        }
        let grown = end.saturating_sub(received);
        if grown > self.window.remaining() {
            return Err(TransportError::flow_control_error("data beyond the limit of the stream"));
        }
        Ok(grown)
    }

    /// Whether every byte has arrived, read or not.
    pub(super) fn is_complete(&self) -> bool {
        self.final_size == Some(self.data.contiguous())
    }

    /// The code of the peer's reset, once all has arrived that it promises.
    pub(super) fn due_reset(&self) -> Option<VarInt> {
        let due = self.reset.filter(|reset| reset.reliable_size <= self.data.contiguous());
        due.map(|reset| reset.code)
    }

    /// Whether something of the stream is still to come, and wanted.
    pub(super) fn awaits_data(&self) -> bool {
        self.due_reset().is_none() && self.stopped.is_none() && !self.is_complete()
    }

    /// Whether the reader is at the end.
    pub(super) fn is_read_to_end(&self) -> bool {
        self.final_size == Some(self.data.read_offset())
    }

    /// Whether raising MAX_STREAM_DATA can be of use to the peer.
    pub(super) fn wants_more(&self) -> bool {
        self.final_size.is_none() && self.stopped.is_none()
    }

    /// Whether STOP_SENDING can be of use: the peer does not know, and may still send.
    pub(super) fn wants_stop(&self) -> bool {
        self.stopped.is_some() && !self.stop_acked && self.final_size.is_none()
    }

    /// Drops what is buffered and returns how much credit of the connection that gives back:
    /// everything received and not yet consumed.
    pub(super) fn discard(&mut self) -> u64 {
        self.data.discard();
        let unread = self.window.received() - self.window.consumed();
        self.window.consume(unread);
        unread
    }
}

fn final_size(reason: &'static str) -> TransportError {
    TransportError::final_size_error(reason)
}
