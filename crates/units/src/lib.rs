//! Units in types: [`Instant`] and [`Duration`] in nanoseconds from an arbitrary origin, [`Bytes`],
//! [`BitRate`] and [`LossRate`]; and [`percentile`], of whatever they measure.
//!
//! This crate never reads a clock and has no dependencies. An [`Instant`] means whatever its
//! producer says its origin is: the start of a simulation, or of a process. Start with [`Instant`]
//! and [`BitRate::time_to_send`].
//!
//! ```
//! use mendpath_units::{BitRate, Duration, Instant};
//!
//! let rate: BitRate = "8mbit".parse().unwrap();
//! let sent = Instant::ORIGIN + rate.time_to_send(1_000);
//! assert_eq!(sent - Instant::ORIGIN, Duration::from_millis(1));
//! ```

#![warn(clippy::missing_errors_doc)]

mod amount;
mod parse;
mod percentile;
mod time;

pub use amount::{BitRate, Bytes, LossRate};
pub use parse::ParseUnitError;
pub use percentile::percentile;
pub use time::{Duration, Instant};
