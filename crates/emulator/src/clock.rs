//! The only place that reads the time.

use units::{Duration, Instant};

/// The wall clock, counted from when the emulator started.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "an emulator is the place where links meet the wall clock")]
    pub(crate) fn start() -> Self {
        Self { origin: std::time::Instant::now() }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::ORIGIN + Duration::from(self.origin.elapsed())
    }
}
