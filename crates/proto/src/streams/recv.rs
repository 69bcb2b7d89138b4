//! [`RecvHalf`]: what we receive on one stream (RFC 9000 section 3.2).

use units::{Duration, Instant};

use super::assembler::Assembler;
use super::flow::Window;
use crate::wire::{TransportError, VarInt};

/// Below this a window that is too small grows fourfold at a time, above it doubles.
const RAMP: u64 = 1 << 20;

/// The receiving half of a stream.
///
/// Credit of the connection is given back as the application reads, or for a whole stream at once
/// when it is reset or stopped; [`Window::consumed`] of the stream counts what has been given back.
#[derive(Debug)]
pub(super) struct RecvHalf {
    pub(super) data: Assembler,
    /// Stream-level credit; `received` is the highest offset seen.
    pub(super) window: Window,
    /// Known from a FIN or a RESET_STREAM.
    pub(super) final_size: Option<u64>,
    /// The peer's code, when it reset the stream before everything had arrived.
    pub(super) reset: Option<VarInt>,
    /// Our code, when the application stopped the stream.
    pub(super) stopped: Option<VarInt>,
    /// Whether the peer knows that we stopped.
    pub(super) stop_acked: bool,
    /// Since when reading is measured, and what had been read then.
    measured: Option<(Instant, u64)>,
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
            grown: 0,
            advanced: 0,
        }
    }

    /// Begins to measure how fast the stream is read, with its first bytes.
    pub(super) fn measure_from(&mut self, now: Instant) {
        self.measured.get_or_insert((now, 0));
    }

    /// The window that would not have held the sender back lately, if enough was read to tell:
    /// twice what was read in a round trip, so that the rate may double in the next one and a lost
    /// packet may take one more. Where the window itself was in the way, a multiple of it.
    pub(super) fn demand(&mut self, now: Instant, rtt: Duration) -> Option<u64> {
        let consumed = self.window.consumed();
        let (since, before) = *self.measured.get_or_insert((now, consumed));
        let (elapsed, read) = (now.saturating_duration_since(since), consumed - before);
        let size = self.window.size();
        if elapsed < rtt && read < size / 2 {
            return None;
        }
        self.measured = Some((now, consumed));
        if elapsed < rtt {
            return Some(size.saturating_mul(if size < RAMP { 4 } else { 2 }));
        }
        let per_rtt = u128::from(read) * u128::from(rtt.as_nanos()) / u128::from(elapsed.as_nanos().max(1));
        Some(u64::try_from(2 * per_rtt).unwrap_or(u64::MAX))
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

    /// Whether something of the stream is still to come, and wanted.
    pub(super) fn awaits_data(&self) -> bool {
        self.reset.is_none() && self.stopped.is_none() && !self.is_complete()
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
