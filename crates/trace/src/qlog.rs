//! A qlog trace of one of our connections as a page: what each path did, over time.
//!
//! [`read_qlog`] takes the file in one pass and keeps little of it: figures of each path that
//! become coarser as the trace becomes longer ([`thin`]), sums, and of each kind of event the first
//! and the last ones ([`events`]). A file may be of any length and come from anybody: there is a
//! limit for a record's bytes, for paths, streams and events, and what lies beyond is counted and
//! said on the page. A last record that is cut off is left out, as a process that was killed leaves
//! one.

mod cells;
mod events;
mod goodput;
mod page;
mod read;
mod thin;
mod view;

pub use page::qlog_page;
pub use read::{QlogError, read_qlog};
pub use view::QlogView;
