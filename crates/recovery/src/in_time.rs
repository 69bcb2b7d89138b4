//! Data with a deadline: when to look after a packet of it, and how much repair makes it arrive in
//! time with the wanted probability.
//!
//! Ours. Fixed redundancy pays for every packet, although most arrive; waiting until a loss is
//! known costs a round trip and more. A deadline says which of the two is right. With `D` the
//! deadline, `s` the moment of sending, and for every way `w` the one-way delay `o(w)` and the time
//! `h(w)` after which silence about what left on it means that it is lost:
//!
//! ```text
//! latest   = max over ways of D - o(w)          repair that leaves later is useless
//! attend   = s + h(own)        if that is at most latest        (repair what is known to be lost)
//!          = s + prompt(own)   else, if that is at most latest - GATHER   (leave out what arrived)
//!          = s + (latest - s) / 2   else                        (repair what may be lost: a block, or
//!                                                                [`streaming`](crate::streaming))
//! symbols  = the fewest m for which P(incomplete with m) <= target
//! interval = (latest - now) / m
//! ```
//!
//! `P(incomplete)` is that of [`repair_size`](crate::repair_size), over the packets that are lost
//! and those that may be. Where another answer can be had before `latest`, as many symbols as are
//! lost are enough for now: what of them is lost is seen and replaced. The symbols are spread over
//! the time that is left, so that one burst does not hit all, and so that news can save the rest.
//!
//! Of several ways that is the best which needs the fewest symbols, and among those the one that
//! delivers first.
//!
//! # Invariants
//! Nothing is asked for that cannot arrive in time; never more than [`MOST`] symbols, nor more than
//! two for each packet that is lost and one for every two that may be: long bursts would want more
//! than they give back.

use units::{Duration, Instant};

use crate::{gilbert::Gilbert, repair_size::Exposure};

/// Most symbols of one block.
pub const MOST: u16 = 32;
/// How long packets are gathered that are repaired together.
pub const GATHER: Duration = Duration::from_millis(10);

/// A way that repair may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// Time until what leaves now has arrived: pacing, queue and the way itself, and a margin.
    pub one_way: Duration,
    /// Time until the ACK of what leaves now is there if nobody holds it back.
    pub prompt: Duration,
    /// Time after which silence about what leaves now means that it is lost. Not below `prompt`.
    pub answer: Duration,
    /// The probability that repair which leaves on it is lost, 0 to 1.
    pub loss: f64,
}

/// The packets of one path that are to be repaired together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtRisk {
    /// The earliest deadline among them.
    pub deadline: Instant,
    /// How many are lost, as far as known.
    pub lost: u16,
    /// How many others have not been heard of.
    pub in_flight: u16,
    /// How their path loses.
    pub loss: Gilbert,
    /// Whether the peer decodes: else a symbol is a copy of one packet.
    pub decodes: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Plan {
    /// Nothing can arrive in time any more.
    TooLate,
    /// They are probable enough to arrive as it is.
    Enough,
    /// Repair leaves.
    Repair {
        /// The place of the way that it takes among those that were given.
        way: usize,
        /// How many symbols; without a decoder, how many times each packet leaves again.
        symbols: u16,
        /// Time from one to the next.
        interval: Duration,
    },
}

/// When repair must leave at the latest to arrive before `deadline`; `None` if it cannot.
pub fn latest(deadline: Instant, now: Instant, ways: &[Way]) -> Option<Instant> {
    let fastest = ways.iter().map(|way| way.one_way).min()?;
    (now + fastest <= deadline).then(|| now + (deadline - now - fastest))
}

/// When to look after a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attend {
    /// Now there is news of it, or silence.
    Answered(Instant),
    /// No news comes in time.
    Blind {
        /// When it is repaired together with others of its time.
        block: Instant,
        /// When repair must leave at the latest.
        latest: Instant,
    },
}

impl Attend {
    /// When it is repaired as a member of a block.
    pub fn as_block(self) -> Instant {
        match self {
            Self::Answered(at) | Self::Blind { block: at, .. } => at,
        }
    }
}

/// When to look after a packet that leaves at `sent` on the way `own`, and must be there by
/// `deadline`. `None` if nothing that is sent afterwards could help.
pub fn attend(sent: Instant, deadline: Instant, own: &Way, ways: &[Way]) -> Option<Attend> {
    let latest = latest(deadline, sent, ways)?;
    Some(if sent + own.answer <= latest {
        Attend::Answered(sent + own.answer)
    } else if sent + own.prompt + GATHER <= latest {
        Attend::Answered(sent + own.prompt)
    } else {
        Attend::Blind { block: sent + (latest - sent) / 2, latest }
    })
}

/// How the packets are repaired, so that they are complete in time but for the probability
/// `target`.
pub fn plan(now: Instant, risk: &AtRisk, ways: &[Way], target: f64) -> Plan {
    let Some(latest) = latest(risk.deadline, now, ways) else { return Plan::TooLate };
    let most = risk.lost.saturating_mul(2).saturating_add(risk.in_flight.div_ceil(2)).min(MOST);
    let in_time = ways.iter().enumerate().filter(|(_, way)| now + way.one_way <= risk.deadline);
    let needs = |way: &Way| needed(now, latest, risk, way, target).unwrap_or(most).min(most);
    let best = in_time
        .map(|(place, way)| (needs(way), way.one_way, place))
        .min_by_key(|&(symbols, one_way, place)| (symbols, one_way, place));
    match best {
        None => Plan::TooLate,
        Some((0, ..)) => Plan::Enough,
        Some((symbols, one_way, way)) => {
            let left = (risk.deadline - now).saturating_sub(one_way);
            Plan::Repair { way, symbols, interval: left / u64::from(symbols) }
        }
    }
}

/// The fewest symbols that are enough on a way; `None` if no number is.
fn needed(now: Instant, latest: Instant, risk: &AtRisk, way: &Way, target: f64) -> Option<u16> {
    // What is lost of these is known before it is too late for more.
    if risk.lost > 0 && now + way.answer <= latest {
        return Some(if risk.decodes { risk.lost } else { 1 });
    }
    if !risk.decodes {
        let mut missing = if risk.lost > 0 { 1.0 } else { risk.loss.loss() };
        let mut times = 0;
        while missing > target && times < MOST {
            missing *= way.loss.clamp(0.0, 1.0);
            times += 1;
        }
        return (missing <= target).then_some(times);
    }
    let exposure = Exposure {
        in_flight: risk.in_flight,
        lost: risk.lost,
        loss: risk.loss,
        repairs: 0,
        repair_loss: way.loss,
    };
    exposure.repairs_needed(target, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const TARGET: f64 = 1e-3;

    fn way(one_way_ms: u64, loss: f64) -> Way {
        Way {
            one_way: MS * one_way_ms,
            prompt: MS * (2 * one_way_ms),
            answer: MS * (2 * one_way_ms + 25),
            loss,
        }
    }

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + MS * ms
    }

    fn risk(lost: u16, in_flight: u16) -> AtRisk {
        let loss = Gilbert::new(0.03, 3.0).unwrap();
        AtRisk { deadline: at(150), lost, in_flight, loss, decodes: true }
    }

    /// The call of docs/datagrams.md: 150 ms, ways of 20 ms.
    #[test]
    fn with_time_for_an_answer_only_what_is_lost_is_repaired() {
        let near = way(20, 0.03);
        assert_eq!(
            attend(at(0), at(150), &near, &[near]),
            Some(Attend::Answered(at(65))),
            "when silence means loss"
        );
        // One lost; 80 ms are left, 20 of them on the way, and no second answer comes in time.
        let plan_for = |ways: &[Way]| plan(at(70), &risk(1, 0), ways, TARGET);
        let twice = Plan::Repair { way: 0, symbols: 2, interval: MS * 30 };
        assert_eq!(plan_for(&[near]), twice, "0.03 x 0.03 is below the target");
        let once = Plan::Repair { way: 1, symbols: 1, interval: MS * 60 };
        assert_eq!(plan_for(&[near, way(20, 0.0005)]), once, "the cleaner way needs one");
    }

    #[test]
    fn with_time_for_a_second_answer_one_symbol_for_each_loss_is_enough() {
        let near = way(20, 0.03);
        let distant = AtRisk { deadline: at(400), ..risk(3, 2) };
        let Plan::Repair { symbols, .. } = plan(at(65), &distant, &[near], TARGET) else { panic!() };
        assert_eq!(symbols, 3);
    }

    #[test]
    fn without_time_for_an_answer_what_may_be_lost_is_repaired_as_a_block() {
        let far = way(60, 0.03);
        let blind = Attend::Blind { block: at(45), latest: at(90) };
        assert_eq!(attend(at(0), at(150), &far, &[far]), Some(blind), "half of the 90 ms that are left");
        // The probability that more of seven packets are lost than symbols arrive.
        let Plan::Repair { symbols, interval, .. } = plan(at(45), &risk(0, 7), &[far], TARGET) else {
            panic!()
        };
        let model = Exposure {
            in_flight: 7,
            lost: 0,
            loss: Gilbert::new(0.03, 3.0).unwrap(),
            repairs: 0,
            repair_loss: 0.03,
        };
        assert_eq!(symbols, 4, "for bursts of three the target takes more than one for two packets");
        assert!(model.incomplete(4) > TARGET && model.incomplete(4) < 0.2 * model.incomplete(0));
        assert_eq!(interval, MS * 45 / u64::from(symbols));
    }

    #[test]
    fn an_ack_that_comes_before_it_is_too_late_is_waited_for() {
        let middle = way(42, 0.03);
        assert_eq!(
            attend(at(0), at(150), &middle, &[middle]),
            Some(Attend::Answered(at(84))),
            "the ACK, not the silence"
        );
    }

    #[test]
    fn what_cannot_arrive_in_time_is_not_sent() {
        let near = way(20, 0.03);
        assert_eq!(plan(at(131), &risk(1, 0), &[near], TARGET), Plan::TooLate);
        assert_eq!(plan(at(0), &risk(1, 0), &[], TARGET), Plan::TooLate);
        assert_eq!(attend(at(0), at(19), &near, &[near]), None);
        assert_ne!(plan(at(130), &risk(1, 0), &[near], TARGET), Plan::TooLate);
        // The way that is too slow is not taken, however clean it is.
        let Plan::Repair { way, .. } = plan(at(100), &risk(1, 0), &[way(60, 0.0), near], TARGET) else {
            panic!()
        };
        assert_eq!(way, 1);
    }

    #[test]
    fn nothing_is_sent_for_what_arrives_anyway() {
        let clean = AtRisk { loss: Gilbert::new(0.000_1, 1.1).unwrap(), ..risk(0, 5) };
        assert_eq!(plan(at(100), &clean, &[way(60, 0.03)], 2e-3), Plan::TooLate);
        assert_eq!(plan(at(50), &clean, &[way(60, 0.03)], 2e-3), Plan::Enough);
    }

    #[test]
    fn without_a_decoder_symbols_count_the_rounds_of_copies() {
        let copies = AtRisk { decodes: false, ..risk(4, 0) };
        let Plan::Repair { symbols, .. } = plan(at(70), &copies, &[way(20, 0.03)], TARGET) else { panic!() };
        assert_eq!(symbols, 2);
    }

    #[test]
    fn repair_is_bounded_and_never_late_whatever_the_ways() {
        let mut random = 1_u64;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for _ in 0..2_000 {
            let ways: Vec<Way> = (0..draw(4)).map(|_| way(draw(200), draw(101) as f64 / 100.0)).collect();
            let now = at(draw(200));
            let (lost, in_flight) = (draw(60) as u16, draw(60) as u16);
            let risk = AtRisk { decodes: draw(2) == 0, ..risk(lost, in_flight) };
            if let Plan::Repair { way, symbols, interval } = plan(now, &risk, &ways, TARGET) {
                assert!(symbols <= MOST && symbols <= 2 * lost + in_flight.div_ceil(2));
                let last = now + interval * u64::from(symbols - 1);
                assert!(last + ways[way].one_way <= risk.deadline, "{risk:?} {ways:?}");
            }
        }
    }
}
