//! One long download, during which a path is cut.

use std::sync::Arc;

use emulator::PathId;
use mendpath_cli::backoff::pause;
use netsim::link::OutageKind;
use tokio::time::Instant;
use units::Duration;

use crate::soak::{Args, Outcome, PATHS, fetch::Fetch, host::source, pair::Pair, print};

/// Fetches and says how it went.
pub async fn transfer(pair: &Arc<Pair>, args: &Args) -> Outcome<()> {
    let source = source().await?;
    let size = args.size.get();
    let mut cut = None;
    let mut fetch = Fetch::start(pair.connect(source).await?, args.seed, size).await?;
    let started = Instant::now();
    while fetch.step().await? {
        if cut.is_none() && fetch.received >= size / 4 {
            cut = Some(tokio::spawn(cut_path(pair.clone(), PATHS[usize::from(args.cut_path)], args.cut)));
        }
    }
    let took = started.elapsed();
    if let Some(cut) = cut {
        let (from, until) = cut.await??;
        let ended = started + took;
        print(format_args!(
            "cut path {} from {:.1} s to {:.1} s after the start{}",
            args.cut_path,
            (from - started).as_secs_f64(),
            (until - started).as_secs_f64(),
            if until > ended { ", longer than the transfer took" } else { "" }
        ));
    }
    print(format_args!(
        "{} bytes in {:.2} s: goodput {:.1} Mbit/s, longest pause {:.0} ms, before byte {}",
        fetch.received,
        took.as_secs_f64(),
        fetch.received as f64 * 8.0 / took.as_secs_f64() / 1e6,
        fetch.longest_pause.0.as_secs_f64() * 1e3,
        fetch.longest_pause.1
    ));
    Ok(())
}

async fn cut_path(pair: Arc<Pair>, path: PathId, length: Duration) -> Outcome<(Instant, Instant)> {
    pair.emulator.cut(path, None, OutageKind::Drop)?;
    let from = Instant::now();
    pause(length.into()).await;
    pair.emulator.restore(path, None)?;
    Ok((from, Instant::now()))
}
