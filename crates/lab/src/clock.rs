//! The only place that reads the time or waits for it.

use units::Duration;

use crate::{Cancel, LabError};

/// A moment on the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(std::time::Instant);

impl Moment {
    #[allow(clippy::disallowed_methods, reason = "the lab times real programs on the wall clock")]
    pub(crate) fn now() -> Self {
        Self(std::time::Instant::now())
    }

    /// The time since.
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed().into()
    }

    /// The time from an earlier moment to this.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0).into()
    }
}

/// The system's monotonic clock, which programs in other namespaces read as well.
pub(crate) fn monotonic() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .map_or(core::time::Duration::ZERO, Into::into);
    time.into()
}

/// Waits a short time.
#[allow(clippy::disallowed_methods, reason = "programs under test tell nobody when they are ready")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time.into());
}

/// Waits, and looks now and then whether it is worth going on.
pub(crate) fn wait(time: Duration, cancel: &Cancel) -> Result<(), LabError> {
    let start = Moment::now();
    loop {
        cancel.check()?;
        let left = time - start.elapsed();
        if left.is_zero() {
            return Ok(());
        }
        pause(left.min(Duration::from_millis(50)));
    }
}

/// Calls `ready` every few milliseconds until it returns something, or `limit` is over (`None`).
pub(crate) fn poll_until<T>(
    limit: Duration,
    cancel: &Cancel,
    mut ready: impl FnMut() -> Result<Option<T>, LabError>,
) -> Result<Option<T>, LabError> {
    let start = Moment::now();
    loop {
        cancel.check()?;
        if let Some(found) = ready()? {
            return Ok(Some(found));
        }
        if start.elapsed() >= limit {
            return Ok(None);
        }
        pause(Duration::from_millis(5));
    }
}
