//! The arguments of `mendpath trace`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use units::{BitRate, LossRate};

use crate::word;

/// What there is to do with captures.
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Find out which lost packets cost a timeout, and what duplicating them would save.
    #[command(
        long_about = "Find out which lost packets cost a timeout, and what duplicating them would save.\n\n\
                  Reads packet captures (pcap, pcapng), follows their TCP connections, finds retransmissions, tells timeouts from fast \
                  retransmissions by whether an acknowledgement had just come, and shows which positions and flags cost timeouts, what sending SYN, PSH and the last \
                  packets twice would have saved, and which lost packets SLP would have duplicated. Memory does not grow with the \
                  captures. Several files are read in the given order, as one trace."
    )]
    Analyze(AnalyzeArgs),
}

/// Arguments of `trace analyze`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  tcpdump -i eth0 -s 96 -w trace.pcap tcp      capture some hours; headers suffice\n  \
                  mendpath trace analyze trace.pcap\n  \
                  mendpath trace analyze monday.pcapng tuesday.pcapng --html report.html --json report.json\n  \
                  zstd -dc trace.pcap.zst | mendpath trace analyze -")]
pub struct AnalyzeArgs {
    /// Captures in the order of time; `-` for stdin.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write the results as JSON (`-` for stdout, instead of the tables).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with pictures and the numbers (`-` for stdout, instead of the tables).
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// How timeouts are told from fast retransmissions: ack-clock (what leaves right after an
    /// acknowledgement is fast), paper (two clusters of intervals) [default: ack-clock; paper with
    /// --cluster or --timeout-at].
    #[arg(long, value_name = "METHOD", value_parser = parse_method)]
    pub method: Option<::trace::Method>,
    /// What the paper's method clusters: linear (ms), log10 (of ms), round-trips [default:
    /// round-trips where handshakes were captured, else log10].
    #[arg(long, value_name = "SCALE", value_parser = parse_scale, conflicts_with = "timeout_at")]
    pub cluster: Option<::trace::Scale>,
    /// Take longer intervals for timeouts, without clustering.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub timeout_at: Option<u64>,
    /// Packets at each end of a connection that the what-if duplicates.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub tail: u32,
    /// Loss rate that the arbiter assumes, such as 3% [default: that of the trace, or SLP's 2% where it
    /// has fewer than 1,000 packets].
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub loss: Option<f64>,
    /// Bandwidth that the arbiter assumes.
    #[arg(long, value_name = "RATE", default_value = "10mbit")]
    pub bandwidth: BitRate,
    /// Let the arbiter use the shares of timeouts of this trace as q, in place of SLP's 1 for SYN
    /// and 0.1 for PSH.
    #[arg(long)]
    pub measured_odds: bool,
    /// Lost packets, and retransmissions, that the JSON lists one by one.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub list: usize,
    /// Connections followed at a time; more take more memory, about 1 kB each and what they have
    /// under way.
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub max_connections: u32,
}

fn parse_method(text: &str) -> Result<::trace::Method, String> {
    use ::trace::Method::{AckClock, Paper};
    word::read(&[(AckClock, "ack-clock"), (Paper, "paper")], text)
}

fn parse_scale(text: &str) -> Result<::trace::Scale, String> {
    use ::trace::Scale::{Linear, Log10, RoundTrips};
    word::read(&[(Linear, "linear"), (Log10, "log10"), (RoundTrips, "round-trips")], text)
}

fn parse_share(text: &str) -> Result<f64, String> {
    let rate: LossRate = text.parse().map_err(|error: units::ParseUnitError| error.to_string())?;
    Ok(rate.get())
}
