//! The one place that reads the wall clock.
//!
//! The transport below counts [`units::Instant`] from an origin of its caller's choice; here the origin is the first
//! reading in this process.

use std::{sync::OnceLock, time};

use units::Instant;

static ORIGIN: OnceLock<time::Instant> = OnceLock::new();

/// Now, for the transport.
#[allow(clippy::disallowed_methods, reason = "the endpoint is where the transport's `now` comes from")]
pub(crate) fn now() -> Instant {
    let now = time::Instant::now();
    let origin = *ORIGIN.get_or_init(|| now);
    Instant::from_nanos(u64::try_from(now.saturating_duration_since(origin).as_nanos()).unwrap_or(u64::MAX))
}

/// The timer's moment for `at`; `None` if the clock cannot represent it, which means never.
pub(crate) fn timer(at: Instant) -> Option<tokio::time::Instant> {
    let origin = *ORIGIN.get_or_init(|| panic!("a deadline stems from an earlier reading of this clock"));
    let at = origin.checked_add(time::Duration::from_nanos(at.as_nanos()))?;
    Some(tokio::time::Instant::from_std(at))
}
