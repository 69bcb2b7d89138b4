//! The two ends of a credit: what the peer allows us ([`Credit`]) and what we allow the peer
//! ([`Window`]).
//!
//! RFC 9000 section 4. The same arithmetic serves the bytes of a stream, the bytes of the
//! connection, and the number of streams.

use crate::wire::MAX_VARINT;

/// What the peer allows us to send or open.
#[derive(Clone, Default, Debug)]
pub(super) struct Credit {
    /// The total the peer allows; never shrinks.
    limit: u64,
    /// How much of it is taken.
    used: u64,
    /// The limit at which we last said that we are blocked.
    blocked_at: Option<u64>,
}

impl Credit {
    pub(super) fn available(&self) -> u64 {
        self.limit - self.used
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    pub(super) fn take(&mut self, n: u64) {
        debug_assert!(n <= self.available());
        self.used += n;
    }

    /// Gives back what was taken and not sent.
    pub(super) fn give_back(&mut self, n: u64) {
        self.used -= n;
    }

    /// Raises the limit; lower values are old news. Returns whether it changed.
    pub(super) fn raise(&mut self, limit: u64) -> bool {
        let raised = limit > self.limit;
        self.limit = self.limit.max(limit);
        raised
    }

    /// Notes that we are blocked; returns whether that is worth a frame, which it is once per
    /// limit.
    pub(super) fn note_blocked(&mut self) -> bool {
        let news = self.blocked_at != Some(self.limit);
        self.blocked_at = Some(self.limit);
        news
    }

    /// Whether a lost frame that said "blocked at `limit`" is still true.
    pub(super) fn is_blocked_at(&self, limit: u64) -> bool {
        self.available() == 0 && self.limit == limit
    }
}

/// Below this many bytes of remaining credit every consumed byte is worth an update: two ordinary
/// packets.
const LOW_WATER: u64 = 2_400;
/// Consumed bytes that are worth an update whatever the window, unless it is so large that this
/// would be said too often.
const LARGE_STEP: u64 = 64 << 10;

/// What we allow the peer: a window that slides as the application consumes.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// How far the limit is ahead of what was consumed.
    size: u64,
    /// Total received (for bytes: the sum of the highest offsets).
    received: u64,
    /// Total consumed; at most `received`.
    consumed: u64,
    /// The limit last announced.
    advertised: u64,
    /// The highest limit the peer is known to have heard.
    confirmed: u64,
}

impl Window {
    pub(super) fn new(size: u64) -> Self {
        let size = size.min(MAX_VARINT);
        Self { size, received: 0, consumed: 0, advertised: size, confirmed: size }
    }

    pub(super) fn received(&self) -> u64 {
        self.received
    }

    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// How much more may arrive.
    pub(super) fn remaining(&self) -> u64 {
        self.advertised - self.received
    }

    pub(super) fn receive(&mut self, n: u64) {
        debug_assert!(n <= self.remaining());
        self.received += n;
    }

    pub(super) fn consume(&mut self, n: u64) {
        self.consumed += n;
        debug_assert!(self.consumed <= self.received);
    }

    /// Widens the window to `size`, if that is more; what was announced stays true. Returns whether
    /// there is more to announce.
    pub(super) fn widen(&mut self, size: u64) -> bool {
        self.size = self.size.max(size.min(MAX_VARINT));
        self.can_grow()
    }

    /// Whether nothing was announced since the window was made, although it has grown.
    pub(super) fn is_untold(&self) -> bool {
        self.advertised < self.size
    }

    /// How far the limit is ahead of what was consumed, now or once that much has been consumed.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// What the peer may have here at once: the window, or what was promised before it became
    /// narrower.
    pub(super) fn promised(&self) -> u64 {
        self.size.max(self.advertised - self.consumed.min(self.advertised))
    }

    /// Makes the window narrower: the limit stays where it is until enough is consumed.
    pub(super) fn narrow(&mut self, size: u64) {
        self.size = self.size.min(size);
    }

    /// Whether the peer should hear of a higher limit now: a good part of the window has been
    /// consumed, or little credit is left. The second half matters when others hold most of the
    /// window and never consume it: waiting for a good part would then wait for ever.
    pub(super) fn is_update_due(&self) -> bool {
        let grown = self.target() - self.advertised;
        grown > 0 && (grown >= self.step() || self.remaining() <= (self.size / 4).min(LOW_WATER))
    }

    /// What must have been consumed before it is worth a frame: a quarter of a small window, a
    /// sixteenth of a large one, since as much of the window is of no use to the peer.
    fn step(&self) -> u64 {
        let quarter = self.size / 4;
        quarter.min(LARGE_STEP.max(self.size / 16))
    }

    /// Whether any higher limit could be announced, which a peer that says it is blocked should
    /// hear at once.
    pub(super) fn can_grow(&self) -> bool {
        self.target() > self.advertised
    }

    /// The highest limit that could be announced now.
    pub(super) fn target(&self) -> u64 {
        self.consumed.saturating_add(self.size).min(MAX_VARINT).max(self.advertised)
    }

    /// Notes that the current target has been announced.
    pub(super) fn advertise(&mut self) {
        self.advertised = self.target();
    }

    pub(super) fn on_acked(&mut self, limit: u64) {
        self.confirmed = self.confirmed.max(limit);
    }

    /// Whether losing an announcement of `limit` leaves the peer with less than it should know: no
    /// newer one is under way and none has arrived.
    pub(super) fn matters(&self, limit: u64) -> bool {
        limit == self.advertised && self.confirmed < limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_due_after_a_quarter_of_the_window() {
        let mut window = Window::new(100_000);
        window.receive(50_000);
        window.consume(24_999);
        assert!(!window.is_update_due());
        window.consume(1);
        assert!(window.is_update_due());
        window.advertise();
        assert_eq!(window.advertised, 125_000);
        assert!(!window.is_update_due());
    }

    #[test]
    fn a_window_held_by_others_still_grows() {
        let mut window = Window::new(100_000);
        window.receive(100_000);
        window.consume(1);
        assert!(window.is_update_due(), "90 % may never be consumed: the little that is must be given back");
    }

    #[test]
    fn a_window_of_one_never_gets_stuck() {
        let mut window = Window::new(1);
        for limit in 2..10 {
            window.receive(1);
            assert!(!window.is_update_due());
            window.consume(1);
            assert!(window.is_update_due());
            window.advertise();
            assert_eq!(window.advertised, limit);
        }
    }

    #[test]
    fn only_the_newest_unconfirmed_announcement_matters() {
        let mut window = Window::new(4);
        window.receive(2);
        window.consume(1);
        window.advertise();
        let first = window.advertised;
        window.consume(1);
        window.advertise();
        let second = window.advertised;
        assert!(!window.matters(first) && window.matters(second));
        window.on_acked(second);
        assert!(!window.matters(second));
    }

    #[test]
    fn a_window_widens_and_never_narrows() {
        let mut window = Window::new(10);
        window.receive(10);
        assert!(window.widen(30) && window.widen(20));
        assert_eq!(window.target(), 30);
        window.advertise();
        assert_eq!((window.remaining(), window.widen(30), window.widen(5)), (20, false, false));
    }

    #[test]
    fn blocked_is_said_once_per_limit() {
        let mut credit = Credit::default();
        assert!(credit.raise(3) && !credit.raise(2));
        credit.take(3);
        assert!(credit.note_blocked() && !credit.note_blocked() && credit.is_blocked_at(3));
        assert!(credit.raise(4));
        assert!(!credit.is_blocked_at(3));
        credit.take(1);
        assert!(credit.note_blocked());
    }
}
