//! Workloads: who sends how much to whom, and when. Each is plain data that turns into a list of
//! [`FlowSpec`]s.

pub mod incast;
pub mod matrix;
pub mod mix;
pub mod poisson;
pub mod sizes;

use units::{Duration, Instant};

use super::HostId;

pub use incast::Incast;
pub use mix::Mix;
pub use poisson::{Pairs, Poisson};
pub use sizes::{SizeTable, TableError};

/// One flow to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowSpec {
    /// When it starts.
    pub at: Instant,
    /// Who sends.
    pub from: HostId,
    /// Who receives.
    pub to: HostId,
    /// How much, in bytes of the application.
    pub bytes: u64,
}

/// Hosts by number, from the first (included) to the last (excluded).
pub type HostRange = std::ops::Range<u32>;

/// Sorts by time and keeps the order among equals.
fn by_time(mut flows: Vec<FlowSpec>) -> Vec<FlowSpec> {
    flows.sort_by_key(|flow| flow.at);
    flows
}

/// `at` moved by `seconds`.
fn later(at: Instant, seconds: f64) -> Instant {
    at + Duration::from_secs_f64(seconds)
}
