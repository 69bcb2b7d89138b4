//! SLP's trace analysis on packet captures: which lost packets cost a timeout, and what duplicating
//! them would save.
//!
//! The crate reads pcap and pcapng, follows TCP connections with bounded memory, finds
//! retransmissions, tells timeouts from fast retransmissions, and answers the questions of SLP's
//! section II-B and table I. It never captures, never sends, and does not look into what TCP
//! carries. Every byte of a capture is taken as hostile.
//!
//! Start with [`Analyzer`], which takes packets and gives a [`Report`], and [`read_capture`], which
//! feeds it a file.
//!
//! ```
//! use mendpath_trace::{Analyzer, Options, read_capture};
//!
//! // A capture without packets: a header of the classic format, Ethernet.
//! let file = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
//! let mut analyzer = Analyzer::new(Options::default());
//! let read = read_capture("empty.pcap", &file[..], &mut analyzer, &mut |_| ());
//! assert_eq!(read.packets, 0);
//! let report = analyzer.finish();
//! assert!(mendpath_trace::text(&report).contains("no TCP"));
//! ```

mod analyzer;
mod bars;
mod blocks;
mod capture;
mod charts;
mod clock;
mod clusters;
mod connection;
mod counted;
mod direction;
mod flags;
mod frame;
mod grouping;
mod html;
mod intervals;
mod loops;
mod options;
mod percentiles;
mod positions;
mod qlog;
mod report;
mod reservoir;
mod retransmission;
mod segment;
mod sequence_view;
mod table;
mod text;
mod verdict;
mod what_if;

pub use analyzer::Analyzer;
pub use capture::{is_capture, read_capture};
pub use clock::Class;
pub use clusters::{Scale, Split, Usable, two_means};
pub use flags::FlagCategory;
pub use frame::LinkLayer;
pub use grouping::Grouping;
pub use html::html;
pub use intervals::{IntervalBar, Intervals};
pub use loops::CapturePoint;
pub use options::{Limits, Method, Odds, Options};
pub use percentiles::PERCENTILES;
pub use positions::{PositionSeries, Share};
pub use qlog::{QlogError, QlogView, qlog_page, read_qlog};
pub use report::{
    ArbiterInput, CapturePoints, ClassCounts, Connections, FileReport, LossEstimate, LostPacket, Packets,
    Report, Resent, RetransmissionCounts, SCHEMA, WiresharkCounts,
};
pub use retransmission::{Filled, Half, Heading, Position, Retransmission, Window};
pub use segment::{Endpoint, TcpFlags};
pub use sequence_view::WiresharkKind;
pub use text::text;
pub use verdict::{MarkClass, VerdictRow};
pub use what_if::{Table, Variant, WhatIf};
