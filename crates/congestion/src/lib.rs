//! Congestion controllers: acknowledgements, losses and ECN marks of one path go in, a congestion
//! window comes out.
//!
//! A controller is a pure state machine, one file per algorithm. It never reads a clock, never
//! draws random numbers, never logs, never sends, and does not keep count of bytes in flight: the
//! caller does, and tells it. Every quantity that is not named otherwise is in bytes.
//!
//! Start with [`Controller`], the trait, and [`ControllerKind`], which turns a name into a
//! controller.
//!
//! ```
//! use mendpath_congestion::{Ack, Config, ControllerKind};
//! use units::Instant;
//!
//! let kind: ControllerKind = "cubic".parse().unwrap();
//! let mut controller = kind.build(&Config::default());
//! assert_eq!(controller.window(), 12_000);
//! controller.on_ack(&Ack { now: Instant::from_nanos(1), bytes: 1_200, ..Ack::default() }, &[]);
//! assert_eq!(controller.window(), 13_200);
//! ```

#![warn(clippy::missing_errors_doc)]

mod aimd;
mod appeal;
mod auto;
mod balia;
mod base_rtt;
mod bottlenecks;
mod careful;
mod carried;
mod chance;
mod config;
mod controller;
mod coupled;
mod ctcp;
mod ctcp_printed;
mod cubic;
mod dctcp;
mod delay_at_loss;
mod dispersion;
mod events;
mod group;
mod half_load;
mod hystart;
mod kind;
mod lia;
mod loss_floor;
mod newreno;
mod olia;
mod original_hystart;
mod precedents;
#[cfg(test)]
mod properties;
mod queueing;
mod recovery_period;
mod registry;
mod slow_start_rounds;
#[cfg(test)]
mod test_loop;
mod trial;

pub use auto::Auto;
pub use balia::{Balanced, Balia};
pub use bottlenecks::{Bottlenecks, Hold, Load, MAX_PATHS};
pub use careful::Careful;
pub use carried::{Carried, Resumption};
pub use config::{Config, CubicRules};
pub use controller::Controller;
pub use coupled::Coupled;
pub use ctcp::Ctcp;
pub use ctcp_printed::CtcpPrinted;
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use events::{Ack, Loss, PathWindow, Phase, Rtt, State};
pub use kind::{ControllerKind, UnknownController};
pub use lia::{Lia, LinkedIncreases};
pub use newreno::NewReno;
pub use olia::{Olia, Opportunistic};
pub use precedents::Precedents;
