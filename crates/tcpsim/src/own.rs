//! Hooks for parts of one's own: congestion controllers and schedulers ([`schedulers`](crate::schedulers)
//! has some). Schemes have theirs in
//! [`connection::scheme`](crate::connection::scheme).

mod controller;
mod scheduler;

pub use controller::{Acked, OwnController, WindowControl};
pub use scheduler::{OwnScheduler, Scheduler, SubflowView, Unsent};
