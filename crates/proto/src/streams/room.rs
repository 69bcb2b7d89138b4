//! [`Room`]: how much of a connection's send buffer a stream may have.

use super::memory::share;

/// What every stream may have while the buffer is not full to the last byte: requests, answers, a
/// few packets.
const SMALL: u64 = 16 << 10;
/// The least that the buffer is used for, whatever the network needs.
const MIN_USE: u64 = 1 << 20;
/// How often what the network needs is kept: as much waits as is under way, and loss keeps both for
/// as long again.
const ROUNDS: u64 = 4;

/// The send buffer: a bound that the configuration sets, and a use that follows the network, so
/// that bytes which cannot leave soon wait in the application and take no memory here.
#[derive(Clone, Debug)]
pub(super) struct Room {
    bound: u64,
    used: u64,
}

impl Room {
    pub(super) fn new(bound: u64) -> Self {
        Self { bound, used: most_used(bound) }
    }

    /// The network needs `bytes` at hand.
    pub(super) fn set_need(&mut self, bytes: u64) {
        self.used = bytes.saturating_mul(ROUNDS).max(MIN_USE).min(most_used(self.bound));
    }

    /// How much a stream may write that holds `own` of `held` bytes.
    ///
    /// A stream alone may have seven eighths of what is used of the buffer. Of the rest each takes
    /// an eighth of what is left, so it does not fill up by those who write much, and a quarter of
    /// the buffer is for those who have little.
    pub(super) fn available(&self, held: u64, own: u64) -> u64 {
        let free = self.used.saturating_sub(held);
        let fair = share(free + own, self.used / 8).saturating_sub(own).min(free);
        let small = SMALL.saturating_sub(own).min(self.bound.saturating_sub(held));
        fair.max(small)
    }

    /// Whether there is room for everybody.
    pub(super) fn is_ample(&self, held: u64) -> bool {
        held <= self.used / 2
    }

    /// Whether a writer that waits may take enough to be worth it: waking it for every acknowledged
    /// packet would cut data into crumbs.
    pub(super) fn is_worth_waking(&self, held: u64, own: u64) -> bool {
        self.available(held, own) >= (self.used / 8).clamp(1, SMALL / 2)
    }
}

/// The rest is for those who have little.
fn most_used(bound: u64) -> u64 {
    bound - bound / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the documentation of `send_buffer` says, with its default.
    #[test]
    fn a_single_stream_never_gets_more_than_two_thirds() {
        let mut room = Room::new(64 << 20);
        room.set_need(u64::MAX);
        assert_eq!(room.available(0, 0), (64 << 20) / 32 * 21);
        assert_eq!(room.available(42 << 20, 42 << 20), 0);
    }
}
