//! Data with a deadline whose losses are known too late: how many symbols of a streaming code go
//! with it, and when each leaves.
//!
//! Ours, over the code of `fec::window`. Every packet is in the window from its sending until repair
//! that leaves would come too late for it, a time of `useful`. All symbols that leave meanwhile cover
//! it. With `W` packets in the window and `m` symbols in the same time, a lost packet stays lost if
//! more than `m` of the `W + m` packets from it on are lost, symbols among them where they share the
//! path:
//!
//! ```text
//! P(stays lost with m) = P(the first of W + m is lost, and more than m of them are)     same path
//!                      = sum over j of P(j of m symbols arrive)
//!                        * P(the first of W is lost, and more than j of them are)        another
//! symbols              = the fewest m for which that is at most the target
//! rate                 = symbols / useful
//! ```
//!
//! with losses after the Gilbert model of the packets' path, and single losses among symbols on
//! another. Symbols leave evenly: losses come in bursts, and whatever is sent together is lost
//! together.
//!
//! A block code that repairs the same `W` packets at once needs as many symbols; but `auto`'s blocks
//! hold what can be gathered in half the time, and each pays for a burst of its own.
//!
//! Packets of different priority have windows of their own. A burst too long for the symbols that there
//! are takes everything that these cover with it, and where audio shares a path with video, it is the
//! video that is too much. The bytes of all symbols together are bounded ([`Allowance`]), and the
//! highest priority has its symbols first.
//!
//! # Invariants
//! More symbols never make a packet more probable to stay lost. Never more than one for each packet,
//! and never more bytes than the allowance, but for one symbol for what would have none: what longer
//! bursts would want costs more than it gives back.

use units::{Duration, Instant};

use crate::gilbert::Gilbert;

/// Most packets of a window: enough for any burst that repair is worth its price for, and few enough
/// to be decoded at the price that a receiver sets.
pub const MAX_WINDOW: u16 = 72;

/// Most symbols that leave at once because none could before.
const MAX_EARNED: u16 = MAX_WINDOW / 2;

/// What is in the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Packets in it, at most [`MAX_WINDOW`].
    pub packets: u16,
    /// How their path loses.
    pub loss: Gilbert,
}

/// Where the symbols leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lane {
    /// Between the packets.
    Same,
    /// On another path, which loses this share of them, 0 to 1.
    Other(f64),
}

/// What the symbols of a path's packets may cost, in bytes: one for each two of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    left: u64,
}

impl Allowance {
    /// For packets of so many bytes.
    pub fn of(bytes: u64) -> Self {
        Self { left: bytes / 2 }
    }

    /// Takes what `wanted` symbols of `len` bytes cost out of it, or as many as it has room for;
    /// where any are wanted, one at least.
    pub fn grant(&mut self, wanted: u16, len: u64) -> u16 {
        let room = u16::try_from(self.left / len.max(1)).unwrap_or(u16::MAX).max(1);
        let granted = wanted.min(room);
        self.left = self.left.saturating_sub(u64::from(granted) * len);
        granted
    }
}

impl Window {
    /// The probability that a packet is lost and stays so with `symbols` in its time.
    pub fn stays_lost(&self, symbols: u16, lane: Lane) -> f64 {
        let cap = symbols.min(255) as u8;
        match lane {
            Lane::Same => {
                let packets = self.packets.saturating_add(symbols);
                *self.loss.tails_from_loss(packets, cap).last().unwrap_or(&0.0)
            }
            Lane::Other(loss) => {
                let tails = self.loss.tails_from_loss(self.packets, cap);
                let arrives = 1.0 - loss.clamp(0.0, 1.0);
                let mut arrived = vec![0.0; tails.len()];
                arrived[0] = 1.0;
                for sent in 1..tails.len() {
                    for n in (0..=sent).rev() {
                        let fewer = n.checked_sub(1).map_or(0.0, |n| arrived[n]);
                        arrived[n] = arrived[n] * (1.0 - arrives) + fewer * arrives;
                    }
                }
                arrived.iter().zip(&tails).map(|(p, tail)| p * tail).sum()
            }
        }
    }

    /// The fewest symbols with which a packet stays lost with the probability `target` at most, or
    /// one for each packet if these are not enough.
    pub fn symbols(&self, lane: Lane, target: f64) -> u16 {
        let (mut enough, mut too_few) = (self.packets, None);
        // Each half of what is left is decided by its middle: more never is worse.
        while enough > too_few.map_or(0, |n: u16| n + 1) {
            let middle = too_few.map_or(0, |n| n + 1).midpoint(enough - 1);
            if self.stays_lost(middle, lane) <= target { enough = middle } else { too_few = Some(middle) }
        }
        enough
    }
}

/// Remembers the last answer: it holds for windows and losses that are much the same.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sizing {
    /// With its target.
    last: Option<(Window, Lane, f64, u16)>,
}

impl Sizing {
    /// [`Window::symbols`], or what it was for a window of about that size and a target of about that
    /// much, whose path loses about as much.
    pub fn symbols(&mut self, window: Window, lane: Lane, target: f64) -> u16 {
        if let Some((before, on, missed, symbols)) = self.last
            && window.is_like(&before)
            && lane.is_like(on)
            && alike(target, missed)
        {
            return symbols.min(window.packets);
        }
        let symbols = window.symbols(lane, target);
        self.last = Some((window, lane, target, symbols));
        symbols
    }
}

/// Whether two rates, or lengths, differ by less than a tenth.
fn alike(a: f64, b: f64) -> bool {
    (a - b).abs() <= 0.1 * a.max(b)
}

impl Window {
    fn is_like(&self, other: &Self) -> bool {
        self.packets.abs_diff(other.packets) <= other.packets / 8
            && alike(self.loss.loss(), other.loss.loss())
            && alike(self.loss.mean_burst(), other.loss.mean_burst())
    }
}

impl Lane {
    fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Same, Self::Same) => true,
            (Self::Other(a), Self::Other(b)) => alike(a, b),
            _ => false,
        }
    }
}

/// Spreads symbols over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Symbols per second.
    rate: f64,
    /// Symbols that were earned by `at`, less those that have left.
    earned: f64,
    at: Instant,
}

impl Pace {
    /// From `now` on, `symbols` leave within `useful`. Nothing is earned while there are none; the
    /// first one after that is half as far away as those behind it.
    pub fn set(&mut self, now: Instant, symbols: u16, useful: Duration) {
        self.earn(now);
        let resting = self.rate == 0.0;
        self.rate = f64::from(symbols) / useful.as_secs_f64().max(1e-3);
        if resting && self.rate > 0.0 {
            self.earned = 0.5;
        }
    }

    /// When `count` symbols are due, if any ever are.
    pub fn due(&self, count: u16) -> Option<Instant> {
        let lacking = (f64::from(count) - self.earned).max(0.0);
        (self.rate > 0.0).then(|| self.at + Duration::from_nanos((lacking / self.rate * 1e9).ceil() as u64))
    }

    /// A symbol has left.
    pub fn on_sent(&mut self, now: Instant) {
        self.earn(now);
        self.earned -= 1.0;
    }

    fn earn(&mut self, now: Instant) {
        let passed = if now > self.at { now - self.at } else { Duration::ZERO };
        // What could not leave for a while is not made up for at once: it would be one burst.
        self.earned = (self.earned + self.rate * passed.as_secs_f64()).min(f64::from(MAX_EARNED));
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const TARGET: f64 = 2.5e-4;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + MS * ms
    }

    fn window(packets: u16, loss: f64, burst: f64) -> Window {
        Window { packets, loss: Gilbert::new(loss, burst).unwrap() }
    }

    /// The call of docs/datagrams.md over a path of 100 ms: some 24 packets within 95 ms.
    #[test]
    fn a_call_without_time_for_an_answer() {
        let needs = |loss, burst| window(24, loss, burst).symbols(Lane::Same, TARGET);
        assert_eq!([needs(0.01, 1.011), needs(0.03, 1.031), needs(0.05, 1.053)], [3, 4, 6]);
        assert_eq!(needs(0.01, 3.0), 10);
        assert_eq!(needs(0.03, 8.0), 24, "the most");
        assert_eq!(needs(0.000_2, 1.001), 0, "a path that loses next to nothing costs nothing");
        assert_eq!(window(1, 0.03, 3.0).symbols(Lane::Same, TARGET), 1);
        assert_eq!(window(0, 0.03, 3.0).symbols(Lane::Same, TARGET), 0);
    }

    /// Five packets of audio and twenty of video, in a path's hundred milliseconds.
    #[test]
    fn the_highest_priority_has_its_symbols_first() {
        let mut allowance = Allowance::of(5 * 150 + 20 * 1_100);
        assert_eq!(allowance.grant(5, 150), 5);
        assert_eq!(allowance.grant(20, 1_100), 9, "what is left of 11,375 bytes");
        assert_eq!(allowance.grant(3, 1_100), 1, "one at least");
        assert_eq!(allowance.grant(0, 1_100), 0);
        assert_eq!(Allowance::of(100).grant(1, 100), 1, "of a lone packet");
    }

    #[test]
    fn single_losses_are_binomial() {
        let one = window(10, 0.1, 1.0 / 0.9);
        // Lost, and any other of eleven in all.
        let any_other = 0.1 * (1.0 - 0.9_f64.powi(10));
        assert!((one.stays_lost(1, Lane::Same) - any_other).abs() < 1e-12);
        let elsewhere = 0.1 * (0.2 + 0.8 * (1.0 - 0.9_f64.powi(9)));
        assert!((one.stays_lost(1, Lane::Other(0.2)) - elsewhere).abs() < 1e-12);
    }

    #[test]
    fn the_fewest_are_found_and_more_never_hurt() {
        for (loss, burst) in [(0.01, 1.011), (0.02, 2.0), (0.05, 3.0), (0.1, 8.0)] {
            for packets in [1, 2, 5, 24, 57, 80] {
                for lane in [Lane::Same, Lane::Other(0.0), Lane::Other(0.1)] {
                    let window = window(packets, loss, burst);
                    let lost: Vec<f64> = (0..=packets).map(|m| window.stays_lost(m, lane)).collect();
                    assert!(lost.windows(2).all(|pair| pair[1] <= pair[0] + 1e-15), "{lost:?}");
                    for target in [1e-2, TARGET, 1e-6] {
                        let fewest = lost.iter().position(|p| *p <= target).unwrap_or(lost.len() - 1);
                        assert_eq!(usize::from(window.symbols(lane, target)), fewest);
                    }
                }
            }
        }
    }

    #[test]
    fn the_answer_is_remembered_for_what_is_alike() {
        let mut sizing = Sizing::default();
        let ask = |sizing: &mut Sizing, packets, loss| {
            let window = window(packets, loss, 1.06);
            (sizing.symbols(window, Lane::Same, TARGET), window.symbols(Lane::Same, TARGET))
        };
        let (first, exact) = ask(&mut sizing, 24, 0.03);
        assert_eq!(first, exact);
        assert_eq!(ask(&mut sizing, 22, 0.031).0, first);
        for (packets, loss) in [(60, 0.03), (60, 0.05), (3, 0.05)] {
            let (symbols, exact) = ask(&mut sizing, packets, loss);
            assert_eq!(symbols, exact, "{packets} {loss}");
        }
        let window = window(3, 0.05, 1.06);
        for target in [0.02, TARGET] {
            let exact = window.symbols(Lane::Same, target);
            assert_eq!(sizing.symbols(window, Lane::Same, target), exact, "{target}");
        }
        assert!(window.symbols(Lane::Same, 0.02) < window.symbols(Lane::Same, TARGET));
    }

    #[test]
    fn symbols_leave_evenly_and_as_many_as_asked() {
        let mut pace = Pace::default();
        assert_eq!(pace.due(1), None);
        pace.set(at(10), 4, MS * 100);
        let mut left = Vec::new();
        while let Some(due) = pace.due(1).filter(|due| *due < at(110)) {
            pace.on_sent(due);
            left.push((due - at(0)).as_millis());
        }
        assert_eq!(left, [22, 47, 72, 97]);
        // Half as many from here on, and two at a time.
        pace.set(at(110), 2, MS * 100);
        assert_eq!(pace.due(2), Some(at(185)));
        pace.set(at(120), 0, MS * 100);
        assert_eq!(pace.due(1), None);
    }

    #[test]
    fn what_could_not_leave_is_bounded() {
        let mut pace = Pace::default();
        pace.set(at(0), 20, MS * 10);
        pace.set(at(1_000_000), 20, MS * 10);
        let mut count = 0;
        while pace.due(1).is_some_and(|due| due <= at(1_000_000)) {
            pace.on_sent(at(1_000_000));
            count += 1;
        }
        assert_eq!(count, MAX_EARNED);
    }
}
