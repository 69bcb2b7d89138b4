//! Path MTU: a path starts at a size that every network carries and searches for the largest that
//! gets through (RFC 8899, RFC 9000 section 14.3).
//!
//! Probes are PING and PADDING, or the first PATH_CHALLENGE. First the size that most of the
//! Internet carries, then the bound, then halfway between what got through and what did not. A lost
//! probe is no congestion signal (RFC 9000 section 14.4). The search is repeated after
//! [`SEARCH_AGAIN`].
//!
//! Where the local link carries packets larger than Ethernet's, as jumbo frames and loopback do, and
//! the path is short, the link's size is tried, in steps where the window holds no more, and the path
//! stays as it is where that does not get through (docs/decisions/0041-jumbo-datagrams.md).
//!
//! A path that stops to carry what it used to, a black hole, shows by full datagrams that get lost
//! again and again while smaller ones arrive, or by silence. It goes back to 1,200 bytes and
//! searches again after [`BLACK_HOLE_PAUSE`].

use units::{Duration, Instant};

use crate::config::ETHERNET;

/// The size that every path carries (RFC 9000 section 14): BASE_PLPMTU.
pub(crate) const BASE: u16 = 1_200;
/// The largest UDP payload (RFC 9000 section 18.2).
const LARGEST: u16 = 65_527;
/// Tried first: what most of the Internet carries.
const FIRST_JUMP: u16 = ETHERNET;
/// Probes of one size before it counts as too large: MAX_PROBES.
const MAX_PROBES: u8 = 3;
/// The search ends when it is known this closely, in bytes.
const RESOLUTION: u16 = 20;
/// A network may carry more after a while: PMTU_RAISE_TIMER.
const SEARCH_AGAIN: Duration = Duration::from_secs(600);
/// The same after a black hole.
const BLACK_HOLE_PAUSE: Duration = Duration::from_secs(60);
/// Probe timeouts in a row after which large datagrams are suspected to vanish.
const BLACK_HOLE_TIMEOUTS: u32 = 3;
/// Rounds of loss detection with full datagrams and none as large that arrived in between, for the same
/// suspicion. One is enough if it took a small probe to hear from the path again.
const BLACK_HOLE_ROUNDS: u8 = 3;
/// Data packets leave room for the repair extension: a little less than the largest size is full
/// too.
const NEARLY_FULL: u16 = 64;

/// Rounds of loss detection with datagrams of about [`BASE`] bytes, and none that arrived in
/// between, after which the path is asked whether it carries them at all.
const NARROW_ROUNDS: u8 = 8;
/// Coding headroom and short ends of data make datagrams somewhat smaller than they might be.
const NEARLY_BASE: u16 = 1_000;

/// Whether a datagram of `size` bytes that gets through shows that the path is wide enough.
pub(crate) fn is_base(size: u16) -> bool {
    size >= NEARLY_BASE
}

/// What becomes of sizes beyond the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beyond {
    /// Nobody has been asked what the local link carries.
    Unasked,
    /// The link carries the bound and no more, or nobody has answered.
    Asked,
    /// The link carries more: the bound has been raised from this size.
    Tried(u16),
}

/// The search for a path's largest datagram. Sizes are bytes of UDP payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MtuSearch {
    current: u16,
    bound: u16,
    beyond: Beyond,
    /// The smallest size that did not get through.
    too_large: u16,
    /// Probes of the present size.
    probes_sent: u8,
    in_flight: bool,
    /// The search rests until then.
    search_again_at: Option<Instant>,
    /// Rounds of loss detection with full datagrams since one of their sizes arrived.
    full_lost: u8,
    /// By how much the smallest of those was smaller than the largest, in bytes: at most [`NEARLY_FULL`].
    lost_below: u8,
    /// A probe timeout was answered with small datagrams since then.
    small_probe: bool,
    /// Rounds of loss detection with datagrams of about [`BASE`] bytes since one arrived.
    base_lost: u8,
}

impl MtuSearch {
    /// Sends `start` bytes from the beginning and searches up to `bound`.
    pub(crate) fn new(start: u16, bound: u16) -> Self {
        let current = start.clamp(BASE, LARGEST);
        let bound = bound.clamp(current, LARGEST);
        Self {
            current,
            bound,
            beyond: Beyond::Unasked,
            too_large: bound + 1,
            probes_sent: 0,
            in_flight: false,
            search_again_at: None,
            full_lost: 0,
            lost_below: 0,
            small_probe: false,
            base_lost: 0,
        }
    }

    /// Largest datagram to send.
    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    /// Size of the probe to send now, if one is due and `room` has place for it. On the way to the
    /// link's size a step will do: a young window is smaller than many a link's packets.
    pub(crate) fn due(&mut self, now: Instant, room: u64) -> Option<u16> {
        if self.search_again_at.is_some_and(|at| at <= now) {
            (self.too_large, self.probes_sent, self.search_again_at) = (self.bound + 1, 0, None);
        }
        if self.in_flight || self.search_again_at.is_some() {
            return None;
        }
        let size = self.candidate()?;
        let room = u16::try_from(room).unwrap_or(u16::MAX);
        let a_step =
            matches!(self.beyond, Beyond::Tried(before) if size > before && room / 2 >= self.current);
        if size <= room { Some(size) } else { a_step.then_some(room) }
    }

    /// The next size to try; `None` if the search has ended.
    fn candidate(&self) -> Option<u16> {
        let top = self.too_large - 1;
        let between = top.checked_sub(self.current).filter(|between| *between > 0)?;
        if (self.current + 1..=top).contains(&FIRST_JUMP) {
            Some(FIRST_JUMP)
        } else if self.too_large > self.bound {
            Some(self.bound)
        } else {
            (between >= RESOLUTION).then(|| self.current + between.div_ceil(2))
        }
    }

    /// A probe left.
    pub(crate) fn on_sent(&mut self) {
        self.in_flight = true;
        self.probes_sent += 1;
    }

    /// A datagram of `size` bytes arrived; returns whether the MTU has grown.
    pub(crate) fn on_delivered(&mut self, now: Instant, size: u16) -> bool {
        if self.is_full(size) {
            self.small_probe = false;
        }
        if size.saturating_add(self.lost_below.into()) >= self.current {
            (self.full_lost, self.lost_below) = (0, 0);
        }
        if is_base(size) {
            self.base_lost = 0;
        }
        if size <= self.current || size > self.bound {
            return false;
        }
        (self.in_flight, self.probes_sent) = (false, 0);
        self.current = size;
        self.too_large = self.too_large.max(size + 1);
        self.rest(now);
        true
    }

    /// A probe that left is not on record any more, and nobody has seen what became of it.
    pub(crate) fn forget_probe(&mut self) {
        self.in_flight = false;
    }

    /// A probe of `size` bytes was lost.
    pub(crate) fn on_lost(&mut self, now: Instant, size: u16) {
        self.in_flight = false;
        if self.probes_sent < MAX_PROBES {
            return;
        }
        let beyond = matches!(self.beyond, Beyond::Tried(before) if size > before);
        if beyond && size > self.current {
            self.probes_sent = 0;
            self.clamp(self.current);
        } else if self.candidate() == Some(size) {
            (self.too_large, self.probes_sent) = (size, 0);
            self.rest(now);
        }
    }

    /// Whether it is time to ask what the local link carries, which is done once: all that the bound
    /// allows gets through.
    pub(crate) fn ask_for_link(&mut self) -> bool {
        let asks = self.beyond == Beyond::Unasked && self.current == self.bound;
        if asks {
            self.beyond = Beyond::Asked;
        }
        asks
    }

    /// The local link carries datagrams of `size` bytes: they are tried, if that is more.
    pub(crate) fn on_link(&mut self, size: u16) {
        let size = size.min(LARGEST);
        if self.beyond == Beyond::Asked && size > self.bound {
            self.beyond = Beyond::Tried(self.bound);
            (self.bound, self.too_large, self.search_again_at) = (size, size + 1, None);
        }
    }

    /// No datagram goes beyond the bound of before the link was asked.
    pub(crate) fn leave_beyond(&mut self) {
        if let Beyond::Tried(before) = self.beyond {
            self.clamp(before);
        }
        self.beyond = Beyond::Asked;
    }

    /// Waits for better times if the search has ended below its bound.
    fn rest(&mut self, now: Instant) {
        if self.candidate().is_none() && self.current < self.bound {
            self.search_again_at = Some(now + SEARCH_AGAIN);
        }
    }

    /// The peer accepts no more than `limit` bytes.
    pub(crate) fn clamp(&mut self, limit: u16) {
        self.bound = self.bound.min(limit.max(BASE));
        self.current = self.current.min(self.bound);
        self.too_large = self.too_large.min(self.bound + 1);
    }

    /// Whether a datagram of `size` bytes may vanish with the largest ones.
    pub(crate) fn is_full(&self, size: u16) -> bool {
        size > BASE && self.current > BASE && size.saturating_add(NEARLY_FULL) >= self.current
    }

    /// Full datagrams were declared lost, since later ones arrived, the smallest of them of `size` bytes;
    /// returns whether the MTU has shrunk.
    pub(crate) fn on_full_lost(&mut self, now: Instant, size: u16) -> bool {
        self.full_lost = self.full_lost.saturating_add(1);
        self.lost_below = self.lost_below.max(self.current.saturating_sub(size).min(NEARLY_FULL) as u8);
        let rounds = if self.small_probe { 1 } else { BLACK_HOLE_ROUNDS };
        self.full_lost >= rounds && self.shrink(now)
    }

    /// Datagrams of about [`BASE`] bytes were declared lost, since later ones arrived; returns
    /// whether it is time to ask if any get through.
    pub(crate) fn on_base_lost(&mut self) -> bool {
        self.base_lost = self.base_lost.saturating_add(1);
        self.is_narrow()
    }

    /// Whether the path seems to carry small packets alone, less than QUIC asks of it (RFC 9000
    /// section 14).
    pub(crate) fn is_narrow(&self) -> bool {
        self.base_lost >= NARROW_ROUNDS
    }

    /// The path has not answered `timeouts` times in a row; returns whether the MTU has shrunk.
    pub(crate) fn on_silence(&mut self, now: Instant, timeouts: u32) -> bool {
        timeouts >= BLACK_HOLE_TIMEOUTS && self.shrink(now)
    }

    /// Size of a probe after `timeouts` probe timeouts in a row. The second may have gone
    /// unanswered because of its size.
    pub(crate) fn probe_size(&mut self, timeouts: u32) -> u16 {
        if timeouts < BLACK_HOLE_TIMEOUTS - 1 {
            return self.current;
        }
        self.small_probe = true;
        BASE
    }

    fn shrink(&mut self, now: Instant) -> bool {
        if self.current <= BASE {
            return false;
        }
        self.current = BASE;
        (self.in_flight, self.full_lost, self.lost_below, self.small_probe) = (false, 0, 0, false);
        self.search_again_at = Some(now + BLACK_HOLE_PAUSE);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ORIGIN;
    /// A window that holds every size.
    const ROOM: u64 = 1 << 20;

    /// Searches on a path that carries `carried` bytes; returns what was found and the probes it
    /// took.
    fn search(mtu: &mut MtuSearch, now: Instant, carried: u16) -> (u16, u32) {
        let mut probes = 0;
        while let Some(size) = mtu.due(now, ROOM) {
            mtu.on_sent();
            assert_eq!(mtu.due(now, ROOM), None, "one probe at a time");
            probes += 1;
            if size <= carried {
                assert!(mtu.on_delivered(now, size));
            } else {
                mtu.on_lost(now, size);
            }
        }
        (mtu.current(), probes)
    }

    /// All of the usual 1,452 bytes gets through, and the link is known to carry `size`.
    fn on_link_of(size: u16) -> MtuSearch {
        let mut mtu = MtuSearch::new(1_452, 1_452);
        assert!(mtu.ask_for_link());
        mtu.on_link(size);
        mtu
    }

    #[test]
    fn one_delivered_probe_is_enough() {
        let mut mtu = MtuSearch::new(1_200, 1_452);
        assert_eq!(search(&mut mtu, NOW, 1_452), (1_452, 1));
    }

    #[test]
    fn every_size_is_found_with_few_probes() {
        for carried in 1_200..9_100 {
            let mut mtu = MtuSearch::new(1_200, 9_000);
            let (found, probes) = search(&mut mtu, NOW, carried);
            assert!(found <= carried && carried.min(9_000) - found < RESOLUTION, "{found} of {carried}");
            assert!(probes <= 3 * 11, "{probes} probes for {carried}");
        }
    }

    #[test]
    fn the_search_is_repeated_after_ten_minutes() {
        let mut mtu = MtuSearch::new(1_200, 1_452);
        assert_eq!(search(&mut mtu, NOW, 1_200).0, 1_200);
        assert_eq!(mtu.due(NOW + Duration::from_secs(599), ROOM), None);
        assert_eq!(search(&mut mtu, NOW + SEARCH_AGAIN, 1_500).0, 1_452);
    }

    #[test]
    fn silence_or_lost_full_datagrams_lead_back_to_the_base() {
        let mut mtu = MtuSearch::new(1_452, 1_452);
        assert!(!mtu.on_silence(NOW, 2));
        assert!(mtu.on_silence(NOW, 3) && !mtu.on_silence(NOW, 4));
        assert_eq!((mtu.current(), mtu.due(NOW, ROOM)), (1_200, None));
        assert_eq!(search(&mut mtu, NOW + BLACK_HOLE_PAUSE, 1_452).0, 1_452);
        assert!(!mtu.on_full_lost(NOW, 1_404) && !mtu.on_full_lost(NOW, 1_452));
        assert!(!mtu.on_delivered(NOW, 1_404), "one that arrives clears the suspicion");
        assert!(!mtu.on_full_lost(NOW, 1_404) && !mtu.on_full_lost(NOW, 1_452));
        assert!(!mtu.on_delivered(NOW, 1_403), "a smaller one does not");
        assert!(mtu.on_full_lost(NOW, 1_452));
        assert_eq!(mtu.current(), 1_200);
        let mut mtu = MtuSearch::new(1_452, 1_452);
        assert_eq!((mtu.probe_size(1), mtu.probe_size(2)), (1_452, 1_200));
        assert!(mtu.on_full_lost(NOW, 1_452), "only the small probe was answered");
    }

    /// The small probe is nearly as large, and what gets through may be larger.
    #[test]
    fn a_black_hole_close_above_the_base_is_found() {
        let mut mtu = MtuSearch::new(1_252, 1_252);
        assert_eq!(mtu.probe_size(2), 1_200);
        assert!(!mtu.on_delivered(NOW, 1_200));
        assert!(mtu.on_full_lost(NOW, 1_252), "only the small probe was answered");
        let mut mtu = MtuSearch::new(1_252, 1_252);
        for _ in 0..2 {
            assert!(!mtu.on_full_lost(NOW, 1_252));
            assert!(!mtu.on_delivered(NOW, 1_213));
        }
        assert!(mtu.on_full_lost(NOW, 1_252));
        assert!(!mtu.is_full(1_252), "what is still under way says nothing of smaller ones");
    }

    #[test]
    fn a_wide_link_is_tried_once_all_that_is_usual_gets_through() {
        let mut mtu = MtuSearch::new(1_200, 1_452);
        assert!(!mtu.ask_for_link());
        search(&mut mtu, NOW, 9_000);
        assert!(mtu.ask_for_link() && !mtu.ask_for_link());
        mtu.on_link(8_972);
        assert_eq!(search(&mut mtu, NOW, 9_000), (8_972, 1));
        mtu.leave_beyond();
        assert_eq!(mtu.current(), 1_452);
        assert!(!mtu.on_delivered(NOW, 8_972), "what was under way changes nothing");
        assert_eq!(mtu.due(NOW + SEARCH_AGAIN, ROOM), None);
    }

    /// A host with jumbo frames behind a router without.
    #[test]
    fn a_wide_link_before_a_narrow_one_costs_three_probes() {
        let mut mtu = on_link_of(8_972);
        assert_eq!(search(&mut mtu, NOW, 1_452), (1_452, 3));
        assert_eq!(mtu.due(NOW + SEARCH_AGAIN, ROOM), None);
        let mut mtu = on_link_of(1_452);
        assert_eq!(mtu.due(NOW, ROOM), None, "a link like any other");
    }

    /// The first window holds ten packets of 1,452 bytes.
    #[test]
    fn a_young_window_leads_there_in_steps() {
        let mut mtu = on_link_of(32_752);
        assert_eq!(mtu.due(NOW, 2_000), None, "hardly more than it carries");
        for (room, step) in [(14_520, 14_520), (29_040, 29_040), (65_504, 32_752)] {
            assert_eq!(mtu.due(NOW, room), Some(step));
            mtu.on_sent();
            assert!(mtu.on_delivered(NOW, step));
        }
        assert_eq!(mtu.due(NOW, ROOM), None);
    }

    /// Its packets are larger than Ethernet's, but not as large as the link's.
    #[test]
    fn a_step_that_is_too_large_ends_at_the_one_before() {
        let mut mtu = on_link_of(32_752);
        for (room, arrives) in [(14_520, true), (29_040, false), (29_040, false), (29_060, false)] {
            let step = mtu.due(NOW, room).unwrap();
            mtu.on_sent();
            if arrives { _ = mtu.on_delivered(NOW, step) } else { mtu.on_lost(NOW, step) }
        }
        assert_eq!((mtu.current(), mtu.due(NOW + SEARCH_AGAIN, ROOM)), (14_520, None));
    }

    /// The route has become a narrow one after all.
    #[test]
    fn a_black_hole_beyond_leads_back_to_what_is_usual() {
        let mut mtu = on_link_of(8_972);
        assert_eq!(search(&mut mtu, NOW, 9_000), (8_972, 1));
        assert!(mtu.on_silence(NOW, 3));
        assert_eq!(search(&mut mtu, NOW + BLACK_HOLE_PAUSE, 1_472), (1_452, 1 + 3));
    }

    #[test]
    fn peers_have_a_say() {
        let mut mtu = MtuSearch::new(1_200, 9_000);
        mtu.clamp(1_300);
        assert_eq!(search(&mut mtu, NOW, 9_000).0, 1_300);
        assert!(!mtu.on_delivered(NOW, 9_000));
    }
}
