//! How right `mendpath trace analyze` is, by the word of the kernels whose packets were captured.
//!
//! Kernel TCP sends over emulated paths while tcpdump captures at the server, at the client, and
//! in one scenario between them. The kernel tells of every retransmission why it was sent: its
//! tracepoint gives the calls that led there, and the state of the connection. The analysis sees
//! the captures alone. Needs Linux with tracefs, root, `/dev/net/tun`, iproute2 and tcpdump.

mod judge;
mod kernel;
mod network;
mod packets;
mod scenario;

use std::{collections::BTreeMap, error::Error, path::PathBuf, process::ExitCode};

use clap::{Args, builder::PossibleValuesParser};
use figures::TextTable;
use judge::{Analysed, Score, Scores, Truth};
use kernel::{Event, Reason, Tracer};
use network::SERVER_PORT;
use scenario::{SCENARIOS, Scenario};

/// How right `mendpath trace analyze` is, beside what kernels say of their own retransmissions.
///
/// Needs root, tracefs, /dev/net/tun, iproute2 and tcpdump.
#[derive(Args)]
pub struct Arguments {
    /// Only these scenarios.
    #[arg(value_parser = PossibleValuesParser::new(SCENARIOS.iter().map(|scenario| scenario.name)))]
    scenarios: Vec<String>,
    /// Where the randomness comes from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep captures and kernels' traces in this folder, which must be there.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Run nothing: judge what was kept in this folder.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["keep", "seed"])]
    again: Option<PathBuf>,
    /// Name every retransmission that is put into the wrong class.
    #[arg(long)]
    wrong: bool,
}

type Failed = Box<dyn Error + Send + Sync>;

/// Runs it.
pub fn run(arguments: &Arguments) -> ExitCode {
    match all(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn all(arguments: &Arguments) -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let folder = arguments.again.as_deref().or(arguments.keep.as_deref()).unwrap_or(scratch.path());
    let wanted = |scenario: &&Scenario| {
        arguments.scenarios.is_empty() || arguments.scenarios.iter().any(|name| name == scenario.name)
    };
    let mut rows = Vec::new();
    let mut total = Scores::new();
    let mut by_place: BTreeMap<&str, Scores> = BTreeMap::new();
    for scenario in SCENARIOS.iter().filter(wanted) {
        println!("{}: {}", scenario.name, scenario.what);
        for (place, scores) in one(scenario, arguments, folder)? {
            rows.push(row(scenario.name, place, &scores));
            let of_place = by_place.entry(place).or_default();
            for (key, score) in scores {
                add(total.entry(key).or_default(), score);
                add(of_place.entry(key).or_default(), score);
            }
        }
    }
    rows.extend(by_place.iter().map(|(place, scores)| row("all", place, scores)));
    rows.push(row("all", "", &total));
    let headings = [
        "scenario",
        "at the",
        "point",
        "timers",
        "probes",
        "fast",
        "go-back-N",
        "paper: timers",
        "paper: others",
    ];
    println!("\n{}", TextTable { headings: &headings, words: &[0, 1, 2], indent: 0 }.text(rows));
    Ok(())
}

fn add(sum: &mut Score, score: Score) {
    sum.all += score.all;
    sum.right += score.right;
    sum.with_interval += score.with_interval;
    sum.paper += score.paper;
}

/// Runs one scenario; the scores of each capture.
fn one(
    scenario: &Scenario,
    arguments: &Arguments,
    folder: &std::path::Path,
) -> Result<Vec<(&'static str, Scores)>, Failed> {
    let trace = folder.join(format!("{}.trace", scenario.name));
    let (captures, events) = if arguments.again.is_some() {
        (network::kept(scenario, folder), kernel::read_file(&trace)?)
    } else {
        let tracer = Tracer::start()?;
        let captures = network::run(scenario, arguments.seed, folder)?;
        (captures, tracer.finish(&trace)?)
    };
    tell(&events, &captures.counters);
    let (server, client) = (Analysed::read(&captures.server)?, Analysed::read(&captures.client)?);
    let mut truth = Truth::default();
    truth.add(&server, &events, |ports| ports.0 == SERVER_PORT);
    truth.add(&client, &events, |ports| ports.1 == SERVER_PORT);
    println!("  {} calls without a packet, {} packets without a call", truth.missed, truth.unexplained);
    let mut scores = vec![
        ("server", judge::judge(&server, &truth, arguments.wrong)),
        ("client", judge::judge(&client, &truth, arguments.wrong)),
    ];
    if let Some(file) = captures.halfway {
        scores.push(("router", judge::judge(&Analysed::read(&file)?, &truth, arguments.wrong)));
    }
    Ok(scores)
}

fn tell(events: &[Event], counters: &[(&'static str, u64)]) {
    let count = |reason: Reason| events.iter().filter(|event| event.reason == reason).count();
    println!(
        "  traced: {} timers, {} probes, {} fast, {} go-back-N; counters: {}",
        count(Reason::Timer),
        count(Reason::Probe),
        count(Reason::Fast),
        count(Reason::GoBackN),
        counters.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
    );
}

/// A row of the table: right answers of all, by the kernel's reason.
fn row(scenario: &str, place: &str, scores: &Scores) -> Vec<String> {
    let of = |wanted: &dyn Fn(Reason) -> bool| {
        let mut sum = Score::default();
        scores.iter().filter(|((_, reason), _)| wanted(*reason)).for_each(|(_, score)| add(&mut sum, *score));
        sum
    };
    let cell = |right: u64, all: u64| match all {
        0 => "-".to_owned(),
        _ => format!("{right}/{all} {:.1}%", right as f64 / all as f64 * 100.0),
    };
    let right = |reason: Reason| {
        let score = of(&|found| found == reason);
        cell(score.right, score.all)
    };
    let is_timer = |reason: Reason| matches!(reason, Reason::Timer | Reason::Probe);
    let (timers, others) = (of(&is_timer), of(&|reason| !is_timer(reason)));
    let mut points: Vec<(u64, String)> = Vec::new();
    for ((point, _), score) in scores {
        let name = format!("{point:?}").to_lowercase();
        match points.iter_mut().find(|(_, known)| *known == name) {
            Some((count, _)) => *count += score.all,
            None => points.push((score.all, name)),
        }
    }
    points.sort_by_key(|point| std::cmp::Reverse(point.0));
    let points = points.iter().map(|(count, name)| format!("{count} {name}")).collect::<Vec<_>>().join(", ");
    vec![
        scenario.to_owned(),
        place.to_owned(),
        points,
        right(Reason::Timer),
        right(Reason::Probe),
        right(Reason::Fast),
        right(Reason::GoBackN),
        cell(timers.paper, timers.with_interval),
        cell(others.paper, others.with_interval),
    ]
}
