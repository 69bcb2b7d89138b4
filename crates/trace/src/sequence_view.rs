//! What Wireshark's sequence analysis would say of a segment, so that its counts can be set beside
//! ours.
//!
//! It follows the rules that Wireshark 4.0 documents for "TCP Analysis" (user's guide,
//! section 7.5), with its fixed thresholds: 20 ms after duplicate ACKs for a fast retransmission,
//! the handshake's round-trip time or 3 ms for out-of-order. `docs/trace.md` says what is left out.

use serde::Serialize;
use units::{Duration, Instant};

use crate::segment::{Segment, TcpFlags};

/// Wireshark's four names for a segment that does not advance the sequence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WiresharkKind {
    /// Everything the other rules leave.
    Retransmission,
    /// After two or more duplicate ACKs for it, within 20 ms.
    Fast,
    /// Its data was acknowledged already.
    Spurious,
    /// Soon after the highest sequence number.
    OutOfOrder,
}

/// Longest time after the duplicate ACK for a fast retransmission.
const FAST_WITHIN: Duration = Duration::from_millis(20);
/// Longest time after the highest segment for out-of-order, if the handshake was not seen.
const OUT_OF_ORDER_WITHIN: Duration = Duration::from_millis(3);

/// What Wireshark remembers of one direction.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SequenceView {
    next: Option<u32>,
    next_at: Instant,
    last_ack: Option<u32>,
    last_ack_at: Instant,
    duplicate_acks: u32,
    window: u16,
    probed: Probe,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum Probe {
    #[default]
    None,
    KeepAlive,
    ZeroWindow,
}

/// What is to be known of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct View {
    /// Not advancing, and why.
    pub(crate) kind: Option<WiresharkKind>,
    /// A keep-alive or zero-window probe: part of no analysis (SLP-A11). Wireshark takes more for one, and
    /// has no kind for that.
    pub(crate) probe: bool,
}

/// Judges `segment`, sent in the direction `forward`, and remembers it.
pub(crate) fn view(
    forward: &mut SequenceView,
    reverse: &SequenceView,
    segment: &Segment,
    at: Instant,
    handshake: Option<Duration>,
) -> View {
    let probe = forward.probe(reverse, segment);
    forward.count_duplicate_ack(reverse, segment, probe);
    let counted = segment.occupies() && probe != Probe::KeepAlive;
    let kind = if counted { forward.kind(reverse, segment, at, handshake) } else { None };
    forward.remember(segment, at, probe);
    View { kind, probe: probe != Probe::None && !reverse.misses_byte_of(segment) }
}

impl SequenceView {
    /// The window last announced, as in the header.
    pub(crate) fn window(&self) -> Option<u16> {
        self.next.is_some().then_some(self.window)
    }

    fn probe(&self, reverse: &Self, segment: &Segment) -> Probe {
        let Some(next) = self.next else { return Probe::None };
        if segment.payload == 1 && segment.seq == next && reverse.last_ack.is_some() && reverse.window == 0 {
            Probe::ZeroWindow
        } else if segment.payload <= 1
            && segment.seq == next.wrapping_sub(1)
            && !segment.flags.has(TcpFlags::CONTROL)
        {
            Probe::KeepAlive
        } else {
            Probe::None
        }
    }

    /// Whether `segment`, sent in the other direction, is a single byte that is not acknowledged here: then
    /// it is no keep-alive, which is sent when everything is acknowledged (RFC 9293 section 3.8.4). With the
    /// window closed it may be a probe.
    fn misses_byte_of(&self, segment: &Segment) -> bool {
        let end = segment.seq.wrapping_add(segment.payload);
        segment.payload == 1 && self.window != 0 && self.last_ack.is_some_and(|ack| after(end, ack))
    }

    fn count_duplicate_ack(&mut self, reverse: &Self, segment: &Segment, probe: Probe) {
        if !segment.flags.has(TcpFlags::ACK) || self.last_ack != Some(segment.ack) {
            self.duplicate_acks = 0;
            return;
        }
        let repeats = segment.payload == 0
            && segment.window == self.window
            && self.next == Some(segment.seq)
            && !segment.flags.has(TcpFlags::CONTROL);
        let answers_a_probe = reverse.probed == Probe::KeepAlive;
        if repeats && segment.window != 0 && probe != Probe::ZeroWindow && !answers_a_probe {
            self.duplicate_acks = self.duplicate_acks.saturating_add(1);
        }
    }

    fn kind(
        &self,
        reverse: &Self,
        segment: &Segment,
        at: Instant,
        handshake: Option<Duration>,
    ) -> Option<WiresharkKind> {
        let end_of_data = segment.seq.wrapping_add(segment.payload);
        if segment.payload > 0 && reverse.last_ack.is_some_and(|ack| !after(end_of_data, ack)) {
            return Some(WiresharkKind::Spurious);
        }
        let next = self.next.filter(|&next| after(next, segment.seq))?;
        if segment.payload > 1 && segment.seq == next.wrapping_sub(1) {
            return None; // new data behind a probe's byte
        }
        if reverse.duplicate_acks >= 2
            && reverse.last_ack == Some(segment.seq)
            && at.saturating_duration_since(reverse.last_ack_at) < FAST_WITHIN
        {
            return Some(WiresharkKind::Fast);
        }
        let threshold = handshake.filter(|rtt| !rtt.is_zero()).unwrap_or(OUT_OF_ORDER_WITHIN);
        let end = end_of_data.wrapping_add(if segment.flags.has(TcpFlags::OCCUPIES) { 1 } else { 0 });
        if at.saturating_duration_since(self.next_at) < threshold && next != end {
            return Some(WiresharkKind::OutOfOrder);
        }
        Some(WiresharkKind::Retransmission)
    }

    fn remember(&mut self, segment: &Segment, at: Instant, probe: Probe) {
        let marks = u32::from(segment.flags.has(TcpFlags::OCCUPIES));
        let end = segment.seq.wrapping_add(segment.payload).wrapping_add(marks);
        if probe != Probe::ZeroWindow && self.next.is_none_or(|next| after(end, next)) {
            self.next = Some(end);
            self.next_at = at;
        }
        self.window = segment.window;
        self.last_ack = segment.flags.has(TcpFlags::ACK).then_some(segment.ack);
        self.last_ack_at = at;
        self.probed = probe;
    }
}

/// Whether sequence number `a` lies after `b`.
fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}
