//! `mendpath trace analyze`.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use trace::{Analyzer, FileReport, Limits, Method, Odds, Options, Report, is_capture, read_capture};
use units::Duration;

use super::{
    outputs::{check_outputs, is_stdout, put, same_file, start_of},
    print,
};
use crate::{
    args::AnalyzeArgs,
    console,
    failure::{Failure, io_reason},
};

pub(super) fn run(args: AnalyzeArgs) -> Result<(), Failure> {
    let mut analyzer = Analyzer::new(options(&args)?);
    check_captures(&args)?;
    check_outputs(&[("--json", &args.json), ("--html", &args.html)])?;
    let mut wrong = Vec::new();
    for path in &args.files {
        match analyze(path, &mut analyzer) {
            Ok(file) => wrong.extend(file.error.map(|error| format!("{} {error}", path.display()))),
            Err(error) => wrong.push(format!("{} cannot be read: {}", path.display(), io_reason(&error))),
        }
    }
    let report = analyzer.finish();
    let to_stdout = [&args.html, &args.json].into_iter().flatten().any(|file| is_stdout(file));
    let written = put_files(&report, &args);
    // A name that is no capture is answered by one line.
    let has_table = !to_stdout && (report.packets.total > 0 || wrong.is_empty());
    let printed = if has_table { print(&trace::text(&report)) } else { Ok(()) };
    written.and(printed).and(verdict(&report, &wrong))
}

/// Each of them although another cannot be written: what came through a pipe does not come again.
fn put_files(report: &Report, args: &AnalyzeArgs) -> Result<(), Failure> {
    let html = args.html.as_deref().map_or(Ok(()), |file| put(file, &trace::html(report)));
    let json = args.json.as_deref().map_or(Ok(()), |file| {
        let text = serde_json::to_string_pretty(report).expect("the report is plain data") + "\n";
        put(file, &text)
    });
    html.and(json)
}

/// Captures are hard to come by: no output takes the place of one.
fn check_captures(args: &AnalyzeArgs) -> Result<(), Failure> {
    for file in [&args.json, &args.html].into_iter().flatten().filter(|file| !is_stdout(file)) {
        let tried = format!("cannot write {}", file.display());
        if args.files.iter().any(|input| !is_stdout(input) && (input == file || same_file(input, file))) {
            return Err(Failure::usage(tried, "it is one of the captures to be read", "Name another file"));
        }
        if starts_as_capture(file) {
            let next = "Name another file, or remove it first if you no longer need it";
            return Err(Failure::usage(tried, "it holds a capture", next));
        }
    }
    Ok(())
}

/// Whether there is a file that begins as captures do.
fn starts_as_capture(file: &Path) -> bool {
    start_of(file, 8).is_some_and(|start| is_capture(&start))
}

/// Success if everything was read and there was TCP in it.
fn verdict(report: &Report, wrong: &[String]) -> Result<(), Failure> {
    if !wrong.is_empty() {
        let (tried, next) = match report.has_no_tcp() {
            true => ("there is nothing to analyse", "Give captures in the format pcap or pcapng"),
            false => {
                ("cannot analyse everything", "What could be read is reported; mend or leave out the rest")
            }
        };
        return Err(Failure::new(tried, wrong.join("; "), next));
    }
    if !report.has_no_tcp() {
        return Ok(());
    }
    let tried = "there is nothing to analyse";
    if let Some((number, _)) = report.files.iter().find_map(|file| file.unknown_link) {
        let reason = format!("the packets' link-layer type is {number}, which is not supported");
        return Err(Failure::new(tried, reason, "Capture on Ethernet, Linux cooked, raw IP or BSD loopback"));
    }
    let next = "Capture with a filter that lets TCP through, such as: tcpdump -s 96 -w FILE tcp";
    Err(Failure::new(tried, "there is no TCP in the captures", next))
}

fn options(args: &AnalyzeArgs) -> Result<Options, Failure> {
    let limits = Limits { connections: args.max_connections as usize, ..Limits::default() };
    let of_paper = args.cluster.is_some() || args.timeout_at.is_some();
    if of_paper && args.method == Some(Method::AckClock) {
        let next = "Leave out --method, or give --method paper";
        let reason = "--cluster and --timeout-at are about intervals, which the ACK clock does not use";
        return Err(Failure::usage("cannot use --method ack-clock", reason, next));
    }
    let by_default = if of_paper { Method::Paper } else { Method::AckClock };
    Ok(Options {
        method: args.method.unwrap_or(by_default),
        scale: args.cluster,
        timeout_at: args.timeout_at.map(Duration::from_millis),
        tail: args.tail,
        loss: args.loss,
        bandwidth: args.bandwidth,
        odds: if args.measured_odds { Odds::Measured } else { Odds::Paper },
        listed: args.list,
        limits,
    })
}

fn analyze(path: &Path, analyzer: &mut Analyzer) -> io::Result<FileReport> {
    let (input, length): (Box<dyn Read + Send>, u64) = if path == Path::new("-") {
        (Box::new(io::stdin()), 0)
    } else {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        (Box::new(file), length)
    };
    let bar = console::progress(length, "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
    let file = read_capture(&path.display().to_string(), input, analyzer, &mut |read| bar.set_position(read));
    bar.finish_and_clear();
    Ok(file)
}
