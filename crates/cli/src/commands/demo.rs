//! `mendpath demo`.

use super::{
    Signals,
    outputs::{check_outputs, is_stdout, put},
    print,
};
use crate::{
    args::DemoArgs,
    demo::{self, Clock, DemoOptions, Report},
    failure::Failure,
};

/// Responses per row with `--quick`.
const QUICK: u32 = 24;

pub(super) async fn run(args: DemoArgs) -> Result<(), Failure> {
    // Whoever sees the files may end it.
    let mut signals = Signals::new();
    let (json, html, svg) = (args.json.clone(), args.html.clone(), args.svg.clone());
    let options = options(args)?;
    check_outputs(&[("--json", &json), ("--html", &html), ("--svg", &svg)])?;
    let report = tokio::select! {
        report = demo::run(options) => report?,
        ending = signals.next() => {
            let (tried, wrong) = ("stopped the demonstration", "it was interrupted");
            return Err(Failure::stopped(tried, wrong, "Start it again", ending.exit_code()));
        }
    };
    if let Some(file) = &html {
        put(file, &demo::html(&report))?;
    }
    if let Some(file) = &svg {
        put(file, &demo::svg(&report))?;
    }
    if let Some(file) = &json {
        put(file, &to_json(&report))?;
    }
    let to_stdout = [&json, &html, &svg].into_iter().flatten().any(|file| is_stdout(file));
    if !to_stdout {
        print(&format!("{}\n{}\n", demo::table(&report), report.summary))?;
    }
    Ok(())
}

fn options(args: DemoArgs) -> Result<DemoOptions, Failure> {
    let defaults = DemoOptions::default();
    if args.size.get() == 0 || args.size.get() > 1 << 30 {
        return Err(Failure::usage(
            "cannot use --size",
            "responses have 1 byte to 1 GiB",
            "Write for example --size 60kB",
        ));
    }
    let mut recovery = Vec::new();
    for scheme in args.recovery {
        if !recovery.contains(&scheme) {
            recovery.push(scheme);
        }
    }
    Ok(DemoOptions {
        paths: if args.paths.is_empty() { defaults.paths } else { args.paths },
        size: args.size,
        count: args.count.unwrap_or(if args.quick { QUICK } else { defaults.count }),
        recovery: if recovery.is_empty() { defaults.recovery } else { recovery },
        congestion: args.congestion,
        datagram: args.datagram,
        seed: args.seed,
        lanes: args.lanes.map_or(defaults.lanes, usize::from),
        clock: if args.virtual_time { Clock::Virtual } else { Clock::Real },
    })
}

fn to_json(report: &Report) -> String {
    serde_json::to_string_pretty(report).expect("the report is plain data") + "\n"
}
