//! Path MTU: a path starts at a size that every network carries and tries a larger one (RFC 8899, RFC 9000 section 14.3).
//!
//! One step, from the configured start to the configured bound: either the path validation carries it (the first PATH_CHALLENGE is
//! padded to the bound), or a probe of PING and PADDING does. A lost probe is no congestion signal (RFC 9000 section 14.4). A path
//! that falls silent with large datagrams goes back to 1,200 bytes for good.

/// The size that every path carries (RFC 9000 section 14).
pub(crate) const BASE: u16 = 1_200;
/// Probes of one size before it counts as too large.
const MAX_PROBES: u8 = 3;
/// Probe timeouts in a row after which large datagrams are suspected to vanish.
const BLACK_HOLE_TIMEOUTS: u32 = 3;

/// The search for a path's largest datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MtuSearch {
    current: u16,
    bound: u16,
    probes_sent: u8,
    in_flight: bool,
}

impl MtuSearch {
    /// Sends `start` bytes from the beginning and tries `bound`.
    pub(crate) fn new(start: u16, bound: u16) -> Self {
        Self { current: start.max(BASE), bound, probes_sent: 0, in_flight: false }
    }

    /// Largest datagram to send.
    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    /// Size of the probe to send now, if one is due.
    pub(crate) fn due(&self) -> Option<u16> {
        let open = self.bound > self.current && self.probes_sent < MAX_PROBES && !self.in_flight;
        open.then_some(self.bound)
    }

    pub(crate) fn on_sent(&mut self) {
        self.in_flight = true;
        self.probes_sent += 1;
    }

    /// A datagram of `size` bytes arrived; returns whether the MTU has grown.
    pub(crate) fn on_delivered(&mut self, size: u16) -> bool {
        self.in_flight = false;
        let grown = size > self.current && size <= self.bound;
        if grown {
            self.current = size;
        }
        grown
    }

    pub(crate) fn on_lost(&mut self) {
        self.in_flight = false;
    }

    /// The peer accepts no more than `limit` bytes.
    pub(crate) fn clamp(&mut self, limit: u16) {
        self.bound = self.bound.min(limit.max(BASE));
        self.current = self.current.min(limit.max(BASE));
    }

    /// The path has not answered `timeouts` times in a row; returns whether the MTU has shrunk.
    pub(crate) fn on_silence(&mut self, timeouts: u32) -> bool {
        let shrinks = timeouts >= BLACK_HOLE_TIMEOUTS && self.current > BASE;
        if shrinks {
            (self.current, self.bound) = (BASE, BASE);
        }
        shrinks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_delivered_probe_is_enough() {
        let mut mtu = MtuSearch::new(1_200, 1_452);
        assert_eq!(mtu.due(), Some(1_452));
        mtu.on_sent();
        assert_eq!(mtu.due(), None);
        assert!(mtu.on_delivered(1_452));
        assert_eq!((mtu.current(), mtu.due()), (1_452, None));
    }

    #[test]
    fn three_lost_probes_end_the_search() {
        let mut mtu = MtuSearch::new(1_200, 1_452);
        for _ in 0..3 {
            mtu.on_sent();
            mtu.on_lost();
        }
        assert_eq!((mtu.current(), mtu.due()), (1_200, None));
    }

    #[test]
    fn silence_shrinks_for_good_and_peers_have_a_say() {
        let mut mtu = MtuSearch::new(1_452, 1_452);
        assert!(!mtu.on_silence(2));
        assert!(mtu.on_silence(3) && !mtu.on_silence(4));
        assert_eq!((mtu.current(), mtu.due()), (1_200, None));
        let mut mtu = MtuSearch::new(1_200, 9_000);
        mtu.clamp(1_300);
        assert_eq!(mtu.due(), Some(1_300));
        assert!(!mtu.on_delivered(9_000));
    }
}
