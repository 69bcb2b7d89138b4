//! Paths that do not answer, and when that is worth a word.

use std::{collections::BTreeMap, future::pending, time::Duration};

use mendpath::PathId;
use tokio::time::{Instant, sleep_until};

/// For how long a path must be silent before anybody is told: one late packet is no news.
const SILENCE: Duration = Duration::from_secs(2);

/// The silent paths of a connection.
#[derive(Debug, Default)]
pub(crate) struct Silences(BTreeMap<PathId, Silence>);

#[derive(Debug)]
enum Silence {
    /// Nobody knows before that.
    Until(Instant),
    /// That was told.
    Told,
}

impl Silences {
    /// The path has stopped answering.
    pub(crate) fn begin(&mut self, id: PathId) {
        self.0.entry(id).or_insert_with(|| Silence::Until(Instant::now() + SILENCE));
    }

    /// The path answers again, or is gone. Whether its silence had been told of.
    pub(crate) fn end(&mut self, id: PathId) -> bool {
        matches!(self.0.remove(&id), Some(Silence::Told))
    }

    /// Whether the path is silent at the moment, told of or not.
    pub(crate) fn is_silent(&self, id: PathId) -> bool {
        self.0.contains_key(&id)
    }

    /// Waits until a path has been silent for long enough, and tells of it once. Cancel safe.
    pub(crate) async fn overdue(&mut self) -> PathId {
        let waiting = self.0.iter().filter_map(|(id, silence)| match silence {
            Silence::Until(at) => Some((*at, *id)),
            Silence::Told => None,
        });
        let Some((at, id)) = waiting.min() else { return pending().await };
        sleep_until(at).await;
        self.0.insert(id, Silence::Told);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_short_silence_is_no_news_and_a_long_one_is_told_once() {
        let (one, other) = (PathId(1), PathId(2));
        let mut silences = Silences::default();
        let start = Instant::now();
        silences.begin(one);
        silences.begin(other);
        silences.begin(one);
        assert!(!silences.end(one), "nobody knew");
        assert_eq!(silences.overdue().await, other);
        assert_eq!(start.elapsed(), SILENCE);
        let again = tokio::time::timeout(10 * SILENCE, silences.overdue()).await;
        assert!(again.is_err(), "told once");
        assert!(silences.end(other) && !silences.end(other));
    }
}
