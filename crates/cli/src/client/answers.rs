//! When a program hears that it is connected: at once, or when the server is.
//!
//! A program says nothing before it hears that; SOCKS5 and CONNECT have it so. Waiting for the
//! server costs it a round trip, and all that the wait is good for is a reason when there is no
//! connection: one told too early sees a reset instead. So an answer comes at once where a
//! connection was made lately, and is likely to be made again.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::{target::Target, word};

/// For how long a destination is known after its last connection.
const KNOWN_FOR: Duration = Duration::from_secs(600);
/// Destinations known at a time; the one connected to longest ago goes first.
const MOST_KNOWN: usize = 1_024;

/// Which programs are told that they are connected before the server has said so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyAnswers {
    /// None: each hears why, if there is no connection.
    Never,
    /// Those that want to connect where a connection was made within the last ten minutes.
    #[default]
    Known,
    /// All: whatever goes wrong shows as a reset.
    Always,
}

impl EarlyAnswers {
    const ALL: [(Self, &str); 3] = [(Self::Never, "never"), (Self::Known, "known"), (Self::Always, "always")];
}

word::words!(EarlyAnswers);

/// Decides when programs are answered, and remembers where connections were made.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    when: RwLock<EarlyAnswers>,
    /// When the last connection was made.
    known: Mutex<BTreeMap<Target, Instant>>,
    early: AtomicU64,
    refused: AtomicU64,
}

/// What there is to tell of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerCounts {
    /// Programs told that they are connected before the server had said so.
    pub(crate) early: u64,
    /// Those of them whose request the server then refused.
    pub(crate) refused: u64,
    /// Destinations remembered at the moment.
    pub(crate) known: u64,
}

impl Answers {
    pub(crate) fn new(when: EarlyAnswers) -> Self {
        Self { when: RwLock::new(when), ..Self::default() }
    }

    /// From now on.
    pub(crate) fn set_when(&self, when: EarlyAnswers) {
        *self.when.write().unwrap_or_else(PoisonError::into_inner) = when;
    }

    /// Whether a program that wants to connect to `target` is answered at once; it then must be.
    pub(crate) fn at_once(&self, target: &Target) -> bool {
        let early = match *self.when.read().unwrap_or_else(PoisonError::into_inner) {
            EarlyAnswers::Never => false,
            EarlyAnswers::Known => self.is_known(target),
            EarlyAnswers::Always => true,
        };
        self.early.fetch_add(early.into(), Relaxed);
        early
    }

    fn is_known(&self, target: &Target) -> bool {
        self.known().get(target).is_some_and(|made| made.elapsed() < KNOWN_FOR)
    }

    /// The server has connected to `target`.
    pub(crate) fn on_granted(&self, target: Target) {
        let (now, mut known) = (Instant::now(), self.known());
        if known.len() >= MOST_KNOWN && !known.contains_key(&target) {
            known.retain(|_, made| now - *made < KNOWN_FOR);
            if known.len() >= MOST_KNOWN {
                let oldest = known.iter().min_by_key(|(_, made)| **made).map(|(target, _)| target.clone());
                if let Some(oldest) = oldest {
                    known.remove(&oldest);
                }
            }
        }
        known.insert(target, now);
    }

    /// The server has not, and the next program shall hear why. `early`: this one cannot.
    pub(crate) fn on_refused(&self, target: &Target, early: bool) {
        self.refused.fetch_add(early.into(), Relaxed);
        self.known().remove(target);
    }

    pub(crate) fn counts(&self) -> AnswerCounts {
        AnswerCounts {
            early: self.early.load(Relaxed),
            refused: self.refused.load(Relaxed),
            known: self.known().len() as u64,
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Target, Instant>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(n: usize) -> Target {
        format!("host-{n}.example:443").parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn destinations_are_known_for_a_while() {
        let answers = Answers::default();
        assert!(!answers.at_once(&target(1)));
        answers.on_granted(target(1));
        assert!(answers.at_once(&target(1)) && !answers.at_once(&target(2)));
        tokio::time::advance(KNOWN_FOR - Duration::from_secs(1)).await;
        assert!(answers.at_once(&target(1)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!answers.at_once(&target(1)), "early answers do not prolong it");
        assert_eq!(answers.counts().early, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_refused_is_known_no_more() {
        let answers = Answers::default();
        answers.on_granted(target(1));
        answers.on_refused(&target(1), true);
        assert!(!answers.at_once(&target(1)));
        let counts = AnswerCounts { refused: 1, ..AnswerCounts::default() };
        assert_eq!(answers.counts(), counts);
    }

    #[tokio::test(start_paused = true)]
    async fn the_destination_connected_to_longest_ago_makes_room() {
        let answers = Answers::default();
        for n in 0..MOST_KNOWN {
            answers.on_granted(target(n));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        answers.on_granted(target(0));
        answers.on_granted(target(MOST_KNOWN));
        assert_eq!(answers.counts().known, MOST_KNOWN as u64);
        assert!(answers.at_once(&target(0)) && answers.at_once(&target(MOST_KNOWN)));
        assert!(!answers.at_once(&target(1)));
    }

    #[test]
    fn the_switch_has_the_last_word() {
        let (never, always) = (Answers::new(EarlyAnswers::Never), Answers::new(EarlyAnswers::Always));
        never.on_granted(target(1));
        assert!(!never.at_once(&target(1)) && always.at_once(&target(1)));
        for (value, name) in EarlyAnswers::ALL {
            assert_eq!((name.parse(), value.to_string()), (Ok(value), name.to_owned()));
        }
        assert!("soon".parse::<EarlyAnswers>().unwrap_err().contains("never, known, always"));
    }
}
