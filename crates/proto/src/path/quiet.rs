//! When a path on which something is awaited has become suspiciously quiet.
//!
//! Who only receives has nothing in flight and therefore no probe timeout. Should its address
//! change on the way while what the peer sends is lost, both sides would wait: the peer's probes go
//! to where nobody is, and nobody tells it the new address. So a receiver that waits for data of a
//! stream, or a client that datagrams have come to, asks a few times, each time after twice the
//! silence, and then leaves it at that (docs/decisions/0013-quiet-receivers.md).

use units::{Duration, Instant};

/// Probe timeouts of silence before the first question.
const FIRST_AFTER_PTOS: u64 = 3;
/// The least silence before the first question: applications think, too.
const FIRST_AFTER: Duration = Duration::from_millis(300);
/// Questions after the last activity; the last one after 32 times the first silence.
const MAX_QUESTIONS: u32 = 6;

/// The silence on one path since the last activity: data in either direction, or anything else that
/// is more than a probe.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    since: Option<Instant>,
    /// Questions asked meanwhile.
    asked: u32,
    /// Datagrams have come since all questions were last asked, or nobody waited for anything.
    datagrams: bool,
}

impl Quiet {
    /// The path has carried more than probes and their answers. Those do not count: two sides that
    /// wait for each other would keep each other awake.
    pub(crate) fn on_activity(&mut self, now: Instant) {
        let datagrams = self.datagrams && self.asked < MAX_QUESTIONS;
        *self = Self { since: Some(now), asked: 0, datagrams };
    }

    /// A datagram has come, and others may follow: nothing says how many, or when.
    pub(crate) fn on_datagram(&mut self) {
        self.datagrams = true;
    }

    /// Whether datagrams are waited for.
    pub(crate) fn awaits_datagrams(&self) -> bool {
        self.datagrams
    }

    /// When to ask next, given the path's probe timeout. No later than half of the idle timeout
    /// after the last activity: an idle connection is to end, not to be kept alive.
    pub(crate) fn due(&self, probe_timeout: Duration, idle_timeout: Option<Duration>) -> Option<Instant> {
        if self.asked >= MAX_QUESTIONS {
            return None;
        }
        let since = self.since?;
        let silence = (probe_timeout * FIRST_AFTER_PTOS).max(FIRST_AFTER) * (1 << self.asked);
        idle_timeout.is_none_or(|idle| silence <= idle / 2).then(|| since + silence)
    }

    /// A question leaves.
    pub(crate) fn on_asked(&mut self) {
        self.asked += 1;
    }

    /// Whether a question has left since the last activity.
    pub(crate) fn has_asked(&self) -> bool {
        self.asked > 0
    }

    /// Nobody waits for anything.
    pub(crate) fn settle(&mut self) {
        (self.since, self.datagrams) = (None, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn questions(quiet: &mut Quiet, pto: Duration, idle: Option<Duration>) -> Vec<Instant> {
        core::iter::from_fn(|| {
            let at = quiet.due(pto, idle)?;
            quiet.on_asked();
            Some(at)
        })
        .collect()
    }

    #[test]
    fn asks_six_times_ever_more_rarely_and_again_after_activity() {
        let mut quiet = Quiet::default();
        let (pto, idle) = (Duration::from_millis(200), Some(Duration::from_secs(60)));
        assert_eq!(questions(&mut quiet, pto, idle), [], "nothing has begun");
        for start in [0, 100_000] {
            quiet.on_activity(at(start));
            let expected = [600, 1_200, 2_400, 4_800, 9_600, 19_200].map(|after| at(start + after));
            assert_eq!(questions(&mut quiet, pto, idle), expected);
        }
    }

    #[test]
    fn datagrams_are_waited_for_until_all_questions_are_asked() {
        let mut quiet = Quiet::default();
        quiet.on_datagram();
        quiet.on_activity(at(0));
        quiet.on_asked();
        quiet.on_activity(at(1_000));
        assert!(quiet.awaits_datagrams(), "what leaves meanwhile changes nothing");
        questions(&mut quiet, Duration::from_millis(100), None);
        assert!(quiet.awaits_datagrams());
        quiet.on_activity(at(60_000));
        assert!(!quiet.awaits_datagrams());
    }

    #[test]
    fn half_of_the_idle_timeout_ends_it() {
        let mut quiet = Quiet::default();
        quiet.on_activity(at(0));
        let asked = questions(&mut quiet, Duration::from_millis(5), Some(Duration::from_secs(2)));
        assert_eq!(asked, [at(300), at(600)]);
    }
}
