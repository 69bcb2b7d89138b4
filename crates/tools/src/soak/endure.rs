//! Everything at once for a long time: whether every byte is right, nothing hangs, and memory stays
//! where it is.
//!
//! Programs of every kind work all the time, each with pauses of its own. Meanwhile a path is cut
//! now and then, never both at once, and each end is killed (`kill -9`) four times and started
//! again, the server with its state. So each end has five lives. All choices come from the seed;
//! how they meet does not.

mod figure;
mod growth;
mod ledger;
mod stage;
mod work;

use std::{process::ExitCode, sync::Arc, time::Duration};

use emulator::PathId;
use mendpath_cli::{backoff::pause, console::say};
use netsim::link::OutageKind;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};
use units::Bytes;

use crate::soak::{Args, Outcome, PATHS, host::mix, print};
use growth::{Growth, Sample};
use ledger::Ledger;
use stage::{Role, Stage};

/// Times that an end lives: each is killed at all its ends but the last.
const LIVES: u32 = 5;
/// Between two looks at memory.
const LOOK: Duration = Duration::from_secs(1);
/// What is under way at the end may take this long to finish.
const FINISH: Duration = Duration::from_secs(90);
/// After everything has ended, until descriptors must be closed: a server forgets a client that was
/// killed after a minute.
const SETTLE: Duration = Duration::from_secs(75);
/// Descriptors that may be open at the end beyond those at the beginning: runtimes keep a few.
const SPARE_DESCRIPTORS: usize = 8;

/// Runs it, prints what came of it, and draws the figure.
pub async fn endure(args: &Args) -> Outcome<ExitCode> {
    let total = Duration::from_secs(args.minutes * 60);
    let stage = Arc::new(Stage::start(args).await?);
    let ledger = Arc::new(Ledger::default());
    let began = Instant::now();
    let end = began + total;
    let idle = stage.look().await?;

    let mut cutting = JoinSet::new();
    cutting.spawn(cut_paths(stage.clone(), args.seed));
    let restarting = tokio::spawn(restart(stage.clone(), ledger.clone(), began, total));
    let sampling = tokio::spawn(sample(stage.clone(), began, end));
    let mut working = JoinSet::new();
    for (index, kind) in (0..).zip(work::CREW) {
        working.spawn(work::work(*kind, stage.clone(), ledger.clone(), mix(args.seed) ^ index, end));
    }
    let samples = sampling.await??;
    cutting.shutdown().await;
    stage.restore_paths()?;

    let mut hung = 0;
    loop {
        match timeout_at(end + FINISH, working.join_next()).await {
            Ok(Some(done)) => done?,
            Ok(None) => break,
            Err(_) => {
                hung = working.len();
                working.shutdown().await;
                break;
            }
        }
    }
    // Whether the pair came back from its last death counts, however soon after it the load ended.
    restarting.await?;
    let rest = settled(&stage, &idle).await?;
    let good = report(args, &stage, &ledger, &samples, (idle, rest), hung).await?;
    if let Some(file) = &args.figure {
        std::fs::write(file, figure::draw(args, began, &samples, &ledger))?;
        print(format_args!("figure: {}", file.display()));
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the ends look like when all is over: as soon as they have closed what they opened, or when
/// they had time enough.
async fn settled(stage: &Stage, idle: &[stage::Look; 2]) -> Outcome<[stage::Look; 2]> {
    let end = Instant::now() + SETTLE;
    loop {
        pause(LOOK).await;
        let now = stage.look().await?;
        let open =
            now.iter().zip(idle).any(|(now, idle)| now.descriptors > idle.descriptors + SPARE_DESCRIPTORS);
        if !open || Instant::now() >= end {
            return Ok(now);
        }
    }
}

/// Cuts one path after the other, with time between.
async fn cut_paths(stage: Arc<Stage>, seed: u64) {
    for round in 0.. {
        let random = mix(seed ^ 0xc0_ffee ^ mix(round));
        pause(Duration::from_millis(8_000 + random % 16_000)).await;
        let path = PATHS[(random >> 32) as usize % PATHS.len()];
        let length = Duration::from_millis(500 + (random >> 16) % 5_500);
        if cut(&stage, path, length).await.is_err() {
            return;
        }
    }
}

async fn cut(stage: &Stage, path: PathId, length: Duration) -> Outcome<()> {
    stage.emulator.cut(path, None, OutageKind::Drop)?;
    stage.count_cut();
    pause(length).await;
    Ok(stage.emulator.restore(path, None)?)
}

/// Kills the ends in turn, so that neither is ever young when the other dies.
async fn restart(stage: Arc<Stage>, ledger: Arc<Ledger>, began: Instant, total: Duration) {
    for half in 1..2 * LIVES {
        // Lives of the server end at fifths of the time, those of the client between them; the
        // first of these is short.
        let role = if half % 2 == 0 { Role::Server } else { Role::Client };
        if half == 1 {
            continue;
        }
        tokio::time::sleep_until(began + total * half / (2 * LIVES)).await;
        // Coming back took too long for all of them, which the ledger tells.
        if Instant::now() >= began + total {
            return;
        }
        say(format_args!("soak: kill -9 of the {}", role.name()));
        let outage = ledger.outage_begins();
        if let Err(error) = stage.restart(role).await {
            ledger.note_fault(format!("the {} could not be started again: {error}", role.name()));
            return;
        }
        if let Err(error) = work::until_it_works(&stage).await {
            ledger.note_fault(format!("after the {} was started again: {error}", role.name()));
        }
        ledger.outage_ends(outage, role);
    }
}

/// Looks at both ends until `end`.
async fn sample(stage: Arc<Stage>, began: Instant, end: Instant) -> Outcome<Vec<Sample>> {
    let mut samples = Vec::new();
    let mut next = began;
    while next < end {
        tokio::time::sleep_until(next).await;
        // While an end is being started there is nothing to look at.
        if let Ok(ends) = stage.look().await {
            samples.push(Sample { at: began.elapsed(), ends });
        }
        next += LOOK;
    }
    Ok(samples)
}

/// Prints what happened; whether it is as it should be.
async fn report(
    args: &Args,
    stage: &Stage,
    ledger: &Ledger,
    samples: &[Sample],
    (idle, rest): ([stage::Look; 2], [stage::Look; 2]),
    hung: usize,
) -> Outcome<bool> {
    print(format_args!(
        "{} min, two paths of {}, {} round trip, {} loss in each direction, seed {}; {} cuts",
        args.minutes,
        args.rate,
        args.rtt,
        args.loss,
        args.seed,
        stage.cuts()
    ));
    let mut good = ledger.print() && hung == 0;
    if hung > 0 {
        print(format_args!("{hung} programs had not ended {FINISH:?} after the load: HUNG"));
    }
    for role in Role::BOTH {
        let growth = Growth::of(samples, role);
        growth.print(role);
        let limit = args.growth.get() as f64 / f64::from(1 << 20);
        if growth.exceeds(limit) {
            print(format_args!("{}: memory GROWS by more than {limit} MiB an hour", role.name()));
            good = false;
        }
        let (before, after) = (idle[role as usize], rest[role as usize]);
        let most = samples.iter().map(|sample| sample.ends[role as usize].descriptors).max().unwrap_or(0);
        print(format_args!(
            "{}: {} descriptors before the load, {most} at most, {} after it",
            role.name(),
            before.descriptors,
            after.descriptors
        ));
        if after.descriptors > before.descriptors + SPARE_DESCRIPTORS {
            print(format_args!("{}: descriptors LEAK", role.name()));
            good = false;
        }
        let peaks = samples.iter().map(|sample| sample.ends[role as usize].peak);
        let peak = peaks.fold(after.peak, Bytes::max);
        if peak > args.memory {
            print(format_args!("{}: {peak} at its peak are MORE than {}", role.name(), args.memory));
            good = false;
        }
    }
    Ok(good)
}
