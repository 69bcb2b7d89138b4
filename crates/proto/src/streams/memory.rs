//! [`Memory`]: how much of a connection's receive memory a stream may promise to its sender.
//!
//! What was promised cannot be taken back (RFC 9000 section 4.1), and a reader that stops leaves
//! all of it full. So promises are made as if every reader stopped this moment: their sum stays
//! within the connection's window, therefore no stream ever waits for what another one holds. See
//! docs/decisions/0015-receive-windows.md.
//!
//! | part of the window | for |
//! | --- | --- |
//! | a quarter | what every stream is promised from the start, read or not |
//! | three quarters | what readers earn by reading (*growth*) |
//!
//! A stream may take all growth but the last third, and of that an eighth of what is left: a single
//! one gets half of the whole window, and however many stop reading with all that they were given,
//! there is something for the next.
//!
//! Once a quarter of growth is given away, a stream must have been read for longer than what sockets
//! behind it swallow before anybody stops: until then it earns an eighth of what was read.

/// The least that a stream is promised from the start, unless its maximum is less.
const MIN_INITIAL: u64 = 4 << 10;
/// The most.
const MAX_INITIAL: u64 = 64 << 10;

/// What every stream may receive from the start: an eighth of the connection's window for all
/// streams that the peer may open, as much again for ours.
pub fn initial_stream_window(receive_window: u64, peer_streams: u64) -> u64 {
    (receive_window / 8 / peer_streams.max(1)).clamp(MIN_INITIAL, MAX_INITIAL)
}

/// Whoever has read more than this of a stream does not only fill the buffers behind it: a socket
/// takes a few hundred kilobytes without a program that reads.
const PROVEN: u64 = 512 << 10;

/// Books on growth.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// The connection's window.
    window: u64,
    /// Promised to streams beyond what they have from the start.
    grown: u64,
    /// The part of `grown` that was given before anybody read.
    advanced: u64,
}

impl Memory {
    pub(super) fn new(window: u64) -> Self {
        Self { window, grown: 0, advanced: 0 }
    }

    pub(super) fn set_window(&mut self, window: u64) {
        self.window = window;
    }

    pub(super) fn grown(&self) -> u64 {
        self.grown
    }

    /// Growth of a stream changes.
    pub(super) fn replace_grown(&mut self, before: u64, after: u64) {
        self.grown = self.grown - before + after;
    }

    /// An advance of a stream changes.
    pub(super) fn replace_advanced(&mut self, before: u64, after: u64) {
        self.advanced = self.advanced - before + after;
    }

    /// The most that a stream may have grown which has grown by `own`.
    pub(super) fn share(&self, own: u64) -> u64 {
        share(self.free() + own, self.window / 4)
    }

    /// What a stream may have grown by of which so many bytes have been read.
    pub(super) fn earned(&self, consumed: u64) -> u64 {
        let is_ample = self.free() >= self.growth() / 4 * 3;
        if is_ample || consumed >= PROVEN { u64::MAX } else { consumed / 8 }
    }

    /// What a stream may have before anybody has read it: all of them together an eighth of the
    /// window.
    pub(super) fn advance(&self) -> u64 {
        (self.window / 8).saturating_sub(self.advanced).min(self.free()) / 8
    }

    /// Whether streams should give up what they no longer need.
    pub(super) fn is_short(&self) -> bool {
        self.free() < self.window / 4
    }

    fn free(&self) -> u64 {
        self.growth().saturating_sub(self.grown)
    }

    /// What all streams together may grow by.
    fn growth(&self) -> u64 {
        self.window / 4 * 3
    }
}

/// What one of many may take of `free`: everything but `reserve`, and of that an eighth.
pub(super) fn share(free: u64, reserve: u64) -> u64 {
    free.saturating_sub(reserve).max(free / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn one_stream_gets_half_and_something_is_left_for_any_number() {
        let mut memory = Memory::new(128 * MIB);
        assert_eq!(memory.share(0), 64 * MIB);
        let mut last = 64 * MIB;
        for _ in 0..40 {
            let next = memory.share(0);
            assert!(next > 0 && next <= last);
            memory.replace_grown(0, next);
            last = next;
        }
        assert!(memory.grown() < 96 * MIB && memory.is_short());
        memory.replace_grown(64 * MIB, 0);
        assert_eq!(memory.share(0), memory.free() - 32 * MIB);
        assert_eq!(memory.share(5 * MIB), memory.free() + 5 * MIB - 32 * MIB, "what it has counts");
    }

    #[test]
    fn growth_is_earned_by_reading_once_it_is_scarce() {
        let mut memory = Memory::new(128 * MIB);
        assert_eq!(memory.earned(0), u64::MAX);
        memory.replace_grown(0, 25 * MIB);
        assert_eq!([0, 80_000, PROVEN].map(|consumed| memory.earned(consumed)), [0, 10_000, u64::MAX]);
    }

    #[test]
    fn a_thousand_streams_have_their_first_window_at_the_same_time() {
        for (window, streams) in [(128 * MIB, 1_024), (128 * MIB, 512), (16 * MIB, 100)] {
            let initial = initial_stream_window(window, streams);
            assert!(initial * streams <= window / 8, "{window} {streams}");
        }
        assert_eq!(initial_stream_window(128 * MIB, 1_024), 16 << 10);
        assert_eq!(initial_stream_window(0, 0), MIN_INITIAL);
        assert_eq!(initial_stream_window(u64::MAX, 1), MAX_INITIAL);
    }
}
