//! Who watches, and what it looks like.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use moq_net::{origin, track::Subscription};
use tokio::{task::JoinHandle, time::Instant};

use crate::{BROADCAST, TRACK};

/// How far behind the newest a group may be and still be waited for.
const MAX_AGE: Duration = Duration::from_secs(2);

/// Frames that arrived: their number, and when.
type Arrived = Vec<(u32, Duration)>;

pub(crate) struct Viewer {
    arrived: Arc<Mutex<Arrived>>,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Viewer {
    /// Watches what is announced at this origin.
    pub(crate) fn start(origin: origin::Consumer, began: Instant) -> Self {
        let arrived = Arc::<Mutex<Arrived>>::default();
        let task = tokio::spawn(watch(origin, began, arrived.clone()));
        Self { arrived, task }
    }

    /// What has arrived up to now.
    pub(crate) fn stop(self) -> Arrived {
        self.task.abort();
        std::mem::take(&mut *self.arrived.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn watch(origin: origin::Consumer, began: Instant, arrived: Arc<Mutex<Arrived>>) -> anyhow::Result<()> {
    let broadcast = origin.routed_broadcast(BROADCAST).await?;
    let subscription = Subscription::default().with_max_age(MAX_AGE);
    let mut track = broadcast.track(TRACK)?.subscribe(subscription).await?;
    let mut groups = tokio::task::JoinSet::new();
    while let Some(mut group) = track.recv_group().await? {
        let arrived = arrived.clone();
        groups.spawn(async move {
            // A group that is given up ends in the midst.
            while let Ok(Some(frame)) = group.read_frame().await {
                let Some(number) = frame.payload.first_chunk() else { continue };
                let frame = (u32::from_be_bytes(*number), began.elapsed());
                arrived.lock().unwrap_or_else(PoisonError::into_inner).push(frame);
            }
        });
    }
    Ok(())
}

/// What was seen in one run.
pub(crate) struct Seen {
    first: Option<Duration>,
    /// From the first frame that arrived on, of all if none did; `None` for those that never did.
    latencies: Vec<Option<Duration>>,
    stalls: u32,
    stalled: Duration,
    sent: u64,
    in_time: usize,
}

impl Seen {
    /// `taken`: when each frame was; `arrived`: those that came; `buffer`: how much later they are
    /// shown. Of frames that came twice the first counts.
    pub(crate) fn new(taken: &[Duration], arrived: Arrived, buffer: Duration, sent: u64) -> Self {
        let mut at = vec![None::<Duration>; taken.len()];
        for (number, time) in arrived {
            if let Some(place) = at.get_mut(number as usize) {
                *place = Some(place.map_or(time, |before| before.min(time)));
            }
        }
        let first = at.iter().flatten().min().copied();
        let begin = at.iter().position(Option::is_some).unwrap_or(0);
        let latencies: Vec<_> = at[begin..]
            .iter()
            .zip(&taken[begin..])
            .map(|(at, taken)| at.map(|at| at.saturating_sub(*taken)))
            .collect();
        let good: Vec<bool> =
            latencies.iter().map(|latency| latency.is_some_and(|latency| latency <= buffer)).collect();
        let stalls = good.windows(2).filter(|pair| pair[0] && !pair[1]).count();
        let missed = good.iter().filter(|good| !**good).count();
        Self {
            first,
            stalls: u32::try_from(stalls).unwrap_or(u32::MAX),
            stalled: Duration::from_secs(1) * u32::try_from(missed).unwrap_or(u32::MAX) / 30,
            in_time: good.len() - missed,
            latencies,
            sent,
        }
    }
}

/// What was seen in all runs of a row.
#[derive(Default)]
pub(crate) struct Report {
    seen: Vec<Seen>,
}

impl Report {
    pub(crate) fn add(&mut self, seen: Seen) {
        self.seen.push(seen);
    }

    /// The latency that so much of all frames keep; `None` if fewer arrived at all.
    fn quantile(&self, share: f64) -> Option<Duration> {
        let mut latencies: Vec<_> = self.seen.iter().flat_map(|seen| &seen.latencies).copied().collect();
        latencies.sort_by_key(|latency| latency.unwrap_or(Duration::MAX));
        let index = (latencies.len() as f64 * share).ceil() as usize;
        latencies.get(index.saturating_sub(1)).copied().flatten()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.seen.len().max(1) as f64;
        let ms = |time: Option<Duration>| {
            time.map_or("never".to_owned(), |time| format!("{:.0} ms", time.as_secs_f64() * 1e3))
        };
        let mut firsts: Vec<_> = self.seen.iter().map(|seen| seen.first).collect();
        firsts.sort_by_key(|first| first.unwrap_or(Duration::MAX));
        let frames: usize = self.seen.iter().map(|seen| seen.latencies.len()).sum();
        let in_time: usize = self.seen.iter().map(|seen| seen.in_time).sum();
        let stalls: u32 = self.seen.iter().map(|seen| seen.stalls).sum();
        let stalled: Duration = self.seen.iter().map(|seen| seen.stalled).sum();
        let sent: u64 = self.seen.iter().map(|seen| seen.sent).sum();
        write!(
            f,
            "{} | {} | {} | {:.2} % | {:.1} | {:.2} s | {:.2}",
            ms(firsts.get(firsts.len() / 2).copied().flatten()),
            ms(self.quantile(0.5)),
            ms(self.quantile(0.99)),
            100.0 * in_time as f64 / frames.max(1) as f64,
            f64::from(stalls) / runs,
            stalled.as_secs_f64() / runs,
            sent as f64 / runs / 1e6,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames 1 and 3 are late or never come: two stalls, of a thirtieth of a second each.
    #[test]
    fn late_frames_stall() {
        let ms = Duration::from_millis;
        let taken = [0, 33, 67, 100, 133].map(ms);
        let arrived = vec![(0, ms(50)), (2, ms(100)), (1, ms(400)), (4, ms(150)), (1, ms(500))];
        let seen = Seen::new(&taken, arrived, ms(250), 1_000_000);
        assert_eq!(seen.first, Some(ms(50)));
        assert_eq!(seen.latencies, [Some(ms(50)), Some(ms(367)), Some(ms(33)), None, Some(ms(17))]);
        assert_eq!((seen.stalls, seen.in_time), (2, 3));
        let mut report = Report::default();
        report.add(seen);
        assert_eq!(report.quantile(0.5), Some(ms(50)));
        assert_eq!(report.quantile(0.99), None);
    }

    /// A run in which nothing arrives is the worst, and none that is left out.
    #[test]
    fn nothing_at_all_is_never_in_time() {
        let taken = [0, 33, 67].map(Duration::from_millis);
        let seen = Seen::new(&taken, Vec::new(), Duration::from_millis(250), 1_000_000);
        assert_eq!((seen.first, seen.in_time, seen.latencies.len()), (None, 0, 3));
        assert_eq!(seen.stalled, Duration::from_millis(100));
    }
}
