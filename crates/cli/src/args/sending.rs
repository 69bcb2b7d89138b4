//! How either end of the proxy pair sends.

use clap::{Args, value_parser};
use mendpath::{ControllerKind, QlogDirectory, RecoveryKind, SchedulerKind};

use crate::transport::{Choice, REPAIR_SYMBOLS, parse_congestion, parse_qlog, parse_scheduler};

/// How either end of the proxy pair sends, besides its recovery scheme.
#[derive(Debug, Args)]
pub struct SendingArgs {
    /// Congestion controller of what this side sends: auto, cubic, newreno, ctcp, ctcp-printed,
    /// lia, olia, balia, dctcp.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = parse_congestion)]
    pub congestion: ControllerKind,
    /// Which path carries the next packet of what this side sends: earliest-delivery, lowest-rtt,
    /// ecf, blest, round-robin.
    #[arg(long, value_name = "SCHEDULER", default_value = "earliest-delivery", value_parser = parse_scheduler)]
    pub scheduler: SchedulerKind,
    /// Most repair symbols of one block of what this side sends, with --recovery cofuso (its paper's
    /// M_max): more of them mend longer bursts.
    #[arg(long, value_name = "SYMBOLS", default_value_t = REPAIR_SYMBOLS, value_parser = value_parser!(u8).range(1..=32))]
    pub repair_symbols: u8,
    /// Write a trace of every connection into this directory, in qlog's format: what was sent, lost
    /// and mended, and why.
    #[arg(long, value_name = "DIR", value_parser = parse_qlog)]
    pub qlog: Option<QlogDirectory>,
}

impl SendingArgs {
    /// The same with a recovery scheme.
    pub(crate) fn choice(&self, recovery: RecoveryKind) -> Choice {
        let Self { congestion, scheduler, repair_symbols, qlog } = self;
        Choice {
            recovery,
            congestion: *congestion,
            scheduler: *scheduler,
            repair_symbols: *repair_symbols,
            qlog: qlog.clone(),
        }
    }
}
