//! What the reports of Mendpath's tools have in common: charts as SVG, pages, tables for terminals,
//! and summaries of numbers.
//!
//! [`Chart`] draws lines, dots, error bars and histograms over axes that may be logarithmic,
//! [`Bars`] horizontal bars with names; a [`Blank`] says why there is neither. All come in two
//! dresses: for a [`page`], where styles give the colours and light and dark backgrounds work, and
//! on a [`Sheet`], a file of its own with title, panels and key. An error bar that the axis cuts off
//! ends in an arrow there instead of a cap.
//!
//! A [`page`] needs nothing from elsewhere; a [`TextTable`] is for a terminal; a [`Summary`] is
//! what a set of times comes to.
//!
//! Drawing is plotters' business, filling templates askama's, aligning columns comfy-table's. Equal
//! charts give equal text, so that a figure under version control changes only when its numbers do.
//! Nothing here reads or writes files.
//!
//! ```
//! use mendpath_figures::{Axis, Chart, Layer, Sheet, steps};
//!
//! let cdf = Chart {
//!     label: "Completion times",
//!     x: Axis::new("completion time (ms)", 1.0, 100.0).log(),
//!     y: Axis::new("share of flows (%)", 0.0, 1.0).labelled(mendpath_figures::percent),
//!     layers: vec![Layer::Line { series: 0, points: steps(&[4.0, 2.0, 70.0]) }],
//! };
//! let svg = Sheet { title: "An example", notes: &[], panels: &[("(a)", &cdf)], key: &["tcp"] }.svg();
//! assert!(svg.starts_with("<svg") && svg.contains("completion time (ms)"));
//! ```

mod bars;
mod blank;
mod chart;
mod dress;
mod labels;
pub mod page;
mod sheet;
mod size;
mod summary;
mod text_table;
mod whisker;

pub use bars::{Bars, NamedBar};
pub use blank::Blank;
pub use chart::{Axis, Chart, ErrorBar, Layer, steps};
pub use dress::{COLOURS, DASHES};
pub use labels::{percent, short, whole};
pub use sheet::{PANEL, Sheet};
pub use size::Size;
pub use summary::Summary;
pub use text_table::TextTable;

/// Something that can be drawn in either dress.
pub trait Picture {
    /// As part of a page: classes instead of colours (see [`page::style`]), scaled to the page's
    /// width.
    fn for_page(&self, size: Size) -> String;

    /// As a panel of a sheet: plain colours.
    fn for_sheet(&self, size: Size) -> String;

    /// How high it is on a sheet, in pixels.
    fn height(&self, size: Size) -> u32 {
        size.height
    }
}
