//! The one place that reads the wall clock.
//!
//! The transport below counts [`units::Instant`] from an origin of its caller's choice; here the
//! origin is the first reading in this process.

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
    let at = ORIGIN.get()?.checked_add(time::Duration::from_nanos(at.as_nanos()))?;
    Some(tokio::time::Instant::from_std(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_becomes_a_timer_as_far_in_the_future() {
        let earlier = now();
        let timers = [earlier, earlier + units::Duration::from_millis(250)].map(|at| timer(at).unwrap());
        assert_eq!(timers[1] - timers[0], time::Duration::from_millis(250));
        assert!(now() >= earlier);
    }
}
