//! The papers' recovery decisions as pure algorithms, one file per idea: which path loses, which one helps, what to send
//! over it, and when to stop.
//!
//! Nothing here sends, codes, stores packets, reads a clock or knows a protocol: packets are numbers, paths are ids, and
//! the caller shows what it holds through [`UnackedView`]. The transport and the TCP models call the same functions.
//!
//! Start with [`fuso::step`], the simplest scheme, and [`cofuso::BlockProgress`], the coding one. Both need a
//! [`PathLoss`] per path.

pub mod cofuso;
pub mod fuso;
pub mod gilbert;
pub mod path_choice;
pub mod proactive;
pub mod residual;

mod path_loss;
mod unacked;

pub use path_choice::PathSample;
pub use path_loss::{PathLoss, Weights};
pub use unacked::{SourceRun, UnackedView};
