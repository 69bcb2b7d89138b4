//! Runs the responses of all rows, several at a time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use mendpath::Identity;
use tokio::task::JoinSet;

use super::{
    DemoOptions, Report, ReportRow, Row,
    response::{Measured, measure},
    rows,
};
use crate::{console::progress, failure::Failure};

const BAR: &str = "{msg} [{bar:32}] {pos}/{len} responses, {eta} left";

/// Everything that the workers share.
struct Work {
    options: DemoOptions,
    rows: Vec<Row>,
    identity: Identity,
    next: AtomicUsize,
}

impl Work {
    /// The next response: the same number for every row before the next number, so that a noisy moment of this machine hits all
    /// rows alike.
    fn take(&self) -> Option<(usize, u32)> {
        let item = self.next.fetch_add(1, Ordering::Relaxed);
        let index = u32::try_from(item / self.rows.len()).ok()?;
        (index < self.options.count).then_some((item % self.rows.len(), index))
    }
}

/// Measures every response.
///
/// # Errors
/// When a response cannot be measured, with its row and number.
pub async fn run(options: DemoOptions) -> Result<Report, Failure> {
    let failed = |wrong: String| {
        Failure::new("cannot finish the demonstration", wrong, "Try again; with -v the log says more")
    };
    let rows = rows(&options);
    let identity = Identity::self_signed(["demo"]).map_err(|error| failed(error.to_string()))?;
    let total = rows.len() as u64 * u64::from(options.count);
    let mut measured: Vec<Vec<Option<Measured>>> = vec![vec![None; options.count as usize]; rows.len()];
    let work = Arc::new(Work { rows, identity, next: AtomicUsize::new(0), options });

    let bar = progress(total, BAR).with_message("measuring");
    let mut workers = JoinSet::new();
    let (results, mut arriving) = tokio::sync::mpsc::channel(64);
    for _ in 0..work.options.lanes {
        let (work, results) = (work.clone(), results.clone());
        workers.spawn(async move {
            while let Some((row, index)) = work.take() {
                let result = measure(&work.rows[row], index, &work.options, &work.identity).await;
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
    Ok(Report::new(&work.options, rows.collect()))
}
