//! The papers' recovery decisions as pure algorithms, one file per idea: which path loses, which
//! one helps, what to send over it, and when to stop.
//!
//! Nothing here sends, codes, stores packets, reads a clock or knows a protocol: packets are
//! numbers ([`PacketNumber`]), paths are ids ([`PathId`]), and the caller shows what it holds
//! through [`UnackedView`]. The transport and the TCP models call the same functions.
//!
//! Start with [`fuso::step`], the simplest scheme, and [`cofuso::BlockProgress`], the coding one.
//! Both need a [`PathLoss`] per path.
//!
//! ```
//! use mendpath_recovery::{PathLoss, Weights, cofuso::{BlockParameters, BlockSize}};
//!
//! let mut path = PathLoss::new(Weights::default());
//! path.on_sent(10);
//! path.on_lost(1);
//! path.on_sent(10);
//! let size = BlockParameters::default().block_size(50, path.estimate()); // the path loses about 7 %
//! assert_eq!(size, BlockSize { k: 42, m: 3 });
//! ```

#![warn(clippy::missing_errors_doc)]

pub mod cofuso;
pub mod ctcp_blocks;
pub mod ctcp_efficiency;
pub mod ctcp_loss;
pub mod ctcp_schedule;
pub mod fuso;
pub mod gilbert;
pub mod htpc_model;
pub mod htpc_redundancy;
pub mod htpc_state;
pub mod in_time;
pub mod loss_history;
pub mod path_choice;
pub mod proactive;
pub mod repair_budget;
pub mod repair_size;
pub mod repair_yield;
pub mod slp_arbiter;
pub mod slp_duplicates;
pub mod slp_goodput;
pub mod slp_odds;
pub mod slp_window;
pub mod streaming;

mod ids;
mod path_loss;
#[cfg(test)]
mod residual;
mod unacked;

pub use ids::{PacketNumber, PathId};
pub use path_choice::PathSample;
pub use path_loss::{PathLoss, Weights};
pub use unacked::{Exposed, SourceRun, UnackedView};
