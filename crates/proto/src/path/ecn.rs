//! Explicit congestion notification: whether a path carries marks, and what the peer's counts say
//! (RFC 9000 sections 13.4 and A.4).
//!
//! Marking is decided per network path, counts are compared per packet number space. The first
//! [`TESTING_PACKETS`] packets of a path are marked ECT(0); further ones only once an ACK has shown
//! that the marks arrive.
//!
//! # Departures
//! - A probe timeout ends the test early: probes leave unmarked, so that a network that drops
//!   marked packets costs one timeout and not three.
//! - A 1-RTT packet that asks for no acknowledgement leaves unmarked, as TCP's pure ACKs do (RFC
//!   3168 section 6.1.4): nobody would tell its sender that marked packets are dropped, and a peer
//!   that waits for those ACKs would take the path for dead.
//! - A path whose move to other addresses is not settled yet sends unmarked: a network that drops
//!   marked packets would keep the challenge from arriving, and the path would move back and forth
//!   without end.
//! - A second probe timeout in a row puts a capable path to the test again, because its route may
//!   have changed.
//! - A test whose only marked packets went down with their packet number space stays without a
//!   result, and the path without marks.
//! - Where every mark that arrives is CE, the network writes them without looking
//!   ([`EcnProblem::AllCe`]).

use units::{Duration, Instant};

use crate::{Ecn, EcnState};

use crate::wire::EcnCounts;

/// Packets marked before marking waits for the peer's answer, and CE marks without any ECT(0) that
/// show a mangling network.
const TESTING_PACKETS: u64 = 10;
/// Probe timeouts after which the test is over, however few packets were marked.
const TESTING_TIMEOUTS: u64 = 3;
/// Probe timeouts in a row after which marks are no longer taken for harmless.
const SUSPICIOUS_TIMEOUTS: u32 = 2;

/// Why counts cannot be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EcnProblem {
    /// An ACK of a marked packet came without counts.
    Missing,
    /// Fewer marks than marked packets that arrived.
    TooLow,
    /// More marks than marked packets were sent.
    TooHigh,
    /// ECT(1), which we never send.
    Remarked,
    /// A count went back.
    Decreased,
    /// Every packet bears CE.
    AllCe,
}

/// Marks of one packet number space: how many we sent, and the peer's latest counts.
#[derive(Debug, Default)]
pub(crate) struct SpaceEcn {
    sent: u64,
    reported: EcnCounts,
}

impl SpaceEcn {
    pub(crate) fn on_sent(&mut self) {
        self.sent += 1;
    }

    /// Takes the counts of an ACK that raised the largest acknowledged number and newly
    /// acknowledged `marked` marked packets; returns how many CE marks are new (section 13.4.2.1).
    pub(crate) fn on_ack(&mut self, counts: Option<EcnCounts>, marked: u64) -> Result<u64, EcnProblem> {
        let Some(now) = counts else {
            return if marked > 0 { Err(EcnProblem::Missing) } else { Ok(0) };
        };
        let before = core::mem::replace(&mut self.reported, now);
        if now.ect1 > 0 {
            return Err(EcnProblem::Remarked);
        }
        if now.ect0 < before.ect0 || now.ce < before.ce {
            return Err(EcnProblem::Decreased);
        }
        let total = now.ect0 + now.ce;
        if total > self.sent {
            return Err(EcnProblem::TooHigh);
        }
        if total - (before.ect0 + before.ce) < marked {
            return Err(EcnProblem::TooLow);
        }
        if now.ect0 == 0 && now.ce >= TESTING_PACKETS {
            return Err(EcnProblem::AllCe);
        }
        Ok(now.ce - before.ce)
    }
}

/// The validation state of one path.
#[derive(Debug)]
pub(crate) struct PathEcn {
    state: EcnState,
    /// When the test's first packet left.
    began: Option<Instant>,
    /// Marked packets of the test that ask for an ACK, and what became of them.
    sent: u64,
    acked: u64,
    lost: u64,
    /// CE marks that the peer reported on this path.
    ce: u64,
    /// Whether the latest packet was marked.
    marked_last: bool,
}

impl PathEcn {
    pub(crate) fn new(enabled: bool) -> Self {
        let state = if enabled { EcnState::Testing } else { EcnState::Disabled };
        Self { state, began: None, sent: 0, acked: 0, lost: 0, ce: 0, marked_last: false }
    }

    pub(crate) fn state(&self) -> EcnState {
        self.state
    }

    /// CE marks reported so far.
    pub(crate) fn ce(&self) -> u64 {
        self.ce
    }

    /// Whether packets leave marked, on a path that has been silent for `pto_count` probe timeouts.
    /// The answer stays the same while one batch is built.
    pub(crate) fn marks(&self, pto_count: u32) -> bool {
        match self.state {
            EcnState::Testing => pto_count == 0,
            EcnState::Capable => true,
            EcnState::Disabled | EcnState::Unknown | EcnState::Failed => false,
        }
    }

    /// A packet was built, to leave with this codepoint.
    pub(crate) fn on_packet(&mut self, now: Instant, codepoint: Option<Ecn>, ack_eliciting: bool) {
        self.marked_last = codepoint.is_some();
        if self.marked_last {
            self.began.get_or_insert(now);
            self.sent += u64::from(ack_eliciting);
        }
    }

    /// Whether the batch that was just built leaves marked: its packets are all alike.
    pub(crate) fn marked_last(&self) -> bool {
        self.marked_last
    }

    /// A batch is complete: the test ends when enough was marked.
    pub(crate) fn on_transmit(&mut self, now: Instant, pto: Duration) {
        let enough = self.sent >= TESTING_PACKETS
            || self.began.is_some_and(|began| now - began >= pto * TESTING_TIMEOUTS);
        if self.state == EcnState::Testing && enough {
            self.end_test();
        }
    }

    /// Nothing has been heard for the `pto_count`-th probe timeout in a row.
    pub(crate) fn on_silence(&mut self, pto_count: u32) {
        match self.state {
            EcnState::Testing if self.sent > 0 => self.end_test(),
            EcnState::Capable if pto_count >= SUSPICIOUS_TIMEOUTS => self.test_again(),
            _ => {}
        }
    }

    /// Starts over, as on a new network path.
    pub(crate) fn test_again(&mut self) {
        if self.state != EcnState::Disabled {
            *self = Self { ce: self.ce, ..Self::new(true) };
        }
    }

    fn end_test(&mut self) {
        self.state = EcnState::Unknown;
        self.give_up_if_all_lost();
    }

    /// A marked packet was declared lost.
    pub(crate) fn on_lost(&mut self, sent_at: Instant) {
        self.lost += u64::from(self.is_of_test(sent_at));
        self.give_up_if_all_lost();
    }

    /// Nothing will ever be known of a marked packet.
    pub(crate) fn on_forgotten(&mut self, sent_at: Instant) {
        self.sent -= u64::from(self.is_of_test(sent_at)).min(self.sent);
    }

    /// That every marked packet was lost is taken for the marks' fault.
    fn give_up_if_all_lost(&mut self) {
        let all = self.sent > 0 && self.lost >= self.sent;
        if self.state == EcnState::Unknown && self.acked == 0 && all {
            self.state = EcnState::Failed;
        }
    }

    /// The counts of an ACK were checked. Its `acked` are the send times of the marked packets that
    /// it newly acknowledged.
    pub(crate) fn on_checked(
        &mut self,
        result: Result<u64, EcnProblem>,
        acked: impl Iterator<Item = Instant>,
    ) {
        self.acked += acked.filter(|sent_at| self.is_of_test(*sent_at)).count() as u64;
        match result {
            Err(_) => self.state = EcnState::Failed,
            Ok(ce) => {
                self.ce += ce;
                let waiting = matches!(self.state, EcnState::Testing | EcnState::Unknown);
                if waiting && self.acked > 0 {
                    self.state = EcnState::Capable;
                }
            }
        }
    }

    /// Whether counts still matter.
    pub(crate) fn is_in_use(&self) -> bool {
        !matches!(self.state, EcnState::Disabled | EcnState::Failed)
    }

    fn is_of_test(&self, sent_at: Instant) -> bool {
        self.began.is_some_and(|began| sent_at >= began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTO: Duration = Duration::from_millis(100);

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn counts(ect0: u64, ect1: u64, ce: u64) -> Option<EcnCounts> {
        Some(EcnCounts { ect0, ect1, ce })
    }

    #[test]
    fn counts_are_checked_as_section_13_4_2_1_says() {
        let check = |latest, marked| {
            let mut space = SpaceEcn { sent: 20, reported: EcnCounts { ect0: 5, ect1: 0, ce: 1 } };
            space.on_ack(latest, marked)
        };
        assert_eq!(check(counts(7, 0, 1), 2), Ok(0));
        assert_eq!(check(counts(5, 0, 3), 2), Ok(2));
        assert_eq!(check(counts(19, 0, 1), 2), Ok(0), "earlier ACKs may have been lost");
        assert_eq!(check(None, 0), Ok(0));
        assert_eq!(check(None, 1), Err(EcnProblem::Missing));
        assert_eq!(check(counts(6, 0, 1), 2), Err(EcnProblem::TooLow));
        assert_eq!(check(counts(20, 0, 1), 2), Err(EcnProblem::TooHigh));
        assert_eq!(check(counts(5, 2, 1), 2), Err(EcnProblem::Remarked));
        assert_eq!(check(counts(10, 0, 0), 2), Err(EcnProblem::Decreased));
        assert_eq!(check(counts((1 << 62) - 1, 0, (1 << 62) - 1), 2), Err(EcnProblem::TooHigh));
        let mut all = SpaceEcn { sent: 20, ..SpaceEcn::default() };
        assert_eq!(all.on_ack(counts(0, 0, 9), 9), Ok(9));
        assert_eq!(all.on_ack(counts(0, 0, 10), 1), Err(EcnProblem::AllCe));
    }

    #[test]
    fn ten_packets_are_marked_until_an_ack_speaks_for_them() {
        let mut ecn = PathEcn::new(true);
        for n in 0..10 {
            assert!(ecn.marks(0), "packet {n}");
            ecn.on_packet(at(n), Some(Ecn::Ect0), true);
            ecn.on_transmit(at(n), PTO);
        }
        assert_eq!((ecn.state(), ecn.marks(0)), (EcnState::Unknown, false));
        ecn.on_checked(Ok(0), [].into_iter());
        assert_eq!(ecn.state(), EcnState::Unknown, "an ACK of unmarked packets says nothing");
        ecn.on_checked(Ok(1), [at(3)].into_iter());
        assert_eq!((ecn.state(), ecn.marks(0), ecn.ce()), (EcnState::Capable, true, 1));
        ecn.on_checked(Err(EcnProblem::Missing), [at(4)].into_iter());
        assert_eq!((ecn.state(), ecn.marks(0)), (EcnState::Failed, false));
    }

    #[test]
    fn the_test_is_over_after_three_timeouts_worth_of_time() {
        let mut ecn = PathEcn::new(true);
        ecn.on_packet(at(0), Some(Ecn::Ect0), true);
        ecn.on_transmit(at(299), PTO);
        assert_eq!(ecn.state(), EcnState::Testing);
        ecn.on_transmit(at(300), PTO);
        assert_eq!(ecn.state(), EcnState::Unknown);
    }

    #[test]
    fn silence_ends_the_test_and_the_loss_of_all_fails_it() {
        let mut ecn = PathEcn::new(true);
        ecn.on_packet(at(0), Some(Ecn::Ect0), true);
        ecn.on_packet(at(1), Some(Ecn::Ect0), true);
        ecn.on_silence(1);
        assert_eq!((ecn.state(), ecn.marks(1)), (EcnState::Unknown, false));
        ecn.on_lost(at(0));
        assert_eq!(ecn.state(), EcnState::Unknown);
        ecn.on_lost(at(1));
        assert_eq!(ecn.state(), EcnState::Failed);
    }

    #[test]
    fn a_capable_path_that_falls_silent_is_tested_again() {
        let mut ecn = PathEcn::new(true);
        ecn.on_packet(at(0), Some(Ecn::Ect0), true);
        ecn.on_checked(Ok(0), [at(0)].into_iter());
        ecn.on_silence(1);
        assert!(ecn.marks(1));
        ecn.on_silence(2);
        assert_eq!((ecn.state(), ecn.marks(2), ecn.marks(0)), (EcnState::Testing, false, true));
        ecn.on_lost(at(0)); // from before the silence: not part of the test
        for n in 0..10 {
            ecn.on_packet(at(900 + n), Some(Ecn::Ect0), true);
        }
        ecn.on_transmit(at(909), PTO);
        (0..9).for_each(|n| ecn.on_lost(at(900 + n)));
        assert_eq!(ecn.state(), EcnState::Unknown);
        ecn.on_lost(at(909));
        assert_eq!(ecn.state(), EcnState::Failed);
    }

    #[test]
    fn what_is_disabled_stays_so() {
        let mut ecn = PathEcn::new(false);
        ecn.test_again();
        assert_eq!((ecn.state(), ecn.marks(0), ecn.is_in_use()), (EcnState::Disabled, false, false));
    }
}
