//! Runs the responses of all rows, several at a time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::available_parallelism,
    time::Duration,
};

use mendpath::Identity;
use tokio::task::{JoinSet, spawn_blocking};

use super::{
    Clock, DemoOptions, Report, ReportRow, Row,
    response::{Measured, measure},
    rows, virtual_time,
};
use crate::{console::progress, failure::Failure};

/// Responses that show what the links alone make of one without loss.
const LINKS_ALONE: u32 = 8;

const BAR: &str = "{msg} [{bar:32}] {pos}/{len} responses, {eta} left";

/// Everything that the workers share.
struct Work {
    options: DemoOptions,
    rows: Vec<Row>,
    identity: Identity,
    next: AtomicUsize,
}

impl Work {
    /// The next response, by row and number.
    fn take(&self) -> Option<(usize, u32)> {
        let (row, index) = turn(self.next.fetch_add(1, Ordering::Relaxed), self.rows.len());
        let index = u32::try_from(index).ok()?;
        (index < self.options.count).then_some((row, index))
    }

    /// Measures one response.
    async fn measure(self: &Arc<Self>, row: usize, index: u32) -> Result<Measured, String> {
        match self.options.clock {
            Clock::Real => measure(&self.rows[row], index, &self.options, &self.identity).await,
            Clock::Virtual => {
                let work = Arc::clone(self);
                let response = move || virtual_time::measure(&work.rows[row], index, &work.options);
                spawn_blocking(response).await.unwrap_or_else(|error| Err(error.to_string()))
            }
        }
    }

    /// The longest time of a few responses without loss, in virtual time; `None` if they take too
    /// long even there.
    async fn links_alone_ms(self: &Arc<Self>) -> Option<f64> {
        let work = Arc::clone(self);
        let longest = move || {
            let limit = work.rows.iter().find(|row| !row.lossy)?;
            let responses = 0..work.options.count.min(LINKS_ALONE);
            let times = responses.map(|index| virtual_time::measure(limit, index, &work.options));
            let times: Result<Vec<Duration>, String> = times.map(|one| one.map(|one| one.fct)).collect();
            times.ok()?.into_iter().max()
        };
        let longest = spawn_blocking(longest).await.ok()??;
        Some(longest.as_secs_f64() * 1e3)
    }

    /// How many responses may be under way at a time.
    fn lanes(&self) -> usize {
        match self.options.clock {
            Clock::Real => self.options.lanes,
            Clock::Virtual => available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Whose turn it is, and for which response: all rows take turns with one before any begins the
/// next, so that a noisy moment of this machine hits all alike. Another row is first each time, so
/// that none always follows the same.
fn turn(item: usize, rows: usize) -> (usize, usize) {
    let index = item / rows;
    ((item + index) % rows, index)
}

/// Measures every response.
///
/// # Errors
/// When a response cannot be measured, with its row and number.
pub async fn run(options: DemoOptions) -> Result<Report, Failure> {
    let next = match options.clock {
        Clock::Real => "Try again; with -v the log says more",
        // Again would be the same again.
        Clock::Virtual => "Give it faster paths or a smaller --size",
    };
    let failed = |wrong: String| Failure::new("cannot finish the demonstration", wrong, next);
    let rows = rows(&options);
    let identity = Identity::self_signed(["demo"]).map_err(|error| failed(error.to_string()))?;
    let total = rows.len() as u64 * u64::from(options.count);
    let mut measured: Vec<Vec<Option<Measured>>> = vec![vec![None; options.count as usize]; rows.len()];
    let work = Arc::new(Work { rows, identity, next: AtomicUsize::new(0), options });

    let bar = progress(total, BAR).with_message("measuring");
    let mut workers = JoinSet::new();
    let (results, mut arriving) = tokio::sync::mpsc::channel(64);
    for _ in 0..work.lanes() {
        let (work, results) = (work.clone(), results.clone());
        workers.spawn(async move {
            while let Some((row, index)) = work.take() {
                let result = work.measure(row, index).await;
                if results.send((row, index, result)).await.is_err() {
                    return;
                }
            }
        });
    }
    drop(results);
    while let Some((row, index, result)) = arriving.recv().await {
        let result = result.map_err(|error| {
            let row = &work.rows[row];
            failed(format!("response {index} of the row {} {}: {error}", row.name, row.recovery))
        })?;
        measured[row][index as usize] = Some(result);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let rows = work.rows.iter().zip(&measured).map(|(row, measured)| {
        let measured: Vec<Measured> = measured.iter().copied().flatten().collect();
        ReportRow::new(row, &measured, work.options.size)
    });
    let rows = rows.collect();
    let links_alone_ms = work.links_alone_ms().await;
    Ok(Report::new(&work.options, rows, links_alone_ms))
}

#[cfg(test)]
mod tests {
    use units::Bytes;

    use super::*;

    #[test]
    fn rows_take_turns() {
        const ROWS: usize = 7;
        let turns: Vec<(usize, usize)> = (0..ROWS * ROWS).map(|item| turn(item, ROWS)).collect();
        for (index, round) in turns.chunks(ROWS).enumerate() {
            let mut rows: Vec<usize> = round.iter().map(|(row, _)| *row).collect();
            assert_eq!(rows[0], index % ROWS, "each is first in its turn");
            rows.sort_unstable();
            assert_eq!(rows, [0, 1, 2, 3, 4, 5, 6]);
            assert!(round.iter().all(|(_, of)| *of == index));
        }
    }

    async fn virtually(seed: u64) -> Report {
        let options = DemoOptions {
            count: 8,
            size: Bytes(30_000),
            seed,
            clock: Clock::Virtual,
            ..DemoOptions::default()
        };
        run(options).await.unwrap()
    }

    #[tokio::test]
    async fn virtual_time_gives_the_same_digits_every_time() {
        let digits = async |seed| serde_json::to_string(&virtually(seed).await).unwrap();
        let first = digits(1).await;
        assert_eq!(first, digits(1).await);
        assert_ne!(first, digits(2).await);
    }

    #[tokio::test]
    async fn virtual_time_knows_no_noise() {
        let report = virtually(1).await;
        let limit = report.rows.last().unwrap();
        assert!(!limit.lossy && limit.lost == 0);
        assert!(limit.max_ms - limit.p50_ms < 5.0, "{limit:?}");
        assert!(report.rows.iter().all(|row| row.late_ms == 0.0));
        assert_eq!(report.links_alone_ms, Some(limit.max_ms), "the same responses");
        assert!(!report.summary.contains("busy"), "{}", report.summary);
        assert!(report.rows[0].lost > 0, "losses are drawn");
    }
}
