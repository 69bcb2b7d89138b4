//! `mendpath demo`: what the recovery schemes gain, seen on this machine, without set-up and
//! without root.
//!
//! Every response travels on a new connection between two real endpoints, over real UDP sockets and
//! emulated links between them; with [`Clock::Virtual`] the same transport runs on the same links
//! as a simulation. The paths are all open before the request is sent, and the time from the
//! request to the response's last byte is measured (flow completion time as in CoFUSO
//! section 6.1.2). The n-th response of every row meets the same losses: its links draw from the
//! same seed, from the request on.

mod html;
mod options;
mod report;
mod response;
mod row;
mod run;
mod scenario;
mod svg;
mod table;
mod verdict;
mod virtual_time;

pub use html::html;
pub use options::{Clock, DemoOptions, default_paths};
pub use report::{Report, ReportRow, SCHEMA};
pub use row::{Row, rows};
pub use run::run;
pub use scenario::{ParseSpecError, PathSpec};
pub use svg::svg;
pub use table::table;
pub use verdict::verdict;
