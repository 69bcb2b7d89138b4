//! Captures with known truth: a model of TCP connections over lossy paths, and writers of capture
//! formats.

#![allow(dead_code, reason = "every test uses a part of it")]

pub mod tcp_model;
pub mod wire;

use mendpath_trace::{Analyzer, Options, Report, read_capture};

/// Analyses one capture in memory.
pub fn analyse(capture: &[u8], options: Options) -> Report {
    let mut analyzer = Analyzer::new(options);
    read_capture("test", capture, &mut analyzer, &mut |_| ());
    analyzer.finish()
}
