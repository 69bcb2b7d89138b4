//! `mendpath trace analyze`.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use trace::{Analyzer, FileReport, Limits, Odds, Options, Report, read_capture};
use units::Duration;

use super::{check_writable, print, write};
use crate::{
    args::AnalyzeArgs,
    console,
    failure::{Failure, io_reason},
};

pub(super) fn run(args: AnalyzeArgs) -> Result<(), Failure> {
    for file in [&args.json, &args.html].into_iter().flatten() {
        check_writable(file)?;
    }
    let mut analyzer = Analyzer::new(options(&args));
    let mut wrong = Vec::new();
    for path in &args.files {
        match analyze(path, &mut analyzer) {
            Ok(file) => wrong.extend(file.error.map(|error| format!("{} {error}", path.display()))),
            Err(error) => wrong.push(format!("{} cannot be read: {}", path.display(), io_reason(&error))),
        }
    }
    let report = analyzer.finish();
    if let Some(file) = &args.html {
        write(file, &trace::html(&report))?;
    }
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&report).expect("the report is plain data") + "\n";
        if to_stdout { print(&text) } else { write(file, &text)? }
    }
    // A name that is no capture is answered by one line.
    if !to_stdout && (report.packets.total > 0 || wrong.is_empty()) {
        print(&trace::text(&report));
    }
    verdict(&report, &wrong)
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

fn options(args: &AnalyzeArgs) -> Options {
    let limits = Limits { connections: args.max_connections as usize, ..Limits::default() };
    Options {
        scale: args.cluster,
        timeout_at: args.timeout_at.map(Duration::from_millis),
        tail: args.tail,
        loss: args.loss,
        bandwidth: args.bandwidth,
        odds: if args.measured_odds { Odds::Measured } else { Odds::Paper },
        listed: args.list,
        limits,
    }
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
